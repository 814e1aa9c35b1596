/**
 * Lines that a side put in and that are gone from the result, whatever else of the side's is in it.
 *
 * ```text
 *  it stands in the result, or the other side has it, often enough ─▶ kept
 *  a base line that the side edited (one for one) ──────────────────▶ judged with its hunk
 *  another number for the same name ────────────────────────────────▶ kept
 *  one of the words that only this side brought is there ───────────▶ kept: reworded, joined, moved
 *  its place has it with a new word, or as many words that are new ─▶ kept: adapted, written anew
 *  else ────────────────────────────────────────────────────────────▶ dropped
 * ```
 */
import { hasWord, isFresh, type Layout, placeOf, slice } from "./layout.ts";
import { bareText, ownCount } from "./written.ts";
import { isNameImported } from "./imports.ts";
import { type NumberedLines, numberedLines } from "./numbers.ts";
import { shortLines } from "./short.ts";
import { countKeys, isEnough } from "./tally.ts";
import {
  countOf,
  type Counts,
  countWords,
  isJoining,
  type KnownCounts,
  shared,
  wordCounts,
  wordList,
} from "./words.ts";
import type { Change } from "../text/diff.ts";
import type { Hunk } from "../text/hunks.ts";

/** Lines are compared with each other at most so often in a hunk: past that, none is another's like. */
const COMPARISONS = 200_000;

/** Lines of the side's text in the hunk, 0-based, that it put in and of which the result has nothing. */
export function droppedLines(layout: Layout, hunk: Hunk): number[] {
  const { keys, known, side } = layout;
  const putIn = putInBySide(layout);
  const beside = besideHunk(layout, hunk);
  let there: Map<number, number> | undefined;
  /** Of equal lines as many are there as stand at the place. */
  const isThere = (key: number): boolean => {
    if (!known.keys.result.has(key)) return false;
    if (isEnough(layout, key)) return true;
    const { from, to } = placeOf(layout, hunk);
    there ??= countKeys(keys.result.subarray(from, to));
    const n = there.get(key) ?? 0;
    there.set(key, n - 1);
    return n > 0;
  };
  const short = shortLines(layout, hunk);
  const dropped: number[] = [];
  for (let i = hunk.theirs; i < hunk.theirs + hunk.theirsCount; i++) {
    const key = keys.side[i]!;
    const isShort = short.has(i);
    if (!isShort && (known.keys.other.has(key) || !hasWord(side, i) || isThere(key))) continue;
    const words = wordCounts(slice(side, i, 1));
    const how = putIn(i);
    if (how === null || beside.numbered().has(i)) continue;
    if (isNameImported(layout, i)) continue;
    const isLost = isShort
      ? how === "alone" && !beside.isAdapted(words) && !beside.isSaid(words)
      : isGone(layout, words, how, beside);
    if (isLost) dropped.push(i);
  }
  if (dropped.length === 0) return [];
  const lost = new Set(dropped.flatMap((i) => [...wordCounts(slice(side, i, 1)).keys()]));
  for (const word of lost) {
    if (layout.words.base.has(word) || layout.words.other.has(word)) lost.delete(word);
  }
  // A single new word can be a mere remark.
  return isWrittenAnew(layout, hunk, Math.max(2, lost.size)) ? [] : dropped;
}

/** A line where none was, or one in place of others that it has little in common with. */
type PutIn = "alone" | "instead";

/** Tells lines that the side put in from base lines that it edited. To be asked about lines in order. */
function putInBySide(layout: Layout): (line: number) => PutIn | null {
  let next = 0;
  let change: Change | undefined;
  let edited: EditedLines = { lines: new Set(), all: false };
  return (line) => {
    const { changes } = layout;
    while (next < changes.length && changes[next]!.newAt + changes[next]!.added <= line) next++;
    const found = changes[next];
    if (!found || found.newAt > line) return null;
    if (found.removed === 0) return "alone";
    if (found !== change) edited = editedLines(layout, found);
    change = found;
    if (edited.lines.has(line)) return null;
    return edited.all ? "alone" : "instead";
  };
}

interface EditedLines {
  /** Lines of the side's text that are lines of the base, edited. */
  readonly lines: ReadonlySet<number>;
  /** Each of the base's lines there is one of them: the other lines came beside them. */
  readonly all: boolean;
}

/**
 * The lines of a change that edit what it replaces: half of their words are words of the base's lines there. Each
 * word of the base is used once, by the line most alike, so that of several lines that came beside one of the base
 * only one is that line.
 */
function editedLines({ base, side }: Layout, change: Change): EditedLines {
  const replaced = wordCounts(slice(base, change.at, change.removed));
  const left: Counts = new Map(replaced);
  const same = new Map<string, number>();
  let count = 0;
  for (let i = change.at; i < change.at + change.removed; i++) {
    const words = wordList(slice(base, i, 1)).join(" ");
    if (words !== "") count++;
    same.set(words, (same.get(words) ?? 0) + 1);
  }
  const lines = new Set<number>();
  const use = (line: number, words: KnownCounts): void => {
    lines.add(line);
    for (const [word, n] of words) left.set(word, Math.max(0, countOf(left, word) - n));
  };
  const others: { line: number; words: KnownCounts; likeness: number }[] = [];
  for (let line = change.newAt; line < change.newAt + change.added; line++) {
    const list = wordList(slice(side, line, 1));
    const words = countWords(list);
    const key = list.join(" ");
    const n = same.get(key) ?? 0;
    if (n > 0) {
      same.set(key, n - 1);
      use(line, words);
      continue;
    }
    const { found, total } = shared(words, replaced);
    if (found * 2 >= total) others.push({ line, words, likeness: found / Math.max(1, total) });
  }
  others.sort((a, b) => b.likeness - a.likeness || a.line - b.line);
  for (const { line, words } of others) {
    const { found, total } = shared(words, left);
    if (found * 2 >= total) use(line, words);
  }
  return { lines, all: lines.size >= count };
}

/** Whether the result, put together of all else that both sides have, would have these words no less. */
function isGone(layout: Layout, own: KnownCounts, how: PutIn, beside: BesideHunk): boolean {
  const { words, texts } = layout;
  const all = [...own].map(([word, n]) => {
    const before = countOf(words.base, word);
    const there = countOf(words.other, word);
    const after = countOf(words.side, word);
    return {
      word,
      isNew: before === 0 && there === 0 && !isJoining(word),
      // What the other side does away with is no evidence: it may have got another name.
      isMore: there >= before && after > there,
      without: Math.max(0, there + after - before - n),
    };
  });
  const fresh = all.filter(({ isNew }) => isNew);
  const brought = fresh.length > 0 || how === "instead" ? fresh : all.filter((one) => one.isMore);
  if (brought.length === 0) return false;
  const trace = brought.some(({ word, without }) =>
    countOf(words.result, word) > without && ownCount(layout, word, own) > without ||
    countOf(texts.elsewhere(), word) > 0
  );
  if (trace || beside.isAdapted(own)) return false;
  // What the other side does away with needn't be said, nor any word twice: `self.port = port` is a field, `port: int`.
  const meant = all.filter(({ word }) => countOf(words.other, word) >= countOf(words.base, word));
  if (beside.isAdapted(new Map(meant.map(({ word }) => [word, 1])))) return false;
  return fresh.length > 0 || !beside.isSaid(own);
}

interface BesideHunk {
  /** Whether a line that nobody had stands at the place, and is this one with some other, new words. */
  isAdapted(words: KnownCounts): boolean;
  /**
   * Whether the other side put in, at the same place, a line with mostly these words, and it is there: with all of
   * them, or with none but them. What has another word in a word's place is something else.
   */
  isSaid(words: KnownCounts): boolean;
  /** Lines of the side's that give a name another number than the result does. */
  numbered(): NumberedLines;
}

function besideHunk(layout: Layout, hunk: Hunk): BesideHunk {
  const { keys, known, other, result } = layout;
  let left = COMPARISONS;
  const alike = (words: KnownCounts, lines: readonly KnownCounts[]): boolean => {
    for (const line of lines) {
      if (left <= 0) return false;
      left--;
      const { found, total } = shared(words, line);
      if (found * 2 >= total) return true;
    }
    return false;
  };
  const adapted = once(() => {
    const { from, to } = placeOf(layout, hunk);
    const lines: KnownCounts[] = [];
    for (let i = from; i < to; i++) {
      if (!isFresh(layout, i)) continue;
      if (newWords(layout, i, i + 1).size > 0) lines.push(wordCounts(slice(result, i, 1)));
    }
    return lines;
  });
  const isSaidAt = (i: number): boolean =>
    i < hunk.ours + hunk.oursCount && known.keys.result.has(keys.other[i]!) &&
    !known.keys.base.has(keys.other[i]!);
  /** Lines that the other side put in, and up to three of them together. */
  const said = once(() => {
    const lines: KnownCounts[] = [];
    const groups: KnownCounts[] = [];
    for (let i = hunk.ours; i < hunk.ours + hunk.oursCount; i++) {
      if (!isSaidAt(i)) continue;
      lines.push(wordCounts(slice(other, i, 1)));
      for (let n = 2; n <= 3 && isSaidAt(i + n - 1); n++) {
        groups.push(wordCounts(slice(other, i, n)));
      }
    }
    return { lines, groups };
  });
  return {
    isAdapted: (words) => alike(words, adapted()),
    isSaid: (words) => {
      const { lines, groups } = said();
      const same = lines.filter((line) =>
        isWithin(words, line) || isWithin(line, words) || isDated(words, line)
      );
      return alike(words, [...same, ...groups.filter((group) => isJoined(words, group))]);
    },
    numbered: once(() => numberedLines(layout, hunk)),
  };
}

/** Whether all of these words are among those, whatever joins them. */
function isWithin(words: KnownCounts, those: KnownCounts): boolean {
  for (const word of words.keys()) if (!those.has(word) && !isJoining(word)) return false;
  return true;
}

/** Whether those are these words, in several lines, and at most half as many others. */
const isJoined = (words: KnownCounts, those: KnownCounts): boolean =>
  isWithin(words, those) && shared(those, those).total <= 1.5 * shared(words, words).total;

/** Whether a third of these words at most is not among those, numbers all: a heading with another day. */
function isDated(words: KnownCounts, those: KnownCounts): boolean {
  const { found, total } = shared(words, those);
  if (found * 3 < total * 2) return false;
  return [...words.keys()].every((word) => those.has(word) || /^\d+$/.test(word));
}

function once<T>(make: () => T): () => T {
  let made: { value: T } | undefined;
  return () => (made ??= { value: make() }).value;
}

/** Whether the hunk's place has so many words that none of the versions merged has. */
export function isWrittenAnew(layout: Layout, hunk: Hunk, lost: number): boolean {
  const { from, to } = placeOf(layout, hunk);
  return newWords(layout, from, to).size >= lost;
}

/** Words of lines `[from, to)` of the result that none of the versions merged has. */
function newWords({ words, result, texts }: Layout, from: number, to: number): Set<string> {
  const isKnown = (word: string) =>
    words.base.has(word) || words.other.has(word) || words.side.has(word);
  const found = new Set(wordCounts(slice(result, from, to - from)).keys());
  for (const word of found) if (isKnown(word)) found.delete(word);
  if (found.size === 0 || texts.written === undefined) return found;
  // Of lines that nobody copied.
  const own = new Set<string>();
  const written = texts.written();
  for (let i = from; i < to; i++) {
    const line = slice(result, i, 1);
    const fresh = [...wordCounts(line).keys()].filter((word) => found.has(word));
    if (fresh.length > 0 && !written.has(bareText(line))) {
      for (const word of fresh) own.add(word);
    }
  }
  return own;
}
