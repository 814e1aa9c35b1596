/**
 * Is a work tree clean: does the index hold HEAD's tree, and do the files hold what the index says?
 *
 *   HEAD's tree ──staged?──▶ index ──modified?──▶ files        untracked files don't count
 *
 * Costs a stat a file; a file is read only when its stat doesn't prove it unchanged. The first
 * comparison costs nothing where the index's TREE extension names HEAD's tree. A sparse index is expanded
 * where it differs from HEAD, or has files where none should be, and nowhere else.
 */
import { join } from "node:path";
import { AgentqError } from "../errors.ts";
import type { AttributeLookup } from "./attributes.ts";
import { parseCommit } from "./commit.ts";
import { compareFile, type FileComparison } from "./file-compare.ts";
import { type IndexFile, readSparseIndex } from "./index-file.ts";
import type { IndexEntry } from "./index-format.ts";
import type { Repository } from "./repository.ts";
import { expandIndex, isDirectoryEntry } from "./sparse-index.ts";
import { expandTree } from "./tree-leaves.ts";
import { EMPTY_TREE, type Oid } from "./types.ts";
import { openWorkTree } from "./work-tree.ts";
import {
  eitherFiles,
  leafFiles,
  repositoryAttributes,
  workTreeFiles,
  workTreeSettings,
} from "./work-tree-settings.ts";

/** `staged`: index against HEAD; the others: file against index. */
export type ChangeKind =
  | "staged"
  | "unmerged"
  | "deleted"
  | "modified"
  | "type changed"
  /** A filter program (`filter=` in .gitattributes), not run here, would have to say. */
  | "filtered";

export interface Change {
  /** Byte string. */
  readonly path: string;
  readonly kind: ChangeKind;
}

export interface StatusOptions {
  /** Stop after this many changes. All of them unless given. */
  limit?: number;
}

/**
 * The uncommitted changes of a repository's work tree, in path order within each comparison.
 * Submodules and what lies outside a sparse checkout are not looked at.
 * @throws `index-corrupt`, `index-unsupported`, `object-missing`, `io-error`
 */
export function uncommittedChanges(repository: Repository, options: StatusOptions = {}): Change[] {
  const { workTree } = repository;
  if (workTree === null) {
    throw new AgentqError("not-a-repository", `${repository.gitDir} has no work tree.`);
  }
  const limit = options.limit ?? Infinity;
  const index = readSparseIndex(join(repository.gitDir, "index"));
  const changes: Change[] = [];
  for (const change of stagedChanges(repository, index)) {
    if (changes.length >= limit) return changes;
    changes.push(change);
  }
  for (const change of unstagedChanges(repository, workTree, index)) {
    if (changes.length >= limit) return changes;
    changes.push(change);
  }
  return changes;
}

/** The tree of HEAD; the empty one on an unborn branch. */
export function headTree(repository: Repository): Oid {
  const { oid } = repository.head();
  return oid === null ? EMPTY_TREE : parseCommit(repository.objects.read(oid).data, oid).tree;
}

function* stagedChanges(repository: Repository, index: IndexFile): Generator<Change> {
  const tree = headTree(repository);
  const { objects } = repository;
  const { cacheTree } = index;
  if (cacheTree?.oid === tree && cacheTree.entryCount === index.entries.length) return;
  const whole = new Map(
    index.sparse ? index.entries.filter(isDirectoryEntry).map(({ path, oid }) => [path, oid]) : [],
  );
  const { leaves } = tree === EMPTY_TREE ? { leaves: [] } : expandTree(objects, tree, {
    known: index,
    keep: (path, oid) => whole.get(path) === oid,
  });
  const alike = new Set(
    index.sparse ? leaves.filter(isDirectoryEntry).map(({ path }) => path) : [],
  );
  const { entries } = expandIndex(objects, index, ({ path }) => !alike.has(path));
  let i = 0;
  let j = 0;
  while (i < entries.length || j < leaves.length) {
    const entry = entries[i];
    const leaf = leaves[j];
    if (entry === undefined || (leaf !== undefined && leaf.path < entry.path)) {
      yield { path: leaf!.path, kind: "staged" };
      j++;
    } else {
      const same = leaf?.path === entry.path;
      if (entry.stage > 0) {
        yield { path: entry.path, kind: "unmerged" };
        while (entries[i + 1]?.path === entry.path) i++;
      } else if (!same || leaf.mode !== entry.mode || leaf.oid !== entry.oid) {
        yield { path: entry.path, kind: "staged" };
      }
      i++;
      if (same) j++;
    }
  }
}

function* unstagedChanges(
  repository: Repository,
  workTree: string,
  collapsed: IndexFile,
): Generator<Change> {
  const sparse = repository.config.getBoolean("core.sparseCheckout") ?? false;
  const files = openWorkTree(workTree);
  const index = expandIndex(
    repository.objects,
    collapsed,
    ({ path }) => sparse && files.lstat(path.slice(0, -1)) !== null,
  );
  const context = fileComparison(repository, workTree, index);
  for (const entry of index.entries) {
    if (isDirectoryEntry(entry) || entry.stage > 0 || entry.intentToAdd || entry.assumeValid) {
      continue;
    }
    // git takes a file that is there for part of the sparse checkout, whatever the index says.
    if (entry.skipWorktree && !(sparse && context.files.lstat(entry.path) !== null)) continue;
    const { state } = compareFile(context, entry);
    if (state !== "same") yield { path: entry.path, kind: state };
  }
}

/** What it takes to compare files with index entries: attributes come from the work tree, then the index. */
export function fileComparison(
  repository: Repository,
  workTree: string,
  index: { readonly entries: readonly IndexEntry[]; readonly timestamp: IndexFile["timestamp"] },
): FileComparison {
  const { objects } = repository;
  // Most comparisons never read a file, and then need no attributes either.
  let lookup: AttributeLookup | undefined;
  const attributes = () =>
    lookup ??= repositoryAttributes(
      repository,
      eitherFiles(workTreeFiles(workTree), leafFiles(objects, index.entries)),
    );
  return {
    files: openWorkTree(workTree),
    objects,
    settings: workTreeSettings(repository.config),
    attributes: { of: (path) => attributes().of(path) },
    timestamp: index.timestamp,
  };
}
