/**
 * Merging two commits, by their history.
 *
 * With one best common ancestor that is the base. With several, these are merged with each other first,
 * oldest first, conflicts and markers included; the outcome is the base. Without any, the merge is refused.
 */
import { AgentqError } from "../errors.ts";
import { EMPTY_TREE, type ObjectDatabase, type Oid } from "../git/types.ts";
import { type CommitGraph, commitGraph, mergeBases } from "./graph.ts";
import { createContext, mergeThree, type TreeMerge } from "./merge-trees.ts";
import { byteString, type MergeContext } from "./state.ts";
import { atOnce, type Steps } from "./steps.ts";
import type { MergeOptions, MergeResult } from "./types.ts";

/**
 * The merge of `theirs` into `ours`, as `git merge-tree --write-tree ours theirs` gives it. New blobs and
 * trees go to `db`: pass an overlay to keep them in memory.
 * @throws `unrelated-histories`; `object-missing` for what the caller may fetch before it tries again
 */
export function mergeCommits(
  db: ObjectDatabase,
  ours: Oid,
  theirs: Oid,
  options: MergeOptions = {},
): MergeResult {
  return atOnce(mergeSteps(db, ours, theirs, options));
}

/** The same, left off now and then. Who goes on with it gets what `mergeCommits` throws. */
export function* mergeSteps(
  db: ObjectDatabase,
  ours: Oid,
  theirs: Oid,
  options: MergeOptions = {},
): Steps<MergeResult> {
  const graph = options.graph ?? commitGraph(db, options.shallow);
  const bases = mergeBases(graph, ours, theirs);
  if (bases.length === 0 && !options.allowUnrelated) {
    throw new AgentqError(
      "unrelated-histories",
      `${ours} and ${theirs} have no commit in common.`,
      { details: { ours, theirs } },
    );
  }
  const labels = options.labels ?? { ours: "ours", theirs: "theirs" };
  const merged = yield* mergeRecursively(
    createContext(db, options),
    graph,
    0,
    [byteString(labels.ours), byteString(labels.theirs)],
    ours,
    theirs,
    bases,
  );
  return { ours, theirs, bases, ...merged };
}

function* mergeRecursively(
  context: MergeContext,
  graph: CommitGraph,
  depth: number,
  labels: readonly [ours: string, theirs: string],
  ours: Oid,
  theirs: Oid,
  bases: readonly Oid[],
): Steps<TreeMerge & { baseTree: Oid }> {
  const abbreviate = context.options.abbreviate ?? ((oid: Oid) => oid.slice(0, 7));
  let base: Oid | undefined;
  let baseLabel = "empty tree";
  for (const next of [...bases].reverse()) {
    if (base === undefined) {
      base = next;
      baseLabel = bases.length > 1 ? "merged common ancestors" : abbreviate(next);
      continue;
    }
    base = yield* mergeBase(context, graph, depth + 1, base, next);
  }
  const baseTree = base === undefined ? EMPTY_TREE : graph.tree(base);
  const merged = yield* mergeThree(
    context,
    depth,
    [baseLabel, labels[0], labels[1]],
    [baseTree, graph.tree(ours), graph.tree(theirs)],
  );
  return { ...merged, baseTree };
}

/**
 * The virtual commit of two merge bases. Made once for each pair and depth: with three branches that keep
 * merging each other, each level asks for the one below it twice.
 */
function* mergeBase(
  context: MergeContext,
  graph: CommitGraph,
  depth: number,
  one: Oid,
  two: Oid,
): Steps<Oid> {
  const key = `${depth} ${one} ${two}`;
  let merged = context.mergedBases.get(key);
  if (merged === undefined) {
    const { tree } = yield* mergeRecursively(
      context,
      graph,
      depth,
      ["Temporary merge branch 1", "Temporary merge branch 2"],
      one,
      two,
      mergeBases(graph, one, two),
    );
    merged = graph.addVirtual(tree, [one, two]);
    context.mergedBases.set(key, merged);
  }
  return merged;
}
