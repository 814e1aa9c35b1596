/** Files whose name is a process's identity: who is just taking a lock (see `exclusive.ts`). */
import { dirname, join } from "node:path";
import { ioError } from "../platform/durable.ts";
import { createHash } from "../platform/hash.ts";
import type { ProcessIdentity } from "../platform/host.ts";
import type { StorePlatform } from "./types.ts";

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
