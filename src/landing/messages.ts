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

const oid = z.string().check(z.regex(/^[0-9a-f]{40}$/, "is not an object id"));
const count = z.number().check(
  z.refine((n) => Number.isSafeInteger(n) && n >= 0, "is not a count"),
);
const version = z.literal(1);

/** Ancestors in the same chain, nearest first: `[ticket, commit]`; see skip.ts. */
const skip = z.array(z.tuple([count, oid])).check(z.maxLength(128));

const genesisSchema = z.looseObject({
  kind: z.literal("genesis"),
  chain: z.string(),
});

const ticketSchema = z.looseObject({
  kind: z.literal("ticket"),
  ticket: count,
  candidate: oid,
  submitter: z.string(),
  verify_cmd: z.optional(z.nullable(z.string())),
  verify_timeout: z.optional(z.nullable(z.number().check(z.nonnegative()))),
  check: z.optional(z.nullable(z.string())),
  checkers: z.optional(z.unknown()),
  agentq: z.optional(z.looseObject({
    v: version,
    submission: z.string(),
    submittedAt: z.number(),
    title: z.optional(z.nullable(z.string())),
    strategy: z.optional(z.nullable(z.string())),
    drops: z.optional(z.array(z.string())),
    skip: z.optional(skip),
  })),
});

const verifySchema = z.looseObject({
  cmd: z.string(),
  exit: z.nullable(z.number()),
  ms: z.number(),
});

const resultSchema = z.looseObject({
  kind: z.literal("result"),
  ticket: count,
  candidate: oid,
  submitter: z.string(),
  lander: z.string(),
  tip: oid,
  landed: z.optional(z.nullable(oid)),
  reason: z.string(),
  files: z.optional(z.array(z.string())),
  regions: z.optional(z.array(z.string())),
  report: z.optional(z.string()),
  agentq: z.optional(z.looseObject({
    v: version,
    startedAt: z.number(),
    endedAt: z.number(),
    tree: z.nullable(oid),
    mergedFrom: z.nullable(oid),
    verify: z.nullable(verifySchema),
    drops: z.optional(z.array(z.string())),
    /** The last commit this queue landed, this result included: nobody walks back for it. */
    lastLanded: z.optional(z.nullable(oid)),
    skip: z.optional(skip),
  })),
});

const pausedSchema = z.looseObject({ by: z.string(), reason: z.nullable(z.string()) });

const lockSchema = z.looseObject({
  kind: z.literal("lock"),
  holder: z.optional(z.nullable(z.string())),
  by: z.string(),
  at: z.number(),
  agentq: z.optional(z.looseObject({
    v: version,
    paused: z.nullable(pausedSchema),
    cancelled: z.array(count),
    acceptedTip: z.nullable(oid),
    /** The newest ticket whose publication was seen whole, branch and all. */
    confirmed: z.optional(z.nullable(count)),
    /** Written by the push that published: tells a half-committed one from a push by hand. */
    published: z.optional(z.nullable(z.looseObject({ ticket: count, tip: oid, landed: oid }))),
    /** Where the holder last saw the branch. */
    tip: z.optional(z.nullable(oid)),
    /** How often the next ticket's checks could not be run, on any machine. */
    failures: z.optional(z.nullable(z.looseObject({ ticket: count, count }))),
  })),
});

export type Genesis = z.infer<typeof genesisSchema>;
export type Ticket = z.infer<typeof ticketSchema>;
export type Result = z.infer<typeof resultSchema>;
export type Lock = z.infer<typeof lockSchema>;
export type Paused = z.infer<typeof pausedSchema>;
export type VerifyRecord = z.infer<typeof verifySchema>;
export type SkipList = z.infer<typeof skip>;

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
    const genesis = genesisSchema.safeParse(value);
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
  const parsed = ENTRY_SCHEMAS[chain].safeParse(value);
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
