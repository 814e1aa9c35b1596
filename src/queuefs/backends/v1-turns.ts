/**
 * Consumers of a v1 queue here take turns: v1 gives a message that is claimed and not acknowledged to whoever claims
 * its id, so that two who have seen it pending at the same moment would both be given it. The lock is the kernel's,
 * on the open directory: v1 sees nothing of it, and it ends with its process. Other v1 programs don't take it.
 */
import { closeSync, constants, openSync } from "node:fs";
import { systemClock } from "../../platform/clock.ts";
import { lockOpen } from "../../platform/flock.ts";
import { startWaiting } from "../../platform/waiting.ts";

/** A consumer that is stopped in its turn keeps the others waiting so long: v1's deliveries are at least once anyway. */
const PATIENCE_MS = 5000;
const PAUSE_MS = 2;

/** Does it while no other consumer of the directory does, where that can be locked. */
export async function inTurn<T>(directory: string, work: () => Promise<T>): Promise<T> {
  let fd: number;
  try {
    fd = openSync(directory, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  } catch {
    return await work(); // It says what is wrong with it.
  }
  try {
    const end = performance.now() + PATIENCE_MS;
    const waiting = startWaiting();
    while (lockOpen(fd, "exclusive") === false && performance.now() < end) {
      waiting.still(() => `waiting for another consumer's turn in ${directory}`);
      await systemClock.sleep(PAUSE_MS);
    }
    waiting.over();
    return await work();
  } finally {
    closeSync(fd);
  }
}
