/** Looking paths up in trees, and comparing two trees, reading only what differs. */
import { isTreeMode, parseTree, type TreeEntry } from "../git/tree.ts";
import { EMPTY_TREE, type ObjectReader, type Oid } from "../git/types.ts";
import { canonicalMode, NOTHING, type Version } from "./entry.ts";

export interface TreePaths {
  /** What stands at `path` (a byte string): a directory's tree too; `mode` 0 when nothing does. */
  at(tree: Oid, path: string): Version;
  /** Every file, link or submodule that isn't the same in both trees, in path order. */
  differences(left: Oid, right: Oid): Difference[];
}

export interface Difference {
  readonly path: string;
  readonly left: Version;
  readonly right: Version;
}

/** Directories of the same path, still to be compared. */
interface OpenPair {
  readonly left: Oid | null;
  readonly right: Oid | null;
  readonly prefix: string;
}

/** Parses each tree once. */
export function treePaths(db: ObjectReader): TreePaths {
  const parsed = new Map<Oid, Map<string, TreeEntry>>();
  const entries = (tree: Oid): Map<string, TreeEntry> => {
    let map = parsed.get(tree);
    if (!map) {
      const list = tree === EMPTY_TREE ? [] : parseTree(db.read(tree).data, tree);
      map = new Map(list.map((entry) => [entry.path, entry]));
      parsed.set(tree, map);
    }
    return map;
  };

  function at(tree: Oid, path: string): Version {
    let current = tree;
    const parts = path.split("/");
    for (const [i, part] of parts.entries()) {
      const entry = entries(current).get(part);
      if (!entry) return NOTHING;
      if (i === parts.length - 1) return { mode: canonicalMode(entry.mode), oid: entry.oid };
      if (!isTreeMode(entry.mode)) return NOTHING;
      current = entry.oid;
    }
    return NOTHING;
  }

  /** What two directories don't share goes into `into`; pairs of directories in them are still `open`. */
  function compare(
    { left, right, prefix }: OpenPair,
    into: Difference[],
    open: OpenPair[],
  ): void {
    if (left === right) return;
    const a = left === null ? new Map<string, TreeEntry>() : entries(left);
    const b = right === null ? new Map<string, TreeEntry>() : entries(right);
    for (const name of new Set([...a.keys(), ...b.keys()])) {
      const x = a.get(name);
      const y = b.get(name);
      if (x && y && x.oid === y.oid && canonicalMode(x.mode) === canonicalMode(y.mode)) continue;
      const path = prefix + name;
      const fileX = x && !isTreeMode(x.mode) ? x : undefined;
      const fileY = y && !isTreeMode(y.mode) ? y : undefined;
      if (fileX || fileY) {
        into.push({
          path,
          left: fileX ? { mode: canonicalMode(fileX.mode), oid: fileX.oid } : NOTHING,
          right: fileY ? { mode: canonicalMode(fileY.mode), oid: fileY.oid } : NOTHING,
        });
      }
      const dirX = x && isTreeMode(x.mode) ? x.oid : null;
      const dirY = y && isTreeMode(y.mode) ? y.oid : null;
      if (dirX || dirY) open.push({ left: dirX, right: dirY, prefix: path + "/" });
    }
  }

  return {
    at,
    differences(left, right) {
      const result: Difference[] = [];
      const open: OpenPair[] = [{ left, right, prefix: "" }];
      for (let pair = open.pop(); pair; pair = open.pop()) compare(pair, result, open);
      return result.sort((x, y) => x.path < y.path ? -1 : x.path > y.path ? 1 : 0);
    },
  };
}
