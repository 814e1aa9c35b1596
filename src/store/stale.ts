/** Stale locks: removed only on proof that the owner is gone, or on an operator's word. */
import { dirname, join } from "node:path";
import { AgentqError } from "../errors.ts";
import { errnoOf, ioError } from "../platform/durable.ts";
import { lstatOrNull } from "./admit.ts";
import {
  type Announcement,
  announcements,
  announcerLiveness,
  isOfToken,
  listDirectory,
} from "./announcements.ts";
import { releaseOrKeep, tryExclusive } from "./exclusive.ts";
import { holderLiveness, isStillThere, type ObservedLock, observeLock } from "./observed-lock.ts";
import { LOCK_NAME } from "./layout.ts";
import { shellWord } from "./shell-word.ts";
import type { StorePlatform } from "./types.ts";

/** Who vouches that the owner is gone: the kernel's own facts, or an operator naming the lock. */
export type UnlockProof = "proved" | { readonly ownerToken: string };

/**
 * Removes exactly the lock that was observed, if its owner is gone.
 *
 * Returns false when the lock went away by itself or somebody else is just removing it. Throws
 * `unlock-refused` when the owner lives or nothing can be proved.
 */
export function removeStaleLock(
  platform: StorePlatform,
  observed: ObservedLock,
  proof: UnlockProof,
  depth = 0,
): boolean {
  if (!isStillThere(platform, observed) || !provedGone(platform, observed, proof)) return false;
  const recovery = recoveryPath(observed);
  const held = tryExclusive(platform, recovery);
  if (held === null) {
    const other = observeLock(platform, recovery);
    // A recovery under way will do; one that died is recovered from first, the same way.
    if (other === null || holderLiveness(platform, other) === "alive") return false;
    if (depth === MAX_DEPTH) {
      throw new AgentqError("unlock-refused", `recoveries of ${observed.path} keep dying`, {
        hint: `Look at what begins with ${observed.path}.`,
        details: { path: other.path },
      });
    }
    removeStaleLock(platform, other, "proved", depth + 1);
    return removeStaleLock(platform, observed, proof, depth + 1);
  }
  try {
    if (!isStillThere(platform, observed)) return false;
    // A lock without a readable owner is not known by its token: prove it once more, now that nobody
    // else may remove it.
    if (!provedGone(platform, observed, proof)) return false;
    try {
      platform.files.unlink("unlock.remove-lock", observed.path);
    } catch (error) {
      if (errnoOf(error) !== "ENOENT") throw ioError("remove", observed.path, error);
    }
    const left = announcements(platform, observed.path);
    if (observed.owner === null) withdrawTheDead(platform, left);
    else withdrawThoseOf(platform, left, observed.token);
    return true;
  } finally {
    releaseOrKeep(platform, held);
  }
}

/** Recoveries that died while recovering a recovery; more than a few are a fault, not bad luck. */
const MAX_DEPTH = 8;

/** Everything in the namespace that is a lock: the transfer lock and locks of recoveries under way. */
export function findLocks(platform: StorePlatform, namespace: string): ObservedLock[] {
  const locks: ObservedLock[] = [];
  for (const name of listDirectory(platform, namespace)) {
    if (name !== LOCK_NAME && !RECOVERY_NAME.test(name)) continue;
    const lock = observeLock(platform, join(namespace, name));
    if (lock !== null) locks.push(lock);
  }
  return locks;
}

/**
 * Removes announcements of processes that are proved gone; says how many. An empty one of another boot
 * or machine stays, however old: were its process alive and its lock still empty, another's leftover
 * would wrongly prove that lock dead. An operator can vouch for those; and who holds the transfer lock
 * (`locked`) knows that one with a state in it is of a transaction that will never end.
 */
export function withdrawTheDead(
  platform: StorePlatform,
  announced: readonly Announcement[],
  because?: "vouched" | "locked",
): number {
  let removed = 0;
  for (const one of announced) {
    const liveness = announcerLiveness(platform, one, () => removed += remove(platform, one));
    if (liveness !== "unknown") continue;
    if (because !== "vouched") {
      const filled = (lstatOrNull(platform.files, one.path)?.size ?? 0) > 0;
      if (because !== "locked" || !filled) continue;
    }
    removed += remove(platform, one);
  }
  return removed;
}

/** Removes what the owner of a lock that is gone announced it by. */
function withdrawThoseOf(
  platform: StorePlatform,
  announced: readonly Announcement[],
  token: string,
): void {
  for (const one of announced) {
    if (isOfToken(one, token)) remove(platform, one);
  }
}

function remove(platform: StorePlatform, { path }: Announcement): 0 | 1 {
  try {
    platform.files.unlink("unlock.remove-announcement", path);
    return 1;
  } catch (error) {
    if (errnoOf(error) !== "ENOENT") throw ioError("remove", path, error);
    return 0;
  }
}

const RECOVERY_NAME = /^\.state-transfer\.lock\.recover-(?:[0-9a-f]{32}|unreadable-[0-9]+)$/;

export function isRecoveryName(name: string): boolean {
  return RECOVERY_NAME.test(name);
}

/** Flat, however deep recoveries of recoveries go: tokens are unique. */
function recoveryPath(lock: ObservedLock): string {
  return join(dirname(lock.path), `${LOCK_NAME}.recover-${lock.token}`);
}

/** True: its owner is gone. False: the lock itself is. Throws `unlock-refused` for anything else. */
function provedGone(platform: StorePlatform, lock: ObservedLock, proof: UnlockProof): boolean {
  if (proof !== "proved") {
    if (proof.ownerToken === lock.token) return true;
    throw new AgentqError(
      "unlock-refused",
      `${lock.path} belongs to owner token ${lock.token}, not ${JSON.stringify(proof.ownerToken)}`,
      { details: { path: lock.path, ownerToken: lock.token } },
    );
  }
  const liveness = holderLiveness(platform, lock);
  if (liveness === "gone") return true;
  if (!isStillThere(platform, lock)) return false;
  throw new AgentqError(
    "unlock-refused",
    `${lock.path} is held by ${describeOwner(lock)}: ${WHY[liveness]}`,
    {
      hint: liveness === "alive"
        ? "Wait for it, or end that process first."
        : "When you have made sure that no process uses this store any more: agentq store unlock " +
          `--store ${
            shellWord(dirname(dirname(lock.path)))
          } --owner-token ${lock.token} --i-have-checked`,
      details: { path: lock.path, ownerToken: lock.token, liveness, owner: lock.owner },
    },
  );
}

const WHY = {
  alive: "that process is running",
  unknown: "it can't be proved that its owner has ended",
} as const;

/** The owner in words, for messages. */
export function describeOwner(lock: ObservedLock): string {
  const { owner } = lock;
  if (owner === null) return "an owner that can't be read (the lock file is empty or torn)";
  return `process ${owner.pid} on ${JSON.stringify(owner.host)} since ${
    JSON.stringify(owner.createdAt)
  }`;
}
