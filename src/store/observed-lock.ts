/** A lock file as somebody else sees it: who holds it, and whether that process is proved gone. */
import { errnoOf, ioError } from "../platform/durable.ts";
import { type FileStat, sameFile } from "../platform/files.ts";
import { isProcessAlive, type Liveness, type ProcessIdentity } from "../platform/host.ts";
import { isInteger, isText, nullable, shape, textLike } from "../platform/shapes.ts";
import { lstatOrNull, wrongKind } from "./admit.ts";
import { announcements } from "./announcements.ts";
import type { StorePlatform } from "./types.ts";

/** What a lock file says about its holder. */
export interface LockOwner extends ProcessIdentity {
  readonly token: string;
  /** ISO 8601, for people to read; never compared. */
  readonly createdAt: string;
}

const isOwner = shape({
  token: textLike(/^[0-9a-f]{32}$/),
  pid: (value) => isInteger(value) && (value as number) >= 1,
  startTime: nullable(isText),
  pidNamespace: nullable(isText),
  bootId: nullable(isText),
  host: isText,
  createdAt: isText,
});

/** A lock file as somebody else sees it. */
export interface ObservedLock {
  readonly path: string;
  readonly stat: FileStat;
  readonly text: string;
  /** null when the file is empty, torn or not a lock's. */
  readonly owner: LockOwner | null;
  /** What an operator names the lock by: the owner's token, or `unreadable-<inode>`. */
  readonly token: string;
}

/** More than any lock's content. */
export const MAX_LOCK_BYTES = 16 * 1024;

/** Looks at a lock file without touching it; null when there is none. */
export function observeLock(platform: StorePlatform, path: string): ObservedLock | null {
  const { files } = platform;
  const stat = lstatOrNull(files, path);
  if (stat === null) return null;
  if (stat.kind !== "file") {
    throw wrongKind(path, stat.kind, "lock file");
  }
  let text = "";
  try {
    const fd = files.openRead(path);
    try {
      if (!sameFile(files.fstat(fd), stat)) return observeLock(platform, path);
      text = new TextDecoder().decode(files.readAll(fd, stat.size, MAX_LOCK_BYTES));
    } finally {
      files.close(fd);
    }
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return null;
    throw ioError("read", path, error);
  }
  const owner = parseOwner(text);
  return { path, stat, text, owner, token: owner?.token ?? `unreadable-${stat.ino}` };
}

/** Whether the lock's holder is proved gone. An unreadable lock is judged by its announcements. */
export function holderLiveness(platform: StorePlatform, lock: ObservedLock): Liveness {
  if (lock.owner !== null) {
    const liveness = isProcessAlive(lock.owner, platform.probe);
    // It may have released the lock and ended since the lock was read: then there is nothing to prove.
    return liveness === "gone" && !isStillThere(platform, lock) ? "unknown" : liveness;
  }
  // One with a state in it had written its owner before: that lock wasn't this one.
  const announced = announcements(platform, lock.path).filter(({ path }) =>
    lstatOrNull(platform.files, path)?.size === 0
  );
  if (announced.length === 0) return "unknown";
  const verdicts = announced.map(({ identity }) => isProcessAlive(identity, platform.probe));
  if (verdicts.includes("unknown")) return "unknown";
  if (verdicts.includes("alive")) return "alive";
  // Still the same unreadable file: whoever made it had announced before and was on that list.
  return isStillThere(platform, lock) ? "gone" : "unknown";
}

/** The lock is there now as it was observed. */
export function isStillThere(platform: StorePlatform, observed: ObservedLock): boolean {
  const now = observeLock(platform, observed.path);
  return now !== null && sameFile(now.stat, observed.stat) && now.text === observed.text;
}

function parseOwner(text: string): LockOwner | null {
  try {
    const owner: unknown = JSON.parse(text);
    return isOwner(owner) ? owner as LockOwner : null;
  } catch {
    return null;
  }
}
