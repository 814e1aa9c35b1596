/**
 * A file that at most one process holds, and whose dead holder can be proved dead.
 *
 *   announce ──▶ create (O_EXCL) ──▶ write owner ─ ─ held ─ ─ ▶ withdraw ──▶ release
 *                    │ exists
 *                    └──▶ withdraw, not ours
 *
 * A process killed between creating the file and writing its owner into it would leave an empty file
 * that says nothing. So it first *announces* itself: a sibling file whose name is its identity, made by
 * one system call, there for at least as long as its lock may be empty. An empty lock is then proved
 * dead when somebody did announce and every process that announced is gone. The announcement of a
 * transaction is also the file that becomes the new state.json: that is how it is withdrawn.
 *
 * Both files are locked (flock) as long as they are open here, where that proves anything, so that another container's
 * processes, which can't see this one's pid, are told of its end by the kernel: see `observed-lock.ts`.
 *
 * A dead holder's file is removed only by whoever holds `<lock>.recover-<token>`, an exclusive file
 * of the same kind named after the token of the file to remove. Tokens never come back, so two
 * processes that have both proved the same owner dead can't remove the lock of a third who took it in
 * between.
 */
import { dirname } from "node:path";
import { AgentqError, isAgentqError } from "../errors.ts";
import { errnoOf, ioError } from "../platform/durable.ts";
import { type FileStat, sameFile } from "../platform/files.ts";
import { assertUsableUmask } from "../platform/umask.ts";
import { lstatOrNull } from "./admit.ts";
import { announcementPath, lockedToken } from "./announcements.ts";
import { FILE_MODE } from "./layout.ts";
import { flockMark, type LockOwner, MAX_LOCK_BYTES } from "./observed-lock.ts";
import type { StorePlatform } from "./types.ts";

export interface ExclusiveFile {
  readonly path: string;
  readonly token: string;
  readonly fd: number;
  readonly stat: FileStat;
  readonly content: Uint8Array;
  /** Still empty until a transaction fills it and renames it away; null once it is gone. */
  announcement: { readonly path: string; readonly fd: number } | null;
}

/** Takes the file, or returns null when it exists. */
export function tryExclusive(platform: StorePlatform, path: string): ExclusiveFile | null {
  const { files, identity } = platform;
  const directory = dirname(path);
  if (files.hasModes) assertUsableUmask(directory);
  const token = platform.token();
  const type = identity.bootId ? files.flockable(directory) : null;
  let announced: ExclusiveFile["announcement"] = null;
  let fd: number | undefined;
  try {
    announced = announce(platform, path, token, type);
    try {
      fd = files.create("lock.create", path, FILE_MODE);
    } catch (error) {
      if (errnoOf(error) !== "EEXIST") throw error;
      files.close(announced.fd);
      const { path: mine } = announced;
      announced = null;
      withdraw(platform, mine);
      return null;
    }
    const stat = files.fstat(fd);
    const flocked = type !== null && files.flock(fd, "exclusive") === true;
    const owner: LockOwner = {
      token,
      ...identity,
      createdAt: new Date().toISOString(),
      ...(flocked ? { flock: flockMark(type, stat) } : {}),
    };
    const content = new TextEncoder().encode(JSON.stringify(owner) + "\n");
    files.write("lock.write", fd, content);
    return { path, token, fd, stat, content, announcement: announced };
  } catch (error) {
    // Told as the disk is now: what is given back here may be what it was short of.
    const failure = ioError("lock", path, error);
    // Ours, and not yet relied on: give it back, or else leave the announcement, so that it can be
    // proved stale once this process has ended. Nobody may prove it before it is back.
    let released = true;
    if (fd !== undefined) {
      released = attempt(() => files.unlink("lock.release", path));
      files.close(fd);
    }
    if (announced !== null) {
      files.close(announced.fd);
      const { path: mine } = announced;
      if (released) attempt(() => withdraw(platform, mine));
    }
    throw failure;
  }
}

function announce(
  platform: StorePlatform,
  path: string,
  token: string,
  type: number | null,
): { readonly path: string; readonly fd: number } {
  const { files, identity } = platform;
  if (type !== null) {
    const locked = announcementPath(path, lockedToken(token, type, identity.bootId!), identity);
    const fd = files.create("lock.announce", locked, FILE_MODE);
    try {
      // Somebody may have looked at it, or tidied it away, before it was locked.
      if (files.flock(fd, "exclusive") === true && files.fstat(fd).links === 1) {
        return { path: locked, fd };
      }
    } catch {
      // One that isn't locked will do.
    }
    files.close(fd);
    withdraw(platform, locked);
  }
  const plain = announcementPath(path, token, identity);
  return { path: plain, fd: files.create("lock.announce", plain, FILE_MODE) };
}

/** An operator may have taken it away already. */
function withdraw(platform: StorePlatform, announcement: string): void {
  try {
    platform.files.unlink("lock.withdraw", announcement);
  } catch (error) {
    if (errnoOf(error) !== "ENOENT") throw error;
  }
}

/**
 * Throws `lock-lost` unless the file is still this holder's. The open descriptor keeps the inode from
 * being reused, so identity is exact.
 */
export function assertHeld(platform: StorePlatform, held: ExclusiveFile): void {
  const now = lstatOrNull(platform.files, held.path);
  if (now !== null && sameFile(now, held.stat)) return;
  throw new AgentqError("lock-lost", `${held.path} is no longer held by this process`, {
    details: { path: held.path },
  });
}

/**
 * Locks whose removal failed, by file system: they are this process's, which lives, so that nobody
 * could prove them stale. Whatever is done next here removes them first.
 */
const unreleased = new WeakMap<object, Set<ExclusiveFile>>();

/** Removes the file if it is still this holder's; where the system refuses, later. Never throws. */
export function releaseOrKeep(platform: StorePlatform, held: ExclusiveFile): void {
  try {
    release(platform, held);
  } catch {
    const left = unreleased.get(platform.files) ?? new Set();
    unreleased.set(platform.files, left.add(held));
  }
}

/** Removes what {@link releaseOrKeep} had to leave. Throws `io-error` when that still fails. */
export function releaseLeftovers(platform: StorePlatform): void {
  const left = unreleased.get(platform.files);
  for (const held of left ?? []) {
    release(platform, held);
    left!.delete(held);
  }
}

function release(platform: StorePlatform, held: ExclusiveFile): void {
  const { files } = platform;
  try {
    if (held.announcement !== null) {
      withdraw(platform, held.announcement.path);
      files.close(held.announcement.fd);
      held.announcement = null;
    }
    assertHeld(platform, held);
    const content = files.readAll(held.fd, held.content.length, MAX_LOCK_BYTES);
    // Ours by identity, and yet not what we wrote: leave it to whoever did that.
    if (equalBytes(content, held.content)) files.unlink("lock.release", held.path);
  } catch (error) {
    // Not ours any more: nothing to remove.
    if (!isAgentqError(error, "lock-lost")) throw ioError("release", held.path, error);
  }
  files.close(held.fd);
}

function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, index) => byte === b[index]);
}

/** Does what can be done after a failure; the failure stays the one to report. */
function attempt(action: () => void): boolean {
  try {
    action();
    return true;
  } catch {
    return false;
  }
}
