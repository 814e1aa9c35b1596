/**
 * From the two lists of changes (base to ours, base to theirs) to the list of hunks of the merge, with
 * conflicts made as small as git makes them.
 *
 * ```text
 *   changes ──align──▶ hunks ──refine──▶ smaller conflicts ──join──▶ conflicts less than 4 lines apart are one
 *                        │
 *                        └──trim (zdiff3)──▶ equal lines at either end of a conflict move out of it
 * ```
 */
import { type Change, type DiffAlgorithm, diffLines } from "./diff.ts";
import type { LineTables } from "./lines.ts";

/** What becomes of a hunk. `same`: both sides turned out equal, nothing to do. */
export type Take = "conflict" | "ours" | "theirs" | "both" | "same";

/** Lines `[base, base + baseCount)` and what they became on either side. */
export interface Hunk {
  take: Take;
  base: number;
  baseCount: number;
  ours: number;
  oursCount: number;
  theirs: number;
  theirsCount: number;
}

/** Lays both lists of changes side by side: overlapping or touching ones become one hunk. */
export function alignChanges(
  ours: readonly Change[],
  theirs: readonly Change[],
  oursIds: Int32Array,
  theirsIds: Int32Array,
  baseCount: number,
): Hunk[] {
  const hunks: Hunk[] = [];
  const add = (
    take: Take,
    i0: number,
    n0: number,
    i1: number,
    n1: number,
    i2: number,
    n2: number,
  ): void => {
    const last = hunks[hunks.length - 1];
    if (
      last && (i1 <= last.ours + last.oursCount || i2 <= last.theirs + last.theirsCount)
    ) {
      if (take !== last.take) last.take = "conflict";
      last.baseCount = i0 + n0 - last.base;
      last.oursCount = i1 + n1 - last.ours;
      last.theirsCount = i2 + n2 - last.theirs;
    } else {
      hunks.push({
        take,
        base: i0,
        baseCount: n0,
        ours: i1,
        oursCount: n1,
        theirs: i2,
        theirsCount: n2,
      });
    }
  };

  let x = 0;
  let y = 0;
  while (x < ours.length && y < theirs.length) {
    const a = ours[x]!;
    const b = theirs[y]!;
    if (a.at + a.removed < b.at) {
      add("ours", a.at, a.removed, a.newAt, a.added, b.newAt - b.at + a.at, a.removed);
      x++;
      continue;
    }
    if (b.at + b.removed < a.at) {
      add("theirs", b.at, b.removed, a.newAt - a.at + b.at, b.removed, b.newAt, b.added);
      y++;
      continue;
    }
    const identical = a.at === b.at && a.removed === b.removed && a.added === b.added &&
      sameLines(oursIds, a.newAt, theirsIds, b.newAt, a.added);
    if (!identical) {
      const offset = a.at - b.at;
      const overhang = offset + a.removed - b.removed;
      let i0 = a.at, i1 = a.newAt, i2 = b.newAt;
      if (offset > 0) {
        i0 -= offset;
        i1 -= offset;
      } else i2 += offset;
      let n0 = a.at + a.removed - i0;
      let n1 = a.newAt + a.added - i1;
      let n2 = b.newAt + b.added - i2;
      if (overhang < 0) {
        n0 -= overhang;
        n1 -= overhang;
      } else n2 += overhang;
      add("conflict", i0, n0, i1, n1, i2, n2);
    }
    const endA = a.at + a.removed;
    const endB = b.at + b.removed;
    if (endA >= endB) y++;
    if (endB >= endA) x++;
  }
  for (; x < ours.length; x++) {
    const a = ours[x]!;
    add("ours", a.at, a.removed, a.newAt, a.added, a.at + theirsIds.length - baseCount, a.removed);
  }
  for (; y < theirs.length; y++) {
    const b = theirs[y]!;
    add("theirs", b.at, b.removed, b.at + oursIds.length - baseCount, b.removed, b.newAt, b.added);
  }
  return hunks;
}

function sameLines(a: Int32Array, i: number, b: Int32Array, j: number, count: number): boolean {
  for (let k = 0; k < count; k++) if (a[i + k] !== b[j + k]) return false;
  return true;
}

/** Replaces each conflict by the conflicts that remain when both sides are compared with each other. */
export function refineConflicts(
  hunks: readonly Hunk[],
  oursIds: Int32Array,
  theirsIds: Int32Array,
  tables: LineTables,
  algorithm: DiffAlgorithm,
): Hunk[] {
  const refined: Hunk[] = [];
  for (const hunk of hunks) {
    if (hunk.take !== "conflict" || hunk.oursCount === 0 || hunk.theirsCount === 0) {
      refined.push(hunk);
      continue;
    }
    const changes = diffLines(
      oursIds.subarray(hunk.ours, hunk.ours + hunk.oursCount),
      theirsIds.subarray(hunk.theirs, hunk.theirs + hunk.theirsCount),
      tables,
      algorithm,
    );
    if (changes.length === 0) {
      refined.push({ ...hunk, take: "same" });
      continue;
    }
    for (const change of changes) {
      refined.push({
        take: "conflict",
        base: hunk.base,
        baseCount: hunk.baseCount,
        ours: hunk.ours + change.at,
        oursCount: change.removed,
        theirs: hunk.theirs + change.newAt,
        theirsCount: change.added,
      });
    }
  }
  return refined;
}

/**
 * Joins conflicts with at most three lines between them: fewer lines to read than two sets of markers.
 * `isBoring` lets a longer gap be swallowed too.
 */
export function joinConflicts(
  hunks: readonly Hunk[],
  isBoring?: (from: number, to: number) => boolean,
): Hunk[] {
  const joined: Hunk[] = [];
  for (const hunk of hunks) {
    const last = joined[joined.length - 1];
    if (last && last.take === "conflict" && hunk.take === "conflict") {
      const gapStart = last.ours + last.oursCount;
      const gap = hunk.ours - gapStart;
      if (gap <= 3 || isBoring?.(gapStart, hunk.ours)) {
        last.oursCount = hunk.ours + hunk.oursCount - last.ours;
        last.theirsCount = hunk.theirs + hunk.theirsCount - last.theirs;
        continue;
      }
    }
    joined.push({ ...hunk });
  }
  return joined;
}

/** Moves lines that both sides share out of a conflict, at its beginning and at its end (zdiff3). */
export function trimConflicts(
  hunks: readonly Hunk[],
  oursIds: Int32Array,
  theirsIds: Int32Array,
): void {
  for (const hunk of hunks) {
    if (hunk.take !== "conflict") continue;
    while (
      hunk.oursCount > 0 && hunk.theirsCount > 0 && oursIds[hunk.ours] === theirsIds[hunk.theirs]
    ) {
      hunk.oursCount--;
      hunk.theirsCount--;
      hunk.ours++;
      hunk.theirs++;
    }
    while (
      hunk.oursCount > 0 && hunk.theirsCount > 0 &&
      oursIds[hunk.ours + hunk.oursCount - 1] === theirsIds[hunk.theirs + hunk.theirsCount - 1]
    ) {
      hunk.oursCount--;
      hunk.theirsCount--;
    }
  }
}
