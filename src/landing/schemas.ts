/** The `--json` documents of the landing queue: their schemas, exported and printed by `agentq schema`. */
import * as z from "zod/mini";

const oid = z.string().check(z.regex(/^[0-9a-f]{40}$/));
const nullableOid = z.nullable(oid);
const count = z.int().check(z.nonnegative());
const paused = z.object({ by: z.string(), reason: z.nullable(z.string()) });

/** What became of a ticket, or that nothing did yet. */
export const resultDocument = z.object({
  schema: z.literal("agentq.result/1"),
  /** null: kept on this machine, not delivered yet. */
  ticket: z.nullable(count),
  outcome: z.enum(["landed", "refused", "queued"]),
  reason: z.string(),
  candidate: oid,
  landed: nullableOid,
  /** What it was merged onto; null while queued, or where the branch began with it. */
  tip: nullableOid,
  files: z.array(z.string()),
  regions: z.array(z.string()),
  report: z.string(),
  lander: z.nullable(z.string()),
  /** The losses that its ticket declared with `--drop`, as they were given. */
  drops: z.array(z.string()),
  /** What was asked for and isn't so, where there is anything. */
  warnings: z.optional(z.array(z.string())),
});
export type ResultDocument = z.infer<typeof resultDocument>;

const ticketState = z.enum(["pending", "processing", "cancelled"]);

export const statusDocument = z.object({
  schema: z.literal("agentq.status/1"),
  remote: z.string(),
  url: z.string(),
  branch: z.string(),
  namespace: z.string(),
  snapshot: z.object({
    tip: nullableOid,
    queue: nullableOid,
    done: nullableOid,
    lock: nullableOid,
  }),
  pending: count,
  processing: count,
  unacked: count,
  complete: z.boolean(),
  next: count,
  lock: z.nullable(z.object({ holder: z.nullable(z.string()), by: z.string(), at: z.number() })),
  paused: z.nullable(paused),
  /** The next ticket, where the origin has refused to have it published: how often, and its words. */
  refused: z.nullable(z.object({ ticket: count, count, why: z.string() })),
  rewound: z.boolean(),
  tickets: z.array(z.object({
    ticket: count,
    state: ticketState,
    candidate: oid,
    submitter: z.string(),
    submittedAt: z.nullable(z.number()),
    title: z.nullable(z.string()),
  })),
  submissions: z.array(z.object({
    submission: z.string(),
    candidate: oid,
    ticket: z.nullable(count),
    /**
     * offline: kept on this machine, to be delivered; sending: a process is pushing it; recorded: no ticket came of it,
     * and nobody is at it, so the next submit of the commit, or flush, delivers it; lost: its ticket's number is
     * another's or nobody's, as in an origin that was restored from a backup.
     */
    state: z.enum([
      "offline",
      "sending",
      "recorded",
      "queued",
      "cancelled",
      "landed",
      "refused",
      "lost",
    ]),
  })),
  /** Records of this machine that can't be used, where there are any. */
  warnings: z.optional(z.array(z.string())),
});
export type StatusDocument = z.infer<typeof statusDocument>;

const verifyRecord = z.object({ cmd: z.string(), exit: z.nullable(z.number()), ms: z.number() });

export const showDocument = z.object({
  schema: z.literal("agentq.show/1"),
  ticket: count,
  state: z.enum(["pending", "processing", "cancelled", "landed", "refused"]),
  candidate: oid,
  submitter: z.string(),
  submission: z.nullable(z.string()),
  submittedAt: z.nullable(z.number()),
  title: z.nullable(z.string()),
  verifyCmd: z.nullable(z.string()),
  verifyTimeout: z.nullable(z.number()),
  check: z.nullable(z.string()),
  drops: z.array(z.string()),
  commit: oid,
  result: z.nullable(z.object({
    ...resultDocument.shape,
    commit: oid,
    startedAt: z.nullable(z.number()),
    endedAt: z.nullable(z.number()),
    tree: nullableOid,
    verify: z.nullable(verifyRecord),
  })),
});
export type ShowDocument = z.infer<typeof showDocument>;

export const cancelDocument = z.object({
  schema: z.literal("agentq.cancel/1"),
  ticket: count,
  /** It will get the result `cancelled` in its turn; false: too late, the branch is at what it wants. */
  cancelled: z.boolean(),
});

export const controlDocument = z.object({
  schema: z.literal("agentq.control/1"),
  branch: z.string(),
  paused: z.nullable(paused),
  acceptedTip: nullableOid,
});

export const flushDocument = z.object({
  schema: z.literal("agentq.flush/1"),
  delivered: z.array(z.object({ submission: z.string(), candidate: oid, ticket: count })),
  kept: z.array(z.object({
    submission: z.string(),
    candidate: oid,
    error: z.object({ code: z.string(), message: z.string(), hint: z.string() }),
  })),
  /** With `--drop`: what was taken back. */
  dropped: z.optional(z.array(z.string())),
  /** Records that can't be used, tickets that aren't as was asked last, where there are any. */
  warnings: z.optional(z.array(z.string())),
});
export type FlushDocument = z.infer<typeof flushDocument>;

/** Document name → schema. */
export const LANDING_DOCUMENTS: Readonly<Record<string, z.ZodMiniType>> = {
  "agentq.result/1": resultDocument,
  "agentq.status/1": statusDocument,
  "agentq.show/1": showDocument,
  "agentq.cancel/1": cancelDocument,
  "agentq.control/1": controlDocument,
  "agentq.flush/1": flushDocument,
};
