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
import { AgentqError } from "../errors.ts";
import { systemClock } from "../platform/clock.ts";
import { DEFAULT_BACKOFF } from "./backoff.ts";
import type { QueueBackend } from "./contract.ts";
import { createEndings } from "./endings.ts";
import { emptyMetrics } from "./metrics.ts";
import { checkQueueName } from "./names.ts";
import { workerOwner } from "./owner.ts";
import { createHands, receiptOf } from "./worker/handle.ts";
import { createOutage, isPassing } from "./worker/outage.ts";
import { createPacer, createShortage, every, yielding } from "./worker/pace.ts";
import type { Handler, Worker, WorkerEvent, WorkerOptions } from "./worker/types.ts";

export type {
  Handler,
  HandlerContext,
  Worker,
  WorkerEvent,
  WorkerOptions,
} from "./worker/types.ts";

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
  const stopped = new AgentqError("interrupted", "the worker was stopped");
  const stopping = new AbortController();
  const ended = new AbortController();
  const { wake, looking, pause } = createPacer();
  const tell = (event: WorkerEvent) => {
    if (event.type === "error") metrics.error_count++;
    onEvent?.(event);
  };
  const outage = createOutage((event) => onEvent?.(event), () => metrics.error_count++);
  const endings = createEndings(leaseMs);
  const shortage = createShortage(MAX_ERROR_PAUSE_MS);
  let fatal: { error: unknown } | null = null;
  const hands = createHands({
    handler,
    maxAttempts,
    backoff,
    metrics,
    endings,
    stopping: stopping.signal,
    tell,
    broken: (error) => {
      fatal ??= { error };
      stopping.abort(stopped);
    },
    short: () => shortage.met(),
    begun: () => shortage.over(),
    wake,
  });
  const { held } = hands;

  const renewAll = async () => {
    const all = [...held.values()];
    if (all.length === 0) return;
    const outcomes = await backend.renew(
      queue,
      all.map(({ delivery }) => receiptOf(delivery)),
      leaseMs,
    );
    outage.over();
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

  let recovering: Promise<void> | undefined;
  const noMore = AbortSignal.any([stopping.signal, ended.signal]);
  const recoverAll = async () => {
    const all = await backend.recover(queue, { signal: noMore }).catch((error) => {
      // Stopped while it waited: others look, too.
      if (noMore.aborted) return [];
      throw error;
    });
    for (const recovered of all) {
      metrics.recovered_count++;
      tell({ type: "recovered", recovered });
      wake();
    }
  };
  const recover = () => recovering ??= recoverAll().finally(() => recovering = undefined);

  /** Waits for what is certain, but not long for leases that are watched first. */
  const recoverFirst = async () => {
    const enough = new AbortController();
    let waiting = true;
    const all = recover();
    all.catch((error) => waiting || outage.failed(error));
    try {
      await Promise.race([all, systemClock.sleep(idleMs, enough.signal).catch(() => {})]);
    } finally {
      waiting = false;
      enough.abort();
    }
  };

  /** Settles what has ended and takes `free` messages; returns how many those were. */
  const step = async (free: number): Promise<number> => {
    const batch = endings.next();
    const begunAt = performance.now();
    try {
      const turn = await backend.settleAndDequeue(queue, batch.endings, {
        owner,
        leaseMs,
        count: free,
        // Where nothing is to be settled, a worker that stops has nothing to wait for.
        ...(batch.endings.length === 0 ? { signal: stopping.signal } : {}),
        onUnreadable: (id, reason) => {
          metrics.failed_count++;
          tell({ type: "failed", id, reason });
        },
      });
      outage.over();
      batch.settled(turn.settlements);
      for (const delivery of turn.deliveries) {
        if (stopping.signal.aborted) hands.release(delivery);
        else hands.begin(delivery);
      }
      return turn.deliveries.length;
    } catch (error) {
      if (error === stopped) return 0;
      if (batch.endings.length === 0) throw error;
      // Else it is told by message, once no try is left.
      if (isPassing(error)) outage.failed(error, begunAt);
      else metrics.error_count++;
      await systemClock.sleep(batch.failed(error, isPassing(error)));
      return 0;
    }
  };

  const run = async () => {
    const endRenewal = every(Math.max(1, leaseMs / 3), renewAll, (error) => outage.failed(error));
    const endRecovery = every(leaseMs, recover, (error) => outage.failed(error));
    const yieldNow = yielding();
    try {
      let [idle, errors] = [0, 0];
      let first = true;
      for (;;) {
        await yieldNow();
        looking();
        const ending = stopping.signal.aborted || fatal !== null;
        if (ending && !hands.busy) break;
        const room = Math.min(concurrency - hands.running, MAX_WAITING + concurrency - held.size);
        const free = ending || shortage.ms > 0 ? 0 : Math.max(0, room);
        if (free === 0 && endings.due === 0) {
          await pause(shortage.ms > 0 ? Math.min(idleMs, shortage.ms) : idleMs);
          continue;
        }
        const begunAt = performance.now();
        try {
          if (first && !ending) await recoverFirst();
          first = false;
          // A step takes the writer's lock even for nothing: once empty, look before taking. That the backend
          // is back only a step tells.
          const look = endings.due === 0 && idle > 0 && !outage.away;
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
          outage.failed(error, begunAt);
          await pause(Math.min(MAX_ERROR_PAUSE_MS, 100 * 2 ** Math.min(errors++, 10)));
        }
      }
      if (fatal !== null) throw fatal.error;
    } finally {
      endRenewal();
      endRecovery();
      ended.abort();
      await recovering?.catch(() => {});
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
      stopping.abort(stopped);
      wake();
      const grace = setTimeout(() => {
        for (const { abort } of held.values()) abort.abort(stopped);
      }, graceMs);
      try {
        await done;
      } finally {
        clearTimeout(grace);
      }
    },
  };
}
