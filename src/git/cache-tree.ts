/**
 * The index's TREE extension: which tree object each directory of the index amounts to, as long as
 * nothing in it was changed. With it "the index is HEAD" is one comparison instead of a walk.
 *
 *   name NUL entry-count SP subtree-count LF [20 bytes of id unless the count is -1] subtrees…
 */
import { Buffer } from "node:buffer";
import type { Oid } from "./types.ts";

export interface CacheTree {
  /** The directory's own name (byte string), "" for the root. */
  readonly name: string;
  /** How many index entries it covers; -1 when it is not known which tree they make. */
  readonly entryCount: number;
  /** The tree's id, null when `entryCount` is -1. */
  readonly oid: Oid | null;
  readonly children: readonly CacheTree[];
}

/** Parses the extension; null when it is malformed or doesn't fit `entries` index entries. */
export function parseCacheTree(data: Buffer, entries: number): CacheTree | null {
  let at = 0;
  const readNode = (depth: number): CacheTree | null => {
    const nul = data.indexOf(0, at);
    const newline = nul < 0 ? -1 : data.indexOf(10, nul);
    if (newline < 0 || depth > 4096) return null;
    const counts = /^(-1|\d{1,10}) (\d{1,10})$/.exec(data.toString("latin1", nul + 1, newline));
    if (counts === null) return null;
    const name = data.toString("latin1", at, nul);
    const entryCount = Number(counts[1]);
    at = newline + 1;
    let oid: Oid | null = null;
    if (entryCount >= 0) {
      if (at + 20 > data.length) return null;
      oid = data.toString("hex", at, at + 20);
      at += 20;
    }
    const children: CacheTree[] = [];
    for (let left = Number(counts[2]); left > 0; left--) {
      const child = readNode(depth + 1);
      if (child === null) return null;
      children.push(child);
    }
    return { name, entryCount, oid, children };
  };
  const root = readNode(0);
  if (root === null || root.name !== "" || at !== data.length) return null;
  return root.entryCount >= 0 && root.entryCount !== entries ? null : root;
}

export function serializeCacheTree(root: CacheTree): Buffer {
  const parts: Buffer[] = [];
  const writeNode = (node: CacheTree) => {
    const head = `${node.name}\0${node.entryCount} ${node.children.length}\n`;
    parts.push(Buffer.from(head, "latin1"));
    if (node.oid !== null) parts.push(Buffer.from(node.oid, "hex"));
    for (const child of [...node.children].sort(compareNames)) writeNode(child);
  };
  writeNode(root);
  return Buffer.concat(parts);
}

/** git keeps subtrees by length of name, then by bytes. */
function compareNames(a: CacheTree, b: CacheTree): number {
  return a.name.length - b.name.length || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
}
