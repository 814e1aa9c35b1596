/**
 * The files of a work tree, reached without ever leaving it.
 *
 * Every leading directory of a path is looked at before the path is used and must be a real directory:
 * nothing is read, written or removed through a symbolic link. The looks are remembered, so one costs a
 * system call a directory, not one a file, and a WorkTree lasts for one operation only. Files are created with O_EXCL and O_NOFOLLOW. What this
 * doesn't guard against is a process that exchanges directories for links at the same moment.
 */
import fs, { type BigIntStats, constants } from "node:fs";
import { Buffer } from "node:buffer";
import { errnoOf, ioError } from "../platform/durable.ts";
import { byteString, fsBytes, type FsPath, fsPath } from "../platform/path-bytes.ts";
import { type StatData, statData } from "./file-stat.ts";
import { quotePath } from "./path-quote.ts";

export interface WorkTree {
  /** An absolute path without a final slash. */
  readonly root: string;
  /** lstat; null when nothing is there or the way there leads through something that is no directory. */
  lstat(path: string): BigIntStats | null;
  /** A file's content, read without following links. */
  readFile(path: string): Buffer;
  readLink(path: string): Buffer;
  /** The names in a directory ("" is the root), byte strings, with what each is. */
  list(directory: string): readonly Listed[];
  /** Creates a file at a path where nothing is. Its directories are made; not what is in the way. */
  createFile(path: string, content: Uint8Array, executable: boolean): StatData;
  createLink(path: string, target: Uint8Array): StatData;
  /** Renames a file or link over another in the same directory, and says its stat afterwards. */
  rename(from: string, to: string): StatData;
  /** Makes a directory and those above it; one that is there is fine. */
  makeDirectory(path: string): void;
  /**
   * What stands in the way of a file at `path`: the path itself, or the nearest thing above it that is no
   * directory. Null when the way is free.
   */
  obstacle(path: string): { path: string; stat: BigIntStats } | null;
  /** Removes a file or link, or a whole directory. */
  remove(path: string): void;
  /** Removes a directory that nothing is in; false where something is. @throws `io-error`, where something is mounted there */
  removeIfEmpty(directory: string): boolean;
  /** Removes a directory, and those above it, as long as they are empty. Never the root. */
  pruneEmpty(directory: string): void;
}

export interface Listed {
  readonly name: string;
  readonly isDirectory: boolean;
}

const CREATE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL |
  (constants.O_NOFOLLOW ?? 0);
const READ = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0);

/** The directory part of a path, "" at the root. */
export function parentOf(path: string): string {
  return path.slice(0, Math.max(path.lastIndexOf("/"), 0));
}

export function openWorkTree(root: string): WorkTree {
  // true: a real directory; false: not there, or something else.
  const directories = new Map<string, boolean>([["", true]]);
  const at = (path: string): FsPath => path === "" ? root : fsPath(root, path);
  const shown = (path: string): string => `${root}/${quotePath(path)}`;

  const lookAt = (path: string): BigIntStats | null => {
    try {
      return fs.lstatSync(at(path), { bigint: true, throwIfNoEntry: false }) ?? null;
    } catch (error) {
      // Deno throws where a file stands in place of a directory.
      if (["ENOENT", "ENOTDIR"].includes(errnoOf(error) ?? "")) return null;
      throw ioError("look at", shown(path), error);
    }
  };

  const isReal = (directory: string): boolean => {
    const known = directories.get(directory);
    if (known !== undefined) return known;
    const real = isReal(parentOf(directory)) && (lookAt(directory)?.isDirectory() ?? false);
    directories.set(directory, real);
    return real;
  };

  /** Forgets what was known of a path and of all below it. */
  const forget = (path: string) => {
    if (!directories.has(path)) return;
    for (const key of directories.keys()) {
      if (key === path || key.startsWith(path + "/")) directories.delete(key);
    }
  };

  const makeDirectory = (path: string) => {
    if (isReal(path)) return;
    makeDirectory(parentOf(path));
    try {
      fs.mkdirSync(at(path));
    } catch (error) {
      // Somebody else made it meanwhile, perhaps: then it is looked at like any other.
      if (errnoOf(error) !== "EEXIST" || !(lookAt(path)?.isDirectory() ?? false)) {
        throw ioError("make the directory", shown(path), error);
      }
    }
    directories.set(path, true);
  };

  const guarded = <T>(operation: string, path: string, call: () => T): T => {
    if (!isReal(parentOf(path))) {
      throw ioError(operation, shown(path), new Error("a leading directory is missing"));
    }
    try {
      return call();
    } catch (error) {
      throw ioError(operation, shown(path), error);
    }
  };

  const list = (directory: string): Listed[] => {
    if (!isReal(directory)) return [];
    const entries = fs.readdirSync(at(directory), { withFileTypes: true });
    const listed = entries.map((entry) => ({
      name: byteString(entry.name),
      isDirectory: entry.isDirectory(),
    }));
    // A replacement character may stand for bytes that are no UTF-8: ask for the bytes.
    if (!entries.some((entry) => entry.name.includes("\ufffd"))) return listed;
    return fs.readdirSync(at(directory), { encoding: "buffer" }).map((bytes) => {
      const name = byteString(Buffer.from(bytes));
      const path = directory === "" ? name : `${directory}/${name}`;
      return { name, isDirectory: lookAt(path)?.isDirectory() ?? false };
    });
  };

  const removeBelow = (path: string, stat: BigIntStats | null) => {
    if (stat === null) return;
    if (!stat.isDirectory()) return permitted(parentOf(path), () => fs.unlinkSync(at(path)));
    if (removeIfEmpty(path)) return;
    permitted(path, () => list(path)).forEach(({ name }) => {
      const below = `${path}/${name}`;
      removeBelow(below, lookAt(below));
    });
    permitted(parentOf(path), () => fs.rmdirSync(at(path)));
  };

  /**
   * False where something is in it. Asked before anything in it is removed: of a mount the system says
   * so first (EBUSY), and what is mounted is nobody's debris.
   */
  const removeIfEmpty = (path: string): boolean => {
    try {
      permitted(parentOf(path), () => fs.rmdirSync(at(path)));
      return true;
    } catch (error) {
      if (["ENOTEMPTY", "EEXIST"].includes(errnoOf(error) ?? "")) return false;
      throw error;
    }
  };

  /** Some tools leave directories without write permission: their owner may still remove them. */
  const permitted = <T>(directory: string, call: () => T): T => {
    try {
      return call();
    } catch (error) {
      if (!["EACCES", "EPERM"].includes(errnoOf(error) ?? "") || directory === "") throw error;
      fs.chmodSync(at(directory), 0o700);
      return call();
    }
  };

  return {
    root,
    list,
    makeDirectory,
    lstat: (path) => isReal(parentOf(path)) ? lookAt(path) : null,
    readFile: (path) =>
      guarded("read", path, () => {
        const fd = fs.openSync(at(path), READ);
        try {
          return fs.readFileSync(fd);
        } finally {
          fs.closeSync(fd);
        }
      }),
    readLink: (path) =>
      guarded("read", path, () => {
        const target: string | Buffer = fs.readlinkSync(at(path), { encoding: "buffer" });
        return Buffer.from(target);
      }),
    createFile(path, content, executable) {
      makeDirectory(parentOf(path));
      return guarded("write", path, () => {
        const fd = fs.openSync(at(path), CREATE, executable ? 0o777 : 0o666);
        try {
          let done = 0;
          while (done < content.length) {
            done += fs.writeSync(fd, content, done, content.length - done, done);
          }
          return statData(fs.fstatSync(fd, { bigint: true }));
        } finally {
          fs.closeSync(fd);
        }
      });
    },
    createLink(path, target) {
      makeDirectory(parentOf(path));
      return guarded("link", path, () => {
        fs.symlinkSync(fsBytes(byteString(Buffer.from(target))), at(path));
        return statData(fs.lstatSync(at(path), { bigint: true }));
      });
    },
    rename: (from, to) =>
      guarded("replace", to, () => {
        fs.renameSync(at(from), at(to));
        return statData(fs.lstatSync(at(to), { bigint: true }));
      }),
    obstacle(path) {
      for (let end = path.indexOf("/"); end > 0; end = path.indexOf("/", end + 1)) {
        const directory = path.slice(0, end);
        if (isReal(directory)) continue;
        const stat = lookAt(directory);
        return stat === null ? null : { path: directory, stat };
      }
      const stat = lookAt(path);
      return stat === null ? null : { path, stat };
    },
    remove(path) {
      if (!isReal(parentOf(path))) return;
      try {
        removeBelow(path, lookAt(path));
      } catch (error) {
        throw ioError("remove", shown(path), error);
      } finally {
        forget(path);
      }
    },
    removeIfEmpty(path) {
      if (!isReal(path)) return true;
      try {
        return removeIfEmpty(path);
      } catch (error) {
        throw ioError("remove", shown(path), error);
      } finally {
        forget(path);
      }
    },
    pruneEmpty(directory) {
      for (let path = directory; path !== "" && isReal(path); path = parentOf(path)) {
        try {
          permitted(parentOf(path), () => fs.rmdirSync(at(path)));
        } catch (error) {
          if (["ENOTEMPTY", "EEXIST", "EBUSY"].includes(errnoOf(error) ?? "")) return;
          if (errnoOf(error) !== "ENOENT") throw ioError("remove", shown(path), error);
        }
        forget(path);
      }
    },
  };
}
