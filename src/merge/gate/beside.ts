/**
 * Lines of a conflict that are no lines of the base, edited, but stand beside them: what a side made of a line may
 * stand there instead.
 */
import { isFresh, type Layout, placeOf, slice } from "./layout.ts";
import { pairsIn } from "./pairs.ts";
import { isJoining, type KnownCounts, shared, wordCounts } from "./words.ts";
import type { Hunk } from "../text/hunks.ts";

/** So many pairs of lines of a hunk are compared with each other. */
const COMPARISONS = 40_000;

export interface BesideLines {
  /**
   * Whether they say what a side put into a line (`put`, of the words of `own`), of which `old` was made: lines that
   * nobody had (and that are none of the other side's, adapted), with all those words and one that is new there; or lines that the other side put in, up to three
   * together, with all words of the line, as mere words of it are in any other line.
   */
  say(put: readonly string[], old: Uint8Array, own: Uint8Array): boolean;
}

export function linesBeside(layout: Layout, hunk: Hunk): BesideLines {
  const { base, other, result, keys, known, texts, otherChanges } = layout;
  const edited = new Set(pairsIn(base, other, otherChanges, hunk).values());
  const made = texts.prepared.diff("loose", texts.base, texts.result);
  const ofBase = new Set(pairsIn(base, result, made, hunk).values());
  const { from, to } = placeOf(layout, hunk);
  const isPut = (i: number): boolean =>
    i < hunk.ours + hunk.oursCount && !edited.has(i) && !known.keys.base.has(keys.other[i]!);
  const isPutIn = (i: number): boolean => isPut(i) && known.keys.result.has(keys.other[i]!);
  const gone: KnownCounts[] = [];
  for (let i = hunk.ours; i < hunk.ours + hunk.oursCount; i++) {
    if (isPut(i) && !isPutIn(i)) gone.push(wordCounts(slice(other, i, 1)));
  }
  let left = COMPARISONS;
  /** Whether a line is one that the other side put in, with what this side made of another. */
  const isAdapted = (line: KnownCounts): boolean => {
    const at = gone.findIndex((words) => {
      const { found, total } = shared(words, line);
      return left-- > 0 && total > 0 && found * 2 >= total;
    });
    if (at >= 0) gone.splice(at, 1);
    return at >= 0;
  };
  const fresh = new Set<string>();
  for (let i = from; i < to; i++) {
    if (ofBase.has(i) || !isFresh(layout, i)) continue;
    const words = wordCounts(slice(result, i, 1));
    if (!isAdapted(words)) { for (const word of words.keys()) fresh.add(word); }
  }
  const groups: KnownCounts[] = [];
  for (let i = hunk.ours; i < hunk.ours + hunk.oursCount; i++) {
    for (let n = 1; n <= 3 && isPutIn(i + n - 1); n++) groups.push(wordCounts(slice(other, i, n)));
  }
  return {
    say(put, old, own) {
      const words = put.filter((word) => !isJoining(word));
      if (words.length === 0) return false;
      const before = wordCounts(old);
      if (words.every((word) => fresh.has(word)) && words.some((word) => !before.has(word))) {
        return true;
      }
      const all = [...wordCounts(own).keys()].filter((word) => !isJoining(word));
      const size = shared(wordCounts(own), wordCounts(own)).total;
      return groups.some((group) =>
        all.every((word) => group.has(word)) && shared(group, group).total <= 1.5 * size
      );
    },
  };
}
