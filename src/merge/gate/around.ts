/** Which of many changes lie at some lines: a merge can have as many places as changes, and looks at each. */
import type { Change } from "../text/diff.ts";
import type { Hunk } from "../text/hunks.ts";

/** Where in changes, which are in order, the first one is that ends at a line of the old text or behind it. */
export function firstFrom(changes: readonly Change[], line: number): number {
  let [low, high] = [0, changes.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    const { at, removed } = changes[middle]!;
    if (at + removed < line) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The changes, in order, that take out or put in lines of the old text within `[from, to]` or next to them. */
export function around(changes: readonly Change[], from: number, to: number): readonly Change[] {
  const first = firstFrom(changes, from);
  let end = first;
  while (end < changes.length && changes[end]!.at <= to) end++;
  return changes.slice(first, end);
}

/** The changes of the base within a hunk or next to it. */
export const aroundHunk = (
  changes: readonly Change[],
  { base, baseCount }: Pick<Hunk, "base" | "baseCount">,
) => around(changes, base, base + baseCount);
