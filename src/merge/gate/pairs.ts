/** Which lines of a text are which lines of another, edited. */
import { aroundHunk } from "./around.ts";
import { hasWord, slice } from "./layout.ts";
import { type KnownCounts, shared, wordCounts } from "./words.ts";
import type { Change } from "../text/diff.ts";
import type { Hunk } from "../text/hunks.ts";
import type { Lines } from "../text/lines.ts";

/** Lines that share less of their words aren't one line edited. */
const LIKE = 0.4;
/** So many lines of a change are compared with each other. */
const COMPARISONS = 40_000;

/** Lines of the base in the hunk, and which line of the text each of them became. */
export function pairsIn(
  base: Lines,
  text: Lines,
  changes: readonly Change[],
  hunk: Pick<Hunk, "base" | "baseCount">,
): Map<number, number> {
  const end = hunk.base + hunk.baseCount;
  const pairs = new Map<number, number>();
  for (const { at, removed, newAt, added } of aroundHunk(changes, hunk)) {
    if (at < hunk.base || at + removed > end || removed * added > COMPARISONS) continue;
    const words = (from: Lines, first: number, count: number): KnownCounts[] =>
      Array.from({ length: count }, (_, i) => wordCounts(slice(from, first + i, 1)));
    const [old, now] = [words(base, at, removed), words(text, newAt, added)];
    const found: { i: number; j: number; like: number }[] = [];
    old.forEach((one, i) => {
      if (!hasWord(base, at + i)) return;
      now.forEach((two, j) => {
        const { found: n, total } = shared(one, two);
        const like = 2 * n / (total + shared(two, two).total);
        if (like >= LIKE) found.push({ i, j, like });
      });
    });
    const place = ({ i, j }: { i: number; j: number }): number => Math.abs(i * added - j * removed);
    found.sort((a, b) => b.like - a.like || place(a) - place(b));
    const used = new Set<number>();
    for (const { i, j } of found) {
      if (pairs.has(at + i) || used.has(j)) continue;
      pairs.set(at + i, newAt + j);
      used.add(j);
    }
  }
  return new Map([...pairs].sort(([a], [b]) => a - b));
}
