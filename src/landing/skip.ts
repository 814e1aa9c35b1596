/**
 * Skip lists in the chains: an old entry is found in two reads behind 131,072 others and in three behind
 * a million, and a new one is written after reading the head alone. Over a network every read is a round
 * trip, and what lies close to what was asked for comes along with it (chain.ts): so names lead to every
 * sixteenth entry, and only the newest are named one by one.
 *
 *     every entry      `skip`    those since the last multiple of 16, of these since the last of 256, of
 *                                these since the last of 4096; the last 32 multiples of 4096, of 65536, …
 *     multiples of     `block`   every sixteenth of the 4096 before it
 *     4096
 *
 *     entry 9999 names 9998 … 9985 │ 9984 │ 9728 … 8448 │ 8192 4096 0
 *     from 9999 to 84  ──▶ 4096 ──▶ 96, and with it 95 … 84
 *
 * That is 47 names in the middle for 100,000 entries. The list of an entry follows from that of the one
 * before it, the block from the lists of its multiples of 256. Another client's entries have no list; the
 * next of ours goes on with the last one there is close by, else it starts at its parent, and readers walk
 * the gap. Any list will do for a reader: it is told where each of its names leads, and checks that.
 */
import type { Oid } from "../git/types.ts";
import type { SkipList } from "./messages.ts";

/** A power of this is a digit. */
const BASE = 16;
/** So many entries have their names in one list, every sixteenth of them. */
const BLOCK = BASE ** 3;
/** Multiples of {@link BLOCK} and more that an entry names. */
const BLOCKS = 32;
/** Longer lists are no entry's. */
export const MAX_SKIP_NAMES = 128;
export const MAX_BLOCK_NAMES = 512;

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

/** Whether the entry after `n` names this number: by the largest power of sixteen that divides it. */
function isNamed(number: number, n: number): boolean {
  if (number === 0) return true;
  let power = 1;
  while (number % (power * BASE) === 0) power *= BASE;
  if (power >= BLOCK) return Math.floor(n / power) - number / power < BLOCKS;
  return number >= n - n % (power * BASE);
}

/**
 * The entries whose lists say what the block behind entry `n` holds, besides its own list, `skip`: none
 * where there is no block.
 */
export function blockParts(n: number, skip: SkipList): Oid[] {
  if (n === 0 || n % BLOCK !== 0) return [];
  return skip.filter(([number]) => number % BASE ** 2 === 0 && number > n - BLOCK && number < n)
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
      const isInside = number % BASE === 0 && number >= n - BLOCK && number < n;
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
