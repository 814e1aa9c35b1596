/**
 * What brings the work back that merge commits lost: commands that are right when followed as they stand.
 *
 * ```text
 *  a file is back under the name that a side took from it ─▶ git mv (a directory's files at once)
 *  a deleted file is back ─────────────────────────────────▶ git rm; if it was changed: or --drop
 *  gone, and one side's alone ─────────────────────────────▶ that side's version
 *  there, with nothing that the side's version hasn't ─────▶ that side's version
 *  there with more, and both changes fit together ─────────▶ the side's change, merged into it
 *  anything else ──────────────────────────────────────────▶ an edit, of the file that is there
 * ```
 *
 * Each is tried on a draft of the candidate's tree, one after the other: what later commits and other merges made of a
 * path isn't overwritten, and the gate has to be content with what comes of it.
 */
import { type CommitReader, isAncestor } from "../../git/history.ts";
import type { Oid } from "../../git/types.ts";
import { isDirectory, NOTHING, sameVersion } from "../entry.ts";
import { dropFlag, inTop, moveFile, unlessChanged, unlessThere } from "./commands.ts";
import { draftOf } from "./draft.ts";
import { holders } from "./holders.ts";
import type { Loss } from "./loss.ts";
import { commitTree, type JudgedLoss } from "./merge.ts";
import { menders, type Said, type Scope } from "./mend.ts";
import { renameEdits } from "./rename-edits.ts";
import { renamesBack } from "./renames-back.ts";
import { removal } from "./removal.ts";
import type { Steps } from "../steps.ts";
import { treePaths } from "../tree-paths.ts";

/** For so many paths of each kind there is advice. */
const ADVISED = 8;
/** So many paths are looked at. */
const JUDGED = 64;

/** A loss of a merge, and what of it stands at the candidate's tip. */
export interface StandingLoss {
  readonly judged: JudgedLoss;
  readonly loss: Loss;
}

interface Merge {
  readonly oid: Oid;
  readonly sides: readonly { readonly oid: Oid }[];
  readonly losses: readonly StandingLoss[];
}

/** A merge commit of the candidate that lost something, be it made good since. */
export interface LossyMerge {
  readonly oid: Oid;
  readonly paths: ReadonlySet<string>;
}

/**
 * Lines of advice for each of some merge commits, older ones first, to be followed one merge after the other on the
 * tree of `candidate`. They stop where a path was changed since the candidate.
 */
export function* adviceOn(
  db: CommitReader,
  candidate: Oid,
  merges: readonly Merge[],
  lossy: readonly LossyMerge[],
): Steps<string[][]> {
  const tip = commitTree(db, candidate);
  const draft = draftOf(db, tip);
  const lookup = treePaths(db);
  const guard = (path: string): string => {
    const version = lookup.at(tip, path);
    // What earlier advice made of a path is no change of anybody's.
    if (!sameVersion(draft.at(path), version)) return "";
    return version.mode === 0 ? unlessThere(path) : unlessChanged(candidate, path);
  };
  const advice: string[][] = [];
  for (const { oid, sides, losses } of merges) {
    /** The merge that lost work at the path, and that a side comes from: the side's change may be that loss. */
    const cause = (side: number, path: string): Oid | undefined =>
      lossy.find((before) =>
        before.oid !== oid && before.paths.has(path) &&
        isAncestor(db, before.oid, sides[side === 1 ? 0 : sides.length - 1]!.oid)
      )?.oid;
    const parents = sides.map((side) => side.oid);
    advice.push(
      yield* advise({ db, draft, guard, holders: holders(db, oid, parents) }, losses, cause),
    );
  }
  return advice;
}

/** Merge commits, each after those that it comes from. */
export function oldestFirst<T extends { readonly merge: { readonly oid: Oid } }>(
  db: CommitReader,
  all: readonly T[],
): T[] {
  const order = new Set<T>();
  const visit = (one: T): void => {
    if (order.has(one)) return;
    for (const other of all) {
      const isNew = other !== one && !order.has(other);
      if (isNew && isAncestor(db, other.merge.oid, one.merge.oid)) visit(other);
    }
    order.add(one);
  };
  for (const one of [...all].reverse()) visit(one);
  return [...order];
}

function* advise(
  scope: Scope,
  all: readonly StandingLoss[],
  cause: (side: number, path: string) => Oid | undefined,
): Steps<string[]> {
  const { draft, holders: { tree, label } } = scope;
  const advice: Advice = new Map();
  const mend = menders(scope);
  const others: StandingLoss[] = [];
  for (const one of all) {
    const { path, parent, kind } = one.loss;
    if (kind === "markers") continue;
    const before = parent === 0 ? undefined : cause(parent, path);
    if (before === undefined) others.push(one);
    else {
      add(advice, [
        `${label(parent)} has it from the merge ${before.slice(0, 12)}, which lost work there`,
        `see that all is in it, then ${dropFlag(path)} lets this merge pass.`,
      ]);
    }
  }
  const back = others.filter(({ loss }) => loss.kind === "back").map(({ judged }) => judged);
  const { moves, files, twins } = renamesBack(draft, back);
  for (const { from, to, parent } of moves) {
    const why = `${label(parent)} renamed it, and what is in it stands under the old name`;
    add(advice, [why, inTop(moveFile(from, to, draft.hasDirectory))]);
    for (const path of isDirectory(draft.at(from).mode) ? draft.below(from) : [from]) {
      const version = draft.at(path);
      draft.put(path, NOTHING);
      draft.put(to + path.slice(from.length), version);
    }
  }
  // Where merging paired both names, the loss is known under the new one, and judged by what it was before.
  const paired = new Set(
    others.filter(({ judged }) => judged.scene.base.mode !== 0).map(({ judged }) => judged.path),
  );
  const told = new Set<string>();
  for (const file of files) {
    const said = paired.has(file.to) ? null : renameEdits(scope, file);
    if (!said) continue;
    add(advice, said);
    told.add(file.to);
  }
  for (const { judged, loss } of others.slice(0, JUDGED)) {
    if (told.has(judged.path)) continue;
    // What is known was judged by the merge's own tree.
    const now = draft.tree === tree ? loss : yield* mend.judge(judged);
    if (now === null) continue;
    const said = now.kind === "back"
      ? removal(scope, judged, now.parent, twins.get(judged.path))
      : yield* mend.restore(judged, now);
    add(advice, said);
  }
  return linesOf(advice, Math.max(0, others.length - JUDGED));
}

/** What is said of each path, by why. */
type Advice = Map<string, string[]>;

function add(advice: Advice, [why, what]: Said): void {
  const known = advice.get(why);
  if (known) known.push(what);
  else advice.set(why, [what]);
}

/** Of very many paths the first ones are advised on. */
function linesOf(advice: Advice, unseen: number): string[] {
  const more = (n: number): string[] =>
    n > 0 ? [`… and ${n} more like it: --json has all paths, as \`files\`.`] : [];
  return [
    ...[...advice].flatMap(([why, all]) => [
      ...all.slice(0, ADVISED).map((one) => `${why}: ${one}`),
      ...more(all.length - ADVISED),
    ]),
    ...more(unseen),
  ];
}
