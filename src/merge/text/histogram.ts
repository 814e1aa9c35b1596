/**
 * Histogram diff: split at the longest run of lines around the rarest common line, and do the same on
 * both sides of it. A region whose common lines all occur too often is left to Myers.
 */
import { myersDiff } from "./myers.ts";

/** A line that occurs more often than this in a region is no anchor. */
const MAX_OCCURRENCES = 64;

/**
 * Marks the lines that are only in `a` (in `changedA`) or only in `b` (in `changedB`).
 * The mark of line `i` is at index `i + 1`: both arrays have a zero at either end.
 */
export function histogramDiff(
  a: Int32Array,
  b: Int32Array,
  classes: number,
  changedA: Uint8Array,
  changedB: Uint8Array,
): void {
  const firstOf = new Int32Array(classes);
  const countOf = new Int32Array(classes);
  /** The next line of `a` in the region with the same class, or -1. */
  const next = new Int32Array(a.length);
  // Regions still to do, four numbers each: [a0, a1) against [b0, b1).
  const regions: number[] = [0, a.length, 0, b.length];

  while (regions.length > 0) {
    const b1 = regions.pop()!;
    const b0 = regions.pop()!;
    const a1 = regions.pop()!;
    const a0 = regions.pop()!;
    if (a0 >= a1) {
      if (b0 < b1) changedB.fill(1, b0 + 1, b1 + 1);
      continue;
    }
    if (b0 >= b1) {
      changedA.fill(1, a0 + 1, a1 + 1);
      continue;
    }

    for (let line = a1 - 1; line >= a0; line--) {
      const id = a[line]!;
      next[line] = countOf[id]! > 0 ? firstOf[id]! : -1;
      firstOf[id] = line;
      countOf[id] = countOf[id]! + 1;
    }

    let rarest = MAX_OCCURRENCES + 1;
    let common = false;
    let found = false;
    let beginA = 0, endA = 0, beginB = 0, endB = 0;
    for (let line = b0; line < b1;) {
      const occurrences = countOf[b[line]!]!;
      let resume = line + 1;
      if (occurrences > rarest) {
        common = true;
      } else if (occurrences > 0) {
        common = true;
        for (let at = firstOf[b[line]!]!; at >= 0;) {
          let after = next[at]!;
          let startA = at, startB = line, lastA = at, lastB = line;
          let rare = occurrences;
          while (startA > a0 && startB > b0 && a[startA - 1] === b[startB - 1]) {
            startA--;
            startB--;
            if (rare > 1) rare = Math.min(rare, countOf[a[startA]!]!);
          }
          while (lastA < a1 - 1 && lastB < b1 - 1 && a[lastA + 1] === b[lastB + 1]) {
            lastA++;
            lastB++;
            if (rare > 1) rare = Math.min(rare, countOf[a[lastA]!]!);
          }
          if (resume <= lastB) resume = lastB + 1;
          if (endA - beginA < lastA - startA || rare < rarest) {
            found = true;
            beginA = startA;
            endA = lastA;
            beginB = startB;
            endB = lastB;
            rarest = rare;
          }
          while (after >= 0 && after <= lastA) after = next[after]!;
          at = after;
        }
      }
      line = resume;
    }
    for (let line = a0; line < a1; line++) countOf[a[line]!] = 0;

    if (common && rarest > MAX_OCCURRENCES) {
      myersDiff(a, a0, a1, b, b0, b1, classes, changedA, changedB);
    } else if (!found) {
      changedA.fill(1, a0 + 1, a1 + 1);
      changedB.fill(1, b0 + 1, b1 + 1);
    } else {
      regions.push(a0, beginA, b0, beginB);
      regions.push(endA + 1, a1, endB + 1, b1);
    }
  }
}
