/** Counting where the files of removed directories went, as renames are found. */
import { directoryOf } from "./entry.ts";
import { hashOrder } from "./hash-order.ts";
import { DIRECTORY, type Pair, RELEVANT, type SideRenames } from "./rename-state.ts";

/** Stands for "not known yet": no directory has this name. */
const UNKNOWN = "/";

export interface DirectoryCounts {
  /** Notes that `oldPath` became `newPath`. */
  renamed(oldPath: string, newPath: string): void;
  /** Where most of the files beside `path` went so far, as known when counting began; else undefined. */
  guess(path: string): string | undefined;
  /** Drops sources wanted only for directories whose new place is certain already. */
  dropCertain(sources: Pair[]): Pair[];
  /** Leaves in the side's counts what directory renames are decided from. */
  finish(): void;
}

/** Starts counting with the renames found so far. */
export function countDirectories(side: SideRenames, renamed: readonly Pair[]): DirectoryCounts {
  const counts = new Map<string, Map<string, number>>();
  side.directoryCounts = counts;
  const removed = side.removedDirectories;

  const increment = (from: string, to: string): void => {
    let targets = counts.get(from);
    if (!targets) counts.set(from, targets = new Map());
    targets.set(to, (targets.get(to) ?? 0) + 1);
  };

  const countRename = (oldPath: string, newPath: string): void => {
    let oldDir = oldPath;
    let newDir = newPath;
    for (let first = true;; first = false) {
      const oldCut = cut(oldDir);
      if (!removed.has(oldCut.directory)) return;
      const newCut = cut(newDir);
      oldDir = oldCut.directory;
      newDir = newCut.directory;
      // a/b/c/d/e/x to a/b/some/e/x says that both a/b/c/d/e and a/b/c/d were renamed, and no more.
      if (!first) {
        if (newDir === "") {
          if (newPath[0] !== oldCut.rest[0] || oldCut.rest.slice(1) !== newCut.rest) return;
        } else if (oldCut.rest !== newCut.rest) return;
      }
      const relevance = removed.get(oldDir) ?? DIRECTORY.irrelevant;
      if (relevance === DIRECTORY.forSelf || first) increment(oldDir, newDir);
      if (relevance === DIRECTORY.irrelevant || oldDir === "" || newDir === "") return;
    }
  };

  for (const pair of renamed) countRename(pair.one.path, pair.two.path);
  const guesses = new Map<string, string>();
  for (const [from, targets] of counts) {
    let most = 0;
    for (const to of hashOrder(targets.keys())) {
      if (targets.get(to)! > most) {
        most = targets.get(to)!;
        guesses.set(from, to);
      }
    }
  }

  return {
    renamed: countRename,
    guess: (path) => guesses.get(directoryOf(path)),
    dropCertain(sources) {
      for (const { one } of sources) {
        for (
          let dir = directoryOf(one.path);
          dir !== "" && (removed.get(dir) ?? DIRECTORY.irrelevant) !== DIRECTORY.irrelevant;
          dir = directoryOf(dir)
        ) increment(dir, UNKNOWN);
      }
      for (const [dir, targets] of counts) {
        if (removed.get(dir) === DIRECTORY.forSelf && isCertain(targets)) {
          removed.set(dir, DIRECTORY.forAncestor);
        }
      }
      return sources.filter(({ one }) => {
        if (side.sources.get(one.path) !== RELEVANT.location) return true;
        for (let dir = directoryOf(one.path);; dir = directoryOf(dir)) {
          const relevance = removed.get(dir) ?? DIRECTORY.irrelevant;
          if (relevance === DIRECTORY.forSelf) return true;
          if (relevance === DIRECTORY.irrelevant) break;
        }
        side.sources.set(one.path, RELEVANT.noMore);
        return false;
      });
    },
    finish() {
      for (const [dir, targets] of counts) {
        if ((removed.get(dir) ?? DIRECTORY.irrelevant) === DIRECTORY.irrelevant) counts.delete(dir);
        else targets.delete(UNKNOWN);
      }
    },
  };
}

/**
 * Cuts the last component off. `rest` is that component; of a path of one component all but its first
 * character, as git does it (its string ends where the component began): harmless there, and the same here.
 */
function cut(path: string): { directory: string; rest: string } {
  const slash = path.lastIndexOf("/");
  return slash < 0
    ? { directory: "", rest: path.slice(1) }
    : { directory: path.slice(0, slash), rest: path.slice(slash + 1) };
}

/** True when the leader can't be caught up with, wherever the unknown ones went. */
function isCertain(targets: ReadonlyMap<string, number>): boolean {
  let first = 0;
  let second = 0;
  let unknown = 0;
  for (const [to, count] of targets) {
    if (to === UNKNOWN) unknown = count;
    else if (count >= first) {
      second = first;
      first = count;
    } else if (count >= second) second = count;
  }
  return first > second + unknown;
}
