/** Walking three trees side by side. */
import { parseTree, type TreeEntry } from "../git/tree.ts";
import { EMPTY_TREE, type ObjectReader, type Oid } from "../git/types.ts";
import { canonicalMode, isDirectory, NOTHING, type Version } from "./entry.ts";

/** One name and what it is in base, ours and theirs. */
export interface Row {
  readonly name: string;
  readonly versions: [Version, Version, Version];
  /** Bits of the trees that have the name at all, and of those where it is a directory. */
  readonly mask: number;
  readonly dirs: number;
}

function readTree(db: ObjectReader, oid: Oid): TreeEntry[] {
  // The empty tree needs no object: git knows it without one.
  return oid === "" || oid === EMPTY_TREE ? [] : parseTree(db.read(oid).data, oid);
}

/**
 * The union of three directories ("" for a tree that isn't there), each name once, a file and a directory
 * of the same name together. Trees that are the same are read once.
 */
export function rows(db: ObjectReader, trees: readonly [Oid, Oid, Oid]): Row[] {
  const base = readTree(db, trees[0]);
  const ours = trees[1] === trees[0] ? base : readTree(db, trees[1]);
  const theirs = trees[2] === trees[0]
    ? base
    : trees[2] === trees[1]
    ? ours
    : readTree(db, trees[2]);
  const lists = [base, ours, theirs];
  const at = [0, 0, 0];
  // Entries taken out of turn: a directory sorts after "name.c" where the file "name" sorts before it.
  const taken: [Set<number>, Set<number>, Set<number>] = [new Set(), new Set(), new Set()];
  const result: Row[] = [];

  for (;;) {
    const heads: (TreeEntry | undefined)[] = [undefined, undefined, undefined];
    let first: string | undefined;
    for (let i = 0; i < 3; i++) {
      if (taken[i]!.size > 0) { while (taken[i]!.delete(at[i]!)) at[i] = at[i]! + 1; }
      const head = lists[i]![at[i]!];
      heads[i] = head;
      if (head && (first === undefined || head.path < first)) first = head.path;
    }
    if (first === undefined) return result;
    let mask = 0;
    let dirs = 0;
    const versions: [Version, Version, Version] = [NOTHING, NOTHING, NOTHING];
    for (let i = 0; i < 3; i++) {
      let entry = heads[i];
      if (!entry) continue;
      if (entry.path === first) {
        at[i] = at[i]! + 1;
      } else {
        const found = lookAhead(lists[i]!, at[i]!, taken[i]!, first);
        if (found < 0) continue;
        entry = lists[i]![found]!;
        taken[i]!.add(found);
      }
      const mode = canonicalMode(entry.mode);
      versions[i] = { mode, oid: entry.oid };
      mask |= 1 << i;
      if (isDirectory(mode)) dirs |= 1 << i;
    }
    result.push({ name: first, versions, mask, dirs });
  }
}

/** Where `name` stands behind entries such as `name-x` and `name.c`, or -1. */
function lookAhead(list: TreeEntry[], from: number, taken: Set<number>, name: string): number {
  for (let i = from; i < list.length; i++) {
    const path = list[i]!.path;
    if (path === name) return taken.has(i) ? -1 : i;
    if (path < name) continue;
    if (!(path.startsWith(name) && path.charCodeAt(name.length) < 47)) return -1;
  }
  return -1;
}
