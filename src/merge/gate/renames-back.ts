/** Renames that a merge undid: files that are back under the names which a side had taken from them. */
import type { Oid } from "../../git/types.ts";
import { directoryOf, type Version } from "../entry.ts";
import type { Draft } from "./draft.ts";
import type { JudgedLoss, Scene } from "./merge.ts";
import { moves as findMoves } from "./moved.ts";
import { type Difference, treePaths } from "../tree-paths.ts";

export interface Move {
  readonly from: string;
  readonly to: string;
  readonly parent: 0 | 1 | 2;
}

/** One file's move. */
export interface FileMove extends Move {
  readonly scene: Scene;
}

/** So many files are compared with others (and with eight times as many) by what they have in common; more only if equal. */
const COMPARED = 64;

/**
 * Of files that are back: those to be moved, to where merging has them and the draft has nothing (of a directory all
 * of whose files move, the directory itself); and the names that others have beside the old one.
 */
export function renamesBack(
  draft: Draft,
  losses: readonly JudgedLoss[],
): { moves: Move[]; files: FileMove[]; twins: Map<string, string> } {
  const twins = new Map<string, string>();
  if (losses.length === 0) return { moves: [], files: [], twins };
  const { db, merged, trees } = losses[0]!.scene;
  draft.copyTo(db);
  const lookup = treePaths(db);
  const newIn = (from: Oid, to: Oid): Difference[] =>
    lookup.differences(from, to).filter(({ left, right }) => left.mode === 0 && right.mode !== 0);
  const missing = placesOf(newIn(draft.tree, merged.tree));
  const added = trees.map((tree) => placesOf(newIn(merged.baseTree, tree)));
  const find = findMoves(db);
  const taken = new Set<string>();
  const files: FileMove[] = [];
  for (const [i, { path: from, parent, scene }] of losses.entries()) {
    const now = draft.at(from);
    const search = ({ all, byOid }: Places, version: Version): string | undefined => {
      const isFree = (path: string): boolean => all !== missing.all || !taken.has(path);
      const equal = [version.oid, scene.base.oid].flatMap((oid) => byOid.get(oid) ?? []).filter(
        isFree,
      );
      // Of those with equal content the one whose name is most alike.
      equal.sort((a, b) => alike(from, b) - alike(from, a));
      const isCompared = i < COMPARED && all.length < COMPARED * 8;
      return equal[0] ?? (isCompared ? find(version, all, isFree)?.path : undefined);
    };
    const to = search(missing, now);
    const twin = to === undefined && parent !== 0
      ? search(added[parent - 1]!, scene.base)
      : undefined;
    if (twin !== undefined) twins.set(from, twin);
    if (to === undefined) continue;
    taken.add(to);
    files.push({ from, to, parent, scene });
  }
  return { moves: byDirectory(draft, files), files, twins };
}

interface Places {
  readonly all: readonly Difference[];
  readonly byOid: ReadonlyMap<Oid, string[]>;
}

function placesOf(all: readonly Difference[]): Places {
  const byOid = new Map<Oid, string[]>();
  for (const { path, right: { oid } } of all) {
    const known = byOid.get(oid);
    if (known) known.push(path);
    else byOid.set(oid, [path]);
  }
  return { all, byOid };
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
      moves.push({ from: file.from, to: file.to, parent: file.parent });
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
