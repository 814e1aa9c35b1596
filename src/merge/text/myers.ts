/**
 * Myers' linear-space diff from both ends, with the three shortcuts git takes: lines without a partner
 * (and frequent lines in their midst) are dropped beforehand, a long diagonal ends an expensive search
 * early, and above a cost limit the furthest point reached is good enough.
 */
import type { LineTables } from "./lines.ts";
import { findSplit, type Split } from "./myers-split.ts";

const MIN_COST_LIMIT = 256;
const MAX_FREQUENT = 1024;
const FREQUENT_WINDOW = 100;
const FREQUENT_RUN = 4;

/** A power of two near the square root. */
function roughRoot(n: number): number {
  let root = 1;
  for (; n > 0; n >>= 2) root <<= 1;
  return root;
}

/**
 * Marks what differs between `a[a0, a1)` and `b[b0, b1)`; the mark of line `i` is at index `i + 1`.
 */
export function myersDiff(
  a: Int32Array,
  a0: number,
  a1: number,
  b: Int32Array,
  b0: number,
  b1: number,
  tables: LineTables,
  changedA: Uint8Array,
  changedB: Uint8Array,
): void {
  // How often a line occurs is counted over the whole region, before its equal ends are cut off.
  const { countA: inA, countB: inB } = tables;
  const [wholeA, wholeB] = [a.subarray(a0, a1), b.subarray(b0, b1)];
  for (let i = a0; i < a1; i++) inA[a[i]!] = inA[a[i]!]! + 1;
  for (let i = b0; i < b1; i++) inB[b[i]!] = inB[b[i]!]! + 1;
  const limitA = Math.min(roughRoot(a1 - a0), MAX_FREQUENT);
  const limitB = Math.min(roughRoot(b1 - b0), MAX_FREQUENT);

  while (a0 < a1 && b0 < b1 && a[a0] === b[b0]) {
    a0++;
    b0++;
  }
  while (a0 < a1 && b0 < b1 && a[a1 - 1] === b[b1 - 1]) {
    a1--;
    b1--;
  }
  const keptA = keepLines(a, a0, a1, inB, limitA, changedA);
  const keptB = keepLines(b, b0, b1, inA, limitB, changedB);
  for (const line of wholeA) inA[line] = 0;
  for (const line of wholeB) inB[line] = 0;
  compare(a, keptA, b, keptB, changedA, changedB);
}

/** The lines worth comparing; the others are marked as changed at once. */
function keepLines(
  lines: Int32Array,
  from: number,
  to: number,
  partners: Int32Array,
  limit: number,
  changed: Uint8Array,
): Int32Array {
  // 0: no partner, 1: some, 2: too many to mean much.
  const kind = new Uint8Array(to - from);
  for (let i = from; i < to; i++) {
    const n = partners[lines[i]!]!;
    kind[i - from] = n === 0 ? 0 : n >= limit ? 2 : 1;
  }
  const kept = new Int32Array(to - from);
  let count = 0;
  for (let i = 0; i < kind.length; i++) {
    if (kind[i] === 1 || (kind[i] === 2 && !amongUnmatched(kind, i))) kept[count++] = from + i;
    else changed[from + i + 1] = 1;
  }
  return kept.subarray(0, count);
}

/** True when the frequent line at `i` stands in a run of mostly unmatched lines. */
function amongUnmatched(kind: Uint8Array, i: number): boolean {
  const low = Math.max(0, i - FREQUENT_WINDOW);
  const high = Math.min(kind.length - 1, i + FREQUENT_WINDOW);
  let none = 0;
  let frequent = 1;
  for (let k = i - 1; k >= low && kind[k] !== 1; k--) {
    if (kind[k] === 0) none++;
    else frequent++;
  }
  if (none === 0) return false;
  let noneAfter = 0;
  let frequentAfter = 1;
  for (let k = i + 1; k <= high && kind[k] !== 1; k++) {
    if (kind[k] === 0) noneAfter++;
    else frequentAfter++;
  }
  if (noneAfter === 0) return false;
  none += noneAfter;
  frequent += frequentAfter;
  return frequent * FREQUENT_RUN < frequent + none;
}

function compare(
  a: Int32Array,
  keptA: Int32Array,
  b: Int32Array,
  keptB: Int32Array,
  changedA: Uint8Array,
  changedB: Uint8Array,
): void {
  const x = new Int32Array(keptA.length);
  const y = new Int32Array(keptB.length);
  for (let i = 0; i < x.length; i++) x[i] = a[keptA[i]!]!;
  for (let i = 0; i < y.length; i++) y[i] = b[keptB[i]!]!;
  const diagonals = x.length + y.length + 3;
  const forward = new Int32Array(diagonals + 1);
  const backward = new Int32Array(diagonals + 1);
  const zero = y.length + 1;
  const costLimit = Math.max(roughRoot(diagonals), MIN_COST_LIMIT);
  const split: Split = { i1: 0, i2: 0, exactBefore: false, exactAfter: false };
  // Boxes still to do: x from, x to, y from, y to, exact.
  const boxes: number[] = [0, x.length, 0, y.length, 0];
  while (boxes.length > 0) {
    const exact = boxes.pop() === 1;
    let y1 = boxes.pop()!;
    let y0 = boxes.pop()!;
    let x1 = boxes.pop()!;
    let x0 = boxes.pop()!;
    while (x0 < x1 && y0 < y1 && x[x0] === y[y0]) {
      x0++;
      y0++;
    }
    while (x0 < x1 && y0 < y1 && x[x1 - 1] === y[y1 - 1]) {
      x1--;
      y1--;
    }
    if (x0 === x1) {
      for (; y0 < y1; y0++) changedB[keptB[y0]! + 1] = 1;
    } else if (y0 === y1) {
      for (; x0 < x1; x0++) changedA[keptA[x0]! + 1] = 1;
    } else {
      findSplit(x, x0, x1, y, y0, y1, forward, backward, zero, exact, costLimit, split);
      const { i1, i2, exactBefore, exactAfter } = split;
      boxes.push(i1, x1, i2, y1, exactAfter ? 1 : 0);
      boxes.push(x0, i1, y0, i2, exactBefore ? 1 : 0);
    }
  }
}
