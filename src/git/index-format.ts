/**
 * The bytes of git's index file: versions 2, 3 and 4 read, 2 and 3 written.
 *
 *   "DIRC" version count │ entries, sorted by path and stage │ extensions │ SHA-1 of all before
 *
 * Of the extensions, TREE (which trees the entries amount to) is read and written. Those that only
 * make git faster (UNTR, FSMN, EOIE, IEOT, REUC …) are passed over, and dropped by a rewrite, which
 * costs git time and nothing else. Those that change what the entries mean are refused by name.
 */
import { Buffer } from "node:buffer";
import { AgentqError } from "../errors.ts";
import { createHash } from "../platform/hash.ts";
import { type CacheTree, parseCacheTree, serializeCacheTree } from "./cache-tree.ts";
import type { StatData } from "./file-stat.ts";
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
}

const ENTRY_FIXED = 62;
const ASSUME_VALID = 0x8000;
const EXTENDED = 0x4000;
const SKIP_WORKTREE = 0x4000;
const INTENT_TO_ADD = 0x2000;

/** Extensions git must understand begin with a small letter; these are the ones that exist. */
const REFUSED: Record<string, string> = {
  link: "a split index (run git update-index --no-split-index)",
  sdir: "a sparse index (run git sparse-checkout reapply --no-sparse-index)",
};

/** Parses the whole file. `file` names it in errors. @throws `index-corrupt`, `index-unsupported` */
export function parseIndex(data: Buffer, file: string): IndexContent {
  const corrupt = (what: string) =>
    new AgentqError("index-corrupt", `The index ${file} ${what}.`, { details: { path: file } });
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
  let previousStage = 0;
  // Told only after the extensions: the entries of a split index have reasons to look odd.
  let disordered = false;
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
    if (
      path === "" || path < previous ||
      (path === previous && i > 0 && (stage <= previousStage || previousStage === 0))
    ) {
      disordered = true;
    }
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
    previousStage = stage;
    // Before version 4 one to eight NULs bring the entry's length to a multiple of eight.
    at = version === 4 ? nul + 1 : at + ((nul - at + 8) & ~7);
  }

  let cacheTree: CacheTree | null = null;
  while (at < end) {
    if (at + 8 > end) throw corrupt("is cut off");
    const signature = data.toString("latin1", at, at + 4);
    const size = data.readUInt32BE(at + 4);
    const body = at + 8;
    if (body + size > end) throw corrupt("is cut off");
    if (signature === "TREE") cacheTree = parseCacheTree(data.subarray(body, body + size), count);
    else if (!/^[A-Z]/.test(signature)) {
      const what = Object.hasOwn(REFUSED, signature)
        ? REFUSED[signature]
        : `the unknown extension ${JSON.stringify(signature)}`;
      throw new AgentqError("index-unsupported", `The index ${file} is ${what}.`, {
        details: { path: file, extension: signature },
      });
    }
    at = body + size;
  }
  if (disordered) throw corrupt("has entries out of order");
  return { entries, cacheTree };
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

/** The bytes of an index with these entries, which must be sorted by {@link compareEntries}. */
export function serializeIndex(content: IndexContent): Buffer {
  const { entries, cacheTree } = content;
  const extension = cacheTree === null ? null : serializeCacheTree(cacheTree);
  let version = 2;
  let size = 12 + 20 + (extension === null ? 0 : 8 + extension.length);
  for (const entry of entries) {
    const isExtended = entry.skipWorktree || entry.intentToAdd;
    if (isExtended) version = 3;
    size += entrySize(entry.path.length, isExtended);
  }
  const data = Buffer.alloc(size);
  data.write("DIRC", 0, "latin1");
  data.writeUInt32BE(version, 4);
  data.writeUInt32BE(entries.length, 8);
  let at = 12;
  for (const entry of entries) at = writeEntry(data, at, entry);
  if (extension !== null) {
    data.write("TREE", at, "latin1");
    data.writeUInt32BE(extension.length, at + 4);
    extension.copy(data, at + 8);
    at += 8 + extension.length;
  }
  createHash("sha1").update(data.subarray(0, at)).digest().copy(data, at);
  return data;
}

function entrySize(pathLength: number, extended: boolean): number {
  return (ENTRY_FIXED + (extended ? 2 : 0) + pathLength + 8) & ~7;
}

function writeEntry(data: Buffer, at: number, entry: IndexEntry): number {
  const { stat } = entry;
  const extended = entry.skipWorktree || entry.intentToAdd;
  data.writeUInt32BE(stat.ctimeSec, at);
  data.writeUInt32BE(stat.ctimeNsec, at + 4);
  data.writeUInt32BE(stat.mtimeSec, at + 8);
  data.writeUInt32BE(stat.mtimeNsec, at + 12);
  data.writeUInt32BE(stat.dev, at + 16);
  data.writeUInt32BE(stat.ino, at + 20);
  data.writeUInt32BE(entry.mode, at + 24);
  data.writeUInt32BE(stat.uid, at + 28);
  data.writeUInt32BE(stat.gid, at + 32);
  data.writeUInt32BE(stat.size, at + 36);
  data.write(entry.oid, at + 40, 20, "hex");
  data.writeUInt16BE(
    (entry.assumeValid ? ASSUME_VALID : 0) | (extended ? EXTENDED : 0) | entry.stage << 12 |
      Math.min(entry.path.length, 0xfff),
    at + 60,
  );
  let name = at + ENTRY_FIXED;
  if (extended) {
    data.writeUInt16BE(
      (entry.skipWorktree ? SKIP_WORKTREE : 0) | (entry.intentToAdd ? INTENT_TO_ADD : 0),
      name,
    );
    name += 2;
  }
  data.write(entry.path, name, "latin1");
  return at + entrySize(entry.path.length, extended);
}

/** The index's order: path bytes, then stage. */
export function compareEntries(
  a: Pick<IndexEntry, "path" | "stage">,
  b: Pick<IndexEntry, "path" | "stage">,
): number {
  return a.path < b.path ? -1 : a.path > b.path ? 1 : a.stage - b.stage;
}
