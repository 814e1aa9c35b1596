/** Renames that a merge undid: files that are back under the names which a side had taken from them. */
import { directoryOf } from "../entry.ts";
import type { Draft } from "./draft.ts";
import type { JudgedLoss } from "./merge.ts";
import { moves as findMoves } from "./moved.ts";
import { treePaths } from "../tree-paths.ts";

export interface Move {
  readonly from: string;
  readonly to: string;
  readonly parent: 0 | 1 | 2;
}

/** So many files are compared with others by what they have in common; more only if they are equal. */
const COMPARED = 64;

/**
 * Of files that are back: those to be moved, to where merging has them and the draft has nothing (of a directory all
 * of whose files move, the directory itself); and the names that others have beside the old one.
 */
export function renamesBack(
  draft: Draft,
  losses: readonly JudgedLoss[],
): { moves: Move[]; twins: Map<string, string> } {
  const twins = new Map<string, string>();
  if (losses.length === 0) return { moves: [], twins };
  const { scene } = losses[0]!;
  draft.copyTo(scene.db);
  const lookup = treePaths(scene.db);
  const missing = lookup.differences(draft.tree, scene.merged.tree)
    .filter(({ left, right }) => left.mode === 0 && right.mode !== 0);
  const find = findMoves(scene.db);
  const taken = new Set<string>();
  const files: Move[] = [];
  /** Of those with equal content the one whose name ends alike, most of it. */
  const best = (from: string, paths: readonly string[]): string | undefined =>
    [...paths].sort((a, b) => alike(from, b) - alike(from, a))[0];
  for (const [i, { path: from, parent, scene: { base, merged, trees } }] of losses.entries()) {
    const now = draft.at(from);
    const isFree = (path: string): boolean => !taken.has(path);
    const same = missing.filter(({ path, right }) =>
      isFree(path) && (right.oid === now.oid || right.oid === base.oid)
    );
    const to = best(from, same.map(({ path }) => path)) ??
      (i < COMPARED ? find(now, missing, isFree)?.path : undefined);
    if (to !== undefined) {
      taken.add(to);
      files.push({ from, to, parent });
      continue;
    }
    if (parent === 0) continue;
    const added = lookup.differences(merged.baseTree, trees[parent - 1]!)
      .filter(({ left, right }) => left.mode === 0 && right.mode !== 0);
    const equal = added.filter(({ right }) => right.oid === base.oid);
    const twin = best(from, equal.map(({ path }) => path)) ??
      (i < COMPARED ? find(base, added)?.path : undefined);
    if (twin !== undefined) twins.set(from, twin);
  }
  return { moves: byDirectory(draft, files), twins };
}

/** Moves of whole directories where all their files move. */
function byDirectory(draft: Draft, files: readonly Move[]): Move[] {
  const target = new Map(files.map((move) => [move.from, move]));
  const done = new Set<string>();
  const moves: Move[] = [];
  for (const file of files) {
    if (done.has(file.from)) continue;
    let best: Move | undefined;
    let [from, to] = [directoryOf(file.from), directoryOf(file.to)];
    let tail = file.from.slice(from.length);
    while (from !== "" && to !== "" && from !== to && file.to === to + tail) {
      const below = draft.below(from);
      const all = below.every((path) => target.get(path)?.to === to + path.slice(from.length));
      const isApart = !`${to}/`.startsWith(`${from}/`) && !`${from}/`.startsWith(`${to}/`);
      if (!all || !isApart || draft.at(to).mode !== 0) break;
      best = { from, to, parent: file.parent };
      [from, to] = [directoryOf(from), directoryOf(to)];
      tail = file.from.slice(from.length);
    }
    const below = best ? draft.below(best.from) : [];
    if (best && below.length > 1) {
      for (const path of below) done.add(path);
      moves.push(best);
    } else {
      moves.push(file);
    }
  }
  return moves;
}

/** How many characters two names have in common at their ends, and at their beginnings. */
function alike(a: string, b: string): number {
  let tail = 0;
  while (tail < a.length && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  let head = 0;
  while (head < a.length && a[head] === b[head]) head++;
  return tail * 2 + head;
}
