/**
 * Edits of one side in a conflict that are undone, line by line.
 *
 * Two sides that edit neighbouring lines are in conflict, though each line has one answer. Where a line that
 * only one side edited is as it was before, and nothing of what the side made of it stands in the result, that
 * side's edit is lost: that the other side brought the same words to its own line is no trace of it. The same
 * holds for the single numbers of lines that differ in numbers only.
 */
import { SHOWN_LINES } from "./gate-hunks.ts";
import type { LostHunk } from "./gate-hunks.ts";
import { hasWord, type Layout, placeOf, slice } from "./gate-layout.ts";
import { inNumbers, numbersOf } from "./gate-numbers.ts";
import { wordCounts } from "./gate-words.ts";
import type { Hunk } from "./text/hunks.ts";

/** The edits of the side that are undone in conflicts. */
export function undoneEdits(layout: Layout): LostHunk[] {
  return layout.aligned.flatMap((hunk) =>
    hunk.take === "conflict" ? [...undoneLines(layout, hunk), ...undoneNumbers(layout, hunk)] : []
  );
}

function undoneLines(layout: Layout, hunk: Hunk): LostHunk[] {
  const { base, side, keys, known, changes, otherChanges } = layout;
  const end = hunk.base + hunk.baseCount;
  const place = placeOf(layout, hunk);
  const there = new Set(keys.result.subarray(place.from, place.to));
  return changes.flatMap(({ at, removed, newAt, added }) => {
    if (removed === 0 || added === 0 || at < hunk.base || at + removed > end) return [];
    const contested = otherChanges.some((other) =>
      other.at < at + removed && other.at + other.removed > at
    );
    if (contested) return [];
    for (let i = at; i < at + removed; i++) {
      if (hasWord(base, i) && !there.has(keys.base[i]!)) return [];
    }
    const lost: number[] = [];
    for (let i = newAt; i < newAt + added; i++) {
      if (!hasWord(side, i) || known.keys.base.has(keys.side[i]!)) continue;
      if (known.keys.result.has(keys.side[i]!)) return [];
      lost.push(i);
    }
    if (lost.length === 0) return [];
    return [{
      first: lost[0]! + 1,
      last: lost[lost.length - 1]! + 1,
      words: wordCounts(slice(side, newAt, added)),
      text: lost.slice(0, SHOWN_LINES).map((i) => slice(side, i, 1)),
      place,
    }];
  });
}

/** A number that only the side changed, and that is the old one again. */
function undoneNumbers(layout: Layout, hunk: Hunk): LostHunk[] {
  if (hunk.baseCount === 0 || !inNumbers(layout, hunk)) return [];
  const place = placeOf(layout, hunk);
  const side = slice(layout.side, hunk.theirs, hunk.theirsCount);
  const [old, other, own, got] = [
    slice(layout.base, hunk.base, hunk.baseCount),
    slice(layout.other, hunk.ours, hunk.oursCount),
    side,
    slice(layout.result, place.from, place.to - place.from),
  ].map(numbersOf) as [string[], string[], string[], string[]];
  if ([other, own, got].some(({ length }) => length !== old.length)) return [];
  const undone = old.some((number, i) =>
    own[i] !== number && other[i] === number && got[i] === number
  );
  if (!undone) return [];
  return [{
    first: hunk.theirs + 1,
    last: hunk.theirs + hunk.theirsCount,
    words: wordCounts(side),
    text: Array.from(
      { length: Math.min(hunk.theirsCount, SHOWN_LINES) },
      (_, i) => slice(layout.side, hunk.theirs + i, 1),
    ),
    place,
  }];
}
