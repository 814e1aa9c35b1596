/**
 * A lock file as somebody else sees it: who holds it, and whether that process is proved gone.
 *
 * To those who see its pid the kernel says whether a process runs. To those in other containers of the same kernel it
 * says whether the lock file is locked (`FileSystem.flock`): its owner locks it before it writes into it that it
 * did, and the kernel unlocks it when the last thread of the owner is gone, and no earlier.
 */
import { errnoOf, ioError } from "../platform/durable.ts";
import { type Descriptor, type FileStat, sameFile } from "../platform/files.ts";
import { isProcessAlive, type Liveness, type ProcessIdentity } from "../platform/host.ts";
import { isInteger, isText, nullable, optional, shape, textLike } from "../platform/shapes.ts";
import { lstatOrNull, wrongKind } from "./admit.ts";
import { announcements, announcerLiveness } from "./announcements.ts";
import type { StorePlatform } from "./types.ts";

/** What a lock file says about its holder. */
export interface LockOwner extends ProcessIdentity {
  readonly token: string;
  /** ISO 8601, for people to read; never compared. */
  readonly createdAt: string;
  /** The owner keeps the file locked: see {@link flockMark}. Absent where that proves nothing. */
  readonly flock?: string;
}

/** What a locked file says of itself: the type of the file system in hexadecimal, device and inode. */
export function flockMark(fileSystem: number, { dev, ino }: FileStat): string {
  return `${fileSystem.toString(16)}:${dev}:${ino}`;
}

const isOwner = shape({
  token: textLike(/^[0-9a-f]{32}$/),
  pid: (value) => isInteger(value) && (value as number) >= 1,
  startTime: nullable(isText),
  pidNamespace: nullable(isText),
  bootId: nullable(isText),
  host: isText,
  createdAt: isText,
  flock: optional(isText),
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
      text = textOf(files, fd, stat.size);
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
    const byPid = isProcessAlive(lock.owner, platform.probe);
    const liveness = byPid === "unknown" ? byFlock(platform, lock, lock.owner) : byPid;
    // It may have released the lock and ended since the lock was read: then there is nothing to prove.
    return liveness === "gone" && !isStillThere(platform, lock) ? "unknown" : liveness;
  }
  // One with a state in it had written its owner before: that lock wasn't this one.
  const announced = announcements(platform, lock.path).filter(({ path }) =>
    lstatOrNull(platform.files, path)?.size === 0
  );
  if (announced.length === 0) return "unknown";
  const verdicts = announced.map((one) => announcerLiveness(platform, one));
  if (verdicts.includes("unknown")) return "unknown";
  if (verdicts.includes("alive")) return "alive";
  // Still the same unreadable file: whoever made it had announced before and was on that list.
  return isStillThere(platform, lock) ? "gone" : "unknown";
}

/** What the kernel says of the very file that was observed, if its owner locked it. */
function byFlock(platform: StorePlatform, lock: ObservedLock, owner: LockOwner): Liveness {
  const { files, probe } = platform;
  if (owner.flock === undefined || !owner.bootId || owner.bootId !== probe.bootId()) {
    return "unknown";
  }
  const type = files.flockable(lock.path);
  if (type === null || owner.flock !== flockMark(type, lock.stat)) return "unknown";
  let fd: number | undefined;
  try {
    fd = files.openRead(lock.path);
    if (!sameFile(files.fstat(fd), lock.stat)) return "unknown";
    const locked = files.flock(fd, "shared");
    if (locked === false) return "alive";
    // The inode may be another lock's by now, whose owner is just about to lock it.
    return locked === true && textOf(files, fd, lock.stat.size) === lock.text ? "gone" : "unknown";
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return "unknown";
    throw ioError("read", lock.path, error);
  } finally {
    if (fd !== undefined) files.close(fd);
  }
}

function textOf(files: StorePlatform["files"], fd: Descriptor, size: number): string {
  return new TextDecoder().decode(files.readAll(fd, size, MAX_LOCK_BYTES));
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
