/** The note that a merge is being left in progress, and what to do when it is found: the writer was killed. */
import fs from "node:fs";
import { join } from "node:path";
import { exactly, isOid, isText, listOf, optional, shape, textLike } from "../platform/shapes.ts";
import { type FileWriter, undoChanges } from "./in-progress-apply.ts";
import { planMerge } from "./in-progress-plan.ts";
import { lockIndex, readIndex } from "./index-file.ts";
import { writeMergeState, writeSynced } from "./merge-state.ts";
import { operationInProgress } from "./operation.ts";
import type { Repository } from "./repository.ts";
import { withPresent } from "./sparse-index.ts";
import { sparseMatcher } from "./sparse.ts";
import { headTree } from "./status.ts";
import { expandTree, type TreeLeaf } from "./tree-leaves.ts";
import type { Oid } from "./types.ts";
import { openWorkTree } from "./work-tree.ts";
import { leafFiles, repositoryAttributes, workTreeSettings } from "./work-tree-settings.ts";

export interface Journal {
  readonly v: 1;
  readonly nonce: string;
  readonly ours: Oid;
  readonly theirs: Oid;
  readonly tree: Oid;
  readonly message: string;
  readonly conflicts: string[];
  readonly clean?: boolean;
}

const isJournal = shape({
  v: exactly(1),
  nonce: textLike(/^[0-9a-f]{16}$/),
  ours: isOid,
  theirs: isOid,
  tree: isOid,
  message: isText,
  conflicts: listOf(isText),
  clean: optional((value) => typeof value === "boolean"),
});

const JOURNAL = "agentq-merge";
/** Writes the journal; it is on disk when this returns. */
export function writeJournal(gitDir: string, journal: Journal): void {
  writeSynced(join(gitDir, JOURNAL), JSON.stringify(journal));
}

/** Writers of the files as HEAD's tree has them, and as the merged tree has them. */
export function makeWriters(
  repository: Repository,
  workTree: string,
  nonce: string,
  before: readonly TreeLeaf[],
  after: readonly TreeLeaf[],
): { before: FileWriter; after: FileWriter } {
  const { objects } = repository;
  const common = {
    files: openWorkTree(workTree),
    objects,
    settings: workTreeSettings(repository.config),
    nonce,
  };
  const attributes = (leaves: readonly TreeLeaf[]) =>
    repositoryAttributes(repository, leafFiles(objects, leaves));
  return {
    before: { ...common, attributes: attributes(before) },
    after: { ...common, attributes: attributes(after) },
  };
}

export function dropJournal(gitDir: string): void {
  fs.rmSync(join(gitDir, JOURNAL), { force: true });
}

function readJournal(gitDir: string): Journal | null {
  let text: string;
  try {
    text = fs.readFileSync(join(gitDir, JOURNAL), "utf8");
  } catch {
    return null;
  }
  try {
    const journal: unknown = JSON.parse(text);
    return isJournal(journal) ? journal as Journal : null;
  } catch {
    return null;
  }
}

/**
 * What became of a merge that a killed process was leaving here: `undone` (the files are HEAD's again)
 * or `finished`. `mixed` when somebody has changed files since: those are left, and named in `paths`.
 * To be called before anything judges whether the work tree is clean. Costs one failed open usually.
 * @throws `index-locked`, `io-error`, `object-missing`
 */
export function recoverMerge(
  repository: Repository,
): { outcome: "nothing" | "undone" | "finished" | "mixed"; paths: readonly string[] } {
  const { gitDir, workTree, objects } = repository;
  const journal = readJournal(gitDir);
  const result = (outcome: "nothing" | "undone" | "finished" | "mixed", paths: string[] = []) => {
    dropJournal(gitDir);
    return { outcome, paths };
  };
  if (journal === null) return { outcome: "nothing", paths: [] };
  if (workTree === null || repository.head().oid !== journal.ours || !objects.has(journal.tree)) {
    return result("nothing");
  }
  const lock = lockIndex(join(gitDir, "index"), repository);
  try {
    if (operationInProgress(repository) !== null) return result("finished");
    const index = readIndex(join(gitDir, "index"), objects);
    const head = expandTree(objects, headTree(repository));
    const merged = expandTree(objects, journal.tree);
    if (!sameLeaves(index.entries, head.leaves)) {
      const unmerged = index.entries.some(({ stage }) => stage > 0);
      if (!unmerged && !sameLeaves(index.entries, merged.leaves)) return result("mixed");
      writeMergeState(gitDir, repository.config, journal);
      return result("finished");
    }
    // Which files there were outside a sparse checkout isn't known any more: those that are there, but for
    // conflicts, which are written wherever they are.
    const conflicts = new Set(journal.conflicts);
    const sparse = repository.config.getBoolean("core.sparseCheckout");
    const present = withPresent(index, sparse ? openWorkTree(workTree) : null);
    const entries = present.entries.map((entry, i) =>
      conflicts.has(entry.path) ? index.entries[i]! : entry
    );
    const stages = journal.conflicts.map((path) => ({ path }));
    const plan = planMerge(entries, merged.leaves, stages, sparseMatcher(repository));
    const writers = makeWriters(repository, workTree, journal.nonce, head.leaves, merged.leaves);
    const paths = undoChanges(writers.before, writers.after, plan.changes);
    return result(paths.length === 0 ? "undone" : "mixed", paths);
  } finally {
    lock.release();
  }
}

function sameLeaves(a: readonly TreeLeaf[], b: readonly TreeLeaf[]): boolean {
  return a.length === b.length && a.every((leaf, i) => {
    const other = b[i]!;
    return leaf.path === other.path && leaf.oid === other.oid && leaf.mode === other.mode;
  });
}
