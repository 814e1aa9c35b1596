/** How often each line stands in the texts of a merge, and in what merging gives. */
import type { Layout } from "./layout.ts";
import type { Hunk } from "../text/hunks.ts";

export type Numbers = ReadonlyMap<number, number>;

/** How often each line stands in the texts, by its number without blanks. */
export interface LineCounts {
  readonly base: Numbers;
  readonly other: Numbers;
  readonly side: Numbers;
  readonly result: Numbers;
  /** At least, and at most, as often as merging gives it: of a conflict either side's lines, or both. */
  readonly least: Numbers;
  readonly most: Numbers;
}

export interface Merged {
  readonly keys: Int32Array;
  /** Where in the merged text a hunk begins. */
  readonly starts: ReadonlyMap<Hunk, number>;
  readonly counts: LineCounts;
}

const merged = new WeakMap<Layout, Merged>();

export const numberOf = (counts: Numbers, key: number): number => counts.get(key) ?? 0;

export function countKeys(keys: Int32Array): Map<number, number> {
  const counts = new Map<number, number>();
  for (const key of keys) counts.set(key, numberOf(counts, key) + 1);
  return counts;
}

/** What merging gives, by lines without blanks; of a conflict both sides' lines. */
export function mergedOf(layout: Layout): Merged {
  let found = merged.get(layout);
  if (found) return found;
  const { keys, hunks } = layout;
  const parts: number[] = [];
  const starts = new Map<Hunk, number>();
  const [least, most] = [new Map<number, number>(), new Map<number, number>()];
  const put = (from: Int32Array, first: number, count: number): void => {
    for (let i = first; i < first + count; i++) {
      parts.push(from[i]!);
      for (const counts of [least, most]) counts.set(from[i]!, numberOf(counts, from[i]!) + 1);
    }
  };
  let at = 0;
  for (const hunk of hunks) {
    put(keys.other, at, hunk.ours - at);
    starts.set(hunk, parts.length);
    if (hunk.take === "theirs") put(keys.side, hunk.theirs, hunk.theirsCount);
    else put(keys.other, hunk.ours, hunk.oursCount);
    if (hunk.take === "conflict") {
      const own = countKeys(keys.side.subarray(hunk.theirs, hunk.theirs + hunk.theirsCount));
      const there = countKeys(keys.other.subarray(hunk.ours, hunk.ours + hunk.oursCount));
      for (const [key, n] of there) {
        least.set(key, numberOf(least, key) - n + Math.min(n, numberOf(own, key)));
      }
      for (const [key, n] of own) most.set(key, numberOf(most, key) + n);
      parts.push(...keys.side.subarray(hunk.theirs, hunk.theirs + hunk.theirsCount));
    }
    at = hunk.ours + hunk.oursCount;
  }
  put(keys.other, at, keys.other.length - at);
  found = {
    keys: Int32Array.from(parts),
    starts,
    counts: {
      base: countKeys(keys.base),
      other: countKeys(keys.other),
      side: countKeys(keys.side),
      result: countKeys(keys.result),
      least,
      most,
    },
  };
  merged.set(layout, found);
  return found;
}

/** How often a line stands in the base, with the other side and with the side. */
export const timesIn = (
  { base, other, side }: Pick<LineCounts, "base" | "other" | "side">,
  key: number,
): [base: number, other: number, side: number] => [
  numberOf(base, key),
  numberOf(other, key),
  numberOf(side, key),
];

/** How often a line has to stand there: what one side moved and the other deleted may be gone. */
export function needed(counts: LineCounts, key: number): number {
  const [b, o, s] = timesIn(counts, key);
  return Math.min(numberOf(counts.least, key), Math.max(o + s - b, Math.min(o, s)));
}

/** Whether a line stands in the result as often as both sides' changes together make it. */
export function isEnough(layout: Layout, key: number): boolean {
  const { counts } = mergedOf(layout);
  const [b, o, s] = timesIn(counts, key);
  return numberOf(counts.result, key) >= Math.max(1, o + s - b, Math.min(o, s));
}

/** Whether a line that the side took out stands in the result more often than both sides' changes together make it. */
export function isBackAgain(layout: Layout, key: number): boolean {
  const { counts } = mergedOf(layout);
  const [b, o, s] = timesIn(counts, key);
  return numberOf(counts.result, key) > s + Math.max(0, o - b);
}
