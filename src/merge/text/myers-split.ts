/**
 * The heart of Myers' linear-space diff: where a box of two sequences is cut in two. The search goes
 * from both ends until the paths meet, or gives way to a good cut where it becomes expensive.
 */
const MIN_COST_FOR_DIAGONAL = 256;
const DIAGONAL_LENGTH = 20;
const DIAGONAL_FACTOR = 4;
const FAR = 0x7fffffff;

/** Filled in by {@link findSplit}. */
export interface Split {
  i1: number;
  i2: number;
  /** Whether the part before (after) the split still has to be searched exhaustively. */
  exactBefore: boolean;
  exactAfter: boolean;
}

/** Finds where the shortest path (or a good one) through the box can be cut in two. */
export function findSplit(
  x: Int32Array,
  x0: number,
  x1: number,
  y: Int32Array,
  y0: number,
  y1: number,
  forward: Int32Array,
  backward: Int32Array,
  zero: number,
  exact: boolean,
  costLimit: number,
  split: Split,
): void {
  const dmin = x0 - y1;
  const dmax = x1 - y0;
  const fmid = x0 - y0;
  const bmid = x1 - y1;
  const odd = ((fmid - bmid) & 1) !== 0;
  let fmin = fmid, fmax = fmid, bmin = bmid, bmax = bmid;
  forward[zero + fmid] = x0;
  backward[zero + bmid] = x1;

  for (let cost = 1;; cost++) {
    let longDiagonal = false;
    if (fmin > dmin) forward[zero + --fmin - 1] = -1;
    else ++fmin;
    if (fmax < dmax) forward[zero + ++fmax + 1] = -1;
    else --fmax;
    for (let d = fmax; d >= fmin; d -= 2) {
      const below = forward[zero + d - 1]!;
      const above = forward[zero + d + 1]!;
      let i = below >= above ? below + 1 : above;
      const start = i;
      let j = i - d;
      while (i < x1 && j < y1 && x[i] === y[j]) {
        i++;
        j++;
      }
      if (i - start > DIAGONAL_LENGTH) longDiagonal = true;
      forward[zero + d] = i;
      if (odd && bmin <= d && d <= bmax && backward[zero + d]! <= i) {
        split.i1 = i;
        split.i2 = j;
        split.exactBefore = split.exactAfter = true;
        return;
      }
    }

    if (bmin > dmin) backward[zero + --bmin - 1] = FAR;
    else ++bmin;
    if (bmax < dmax) backward[zero + ++bmax + 1] = FAR;
    else --bmax;
    for (let d = bmax; d >= bmin; d -= 2) {
      const below = backward[zero + d - 1]!;
      const above = backward[zero + d + 1]!;
      let i = below < above ? below : above - 1;
      const start = i;
      let j = i - d;
      while (i > x0 && j > y0 && x[i - 1] === y[j - 1]) {
        i--;
        j--;
      }
      if (start - i > DIAGONAL_LENGTH) longDiagonal = true;
      backward[zero + d] = i;
      if (!odd && fmin <= d && d <= fmax && i <= forward[zero + d]!) {
        split.i1 = i;
        split.i2 = j;
        split.exactBefore = split.exactAfter = true;
        return;
      }
    }

    if (exact) continue;

    if (longDiagonal && cost > MIN_COST_FOR_DIAGONAL) {
      let best = 0;
      for (let d = fmax; d >= fmin; d -= 2) {
        const i = forward[zero + d]!;
        const j = i - d;
        const gain = (i - x0) + (j - y0) - Math.abs(d - fmid);
        if (
          gain > DIAGONAL_FACTOR * cost && gain > best && x0 + DIAGONAL_LENGTH <= i && i < x1 &&
          y0 + DIAGONAL_LENGTH <= j && j < y1
        ) {
          for (let k = 1; x[i - k] === y[j - k]; k++) {
            if (k === DIAGONAL_LENGTH) {
              best = gain;
              split.i1 = i;
              split.i2 = j;
              break;
            }
          }
        }
      }
      if (best > 0) {
        split.exactBefore = true;
        split.exactAfter = false;
        return;
      }
      for (let d = bmax; d >= bmin; d -= 2) {
        const i = backward[zero + d]!;
        const j = i - d;
        const gain = (x1 - i) + (y1 - j) - Math.abs(d - bmid);
        if (
          gain > DIAGONAL_FACTOR * cost && gain > best && x0 < i && i <= x1 - DIAGONAL_LENGTH &&
          y0 < j && j <= y1 - DIAGONAL_LENGTH
        ) {
          for (let k = 0; x[i + k] === y[j + k]; k++) {
            if (k === DIAGONAL_LENGTH - 1) {
              best = gain;
              split.i1 = i;
              split.i2 = j;
              break;
            }
          }
        }
      }
      if (best > 0) {
        split.exactBefore = false;
        split.exactAfter = true;
        return;
      }
    }

    if (cost >= costLimit) {
      let reachedForward = -1, atForward = -1;
      for (let d = fmax; d >= fmin; d -= 2) {
        let i = Math.min(forward[zero + d]!, x1);
        let j = i - d;
        if (y1 < j) {
          i = y1 + d;
          j = y1;
        }
        if (reachedForward < i + j) {
          reachedForward = i + j;
          atForward = i;
        }
      }
      let reachedBackward = FAR, atBackward = FAR;
      for (let d = bmax; d >= bmin; d -= 2) {
        let i = Math.max(x0, backward[zero + d]!);
        let j = i - d;
        if (j < y0) {
          i = y0 + d;
          j = y0;
        }
        if (i + j < reachedBackward) {
          reachedBackward = i + j;
          atBackward = i;
        }
      }
      if (x1 + y1 - reachedBackward < reachedForward - (x0 + y0)) {
        split.i1 = atForward;
        split.i2 = reachedForward - atForward;
        split.exactBefore = true;
        split.exactAfter = false;
      } else {
        split.i1 = atBackward;
        split.i2 = reachedBackward - atBackward;
        split.exactBefore = false;
        split.exactAfter = true;
      }
      return;
    }
  }
}
