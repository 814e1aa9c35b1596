/**
 * The shapes of messages, as zod schemas: the authority on what is valid, and what says what isn't.
 * Loaded only for a message that message-shapes.ts doesn't know at sight.
 */
import * as z from "zod/mini";
import type { ChainName } from "./messages.ts";
import { shapeProblem } from "./shape-problem.ts";
import { MAX_BLOCK_NAMES, MAX_SKIP_NAMES } from "./skip.ts";

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
  const names = (most: number) =>
    z.optional(z.array(z.tuple([count, oid])).check(z.maxLength(most)));
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
    lists: { skip: names(MAX_SKIP_NAMES), block: names(MAX_BLOCK_NAMES) },
  };
});

const genesisSchema = once(() =>
  z.looseObject({ kind: z.literal("genesis"), chain: parts().text })
);

const ticketSchema = once(() => {
  const { text, oid, number, count, version, optionalOid, optionalText, optionalTexts } = parts();
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
      /** Where the branch was: a candidate that it is at later was not there by then. null: there was none. */
      tip: optionalOid,
      drops: optionalTexts,
      ...parts().lists,
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
      ...parts().lists,
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
      /** How often the origin refused to have the next ticket published, and with which words. */
      refusals: z.optional(z.nullable(z.looseObject({ ticket: count, count, why: text }))),
      /** How many landers went quiet while the next ticket was theirs to land. */
      deaths: z.optional(z.nullable(z.looseObject({ ticket: count, count }))),
    })),
  });
});

export type Genesis = z.infer<ReturnType<typeof genesisSchema>>;
export type Ticket = z.infer<ReturnType<typeof ticketSchema>>;
export type Result = z.infer<ReturnType<typeof resultSchema>>;
export type Lock = z.infer<ReturnType<typeof lockSchema>>;
export type Paused = z.infer<ReturnType<typeof pausedSchema>>;
export type VerifyRecord = z.infer<ReturnType<typeof verifySchema>>;

const ENTRY_SCHEMAS = { queue: ticketSchema, done: resultSchema, lock: lockSchema } as const;

/** Null for a valid message of `chain` (or its genesis), else what is wrong with it. */
export function problemOf(chain: ChainName, value: unknown): string | null {
  const kind = (value as { kind?: unknown } | null)?.kind;
  const genesis = kind === "genesis" && chain !== "lock";
  const parsed = (genesis ? genesisSchema : ENTRY_SCHEMAS[chain])().safeParse(value);
  if (parsed.success) return null;
  return shapeProblem(value, parsed.error.issues[0]);
}
