/** Waiting for queues to be complete. Only backend snapshots decide; nothing of this process does. */
import { AgentqError } from "../errors.ts";
import { systemClock } from "../platform/clock.ts";
import type { QueueBackend, QueueCounts } from "./contract.ts";

export interface WaitOptions {
  /** Milliseconds; without it the wait has no end. Throws `wait-timeout`. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  /** Told the counts whenever they are looked up for it, about once a second. */
  readonly onProgress?: (counts: ReadonlyMap<string, QueueCounts>) => void;
}

const FIRST_POLL_MS = 5;
const MAX_POLL_MS = 250;
const PROGRESS_MS = 1000;

/**
 * Resolves when all `queues` of one backend were complete in one snapshot. New messages may arrive at
 * any time after it. Throws `wait-timeout` (naming what is left), or the signal's reason.
 */
export async function waitComplete(
  backend: QueueBackend,
  queues: readonly string[],
  options: WaitOptions = {},
): Promise<void> {
  const { timeoutMs = Infinity, signal, onProgress } = options;
  const started = performance.now();
  let told = started;
  for (let pause = FIRST_POLL_MS;; pause = Math.min(MAX_POLL_MS, pause * 2)) {
    if (await backend.complete(queues)) return;
    const now = performance.now();
    if (now - started >= timeoutMs) throw await timedOut(backend, queues, timeoutMs);
    if (onProgress && now - told >= PROGRESS_MS) {
      onProgress(await backend.statuses(queues));
      told = now;
    }
    await systemClock.sleep(Math.min(pause, Math.max(1, timeoutMs - (now - started))), signal);
  }
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

async function timedOut(
  backend: QueueBackend,
  queues: readonly string[],
  timeoutMs: number,
): Promise<AgentqError> {
  const counts = await backend.statuses(queues);
  const left = [...counts].filter(([, { pending, processing }]) => pending + processing > 0).map(
    ([queue, { pending, processing }]) => `${queue}: ${pending} pending, ${processing} processing`,
  );
  return new AgentqError(
    "wait-timeout",
    `not complete after ${timeoutMs / 1000} s (${left.join("; ") || "complete just now"})`,
    { details: { queues: Object.fromEntries(counts) } },
  );
}
