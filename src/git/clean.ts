/**
 * Takes out of a work tree what no commit put there: the debris of the command that ran in it last.
 *
 * What `git clean -ffd` does: ignored files stay (that build caches last is what a persistent worktree
 * is for), all others go, so that nothing that one candidate left behind makes the next pass or fail.
 */
import type { IgnoreLookup } from "./ignore.ts";
import type { WorkTree } from "./work-tree.ts";

export interface CleanPlan {
  readonly files: WorkTree;
  readonly ignores: IgnoreLookup;
  /** Paths that the new tree has, and all directories above them. */
  readonly wanted: ReadonlySet<string>;
  readonly wantedDirectories: ReadonlySet<string>;
  /** Directories that stand for submodules: they are emptied. */
  readonly gitlinks: ReadonlySet<string>;
  /** Paths that must not be there, ignored or not: the part of the tree that is not checked out. */
  readonly outside: ReadonlySet<string>;
  /** The name of the repository's own link at the root, in any spelling the file system knows. */
  readonly isRepositoryLink: (name: string) => boolean;
}

/** Removes the debris. Yields each removed path when it is gone, and null now and then meanwhile. */
export function* removeDebris(plan: CleanPlan): Generator<string | null, void> {
  yield* cleanDirectory(plan, "");
}

/** Cleans one directory that stays, because something tracked is in it. */
function* cleanDirectory(plan: CleanPlan, directory: string): Generator<string | null, void> {
  const { files, wanted, wantedDirectories, gitlinks } = plan;
  yield null;
  for (const { name, isDirectory } of files.list(directory)) {
    if (directory === "" && plan.isRepositoryLink(name)) continue;
    const path = directory === "" ? name : `${directory}/${name}`;
    if (gitlinks.has(path)) {
      if (isDirectory && files.list(path).length === 0) continue;
      files.remove(path);
      yield path;
    } else if (wanted.has(path)) continue;
    else if (wantedDirectories.has(path)) {
      if (isDirectory) yield* cleanDirectory(plan, path);
      else {
        files.remove(path);
        yield path;
      }
    } else yield* cleanUntracked(plan, path, isDirectory);
  }
}

/** Removes an untracked path unless it is ignored, or something ignored is in it. */
function* cleanUntracked(
  plan: CleanPlan,
  path: string,
  isDirectory: boolean,
): Generator<string | null, void> {
  const { files, ignores, outside } = plan;
  if (!outside.has(path) && ignores.ignores(path, isDirectory)) return;
  if (isDirectory) {
    if (files.removeIfEmpty(path)) return;
    const below = files.list(path);
    // Another repository, left by a clone: nothing in it is ours to weigh.
    if (!below.some(({ name }) => name === ".git")) {
      yield null;
      for (const { name, isDirectory } of below) {
        yield* cleanUntracked(plan, `${path}/${name}`, isDirectory);
      }
      files.pruneEmpty(path);
      return;
    }
  }
  files.remove(path);
  yield path;
}
