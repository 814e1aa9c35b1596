/**
 * Histogram diff: split at the longest run of lines around the rarest common line, and do the same on
 * both sides of it. A region whose common lines all occur too often is left to Myers.
 */
import type { LineTables } from "./lines.ts";
import { myersDiff } from "./myers.ts";

/** A line that occurs more often than this in a region is no anchor. */
const MAX_OCCURRENCES = 64;

/**
 * Marks the lines that are only in `a` (in `changedA`) or only in `b` (in `changedB`).
 * The mark of line `i` is at index `i + 1`: both arrays have a zero at either end.
 * When more lines than `work` have been looked at, each as often as it was, what is left goes to Myers.
 */
export function histogramDiff(
  a: Int32Array,
  b: Int32Array,
  tables: LineTables,
  changedA: Uint8Array,
  changedB: Uint8Array,
  work = Infinity,
): void {
  const { first: firstOf, countA: countOf } = tables;
  /** The next line of `a` in the region with the same class, or -1. */
  const next = new Int32Array(a.length);
  // Regions still to do, four numbers each: [a0, a1) against [b0, b1).
  const regions: number[] = [0, a.length, 0, b.length];

  let places: Int32Array | undefined;

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
    work -= a1 - a0 + b1 - b0;
    if (work < 0) {
      myersDiff(a, a0, a1, b, b0, b1, tables, changedA, changedB);
      continue;
    }

    for (let line = a1 - 1; line >= a0; line--) {
      const id = a[line]!;
      next[line] = countOf[id]! > 0 ? firstOf[id]! : -1;
      firstOf[id] = line;
      countOf[id] = countOf[id]! + 1;
    }

    if (isUnique(b, b0, b1, countOf)) {
      places ??= new Int32Array(b.length);
      for (let line = b0; line < b1; line++) {
        places[line] = countOf[b[line]!]! > 0 ? firstOf[b[line]!]! : -1;
      }
      for (let line = a0; line < a1; line++) countOf[a[line]!] = 0;
      diffUnique(places, [a0, a1, b0, b1], changedA, changedB);
      continue;
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
      myersDiff(a, a0, a1, b, b0, b1, tables, changedA, changedB);
    } else if (!found) {
      changedA.fill(1, a0 + 1, a1 + 1);
      changedB.fill(1, b0 + 1, b1 + 1);
    } else {
      regions.push(a0, beginA, b0, beginB);
      regions.push(endA + 1, a1, endB + 1, b1);
    }
  }
}

/** Whether none of `b[b0, b1)` occurs more than once in the other text's region. */
function isUnique(b: Int32Array, b0: number, b1: number, countOf: Int32Array): boolean {
  for (let line = b0; line < b1; line++) if (countOf[b[line]!]! > 1) return false;
  return true;
}

/**
 * The same for a region in which every line has at most one partner, `places[line of b]` (-1: none). The
 * first of the longest runs is the anchor then, and runs of a part are those of the whole, cut off at its
 * edges: so nothing has to be counted again, and a search ends at the first run as long as there can be.
 * Without this, texts with changes everywhere take time that grows with the square of their size.
 */
function diffUnique(
  places: Int32Array,
  [wholeA0, wholeA1, wholeB0, wholeB1]: readonly [number, number, number, number],
  changedA: Uint8Array,
  changedB: Uint8Array,
): void {
  // Five numbers each: the region, and the length that no run in it exceeds.
  const regions: number[] = [wholeA0, wholeA1, wholeB0, wholeB1, wholeB1 - wholeB0];
  while (regions.length > 0) {
    const longest = regions.pop()!;
    const b1 = regions.pop()!;
    const b0 = regions.pop()!;
    const a1 = regions.pop()!;
    const a0 = regions.pop()!;
    let size = 0;
    let sizeBefore = 0;
    let beginB = b0;
    if (a0 < a1) {
      for (let line = b0; line < b1 && size < longest;) {
        const at = places[line]!;
        if (at < a0 || at >= a1) {
          line++;
          continue;
        }
        let length = 1;
        while (line + length < b1 && at + length < a1 && places[line + length] === at + length) {
          length++;
        }
        if (length > size) {
          sizeBefore = size;
          size = length;
          beginB = line;
        }
        line += length;
      }
    }
    if (size === 0) {
      if (a0 < a1) changedA.fill(1, a0 + 1, a1 + 1);
      if (b0 < b1) changedB.fill(1, b0 + 1, b1 + 1);
      continue;
    }
    const beginA = places[beginB]!;
    regions.push(a0, beginA, b0, beginB, sizeBefore);
    regions.push(beginA + size, a1, beginB + size, b1, size);
  }
}
