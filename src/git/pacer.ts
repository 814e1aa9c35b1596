/** Long loops that let timers and sockets have their turn: a heartbeat must get through. */
import { abortReason } from "../platform/clock.ts";

/** How long a loop may keep the process to itself, in milliseconds. */
const TURN_MS = 40;

/**
 * A function to call once a step: undefined while there is time, a promise to await when it is others'
 * turn. An aborted signal's reason is thrown from it.
 */
export function pacer(signal?: AbortSignal): () => Promise<void> | undefined {
  let turn = performance.now();
  return () => {
    if (performance.now() - turn < TURN_MS) return undefined;
    return new Promise<void>((resolve, reject) =>
      // A timer, not setImmediate: it lets due timers and whatever the sockets have come first.
      setTimeout(() => {
        turn = performance.now();
        if (signal?.aborted) reject(abortReason(signal));
        else resolve();
      }, 0)
    );
  };
}
