/**
 * Skip lists in the chains: an old entry is found in few reads, one for each octal digit of its number,
 * and a new one is written after reading the head alone.
 *
 * Every entry names, for each power p of eight, the last eight multiples of p before it. Whoever looks
 * for an older number goes to the smallest name that isn't below it; from there on everything wanted
 * lies within the last eight multiples of the next smaller power.
 *
 *     entry 1337 names   1336 … 1329 │ 1328 1320 1312 … 1280 │ 1216 … 832 │ 512 0
 *     from 1337 to 84    ──▶ 512 ──▶ 128 ──▶ 88 ──▶ 84
 *
 * That is at most 42 names and 6 reads for 100,000 entries: over a network every read is a round trip.
 * The list of an entry follows from that of the one before it. Another client's entries have no list;
 * the next of ours starts a new one at its parent, and readers walk the gap. Any list will do for a
 * reader: it is told where each of its names leads, and checks that.
 */
import type { Oid } from "../git/types.ts";
import type { SkipList } from "./messages.ts";

const BASE = 8;

/** The skip list for the entry that follows `head` (number `n`), whose own list is `list`. */
export function nextSkipList(n: number, head: Oid, list: SkipList | undefined): SkipList {
  const names: SkipList = [[n, head]];
  for (const [number, oid] of list ?? []) {
    // What a stranger wrote is carried on only where it is a list at all.
    if (number >= names.at(-1)![0]) break;
    if (isNamed(number, n)) names.push([number, oid]);
  }
  return names.slice(0, 128);
}

/** Whether the entry after `n` names this number: by the largest power of eight that divides it. */
function isNamed(number: number, n: number): boolean {
  if (number === 0) return true;
  let power = 1;
  while (number % (power * BASE) === 0) power *= BASE;
  return Math.floor(n / power) - number / power < BASE;
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
