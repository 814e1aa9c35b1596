/** What a merge commit lost of its parents' work, found by merging them again and comparing. */
import { parseCommitLinks } from "../../git/commit.ts";
import type { CommitReader } from "../../git/history.ts";
import { shownPath } from "../../git/path-quote.ts";
import type { Oid } from "../../git/types.ts";
import { isRegular, NOTHING, type Version } from "../entry.ts";
import { renamedAside } from "./aside.ts";
import type { Loss, PathVersions } from "./loss.ts";
import { lossSteps } from "./path.ts";
import { linesElsewhere } from "./elsewhere.ts";
import { writtenLines } from "./written.ts";
import { moves, standApart } from "./moved.ts";
import { countOf, type Counts } from "./words.ts";
import type { CommitGraph } from "../graph.ts";
import { mergeSteps } from "../merge-commits.ts";
import { type Overlay, overlay } from "../overlay.ts";
import type { PairedVersions } from "../rename-state.ts";
import { pathText } from "../state.ts";
import type { Steps } from "../steps.ts";
import { type Difference, type TreePaths, treePaths } from "../tree-paths.ts";
import type { MergeOptions, MergeResult } from "../types.ts";

/**
 * Compares `tree`, said to be the merge of `parents`, with the merge of its parents. Parents beyond the
 * second are merged one after the other, as an octopus merge does. What moved to another path has to stand
 * there in `tip` too, the tree that later commits made of it.
 */
export function* inspectMerge(
  db: CommitReader,
  graph: CommitGraph,
  parents: readonly Oid[],
  tree: Oid,
  options: MergeOptions = {},
  tip: Oid = tree,
): Steps<JudgedLoss[]> {
  const scratch = overlay(db);
  let ours = parents[0]!;
  let merged: MergeResult | undefined;
  const losses = new Map<string, JudgedLoss>();
  const settled = new Set<string>();
  for (const theirs of parents.slice(1)) {
    if (merged) ours = graph.addVirtual(merged.tree, [merged.ours, merged.theirs]);
    const make = (attributes = options.attributes): Steps<MergeResult> =>
      mergeSteps(scratch, ours, theirs, {
        ...options,
        ...attributes ? { attributes } : {},
        graph,
        allowUnrelated: true,
        labels: { ours: "parent1", theirs: "parent2" },
      });
    merged = yield* make();
    if (merged.clean || theirs === parents[parents.length - 1]) continue;
    // Parents before the last clash. What is in conflict is judged by itself; the next one meets both sides' lines.
    const paths = new Set(merged.conflicts.map(({ path }) => path));
    for (const loss of yield* compareMerge(scratch, graph, merged, tree, options, tip, paths)) {
      if (!paths.has(loss.path) || loss.kind !== "text" && loss.kind !== "whole") continue;
      const again = function* (later: Oid): Steps<Loss | null> {
        return ofNoSide(yield* loss.again(later));
      };
      losses.set(loss.path, { ...ofNoSide(loss), again });
    }
    for (const path of paths) settled.add(path);
    merged = yield* make((path) =>
      new Map([
        ...options.attributes?.(path) ?? [],
        ...paths.has(path) ? [["merge", "union"] as const] : [],
      ])
    );
  }
  if (!merged) return [];
  for (const loss of yield* compareMerge(scratch, graph, merged, tree, options, tip, settled)) {
    if (!losses.has(loss.path)) losses.set(loss.path, loss);
  }
  return [...losses.values()];
}

/** What came before the last parent of an octopus is no commit to take anything from. */
function ofNoSide<T extends Loss | null>(loss: T): T {
  return loss && { ...loss, parent: 0 };
}

/**
 * Compares `tree` with a merge already made in `db`; `tip` is the tree that later commits made of it. The paths
 * `partly` were in conflict in this or an earlier step of an octopus: more than these two sides made them.
 */
export function* compareMerge(
  db: Overlay,
  graph: CommitGraph,
  merged: MergeResult,
  tree: Oid,
  options: MergeOptions = {},
  tip: Oid = tree,
  partly: ReadonlySet<string> = new Set(),
): Steps<JudgedLoss[]> {
  if (merged.clean && merged.tree === tree) return [];
  const lookup = treePaths(db);
  const changes = lookup.differences(merged.tree, tree);
  const conflicted = new Set(merged.conflicts.map(({ path }) => path));
  const paths = new Set([...changes.map(({ path }) => path), ...conflicted]);
  const at = (where: Oid, path: string): Version => {
    const version = lookup.at(where, path);
    return version.mode === 0o40000 ? NOTHING : version;
  };
  /** What stands under one name. */
  const named = (path: string): PairedVersions => ({
    base: at(merged.baseTree, path),
    ours: at(graph.tree(merged.ours), path),
    theirs: at(graph.tree(merged.theirs), path),
  });
  const aside = yield* asideOf(db, lookup, merged, graph, [...paths], named, options);
  /** The three versions that were merged at a path: renames give it those of other paths. */
  const sources = (path: string): PairedVersions =>
    merged.paired.get(path) ?? aside.get(path) ?? named(path);
  const written = writtenLines(db, lookup, merged.baseTree, [
    graph.tree(merged.ours),
    graph.tree(merged.theirs),
  ]);
  const find = moves(db);
  const elsewhere = linesElsewhere(db, (path) => sources(path).base);
  const parents = (): Version[] =>
    changes.map(({ path }) => sources(path)).flatMap(({ base, ours, theirs }) => [
      base,
      ours,
      theirs,
    ]);

  const known = new Map<Oid, Difference[]>();
  const changesTo = (later: Oid): Difference[] => {
    let found = known.get(later);
    if (!found) known.set(later, found = lookup.differences(merged.tree, later));
    return found;
  };

  const losses: JudgedLoss[] = [];
  for (const path of [...paths].sort()) {
    const { twin, ...three } = sources(path);
    const expected = at(merged.tree, path);
    const size = Number.parseInt(
      String(options.attributes?.(path).get("conflict-marker-size")),
      10,
    );
    yield;
    const judge = function* (judged: Oid, all: readonly Difference[]): Steps<Loss | null> {
      let result = at(judged, path);
      let where = path;
      if (result.mode === 0) {
        // Of a file with two new names, one is enough.
        if (twin !== undefined && at(judged, twin).mode !== 0) return null;
        for (const version of [expected, three.theirs, three.ours]) {
          const found = find(version, all);
          if (!found) continue;
          result = found.right;
          where = found.path;
          break;
        }
      }
      let moved: Counts | undefined;
      const movedWords = (): Counts => {
        const sides = [three.ours, three.theirs];
        if (!conflicted.has(path)) sides.push(expected);
        const from = { paths: new Set([path, where]), base: three.base, sides, result };
        const here = elsewhere(from, all);
        if (all !== changes || tip === tree || here.size === 0) return here;
        const later = elsewhere(from, changesTo(tip));
        return new Map([...here].map(([word, n]) => [word, Math.min(n, countOf(later, word))]));
      };
      const context = { db, elsewhere: () => moved ??= movedWords(), parents, written };
      const found = yield* lossSteps(context, {
        path,
        ...three,
        expected,
        result,
        conflicted: conflicted.has(path) || partly.has(path),
        isPartial: partly.has(path),
        markerSize: size > 0 ? size : 7,
      });
      if (
        found && conflicted.has(path) &&
        standApart(db, find, { path, where, ...three, result }, all)
      ) {
        return null;
      }
      return found && where !== path
        ? {
          ...found,
          where,
          what: `is ${shownPath(pathText(where))} in the merge, which ${found.what}`,
        }
        : found;
    };
    const loss = yield* judge(tree, changes);
    if (!loss) continue;
    losses.push({
      ...loss,
      scene: {
        ...three,
        path,
        expected,
        conflicted: conflicted.has(path) || partly.has(path),
        side: loss.parent,
        db,
        merged,
        trees: [graph.tree(merged.ours), graph.tree(merged.theirs)],
      },
      again: (later) => judge(later, changesTo(later)),
    });
  }
  return losses;
}

/** The versions of files that one side added, as merging had it, and in truth renamed. */
function* asideOf(
  db: Overlay,
  lookup: TreePaths,
  { paired, baseTree, ours, theirs }: MergeResult,
  graph: CommitGraph,
  paths: readonly string[],
  named: (path: string) => PairedVersions,
  options: MergeOptions,
): Steps<Map<string, PairedVersions>> {
  const found = new Map<string, PairedVersions>();
  const trees = [graph.tree(ours), graph.tree(theirs)] as const;
  for (const side of [0, 1] as const) {
    const added = paths.filter((path) => {
      const { base, ours, theirs } = named(path);
      const [own, other] = side === 0 ? [ours, theirs] : [theirs, ours];
      return !paired.has(path) && base.mode === 0 && other.mode === 0 && isRegular(own.mode);
    });
    if (added.length === 0) continue;
    const at = { base: baseTree, side: trees[side], other: trees[1 - side]! };
    const old = yield* renamedAside(db, lookup, at, options);
    for (const path of added) {
      const base = old.get(path);
      if (base === undefined) continue;
      const { ours, theirs } = named(path);
      found.set(path, side === 0 ? { base, ours, theirs: base } : { base, ours: base, theirs });
    }
  }
  return found;
}

/** What was merged at a path where something is lost. */
export interface Scene
  extends Pick<PathVersions, "path" | "base" | "ours" | "theirs" | "expected"> {
  readonly conflicted: boolean;
  /** Whose work is lost: also of a side that is no commit, as what an octopus merges before its last parent. */
  readonly side: 0 | 1 | 2;
  /** Has the merge's objects too, and takes more. */
  readonly db: Overlay;
  readonly merged: MergeResult;
  /** The trees of both sides. */
  readonly trees: readonly [ours: Oid, theirs: Oid];
}

/** A loss that can be judged again by what a later tree has at the path. */
export interface JudgedLoss extends Loss {
  readonly scene: Scene;
  readonly again: (tree: Oid) => Steps<Loss | null>;
}

/** Tree of a commit. */
export function commitTree(db: CommitReader, oid: Oid): Oid {
  return parseCommitLinks(db.read(oid).data, oid).tree;
}
