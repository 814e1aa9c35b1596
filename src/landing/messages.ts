/**
 * The messages of the three chains, as they stand in commits: validated when read, bounded when
 * written.
 *
 * Fields at the top level are shared with weave, name and type. Ours live in one object, `agentq`,
 * which other clients ignore and whose absence every reader here must bear. Fields nobody here knows
 * are kept as they are.
 */
import { Buffer } from "node:buffer";
import * as z from "zod/mini";
import { AgentqError } from "../errors.ts";
import type { Oid } from "../git/types.ts";

/** Larger messages are refused before they are parsed. */
export const MAX_MESSAGE_BYTES = 1024 * 1024;

/** What agentq itself writes stays well below that. */
export const MAX_REPORT_BYTES = 64 * 1024;
export const MAX_LIST_BYTES = 64 * 1024;
export const MAX_COMMAND_BYTES = 64 * 1024;
export const MAX_TITLE_BYTES = 4 * 1024;

/** Stands for "no commit" where a message must hold an id: the branch did not exist yet. */
export const NO_TIP: Oid = "0".repeat(40);

/** Builds something once, when it is first asked for: schemas cost start-up, and a run needs few. */
function once<T>(build: () => T): () => T {
  let built: { value: T } | undefined;
  return () => (built ??= { value: build() }).value;
}

/** What the schemas are made of, each made once. */
const parts = once(() => {
  const text = z.string();
  const oid = text.check(z.regex(/^[0-9a-f]{40}$/, "is not an object id"));
  const number = z.number();
  const count = number.check(
    z.refine((n) => Number.isSafeInteger(n) && n >= 0, "is not a count"),
  );
  const nullableText = z.nullable(text);
  const nullableOid = z.nullable(oid);
  const texts = z.array(text);
  return {
    text,
    oid,
    number,
    count,
    version: z.literal(1),
    nullableText,
    optionalText: z.optional(nullableText),
    nullableOid,
    optionalOid: z.optional(nullableOid),
    optionalTexts: z.optional(texts),
    /** Ancestors in the same chain, nearest first: `[ticket, commit]`; see skip.ts. */
    optionalSkip: z.optional(z.array(z.tuple([count, oid])).check(z.maxLength(128))),
  };
});

const genesisSchema = once(() =>
  z.looseObject({ kind: z.literal("genesis"), chain: parts().text })
);

const ticketSchema = once(() => {
  const { text, oid, number, count, version, optionalText, optionalTexts, optionalSkip } = parts();
  return z.looseObject({
    kind: z.literal("ticket"),
    ticket: count,
    candidate: oid,
    submitter: text,
    verify_cmd: optionalText,
    verify_timeout: z.optional(z.nullable(number.check(z.nonnegative()))),
    check: optionalText,
    checkers: z.optional(z.unknown()),
    agentq: z.optional(z.looseObject({
      v: version,
      submission: text,
      submittedAt: number,
      title: optionalText,
      strategy: optionalText,
      drops: optionalTexts,
      skip: optionalSkip,
    })),
  });
});

const verifySchema = once(() =>
  z.looseObject({ cmd: parts().text, exit: z.nullable(parts().number), ms: parts().number })
);

const resultSchema = once(() => {
  const { text, oid, number, count, version, nullableOid, optionalOid, optionalTexts } = parts();
  return z.looseObject({
    kind: z.literal("result"),
    ticket: count,
    candidate: oid,
    submitter: text,
    lander: text,
    tip: oid,
    landed: optionalOid,
    reason: text,
    files: optionalTexts,
    regions: optionalTexts,
    report: z.optional(text),
    agentq: z.optional(z.looseObject({
      v: version,
      startedAt: number,
      endedAt: number,
      tree: nullableOid,
      mergedFrom: nullableOid,
      verify: z.nullable(verifySchema()),
      drops: optionalTexts,
      /** The last commit this queue landed, this result included: nobody walks back for it. */
      lastLanded: optionalOid,
      skip: parts().optionalSkip,
    })),
  });
});

const pausedSchema = once(() => z.looseObject({ by: parts().text, reason: parts().nullableText }));

const lockSchema = once(() => {
  const { text, oid, number, count, version, optionalText, nullableOid, optionalOid } = parts();
  return z.looseObject({
    kind: z.literal("lock"),
    holder: optionalText,
    by: text,
    at: number,
    agentq: z.optional(z.looseObject({
      v: version,
      paused: z.nullable(pausedSchema()),
      cancelled: z.array(count),
      acceptedTip: nullableOid,
      /** The newest ticket whose publication was seen whole, branch and all. */
      confirmed: z.optional(z.nullable(count)),
      /** Written by the push that published: tells a half-committed one from a push by hand. */
      published: z.optional(z.nullable(z.looseObject({ ticket: count, tip: oid, landed: oid }))),
      /** Where the holder last saw the branch. */
      tip: optionalOid,
      /** How often the next ticket's checks could not be run, on any machine. */
      failures: z.optional(z.nullable(z.looseObject({ ticket: count, count }))),
    })),
  });
});

export type Genesis = z.infer<ReturnType<typeof genesisSchema>>;
export type Ticket = z.infer<ReturnType<typeof ticketSchema>>;
export type Result = z.infer<ReturnType<typeof resultSchema>>;
export type Lock = z.infer<ReturnType<typeof lockSchema>>;
export type Paused = z.infer<ReturnType<typeof pausedSchema>>;
export type VerifyRecord = z.infer<ReturnType<typeof verifySchema>>;
export type SkipList = [number, Oid][];

/** The chains, by the last word of their refs. */
export type ChainName = "queue" | "done" | "lock";

export interface MessageOf {
  queue: Ticket;
  done: Result;
  lock: Lock;
}

const ENTRY_SCHEMAS = { queue: ticketSchema, done: resultSchema, lock: lockSchema } as const;

/** An error that names the commit that can't be an entry of `chain`. */
export function corruptChain(chain: ChainName, commit: Oid, what: string): AgentqError {
  return new AgentqError("corrupt-chain", `commit ${commit} in the ${chain} chain ${what}`, {
    details: { chain, commit },
  });
}

/**
 * Reads the message of a chain commit.
 * @throws `corrupt-chain`, `chain-unsupported`
 */
export function decodeMessage<C extends ChainName>(
  chain: C,
  commit: Oid,
  bytes: Uint8Array,
): MessageOf[C] | Genesis {
  if (bytes.length > MAX_MESSAGE_BYTES) {
    throw corruptChain(chain, commit, `has a message of ${bytes.length} bytes`);
  }
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (cause) {
    throw new AgentqError(
      "corrupt-chain",
      `commit ${commit} in the ${chain} chain has a message that is not JSON`,
      { cause, details: { chain, commit } },
    );
  }
  const kind = (value as { kind?: unknown } | null)?.kind;
  if (kind === "genesis" && chain !== "lock") {
    const genesis = genesisSchema().safeParse(value);
    if (!genesis.success || genesis.data.chain !== chain) {
      throw corruptChain(chain, commit, `is not the genesis of ${chain}`);
    }
    return genesis.data;
  }
  const ours = (value as { agentq?: { v?: unknown } } | null)?.agentq;
  if (typeof ours?.v === "number" && ours.v > 1) {
    throw new AgentqError(
      "chain-unsupported",
      `commit ${commit} in the ${chain} chain was written by a newer agentq (format ${ours.v})`,
      { details: { chain, commit } },
    );
  }
  const parsed = ENTRY_SCHEMAS[chain]().safeParse(value);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    const where = issue?.path.map(String).join(".") || "the message";
    throw corruptChain(chain, commit, `has the wrong shape: ${where}: ${issue?.message}`);
  }
  return parsed.data as MessageOf[C];
}

/** The bytes of a message as they stand in its commit. */
export function encodeMessage(message: Genesis | Ticket | Result | Lock): Uint8Array {
  return Buffer.from(`${JSON.stringify(message)}\n`, "utf8");
}

/** The last `maxLines` lines of `text`, within {@link MAX_REPORT_BYTES}. */
export function reportTail(text: string, maxLines = 200): string {
  const lines = text.replace(/\n+$/, "").split("\n");
  let kept = lines.slice(-maxLines).join("\n");
  if (Buffer.byteLength(kept) > MAX_REPORT_BYTES) {
    // Cutting bytes can split a character: its remains become the replacement character.
    kept = "… " + Buffer.from(kept).subarray(-(MAX_REPORT_BYTES - 8)).toString("utf8");
  }
  return kept;
}

/** As much of `list` as fits into {@link MAX_LIST_BYTES}, with a last word on what doesn't. */
export function boundedList(list: readonly string[]): string[] {
  const kept: string[] = [];
  let bytes = 0;
  for (const one of list) {
    bytes += Buffer.byteLength(one) + 4;
    if (bytes > MAX_LIST_BYTES) {
      kept.push(`… and ${list.length - kept.length} more`);
      break;
    }
    kept.push(one);
  }
  return kept;
}
