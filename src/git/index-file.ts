/**
 * The index file on disk: read whole, written whole, under the lock that git itself respects.
 *
 *   create <index>.lock (O_EXCL: nobody else writes) ─▶ read <index> ─▶ write the lock file ─▶ rename it over <index>
 *
 * The rename is what makes a change, so readers need no lock. Like git's, a rename is not forced to
 * the disk unless asked: an index that a power cut tore fails its checksum, and every file it speaks of
 * can be read again.
 */
import fs, { constants } from "node:fs";
import { AgentqError } from "../errors.ts";
import { errnoOf, ioError } from "../platform/durable.ts";
import { type Timestamp, timestampOf } from "./file-stat.ts";
import { compareEntries, type IndexContent, parseIndex, serializeIndex } from "./index-format.ts";

export interface IndexFile extends IndexContent {
  /** The index's own mtime, against which entries are racy; null when there is no index. */
  readonly timestamp: Timestamp | null;
}

const EMPTY: IndexFile = { entries: [], cacheTree: null, timestamp: null };

/**
 * Reads an index; one that doesn't exist is empty.
 * @throws `index-corrupt`, `index-unsupported`, `io-error`
 */
export function readIndex(path: string): IndexFile {
  let fd: number;
  try {
    fd = fs.openSync(path, constants.O_RDONLY);
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return EMPTY;
    throw ioError("read", path, error);
  }
  try {
    const stat = fs.fstatSync(fd, { bigint: true });
    const data = fs.readFileSync(fd);
    return { ...parseIndex(data, path), timestamp: timestampOf(stat) };
  } catch (error) {
    throw ioError("read", path, error);
  } finally {
    fs.closeSync(fd);
  }
}

/** The right to replace an index. Ends with `commit` or `release`, whichever is called first. */
export interface IndexLock {
  /**
   * Replaces the index with these entries (sorted here). With `sync` it is on disk before it is in place.
   * @throws `io-error`, with the old index still in place and the lock released
   */
  commit(content: IndexContent, options?: { sync?: boolean }): void;
  /** Gives the lock up with the index unchanged. Does nothing after `commit`. */
  release(): void;
}

/**
 * Takes `<path>.lock`.
 * @throws `index-locked` when git or another agentq holds it (or died holding it)
 */
export function lockIndex(path: string): IndexLock {
  const lockPath = `${path}.lock`;
  let fd: number;
  try {
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL |
      (constants.O_NOFOLLOW ?? 0);
    fd = fs.openSync(lockPath, flags, 0o666);
  } catch (error) {
    if (errnoOf(error) !== "EEXIST") throw ioError("lock", path, error);
    throw new AgentqError("index-locked", `The index is locked: ${lockPath} exists.`, {
      cause: error,
      details: { path: lockPath },
    });
  }
  let held = true;
  let open = true;
  const closeOnce = () => {
    if (open) fs.closeSync(fd);
    open = false;
  };
  const release = () => {
    if (!held) return;
    held = false;
    closeOnce();
    fs.rmSync(lockPath, { force: true });
  };
  return {
    release,
    commit(content, options = {}) {
      if (!held) throw new AgentqError("internal", `The lock of ${path} was given up already.`);
      try {
        const entries = sorted(content.entries);
        const data = serializeIndex({ entries, cacheTree: content.cacheTree });
        for (let at = 0; at < data.length;) at += fs.writeSync(fd, data, at, data.length - at, at);
        keepPermissions(fd, path);
        if (options.sync) fs.fsyncSync(fd);
        // Windows renames only closed files.
        closeOnce();
        fs.renameSync(lockPath, path);
        held = false;
      } catch (error) {
        release();
        throw ioError("write", path, error);
      }
    },
  };
}

/** A shared repository's index stays readable and writable for its group. */
function keepPermissions(fd: number, path: string): void {
  const old = fs.statSync(path, { throwIfNoEntry: false });
  if (old === undefined) return;
  if ((fs.fstatSync(fd).mode & 0o777) !== (old.mode & 0o777)) fs.fchmodSync(fd, old.mode & 0o777);
}

function sorted(entries: IndexContent["entries"]): IndexContent["entries"] {
  for (let i = 1; i < entries.length; i++) {
    if (compareEntries(entries[i - 1]!, entries[i]!) >= 0) {
      return [...entries].sort(compareEntries);
    }
  }
  return entries;
}
