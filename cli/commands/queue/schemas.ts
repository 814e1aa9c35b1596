/**
 * The `--json` documents of the queue commands. Messages have no `schema` field: they are printed as
 * QueueFS prints them, and the last three names below say what they are.
 */
import * as z from "zod/mini";

const count = z.int().check(z.nonnegative());
const queue = z.string();
const id = z.string();

/** Queues by name, and how much is in them. */
const counts = { pending: count, processing: count, unacked: count };

/** `data` is the text; where the bytes aren't UTF-8, it is null and `data_base64` holds them. */
const payload = { data: z.nullable(z.string()), data_base64: z.optional(z.string()) };

const message = z.strictObject({
  id,
  ...payload,
  /** `queue dequeue --receipt` alone. */
  lease: z.optional(z.string()),
  attempts: z.optional(count),
});
const noMessage = z.strictObject({});

/** `data` is null without `data_base64` where the payload can't be read. */
const unacked = z.strictObject({ id, ...payload, state: z.enum(["pending", "processing"]) });

function settled<N extends string>(name: N) {
  return z.strictObject({
    schema: z.literal(`agentq.queue-${name}/1`),
    queue,
    messages: z.array(z.strictObject({ id, outcome: z.enum(["done", "superseded"]) })),
  });
}

const metrics = {
  processed: count,
  requeue_count: count,
  error_count: count,
  failed_count: count,
  recovered_count: count,
  stale_count: count,
};

/** Document name → schema. */
export const QUEUE_DOCUMENTS = {
  "agentq.queue/1": z.strictObject({
    schema: z.literal("agentq.queue/1"),
    /** `queue status --all` alone. */
    queue: z.optional(queue),
    ...counts,
    /** unacked = 0 in this snapshot. */
    complete: z.boolean(),
  }),
  "agentq.queue-create/1": z.strictObject({
    schema: z.literal("agentq.queue-create/1"),
    queue,
    /** False: it was there already. */
    created: z.boolean(),
  }),
  "agentq.queue-ls/1": z.strictObject({ schema: z.literal("agentq.queue-ls/1"), queue }),
  "agentq.queue-rm/1": z.strictObject({
    schema: z.literal("agentq.queue-rm/1"),
    removed: z.array(queue),
  }),
  "agentq.queue-enqueue/1": z.strictObject({
    schema: z.literal("agentq.queue-enqueue/1"),
    queue,
    id,
  }),
  "agentq.queue-ack/1": settled("ack"),
  "agentq.queue-requeue/1": settled("requeue"),
  "agentq.queue-fail/1": settled("fail"),
  "agentq.queue-size/1": z.strictObject({
    schema: z.literal("agentq.queue-size/1"),
    queue,
    size: count,
  }),
  "agentq.queue-clear/1": z.strictObject({
    schema: z.literal("agentq.queue-clear/1"),
    queue,
    cleared: count,
  }),
  "agentq.queue-recover/1": z.strictObject({
    schema: z.literal("agentq.queue-recover/1"),
    queue,
    recovered: count,
    messages: z.array(z.strictObject({
      id,
      why: z.enum(["owner-gone", "lease-expired"]),
      outcome: z.enum(["pending", "superseded"]),
    })),
  }),
  "agentq.queue-work/1": z.strictObject({
    schema: z.literal("agentq.queue-work/1"),
    queue,
    ...metrics,
  }),
  "agentq.queue-metrics/1": z.strictObject({
    schema: z.literal("agentq.queue-metrics/1"),
    queue,
    ...counts,
    ...metrics,
  }),
  "agentq.queue-failed/1": z.strictObject({
    schema: z.literal("agentq.queue-failed/1"),
    failed: z.string(),
    queue,
    id,
    ...payload,
    reason: z.string(),
    attempts: count,
    /** Unix milliseconds; null where the backend keeps no time. */
    failedAt: z.nullable(count),
    /** What stood in the payload's place, where that can't be read. */
    raw: z.optional(z.nullable(z.string())),
  }),
  "agentq.queue-retry/1": z.strictObject({
    schema: z.literal("agentq.queue-retry/1"),
    queue,
    /** Message ids. */
    retried: z.array(id),
    /** Dead letters that `--all` had to leave. */
    left: z.array(z.strictObject({ failed: z.string(), reason: z.string() })),
  }),
  "agentq.queue-prune/1": z.strictObject({
    schema: z.literal("agentq.queue-prune/1"),
    queue,
    pruned: count,
  }),
  "agentq.queue-write/1": z.strictObject({
    schema: z.literal("agentq.queue-write/1"),
    path: z.string(),
    /** The id after a write to enqueue, how many were removed after one to clear. */
    answer: z.string(),
  }),
  "agentq.queue-entry/1": z.strictObject({
    schema: z.literal("agentq.queue-entry/1"),
    name: z.string(),
    isDirectory: z.boolean(),
    mode: count,
    size: count,
  }),
  /** A line of `queue dequeue` and `queue peek`; `{}` where there is none. */
  "agentq.queue-message/1": z.union([message, noMessage]),
  /** A line of `queue messages`. */
  "agentq.queue-unacked/1": unacked,
  /** What `queue fs read` prints: of dequeue and peek, size, status, messages. */
  "agentq.queue-read/1": z.union([
    message,
    noMessage,
    count,
    z.strictObject({ pending: count, processing: count }),
    z.array(z.strictObject({ id, ...payload })),
  ]),
} as const satisfies Readonly<Record<string, z.ZodMiniType>>;
