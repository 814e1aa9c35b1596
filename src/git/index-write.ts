/** Writes the bytes of git's index file: version 2, or 3 where an entry has flags that need it, with TREE. */
import { Buffer } from "node:buffer";
import { AgentqError } from "../errors.ts";
import { createHash } from "../platform/hash.ts";
import { serializeCacheTree } from "./cache-tree.ts";
import {
  ASSUME_VALID,
  ENTRY_FIXED,
  EXTENDED,
  type IndexContent,
  type IndexEntry,
  INTENT_TO_ADD,
  SKIP_WORKTREE,
} from "./index-format.ts";
import { MODE } from "./tree.ts";

/** The bytes of an index with these entries, which must be sorted by `compareEntries`. */
export function serializeIndex(content: IndexContent): Buffer {
  const { entries, cacheTree } = content;
  const extension = cacheTree === null ? null : serializeCacheTree(cacheTree);
  let version = 2;
  let size = 12 + 20 + (extension === null ? 0 : 8 + extension.length);
  for (const entry of entries) {
    const isExtended = entry.skipWorktree || entry.intentToAdd;
    if (isExtended) version = 3;
    if (entry.mode === MODE.tree) {
      throw new AgentqError("internal", "A sparse index has to be expanded before it is written.");
    }
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
