/**
 * Time, as the protocol uses it: a monotonic clock for every decision, the wall clock only for people
 * to read. Passed in, so that tests can run hours of lease time in an instant.
 */
import { AgentqError } from "../errors.ts";

export interface Clock {
  /** Milliseconds that only grow, unaffected by the machine's clock being set. */
  monotonic(): number;
  /** Milliseconds since 1970: written into messages, never compared with another machine's. */
  wall(): number;
  /** Resolves after `ms`; rejects with the signal's reason as soon as it is aborted. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** A number in [0, 1), for jitter. */
  random(): number;
}

/** The clock of this machine. */
export const systemClock: Clock = {
  monotonic: () => performance.now(),
  wall: () => Date.now(),
  random: () => Math.random(),
  sleep(ms, signal) {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(abortReason(signal));
      const onAbort = () => {
        clearTimeout(timer);
        reject(abortReason(signal!));
      };
      const timer = setTimeout(() => {
        signal?.removeEventListener("abort", onAbort);
        resolve();
      }, Math.min(ms, 0x7fffffff));
      signal?.addEventListener("abort", onAbort, { once: true });
    });
  },
};

/** Why a signal was aborted, always as an error that can be thrown. */
export function abortReason(signal: AbortSignal): Error {
  return signal.reason instanceof Error
    ? signal.reason
    : new AgentqError("interrupted", "stopped before it was finished");
}

/** Throws the signal's reason when it is aborted. */
export function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw abortReason(signal);
}
