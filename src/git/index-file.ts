/**
 * The index file on disk: read whole, written whole, under the lock that git itself respects.
 *
 *   create <index>.lock (nobody else writes) ─▶ read <index> ─▶ write a file beside it
 *     ─▶ rename it over <index> ─▶ remove <index>.lock
 *
 * The lock names its owner (see file/ref-lock.ts), so that it can be broken when the owner has died.
 * The rename is what makes a change, so readers need no lock. Like git's, a rename is not forced to
 * the disk unless asked: an index that a power cut tore fails its checksum, and every file it speaks of
 * can be read again.
 */
import type { Buffer } from "node:buffer";
import fs, { constants } from "node:fs";
import { dirname, join, relative } from "node:path";
import { AgentqError } from "../errors.ts";
import { errnoOf, ioError } from "../platform/durable.ts";
import { showLife } from "../platform/life.ts";
import { type Timestamp, timestampOf } from "./file-stat.ts";
import {
  breakStaleLock,
  createLock,
  describeOwner,
  newLockText,
  readLock,
  releaseLock,
} from "./file/ref-lock.ts";
import { buryDead } from "./file/orphans.ts";
import { compareEntries, type IndexContent, parseIndex } from "./index-format.ts";
import { serializeIndex } from "./index-write.ts";
import { expandIndex } from "./sparse-index.ts";
import type { ObjectReader } from "./types.ts";

export interface IndexFile extends IndexContent {
  /** The index's own mtime, against which entries are racy; null when there is no index. */
  readonly timestamp: Timestamp | null;
}

const EMPTY: IndexFile = { entries: [], cacheTree: null, timestamp: null };

/**
 * Reads an index; one that doesn't exist is empty. Every entry is a file, also where the index is sparse: then
 * `objects` must have the trees of the directories outside.
 * @throws `index-corrupt`, `index-unsupported`, `io-error`, `object-missing`
 */
export function readIndex(path: string, objects: ObjectReader): IndexFile {
  return expandIndex(objects, readSparseIndex(path));
}

/**
 * The same, with whole directories left as single entries where the index is sparse.
 * @throws `index-corrupt`, `index-unsupported`, `io-error`
 */
export function readSparseIndex(path: string): IndexFile {
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
    // A split index marks what was racy in the shared file, so that one time tells for both.
    const shared = (checksum: string) => readOr(join(dirname(path), `sharedindex.${checksum}`));
    return { ...parseIndex(data, path, shared), timestamp: timestampOf(stat) };
  } catch (error) {
    throw ioError("read", path, error);
  } finally {
    fs.closeSync(fd);
  }
}

function readOr(path: string): Buffer | null {
  try {
    return fs.readFileSync(path);
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return null;
    throw ioError("read", path, error);
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

/** Whose index it is, where a process in another container may be in need of its lock one day. */
export interface IndexHome {
  readonly gitDir: string;
  readonly objects: { readonly packDirectory: string };
}

/**
 * Takes `<path>.lock`. One that an agentq left when it was killed is broken, when its end is proven: of one that
 * named a `home`, also from other containers of the same kernel.
 * @throws `index-locked` when git or another agentq holds it (or a git died holding it)
 */
export function lockIndex(path: string, home: IndexHome | null = null): IndexLock {
  const lockPath = `${path}.lock`;
  const life = home && showLife(home.gitDir, (mode) => mode);
  const graveyard = home === null ? undefined : { lives: home.gitDir, life };
  const { text, nonce } = newLockText(life);
  life?.note([relative(home!.gitDir, lockPath)]);
  try {
    while (createLock(lockPath, text) === "exists") {
      if (breakStaleLock(lockPath, graveyard)) continue;
      const owner = describeOwner(readLock(lockPath), home?.gitDir);
      throw new AgentqError("index-locked", `The index is locked by ${lockPath}: ${owner}.`, {
        details: { path: lockPath },
      });
    }
  } catch (error) {
    life?.end();
    throw error;
  }
  if (home !== null) buryDead(home.gitDir, home.objects.packDirectory, life);
  const temp = `${path}.agentq-${nonce}`;
  let held = true;
  const release = () => {
    if (!held) return;
    held = false;
    try {
      const owner = readLock(lockPath);
      if (typeof owner === "object" && owner.nonce === nonce) releaseLock(lockPath);
      life?.end();
    } finally {
      life?.abandon();
    }
  };
  return {
    release,
    commit(content, options = {}) {
      if (!held) throw new AgentqError("internal", `The lock of ${path} was given up already.`);
      try {
        const entries = sorted(content.entries);
        const data = serializeIndex({ entries, cacheTree: content.cacheTree });
        writeWhole(temp, data, path, options.sync ?? false);
        fs.renameSync(temp, path);
      } catch (error) {
        fs.rmSync(temp, { force: true });
        throw ioError("write", path, error);
      } finally {
        release();
      }
    },
  };
}

function writeWhole(temp: string, data: Uint8Array, path: string, sync: boolean): void {
  const fd = fs.openSync(temp, "wx", 0o666);
  try {
    for (let at = 0; at < data.length;) at += fs.writeSync(fd, data, at, data.length - at, at);
    keepPermissions(fd, path);
    if (sync) fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
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
