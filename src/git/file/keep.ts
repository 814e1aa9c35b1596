/**
 * `.keep` beside a new pack, as git's receive-pack writes it: until refs name its objects, a
 * `git gc --prune=now` in the origin would take them for garbage. The text says whose it is, so that
 * the one of a process that was killed can be removed.
 */
import { existsSync, readdirSync, rmSync } from "node:fs";
import { isAgentqError } from "../../errors.ts";
import { discard } from "../pack-store.ts";
import { ownerLiveness, readLock } from "./ref-lock.ts";

/** Lets gc have the pack again. */
export function releasePack(packPath: string): void {
  discard(packPath.replace(/\.pack$/, ".keep"));
}

/**
 * Removes keep files of ours whose process is proven gone, by its sign of life in `lives` too. Anyone else's
 * stay.
 */
export function releaseOrphans(packDirectory: string, lives: string): void {
  for (const path of keepFiles(packDirectory)) {
    const owner = readLock(path);
    if (typeof owner === "object" && ownerLiveness(owner, lives) === "gone") {
      discard(path);
    }
  }
}

export const keepFiles = (packDirectory: string): string[] =>
  readdirSync(packDirectory).filter((name) => name.endsWith(".keep"))
    .map((name) => `${packDirectory}/${name}`);

/** Removes what waited for the hooks of pushes whose process is proven gone: its `.keep` says whose it was. */
export function discardOrphans(objectsDirectory: string, lives: string): void {
  for (const directory of waiting(objectsDirectory)) {
    const owners = keepFiles(`${directory}/pack`).map(readLock);
    const isGone = (owner: ReturnType<typeof readLock>) =>
      typeof owner === "object" && ownerLiveness(owner, lives) === "gone";
    if (owners.length > 0 && owners.every(isGone)) {
      rmSync(directory, { recursive: true, force: true });
    }
  }
}

/** Quarantines with packs in them. */
const waiting = (objectsDirectory: string): string[] =>
  readdirSync(objectsDirectory).filter((name) => name.startsWith("tmp_objdir-incoming-"))
    .map((name) => `${objectsDirectory}/${name}`)
    .filter((directory) => existsSync(`${directory}/pack`));

/** True when a file of ours was gone: a `git gc --prune=now` clears away what it thinks is left over. */
export const isVanished = (error: unknown) =>
  isAgentqError(error, "io-error") && error.details?.errno === "ENOENT";

/** Does again what somebody's clearing away has undone. */
export function persistently<T>(work: () => T): T {
  for (let tries = 1;; tries++) {
    try {
      return work();
    } catch (error) {
      if (!isVanished(error) || tries >= 8) throw error;
    }
  }
}
