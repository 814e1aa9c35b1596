/** What a worker is given, and what it tells. */
import type { AgentqError } from "../../errors.ts";
import type { Backoff } from "../backoff.ts";
import type { Delivery, Recovered } from "../contract.ts";
import type { WorkerMetrics } from "../metrics.ts";

/**
 * Handles one message. Returning acknowledges it; throwing counts an attempt. Throwing
 * `command-not-started` or `current-directory-gone` says that no message can be handled here: this one is
 * given back, uncounted, and the worker ends with that error; or where the system is short of something
 * (its `details.errno` is EAGAIN, EMFILE, ENFILE or ENOMEM) or the program is being written (ETXTBSY) it waits before it takes another.
 * Throwing `interrupted` says that nothing was begun: the message is given back, uncounted.
 */
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
  /** What became of it can't be told to the backend: it comes back when its lease runs out, unless it went with its queue. */
  | { readonly type: "unsettled"; readonly id: string; readonly error: unknown }
  /** The backend fails in a way that may pass: told once, and tried again until `back`. */
  | { readonly type: "away"; readonly error: AgentqError }
  | { readonly type: "back"; readonly afterMs: number }
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
