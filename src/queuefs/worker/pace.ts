/** When a worker's loop goes round, and what else runs beside it. */

/** Pauses that end early when there may be something to do. */
export interface Pacer {
  /** Something may be to do: ends the pause, or the next one before it begins. */
  wake(): void;
  /** What is to do from here on has not been looked at yet. */
  looking(): void;
  /** Until something may be to do since `looking`, at most so long. */
  pause(ms: number): Promise<void> | undefined;
}

export function createPacer(): Pacer {
  let woken = false;
  let endPause = () => {};
  return {
    wake: () => {
      woken = true;
      endPause();
    },
    looking: () => void (woken = false),
    pause: (ms) => {
      if (woken) return;
      return new Promise((resolve) => {
        const timer = setTimeout(resolve, ms);
        endPause = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    },
  };
}

/** For how long nothing is to be begun since the system is short of something: longer each time, up to `mostMs`. */
export function createShortage(mostMs: number) {
  let [until, times] = [0, 0];
  return {
    met: () => {
      // Handlers that meet the same shortage count once.
      if (performance.now() >= until) times++;
      until = performance.now() + Math.min(mostMs, 50 * 2 ** Math.min(times, 10));
    },
    over: () => void (times = 0),
    /** Milliseconds that are left; 0: there is none. */
    get ms() {
      return Math.max(0, until - performance.now());
    },
  };
}

/** Calls again and again, never twice at once; returns how to end it. */
export function every(
  ms: number,
  call: () => Promise<void>,
  failed: (error: unknown) => void,
): () => void {
  let busy = false;
  const timer = setInterval(() => {
    if (busy) return;
    busy = true;
    call().catch(failed).finally(() => busy = false);
  }, ms);
  return () => clearInterval(timer);
}

const TURN_MS = 50;

/**
 * Lets the event loop turn from time to time: a backend and a handler that never wait for anything would
 * otherwise keep timers and signals from being heard.
 */
export function yielding(): () => Promise<void> | undefined {
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
