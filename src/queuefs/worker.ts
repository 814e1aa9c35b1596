/**
 * A worker: takes messages, hands each to a handler, settles it by what the handler did.
 *
 * ```
 *  take ─▶ running ── handler returns ─▶ ack
 *             │
 *             ├─ handler throws, attempts left ─▶ waiting (backoff) ─▶ requeue, counted
 *             ├─ handler throws, none left ─────▶ dead letter with the reason
 *             ├─ lease lost (renew says stale) ─▶ aborted, nothing is settled: it is another's now
 *             └─ stopped and grace over ────────▶ aborted ─▶ given back, uncounted
 * ```
 *
 * One loop makes all steps: each settles whatever has ended meanwhile and takes as many messages as
 * handlers are free, in one transaction. As soon as something has ended there is a step, whether there is
 * more to take or not; only what ends while one is under way waits for the next.
 *
 * While a message is held, running or waiting, its lease is renewed after each third of its length; a
 * worker that is killed or wedged stops renewing, and then others take its messages back. A message
 * whose ack fails stays unacknowledged: the ack is tried again, and failing that the lease runs out.
 */
import { AgentqError, isAgentqError } from "../errors.ts";
import { systemClock } from "../platform/clock.ts";
import { type Backoff, backoffMs, DEFAULT_BACKOFF } from "./backoff.ts";
import type { Delivery, Ending, LeaseReceipt, QueueBackend, Recovered } from "./contract.ts";
import { createEndings } from "./endings.ts";
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
  /** Something may be to do since the loop last looked. */
  let woken = false;
  let endPause = () => {};
  const wake = () => {
    woken = true;
    endPause();
  };

  const tell = (event: WorkerEvent) => {
    if (event.type === "error") metrics.error_count++;
    onEvent?.(event);
  };
  const receiptOf = ({ id, lease }: Delivery): LeaseReceipt => ({ id, lease });
  const endings = createEndings(leaseMs);

  /** Has a delivery settled by the next step; a backend that fails leaves it to its lease. */
  const settle = async (
    delivery: Delivery,
    end: { how: "ack" | "requeue" | "release" } | { how: "fail"; reason: string },
  ): Promise<boolean> => {
    try {
      const ending: Ending = { ...end, receipt: receiptOf(delivery) };
      const settled = endings.end(ending, delivery.lease);
      wake();
      if (await settled !== "stale") return true;
      metrics.stale_count++;
      tell({ type: "lost", id: delivery.id });
    } catch (error) {
      tell({ type: "error", error });
    }
    return false;
  };

  const giveUp = async ({ delivery }: Held, reason: string) => {
    if (!await settle(delivery, { how: "fail", reason })) return;
    metrics.failed_count++;
    tell({ type: "failed", id: delivery.id, reason });
  };

  const release = async (delivery: Delivery) => {
    if (await settle(delivery, { how: "release" })) tell({ type: "released", id: delivery.id });
  };

  const tryAgain = async (one: Held, reason: string, attempt: number) => {
    const afterMs = backoffMs(attempt, backoff);
    tell({ type: "requeued", id: one.delivery.id, reason, afterMs });
    wake(); // Its handler is free.
    await systemClock.sleep(afterMs, stopping.signal).catch(() => {});
    if (!one.lost && await settle(one.delivery, { how: "requeue" })) metrics.requeue_count++;
  };

  const work = async (one: Held) => {
    const { delivery, abort } = one;
    const attempt = delivery.attempts + 1;
    if (delivery.attempts >= maxAttempts) {
      running--;
      const { attempts } = delivery;
      return await giveUp(
        one,
        `given up after ${attempts} attempts: each time its worker ended or lost it`,
      );
    }
    tell({ type: "started", id: delivery.id, attempt });
    let reason: string | null = null;
    try {
      await handler(delivery, { signal: abort.signal, attempt });
    } catch (error) {
      reason = error instanceof Error ? error.message : String(error);
    }
    running--;
    if (one.lost) {
      metrics.stale_count++;
      return tell({ type: "lost", id: delivery.id });
    }
    if (reason === null) {
      if (!await settle(delivery, { how: "ack" })) return;
      metrics.processed++;
      return tell({ type: "acked", id: delivery.id });
    }
    if (abort.signal.aborted) return await release(delivery);
    metrics.error_count++;
    if (attempt >= maxAttempts) await giveUp(one, reason);
    else await tryAgain(one, reason, attempt);
  };

  const track = (work: Promise<void>, ended: () => void) => {
    const task = work.catch((error) => tell({ type: "error", error })).finally(() => {
      ended();
      tasks.delete(task);
      wake();
    });
    tasks.add(task);
  };

  const begin = (delivery: Delivery) => {
    const one: Held = { delivery, abort: new AbortController(), lost: false };
    held.set(delivery.lease, one);
    running++;
    track(work(one), () => held.delete(delivery.lease));
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
      if (endings.isWaiting(lease)) return;
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

  /** Until something may be to do, at most so long. */
  const pause = (ms: number) => {
    if (woken) return;
    return new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      endPause = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  };

  /** Settles what has ended and takes `free` messages; returns how many those were. */
  const step = async (free: number): Promise<number> => {
    const batch = endings.next();
    try {
      const turn = await backend.settleAndDequeue(queue, batch.endings, {
        owner,
        leaseMs,
        count: free,
      });
      batch.settled(turn.settlements);
      for (const delivery of turn.deliveries) {
        if (stopping.signal.aborted) track(release(delivery), () => {});
        else begin(delivery);
      }
      return turn.deliveries.length;
    } catch (error) {
      if (batch.endings.length === 0) throw error;
      await systemClock.sleep(batch.failed(error, isPassing(error)));
      return 0;
    }
  };

  const run = async () => {
    const renewal = every(Math.max(1, leaseMs / 3), renewAll);
    const recovery = every(leaseMs, recover);
    const yieldNow = yielding();
    let fatal: { error: unknown } | null = null;
    try {
      let [idle, errors] = [0, 0];
      let first = true;
      for (;;) {
        await yieldNow();
        woken = false;
        const ending = stopping.signal.aborted || fatal !== null;
        if (ending && tasks.size === 0) break;
        const room = Math.min(concurrency - running, MAX_WAITING + concurrency - held.size);
        const free = ending ? 0 : Math.max(0, room);
        if (free === 0 && endings.due === 0) {
          await pause(idleMs);
          continue;
        }
        try {
          if (first && !ending) await recover();
          first = false;
          // A step takes the writer's lock even for nothing: once empty, look before taking.
          const look = endings.due === 0 && idle > 0;
          const taken = look && await backend.peek(queue) === null ? 0 : await step(free);
          errors = 0;
          if (free === 0) continue;
          idle = taken > 0 ? 0 : idle + 1;
          if (taken > 0 || endings.due > 0) continue;
          if (untilEmpty && held.size === 0 && await backend.complete([queue])) break;
          await pause(Math.min(idleMs, 5 * 2 ** Math.min(idle, 10)));
        } catch (error) {
          if (!isPassing(error)) {
            fatal = { error };
            continue;
          }
          tell({ type: "error", error });
          await pause(Math.min(MAX_ERROR_PAUSE_MS, 100 * 2 ** Math.min(errors++, 10)));
        }
      }
      if (fatal !== null) throw fatal.error;
    } finally {
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

const TURN_MS = 50;

/**
 * Lets the event loop turn from time to time: a backend and a handler that never wait for anything would
 * otherwise keep timers and signals from being heard.
 */
function yielding(): () => Promise<void> | undefined {
  let last = performance.now();
  return () => {
    if (performance.now() - last < TURN_MS) return undefined;
    return new Promise((resolve) =>
      setImmediate(() => {
        last = performance.now();
        resolve();
      })
    );
  };
}
