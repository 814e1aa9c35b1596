/** Directories of a repository that several users share (`core.sharedRepository`). */
import { chmodSync, mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";

/**
 * The permission bits of something new in such a repository. `group` and `all` add to what the umask
 * left, an octal value of core.sharedRepository stands for itself.
 */
export function sharedBits(mode: number, sharedMode: number): number {
  const adds = sharedMode === 0o660 || sharedMode === 0o664;
  return adds ? mode | sharedMode : (mode & ~0o777) | sharedMode;
}

/**
 * Makes a directory and those above it that are missing. What is new gets the permissions git gives it:
 * `sharedMode`'s bits, search where there is reading, and the group of its parent.
 */
export function makeSharedDirectory(path: string, sharedMode: number): void {
  const first = mkdirSync(path, { recursive: true });
  if (first === undefined || sharedMode === 0) return;
  for (let made = path;; made = dirname(made)) {
    const mode = sharedBits(statSync(made).mode & 0o7777, sharedMode);
    chmodSync(made, mode | ((mode & 0o444) >> 2) | 0o2000);
    if (made === first || made === dirname(made)) return;
  }
}
