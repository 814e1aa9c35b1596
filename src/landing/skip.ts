/**
 * Skip lists in the chains: an old entry is found in two reads behind 131,072 others and in three behind
 * a million, and a new one is written after reading the head alone. Over a network every read is a round
 * trip, and what lies close to what was asked for comes along with it (chain.ts): so names lead to every
 * eighth entry, and only the newest are named one by one.
 *
 *     every entry      `skip`    those since the last multiple of 8, of these since the last of 256, of
 *                                256 since the last of 4096; the last 32 multiples of 4096, of 65536, …
 *     multiples of     `block`   every eighth of the 4096 before it
 *     4096
 *
 *     entry 9999 names 9998 … 9993 │ 9992 … 9736 │ 9728 … 8448 │ 8192 4096 0
 *     from 9999 to 84  ──▶ 4096 ──▶ 88, and with it 87 … 84
 *
 * That is 51 names in the middle for 100,000 entries. The list of an entry follows from that of the one
 * before it, the block from the lists of its multiples of 256. Another client's entries have no list; the
 * next of ours goes on with the last one there is close by, else it starts at its parent, and readers walk
 * the gap. Any list will do for a reader: it is told where each of its names leads, and checks that.
 */
import type { Oid } from "../git/types.ts";
import type { SkipList } from "./messages.ts";

/** What lies less than this before an entry needs no name of its own: it comes along. */
export const NEAR = 8;
/** So many entries have the names of every eighth in the last one's list. */
const PART = 256;
/** So many in the list of the entry behind them. */
const BLOCK = 4096;
/** Blocks are named as digits are: so many in the next larger unit, */
const BASE = 16;
/** and so many of each unit. */
const BLOCKS = 32;
/** Longer lists are no entry's. */
export const MAX_SKIP_NAMES = 128;
export const MAX_BLOCK_NAMES = 1024;

/** The skip list for the entry that follows `head` (number `n`), whose own list is `list`. */
export function nextSkipList(n: number, head: Oid, list: SkipList | undefined): SkipList {
  const names: SkipList = [[n, head]];
  for (const [number, oid] of list ?? []) {
    // What a stranger wrote is carried on only where it is a list at all.
    if (number >= names.at(-1)![0]) break;
    if (isNamed(number, n)) names.push([number, oid]);
  }
  return names.slice(0, MAX_SKIP_NAMES);
}

/** Whether the entry after `n` names this number. */
function isNamed(number: number, n: number): boolean {
  if (number === 0) return true;
  const since = (unit: number) => number >= n - n % unit;
  if (number % NEAR !== 0) return since(NEAR);
  if (number % PART !== 0) return since(PART);
  if (number % BLOCK !== 0) return since(BLOCK);
  let unit = BLOCK;
  while (number % (unit * BASE) === 0) unit *= BASE;
  return Math.floor(n / unit) - number / unit < BLOCKS;
}

/**
 * The entries whose lists say what the block behind entry `n` holds, besides its own list, `skip`: none
 * where there is no block.
 */
export function blockParts(n: number, skip: SkipList): Oid[] {
  if (n === 0 || n % BLOCK !== 0) return [];
  return skip.filter(([number]) => number % PART === 0 && number > n - BLOCK && number < n)
    .map(([, oid]) => oid);
}

/** The block behind entry `n`: what `skip` doesn't name itself, from the lists of its parts. */
export function blockList(
  n: number,
  skip: SkipList,
  parts: readonly (SkipList | undefined)[],
): SkipList {
  const own = new Set(skip.map(([number]) => number));
  const names = new Map<number, Oid>();
  for (const list of parts) {
    for (const [number, oid] of list ?? []) {
      const isInside = number % NEAR === 0 && number >= n - BLOCK && number < n;
      if (isInside && !own.has(number)) names.set(number, oid);
    }
  }
  return [...names].sort(([a], [b]) => b - a);
}

/** The entry in `lists` to go to from entry `n` when looking for `wanted` < n; null: its parent. */
export function jumpTowards(
  lists: readonly (SkipList | undefined)[],
  n: number,
  wanted: number,
): { number: number; oid: Oid } | null {
  let best: { number: number; oid: Oid } | null = null;
  for (const list of lists) {
    for (const [number, oid] of list ?? []) {
      if (number >= wanted && number < n && (best === null || number < best.number)) {
        best = { number, oid };
      }
    }
  }
  return best;
}
