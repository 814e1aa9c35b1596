/** What leaving a merge in progress has to change, and what stands against it: nothing is written here. */
import { compareFile, type FileComparison } from "./file-compare.ts";
import type { IndexEntry } from "./index-format.ts";
import type { SparseMatcher } from "./sparse.ts";
import { isGitlinkMode } from "./tree.ts";
import type { TreeLeaf } from "./tree-leaves.ts";
import type { WorkTree } from "./work-tree.ts";

/** An unmerged index entry; merge/types.ts has the same shape. */
export interface UnmergedEntry {
  readonly path: string;
  readonly stage: 1 | 2 | 3;
  readonly mode: number;
  readonly oid: string;
}

/** One path whose file changes. */
export interface FileChange {
  readonly path: string;
  /** What the index and the file hold now; null when neither has the path. */
  readonly before: IndexEntry | null;
  /** What the merge leaves there; null for no file. */
  readonly after: TreeLeaf | null;
}

export interface MergePlan {
  readonly changes: readonly FileChange[];
  /** Paths outside the sparse checkout that change, where no file is written and none is left. */
  readonly outside: ReadonlySet<string>;
}

/**
 * @param old the index's entries, all of stage 0 and equal to HEAD's tree
 * @param merged the leaves of the merged tree
 */
export function planMerge(
  old: readonly IndexEntry[],
  merged: readonly TreeLeaf[],
  stages: readonly Pick<UnmergedEntry, "path">[],
  belongs: SparseMatcher | null,
): MergePlan {
  const unmerged = new Set(stages.map(({ path }) => path));
  const changes: FileChange[] = [];
  const outside = new Set<string>();
  const strays = (before: IndexEntry | null, path: string) =>
    before !== null && belongs !== null && !isGitlinkMode(before.mode) && !unmerged.has(path) &&
    !before.skipWorktree && !belongs(path);
  const add = (path: string, before: IndexEntry | null, after: TreeLeaf | null) => {
    // A conflict is written out wherever it is, as git does.
    const skipped = !unmerged.has(path) &&
      (before === null ? belongs !== null && !belongs(path) : before.skipWorktree);
    if (skipped) outside.add(path);
    else if (after !== null && strays(before, path)) {
      // Nor does git leave a file there that doesn't belong: the index goes on without it.
      outside.add(path);
      changes.push({ path, before, after: null });
    } else changes.push({ path, before, after });
  };
  let i = 0;
  let j = 0;
  while (i < old.length || j < merged.length) {
    const before = old[i];
    const after = merged[j];
    if (after === undefined || (before !== undefined && before.path < after.path)) {
      add(before!.path, before!, null);
      i++;
    } else if (before === undefined || after.path < before.path) {
      add(after.path, null, after);
      j++;
    } else {
      const same = before.oid === after.oid && before.mode === after.mode;
      // An unmerged path outside the sparse checkout has to be there to be resolved.
      const moves = before.skipWorktree ? unmerged.has(before.path) : strays(before, before.path);
      if (!same || moves) {
        add(before.path, before, after);
      }
      i++;
      j++;
    }
  }
  return { changes, outside };
}

/** Paths whose content would be lost: changed since HEAD (whatever the index claims), or untracked. */
export function findLosses(
  context: FileComparison,
  changes: readonly FileChange[],
): { path: string; untracked: boolean }[] {
  const { files } = context;
  const going = new Set<string>();
  for (const { path, before } of changes) if (before !== null) going.add(path);
  const losses: { path: string; untracked: boolean }[] = [];
  for (const { path, before, after } of changes) {
    if (before !== null) {
      const absent = files.lstat(path) === null;
      const unchanged = absent
        ? before.skipWorktree
        : isGitlinkMode(before.mode) || compareFile(context, before).state === "same";
      if (!unchanged) losses.push({ path, untracked: false });
      // A submodule that is checked out doesn't give way to a file, nor lose as much as its empty directories.
      const replaced = isGitlinkMode(before.mode) && after !== null && !isGitlinkMode(after.mode);
      if (replaced && untrackedBelow(files, path, going, false) !== null) {
        losses.push({ path, untracked: true });
      }
    } else if (after !== null) {
      const obstacle = files.obstacle(path);
      if (obstacle === null || (obstacle.path !== path && going.has(obstacle.path))) continue;
      const kept = obstacle.stat.isDirectory() && obstacle.path === path
        ? untrackedBelow(files, path, going, isGitlinkMode(after.mode))
        : obstacle.path;
      if (kept !== null) losses.push({ path: kept, untracked: true });
    }
  }
  return losses;
}

/** Something in a directory that has to give way to a file, and that this merge doesn't itself remove. */
function untrackedBelow(
  files: WorkTree,
  directory: string,
  going: ReadonlySet<string>,
  gitlink: boolean,
): string | null {
  if (gitlink) return null;
  for (const { name, isDirectory } of files.list(directory)) {
    const path = `${directory}/${name}`;
    if (going.has(path)) continue;
    const found = isDirectory ? untrackedBelow(files, path, going, false) : path;
    if (found !== null) return found;
  }
  return null;
}
