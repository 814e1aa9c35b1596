/**
 * The first thing in a tree that must not get onto a branch: a path no work tree may be given, or a
 * tree whose entries no git would write. Once it is on the branch, nobody can check the branch out any more.
 */
import { isAgentqError } from "../errors.ts";
import { unsafeName } from "./path-safety.ts";
import {
  compareTreeEntries,
  isSymlinkMode,
  isTreeMode,
  parseTree,
  type TreeEntry,
} from "./tree.ts";
import type { ObjectReader, Oid } from "./types.ts";

/** What Linux takes for a path, its final NUL left out. */
const LONGEST = 4095;

export interface UnsafePath {
  /** A byte string; empty for the root tree itself. */
  readonly path: string;
  /** "a name that stands for .git" */
  readonly reason: string;
}

/**
 * Looks at what `after` has that `before` (null: nothing) has not at the same path; directories that
 * are the same in both are not read.
 */
export function findUnsafePath(
  objects: ObjectReader,
  before: Oid | null,
  after: Oid,
  directory = "",
): UnsafePath | null {
  if (before === after) return null;
  const prefix = directory === "" ? "" : `${directory}/`;
  const entries = entriesOf(objects, after);
  if (entries === null) return { path: directory, reason: "a malformed tree" };
  const old = new Map(
    (before === null ? null : entriesOf(objects, before))?.map((entry) => [entry.path, entry]),
  );
  const names = new Set<string>();
  for (const [i, { mode, path, oid }] of entries.entries()) {
    if (names.has(path)) return { path: prefix + path, reason: "a name that stands there twice" };
    names.add(path);
    if (i > 0 && compareTreeEntries(entries[i - 1]!, entries[i]!) >= 0) {
      return { path: prefix + path, reason: "a place out of order in its tree" };
    }
    const was = old.get(path);
    if (was?.oid === oid && was.mode === mode) continue;
    const reason = unsafeName(path, mode);
    if (reason !== null) return { path: prefix + path, reason };
    if (prefix.length + path.length > LONGEST) {
      return { path: prefix + path, reason: `more than ${LONGEST} bytes` };
    }
    if (isSymlinkMode(mode)) {
      const unusable = unusableTarget(objects, oid);
      if (unusable !== null) return { path: prefix + path, reason: unusable };
    }
    if (!isTreeMode(mode)) continue;
    const base = was && isTreeMode(was.mode) ? was.oid : null;
    const below = findUnsafePath(objects, base, oid, prefix + path);
    if (below !== null) return below;
  }
  return null;
}

/** Why no link can lead there: no system call takes such a target. @throws `object-missing` */
function unusableTarget(objects: ObjectReader, oid: Oid): string | null {
  const { type, data } = objects.read(oid);
  if (type !== "blob") return `a ${type} for a link`;
  if (data.length === 0) return "an empty target as a link";
  if (data.includes(0)) return "a NUL in its target as a link";
  return data.length > LONGEST ? `a target of more than ${LONGEST} bytes as a link` : null;
}

/** The entries of a tree, null when it is no tree or a malformed one. @throws `object-missing` */
function entriesOf(objects: ObjectReader, oid: Oid): TreeEntry[] | null {
  const { type, data } = objects.read(oid);
  if (type !== "tree") return null;
  try {
    return parseTree(data, oid);
  } catch (error) {
    if (!isAgentqError(error, "repository-corrupt")) throw error;
    return null;
  }
}
