/**
 * Lines of a conflict that both sides edited, each in its way: what became of either's edit.
 *
 * ```text
 *  a line of the base ─▶ the side's and the other side's version of it
 *    the result has the other side's version (or the old one) as it is
 *      the side changed numbers, and the old ones are gone ────────────▶ answered
 *      the other side did the same, or that and more ──────────────────▶ answered
 *      words that the side put into it stand somewhere in the result,
 *        more often than lines that need them there account for ───────▶ kept
 *      else: words, an operator, or an order that is as it was ────────▶ undone
 *    the result has neither: it was edited by hand ────────────────────▶ not judged here
 * ```
 */
import { around, aroundHunk } from "./around.ts";
import { hasWord, type Layout, type LostHunk, placeOf, SHOWN_LINES, slice } from "./layout.ts";
import { pairsIn } from "./pairs.ts";
import { type BesideLines, linesBeside } from "./beside.ts";
import { keptBeside } from "./kept.ts";
import { type FormattedLines, formattedLines } from "./formatted.ts";
import { isNumberAnswered } from "./numbers.ts";
import { isBackAgain, isEnough } from "./tally.ts";
import { isContained, isWord, mergeTokens, type TokenMerge } from "./tokens.ts";
import { countOf, type Counts, wordCounts } from "./words.ts";
import type { Hunk } from "../text/hunks.ts";

/** The side's edits in a conflict of lines of which the result has the other side's version, or the old one. */
export function undoneEditsOf(layout: Layout, hunk: Hunk): LostHunk[] {
  const { base, other, side, result, keys, changes, otherChanges } = layout;
  const own = pairsIn(base, side, changes, hunk);
  const instead = insteadOf(layout, hunk, own);
  if (own.size === 0 && instead.size === 0) return [];
  const others = pairsIn(base, other, otherChanges, hunk);
  const place = placeOf(layout, hunk);
  const there = new Map<number, number>();
  for (let i = place.from; i < place.to; i++) there.set(keys.result[i]!, i);
  let beside: BesideLines | undefined;
  let formatted: FormattedLines | undefined;

  const undone: LostHunk[] = [];
  for (const [old, line] of [...own, ...instead].sort(([a], [b]) => a - b)) {
    if (isEnough(layout, keys.side[line]!)) continue;
    const isTouched = around(otherChanges, old, old)
      .some(({ at, removed }) => at <= old && old < at + removed);
    const theirs = others.get(old);
    if (isTouched && theirs === undefined) continue;
    const taken = theirs === undefined ? undefined : there.get(keys.other[theirs]!);
    const stands = taken ?? there.get(keys.base[old]!);
    const was = slice(base, old, 1);
    const mine = slice(side, line, 1);
    const now = stands === undefined
      ? (formatted ??= formattedLines(layout, hunk, place))(old, line, theirs)
      : slice(result, stands, 1);
    if (now === undefined) continue;
    beside ??= linesBeside(layout, hunk);
    // Where the side joined lines, or parted them, an old one there tells less.
    const part = around(changes, old, old).find(({ at, removed }) =>
      at <= old && old < at + removed
    );
    const isJoined = part !== undefined && part.removed > part.added;
    const isEven = part !== undefined && part.removed === part.added;
    if (stands === undefined && !isEven) continue;
    const isBack = !isJoined && taken === undefined && stands !== undefined && !isTouched &&
      isBackAgain(layout, keys.base[old]!) &&
      !keys.other.subarray(hunk.ours, hunk.ours + hunk.oursCount).includes(keys.side[line]!);
    if (!isBack && instead.has(old)) continue;
    const texts = [was, now, mine] as const;
    if (!isUndone(layout, hunk, texts, beside, { line, isBack, isEven })) continue;
    undone.push({
      first: line + 1,
      last: line + 1,
      words: wordCounts(texts[2]),
      text: [texts[2]],
      place,
    });
  }
  return together(undone);
}

/** Whether what the side made of a line (`old`) is in no way in the line that stands, nor elsewhere. */
function isUndone(
  layout: Layout,
  hunk: Hunk,
  [old, stands, own]: readonly [Uint8Array, Uint8Array, Uint8Array],
  beside: BesideLines,
  { line, isBack, isEven }: {
    readonly line: number;
    readonly isBack: boolean;
    readonly isEven: boolean;
  },
): boolean {
  if (isNumberAnswered(old, own, stands)) return false;
  const merge = mergeTokens(old, stands, own);
  if (merge === null || isContained(old, stands, own)) return false;
  const [before, after] = [
    wordCounts(slice(layout.base, hunk.base, hunk.baseCount)),
    wordCounts(slice(layout.side, hunk.theirs, hunk.theirsCount)),
  ];
  const alone = { put: new Map() as Counts, removed: new Map() as Counts };
  const both = new Map() as Counts;
  /** What the side has in the place of a word that is gone from there, and that the other side did away with too. */
  let renamed = true;
  let signs = false;
  let order = false;
  for (const part of merge.hunks) {
    if (part.take !== "theirs" && part.take !== "conflict") continue;
    const { put, removed } = partOf(merge, part);
    const gone = removed.filter(isWord);
    renamed &&= !put.some(isWord) || gone.length > 0 &&
        gone.every((word) => !after.has(word) && !merge.other.includes(word));
    for (const token of put) {
      if (!isWord(token)) signs ||= isOperator(merge, part, token);
      else if (countOf(after, token) <= countOf(before, token)) order = true;
      else add(part.take === "theirs" ? alone.put : both, token);
    }
    for (const token of removed) {
      if (!isWord(token)) signs ||= isOperator(merge, part, token);
      else if (countOf(before, token) > countOf(after, token) && isThere(merge, part, token)) {
        add(alone.removed, token);
      }
    }
  }
  if (alone.put.size > 0 || both.size > 0) {
    if (isOrdered(merge) && isList(own)) return false;
    const { words, texts } = layout;
    if (beside.say([...alone.put.keys(), ...both.keys()], old, own)) return false;
    // The line is the old one, more often than both sides' changes make it: the words are another line's.
    if (isBack) return true;
    const stray = (word: string): boolean => countOf(texts.elsewhere(), word) > 0;
    for (const [word, n] of alone.put) {
      const without = Math.max(countOf(words.other, word), countOf(words.side, word) - n);
      if (stray(word) || countOf(words.result, word) > without) return false;
    }
    // Of words that both replaced, either's may go, as long as one of the side's is somewhere.
    const kept = keptBeside(layout, line, wordCounts(old), wordCounts(stands));
    if (kept.has([...both.keys()], renamed)) return false;
    return alone.put.size > 0 || !kept.isReplaced([...both.keys()]);
  }
  if (isBack && isEven && order && !isOrdered(merge)) return true;
  return alone.removed.size > 0 ||
    (isBack && isEven || isOneForOne(layout, hunk)) && (signs || order && !isList(own));
}

/** Lines of the base that the side replaced by as many others, line by line, and that aren't those, edited. */
function insteadOf(
  { base, side, changes }: Layout,
  hunk: Hunk,
  edited: ReadonlyMap<number, number>,
): Map<number, number> {
  const lines = new Map<number, number>();
  const used = new Set(edited.values());
  const end = hunk.base + hunk.baseCount;
  for (const { at, removed, newAt, added } of aroundHunk(changes, hunk)) {
    if (at < hunk.base || at + removed > end || removed !== added) continue;
    for (let i = 0; i < removed; i++) {
      if (edited.has(at + i) || used.has(newAt + i)) continue;
      if (hasWord(base, at + i) && hasWord(side, newAt + i)) lines.set(at + i, newAt + i);
    }
  }
  return lines;
}

/** Tokens that the side put in and took out, without those that stand at either end of both. */
function partOf(
  { base, side }: TokenMerge,
  hunk: Hunk,
): { put: readonly string[]; removed: readonly string[] } {
  const removed = base.slice(hunk.base, hunk.base + hunk.baseCount);
  const put = side.slice(hunk.theirs, hunk.theirs + hunk.theirsCount);
  while (put.length > 0 && put[0] === removed[0]) {
    put.shift();
    removed.shift();
  }
  while (put.length > 0 && put[put.length - 1] === removed[removed.length - 1]) {
    put.pop();
    removed.pop();
  }
  return { put, removed };
}

/** Whether the line that stands has a token of the old one that the side took out. */
const isThere = ({ other }: TokenMerge, hunk: Hunk, token: string): boolean =>
  hunk.take === "theirs" || other.slice(hunk.ours, hunk.ours + hunk.oursCount).includes(token);

/** A sign that computes or compares, and not the one that a line begins with: a bullet, a comment. */
const isOperator = ({ side, base }: TokenMerge, hunk: Hunk, token: string): boolean =>
  hunk.theirs > 0 && hunk.base > 0 && hunk.base < base.length && hunk.theirs < side.length &&
  /[<>=!+\-*/%&|^~?]/.test(token);

/** Both have the same tokens, in another order. */
function isOrdered({ other, side }: TokenMerge): boolean {
  const [one, two] = [other, side].map((list) => [...list].sort());
  return one!.length === two!.length && one!.every((token, i) => token === two![i]);
}

/** A line of names whose order means nothing: imports, exports, classes, anything but arguments. */
const isList = (line: Uint8Array): boolean => {
  const text = String.fromCharCode(...line.subarray(0, 400));
  return !text.includes("(") || /^\s*(import|from|use|using|export|class)\b/.test(text);
};

function isOneForOne({ changes }: Layout, hunk: Hunk): boolean {
  return aroundHunk(changes, hunk).every(({ at, removed, added }) =>
    at + removed <= hunk.base || at >= hunk.base + hunk.baseCount || removed === added
  );
}

/** Lines that follow one another as one. */
function together(lines: readonly LostHunk[]): LostHunk[] {
  const found: LostHunk[] = [];
  for (const line of lines) {
    const last = found[found.length - 1];
    if (last && last.last + 1 === line.first) {
      const words = new Map(last.words);
      for (const [word, n] of line.words) words.set(word, countOf(words, word) + n);
      const text = [...last.text, ...line.text].slice(0, SHOWN_LINES);
      found[found.length - 1] = { ...last, last: line.last, words, text };
    } else found.push(line);
  }
  return found;
}

const add = (counts: Counts, word: string): void => {
  counts.set(word, countOf(counts, word) + 1);
};
