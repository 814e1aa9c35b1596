/**
 * Who uses a worktree now: one process at a time, and none for ever.
 *
 *   <directory>/<name>.lock   who holds it, in a form that proves its owner's end (file/ref-lock.ts)
 *   <directory>/<name>.beat   touched every BEAT_MS as long as the owner lives
 *
 *   free ─take─▶ held ─release─▶ free
 *                  └─ owner proven gone: taken at once
 *                  └─ owner unprovable (another container, another boot) and no beat for SILENCE_MS
 *                     of the watcher's own monotonic clock: taken by whoever watched
 */
import fs from "node:fs";
import type { Clock } from "../platform/clock.ts";
import { isProcessAlive } from "../platform/host.ts";
import { breakStaleLock, createLock, newLockText, readLock, releaseLock } from "./file/ref-lock.ts";

export const BEAT_MS = 5_000;
export const SILENCE_MS = 60_000;

export interface WorktreeLock {
  release(): void;
}

/** Takes the lock of a worktree, or null when somebody may be using it. */
export function takeWorktreeLock(directory: string, name: string): WorktreeLock | null {
  const path = `${directory}/${name}.lock`;
  const beat = `${directory}/${name}.beat`;
  const { text, nonce } = newLockText();
  while (createLock(path, text) === "exists") {
    if (!breakStaleLock(path)) return null;
  }
  const touch = () => fs.writeFileSync(beat, nonce);
  touch();
  const timer = setInterval(() => {
    try {
      touch();
    } catch {
      // A full disk must not end the process here; what it was doing will say so.
    }
  }, BEAT_MS);
  timer.unref();
  return {
    release() {
      clearInterval(timer);
      const owner = readLock(path);
      if (typeof owner === "object" && owner.nonce === nonce) releaseLock(path);
    },
  };
}

/** Watches locks whose owners can't be proven gone, and tells those that have been silent too long. */
export function watchSilence(directory: string, clock: Clock, silenceMs = SILENCE_MS) {
  const seen = new Map<string, { mark: string; since: number }>();
  return {
    /** Removes the lock of `name` when its owner is unprovable and has been silent. True when removed. */
    breakSilent(name: string): boolean {
      const path = `${directory}/${name}.lock`;
      const owner = readLock(path);
      if (owner === "absent") return true;
      if (owner !== "foreign" && isProcessAlive(owner) !== "unknown") return false;
      const stat = fs.statSync(`${directory}/${name}.beat`, {
        bigint: true,
        throwIfNoEntry: false,
      });
      const mark = `${owner === "foreign" ? "" : owner.nonce} ${stat?.mtimeNs ?? ""}`;
      const before = seen.get(name);
      if (before?.mark !== mark) {
        seen.set(name, { mark, since: clock.monotonic() });
        return false;
      }
      if (clock.monotonic() - before.since < silenceMs) return false;
      seen.delete(name);
      releaseLock(path);
      return true;
    },
  };
}
