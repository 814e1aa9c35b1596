/**
 * First step of merging trees: finding the paths on which the sides differ.
 *
 * ```text
 *  same in all three ─────────────────────────▶ resolved, never looked into
 *  file, changed on one side or alike on both ─▶ resolved
 *  directory, changed on one side ────────────▶ deferred: taken whole when no rename can reach into it
 *  everything else ───────────────────────────▶ open; directories are walked
 * ```
 *
 * On the way it notes which files each side added and deleted, which is what renames are found from, and
 * for which of the deleted ones that matters.
 */
import type { Oid } from "../git/types.ts";
import {
  BASE,
  type Entry,
  openEntry,
  OURS,
  resolvedEntry,
  sameVersion,
  type Side,
  THEIRS,
} from "./entry.ts";
import { hashOrder } from "./hash-order.ts";
import { DIRECTORY, RELEVANT } from "./rename-state.ts";
import type { MergeState } from "./state.ts";
import { type Row, rows } from "./walk.ts";

type Trees = readonly [Oid, Oid, Oid];

/** Fills `state.paths` and the candidates for renames. */
export function collectPaths(state: MergeState, trees: Trees): void {
  walk(state, "", trees);
  for (const side of [OURS, THEIRS] as const) settleDeferred(state, side);
}

/** A directory being walked: what is left of it, and the mask to go back to after it. */
interface Level {
  readonly directory: string;
  readonly list: readonly Row[];
  readonly outerMask: number;
  at: number;
}

/** Depth first, without recursion: how deep a tree goes is up to whoever made it. */
function walk(state: MergeState, directory: string, trees: Trees): void {
  const levels = [openLevel(state, directory, trees, state.renames.directoryMask)];
  while (levels.length > 0) {
    const level = levels[levels.length - 1]!;
    if (level.at < level.list.length) {
      const below = visit(state, level.directory, level.list[level.at++]!);
      if (below) levels.push(below);
    } else {
      state.renames.directoryMask = level.outerMask;
      levels.pop();
    }
  }
}

function openLevel(state: MergeState, directory: string, trees: Trees, outerMask: number): Level {
  const { renames } = state;
  const list = rows(state.db, trees);
  if (renames.directoryMask === 2 || renames.directoryMask === 4) {
    // A file added on that side right here makes every file below a possible part of a directory rename,
    // and subdirectories may come before that file in tree order.
    for (const row of list) {
      const files = row.mask & ~row.dirs;
      if (files !== 0 && files === renames.directoryMask) {
        renames.directoryMask = 7;
        break;
      }
    }
  }
  return { directory, list, outerMask, at: 0 };
}

/** Notes what one name is; a directory that has to be looked into is opened. */
function visit(state: MergeState, directory: string, row: Row): Level | null {
  const { renames } = state;
  const { versions, mask, dirs } = row;
  const [base, ours, theirs] = versions;
  const files = mask & ~dirs;
  const path = directory === "" ? row.name : `${directory}/${row.name}`;
  const oursMatches = (mask & 3) === 3 && sameVersion(base, ours);
  const theirsMatches = (mask & 5) === 5 && sameVersion(base, theirs);
  const alike = (mask & 6) === 6 && sameVersion(ours, theirs);

  if (oursMatches && theirsMatches) {
    state.paths.set(path, resolvedEntry(path, directory, base));
    return null;
  }
  if (files === 7 && (alike || oursMatches || theirsMatches)) {
    state.paths.set(path, resolvedEntry(path, directory, oursMatches ? theirs : ours));
    return null;
  }

  const outerMask = renames.directoryMask;
  const matches = oursMatches ? 3 : theirsMatches ? 5 : alike ? 6 : 0;
  collectCandidates(state, directory, path, row, matches & files);
  const entry = openEntry(path, directory, versions, files, dirs, matches);
  state.paths.set(path, entry);
  if (dirs === 0) return null;

  let side: 0 | Side = oursMatches ? THEIRS : theirsMatches ? OURS : BASE;
  if (files === 0 && (dirs === 2 || dirs === 4)) {
    entry.matches = 7 - dirs;
    side = dirs === 2 ? OURS : THEIRS;
  }
  if (renames.directoryMask !== 7 && side !== BASE && renames.sides[side].deferring) {
    renames.sides[side].deferred.set(path, renames.directoryMask);
    renames.directoryMask = outerMask;
    return null;
  }
  entry.matches &= files;
  return openLevel(state, path, treesOf(entry), outerMask);
}

function treesOf(entry: Entry): Trees {
  return entry.stages.map((version, i) =>
    entry.dirs & (1 << i) ? version.oid : ""
  ) as unknown as Trees;
}

/** Notes what `row` means for renames. `matches`: sides with the same file. */
function collectCandidates(
  state: MergeState,
  directory: string,
  path: string,
  row: Row,
  matches: number,
): void {
  const { renames } = state;
  const { dirs } = row;
  const files = row.mask & ~dirs;
  if (renames.directoryMask !== 7 && (dirs === 3 || dirs === 5)) renames.directoryMask = dirs & ~1;
  if (dirs === 1 || dirs === 3 || dirs === 5) {
    const missing = (7 - dirs) >> 1;
    const relevance = renames.directoryMask === 7 ? DIRECTORY.forAncestor : DIRECTORY.irrelevant;
    if (missing & 1) renames.sides[OURS].removedDirectories.set(path, relevance);
    if (missing & 2) renames.sides[THEIRS].removedDirectories.set(path, relevance);
  }
  if (renames.directoryMask === 7 && (files === 2 || files === 4)) {
    // Added in a directory that the other side removed: where that directory went decides.
    const other = files === 2 ? THEIRS : OURS;
    renames.sides[other].removedDirectories.set(directory, DIRECTORY.forSelf);
  }
  if (files === 0 || files === 7) return;
  for (const side of [OURS, THEIRS] as const) {
    const inBase = (files & 1) !== 0;
    const inSide = (files & (1 << side)) !== 0;
    if (inBase === inSide) continue;
    const { pairs, sources } = renames.sides[side];
    const version = row.versions[inBase ? BASE : side];
    const there = { path, mode: version.mode, oid: version.oid, used: false };
    const absent = { path, mode: 0, oid: "", used: false };
    if (inBase) {
      const content = matches === 0;
      if (content || renames.directoryMask === 7) {
        sources.set(path, content ? RELEVANT.content : RELEVANT.location);
      }
    }
    pairs.push({
      one: inBase ? there : absent,
      two: inBase ? absent : there,
      renamed: false,
      score: 0,
      side,
    });
  }
}

/** Takes the deferred directories of a side whole, or walks them when a rename could lead into one. */
function settleDeferred(state: MergeState, side: Side): void {
  const { renames } = state;
  const own = renames.sides[side];
  const whole = own.sources.size === 0;
  own.deferring = whole;
  const deferred = own.deferred;
  own.deferred = new Map();
  for (const path of hashOrder(deferred.keys())) {
    const entry = state.paths.get(path)!;
    if (whole) {
      takeWhole(entry, side);
      continue;
    }
    renames.directoryMask = deferred.get(path)!;
    entry.matches &= entry.files;
    walk(state, path, treesOf(entry));
  }
  for (const path of own.deferred.keys()) takeWhole(state.paths.get(path)!, side);
}

function takeWhole(entry: Entry, side: Side): void {
  entry.result = entry.stages[side];
  entry.gone = entry.stages[side].mode === 0;
  entry.matches = 0;
  entry.clean = true;
}
