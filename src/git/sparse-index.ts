/**
 * A sparse index has one entry for a whole directory outside the sparse checkout: its tree. Expanded, the
 * directory has an entry for each file, all of them skip-worktree, which is what git makes of it too.
 */
import { AgentqError, isAgentqError } from "../errors.ts";
import type { CacheTree } from "./cache-tree.ts";
import { newEntry } from "./checkout-plan.ts";
import { UNKNOWN_STAT } from "./file-stat.ts";
import type { IndexContent, IndexEntry } from "./index-format.ts";
import { quotePath } from "./path-quote.ts";
import { unsafeName } from "./path-safety.ts";
import { MODE } from "./tree.ts";
import { type ExpandedTree, expandTree } from "./tree-leaves.ts";
import type { ObjectReader } from "./types.ts";
import { parentOf, type WorkTree } from "./work-tree.ts";

/** Whether an entry stands for a whole directory. Its path ends in `/`. */
export function isDirectoryEntry({ mode }: Pick<IndexEntry, "mode">): boolean {
  return mode === MODE.tree;
}

/**
 * The same index with entries for files only, or with those directories expanded that `which` names.
 * Costs nothing where no directory is an entry.
 * @throws `object-missing` (a partial clone may lack the tree), `index-corrupt`, `repository-corrupt`
 */
export function expandIndex<T extends IndexContent>(
  objects: ObjectReader,
  index: T,
  which: (entry: IndexEntry) => boolean = () => true,
): T {
  if (!index.sparse) return index;
  const entries: IndexEntry[] = [];
  const trees = new Map<string, CacheTree>();
  /** How many entries more there are below a directory. */
  const growth = new Map<string, number>();
  let sparse = false;
  for (const entry of index.entries) {
    const isDirectory = isDirectoryEntry(entry);
    if (!isDirectory || !which(entry)) {
      sparse ||= isDirectory;
      entries.push(entry);
      continue;
    }
    const directory = entry.path.slice(0, -1);
    const { leaves, cacheTree } = expandEntry(objects, entry);
    for (const leaf of leaves) {
      const path = entry.path + leaf.path;
      entries.push({ ...newEntry({ ...leaf, path }, UNKNOWN_STAT), skipWorktree: true });
    }
    trees.set(directory, cacheTree);
    for (let up = directory; up !== ""; up = parentOf(up)) {
      const above = parentOf(up);
      growth.set(above, (growth.get(above) ?? 0) + leaves.length - 1);
    }
  }
  const grown = (node: CacheTree, path: string): CacheTree => {
    const expanded = trees.get(path);
    if (expanded !== undefined) return { ...expanded, name: node.name };
    const more = growth.get(path);
    if (more === undefined) return node;
    return {
      ...node,
      entryCount: node.entryCount < 0 ? -1 : node.entryCount + more,
      children: node.children.map((child) =>
        grown(child, path === "" ? child.name : `${path}/${child.name}`)
      ),
    };
  };
  const cacheTree = index.cacheTree && grown(index.cacheTree, "");
  return { ...index, entries, cacheTree, sparse };
}

/**
 * The same index, where a file that is there counts as part of the sparse checkout, as it does for git.
 * @param files null where there is no sparse checkout: then the flag is somebody's own, and stays
 */
export function withPresent<T extends IndexContent>(index: T, files: WorkTree | null): T {
  if (files === null) return index;
  const entries = index.entries.map((entry) =>
    entry.skipWorktree && files.lstat(entry.path) !== null
      ? { ...entry, skipWorktree: false }
      : entry
  );
  return { ...index, entries };
}

function expandEntry(objects: ObjectReader, { path, oid }: IndexEntry): ExpandedTree {
  try {
    return expandTree(objects, oid, {
      check(below, name, mode) {
        const reason = unsafeName(name, mode);
        if (reason === null) return;
        const shown = quotePath(path + below);
        throw new AgentqError("index-corrupt", `The index holds ${shown}: ${reason}.`, {
          details: { path: shown },
        });
      },
    });
  } catch (error) {
    if (!isAgentqError(error, "object-missing")) throw error;
    throw new AgentqError(
      "object-missing",
      `The index holds ${
        quotePath(path)
      } as the tree ${oid}, of which a part is not here: ${error.message}`,
      {
        details: error.details,
        hint: `In a partial clone, git ls-tree -r ${oid} fetches it; in any other, run git fsck.`,
        cause: error,
      },
    );
  }
}
