/** Lines of a conflict that the merge laid out anew, known by their words and signs. */
import { type Layout, type Place, slice } from "./layout.ts";
import { runsIn, tokensOf } from "./tokens.ts";
import { type KnownCounts, shared, wordCounts } from "./words.ts";
import type { Lines } from "../text/lines.ts";
import type { Hunk } from "../text/hunks.ts";

/** So many lines of a place are compared with those of a side. */
const COMPARISONS = 40_000;

/** Tells what stands of a line of which the result has no version as it is: see {@link formattedLines}. */
export type FormattedLines = (old: number, line: number, theirs: number | undefined) =>
  | Uint8Array
  | undefined;

/**
 * Where the merge is laid out anew: the other side's version of a line or the old one, if the place has its words and
 * signs one right after the other, and not those of the side's version.
 */
export function formattedLines(
  { base, other, side, result }: Layout,
  hunk: Hunk,
  place: Place,
): FormattedLines {
  const times = (text: Lines, first: number, count: number) =>
    runsIn(tokensOf(slice(text, first, count)));
  let runs: Record<"base" | "other" | "side" | "result", ReturnType<typeof runsIn>> | undefined;
  let left = COMPARISONS;
  let lines: KnownCounts[] | undefined;
  /** Whether a line of the result has the words that the side put in, and half of the others: an edit on top of it. */
  const isThere = (old: Uint8Array, own: Uint8Array): boolean => {
    const before = wordCounts(old);
    const put = [...wordCounts(own)].filter(([word, n]) => n > (before.get(word) ?? 0));
    if (put.length === 0) return false;
    lines ??= Array.from(
      { length: place.to - place.from },
      (_, i) => wordCounts(slice(result, place.from + i, 1)),
    );
    return lines.some((line) => {
      if (left-- <= 0 || put.some(([word, n]) => (line.get(word) ?? 0) < n)) return false;
      const { found, total } = shared(before, line);
      return found * 2 >= total;
    });
  };
  return (old, line, theirs) => {
    runs ??= {
      base: times(base, hunk.base, hunk.baseCount),
      other: times(other, hunk.ours, hunk.oursCount),
      side: times(side, hunk.theirs, hunk.theirsCount),
      result: times(result, place.from, place.to - place.from),
    };
    const own = tokensOf(slice(side, line, 1));
    if (own.length < 2 || runs.result(own) > 0) return undefined;
    if (isThere(slice(base, old, 1), slice(side, line, 1))) return undefined;
    const another = theirs === undefined ? undefined : slice(other, theirs, 1);
    if (another && runs.result(tokensOf(another)) > 0) return another;
    const tokens = tokensOf(slice(base, old, 1));
    const given = runs.side(tokens) - runsIn(own)(tokens) +
      Math.max(0, runs.other(tokens) - runs.base(tokens));
    return runs.result(tokens) > given ? slice(base, old, 1) : undefined;
  };
}
