/** What a checkout has to do: the new tree held against the old index, and the index against the files. */
import { compareFile, type FileComparison } from "./file-compare.ts";
import { type StatData, UNKNOWN_STAT } from "./file-stat.ts";
import type { IndexEntry } from "./index-format.ts";
import { unsafePath } from "./path-safety.ts";
import type { SparseMatcher } from "./sparse.ts";
import { isGitlinkMode } from "./tree.ts";
import type { TreeLeaf } from "./tree-leaves.ts";

export interface CheckoutPlan {
  readonly entries: (IndexEntry | null)[];
  /** Places in `entries` (null there) and in the leaves that have to be written. */
  readonly writes: number[];
  /** Paths to remove unless a directory stands there. */
  readonly removals: string[];
  /** Submodules. */
  readonly gitlinks: Set<string>;
  /** Outside the sparse checkout: not to be there. */
  readonly outside: Set<string>;
  /** How many entries are taken over, their files being right already. */
  kept: number;
}

/**
 * @param old the index's entries, at most one of stage 0 for a path
 * @param leaves the new tree
 * @param convertedAlike false for paths whose bytes on disk may be another form of the same blob, because
 *   attributes or settings changed: their stat proves nothing
 */
export async function planCheckout(
  context: FileComparison,
  old: readonly IndexEntry[],
  leaves: readonly TreeLeaf[],
  belongs: SparseMatcher | null,
  convertedAlike: (path: string) => boolean,
  pause: () => Promise<void> | undefined,
): Promise<CheckoutPlan> {
  const plan: CheckoutPlan = {
    entries: [],
    writes: [],
    removals: [],
    gitlinks: new Set(),
    outside: new Set(),
    kept: 0,
  };
  const unproven = { ...context, timestamp: null };
  let j = 0;
  for (const leaf of leaves) {
    // Whatever the index names and the tree doesn't is to go, except where that can't be safe.
    for (; j < old.length && old[j]!.path < leaf.path; j++) {
      drop(plan, old[j]!);
    }
    let before: IndexEntry | null = null;
    for (; old[j]?.path === leaf.path; j++) {
      if (old[j]!.stage === 0) before = old[j]!;
    }
    if (isGitlinkMode(leaf.mode)) {
      plan.gitlinks.add(leaf.path);
      plan.entries.push(newEntry(leaf, UNKNOWN_STAT));
    } else if (belongs !== null && !belongs(leaf.path)) {
      plan.outside.add(leaf.path);
      plan.removals.push(leaf.path);
      plan.entries.push({ ...newEntry(leaf, UNKNOWN_STAT), skipWorktree: true });
    } else {
      const kept = keptEntry(convertedAlike(leaf.path) ? context : unproven, leaf, before);
      if (kept === null) plan.writes.push(plan.entries.length);
      else plan.kept++;
      plan.entries.push(kept);
      const waiting = pause();
      if (waiting) await waiting;
    }
  }
  for (; j < old.length; j++) drop(plan, old[j]!);
  return plan;
}

function drop(plan: CheckoutPlan, entry: IndexEntry): void {
  if (isGitlinkMode(entry.mode) || unsafePath(entry.path, entry.mode) !== null) return;
  if (plan.removals.at(-1) !== entry.path) plan.removals.push(entry.path);
}

/** The entry to keep when the file is already as the leaf says, else null. */
function keptEntry(
  context: FileComparison,
  leaf: TreeLeaf,
  before: IndexEntry | null,
): IndexEntry | null {
  if (before === null || before.oid !== leaf.oid || before.mode !== leaf.mode) return null;
  if (before.skipWorktree || before.intentToAdd) return null;
  const compared = compareFile(context, before);
  if (compared.state !== "same") return null;
  if (compared.stat === null && !before.assumeValid) return before;
  return { ...before, assumeValid: false, stat: compared.stat ?? before.stat };
}

export function newEntry(leaf: TreeLeaf, stat: StatData): IndexEntry {
  return {
    path: leaf.path,
    stage: 0,
    mode: leaf.mode,
    oid: leaf.oid,
    stat,
    assumeValid: false,
    skipWorktree: false,
    intentToAdd: false,
  };
}
