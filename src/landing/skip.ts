/**
 * Skip lists in the chains: an old entry is found in O(log n) steps, and a new one is written after
 * reading the head alone.
 *
 * Every entry n names jump(n), jump(jump(n)), … down to 0, where the jumps are those of a skew-binary
 * random access list: if the last two jumps below n-1 span equally far, n jumps over both, else it
 * jumps to n-1. The list of n follows from the list of n-1, holds about 2·log2(n) names, and leads from
 * any entry to any older one in about as many reads.
 *
 *     entry   0   1   2   3   4   5   6   7   8 …
 *     jump    -   0   1   0   3   4   3   0   7 …
 *
 * Another client's entries have no list; the next of ours starts a new one at its parent, and readers
 * walk the gap.
 */
import type { Oid } from "../git/types.ts";
import type { SkipList } from "./messages.ts";

/** The skip list for the entry that follows `head` (number `n`), whose own list is `list`. */
export function nextSkipList(n: number, head: Oid, list: SkipList | undefined): SkipList {
  const first = list?.[0];
  const second = list?.[1];
  if (first && second && n - first[0] === first[0] - second[0]) return list!.slice(1);
  return [[n, head], ...(list ?? [])].slice(0, 128) as SkipList;
}

/** The entry in `list` to go to from entry `n` when looking for `wanted` < n; null: its parent. */
export function jumpTowards(
  list: SkipList | undefined,
  n: number,
  wanted: number,
): { number: number; oid: Oid } | null {
  let best: { number: number; oid: Oid } | null = null;
  for (const [number, oid] of list ?? []) {
    if (number >= wanted && number < n && (best === null || number < best.number)) {
      best = { number, oid };
    }
  }
  return best;
}
