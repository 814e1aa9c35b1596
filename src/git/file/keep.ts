/**
 * `.keep` beside a new pack, as git's receive-pack writes it: until refs name its objects, a
 * `git gc --prune=now` in the origin would take them for garbage. The text says whose it is, so that
 * the one of a process that was killed can be removed.
 */
import { readdirSync } from "node:fs";
import { isAgentqError } from "../../errors.ts";
import { isProcessAlive } from "../../platform/host.ts";
import { discard } from "../pack-store.ts";
import { readLock } from "./ref-lock.ts";

/** Lets gc have the pack again. */
export function releasePack(packPath: string): void {
  discard(packPath.replace(/\.pack$/, ".keep"));
}

/** Removes keep files of ours whose process is proven gone. Anyone else's stay. */
export function releaseOrphans(packDirectory: string): void {
  for (const name of readdirSync(packDirectory)) {
    if (!name.endsWith(".keep")) continue;
    const owner = readLock(`${packDirectory}/${name}`);
    if (typeof owner === "object" && isProcessAlive(owner) === "gone") {
      discard(`${packDirectory}/${name}`);
    }
  }
}

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
