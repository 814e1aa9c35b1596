/**
 * From two texts to the list of changes between them: the diff proper, then sliding each group of
 * changed lines so that it joins its neighbours and lines up with the other side's groups.
 */
import { histogramDiff } from "./histogram.ts";
import type { LineTables } from "./lines.ts";
import { myersDiff } from "./myers.ts";

/** Lines `[at, at + removed)` of the old text became lines `[newAt, newAt + added)` of the new one. */
export interface Change {
  readonly at: number;
  readonly removed: number;
  readonly newAt: number;
  readonly added: number;
}

/** `bounded`: the histogram diff as long as its cost stays in proportion to the texts' length; for the rest Myers'. */
export type DiffAlgorithm = "histogram" | "myers" | "bounded";

/** So many lines the bounded diff may look at, and so many times each of the texts' lines. */
const WORK = { lines: 4_000_000, times: 100 };

/** The changes from `a` to `b` in order. */
export function diffLines(
  a: Int32Array,
  b: Int32Array,
  tables: LineTables,
  algorithm: DiffAlgorithm,
): Change[] {
  const changedA = new Uint8Array(a.length + 2);
  const changedB = new Uint8Array(b.length + 2);
  if (algorithm === "myers") myersDiff(a, 0, a.length, b, 0, b.length, tables, changedA, changedB);
  else {
    const bound = WORK.lines + WORK.times * (a.length + b.length);
    const work = algorithm === "bounded" ? bound : Infinity;
    histogramDiff(a, b, tables, changedA, changedB, work);
  }
  slideGroups(a, changedA, changedB);
  slideGroups(b, changedB, changedA);
  return collectChanges(changedA, changedB);
}

function collectChanges(changedA: Uint8Array, changedB: Uint8Array): Change[] {
  const changes: Change[] = [];
  const endA = changedA.length - 1;
  const endB = changedB.length - 1;
  let i = 1, j = 1;
  while (i < endA || j < endB) {
    if (!changedA[i] && !changedB[j]) {
      i++;
      j++;
      continue;
    }
    const at = i, newAt = j;
    while (changedA[i]) i++;
    while (changedB[j]) j++;
    changes.push({ at: at - 1, removed: i - at, newAt: newAt - 1, added: j - newAt });
  }
  return changes;
}

/**
 * Slides every group of changed lines of one text as far up and then as far down as it goes, merging it
 * with groups it meets. Where a position exists at which it faces a group of the other text, it stays at
 * the last such one; otherwise at the bottom. `other` keeps step: between two unchanged lines there is
 * always exactly one (perhaps empty) group on either side.
 */
function slideGroups(lines: Int32Array, changed: Uint8Array, other: Uint8Array): void {
  const count = lines.length;
  // A group is [start, end) in indices of `changed`, where line i has its mark at i + 1.
  let start = 1, end = 1;
  while (changed[end]) end++;
  let otherStart = 1, otherEnd = 1;
  while (other[otherEnd]) otherEnd++;

  const otherPrevious = (): void => {
    otherEnd = otherStart - 1;
    for (otherStart = otherEnd; other[otherStart - 1]; otherStart--);
  };
  const otherNext = (): void => {
    otherStart = otherEnd + 1;
    for (otherEnd = otherStart; other[otherEnd]; otherEnd++);
  };
  const slideUp = (): boolean => {
    if (start <= 1 || lines[start - 2] !== lines[end - 2]) return false;
    changed[--start] = 1;
    changed[--end] = 0;
    while (changed[start - 1]) start--;
    return true;
  };
  const slideDown = (): boolean => {
    if (end > count || lines[start - 1] !== lines[end - 1]) return false;
    changed[start++] = 0;
    changed[end++] = 1;
    while (changed[end]) end++;
    return true;
  };

  for (;;) {
    if (end !== start) {
      let size: number;
      let top: number;
      let facing: number;
      do {
        size = end - start;
        facing = -1;
        while (slideUp()) otherPrevious();
        top = end;
        if (otherEnd > otherStart) facing = end;
        while (slideDown()) {
          otherNext();
          if (otherEnd > otherStart) facing = end;
        }
      } while (size !== end - start);
      if (end !== top && facing !== -1) {
        while (otherEnd === otherStart) {
          slideUp();
          otherPrevious();
        }
      }
    }
    if (end > count) return;
    start = end + 1;
    for (end = start; changed[end]; end++);
    otherNext();
  }
}
