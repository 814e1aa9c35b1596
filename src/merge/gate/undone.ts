/**
 * What one side did in a conflict, the other left alone, and the result undoes, line by line.
 *
 * Two sides that edit neighbouring lines are in conflict, though each line has one answer. Where a line that
 * only one side edited is as it was before, and nothing of what the side made of it stands in the result, that
 * side's edit is lost: that the other side brought the same words to its own line is no trace of it. The same
 * holds for the single numbers of lines that differ in numbers only.
 */
import { around, aroundHunk } from "./around.ts";
import { type BesideLines, linesBeside } from "./beside.ts";
import { undoneEditsOf } from "./edits.ts";
import type { Change } from "../text/diff.ts";
import { hasWord, type Layout, type LostHunk, placeOf, SHOWN_LINES, slice } from "./layout.ts";
import { inNumbers, numbersOf } from "./numbers.ts";
import { pairsIn } from "./pairs.ts";
import { isBackAgain, isEnough, mergedOf, timesIn } from "./tally.ts";
import { tokensOf } from "./tokens.ts";
import { countOf, type Counts, shared, wordCounts, wordList } from "./words.ts";
import type { Steps } from "../steps.ts";
import type { Hunk } from "../text/hunks.ts";

/** The edits of the side that are undone in conflicts. */
export function* undoneEdits(layout: Layout): Steps<LostHunk[]> {
  const undone: LostHunk[] = [];
  for (const hunk of layout.aligned) {
    if (hunk.take !== "conflict") continue;
    yield;
    undone.push(
      ...undoneLines(layout, hunk),
      ...undoneNumbers(layout, hunk),
      ...undoneEditsOf(layout, hunk),
    );
  }
  return undone;
}

/** Deletions of the side that are undone in conflicts. */
export function* undoneDeletions(layout: Layout): Steps<LostHunk[]> {
  const undone: LostHunk[] = [];
  for (const hunk of layout.aligned) {
    if (hunk.take !== "conflict") continue;
    yield;
    undone.push(...undeletedLines(layout, hunk));
  }
  return undone;
}

/** The side's changes in a hunk of lines that the other side left alone. */
function uncontested({ changes, otherChanges }: Layout, hunk: Hunk): Change[] {
  const end = hunk.base + hunk.baseCount;
  return aroundHunk(changes, hunk).filter(({ at, removed }) =>
    removed > 0 && at >= hunk.base && at + removed <= end &&
    !around(otherChanges, at, at + removed).some((other) =>
      other.at < at + removed && other.at + other.removed > at
    )
  );
}

function undoneLines(layout: Layout, hunk: Hunk): LostHunk[] {
  const { base, side, keys, known } = layout;
  const place = placeOf(layout, hunk);
  const there = new Set(keys.result.subarray(place.from, place.to));
  let beside: BesideLines | undefined;
  let pairs: ReadonlyMap<number, number> | undefined;
  /** Whether lines beside them say what the side put into lines. */
  const isSaid = (at: number, removed: number, newAt: number, added: number): boolean => {
    const [old, own] = [slice(base, at, removed), slice(side, newAt, added)];
    const before = wordCounts(old);
    const put = [...wordCounts(own)].filter(([word, n]) => n > countOf(before, word));
    beside ??= linesBeside(layout, hunk);
    return beside.say(put.map(([word]) => word), old, own);
  };
  return uncontested(layout, hunk).flatMap(({ at, removed, newAt, added }) => {
    for (let i = at; i < at + removed; i++) {
      if (hasWord(base, i) && !there.has(keys.base[i]!)) return [];
    }
    let lost: number[] = [];
    let isPartly = false;
    for (let i = newAt; i < newAt + added; i++) {
      if (!hasWord(side, i)) continue;
      // An equal line of the base's tells nothing by itself; and a comma more, as its other lines have it, is layout.
      if (known.keys.base.has(keys.side[i]!) && isSaidBefore(layout, at, removed, i)) continue;
      if (isEnough(layout, keys.side[i]!)) isPartly = true;
      else lost.push(i);
    }
    if (isPartly) {
      // What it put in beside an edited line is there: of that line alone it is known that it is the old one.
      pairs ??= new Map(
        [...pairsIn(base, side, layout.changes, hunk)].map(([old, own]) => [own, old]),
      );
      lost = lost.filter((own) => {
        const old = pairs!.get(own);
        return old !== undefined && isBackAgain(layout, keys.base[old]!) &&
          isOfSigns(layout, old, own);
      });
    }
    if (lost.length === 0 || !isPartly && isSaid(at, removed, newAt, added)) return [];
    return [{
      first: lost[0]! + 1,
      last: lost[lost.length - 1]! + 1,
      words: wordCounts(slice(side, newAt, added)),
      text: lost.slice(0, SHOWN_LINES).map((i) => slice(side, i, 1)),
      place,
    }];
  });
}

/** Whether an edit changed signs alone, more than brackets and commas: no word of it can stand anywhere. */
function isOfSigns({ base, side }: Layout, old: number, own: number): boolean {
  const texts = [slice(base, old, 1), slice(side, own, 1)] as const;
  const [before, after] = texts.map((text) => wordList(text).join(" "));
  return before === after && !isSameTokens(...texts);
}

/** Whether a line of the side's says what one of the base's lines there says, in other brackets and commas. */
function isSaidBefore(
  { base, side }: Layout,
  at: number,
  removed: number,
  line: number,
): boolean {
  const own = slice(side, line, 1);
  for (let i = at; i < at + removed; i++) if (isSameTokens(slice(base, i, 1), own)) return true;
  return false;
}

const isSameTokens = (one: Uint8Array, other: Uint8Array): boolean =>
  tokensOf(one).join(" ") === tokensOf(other).join(" ");

/**
 * Lines of a conflict that the side deleted, that the other side left alone, and that are back. To delete lines or
 * to edit them is a question with two answers: there the other side's is one.
 */
function undeletedLines(layout: Layout, hunk: Hunk): LostHunk[] {
  const { base, side, keys } = layout;
  const place = placeOf(layout, hunk);
  const there = new Set(keys.result.subarray(place.from, place.to));
  return uncontested(layout, hunk).flatMap(({ at, removed, newAt, added }) => {
    const left: Counts = new Map(wordCounts(slice(side, newAt, added)));
    const deleted: number[] = [];
    for (let i = at; i < at + removed; i++) {
      if (!hasWord(base, i) || !isBackAgain(layout, keys.base[i]!)) continue;
      const words = wordCounts(slice(base, i, 1));
      const { found, total } = shared(words, left);
      if (found * 2 < total) deleted.push(i);
      else for (const [word, n] of words) left.set(word, Math.max(0, countOf(left, word) - n));
    }
    const back = deleted.filter((i) => there.has(keys.base[i]!) && !isNeeded(layout, i));
    if (back.length === 0) return [];
    return [{
      first: newAt + 1,
      last: newAt + 1,
      words: new Map(),
      text: back.slice(0, SHOWN_LINES).map((i) => slice(base, i, 1)),
      place,
      isBack: true,
    }];
  });
}

/**
 * Whether the other side uses what a line of the base is about, its rarest words, more than the base: an import. That
 * it has the very same line elsewhere is no use of it.
 */
export function isNeeded(layout: Layout, line: number): boolean {
  const { base, words, keys } = layout;
  const own = wordCounts(slice(base, line, 1));
  const all = [...own.keys()];
  const [before, after] = timesIn(mergedOf(layout).counts, keys.base[line]!);
  const rarest = Math.min(...all.map((word) => countOf(words.base, word)));
  return all.some((word) =>
    countOf(words.base, word) === rarest &&
    countOf(words.other, word) > rarest + Math.max(0, after - before) * countOf(own, word)
  );
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
