/** Several system calls at a time: a disk makes many things last together sooner than one by one. */
import { availableParallelism } from "node:os";

/** The two ways to make the call with this number: on this thread, or on one of the runtime's. */
export interface EitherWay {
  readonly here: (index: number) => void;
  readonly elsewhere: (index: number) => Promise<void>;
}

/** Makes `count` calls: the last of them elsewhere, while this thread makes the first, in order. */
export function atOnce(count: number, { here, elsewhere }: EitherWay): Promise<void>[] {
  const first = count - shareElsewhere(count);
  const there = Array.from({ length: count - first }, (_, index) => elsewhere(first + index));
  return [...Array.from({ length: first }, (_, index) => attempted(() => here(index))), ...there];
}

/** How many threads make calls besides this one: Bun has as many as processors, the others more. */
const THREADS = "Bun" in globalThis ? Math.max(2, availableParallelism()) : 16;

/** So few that this thread makes half of them, before the others are awake. */
const FEW = 4;

function shareElsewhere(count: number): number {
  if (count <= 1) return 0;
  return count <= FEW ? count >> 1 : Math.ceil(count * THREADS / (THREADS + 1));
}

type Callback<T> = (error: NodeJS.ErrnoException | null | undefined, value: T) => void;

/** A call that another thread makes; made again when a signal interrupts it. */
export function later<T>(call: (done: Callback<T>) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    const again = () =>
      call((error, value) => {
        if (error === null || error === undefined) resolve(value);
        else if (error.code === "EINTR") again();
        else reject(error);
      });
    again();
  });
}

// deno-lint-ignore require-await -- async so that what it throws is a rejection.
async function attempted(action: () => void): Promise<void> {
  action();
}
