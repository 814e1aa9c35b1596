/**
 * The gate: what must hold before a candidate is published.
 *
 * ```text
 *  every merge commit of the candidate that the branch lacks ─▶ merge its parents again, compare
 *  the lander's own merge of tip and candidate ──────────────▶ clean, and nothing lost
 * ```
 *
 * A loss is forgiven when a later commit of the candidate brings the work back or changes its place on
 * purpose (gate/forgive.ts), or when it was declared with `--drop`.
 */
import { type CommitReader, commitsBetween, isAncestor } from "../git/history.ts";
import { unquotePath } from "../git/path-quote.ts";
import { compileWildmatch } from "../git/wildmatch.ts";
import type { Oid } from "../git/types.ts";
import { commitTree, compareMerge, inspectMerge } from "./gate/merge.ts";
import { forgiveness } from "./gate/forgive.ts";
import type { Loss } from "./gate/loss.ts";
import { adviceOn, type LossyMerge, oldestFirst, type StandingLoss } from "./gate/advice.ts";
import {
  type LaterMerges,
  type MergeCommit,
  mergeReport,
  refusalReport,
  type RefusedMerge,
} from "./gate/report.ts";
import { type CommitGraph, commitGraph } from "./graph.ts";
import { mergeSteps } from "./merge-commits.ts";
import { overlay } from "./overlay.ts";
import { byteString, pathText } from "./state.ts";
import { atOnce, type Steps } from "./steps.ts";
import type { MergeOptions, MergeResult } from "./types.ts";

export interface GateRequest {
  readonly tip: Oid;
  readonly candidate: Oid;
  /** The merge of tip and candidate, when the caller has made it: else it is made here. */
  readonly merge?: MergeResult;
  /** The tree that would be published, when it isn't the merge's own (or, contained tip, the candidate's). */
  readonly tree?: Oid;
  /** Paths whose loss was declared: exact, a directory, or a glob in which `*` matches slashes too. */
  readonly drops?: readonly string[];
  readonly options?: MergeOptions;
}

export type GateVerdict = { readonly ok: true } | {
  readonly ok: false;
  readonly reason: "merge refused" | "a merge on the branch was refused";
  /** Paths as text, in path order. */
  readonly files: readonly string[];
  /** `path:first-last`, 1-based. */
  readonly regions: readonly string[];
  /** What is wrong and what to do next, for a person or an agent. */
  readonly report: string;
};

/**
 * What the sides of a landing's merge are called: whoever reads the report submitted the candidate, and
 * didn't make the merge.
 */
export const LANDING_LABELS = { ours: "branch", theirs: "candidate" } as const;

/**
 * Judges a candidate. Reads from `db`, writes nothing to it.
 * @throws `object-missing` for what the caller may fetch before it tries again; `unrelated-histories`
 */
export const checkGate = (db: CommitReader, request: GateRequest): GateVerdict =>
  atOnce(gateSteps(db, request));

/** The same, left off now and then. Who goes on with it gets what `checkGate` throws. */
export function* gateSteps(db: CommitReader, request: GateRequest): Steps<GateVerdict> {
  const { tip, candidate, options = {} } = request;
  const graph = options.graph ?? commitGraph(db, options.shallow);
  const declared = dropMatcher(request.drops ?? []);

  const refused = yield* inspectCandidate(db, graph, request, declared);
  if (refused) return refused;

  const contained = isAncestor(db, tip, candidate);
  const scratch = overlay(db);
  if (contained) {
    if (request.tree === undefined || request.tree === commitTree(db, candidate)) {
      return { ok: true };
    }
  }
  const merge = request.merge ?? (yield* mergeSteps(scratch, tip, candidate, {
    labels: LANDING_LABELS,
    ...options,
    graph,
  }));
  if (!merge.clean) {
    return {
      ok: false,
      reason: "merge refused",
      files: merge.conflicts.map(({ path }) => pathText(path)),
      regions: merge.conflicts.flatMap(({ path, regions }) =>
        regions.map((region) => `${pathText(path)}:${region}`)
      ),
      report: mergeReport(merge),
    };
  }
  const losses = (yield* compareMerge(scratch, graph, merge, request.tree ?? merge.tree, options))
    .filter((loss) => counts(loss, declared));
  return losses.length === 0 ? { ok: true } : refuse("merge refused", [{
    merge: null,
    losses: losses.map((loss) => ({ ...loss, isConflict: false })),
    advice: [],
  }]);
}

/** Conflict markers are nobody's wish: declared or not, they aren't published. */
const counts = ({ kind, path }: Loss, declared: (path: string) => boolean): boolean =>
  kind === "markers" || !declared(path);

/** The candidate's own merges, or null when nothing is wrong with them. */
function* inspectCandidate(
  db: CommitReader,
  graph: CommitGraph,
  { tip, candidate, options }: GateRequest,
  declared: (path: string) => boolean,
): Steps<GateVerdict | null> {
  const commits = commitsBetween(db, tip, candidate).map((oid) => graph.get(oid));
  const lossy: LossyMerge[] = [];
  const bad: { merge: MergeCommit; losses: StandingLoss[] }[] = [];
  const tipTree = commitTree(db, candidate);
  for (const { oid, parentOids } of commits) {
    if (parentOids.length < 2) continue;
    const found =
      (yield* inspectMerge(db, graph, parentOids, commitTree(db, oid), options, tipTree))
        .filter((loss) => counts(loss, declared));
    if (found.length === 0) continue;
    lossy.push({ oid, paths: new Set(found.map(({ path }) => path)) });
    const later = commits.filter((commit) => commit.oid !== oid && isAncestor(db, oid, commit.oid));
    const standing = forgiveness(db, oid, candidate, later);
    const losses: StandingLoss[] = [];
    for (const judged of found) {
      const loss = yield* standing(judged);
      if (loss && counts(loss, declared)) losses.push({ judged, loss });
    }
    if (losses.length === 0) continue;
    const sides = parentOids.map((parent) => ({
      oid: parent,
      onBranch: isAncestor(db, parent, tip),
    }));
    const laterMerges: LaterMerges[] = [];
    for (const commit of later) {
      if (commit.parentOids.length < 2) continue;
      laterMerges.push((yield* isPlainMerge(db, graph, commit, options)) ? "plain" : "adapted");
    }
    const most = (["adapted", "plain"] as const).find((one) => laterMerges.includes(one));
    bad.push({
      merge: { oid, candidate, laterMerges: most ?? "none", sides },
      losses,
    });
  }
  if (bad.length === 0) return null;
  const ordered = oldestFirst(db, bad);
  const advice = yield* adviceOn(
    db,
    candidate,
    ordered.map(({ merge, losses }) => ({ ...merge, losses })),
    lossy,
  );
  return refuse(
    "a merge on the branch was refused",
    ordered.map(({ merge, losses }, i) => ({
      merge,
      losses: losses.map(({ loss, judged }) => ({
        ...loss,
        isConflict: judged.scene.conflicted,
      })),
      advice: advice[i]!,
    })),
  );
}

/** Whether a merge commit is what merging its parents gives, so that it can be made again. */
function* isPlainMerge(
  db: CommitReader,
  graph: CommitGraph,
  { oid, parentOids: [ours, theirs, ...more] }: { oid: Oid; parentOids: readonly Oid[] },
  options: MergeOptions = {},
): Steps<boolean> {
  if (ours === undefined || theirs === undefined || more.length > 0) return false;
  const labels = { ours: "parent1", theirs: "parent2" };
  const merged = yield* mergeSteps(overlay(db), ours, theirs, {
    ...options,
    graph,
    allowUnrelated: true,
    labels,
  });
  return merged.clean && merged.tree === commitTree(db, oid);
}

function refuse(
  reason: "merge refused" | "a merge on the branch was refused",
  bad: readonly RefusedMerge[],
): GateVerdict {
  const losses = bad.flatMap((item) => item.losses);
  return {
    ok: false,
    reason,
    files: [...new Set(losses.map(({ path }) => path))].sort().map(pathText),
    regions: losses.flatMap(({ path, regions }) => regions.map((r) => `${pathText(path)}:${r}`)),
    report: refusalReport(bad),
  };
}

/**
 * Whether a path's loss was declared. Globs as in git's pathspecs: `*` matches slashes. A path between double
 * quotes is one as reports give it, and no glob.
 */
export function dropMatcher(drops: readonly string[]): (path: string) => boolean {
  const tests = drops.flatMap((drop) => {
    const pattern = byteString(drop.replace(/\/+$/, ""));
    const matches = compileWildmatch(pattern, { pathname: false });
    const quoted = unquotePath(drop)?.replace(/\/+$/, "");
    return [
      matches,
      ...[pattern, quoted].filter((path) => path !== undefined).map((named) => (path: string) =>
        path === named || path.startsWith(named + "/")
      ),
    ];
  });
  return (path) => tests.some((test) => test(path));
}
