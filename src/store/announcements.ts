/**
 * Files whose name is a process's identity: who is just taking a lock (see `exclusive.ts`).
 *
 * Where the kernel keeps locks of files (`FileSystem.flock`), the announcer locks his before he makes the lock that
 * he announces, and keeps it locked. The second half of its token says so, which to those who don't know it is as
 * random as the first. One that says so and isn't locked is of a process that is gone, or that hasn't begun to make
 * its lock; when that finds its announcement gone, or held by someone who looks, it makes another.
 */
import { dirname, join } from "node:path";
import { errnoOf, ioError } from "../platform/durable.ts";
import { sameFile } from "../platform/files.ts";
import { createHash } from "../platform/hash.ts";
import { isProcessAlive, type Liveness, type ProcessIdentity } from "../platform/host.ts";
import { lstatOrNull } from "./admit.ts";
import type { StorePlatform } from "./types.ts";

export interface Announcement {
  readonly path: string;
  /** Of it the lock's token has the same first half. */
  readonly token: string;
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
    const [, lock, token] = match as unknown as [string, string, string];
    found.push({ path: join(directory, name), token, lock: join(directory, lock), identity });
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
const ANNOUNCEMENT = /^(\..+)\.([0-9a-f]{32})\.([0-9]{1,10})\.([A-Za-z0-9_-]*)\.([0-9a-f]{16})$/;

const HALF = 16;

/** The token of an announcement that is kept locked, on a file system of that type. */
export function lockedToken(token: string, fileSystem: number, bootId: string): string {
  const key = `${fileSystem} ${bootId}`;
  if (lastTag?.key !== key) {
    const tag = createHash("sha256").update(`flock ${key}`).digest("hex").slice(0, HALF);
    lastTag = { key, tag };
  }
  return token.slice(0, HALF) + lastTag.tag;
}

let lastTag: { readonly key: string; readonly tag: string } | undefined;

/** Whether a process announced itself by this before it took the lock with that token. */
export function isOfToken(announcement: Announcement, token: string): boolean {
  return announcement.token.slice(0, HALF) === token.slice(0, HALF);
}

/**
 * Whether the announcer is gone, or at least hasn't begun to make its lock; `whileGone` is called as long as
 * that is sure to stay so.
 */
export function announcerLiveness(
  platform: StorePlatform,
  announcement: Announcement,
  whileGone: () => void = () => {},
): Liveness {
  const byPid = isProcessAlive(announcement.identity, platform.probe);
  if (byPid === "gone") whileGone();
  return byPid === "unknown" ? byLock(platform, announcement, whileGone) : byPid;
}

function byLock(
  { files, probe }: StorePlatform,
  { path, token }: Announcement,
  whileGone: () => void,
): Liveness {
  const bootId = probe.bootId();
  const type = bootId ? files.flockable(path) : null;
  if (type === null || token !== lockedToken(token, type, bootId!)) return "unknown";
  let fd: number;
  try {
    fd = files.openRead(path);
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return "unknown";
    throw ioError("read", path, error);
  }
  try {
    const locked = files.flock(fd, "shared");
    if (locked === false) return "alive";
    const now = lstatOrNull(files, path);
    if (locked === null || now === null || !sameFile(now, files.fstat(fd))) return "unknown";
    whileGone();
    return "gone";
  } finally {
    files.close(fd);
  }
}

/** The name that announces this process. */
export function announcementPath(path: string, token: string, identity: ProcessIdentity): string {
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
    Uint8Array.from(atob(match[4]!.replaceAll("-", "+").replaceAll("_", "/")), toByte),
  );
  const known = match[5] === kernelHash(ours);
  return {
    pid: Number(match[3]),
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
