/**
 * Leaves a merge in progress in somebody's clone, as `git merge` leaves one that has conflicts: HEAD where
 * it was, MERGE_HEAD, the index with its stages, marked files. `git commit` finishes it and
 * `git merge --abort` takes it back.
 *
 *   look: right HEAD? nothing in progress? clean? nothing in the way?   ── no ──▶ told why, nothing touched
 *     ─▶ lock the index
 *     ─▶ store the merged objects (synced)
 *     ─▶ journal `agentq-merge` (synced)     what is being done, so that the next run can undo it
 *     ─▶ files, each by a rename             ── failure ──▶ undone at once
 *     ─▶ index (synced, by a rename)
 *     ─▶ ORIG_HEAD, AUTO_MERGE, MERGE_MSG, MERGE_MODE, and last MERGE_HEAD
 *     ─▶ remove the journal
 *
 * A crash before the index is in place is undone by the next run, one after it is finished: see
 * in-progress-journal.ts. Nothing is lost meanwhile, because all that is replaced is committed in HEAD.
 */
import { join } from "node:path";
import { AgentqError } from "../errors.ts";
import { randomBytes } from "../platform/hash.ts";
import { newEntry } from "./checkout-plan.ts";
import { UNKNOWN_STAT } from "./file-stat.ts";
import { applyChanges, type FileWriter, undoChanges } from "./in-progress-apply.ts";
import { dropJournal, makeWriters, recoverMerge, writeJournal } from "./in-progress-journal.ts";
import { findLosses, type MergePlan, planMerge, type UnmergedEntry } from "./in-progress-plan.ts";
import { type IndexFile, lockIndex, readIndex } from "./index-file.ts";
import type { IndexEntry } from "./index-format.ts";
import { writeMergeState } from "./merge-state.ts";
import { refuseMissing } from "./missing-blobs.ts";
import { operationInProgress } from "./operation.ts";
import { pacer } from "./pacer.ts";
import { unsafeName, unsafePathError } from "./path-safety.ts";
import { quotePath } from "./path-quote.ts";
import type { GitConfig } from "./config.ts";
import type { Repository } from "./repository.ts";
import { withPresent } from "./sparse-index.ts";
import { sparseMatcher } from "./sparse.ts";
import { fileComparison, uncommittedChanges } from "./status.ts";
import { isGitlinkMode, isSymlinkMode } from "./tree.ts";
import { storeTree } from "./tree-store.ts";
import { type ExpandedTree, expandTree, type TreeLeaf } from "./tree-leaves.ts";
import type { ObjectReader, Oid } from "./types.ts";
import { conversionFor } from "./eol.ts";
import { openWorkTree } from "./work-tree.ts";

/** The part of a merge's result that is needed here; paths are byte strings. */
export interface UnfinishedMerge {
  readonly ours: Oid;
  readonly theirs: Oid;
  readonly tree: Oid;
  readonly stages: readonly UnmergedEntry[];
  /** Whether it has conflicts can't always be told from the stages; they decide unless it is given. */
  readonly clean?: boolean;
}

export interface LeaveOptions {
  /** Holds what the merge made; the clone itself unless given. */
  objects?: ObjectReader;
  /** The proposed commit message, without its list of conflicts. */
  message: string;
}

/** Why a merge was not left in progress. A code of errors.ts when an error was the reason. */
export type NotLeft =
  | "no work tree"
  | "HEAD moved"
  | "operation in progress"
  | "uncommitted changes"
  | "untracked files"
  | "content filters"
  | AgentqError["code"];

export type LeaveOutcome =
  | {
    readonly left: true;
    /** Unmerged paths (byte strings), in order. */
    readonly conflicts: readonly string[];
    /** Written paths whose smudge filter was not run. */
    readonly unfiltered: readonly string[];
  }
  | {
    readonly left: false;
    readonly reason: NotLeft;
    /** A sentence for people, paths escaped. */
    readonly message: string;
    readonly paths: readonly string[];
  };

const SHOWN = 20;

/**
 * Leaves `merge` in progress in the repository's work tree, or says why it doesn't. All or nothing.
 * `merge.ours` is what HEAD must be. Nothing uncommitted and nothing untracked is ever overwritten, not
 * even what git ignores.
 * @throws `object-missing` (nothing was changed)
 */
export async function leaveMergeInProgress(
  repository: Repository,
  merge: UnfinishedMerge,
  options: LeaveOptions,
): Promise<LeaveOutcome> {
  try {
    recoverMerge(repository);
    return await leave(repository, merge, options);
  } catch (error) {
    // Whoever can fetch what is missing does so, and asks again.
    if (!(error instanceof AgentqError) || error.code === "object-missing") throw error;
    return refused(error.code, error.message, []);
  }
}

function refused(reason: NotLeft, message: string, paths: readonly string[]): LeaveOutcome {
  return { left: false, reason, message, paths };
}

function naming(paths: readonly string[]): string {
  const shown = paths.slice(0, 3).map(quotePath).join(", ");
  return paths.length > 3 ? `${shown} and ${paths.length - 3} more` : shown;
}

async function leave(
  repository: Repository,
  merge: UnfinishedMerge,
  options: LeaveOptions,
): Promise<LeaveOutcome> {
  const { workTree, gitDir, config } = repository;
  if (workTree === null) {
    return refused("no work tree", "The repository is bare: it has no files to merge in.", []);
  }
  const lock = lockIndex(join(gitDir, "index"), repository);
  try {
    const head = repository.head().oid;
    if (head !== merge.ours) {
      const now = head ?? "an unborn branch";
      return refused("HEAD moved", `HEAD is ${now} by now, not ${merge.ours}.`, []);
    }
    const running = operationInProgress(repository);
    if (running !== null) {
      const message = `A ${running.operation} is in progress (${running.abort} ends it).`;
      return refused("operation in progress", message, []);
    }
    const dirty = uncommittedChanges(repository, { limit: SHOWN }).map(({ path }) => path);
    if (dirty.length > 0) {
      return refused(
        "uncommitted changes",
        `There are uncommitted changes: ${naming(dirty)}.`,
        dirty,
      );
    }

    const source = options.objects ?? repository.objects;
    const index = withPresent(
      readIndex(join(gitDir, "index"), repository.objects),
      config.getBoolean("core.sparseCheckout") ? openWorkTree(workTree) : null,
    );
    const merged = expandMerged(source, merge.tree, index);
    const plan = planMerge(index.entries, merged.leaves, merge.stages, sparseMatcher(repository));
    const context = fileComparison(repository, workTree, index);
    const losses = findLosses(context, plan.changes);
    if (losses.length > 0) {
      const paths = losses.map(({ path }) => path);
      return losses[0]!.untracked
        ? refused("untracked files", `Untracked files are in the way: ${naming(paths)}.`, paths)
        : refused(
          "uncommitted changes",
          `There are changes git does not look at: ${naming(paths)}.`,
          paths,
        );
    }

    refuseMissing(repository, plan.changes.flatMap(({ after }) => after ?? []), source);
    const conflicts = [...new Set(merge.stages.map(({ path }) => path))].sort();
    storeTree(
      repository.objects,
      source,
      merge.tree,
      merge.stages.map(({ oid, mode }) => ({ oid, mode })),
    );
    const journal = {
      v: 1 as const,
      nonce: randomBytes(8).toString("hex"),
      ours: merge.ours,
      theirs: merge.theirs,
      tree: merge.tree,
      message: options.message,
      conflicts,
      ...(merge.clean !== undefined && { clean: merge.clean }),
    };
    writeJournal(gitDir, journal);
    const writers = makeWriters(repository, workTree, journal.nonce, index.entries, merged.leaves);
    const filtered = unfiltered(writers.after, plan).filter((path) =>
      isSmudged(
        config,
        conversionFor(writers.after.attributes.of(path), writers.after.settings.eol),
      )
    );
    if (filtered.length > 0) {
      dropJournal(gitDir);
      const message = `${
        naming(filtered)
      } would need a content filter of this clone, and none is run.`;
      return refused("content filters", message, filtered);
    }
    try {
      const stats = await applyChanges(writers.after, plan.changes, pacer());
      const entries = mergedEntries(index, merged.leaves, merge.stages, plan, stats);
      const cacheTree = merge.stages.length === 0 ? merged.cacheTree : null;
      lock.commit({ entries, cacheTree }, { sync: true });
    } catch (error) {
      undoChanges(writers.before, writers.after, plan.changes);
      dropJournal(gitDir);
      throw error;
    }
    writeMergeState(gitDir, config, journal);
    dropJournal(gitDir);
    return { left: true, conflicts, unfiltered: unfiltered(writers.after, plan) };
  } finally {
    lock.release();
  }
}

/** Expands the merged tree; names that must not be written are refused. */
function expandMerged(objects: ObjectReader, tree: Oid, index: IndexFile): ExpandedTree {
  return expandTree(objects, tree, {
    known: index,
    check(path, name, mode) {
      const reason = unsafeName(name, mode);
      if (reason !== null) throw unsafePathError(path, reason);
    },
  });
}

/** The new index: stages for what is unmerged, the old entries for what didn't change. */
function mergedEntries(
  index: IndexFile,
  merged: readonly TreeLeaf[],
  stages: readonly UnmergedEntry[],
  plan: MergePlan,
  stats: ReadonlyMap<string, (IndexEntry)["stat"]>,
): IndexEntry[] {
  const unmerged = new Set(stages.map(({ path }) => path));
  const old = new Map(index.entries.map((entry) => [entry.path, entry]));
  const entries: IndexEntry[] = stages.map((stage) => ({
    ...newEntry(stage, UNKNOWN_STAT),
    stage: stage.stage,
  }));
  for (const leaf of merged) {
    if (unmerged.has(leaf.path)) continue;
    const stat = stats.get(leaf.path);
    const before = old.get(leaf.path);
    if (stat === undefined && before !== undefined && !plan.outside.has(leaf.path)) {
      entries.push(before);
    } else {
      entries.push({
        ...newEntry(leaf, stat ?? UNKNOWN_STAT),
        skipWorktree: plan.outside.has(leaf.path),
      });
    }
  }
  return entries;
}

/** What git would pass through a program, and `git add` through its counterpart: as it is, it would be damaged there. */
function isSmudged(config: GitConfig, { filter }: { readonly filter: string | null }): boolean {
  return filter !== null &&
    ["smudge", "process"].some((word) => !!config.get(`filter.${filter}.${word}`));
}

function unfiltered(writer: FileWriter, plan: MergePlan): string[] {
  return plan.changes.filter(({ path, after }) =>
    after !== null && !isGitlinkMode(after.mode) && !isSymlinkMode(after.mode) &&
    conversionFor(writer.attributes.of(path), writer.settings.eol).filter !== null
  ).map(({ path }) => path);
}
