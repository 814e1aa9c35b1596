/** A tree as it would be once advice is followed: what the next advice, and the gate, go by. */
import type { CommitReader } from "../../git/history.ts";
import { isTreeMode, parseTree, serializeTree } from "../../git/tree.ts";
import { EMPTY_TREE, type ObjectDatabase, type Oid } from "../../git/types.ts";
import { isDirectory, NOTHING, type Version } from "../entry.ts";
import { overlay } from "../overlay.ts";
import { type Difference, treePaths } from "../tree-paths.ts";

export interface Draft {
  /** What stands at a path; a directory's tree too. */
  at(path: string): Version;
  hasDirectory(path: string): boolean;
  /** The files below a directory. */
  below(directory: string): string[];
  put(path: string, version: Version): void;
  /** A new content; gives its id. */
  write(data: Uint8Array): Oid;
  /** The tree as it is now. */
  readonly tree: Oid;
  /** Sets the tree back to what it was. */
  reset(tree: Oid): void;
  /** Makes all that is new known to another database. */
  copyTo(db: ObjectDatabase): void;
  /** From the draft to another tree. */
  differences(db: CommitReader, to: Oid): Difference[];
}

export function draftOf(below: CommitReader, start: Oid): Draft {
  const db = overlay(below);
  const lookup = treePaths(db);
  let tree = start;
  const draft: Draft = {
    at: (path) => lookup.at(tree, path),
    hasDirectory: (path) => isDirectory(lookup.at(tree, path).mode),
    below(directory) {
      const { mode, oid } = lookup.at(tree, directory);
      return isDirectory(mode)
        ? lookup.differences(EMPTY_TREE, oid).map(({ path }) => `${directory}/${path}`)
        : [];
    },
    put(path, version) {
      tree = replaced(db, tree, path.split("/"), version) ?? db.write("tree", serializeTree([]));
    },
    write: (data) => db.write("blob", data),
    get tree() {
      return tree;
    },
    reset(old) {
      tree = old;
    },
    copyTo(other) {
      for (const { type, data } of db.newObjects()) other.write(type, data);
    },
    differences(other, to) {
      const both = overlay(other);
      draft.copyTo(both);
      return treePaths(both).differences(tree, to);
    },
  };
  return draft;
}

/** The tree with another version at a path below it; null for one with nothing in it. */
function replaced(
  db: ObjectDatabase,
  tree: Oid | null,
  [name, ...rest]: readonly string[],
  version: Version,
): Oid | null {
  const entries = tree === null || tree === EMPTY_TREE ? [] : parseTree(db.read(tree).data, tree);
  const old = entries.find(({ path }) => path === name);
  let put = version;
  if (rest.length > 0) {
    const inner = replaced(db, old && isTreeMode(old.mode) ? old.oid : null, rest, version);
    put = inner === null ? NOTHING : { mode: 0o40000, oid: inner };
  }
  const now = entries.filter(({ path }) => path !== name);
  if (put.mode !== 0) now.push({ path: name!, ...put });
  return now.length === 0 ? null : db.write("tree", serializeTree(now));
}
