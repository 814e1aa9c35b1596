/**
 * The lock git takes on a ref, `<ref>.lock` created exclusively, in a form that survives its owner's
 * death.
 *
 * Git writes the new value into the lock and renames it into place; when it is killed, an anonymous
 * file is left that only a person can judge. Ours is a symbolic link whose "target" is the owner's
 * identity: creating it is exclusive and carries its content in one step, git's O_EXCL fails on it
 * like on any file, and nobody follows it. The new value is prepared in a hidden file beside it and
 * renamed over the ref while the lock is held; the lock is then unlinked. Where symbolic links are
 * refused, the lock is a regular file with the same text, written right after its creation.
 *
 *   free ──create──▶ held ──unlink──▶ free          held by one proven gone ──break──▶ free
 *
 * The identity proves an end to processes that see the owner's pid. To those in other containers of the same
 * kernel its sign of life does (`platform/life.ts`), a file in the repository which the lock's text names.
 *
 * Breaking: two processes that both see a dead owner's lock must not unlink one after the other, since
 * the second could hit the first's new lock. So whoever breaks first takes a lock named by the dead
 * owner's nonce, looks again whether that very lock is still there, and only then unlinks. The breaker's
 * lock is of the same kind, so that its own death is provable in turn. Nothing is ever broken by age;
 * a lock that proves nothing (git's, another machine's, one from before a reboot) is waited for and named.
 */
import {
  closeSync,
  existsSync,
  lstatSync,
  openSync,
  readFileSync,
  readlinkSync,
  symlinkSync,
  unlinkSync,
  writeSync,
} from "node:fs";
import { dirname, relative } from "node:path";
import { AgentqError } from "../../errors.ts";
import { randomBytes } from "../../platform/hash.ts";
import {
  isProcessAlive,
  type Liveness,
  type ProcessIdentity,
  processIdentity,
} from "../../platform/host.ts";
import { askLife, type Life, LIFE_MARK } from "../../platform/life.ts";
import {
  exactly,
  isInteger,
  isText,
  nullable,
  optional,
  shape,
  textLike,
} from "../../platform/shapes.ts";
import { makeSharedDirectory } from "./shared-directory.ts";

const isOwner = shape({
  agentq: exactly("lock"),
  nonce: textLike(/^[0-9a-f]{16}$/),
  pid: isInteger,
  startTime: nullable(isText),
  pidNamespace: nullable(isText),
  bootId: nullable(isText),
  host: isText,
  life: optional(textLike(LIFE_MARK)),
});
export interface LockOwner extends ProcessIdentity {
  readonly agentq: "lock";
  readonly nonce: string;
  /** The mark of the owner's sign of life, where it has one. */
  readonly life?: string;
}

/** Where the locks of a repository that several containers share are proved stale. */
export interface Graveyard {
  /** The directory with the signs of life of those who lock there. */
  readonly lives: string;
  /** This process's own, for the locks it takes while it breaks others. */
  readonly life: Life | null;
}

/** What a lock file says of its owner; `foreign` when it isn't one of ours (git leaves them empty). */
export type LockState = LockOwner | "foreign" | "absent";

/**
 * The text of a new lock: this process and a nonce that no other lock has. With `life`, the lock must be gone
 * when that ends.
 */
export function newLockText(life: Life | null = null): { text: string; nonce: string } {
  const nonce = randomBytes(8).toString("hex");
  const mark = life === null ? {} : { life: life.mark };
  const owner: LockOwner = { agentq: "lock", nonce, ...processIdentity(), ...mark };
  return { text: JSON.stringify(owner), nonce };
}

/** Where directories that a lock needs may be made. */
export interface LockBase {
  /** A directory above the lock that is never made itself: the repository's `refs`. */
  readonly base: string;
  /** What `core.sharedRepository` adds to permission bits (0 for none). */
  readonly sharedMode?: number;
}

/**
 * Creates the lock, or says that there is one. Directories it needs are made below `within`, and nowhere without.
 * @throws `io-error`
 */
export function createLock(
  path: string,
  text: string,
  within: LockBase | null = null,
): "created" | "exists" {
  for (let attempt = 0;; attempt++) {
    try {
      symlinkSync(text, path);
      return "created";
    } catch (cause) {
      const code = codeOf(cause);
      if (code === "EEXIST") return "exists";
      // The directory may be missing, or be pruned by another git at this moment.
      if (code === "ENOENT" && within !== null && attempt < 5) makeDirectory(path, within);
      else if (
        code === "EPERM" || code === "ENOTSUP" || code === "EOPNOTSUPP" || code === "ENOSYS"
      ) {
        return createPlainLock(path, text);
      } else throw lockError(path, cause);
    }
  }
}

function createPlainLock(path: string, text: string): "created" | "exists" {
  let fd: number;
  try {
    fd = openSync(path, "wx", 0o666);
  } catch (cause) {
    if (codeOf(cause) === "EEXIST") return "exists";
    throw lockError(path, cause);
  }
  try {
    writeSync(fd, text);
  } finally {
    closeSync(fd);
  }
  return "created";
}

function makeDirectory(path: string, { base, sharedMode = 0 }: LockBase): void {
  try {
    makeSharedDirectory(base, dirname(path), sharedMode);
  } catch (cause) {
    // Pruned once more; where it is the base that is gone, the next attempt ends here again.
    if (codeOf(cause) === "ENOENT" && existsSync(base)) return;
    // Another git may have put a ref where we want a directory: the caller looks and decides.
    throw lockError(path, cause);
  }
}

/** Whose lock this is. Never follows it. */
export function readLock(path: string): LockState {
  let text: string;
  try {
    text = readlinkSync(path);
  } catch (cause) {
    const code = codeOf(cause);
    if (code === "ENOENT" || code === "ENOTDIR") return "absent";
    try {
      if (!lstatSync(path).isFile()) return "foreign";
      text = readFileSync(path, "utf8").slice(0, 4096);
    } catch (again) {
      return codeOf(again) === "ENOENT" ? "absent" : "foreign";
    }
  }
  try {
    const owner: unknown = JSON.parse(text);
    return isOwner(owner) ? owner as LockOwner : "foreign";
  } catch {
    return "foreign";
  }
}

/** Removes a lock that this process made. */
export function releaseLock(path: string): void {
  try {
    unlinkSync(path);
  } catch (cause) {
    if (codeOf(cause) !== "ENOENT") throw lockError(path, cause);
  }
}

/**
 * Whether the owner of a lock still runs. `gone` is proved: by its pid, or by its sign of life in the directory
 * `lives`. That counts within one boot of one kernel only, as elsewhere nobody sees it being held.
 */
export function ownerLiveness(owner: LockOwner, lives?: string): Liveness {
  const byPid = isProcessAlive(owner);
  if (byPid !== "unknown" || lives === undefined || owner.life === undefined) return byPid;
  // An empty or unknown boot id is nobody's.
  if (!owner.bootId || owner.bootId !== processIdentity().bootId) return "unknown";
  return askLife(lives, owner.life);
}

/**
 * Removes the lock at `path` when its owner is proven gone.
 * @returns true when it is worth trying to take the lock again at once
 */
export function breakStaleLock(path: string, graveyard?: Graveyard): boolean {
  const owner = readLock(path);
  if (owner === "absent") return true;
  if (owner === "foreign" || ownerLiveness(owner, graveyard?.lives) !== "gone") return false;
  const breaker = `${dirname(path)}/.agentq-break-${owner.nonce}.lock`;
  const life = graveyard?.life ?? null;
  if (graveyard) life?.note([relative(graveyard.lives, breaker)]);
  const { text } = newLockText(life);
  try {
    if (createLock(breaker, text) === "exists") return breakStaleLock(breaker, graveyard);
  } catch (error) {
    // Another git has pruned the directory, with the lock in it gone before.
    if (readLock(path) === "absent") return true;
    throw error;
  }
  try {
    const now = readLock(path);
    if (now !== "absent" && now !== "foreign" && now.nonce === owner.nonce) releaseLock(path);
    return true;
  } finally {
    releaseLock(breaker);
  }
}

/** A sentence on who holds a lock, for messages. */
export function describeOwner(state: LockState, lives?: string): string {
  if (state === "absent") return "it is gone now";
  if (state === "foreign") {
    return "a git process holds it, or one that was killed has left it behind";
  }
  const who = `agentq process ${state.pid} on ${JSON.stringify(state.host)}`;
  return ownerLiveness(state, lives) === "alive"
    ? `${who} holds it`
    : `${who} took it, and from here nobody can tell whether that process still runs`;
}

/** What to do about a lock that stays. */
export function adviseOnLock(state: LockState, path: string, lives?: string): string {
  if (typeof state !== "object") {
    return "When nothing uses that repository any more, remove the lock file and try again.";
  }
  if (ownerLiveness(state, lives) === "alive") return "Wait for that process, or end it.";
  const where = state.bootId && state.bootId === processIdentity().bootId
    ? "in another container of this machine"
    : "on another machine, or on this one before it was started anew";
  return `It ran ${where}. Once it has ended for certain, remove ${path} and try again; ` +
    "while it runs the lock must stay.";
}

function codeOf(cause: unknown): string | undefined {
  return (cause as { code?: string }).code;
}

function lockError(path: string, cause: unknown): AgentqError {
  return new AgentqError("io-error", `Cannot lock ${path} (${codeOf(cause) ?? cause}).`, {
    cause,
    details: { path, errno: codeOf(cause) },
  });
}
