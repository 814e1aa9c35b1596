/**
 * The bytes of git's index file: versions 2, 3 and 4 read (written are 2 and 3, by index-write.ts).
 *
 *   "DIRC" version count │ entries, sorted by path and stage │ extensions │ SHA-1 of all before
 *
 * Of the extensions, TREE (which trees the entries amount to) is read and written. Those that only
 * make git faster (UNTR, FSMN, EOIE, IEOT, REUC …) are passed over, and dropped by a rewrite, which
 * costs git time and nothing else. Two change what the entries mean, and are read, never written:
 *
 *   link   most entries are in another file, which never changes (split-index.ts)
 *   sdir   a directory outside the sparse checkout may be one entry, `dir/` (sparse-index.ts)
 */
import { Buffer } from "node:buffer";
import { AgentqError } from "../errors.ts";
import { createHash } from "../platform/hash.ts";
import { type CacheTree, parseCacheTree } from "./cache-tree.ts";
import type { StatData } from "./file-stat.ts";
import { type IndexLink, joinSplit, parseLink } from "./split-index.ts";
import { MODE } from "./tree.ts";
import type { Oid } from "./types.ts";

export interface IndexEntry {
  /** Byte string, `/`-separated, from the root of the work tree. */
  readonly path: string;
  /** 0, or 1 base, 2 ours, 3 theirs of an unmerged path. */
  readonly stage: 0 | 1 | 2 | 3;
  readonly mode: number;
  readonly oid: Oid;
  readonly stat: StatData;
  /** `git update-index --assume-unchanged`. */
  readonly assumeValid: boolean;
  /** Outside the sparse checkout. */
  readonly skipWorktree: boolean;
  /** `git add -N`: the path is known, its content is not staged. */
  readonly intentToAdd: boolean;
}

export interface IndexContent {
  readonly entries: readonly IndexEntry[];
  /** The trees that the entries amount to, as far as they are known. */
  readonly cacheTree: CacheTree | null;
  /**
   * True when directories may be single entries: of mode {@link MODE}.tree, with a path that ends in `/`.
   * Such an index can't be written before it is expanded (sparse-index.ts).
   */
  readonly sparse?: boolean;
}

/** One file's part of an index, as it stands there. */
interface IndexPart {
  readonly entries: readonly IndexEntry[];
  /** The body of the TREE extension. */
  readonly trees: Buffer | null;
  readonly link: IndexLink | null;
  readonly sparse: boolean;
}

export const ENTRY_FIXED = 62;
export const ASSUME_VALID = 0x8000;
export const EXTENDED = 0x4000;
export const SKIP_WORKTREE = 0x4000;
export const INTENT_TO_ADD = 0x2000;

/** Makes the error that says what is wrong with a file. */
type Corrupt = (what: string) => AgentqError;

/**
 * Parses the whole file. `file` names it in errors.
 * @param shared the bytes of the file that a split index builds on, by its checksum; null when there is none
 * @throws `index-corrupt`, `index-unsupported`
 */
export function parseIndex(
  data: Buffer,
  file: string,
  shared: (checksum: Oid) => Buffer | null = () => null,
): IndexContent {
  const corrupt = (what: string) =>
    new AgentqError("index-corrupt", `The index ${file} ${what}.`, { details: { path: file } });
  const own = parsePart(data, file, corrupt);
  let { entries, sparse } = own;
  if (own.link !== null) {
    const { checksum } = own.link;
    const base = shared(checksum);
    if (base === null) throw corrupt(`needs the file sharedindex.${checksum}, which is not there`);
    if (base.length < 32 || base.toString("hex", base.length - 20) !== checksum) {
      throw corrupt(`needs the file sharedindex.${checksum}, which holds something else`);
    }
    const below = parsePart(
      base,
      file,
      (what) => corrupt(`needs sharedindex.${checksum}, which ${what}`),
    );
    if (below.link !== null) throw corrupt("builds on an index that is split itself");
    entries = joinSplit(below.entries, entries, own.link, corrupt);
    sparse ||= below.sparse;
  }
  checkEntries(entries, sparse, corrupt);
  const cacheTree = own.trees && parseCacheTree(own.trees, entries.length);
  return { entries, cacheTree, ...(sparse && { sparse }) };
}

/** Sorted, none twice, and a directory only where one may be. */
function checkEntries(entries: readonly IndexEntry[], sparse: boolean, corrupt: Corrupt): void {
  let previous: IndexEntry | null = null;
  for (const entry of entries) {
    const { path, stage } = entry;
    const disordered = path === "" || previous !== null &&
        (path < previous.path ||
          path === previous.path && (stage <= previous.stage || previous.stage === 0));
    if (disordered) throw corrupt("has entries out of order");
    if ((entry.mode === MODE.tree) !== path.endsWith("/")) {
      throw corrupt("has a directory's entry that looks like a file's");
    }
    if (entry.mode === MODE.tree && (!sparse || stage !== 0 || /^\/|\/\//.test(path))) {
      throw corrupt("has a directory's entry where none may be");
    }
    if (previous?.mode === MODE.tree && path.startsWith(previous.path)) {
      throw corrupt("has a directory's entry and others below it");
    }
    previous = entry;
  }
}

function parsePart(data: Buffer, file: string, corrupt: Corrupt): IndexPart {
  if (data.length < 32 || data.toString("latin1", 0, 4) !== "DIRC") {
    throw corrupt("is not an index file");
  }
  const version = data.readUInt32BE(4);
  if (version < 2 || version > 4) {
    throw new AgentqError("index-unsupported", `The index ${file} has version ${version}.`, {
      details: { path: file, version },
    });
  }
  const end = data.length - 20;
  const claimed = data.toString("hex", end);
  // index.skipHash leaves the checksum at zero.
  if (claimed !== "0".repeat(40)) {
    const actual = createHash("sha1").update(data.subarray(0, end)).digest("hex");
    if (actual !== claimed) throw corrupt("does not match its checksum");
  }

  const count = data.readUInt32BE(8);
  if (12 + count * 64 > end) throw corrupt("is cut off");
  const entries: IndexEntry[] = new Array(count);
  let at = 12;
  let previous = "";
  for (let i = 0; i < count; i++) {
    if (at + ENTRY_FIXED + 1 > end) throw corrupt("is cut off");
    const flags = data.readUInt16BE(at + 60);
    let extended = 0;
    let name = at + ENTRY_FIXED;
    if (flags & EXTENDED) {
      if (version === 2) throw corrupt("has an entry that its version doesn't allow");
      extended = data.readUInt16BE(name);
      if (extended & ~(SKIP_WORKTREE | INTENT_TO_ADD)) {
        throw new AgentqError("index-unsupported", `The index ${file} has unknown entry flags.`, {
          details: { path: file, flags: extended },
        });
      }
      name += 2;
    }
    let kept = "";
    if (version === 4) {
      const strip = readVarint(data, name, end);
      if (strip === null || strip.value > previous.length) throw corrupt("has a malformed name");
      kept = previous.slice(0, previous.length - strip.value);
      name = strip.end;
    }
    const nul = data.indexOf(0, name);
    if (nul < 0 || nul >= end) throw corrupt("is cut off");
    const path = kept + data.toString("latin1", name, nul);
    const stage = (flags >> 12 & 3) as 0 | 1 | 2 | 3;
    entries[i] = {
      path,
      stage,
      mode: data.readUInt32BE(at + 24),
      oid: data.toString("hex", at + 40, at + 60),
      stat: readStat(data, at),
      assumeValid: (flags & ASSUME_VALID) !== 0,
      skipWorktree: (extended & SKIP_WORKTREE) !== 0,
      intentToAdd: (extended & INTENT_TO_ADD) !== 0,
    };
    previous = path;
    // Before version 4 one to eight NULs bring the entry's length to a multiple of eight.
    at = version === 4 ? nul + 1 : at + ((nul - at + 8) & ~7);
  }

  let trees: Buffer | null = null;
  let link: IndexLink | null = null;
  let sparse = false;
  while (at < end) {
    if (at + 8 > end) throw corrupt("is cut off");
    const signature = data.toString("latin1", at, at + 4);
    const size = data.readUInt32BE(at + 4);
    if (at + 8 + size > end) throw corrupt("is cut off");
    const body = data.subarray(at + 8, at + 8 + size);
    if (signature === "TREE") trees = body;
    else if (signature === "link") link = parseLink(body, corrupt);
    else if (signature === "sdir") sparse = true;
    else if (!/^[A-Z]/.test(signature)) {
      // git must understand those that begin with a small letter.
      const what = `the unknown extension ${JSON.stringify(signature)}`;
      throw new AgentqError("index-unsupported", `The index ${file} has ${what}.`, {
        details: { path: file, extension: signature },
      });
    }
    at += 8 + size;
  }
  return { entries, trees, link, sparse };
}

function readStat(data: Buffer, at: number): StatData {
  return {
    ctimeSec: data.readUInt32BE(at),
    ctimeNsec: data.readUInt32BE(at + 4),
    mtimeSec: data.readUInt32BE(at + 8),
    mtimeNsec: data.readUInt32BE(at + 12),
    dev: data.readUInt32BE(at + 16),
    ino: data.readUInt32BE(at + 20),
    uid: data.readUInt32BE(at + 28),
    gid: data.readUInt32BE(at + 32),
    size: data.readUInt32BE(at + 36),
  };
}

/** git's offset encoding: every further byte counts one more. */
function readVarint(data: Buffer, at: number, end: number): { value: number; end: number } | null {
  let value = -1;
  for (let digits = 0; digits < 5; digits++) {
    if (at >= end) return null;
    const byte = data[at++]!;
    value = (value + 1) * 128 + (byte & 127);
    if ((byte & 128) === 0) return { value, end: at };
  }
  return null;
}

/** The index's order: path bytes, then stage. */
export function compareEntries(
  a: Pick<IndexEntry, "path" | "stage">,
  b: Pick<IndexEntry, "path" | "stage">,
): number {
  return a.path < b.path ? -1 : a.path > b.path ? 1 : a.stage - b.stage;
}
