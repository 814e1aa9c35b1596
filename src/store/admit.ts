/**
 * Admission: a file or directory is what the store expects, and stays the same one while it is read.
 *
 *   lstat → open without following links → fstat → read → lstat again
 *
 * with the exact device and inode the same throughout. Anything else fails closed.
 */
import { AgentqError } from "../errors.ts";
import { linkTarget } from "../platform/directory.ts";
import { errnoOf, ioError } from "../platform/durable.ts";
import { type FileKind, type FileStat, type FileSystem, sameFile } from "../platform/files.ts";
import { DIRECTORY_MODE, FILE_MODE } from "./layout.ts";
import type { StoreSite } from "./sites.ts";

export interface AdmissionPolicy {
  /** Permission bits and owner must be the store's own; false with --allow-open-modes. */
  readonly strictModes: boolean;
}

export interface AdmittedFile {
  readonly stat: FileStat;
  readonly bytes: Uint8Array;
}

/** lstat that answers null for a name that isn't there. */
export function lstatOrNull(files: FileSystem<StoreSite>, path: string): FileStat | null {
  try {
    return files.lstat(path);
  } catch (error) {
    if (errnoOf(error) === "ENOTDIR") return null;
    throw ioError("look at", path, error);
  }
}

/** A directory of the store itself (mode 0700, ours, no symlink). */
export function admitDirectory(
  files: FileSystem<StoreSite>,
  path: string,
  policy: AdmissionPolicy,
): FileStat {
  const stat = requireStat(files, path);
  assertKind(stat, "directory", path);
  assertOurs(files, stat, path, policy, DIRECTORY_MODE);
  return stat;
}

/** The directory that holds the store: no symlink, ours, not writable by others. */
export function admitRoot(
  files: FileSystem<StoreSite>,
  path: string,
  policy: AdmissionPolicy,
): FileStat {
  const stat = requireStat(files, path);
  if (stat.kind !== "directory") throw wrongKind(path, stat.kind, "directory", "root");
  if (policy.strictModes && files.hasModes) {
    assertOwner(files, stat, path);
    if ((stat.mode & 0o022) !== 0) {
      throw modeError(path, stat.mode, "others can write to it");
    }
  }
  return stat;
}

/**
 * A file of the store itself (mode 0600, ours, exactly one link), read whole, or only its first `head`
 * bytes.
 */
export function admitFile(
  files: FileSystem<StoreSite>,
  path: string,
  policy: AdmissionPolicy,
  limit: number,
  head?: number,
): AdmittedFile {
  const before = requireStat(files, path);
  assertFile(files, before, path, policy);
  if (before.size > limit) {
    throw new AgentqError("store-invalid", `${path} has ${before.size} bytes, more than ${limit}`, {
      details: { path },
    });
  }
  let fd: number;
  try {
    fd = files.openRead(path);
  } catch (error) {
    // ELOOP: it became a symlink between the two calls.
    if (errnoOf(error) === "ELOOP") throw changed(path);
    throw ioError("open", path, error);
  }
  try {
    const opened = files.fstat(fd);
    assertFile(files, opened, path, policy);
    if (!sameFile(before, opened)) throw changed(path);
    const bytes = head === undefined
      ? files.readAll(fd, opened.size, limit)
      : files.readAll(fd, head, head).subarray(0, head);
    if (bytes.length > limit) throw changed(path);
    const after = requireStat(files, path);
    if (!sameFile(opened, after) || after.links !== 1) throw changed(path);
    return { stat: opened, bytes };
  } catch (error) {
    throw ioError("read", path, error);
  } finally {
    files.close(fd);
  }
}

/**
 * The file that was admitted before is still there, unchanged, by everything that lstat can tell. One
 * whose last change lies in the past can't have been replaced since by another with the same inode and
 * the same time of change.
 */
export function isUnchanged(
  files: FileSystem<StoreSite>,
  path: string,
  admitted: FileStat,
): boolean {
  const now = lstatOrNull(files, path);
  return now !== null && isAlike(now, admitted);
}

/**
 * Throws `identity-changed` unless the name leads to the file that was admitted and nobody has written to
 * it since, in place or otherwise.
 */
export function assertUnchanged(
  files: FileSystem<StoreSite>,
  path: string,
  admitted: FileStat,
): void {
  if (!isUnchanged(files, path, admitted)) throw changed(path);
}

/** The same file, and nothing that a file system tells of it has changed. */
export function isAlike(a: FileStat, b: FileStat): boolean {
  return sameFile(a, b) && a.kind === b.kind && a.links === b.links && a.mode === b.mode &&
    a.uid === b.uid && a.size === b.size && a.ctimeNs === b.ctimeNs && a.mtimeNs === b.mtimeNs;
}

/** The name still leads to exactly the file that was admitted; what it is like now. */
export function assertSame(
  files: FileSystem<StoreSite>,
  path: string,
  admitted: FileStat,
): FileStat {
  const now = lstatOrNull(files, path);
  const same = now !== null && sameFile(now, admitted) && now.kind === admitted.kind &&
    now.mode === admitted.mode && now.uid === admitted.uid;
  if (!same || (now.kind === "file" && now.links !== 1)) throw changed(path);
  return now;
}

export function changed(path: string): AgentqError {
  return new AgentqError(
    "identity-changed",
    `${path} was replaced, changed, linked or chmodded meanwhile`,
    {
      details: { path },
    },
  );
}

function requireStat(files: FileSystem<StoreSite>, path: string): FileStat {
  const stat = lstatOrNull(files, path);
  if (stat !== null) return stat;
  throw new AgentqError("io-error", `can't look at ${path}: it isn't there any more (ENOENT)`, {
    details: { operation: "look at", path, errno: "ENOENT" },
  });
}

function assertFile(
  files: FileSystem<StoreSite>,
  stat: FileStat,
  path: string,
  policy: AdmissionPolicy,
): void {
  assertKind(stat, "file", path);
  if (stat.links !== 1) {
    throw new AgentqError("identity-changed", `${path} has ${stat.links} names (hardlinks)`, {
      hint:
        "Something has given it another name, as cp -al does. Remove that copy, or give the store " +
        "files of its own again: see Backups in docs/store.md.",
      details: { path, links: stat.links },
    });
  }
  assertOurs(files, stat, path, policy, FILE_MODE);
}

function assertKind(stat: FileStat, kind: "file" | "directory", path: string): void {
  if (stat.kind !== kind) throw wrongKind(path, stat.kind, kind);
}

/** Something else lies at a path. `root`: it is the path by which a user has named the store. */
export function wrongKind(
  path: string,
  found: FileKind,
  wanted: "file" | "directory" | "lock file",
  root?: "root",
): AgentqError {
  const target = found === "symlink" ? linkTarget(path) : null;
  const what = target !== null
    ? `a symbolic link to ${shownPath(target)}`
    : found === "other"
    ? "a special file (a FIFO, socket or device)"
    : `a ${found}`;
  return new AgentqError("identity-changed", `${path} is ${what}, not a ${wanted}`, {
    ...(root === undefined ? {} : {
      hint: target === null || target === path
        ? "Name a directory."
        : `Name ${shownPath(target)} itself: a store isn't opened through a link, which may lead ` +
          "elsewhere the next time.",
    }),
    details: { path, ...(target === null ? {} : { target }) },
  });
}

/** What others have written, on one line. */
function shownPath(path: string): string {
  // deno-lint-ignore no-control-regex -- finding control characters is what this is for
  return /[\x00-\x1f\x7f-\x9f]/.test(path) ? JSON.stringify(path) : path;
}

function assertOurs(
  files: FileSystem<StoreSite>,
  stat: FileStat,
  path: string,
  policy: AdmissionPolicy,
  mode: number,
): void {
  if (!policy.strictModes || !files.hasModes) return;
  assertOwner(files, stat, path);
  if (stat.mode !== mode) {
    throw modeError(path, stat.mode, `it must be ${mode.toString(8).padStart(4, "0")}`);
  }
}

function assertOwner(files: FileSystem<StoreSite>, stat: FileStat, path: string): void {
  if (files.uid === null || stat.uid === files.uid) return;
  throw new AgentqError(
    "identity-changed",
    `${path} belongs to user ${stat.uid}, not to ${files.uid}`,
    { hint: "Run as the user that owns the store.", details: { path, uid: stat.uid } },
  );
}

function modeError(path: string, mode: number, why: string): AgentqError {
  return new AgentqError(
    "mode-unsupported",
    `${path} has mode ${mode.toString(8).padStart(4, "0")}: ${why}`,
    {
      hint:
        "Restore it with chmod; where the file system can't keep modes, create the store with " +
        "--allow-open-modes.",
      details: { path },
    },
  );
}
