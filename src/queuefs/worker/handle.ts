/** The messages in a worker's hands: each is handled, and then settled by what its handler did. */
import { type AgentqError, isAgentqError } from "../../errors.ts";
import { systemClock } from "../../platform/clock.ts";
import { isShortage } from "../../platform/process.ts";
import { type Backoff, backoffMs } from "../backoff.ts";
import type { Delivery, Ending, LeaseReceipt } from "../contract.ts";
import type { Endings } from "../endings.ts";
import type { WorkerMetrics } from "../metrics.ts";
import type { Handler, WorkerEvent } from "./types.ts";

/** A message from its delivery until it is settled, through its handler and its backoff. */
export interface Held {
  readonly delivery: Delivery;
  readonly abort: AbortController;
  /** It is another's now: nothing is settled any more. */
  lost: boolean;
}

export interface Hands {
  /** By lease. */
  readonly held: ReadonlyMap<string, Held>;
  /** Handlers that run. */
  readonly running: number;
  /** True while something is held or on its way back. */
  readonly busy: boolean;
  begin(delivery: Delivery): void;
  /** Gives back, untried, what was taken too late. */
  release(delivery: Delivery): void;
}

export interface HandsOptions {
  readonly handler: Handler;
  readonly maxAttempts: number;
  readonly backoff: Backoff;
  readonly metrics: WorkerMetrics;
  readonly endings: Endings;
  /** Aborted when the worker stops: nothing waits for its backoff any more. */
  readonly stopping: AbortSignal;
  readonly tell: (event: WorkerEvent) => void;
  /** No message can be handled here: the worker is to end with this error. */
  readonly broken: (error: AgentqError) => void;
  /** None can be handled for now. */
  readonly short: () => void;
  /** A handler has run. */
  readonly begun: () => void;
  /** Something may be to do. */
  readonly wake: () => void;
}

export function receiptOf({ id, lease }: Delivery): LeaseReceipt {
  return { id, lease };
}

export function createHands(options: HandsOptions): Hands {
  const {
    handler,
    maxAttempts,
    backoff,
    metrics,
    endings,
    stopping,
    tell,
    broken,
    short,
    begun,
    wake,
  } = options;
  const held = new Map<string, Held>();
  const tasks = new Set<Promise<void>>();
  let running = 0;

  /** Has a delivery settled by the next step; a backend that fails leaves it to its lease. */
  const settle = async (
    delivery: Delivery,
    end:
      | { how: "ack" | "requeue" | "release" }
      | { how: "fail"; reason: string; untried?: boolean },
  ): Promise<boolean> => {
    try {
      const ending: Ending = { ...end, receipt: receiptOf(delivery) };
      const settled = endings.end(ending, delivery.lease);
      wake();
      if (await settled !== "stale") return true;
      metrics.stale_count++;
      tell({ type: "lost", id: delivery.id });
    } catch (error) {
      tell({ type: "unsettled", id: delivery.id, error });
    }
    return false;
  };

  const giveUp = async ({ delivery }: Held, reason: string, untried = false) => {
    if (!await settle(delivery, { how: "fail", reason, untried })) return;
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
    await systemClock.sleep(afterMs, stopping).catch(() => {});
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
        `given up after ${attempts} attempt${
          attempts === 1 ? "" : "s"
        }: each time it was put back, or its worker ended or lost it`,
        true,
      );
    }
    tell({ type: "started", id: delivery.id, attempt });
    let reason: string | null = null;
    // A handler's program that can't be started: not the message's doing, and no attempt at it.
    let unable: AgentqError | null = null;
    let begins = true;
    try {
      await handler(delivery, { signal: abort.signal, attempt });
    } catch (error) {
      reason = error instanceof Error ? error.message : String(error);
      const never = isAgentqError(error, "command-not-started", "current-directory-gone");
      unable = never ? error : null;
      begins = !isAgentqError(error, "interrupted");
    }
    running--;
    if (isShortage(unable)) {
      tell({ type: "error", error: unable });
      short();
    } else if (unable !== null) broken(unable);
    else if (begins) begun();
    if (one.lost) {
      metrics.stale_count++;
      return tell({ type: "lost", id: delivery.id });
    }
    if (reason === null) {
      if (!await settle(delivery, { how: "ack" })) return;
      metrics.processed++;
      return tell({ type: "acked", id: delivery.id });
    }
    if (unable !== null || !begins || abort.signal.aborted) return await release(delivery);
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

  return {
    held,
    get running() {
      return running;
    },
    get busy() {
      return tasks.size > 0;
    },
    begin,
    release: (delivery) => track(release(delivery), () => {}),
  };
}
