/**
 * A worker: takes messages, hands each to a handler, settles it by what the handler did.
 *
 * ```
 *  dequeue ─▶ running ── handler returns ─▶ ack
 *                │
 *                ├─ handler throws, attempts left ─▶ waiting (backoff) ─▶ requeue, counted
 *                ├─ handler throws, none left ─────▶ dead letter with the reason
 *                ├─ lease lost (renew says stale) ─▶ aborted, nothing is settled: it is another's now
 *                └─ stopped and grace over ────────▶ aborted ─▶ given back, uncounted
 * ```
 *
 * While a message is held, running or waiting, its lease is renewed after each third of its length; a
 * worker that is killed or wedged stops renewing, and then others take its messages back. A message
 * whose ack fails stays unacknowledged: the ack is tried again, and failing that the lease runs out.
 */
import { AgentqError, isAgentqError } from "../errors.ts";
import { systemClock } from "../platform/clock.ts";
import { type AckQueue, createAckQueue } from "./ack-queue.ts";
import { type Backoff, backoffMs, DEFAULT_BACKOFF } from "./backoff.ts";
import type { Delivery, LeaseReceipt, QueueBackend, Recovered } from "./contract.ts";
import { emptyMetrics, type WorkerMetrics } from "./metrics.ts";
import { checkQueueName } from "./names.ts";
import { workerOwner } from "./owner.ts";

/** Handles one message. Returning acknowledges it; throwing counts an attempt. */
export type Handler = (message: Delivery, context: HandlerContext) => Promise<void> | void;

export interface HandlerContext {
  /** Aborted when the message is no longer this worker's, or the worker must stop now. */
  readonly signal: AbortSignal;
  /** 1 for the first attempt. */
  readonly attempt: number;
}

export type WorkerEvent =
  | { readonly type: "started"; readonly id: string; readonly attempt: number }
  | { readonly type: "acked"; readonly id: string }
  | {
    readonly type: "requeued";
    readonly id: string;
    readonly reason: string;
    readonly afterMs: number;
  }
  | { readonly type: "failed"; readonly id: string; readonly reason: string }
  | { readonly type: "lost"; readonly id: string }
  | { readonly type: "released"; readonly id: string }
  | { readonly type: "recovered"; readonly recovered: Recovered }
  | { readonly type: "error"; readonly error: unknown };

export interface WorkerOptions {
  /** Handlers at once; 1 unless given. */
  readonly concurrency?: number;
  /** After so many attempts a message goes to the dead letters; 5 unless given. */
  readonly maxAttempts?: number;
  readonly backoff?: Backoff;
  /** Milliseconds; 30,000 unless given. */
  readonly leaseMs?: number;
  /** Resolve `done` as soon as the queue is complete. */
  readonly untilEmpty?: boolean;
  /** The longest pause between looks at an empty queue, in milliseconds; 500 unless given. */
  readonly idleMs?: number;
  readonly onEvent?: (event: WorkerEvent) => void;
}

export interface Worker {
  readonly owner: string;
  /** This worker's counters so far. */
  readonly metrics: Readonly<WorkerMetrics>;
  /** How many messages it holds now. */
  held(): number;
  /** Resolves when it has ended with nothing held; rejects when the backend can't be used at all. */
  readonly done: Promise<void>;
  /**
   * Takes nothing more, lets handlers finish for `graceMs` (10,000 unless given), then aborts them and
   * gives their messages back. Resolves when nothing is held.
   */
  stop(graceMs?: number): Promise<void>;
}

interface Held {
  readonly delivery: Delivery;
  readonly abort: AbortController;
  lost: boolean;
}

/** How many messages may wait for their next attempt before no new ones are taken. */
const MAX_WAITING = 1000;
const MAX_ERROR_PAUSE_MS = 5000;

/** Starts working on a queue. */
export function startWorker(
  backend: QueueBackend,
  queue: string,
  handler: Handler,
  options: WorkerOptions = {},
): Worker {
  checkQueueName(queue);
  const { concurrency = 1, maxAttempts = 5, leaseMs = 30_000, idleMs = 500 } = options;
  const { backoff = DEFAULT_BACKOFF, untilEmpty = false, onEvent } = options;
  const owner = workerOwner();
  const metrics = emptyMetrics();
  const held = new Map<string, Held>();
  const stopping = new AbortController();
  const tasks = new Set<Promise<void>>();
  let running = 0;
  let wake = () => {};

  const tell = (event: WorkerEvent) => {
    if (event.type === "error") metrics.error_count++;
    onEvent?.(event);
  };
  const receiptOf = ({ id, lease }: Delivery): LeaseReceipt => ({ id, lease });
  const acks: AckQueue = createAckQueue((receipts) => backend.ack(queue, receipts), leaseMs);
  // Together too: hundreds may come due at once, and one by one the last would wait for longer than a
  // backend waits for its lock.
  const requeues: AckQueue = createAckQueue(
    (receipts) => backend.requeue(queue, receipts, { counted: true }),
    leaseMs,
  );

  /** A call that settles one message; a backend that fails leaves it to its lease. */
  const settle = async (one: Held, call: () => Promise<unknown>): Promise<boolean> => {
    try {
      const outcome = await call();
      if (outcome !== "stale") return true;
      metrics.stale_count++;
      tell({ type: "lost", id: one.delivery.id });
    } catch (error) {
      tell({ type: "error", error });
    }
    return false;
  };

  const giveUp = async (one: Held, reason: string) => {
    const receipts = [receiptOf(one.delivery)];
    if (await settle(one, async () => (await backend.fail(queue, receipts, reason))[0])) {
      metrics.failed_count++;
      tell({ type: "failed", id: one.delivery.id, reason });
    }
  };

  const putBack = async (one: Held, reason: string | null, attempt: number) => {
    const { id } = one.delivery;
    const afterMs = reason === null ? 0 : backoffMs(attempt, backoff);
    if (reason !== null) {
      tell({ type: "requeued", id, reason, afterMs });
      await systemClock.sleep(afterMs, stopping.signal).catch(() => {});
    }
    if (one.lost) return;
    const receipt = receiptOf(one.delivery);
    const counted = reason !== null;
    const call = counted
      ? () => requeues.ack(receipt)
      : async () => (await backend.requeue(queue, [receipt], { counted }))[0];
    if (await settle(one, call)) {
      if (counted) metrics.requeue_count++;
      else tell({ type: "released", id });
    }
  };

  const work = async (one: Held) => {
    const { delivery, abort } = one;
    const attempt = delivery.attempts + 1;
    if (delivery.attempts >= maxAttempts) {
      await giveUp(
        one,
        `given up after ${delivery.attempts} attempts: each time its worker ended or lost it`,
      );
      running--;
      return;
    }
    tell({ type: "started", id: delivery.id, attempt });
    let reason: string | null = null;
    let failed = false;
    try {
      await handler(delivery, { signal: abort.signal, attempt });
    } catch (error) {
      failed = true;
      reason = error instanceof Error ? error.message : String(error);
    }
    // A message that is given up keeps its place among the handlers until it is with the dead letters:
    // each is a call of its own, and a queue full of them must not become as many calls at once.
    if (failed && attempt >= maxAttempts && !one.lost && !abort.signal.aborted) {
      metrics.error_count++;
      await giveUp(one, reason!);
      running--;
      return;
    }
    running--;
    wake();
    if (one.lost) {
      metrics.stale_count++;
      return tell({ type: "lost", id: delivery.id });
    }
    if (!failed) {
      if (await settle(one, () => acks.ack(receiptOf(delivery)))) {
        metrics.processed++;
        tell({ type: "acked", id: delivery.id });
      }
      return;
    }
    if (abort.signal.aborted) return await putBack(one, null, attempt);
    metrics.error_count++;
    await putBack(one, reason!, attempt);
  };

  const begin = (delivery: Delivery) => {
    const one: Held = { delivery, abort: new AbortController(), lost: false };
    held.set(delivery.lease, one);
    running++;
    const task = work(one).catch((error) => tell({ type: "error", error })).finally(() => {
      held.delete(delivery.lease);
      tasks.delete(task);
      wake();
    });
    tasks.add(task);
  };

  const renewAll = async () => {
    const all = [...held.values()];
    if (all.length === 0) return;
    const outcomes = await backend.renew(
      queue,
      all.map(({ delivery }) => receiptOf(delivery)),
      leaseMs,
    );
    all.forEach((one, i) => {
      // Settled by ourselves meanwhile: no loss.
      if (outcomes[i] !== "stale" || held.get(one.delivery.lease) !== one) return;
      const { lease } = one.delivery;
      if (acks.isWaiting(lease) || requeues.isWaiting(lease)) return;
      one.lost = true;
      one.abort.abort(
        new AgentqError("stale-delivery", `${one.delivery.id} is no longer this worker's`),
      );
    });
  };

  const recover = async () => {
    for (const recovered of await backend.recover(queue)) {
      metrics.recovered_count++;
      tell({ type: "recovered", recovered });
      wake();
    }
  };

  const every = (ms: number, call: () => Promise<void>) => {
    let busy = false;
    return setInterval(() => {
      if (busy) return;
      busy = true;
      call().catch((error) => tell({ type: "error", error })).finally(() => busy = false);
    }, ms);
  };

  const pause = (ms: number) =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });

  const run = async () => {
    const renewal = every(Math.max(1, leaseMs / 3), renewAll);
    const recovery = every(leaseMs, recover);
    try {
      let [idle, errors] = [0, 0];
      let first = true;
      while (!stopping.signal.aborted) {
        const free = Math.min(concurrency - running, MAX_WAITING + concurrency - held.size);
        if (free <= 0) {
          await pause(idleMs);
          continue;
        }
        try {
          if (first) await recover();
          first = false;
          // A dequeue takes the writer's lock even for nothing: once empty, look before taking.
          const taken = idle > 0 && await backend.peek(queue) === null
            ? []
            : await backend.dequeue(queue, { owner, leaseMs, count: free });
          errors = 0;
          if (stopping.signal.aborted) {
            await backend.requeue(queue, taken.map(receiptOf), { counted: false });
            break;
          }
          taken.forEach(begin);
          idle = taken.length > 0 ? 0 : idle + 1;
          if (untilEmpty && idle > 0 && held.size === 0 && await backend.complete([queue])) break;
          if (idle > 0) await pause(Math.min(idleMs, 5 * 2 ** Math.min(idle, 10)));
        } catch (error) {
          if (!isPassing(error)) throw error;
          tell({ type: "error", error });
          await pause(Math.min(MAX_ERROR_PAUSE_MS, 100 * 2 ** Math.min(errors++, 10)));
        }
      }
    } finally {
      while (tasks.size > 0) await Promise.all(tasks);
      clearInterval(renewal);
      clearInterval(recovery);
    }
  };

  const done = run();
  done.catch(() => {}); // Whoever wants to know awaits it.
  return {
    owner,
    metrics,
    held: () => held.size,
    done,
    stop: async (graceMs = 10_000) => {
      stopping.abort();
      wake();
      const grace = setTimeout(() => {
        const reason = new AgentqError("interrupted", "the worker was stopped");
        for (const { abort } of held.values()) abort.abort(reason);
      }, graceMs);
      try {
        await done;
      } finally {
        clearTimeout(grace);
      }
    },
  };
}

/** Faults that another look may find gone. Anything else ends the worker: it could only spin. */
function isPassing(error: unknown): boolean {
  if (!(error instanceof AgentqError)) return false;
  return error.retryable || isAgentqError(error, "backend-outcome-unknown", "commit-uncertain");
}
