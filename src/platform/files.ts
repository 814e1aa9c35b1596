/**
 * The file operations that durable state is made of, as an interface: the real thing here, a simulated
 * one with power cuts in the tests.
 *
 * Every call that changes or syncs anything carries the name of its *site*, the place in the code that
 * makes it, so that each can be made to crash or fail and none is forgotten. Calls are synchronous, but
 * for those that a disk does many of at once, and throw the system's own errors with their `code`.
 */
import fs, { constants } from "node:fs";
import { atOnce, later } from "./at-once.ts";
import { canLockOpen, lockOpen } from "./flock.ts";
import { hold, letGo } from "./held.ts";
import { kernelFileSystem } from "./this-kernel.ts";

export type FileKind = "file" | "directory" | "symlink" | "other";

/** What lstat and fstat say; identity is exact (bigint). */
export interface FileStat {
  readonly dev: bigint;
  readonly ino: bigint;
  readonly kind: FileKind;
  /** Permission bits only (`mode & 0o777`). */
  readonly mode: number;
  readonly links: number;
  readonly uid: number;
  readonly size: number;
  /** Of the last change of any kind, in nanoseconds; only ever compared for equality. */
  readonly ctimeNs: bigint;
  /** Of the last change of the data, likewise: Deno tells ctime in whole seconds only. */
  readonly mtimeNs: bigint;
}

/** An open file; a number for the real one. */
export type Descriptor = number;

export interface FileSystem<Site extends string = string> {
  /** Whether permission bits and owners mean anything on this platform. */
  readonly hasModes: boolean;
  /** The user that files made here belong to; null where there is no such thing. */
  readonly uid: number | null;

  /** Null where there is nothing by that name. */
  lstat(path: string): FileStat | null;
  fstat(fd: Descriptor): FileStat;
  /** O_RDONLY | O_NOFOLLOW | O_NONBLOCK: at once, also where a FIFO has no writer. */
  openRead(path: string): Descriptor;
  /**
   * Everything from the start; at most `limit` bytes plus one, so that too much is noticed. `size` is
   * what fstat said.
   */
  readAll(fd: Descriptor, size: number, limit: number): Uint8Array;
  readdir(path: string): string[];
  close(fd: Descriptor): void;

  /** O_CREAT | O_EXCL | O_NOFOLLOW | O_RDWR. */
  create(site: Site, path: string, mode: number): Descriptor;
  /** At the start; several pieces one after the other, without putting them together before. */
  write(site: Site, fd: Descriptor, content: Uint8Array | readonly Uint8Array[]): void;
  mkdir(site: Site, path: string, mode: number): void;
  chmod(site: Site, path: string, mode: number): void;
  rename(site: Site, from: string, to: string): void;
  unlink(site: Site, path: string): void;
  rmdir(site: Site, path: string): void;
  sync(site: Site, fd: Descriptor): void;
  /** Opens the directory, fsyncs it, closes it. */
  syncDirectory(site: Site, path: string): void;

  /**
   * The type of the file system of `path`, where everyone who sees its files also sees by `flock` whether they
   * are locked, from other containers too. Null: there is no such lock, or not for everyone.
   */
  flockable(path: string): number | null;
  /**
   * Locks an open file until its descriptor is closed or the process ends, as flock(2) does, without waiting.
   * False: somebody holds it otherwise; null: it can't be told.
   */
  flock(fd: Descriptor, how: "exclusive" | "shared"): boolean | null;

  /** `create` on another thread: where making inodes is slow, two are made at a time. */
  createLater(site: Site, path: string, mode: number): Promise<Descriptor>;
  /**
   * Writes all that a new, empty file will hold and has the system begin to store it, without waiting.
   * Returns the descriptor to sync, which takes the place of the given one.
   */
  writeEarly(site: Site, fd: Descriptor, path: string, bytes: Uint8Array): Descriptor;
  /**
   * All these syncs, many at a time, since a disk makes them last together. Resolves when none is going
   * on any more, with the error of each or null, in the order given.
   */
  syncAll(requests: readonly SyncRequest<Site>[]): Promise<unknown[]>;
  /**
   * Opens what is about to lose its last name, so that the system frees it only when `letGo` closes it.
   * `dev` is its device. Null where that can't be or would leave something behind.
   */
  hold(path: string, dev: bigint): Descriptor | null;
  /** Closes what was held, on other threads; resolves, soon, when more may be held. Never fails. */
  letGo(held: readonly Descriptor[]): Promise<void>;
}

/** An open file, or a directory by its path. */
export type SyncTarget = { readonly fd: Descriptor } | { readonly directory: string };
/** A sync among several. */
export type SyncRequest<Site extends string = string> = SyncTarget & { readonly site: Site };

const NOFOLLOW = constants.O_NOFOLLOW ?? 0;
const DIRECTORY = constants.O_DIRECTORY ?? 0;
const READ = constants.O_RDONLY | NOFOLLOW | (constants.O_NONBLOCK ?? 0);
const CREATE = constants.O_CREAT | constants.O_EXCL | constants.O_RDWR | NOFOLLOW;

/** The real file system. */
export const nodeFiles: FileSystem = {
  hasModes: process.platform !== "win32",
  uid: process.geteuid?.() ?? null,

  lstat(path) {
    const stat = fs.lstatSync(path, { bigint: true, throwIfNoEntry: false });
    return stat === undefined ? null : toStat(stat);
  },
  fstat: (fd) => toStat(fs.fstatSync(fd, { bigint: true })),
  openRead: (path) => retried(() => fs.openSync(path, READ)),
  readAll(fd, size, limit) {
    let buffer = new Uint8Array(Math.min(size, limit) + 1);
    let length = 0;
    while (length <= limit) {
      if (length === buffer.length) {
        const larger = new Uint8Array(Math.min(buffer.length * 2, limit + 1));
        larger.set(buffer);
        buffer = larger;
      }
      const room = buffer.length - length;
      const count = retried(() => fs.readSync(fd, buffer, length, room, length));
      length += count;
      // A regular file gives less than it is asked for only at its end.
      if (count < room) break;
    }
    return buffer.subarray(0, length);
  },
  readdir: (path) => fs.readdirSync(path),
  close: (fd) => fs.closeSync(fd),

  create: (_site, path, mode) => retried(() => fs.openSync(path, CREATE, mode)),
  write(_site, fd, content) {
    if (content instanceof Uint8Array) writeWhole(fd, content);
    else writePieces(fd, content);
  },
  mkdir: (_site, path, mode) => fs.mkdirSync(path, { mode }),
  chmod: (_site, path, mode) => fs.chmodSync(path, mode),
  rename: (_site, from, to) => fs.renameSync(from, to),
  unlink: (_site, path) => fs.unlinkSync(path),
  rmdir: (_site, path) => fs.rmdirSync(path),
  sync: (_site, fd) => retried(() => fs.fsyncSync(fd)),
  syncDirectory: (_site, path) => syncDirectory(path),

  flockable(path) {
    const type = kernelFileSystem(path);
    return type !== null && canLockOpen() ? type : null;
  },
  flock: lockOpen,

  createLater: (_site, path, mode) => later((done) => fs.open(path, CREATE, mode, done)),
  writeEarly(_site, fd, path, bytes) {
    if (process.platform !== "linux") {
      writeWhole(fd, bytes);
      return fd;
    }
    // Cutting an empty file to nothing changes nothing, but ext4, XFS and btrfs begin to store a file
    // that was cut to nothing as soon as it is closed. So many files are on their way when the first
    // is waited for. The second descriptor is there before: it will be told of errors meanwhile.
    fs.ftruncateSync(fd, 0);
    writeWhole(fd, bytes);
    const toSync = retried(() => fs.openSync(path, READ));
    fs.closeSync(fd);
    return toSync;
  },
  async syncAll(requests) {
    const settled = await Promise.allSettled(atOnce(requests.length, {
      here: (index) => syncNow(requests[index]!),
      elsewhere: (index) => syncLater(requests[index]!),
    }));
    return settled.map((one) => one.status === "rejected" ? one.reason : null);
  },
  hold,
  letGo,
};

function syncNow(request: SyncRequest): void {
  if ("fd" in request) retried(() => fs.fsyncSync(request.fd));
  else syncDirectory(request.directory);
}

/** The sync, made by another thread. */
export async function syncLater(request: SyncTarget): Promise<void> {
  if ("fd" in request) return await later<void>((done) => fs.fsync(request.fd, done));
  if (process.platform === "win32") return;
  const fd = openDirectory(request.directory);
  try {
    await later<void>((done) => fs.fsync(fd, done));
  } finally {
    fs.closeSync(fd);
  }
}

function syncDirectory(path: string): void {
  // Windows has no way to flush a directory; NTFS journals the entries itself.
  if (process.platform === "win32") return;
  const fd = openDirectory(path);
  try {
    retried(() => fs.fsyncSync(fd));
  } finally {
    fs.closeSync(fd);
  }
}

function openDirectory(path: string): Descriptor {
  return retried(() => fs.openSync(path, constants.O_RDONLY | DIRECTORY | NOFOLLOW));
}

function writeWhole(fd: Descriptor, bytes: Uint8Array, position = 0): void {
  let written = 0;
  while (written < bytes.length) {
    const left = bytes.length - written;
    written += retried(() => fs.writeSync(fd, bytes, written, left, position + written));
  }
}

/** What every system takes in one call. */
const MAX_PIECES = 1024;

function writePieces(fd: Descriptor, pieces: readonly Uint8Array[]): void {
  let position = 0;
  for (let from = 0; from < pieces.length; from += MAX_PIECES) {
    const together = pieces.slice(from, from + MAX_PIECES);
    let written = retried(() => fs.writevSync(fd, together, position));
    for (const piece of together) {
      // A full disk takes part of it; what is left says why.
      if (written < piece.length) writeWhole(fd, piece.subarray(written), position + written);
      written = Math.max(0, written - piece.length);
      position += piece.length;
    }
  }
}

/** A signal may interrupt these calls on FUSE and network file systems; doing them again is safe. */
function retried<T>(call: () => T): T {
  while (true) {
    try {
      return call();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EINTR") throw error;
    }
  }
}

function toStat(stat: fs.BigIntStats): FileStat {
  return {
    dev: stat.dev,
    ino: stat.ino,
    kind: stat.isFile()
      ? "file"
      : stat.isDirectory()
      ? "directory"
      : stat.isSymbolicLink()
      ? "symlink"
      : "other",
    mode: Number(stat.mode) & 0o777,
    links: Number(stat.nlink),
    uid: Number(stat.uid),
    size: Number(stat.size),
    ctimeNs: stat.ctimeNs,
    mtimeNs: stat.mtimeNs,
  };
}

/** Same file: the same inode of the same device. */
export function sameFile(a: FileStat, b: FileStat): boolean {
  return a.dev === b.dev && a.ino === b.ino;
}
