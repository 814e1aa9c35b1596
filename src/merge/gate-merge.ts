/** What a merge commit lost of its parents' work, found by merging them again and comparing. */
import { parseCommitLinks } from "../git/commit.ts";
import type { CommitReader } from "../git/history.ts";
import type { Oid } from "../git/types.ts";
import { isRegular, NOTHING, type Version } from "./entry.ts";
import { findLoss, type Loss, type PathContext } from "./gate-path.ts";
import type { CommitGraph } from "./graph.ts";
import { mergeCommits } from "./merge-commits.ts";
import { type Overlay, overlay } from "./overlay.ts";
import { RENAME_SCORE, similarity } from "./similarity.ts";
import { wordCounts } from "./survival.ts";
import { treePaths } from "./tree-paths.ts";
import type { MergeOptions, MergeResult } from "./types.ts";

/**
 * Compares `tree`, said to be the merge of `parents`, with the merge of its parents. Parents beyond the
 * second are merged one after the other, as an octopus merge does.
 */
export function inspectMerge(
  db: CommitReader,
  graph: CommitGraph,
  parents: readonly Oid[],
  tree: Oid,
  options: MergeOptions = {},
): Loss[] {
  const scratch = overlay(db);
  let ours = parents[0]!;
  let merged: MergeResult | undefined;
  for (const theirs of parents.slice(1)) {
    if (merged) ours = graph.addVirtual(merged.tree, [merged.ours, merged.theirs]);
    merged = mergeCommits(scratch, ours, theirs, {
      ...options,
      graph,
      allowUnrelated: true,
      labels: { ours: "parent1", theirs: "parent2" },
    });
  }
  return merged ? compareMerge(scratch, graph, merged, tree, options) : [];
}

/** Compares `tree` with a merge already made in `db`. */
export function compareMerge(
  db: Overlay,
  graph: CommitGraph,
  merged: MergeResult,
  tree: Oid,
  options: MergeOptions = {},
): Loss[] {
  if (merged.clean && merged.tree === tree) return [];
  const lookup = treePaths(db);
  const changes = lookup.differences(merged.tree, tree);
  const conflicted = new Set(merged.conflicts.map(({ path }) => path));
  const paths = new Set([...changes.map(({ path }) => path), ...conflicted]);
  const trees = {
    base: merged.baseTree,
    ours: graph.tree(merged.ours),
    theirs: graph.tree(merged.theirs),
  };
  const at = (where: Oid, path: string): Version => {
    const version = lookup.at(where, path);
    return version.mode === 0o40000 ? NOTHING : version;
  };

  const added = changes.filter(({ left, right }) => left.mode === 0 && right.mode !== 0);
  const compare = similarity(db, () => undefined);
  const moved = new Map<Oid, boolean>();
  let words: Map<string, Map<string, number>> | undefined;
  const context: PathContext = {
    db,
    movedTo(version) {
      let found = moved.get(version.oid);
      if (found === undefined) {
        const source = { path: "", mode: version.mode, oid: version.oid, used: false };
        found = added.some(({ right, path }) =>
          right.oid === version.oid ||
          (isRegular(right.mode) && isRegular(version.mode) &&
            compare.score(
                source,
                { path, mode: right.mode, oid: right.oid, used: false },
                RENAME_SCORE,
              ) >=
              RENAME_SCORE)
        );
        moved.set(version.oid, found);
      }
      return found;
    },
    elsewhere(path) {
      words ??= new Map(
        changes.map((change) => [change.path, addedWords(db, change.left, change.right)]),
      );
      const total = new Map<string, number>();
      for (const [where, counts] of words) {
        if (where === path) continue;
        for (const [word, n] of counts) total.set(word, (total.get(word) ?? 0) + n);
      }
      return total;
    },
  };

  const losses: Loss[] = [];
  for (const path of [...paths].sort()) {
    const size = options.attributes?.(path).get("conflict-marker-size");
    const loss = findLoss(context, {
      path,
      base: at(trees.base, path),
      ours: at(trees.ours, path),
      theirs: at(trees.theirs, path),
      expected: at(merged.tree, path),
      result: at(tree, path),
      conflicted: conflicted.has(path),
      markerSize: typeof size === "string" && Number.parseInt(size, 10) > 0
        ? Number.parseInt(size, 10)
        : 7,
    });
    if (loss) losses.push(loss);
  }
  return losses;
}

function addedWords(db: CommitReader, left: Version, right: Version): Map<string, number> {
  if (!isRegular(right.mode)) return new Map();
  const counts = wordCounts(db.read(right.oid).data);
  if (isRegular(left.mode)) {
    for (const [word, n] of wordCounts(db.read(left.oid).data)) {
      const more = (counts.get(word) ?? 0) - n;
      if (more > 0) counts.set(word, more);
      else counts.delete(word);
    }
  }
  return counts;
}

/** Tree of a commit. */
export function commitTree(db: CommitReader, oid: Oid): Oid {
  return parseCommitLinks(db.read(oid).data, oid).tree;
}
