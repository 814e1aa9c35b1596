/** Operator recovery: removing a lock whose owner is gone, by proof or by name. */
import { AgentqError } from "../errors.ts";
import { absolutePath } from "../platform/directory.ts";
import { lstatOrNull, wrongKind } from "./admit.ts";
import { allAnnouncements } from "./announcements.ts";
import { releaseLeftovers } from "./exclusive.ts";
import { holderLiveness } from "./observed-lock.ts";
import { storePaths } from "./layout.ts";
import { missing } from "./open.ts";
import { storePlatform } from "./platform.ts";
import { findLocks, removeStaleLock, withdrawTheDead } from "./stale.ts";
import type { StoreOptions } from "./types.ts";

export interface UnlockOptions extends StoreOptions {
  /** The token that the operator names the lock by; needs `iHaveChecked`. */
  ownerToken?: string;
  /**
   * The operator's word that no process uses the store any more. Also clears away what processes
   * of another boot have left.
   */
  iHaveChecked?: boolean;
}

export interface UnlockReport {
  readonly removed: readonly { path: string; ownerToken: string }[];
}

/**
 * Removes the locks of a store whose owners are proved gone, or the one that the operator names.
 * Errors: `unlock-refused`, `store-missing`. A store without a lock gives an empty report.
 */
export async function unlockStore(
  root: string,
  options: UnlockOptions = {},
): Promise<UnlockReport> {
  const platform = storePlatform(options);
  const paths = storePaths(absolutePath(root));
  const found = lstatOrNull(platform.files, paths.root);
  if (found !== null && found.kind !== "directory") {
    throw wrongKind(paths.root, found.kind, "directory", "root");
  }
  releaseLeftovers(platform);
  if (lstatOrNull(platform.files, paths.namespace)?.kind !== "directory") {
    throw missing(platform, paths);
  }
  const { ownerToken } = options;
  if (ownerToken !== undefined && options.iHaveChecked !== true) {
    throw new AgentqError(
      "unlock-refused",
      "naming a lock's owner token removes it without proof",
      { hint: "Add --i-have-checked once you have made sure that no process uses the store." },
    );
  }
  const locks = findLocks(platform, paths.namespace);
  const chosen = ownerToken === undefined
    ? locks
    : locks.filter(({ token }) => token === ownerToken);
  if (ownerToken !== undefined && chosen.length === 0 && locks.length > 0) {
    throw new AgentqError(
      "unlock-refused",
      `no lock of ${paths.root} has the owner token ${JSON.stringify(ownerToken)}`,
      { details: { ownerTokens: locks.map(({ token }) => token) } },
    );
  }
  const removed = [];
  for (const lock of chosen) {
    // Somebody else is just removing a lock: nothing that an operator has to see to.
    const recovering = lock.path !== paths.lock && ownerToken === undefined;
    if (recovering && holderLiveness(platform, lock) === "alive") continue;
    const proof = ownerToken === undefined ? "proved" : { ownerToken };
    if (removeStaleLock(platform, lock, proof)) {
      removed.push({ path: lock.path, ownerToken: lock.token });
    }
  }
  if (options.iHaveChecked === true) {
    // Left by processes of another boot: nothing but the operator's word can tell that they are gone.
    withdrawTheDead(platform, allAnnouncements(platform, paths.namespace), "vouched");
  }
  return { removed };
}
