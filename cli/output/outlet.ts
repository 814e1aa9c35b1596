/**
 * Words for a reader who may have stopped reading: a pager, a terminal under Ctrl-S, a log collector that
 * hangs. A write that waits for it would stop all else with it: leases, time limits, signals. So what it
 * doesn't take now is kept and offered again, up to a bound; what comes beyond that is dropped, and a line
 * in its place says how much.
 *
 *   say ──▶ sink takes some ──▶ rest kept ──▶ offered again by each `say`, a timer, `settle`
 */

/** Takes the first of `bytes`, as many as it can without waiting, and says how many. */
export interface Sink {
  take(bytes: Uint8Array): number;
  /** How many of those it took are still in this process's hands. */
  pending(): number;
}

export interface Outlet {
  /** `last` is kept whatever the bound: the word that a run ends with. */
  say(bytes: Uint8Array, last?: boolean): void;
  /**
   * Waits until the reader has it all, but no longer than `quietMs` in which it takes nothing, nor than
   * `mostMs` in all. False where something is left.
   */
  settle(quietMs: number, mostMs: number): boolean;
}

/** How much is kept for a reader that doesn't read, in bytes. */
export const MAX_KEPT_BYTES = 1024 * 1024;

export const RETRY_MS = 20;

export function createOutlet(sink: Sink, maxKept = MAX_KEPT_BYTES): Outlet {
  let kept: Uint8Array[] = [];
  let size = 0;
  let dropped = 0;
  let inLine = false;

  const keep = (bytes: Uint8Array) => {
    kept.push(bytes);
    size += bytes.length;
    inLine = bytes.at(-1) !== 0x0a;
  };
  const tellDropped = () => {
    const line = `agentq: ${dropped} bytes are missing here: nobody read them in time\n`;
    dropped = 0;
    keep(new TextEncoder().encode(inLine ? `\n${line}` : line));
  };
  /** Offers what is kept; true when nothing is left. */
  const pump = (): boolean => {
    for (;;) {
      let at = 0;
      while (at < kept.length) {
        const first = kept[at]!;
        const taken = sink.take(first);
        size -= taken;
        if (taken < first.length) {
          kept[at] = first.subarray(taken);
          break;
        }
        at++;
      }
      kept = kept.slice(at);
      if (kept.length > 0) return false;
      if (dropped === 0) return true;
      tellDropped();
    }
  };
  const later = again(pump);

  return {
    say(bytes, last = false) {
      if (bytes.length === 0) return;
      const room = size === 0 || size + bytes.length <= maxKept;
      if (last && dropped > 0) tellDropped();
      else if (!last && (dropped > 0 || !room)) {
        dropped += bytes.length;
        if (!pump()) later();
        return;
      }
      // The caller may use its bytes again. (The slice of a Buffer would be the same bytes.)
      keep(new Uint8Array(bytes));
      if (!pump()) later();
    },
    settle(quietMs, mostMs) {
      const began = performance.now();
      let [moved, before] = [began, Infinity];
      for (;;) {
        pump();
        const left = size + sink.pending();
        if (left === 0) return true;
        const now = performance.now();
        if (left !== before) [moved, before] = [now, left];
        if (now - moved >= quietMs || now - began >= mostMs) return false;
        pause(Math.min(5, quietMs, mostMs));
      }
    },
  };
}

/** Calls `pump` from time to time once asked to, until it is done (true), and holds no process for that. */
export function again(pump: () => boolean): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const later = () => {
    timer ??= setTimeout(() => {
      timer = undefined;
      if (!pump()) later();
    }, RETRY_MS);
    (timer as { unref?: () => void }).unref?.();
  };
  return later;
}

/** Waits without letting anything else happen. */
export function pause(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}
