/** Which parent of a merge commit has a file, and under which name. */
import { Buffer } from "node:buffer";
import type { CommitReader } from "../../git/history.ts";
import type { Oid } from "../../git/types.ts";
import { sameVersion, type Version } from "../entry.ts";
import type { Loss } from "./loss.ts";
import { commitTree, type Scene } from "./merge.ts";
import { textOf } from "./texts.ts";
import { type Difference, treePaths } from "../tree-paths.ts";

/** A parent that has a version. */
export interface Holder {
  /** As git takes it: `1f0c9a7be2d4^2`. */
  readonly commit: string;
  /** Counted from 1. */
  readonly n: number;
  /** The version's path there. */
  readonly name: string;
}

export interface Holders {
  readonly isOctopus: boolean;
  /** The merge commit, as git takes it. */
  readonly merge: string;
  /** The merge commit's tree. */
  readonly tree: Oid;
  /** A side as a sentence begins with it. */
  label(side: 0 | 1 | 2): string;
  /** The parent that has a side's version. What an octopus merged before its last parent may be any's. */
  of(scene: Scene, side: 0 | 1 | 2, version: Version): Holder | null;
  /** A parent whose version of the path has all the lines that are missing. */
  ofLines(scene: Scene, loss: Loss): Holder | null;
  /** The name that the file had before the sides parted. */
  oldName(scene: Scene): string | null;
}

export function holders(db: CommitReader, merge: Oid, parents: readonly Oid[]): Holders {
  const lookup = treePaths(db);
  const trees = parents.map((parent) => commitTree(db, parent));
  const isOctopus = parents.length > 2;
  const nth = (n: number, name: string): Holder => ({
    commit: `${merge.slice(0, 12)}^${n}`,
    n,
    name,
  });
  const known = new Map<string, Difference[]>();
  /** What differs from the base, which may be one that only the scene's database has. */
  const changes = ({ db: scratch, merged: { baseTree } }: Scene, tree: Oid): Difference[] => {
    const key = `${baseTree} ${tree}`;
    let found = known.get(key);
    if (!found) known.set(key, found = treePaths(scratch).differences(baseTree, tree));
    return found;
  };

  return {
    isOctopus,
    merge: merge.slice(0, 12),
    tree: commitTree(db, merge),
    label(side) {
      if (side === 0) return "Merging";
      if (side === 1 && isOctopus) return "A parent before the last";
      return `Parent ${side === 1 ? 1 : parents.length}`;
    },
    of(scene, side, version) {
      const all = parents.map((_, i) => i + 1);
      const asked = side === 0 || isOctopus ? all : [side];
      for (const n of asked) {
        if (sameVersion(lookup.at(trees[n - 1]!, scene.path), version)) return nth(n, scene.path);
      }
      for (const n of asked) {
        const name = nearest(
          scene.path,
          changes(scene, trees[n - 1]!).filter(({ right }) => sameVersion(right, version)),
        );
        if (name !== undefined) return nth(n, name);
      }
      return null;
    },
    ofLines({ path }, { text }) {
      if (text.length === 0) return null;
      const n = trees.findIndex((tree) => {
        const data = textOf(db, lookup.at(tree, path));
        return data !== null && text.every((line) => Buffer.from(data).includes(line));
      });
      return n < 0 ? null : nth(n + 1, path);
    },
    oldName(scene) {
      const { path, base, merged: { baseTree } } = scene;
      if (base.mode === 0) return null;
      if (sameVersion(treePaths(scene.db).at(baseTree, path), base)) return path;
      const all = scene.trees.flatMap((tree) => changes(scene, tree));
      return nearest(path, all.filter(({ left }) => sameVersion(left, base))) ?? null;
    },
  };
}

/** Of some paths the one whose end is most like that of another. */
function nearest(path: string, others: readonly Difference[]): string | undefined {
  const score = (other: string): number => {
    let n = 0;
    while (n < other.length && other[other.length - 1 - n] === path[path.length - 1 - n]) n++;
    return n;
  };
  return others.map((other) => other.path).sort((a, b) => score(b) - score(a))[0];
}
