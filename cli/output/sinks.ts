/**
 * Ways to write to a descriptor without waiting for its reader. Its O_NONBLOCK is no such way: other
 * programs share it. On Linux what it stands for is opened anew, which gives a flag of one's own. A socket
 * can't be opened so, nor a pipe of another user, and other systems have nothing like it: there a thread
 * waits in our place.
 */
import { constants, fstatSync, openSync, writeSync } from "node:fs";
import { pause, type Sink } from "./outlet.ts";

/** Told the system's code of what a reader will never take: EPIPE where it went away. */
type OnFault = (code: string) => void;

/** How to write to `fd`; null where it takes everything at once (a file), so that there is no waiting. */
export function sinkFor(fd: number, onFault: OnFault = () => {}): Sink | null {
  try {
    const stat = fstatSync(fd);
    // Opened anew a file would have a position of its own.
    if (stat.isFile() || stat.isBlockDevice()) return null;
  } catch {
    return null;
  }
  const own = openAnew(fd);
  if (own === null) return threadSink(fd, onFault);
  return { take: (bytes) => takeNow(own, bytes, onFault), pending: () => 0 };
}

function openAnew(fd: number): number | null {
  const { O_WRONLY, O_NONBLOCK, O_NOCTTY } = constants;
  try {
    return openSync(`/proc/self/fd/${fd}`, O_WRONLY | O_NONBLOCK | O_NOCTTY);
  } catch {
    return null;
  }
}

function takeNow(fd: number, bytes: Uint8Array, onFault: OnFault): number {
  try {
    return writeSync(fd, bytes);
  } catch (error) {
    const { code } = error as { code?: unknown };
    if (code === "EAGAIN") return 0;
    // A reader that went away, a full device: it never will be taken.
    onFault(String(code));
    return bytes.length;
  }
}

const RING_BYTES = 64 * 1024;
/**
 * What `control` holds: where the next byte is put, whence the next is taken, 1 once the thread runs, 2 once it is
 * given up, and 1 once the reader went away, 2 once it fails otherwise.
 */
const [PUT, TAKEN, RUNS, FAULT] = [0, 1, 2, 3];
const FAULTS = ["", "EPIPE", "EIO"];

const THREAD = `
import { writeSync } from "node:fs";
globalThis.onmessage = ({ data: { fd, control, ring } }) => {
  if (Atomics.compareExchange(control, ${RUNS}, 0, 1) !== 0) return;
  for (;;) {
    const put = Atomics.load(control, ${PUT}), taken = Atomics.load(control, ${TAKEN});
    if (put === taken) {
      Atomics.wait(control, ${PUT}, put);
      continue;
    }
    const bytes = ring.slice(taken, put > taken ? put : ring.length);
    let count = bytes.length;
    try {
      count = writeSync(fd, bytes);
    } catch (error) {
      if (error.code === "EAGAIN") {
        Atomics.wait(control, ${RUNS}, 1, 5);
        continue;
      }
      Atomics.store(control, ${FAULT}, error.code === "EPIPE" ? 1 : 2);
    }
    Atomics.store(control, ${TAKEN}, (taken + count) % ring.length);
  }
};
`;

/** As much of a thread as is used here. */
interface Thread {
  postMessage(message: unknown): void;
  unref?(): void;
  addEventListener(type: "error", listener: (event: { preventDefault(): void }) => void): void;
}

/** How long a thread may take to start before its work is done here instead. */
const START_MS = 2000;

function threadSink(fd: number, onFault: OnFault): Sink | null {
  const control = new Int32Array(new SharedArrayBuffer(16));
  const ring = new Uint8Array(new SharedArrayBuffer(RING_BYTES));
  const made = performance.now();
  try {
    const url = URL.createObjectURL(new Blob([THREAD], { type: "application/javascript" }));
    const thread = new Worker(url, { type: "module" }) as unknown as Thread;
    thread.addEventListener("error", (event) => event.preventDefault());
    thread.unref?.();
    thread.postMessage({ fd, control, ring });
  } catch {
    return null;
  }
  /** The system has no more threads: better to wait for a reader than to say nothing. */
  const instead = () => {
    if (Atomics.load(control, RUNS) === 0 && performance.now() - made >= START_MS) {
      Atomics.compareExchange(control, RUNS, 0, 2);
    }
    if (Atomics.load(control, RUNS) !== 2) return;
    const [put, taken] = [Atomics.load(control, PUT), Atomics.load(control, TAKEN)];
    const bytes = put >= taken
      ? ring.slice(taken, put)
      : new Uint8Array([...ring.subarray(taken), ...ring.subarray(0, put)]);
    for (let at = 0; at < bytes.length;) {
      const count = takeNow(fd, bytes.subarray(at), onFault);
      if (count === 0) pause(5);
      at += count;
    }
    Atomics.store(control, TAKEN, put);
  };
  const tellFault = () => {
    const fault = FAULTS[Atomics.load(control, FAULT)];
    if (fault) onFault(fault);
  };
  return {
    take(bytes) {
      instead();
      tellFault();
      const [put, taken] = [Atomics.load(control, PUT), Atomics.load(control, TAKEN)];
      const free = (taken - put - 1 + RING_BYTES) % RING_BYTES;
      const some = bytes.subarray(0, free);
      const toEnd = RING_BYTES - put;
      ring.set(some.subarray(0, toEnd), put);
      ring.set(some.subarray(toEnd), 0);
      Atomics.store(control, PUT, (put + some.length) % RING_BYTES);
      Atomics.notify(control, PUT);
      return some.length;
    },
    pending() {
      instead();
      tellFault();
      const [put, taken] = [Atomics.load(control, PUT), Atomics.load(control, TAKEN)];
      return (put - taken + RING_BYTES) % RING_BYTES;
    },
  };
}
