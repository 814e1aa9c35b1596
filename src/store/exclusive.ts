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
 * A dead holder's file is removed only by whoever holds `<lock>.recover-<token>`, an exclusive file
 * of the same kind named after the token of the file to remove. Tokens never come back, so two
 * processes that have both proved the same owner dead can't remove the lock of a third who took it in
 * between.
 */
import { createHash } from "node:crypto";
import { dirname, join } from "node:path";
import * as z from "zod/mini";
import { AgentqError, isAgentqError } from "../errors.ts";
import { errnoOf, ioError } from "../platform/durable.ts";
import { type FileStat, sameFile } from "../platform/files.ts";
import { isProcessAlive, type Liveness, type ProcessIdentity } from "../platform/host.ts";
import { lstatOrNull } from "./admit.ts";
import { FILE_MODE } from "./layout.ts";
import type { StorePlatform } from "./types.ts";

/** What a lock file says about its holder. */
export interface LockOwner extends ProcessIdentity {
  readonly token: string;
  /** ISO 8601, for people to read; never compared. */
  readonly createdAt: string;
}

const ownerSchema = z.looseObject({
  token: z.string().check(z.regex(/^[0-9a-f]{32}$/)),
  pid: z.int().check(z.gte(1)),
  startTime: z.nullable(z.string()),
  pidNamespace: z.nullable(z.string()),
  bootId: z.nullable(z.string()),
  host: z.string(),
  createdAt: z.string(),
});

export interface ExclusiveFile {
  readonly path: string;
  readonly token: string;
  readonly fd: number;
  readonly stat: FileStat;
  readonly content: Uint8Array;
  /** Still empty until a transaction fills it and renames it away; null once it is gone. */
  announcement: { readonly path: string; readonly fd: number } | null;
}

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

const MAX_LOCK_BYTES = 16 * 1024;

/** Takes the file, or returns null when it exists. */
export function tryExclusive(platform: StorePlatform, path: string): ExclusiveFile | null {
  const { files } = platform;
  if (lstatOrNull(files, path) !== null) return null;
  const token = platform.token();
  const announcement = announcementPath(path, token, platform.identity);
  let announced: number | undefined;
  let fd: number | undefined;
  try {
    announced = files.create("lock.announce", announcement, FILE_MODE);
    try {
      fd = files.create("lock.create", path, FILE_MODE);
    } catch (error) {
      if (errnoOf(error) !== "EEXIST") throw error;
      files.close(announced);
      announced = undefined;
      withdraw(platform, announcement);
      return null;
    }
    const owner: LockOwner = {
      token,
      ...platform.identity,
      createdAt: new Date().toISOString(),
    };
    const content = new TextEncoder().encode(JSON.stringify(owner) + "\n");
    files.write("lock.write", fd, content);
    const stat = files.fstat(fd);
    return { path, token, fd, stat, content, announcement: { path: announcement, fd: announced } };
  } catch (error) {
    // Ours, and not yet relied on: give it back, or else leave the announcement, so that it can be
    // proved stale once this process has ended.
    let released = true;
    if (fd !== undefined) {
      files.close(fd);
      released = attempt(() => files.unlink("lock.release", path));
    }
    if (announced !== undefined) files.close(announced);
    if (released) attempt(() => withdraw(platform, announcement));
    throw ioError("lock", path, error);
  }
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

/** Looks at a lock file without touching it; null when there is none. */
export function observeLock(platform: StorePlatform, path: string): ObservedLock | null {
  const { files } = platform;
  const stat = lstatOrNull(files, path);
  if (stat === null) return null;
  if (stat.kind !== "file") {
    throw new AgentqError("identity-changed", `${path} is a ${stat.kind}, not a lock file`);
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

export interface Announcement {
  readonly path: string;
  /** The lock that it is about. */
  readonly lock: string;
  readonly identity: ProcessIdentity;
}

/** Who has announced to take `path`. */
export function announcements(platform: StorePlatform, path: string): Announcement[] {
  return allAnnouncements(platform, dirname(path)).filter(({ lock }) => lock === path);
}

/** Who has announced to take any lock in the directory. */
export function allAnnouncements(platform: StorePlatform, directory: string): Announcement[] {
  const found: Announcement[] = [];
  for (const name of listDirectory(platform, directory)) {
    const match = ANNOUNCEMENT.exec(name);
    if (match === null) continue;
    const identity = announcedIdentity(match, platform.identity);
    found.push({ path: join(directory, name), lock: join(directory, match[1]!), identity });
  }
  return found;
}

export function listDirectory(platform: StorePlatform, path: string): string[] {
  try {
    return platform.files.readdir(path);
  } catch (error) {
    throw ioError("list", path, error);
  }
}

/** `<lock>.<token>.<pid>.<start time>.<kernel>` */
const ANNOUNCEMENT = /^(\..+)\.[0-9a-f]{32}\.([0-9]{1,10})\.([A-Za-z0-9_-]*)\.([0-9a-f]{16})$/;

function announcementPath(path: string, token: string, identity: ProcessIdentity): string {
  let suffix = suffixes.get(identity);
  if (suffix === undefined) {
    const start = base64url(identity.startTime ?? "");
    suffix = `${identity.pid}.${start}.${kernelHash(identity)}`;
    suffixes.set(identity, suffix);
  }
  return `${path}.${token}.${suffix}`;
}

const suffixes = new WeakMap<ProcessIdentity, string>();

/** Boot and pid namespace are only a hash in the name: equal to ours means the same kernel and pids. */
function announcedIdentity(match: RegExpExecArray, ours: ProcessIdentity): ProcessIdentity {
  const start = new TextDecoder().decode(
    Uint8Array.from(atob(match[3]!.replaceAll("-", "+").replaceAll("_", "/")), toByte),
  );
  const known = match[4] === kernelHash(ours);
  return {
    pid: Number(match[2]),
    startTime: start === "" ? null : start,
    pidNamespace: known ? ours.pidNamespace : null,
    bootId: known ? ours.bootId : null,
    host: "",
  };
}

function kernelHash(identity: ProcessIdentity): string {
  let hash = kernelHashes.get(identity);
  if (hash === undefined) {
    const kernel = JSON.stringify([identity.bootId, identity.pidNamespace]);
    hash = createHash("sha256").update(kernel).digest("hex").slice(0, 16);
    kernelHashes.set(identity, hash);
  }
  return hash;
}

const kernelHashes = new WeakMap<ProcessIdentity, string>();

function base64url(text: string): string {
  const binary = String.fromCharCode(...new TextEncoder().encode(text));
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function toByte(char: string): number {
  return char.charCodeAt(0);
}

function parseOwner(text: string): LockOwner | null {
  try {
    const result = z.safeParse(ownerSchema, JSON.parse(text));
    return result.success ? result.data : null;
  } catch {
    return null;
  }
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
