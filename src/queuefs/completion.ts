/** Waiting for queues to be complete. Only backend snapshots decide; nothing of this process does. */
import { AgentqError, isAgentqError } from "../errors.ts";
import { abortReason, systemClock } from "../platform/clock.ts";
import type { QueueBackend, QueueCounts } from "./contract.ts";

export interface WaitOptions {
  /**
   * Milliseconds; without it the wait has no end. Throws `wait-timeout`, also while the backend keeps its answer
   * to itself; a first look is given a second all the same.
   */
  readonly timeoutMs?: number;
  /** Since when they count, by `performance.now()`; since the call unless given. */
  readonly startedAt?: number;
  readonly signal?: AbortSignal;
  /** Told the counts whenever they are looked up for it, about once a second. */
  readonly onProgress?: (counts: ReadonlyMap<string, QueueCounts>) => void;
  /** Told of each fault that the wait goes on through. */
  readonly onFault?: (fault: AgentqError) => void;
}

const FIRST_POLL_MS = 5;
const MAX_POLL_MS = 250;
const PROGRESS_MS = 1000;
/** How long a first look may take, however short the time is, and the counts for what a wait ends with. */
const LOOK_MS = 1000;

/**
 * Resolves when all `queues` of one backend were complete in one snapshot. New messages may arrive at
 * any time after it. A backend that can't be reached, or is busy, is asked again until it answers, as
 * workers do. Throws `wait-timeout` (naming what is left), the signal's reason, or what waiting can't mend.
 */
export async function waitComplete(
  backend: QueueBackend,
  queues: readonly string[],
  options: WaitOptions = {},
): Promise<void> {
  const { timeoutMs = Infinity, signal, onProgress, onFault } = options;
  const began = performance.now();
  const until = (options.startedAt ?? began) + timeoutMs;
  const limit = Math.max(until, began + LOOK_MS);
  let told = began;
  let counts: ReadonlyMap<string, QueueCounts> | null = null;
  let fault: AgentqError | null = null;
  for (let pause = FIRST_POLL_MS;; pause = Math.min(MAX_POLL_MS, pause * 2)) {
    try {
      if (await before(limit, backend.complete(queues), signal)) return;
      fault = null;
      const now = performance.now();
      const over = now >= until;
      if (over || (onProgress && now - told >= PROGRESS_MS)) {
        counts = await before(over ? now + LOOK_MS : limit, backend.statuses(queues), signal);
        if (!over) onProgress?.(counts);
        told = now;
      }
    } catch (error) {
      if (error === OVER) counts = null;
      else if (!mayPass(error)) throw error;
      else {
        fault = error;
        onFault?.(error);
        // Not again at once.
        pause = MAX_POLL_MS;
      }
    }
    const left = until - performance.now();
    if (left <= 0) throw timedOut(timeoutMs, counts, fault);
    await systemClock.sleep(Math.min(pause, Math.max(1, left)), signal);
  }
}

/** Not a replica's word, though it retries: it may stay one. */
function mayPass(error: unknown): error is AgentqError {
  return isAgentqError(error, "backend-unreachable", "backend-busy");
}

/** Thrown in place of an answer that didn't come in time. */
const OVER = Symbol("over");

/** What `answer` gives, at most until `limit` (by `performance.now()`), then throws {@link OVER}. */
function before<T>(
  limit: number,
  answer: Promise<T>,
  signal: AbortSignal | undefined,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => end(() => reject(abortReason(signal!)));
    const ms = limit - performance.now();
    const timer = ms === Infinity
      ? undefined
      : setTimeout(() => end(() => reject(OVER)), Math.min(Math.max(0, ms), 0x7fffffff));
    const end = (settle: () => void) => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
      settle();
    };
    answer.then((value) => end(() => resolve(value)), (error) => end(() => reject(error)));
    if (signal?.aborted) abort();
    else signal?.addEventListener("abort", abort, { once: true });
  });
}

/** Whether all these queues are complete: one snapshot for each backend, not one for each queue. */
export async function isAllComplete(
  queues: readonly { readonly backend: QueueBackend; readonly name: string }[],
): Promise<boolean> {
  const byBackend = new Map<QueueBackend, string[]>();
  for (const { backend, name } of queues) {
    byBackend.set(backend, [...byBackend.get(backend) ?? [], name]);
  }
  for (const [backend, names] of byBackend) {
    if (!await backend.complete(names)) return false;
  }
  return true;
}

/** The error of a wait whose time is over, with what is known of the queues, and what was in the way. */
export function timedOut(
  timeoutMs: number,
  counts: ReadonlyMap<string, QueueCounts> | null,
  fault: AgentqError | null,
): AgentqError {
  const left = [...counts ?? []].filter(([, { pending, processing }]) => pending + processing > 0)
    .map(([queue, { pending, processing }]) =>
      `${queue}: ${pending} pending, ${processing} processing`
    ).join("; ");
  const what = fault?.message ?? (counts === null ? "no answer of the backend" : left);
  return new AgentqError(
    "wait-timeout",
    `not complete after ${timeoutMs / 1000} s (${what || "complete just now"})`,
    { details: { queues: Object.fromEntries(counts ?? []) } },
  );
}
