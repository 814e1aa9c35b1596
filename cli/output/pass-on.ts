/**
 * Other programs' output, passed on to a reader who may be slow or have stopped reading. It is not to be
 * dropped, as our own words on stderr are, and a write that waits would stop leases and signals with it: so the
 * programs wait, each until its last piece is taken.
 */
import { again, RETRY_MS, type Sink } from "./outlet.ts";

/** Beside what the pipe itself holds. */
const LITTLE_BYTES = 4096;

export interface PassOn {
  /** Takes a piece; a promise where its giver is to wait before it has the next one read. */
  pass(bytes: Uint8Array): Promise<void> | undefined;
  /** How many bytes nobody has taken so far. */
  left(): number;
  /** Waits until little is left, before more is begun that will have something to say. @throws the signal's reason */
  ready(signal: AbortSignal): Promise<void>;
}

/** `before` says whether what was said earlier has been taken, where that goes to the same reader. */
export function passOn(sink: Sink, before: () => boolean = () => true): PassOn {
  const kept: { bytes: Uint8Array; taken: () => void }[] = [];

  const pump = (): boolean => {
    while (kept.length > 0) {
      if (!before()) return false;
      const first = kept[0]!;
      const count = sink.take(first.bytes);
      if (count < first.bytes.length) {
        first.bytes = first.bytes.subarray(count);
        return false;
      }
      kept.shift();
      first.taken();
    }
    return sink.pending() === 0;
  };
  const later = again(pump);

  const left = () => kept.reduce((sum, { bytes }) => sum + bytes.length, sink.pending());
  return {
    pass(bytes) {
      let waits: Promise<void> | undefined;
      let isTaken = false;
      const entry = { bytes, taken: (): void => void (isTaken = true) };
      kept.push(entry);
      if (!pump()) later();
      if (!isTaken) {
        // The giver may use its bytes again. (The slice of a Buffer would be the same bytes.)
        entry.bytes = new Uint8Array(entry.bytes);
        waits = new Promise((resolve) => entry.taken = resolve);
      }
      return waits;
    },
    left,
    async ready(signal) {
      while (left() > LITTLE_BYTES) {
        signal.throwIfAborted();
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    },
  };
}
