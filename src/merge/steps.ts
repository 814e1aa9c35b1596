/**
 * Long work in steps: between two of them whatever else the process has to do may have its turn, as the renewal
 * of a lock. Who has nothing else to do takes them all at once.
 */

/** Work that is left off now and then, and comes to a `T`. */
export type Steps<T> = Generator<void, T, void>;

/** Does all of it. */
export function atOnce<T>(steps: Steps<T>): T {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/**
 * Does it step by step; `pause`, called after each, gives a promise to wait for when it is others' turn.
 * @throws what the work throws, and what such a promise is rejected with
 */
export async function inTurns<T>(
  steps: Steps<T>,
  pause: () => Promise<void> | undefined,
): Promise<T> {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
    const turn = pause();
    if (turn) await turn;
  }
}
