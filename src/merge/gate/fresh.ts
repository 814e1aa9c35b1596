/** Lines of a merge's result that none of the versions merged has. */
import { hasWord, isFresh, type Layout, slice } from "./layout.ts";
import { type KnownCounts, wordCounts } from "./words.ts";

export interface FreshLines {
  /** The words of each that has any. */
  readonly lines: readonly KnownCounts[];
  /** The words of two or more that follow one another: a line may have been broken into several. */
  readonly runs: readonly KnownCounts[];
}

const known = new WeakMap<Layout, FreshLines>();

/** The fresh lines of the whole result, looked for once. */
export function freshLines(layout: Layout): FreshLines {
  let found = known.get(layout);
  if (found) return found;
  const { result } = layout;
  const lines: KnownCounts[] = [];
  const runs: KnownCounts[] = [];
  for (let i = 0; i < result.count; i++) {
    const first = i;
    for (; i < result.count && isFresh(layout, i); i++) {
      if (hasWord(result, i)) lines.push(wordCounts(slice(result, i, 1)));
    }
    if (i - first > 1) runs.push(wordCounts(slice(result, first, i - first)));
  }
  known.set(layout, found = { lines, runs });
  return found;
}
