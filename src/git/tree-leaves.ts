/** A tree as the flat, sorted list of its files that an index is, and the TREE extension that goes with it. */
import { AgentqError } from "../errors.ts";
import type { CacheTree } from "./cache-tree.ts";
import type { IndexEntry } from "./index-format.ts";
import { quotePath } from "./path-quote.ts";
import { isGitlinkMode, isSymlinkMode, isTreeMode, MODE, parseTree } from "./tree.ts";
import type { ObjectReader, Oid } from "./types.ts";

/** A file, symbolic link or gitlink of a tree. Every {@link IndexEntry} is one. */
export interface TreeLeaf {
  /** Byte string from the root. */
  readonly path: string;
  /** One of the modes git writes today. */
  readonly mode: number;
  readonly oid: Oid;
}

export interface ExpandedTree {
  /** Sorted as the index is. */
  readonly leaves: readonly TreeLeaf[];
  readonly cacheTree: CacheTree;
}

export interface ExpandOptions {
  /**
   * An index whose TREE extension is believed: a directory whose tree is the same is taken from its
   * entries, the very objects, and not read again.
   */
  known?: { readonly entries: readonly IndexEntry[]; readonly cacheTree: CacheTree | null };
  /** Called for each name that was read, before anything is returned; throws to refuse the tree. */
  check?: (path: string, name: string, mode: number) => void;
  /**
   * Directories (`dir/`) that are to stay whole, as one leaf of mode 040000, and whose trees are not read.
   * Asked for each directory that isn't taken from `known`.
   */
  keep?: (path: string, oid: Oid) => boolean;
}

/** No file system holds paths this deep, and the stack has an end. */
const MAX_DEPTH = 2048;

/**
 * Expands a tree. Reads its trees, none of its blobs.
 * @throws `object-missing`, `repository-corrupt` (a name twice in one tree, or too deep)
 */
export function expandTree(
  objects: ObjectReader,
  tree: Oid,
  options: ExpandOptions = {},
): ExpandedTree {
  const leaves: TreeLeaf[] = [];
  const { check, known, keep } = options;

  const expand = (oid: Oid, name: string, prefix: string, old: CacheTree | null): CacheTree => {
    const start = leaves.length;
    if (old !== null && old.oid === oid && takeKnown(prefix, old.entryCount)) {
      return { ...old, name };
    }
    if (prefix.split("/").length > MAX_DEPTH) {
      throw corrupt(`is nested more than ${MAX_DEPTH} directories deep`, tree, prefix);
    }
    const children: CacheTree[] = [];
    const names = new Set<string>();
    for (const entry of parseTree(objects.read(oid).data, oid)) {
      const path = prefix + entry.path;
      if (names.has(entry.path)) throw corrupt("is there twice", tree, path);
      names.add(entry.path);
      check?.(path, entry.path, entry.mode);
      if (isTreeMode(entry.mode) && keep?.(path + "/", entry.oid)) {
        leaves.push({ path: path + "/", mode: MODE.tree, oid: entry.oid });
        children.push({ name: entry.path, entryCount: 1, oid: entry.oid, children: [] });
      } else if (isTreeMode(entry.mode)) {
        const below = old?.children.find((child) => child.name === entry.path) ?? null;
        children.push(expand(entry.oid, entry.path, path + "/", below));
      } else leaves.push({ path, mode: canonicalMode(entry.mode), oid: entry.oid });
    }
    return { name, entryCount: leaves.length - start, oid, children };
  };

  /** Takes the entries below `prefix` from the known index, if they are what TREE says. */
  const takeKnown = (prefix: string, count: number): boolean => {
    const entries = known!.entries;
    const from = lowerBound(entries, prefix);
    const to = from + count;
    if (count <= 0 || to > entries.length) return false;
    if (!entries[from]!.path.startsWith(prefix) || !entries[to - 1]!.path.startsWith(prefix)) {
      return false;
    }
    if (to < entries.length && prefix !== "" && entries[to]!.path.startsWith(prefix)) return false;
    for (let i = from; i < to; i++) {
      if (entries[i]!.stage !== 0 || entries[i]!.intentToAdd) return false;
    }
    for (let i = from; i < to; i++) leaves.push(entries[i]!);
    return true;
  };

  const cacheTree = expand(tree, "", "", known?.cacheTree ?? null);
  for (let i = 1; i < leaves.length; i++) {
    if (leaves[i - 1]!.path >= leaves[i]!.path) {
      throw corrupt("is out of order", tree, leaves[i]!.path);
    }
  }
  return { leaves, cacheTree };
}

function corrupt(what: string, tree: Oid, path: string): AgentqError {
  return new AgentqError("repository-corrupt", `In tree ${tree}, ${quotePath(path)} ${what}.`, {
    details: { oid: tree, path: quotePath(path) },
  });
}

/** What the index records for a mode of a tree, which may be one that old versions of git wrote. */
export function canonicalMode(mode: number): number {
  if (isSymlinkMode(mode)) return MODE.symlink;
  if (isGitlinkMode(mode)) return MODE.gitlink;
  return (mode & 0o100) === 0 ? MODE.file : MODE.executable;
}

/** The index of the first entry whose path is not before `path`. */
export function lowerBound(entries: readonly { readonly path: string }[], path: string): number {
  let low = 0;
  let high = entries.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (entries[middle]!.path < path) low = middle + 1;
    else high = middle;
  }
  return low;
}
