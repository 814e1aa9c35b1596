/**
 * The hunks of a merge, one by one: which of a side's are gone from the result, and where in the result
 * they belong.
 */
import {
  hasWord,
  type Layout,
  layOut,
  linesOf,
  type LostHunk,
  type Place,
  placeOf,
  SHOWN_LINES,
  slice,
} from "./layout.ts";
import { around } from "./around.ts";
import { countOf, type Counts, wordCounts } from "./words.ts";
import { countedLosses } from "./counted.ts";
import { doubledLines } from "./doubled.ts";
import { bringsNames, isAnswered, isBase } from "./answers.ts";
import { isNameImported } from "./imports.ts";
import { droppedLines, isWrittenAnew } from "./lines.ts";
import { inNumbers, numberedLines } from "./numbers.ts";
import { relaidLosses } from "./relaid.ts";
import { trimmedLines } from "./trimmed.ts";
import { vanishedLines } from "./vanished.ts";
import { undoneDeletions, undoneEdits } from "./undone.ts";
import type { Texts } from "./survival.ts";
import type { Steps } from "../steps.ts";
import type { Hunk } from "../text/hunks.ts";

/** The hunks of one side that were lost; or just those asked for, which only that side made. */
export function* lostHunks(
  texts: Texts,
  isAsked?: (hunk: Hunk) => boolean,
): Steps<LostHunk[]> {
  const layout = layOut(texts);
  if (isAsked) {
    const lost: LostHunk[] = [];
    for (const hunk of layout.hunks) {
      yield;
      if (hunk.take === "theirs" && isAsked(hunk)) lost.push(...lostOf(layout, hunk));
    }
    const counted = yield* countedLosses(layout, isAsked);
    return [...lost, ...counted.filter((one) => !isToldOf(lost, one))];
  }
  const back = yield* undoneDeletions(layout);
  const told: LostHunk[] = [];
  for (const hunk of layout.hunks) {
    yield;
    told.push(...lostOf(layout, hunk));
  }
  const size = ({ first, last }: LostHunk): number => last - first;
  for (const edit of (yield* undoneEdits(layout)).sort((a, b) => size(b) - size(a))) {
    if (!isToldOf(told, edit)) told.push(edit);
  }
  for (const one of yield* countedLosses(layout)) {
    if (one.isBack) back.push(one);
    else if (!isToldOf(told, one)) told.push(one);
  }
  for (const one of yield* vanishedLines(layout)) if (!isToldOf(told, one)) told.push(one);
  for (const one of yield* trimmedLines(layout)) if (!isToldOf(told, one)) told.push(one);
  yield;
  for (const one of relaidLosses(layout)) if (!isToldOf(told, one)) told.push(one);
  yield;
  for (const one of doubledLines(layout)) if (!isToldOf(back, one)) back.push(one);
  return [...told, ...back];
}

function lostOf(layout: Layout, hunk: Hunk): LostHunk[] {
  if (hunk.take !== "theirs" && hunk.take !== "conflict" || isAnswered(layout, hunk)) return [];
  if (isLost(layout, hunk)) return [lostAt(layout, hunk)];
  const dropped = runs(droppedLines(layout, hunk));
  if (dropped.length === 0) return [];
  const place = placeOf(layout, hunk);
  return dropped.map(({ first, count }) => ({
    ...lostAt(layout, { ...hunk, theirs: first, theirsCount: count }, place),
    text: Array.from(
      { length: Math.min(count, SHOWN_LINES) },
      (_, i) => slice(layout.side, first + i, 1),
    ),
  }));
}

/** The edits of the side that are undone in conflicts, missing by count, or in their old layout, and nothing else of what it changed. */
export function* undoneLines(texts: Texts): Steps<LostHunk[]> {
  const layout = layOut(texts);
  const lost = yield* undoneEdits(layout);
  const more = [
    ...yield* countedLosses(layout),
    ...yield* vanishedLines(layout),
    ...yield* trimmedLines(layout),
    ...relaidLosses(layout),
    ...doubledLines(layout),
  ];
  return [...lost, ...more.filter((one) => !isToldOf(lost, one))];
}

const isToldOf = (lost: readonly LostHunk[], { first, last }: LostHunk): boolean =>
  lost.some((one) => one.first <= first && one.last >= last);

function isLost(layout: Layout, hunk: Hunk): boolean {
  if (hunk.take === "theirs") return isUndone(layout, hunk);
  return inNumbers(layout, hunk)
    ? isBase(layout, hunk)
    : isOverruled(layout, hunk) || isAgreedGone(layout, hunk);
}

/** Numbers that follow one another taken together. */
function runs(lines: readonly number[]): { first: number; count: number }[] {
  const found: { first: number; count: number }[] = [];
  for (const line of lines) {
    const last = found[found.length - 1];
    if (last && last.first + last.count === line) last.count++;
    else found.push({ first: line, count: 1 });
  }
  return found;
}

/** Where in the result those of a side's hunks belong that aren't there as the side has them. */
export function missingPlaces(texts: Texts): Place[] {
  const layout = layOut(texts);
  return layout.hunks
    .filter((hunk) => {
      if (hunk.take !== "theirs" && hunk.take !== "conflict") return false;
      const { missing, back } = linesOf(layout, hunk);
      return missing.length > 0 || back.length > 0;
    })
    .map((hunk) => lostAt(layout, hunk).place);
}

/** A hunk that only the side changed: the other side's lines are what the base has. */
function isUndone(layout: Layout, hunk: Hunk): boolean {
  if (bringsNames(layout, hunk)) return false;
  const from = hunk.ours;
  const to = from + hunk.oursCount;
  const touched = around(layout.edits, from, to).length > 0;
  if (!touched && isUntouched(layout, hunk)) return true;

  const lines = linesOf(layout, hunk);
  const { removed, back } = lines;
  const renumbered = lines.missing.length > 0 ? numberedLines(layout, hunk) : new Set<number>();
  const missing = lines.missing.filter((line) => !renumbered.has(line));
  const present = lines.present + renumbered.size;
  if (missing.length === 0 && present > 0) return false;
  // Lines that had to go, and did nothing else, are all back.
  if (missing.length === 0) return removed.length > 0 && back.length === removed.length;
  const lost: Counts = new Map();
  for (const line of missing) {
    for (const [word, n] of wordCounts(slice(layout.side, line, 1))) {
      lost.set(word, countOf(lost, word) + n);
    }
  }
  const trace = hasTrace(layout, lost);
  if (trace === true) return false;
  // Nothing was replaced: what was put in is gone, and something else stands beside its place.
  if (removed.length === 0) return present === 0 && trace === false;
  return present === 0 ? back.length === removed.length : back.length > 0;
}

/** The place shows exactly the old lines, and none of the new ones stand anywhere. */
function isUntouched({ ids, known, side, other }: Layout, hunk: Hunk): boolean {
  let added = 0;
  for (let i = hunk.theirs; i < hunk.theirs + hunk.theirsCount; i++) {
    if (!hasWord(side, i) || known.ids.other.has(ids.side[i]!)) continue;
    if (known.ids.result.has(ids.side[i]!)) return false;
    added++;
  }
  // Nothing but lines that are there anyway (or blank): nothing to miss, unless lines had to go.
  if (added > 0) return true;
  for (let i = hunk.ours; i < hunk.ours + hunk.oursCount; i++) {
    if (hasWord(other, i) && !known.ids.side.has(ids.other[i]!)) return true;
  }
  return false;
}

/** A conflict: the other side's lines were taken as they are, and nothing new of the side's is anywhere. */
function isOverruled(layout: Layout, hunk: Hunk): boolean {
  const { rewrites, words, side } = layout;
  const from = hunk.ours;
  const to = from + hunk.oursCount;
  const rewritten = around(rewrites, from, to).some(({ at, removed }) =>
    removed === 0
      ? at > from && at < to || from === to && at === from
      : at < to && at + removed > from
  );
  const brought: Counts = new Map();
  for (let i = hunk.theirs; i < hunk.theirs + hunk.theirsCount; i++) {
    if (hunk.baseCount === 0 && isNameImported(layout, i)) continue;
    for (const [word, n] of wordCounts(slice(side, i, 1))) {
      if (words.base.has(word) || words.other.has(word)) continue;
      brought.set(word, countOf(brought, word) + n);
    }
  }
  return hasTrace(layout, brought) === false &&
    !(rewritten && isWrittenAnew(layout, hunk, Math.max(1, brought.size)));
}

/** A conflict in which both sides brought the same new words, to lines of their own, and none of them is anywhere. */
function isAgreedGone(layout: Layout, hunk: Hunk): boolean {
  const { words, texts } = layout;
  const other = wordCounts(slice(layout.other, hunk.ours, hunk.oursCount));
  const agreed = [...wordCounts(slice(layout.side, hunk.theirs, hunk.theirsCount)).keys()]
    .filter((word) => other.has(word) && !words.base.has(word));
  return agreed.length > 0 &&
    agreed.every((word) => !words.result.has(word) && countOf(texts.elsewhere(), word) === 0) &&
    !isWrittenAnew(layout, hunk, agreed.length);
}

/**
 * Whether any of these words of the side's, in so far as it brought them, is in the result after all, beyond
 * what the rest of the text has of it; undefined when it brought none of them.
 */
function hasTrace({ words, texts }: Layout, lost: Counts): boolean | undefined {
  let brought = false;
  for (const [word, n] of lost) {
    const more = countOf(words.side, word) - countOf(words.base, word);
    if (more <= 0) continue;
    brought = true;
    const without = countOf(words.other, word) + more - n;
    if (countOf(words.result, word) > Math.max(0, without)) return true;
    if (countOf(texts.elsewhere(), word) > 0) return true;
  }
  return brought ? false : undefined;
}

function lostAt(layout: Layout, hunk: Hunk, place = placeOf(layout, hunk)): LostHunk {
  return {
    first: hunk.theirs + 1,
    last: hunk.theirs + Math.max(1, hunk.theirsCount),
    words: wordCounts(slice(layout.side, hunk.theirs, hunk.theirsCount)),
    text: missingText(layout, hunk),
    place,
  };
}

function missingText({ side, keys, known }: Layout, hunk: Hunk): Uint8Array[] {
  const text: Uint8Array[] = [];
  const end = hunk.theirs + hunk.theirsCount;
  for (let i = hunk.theirs; i < end && text.length < SHOWN_LINES; i++) {
    if (hasWord(side, i) && !known.keys.result.has(keys.side[i]!)) text.push(slice(side, i, 1));
  }
  return text;
}
