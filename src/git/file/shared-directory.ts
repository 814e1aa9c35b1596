/** Directories of a repository that several users share (`core.sharedRepository`). */
import { chmodSync, statSync } from "node:fs";
import { makeBelow } from "../../platform/make-below.ts";

/**
 * The permission bits of something new in such a repository. `group` and `all` add to what the umask
 * left, an octal value of core.sharedRepository stands for itself.
 */
export function sharedBits(mode: number, sharedMode: number): number {
  const adds = sharedMode === 0o660 || sharedMode === 0o664;
  return adds ? mode | sharedMode : (mode & ~0o777) | sharedMode;
}

/**
 * Makes a directory and those between it and `base` that are missing; never `base`. What is new gets the
 * permissions git gives it: `sharedMode`'s bits, search where there is reading, and the group of its parent.
 */
export function makeSharedDirectory(base: string, path: string, sharedMode: number): void {
  const made = makeBelow(base, path);
  for (const directory of sharedMode === 0 ? [] : made) {
    const mode = sharedBits(statSync(directory).mode & 0o7777, sharedMode);
    chmodSync(directory, mode | ((mode & 0o444) >> 2) | 0o2000);
  }
}
