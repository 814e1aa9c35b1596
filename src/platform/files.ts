/**
 * The file operations that durable state is made of, as an interface: the real thing here, a simulated
 * one with power cuts in the tests.
 *
 * Every call that changes or syncs anything carries the name of its *site*, the place in the code that
 * makes it, so that each can be made to crash or fail and none is forgotten. All calls are synchronous
 * (a transaction is one piece that nothing in this process can interleave with) and throw the
 * system's own errors with their `code`.
 */
import fs, { constants } from "node:fs";
import process from "node:process";

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
  /** O_RDONLY | O_NOFOLLOW. */
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
  write(site: Site, fd: Descriptor, bytes: Uint8Array): void;
  mkdir(site: Site, path: string, mode: number): void;
  chmod(site: Site, path: string, mode: number): void;
  rename(site: Site, from: string, to: string): void;
  unlink(site: Site, path: string): void;
  rmdir(site: Site, path: string): void;
  sync(site: Site, fd: Descriptor): void;
  /** Opens the directory, fsyncs it, closes it. */
  syncDirectory(site: Site, path: string): void;
  /** The same three while this goes on, for batches: the disk does many at once. */
  syncLater(site: Site, fd: Descriptor): Promise<void>;
  syncDirectoryLater(site: Site, path: string): Promise<void>;
  unlinkLater(site: Site, path: string): Promise<void>;
}

const NOFOLLOW = constants.O_NOFOLLOW ?? 0;
const DIRECTORY = constants.O_DIRECTORY ?? 0;

/** The real file system. */
export const nodeFiles: FileSystem = {
  hasModes: process.platform !== "win32",
  uid: process.geteuid?.() ?? null,

  lstat(path) {
    const stat = fs.lstatSync(path, { bigint: true, throwIfNoEntry: false });
    return stat === undefined ? null : toStat(stat);
  },
  fstat: (fd) => toStat(fs.fstatSync(fd, { bigint: true })),
  openRead: (path) => retried(() => fs.openSync(path, constants.O_RDONLY | NOFOLLOW)),
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

  create: (_site, path, mode) =>
    retried(() =>
      fs.openSync(
        path,
        constants.O_CREAT | constants.O_EXCL | constants.O_RDWR | NOFOLLOW,
        mode,
      )
    ),
  write(_site, fd, bytes) {
    let written = 0;
    while (written < bytes.length) {
      written += retried(() => fs.writeSync(fd, bytes, written, bytes.length - written, written));
    }
  },
  mkdir: (_site, path, mode) => fs.mkdirSync(path, { mode }),
  chmod: (_site, path, mode) => fs.chmodSync(path, mode),
  rename: (_site, from, to) => fs.renameSync(from, to),
  unlink: (_site, path) => fs.unlinkSync(path),
  rmdir: (_site, path) => fs.rmdirSync(path),
  sync: (_site, fd) => retried(() => fs.fsyncSync(fd)),
  syncDirectory(_site, path) {
    // Windows has no way to flush a directory; NTFS journals the entries itself.
    if (process.platform === "win32") return;
    const fd = retried(() => fs.openSync(path, constants.O_RDONLY | DIRECTORY | NOFOLLOW));
    try {
      retried(() => fs.fsyncSync(fd));
    } finally {
      fs.closeSync(fd);
    }
  },
  syncLater: (_site, fd) => fsyncLater(fd),
  async syncDirectoryLater(_site, path) {
    if (process.platform === "win32") return;
    const flags = constants.O_RDONLY | DIRECTORY | NOFOLLOW;
    const fd = retried(() => fs.openSync(path, flags));
    try {
      await fsyncLater(fd);
    } finally {
      fs.closeSync(fd);
    }
  },
  unlinkLater: (_site, path) => fs.promises.unlink(path),
};

function fsyncLater(fd: Descriptor): Promise<void> {
  return new Promise((resolve, reject) => {
    const again = () =>
      fs.fsync(fd, (error) => {
        if (error === null || error === undefined) resolve();
        else if (error.code === "EINTR") again();
        else reject(error);
      });
    again();
  });
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
  };
}

/** Same file: the same inode of the same device. */
export function sameFile(a: FileStat, b: FileStat): boolean {
  return a.dev === b.dev && a.ino === b.ino;
}
