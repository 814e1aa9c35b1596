/**
 * What is lost of lines that a side moved within a file: in a conflict of which such a move is part, a line that
 * the base and both sides have has fewer copies than either side.
 */
import {
  hasWord,
  type Layout,
  type LostHunk,
  type Place,
  placeOf,
  SHOWN_LINES,
  slice,
} from "./layout.ts";
import { aroundHunk } from "./around.ts";
import { freshLines } from "./fresh.ts";
import { isWrittenAnew } from "./lines.ts";
import { isNeeded } from "./undone.ts";
import { countOf, type KnownCounts, shared, wordCounts, wordList } from "./words.ts";
import { countKeys, type LineCounts, numberOf, timesIn } from "./tally.ts";
import type { Change } from "../text/diff.ts";
import type { Hunk } from "../text/hunks.ts";
import type { Lines } from "../text/lines.ts";

/** So many pairs of lines are compared with each other, in a path. */
const COMPARISONS = 200_000;
/** So many lines between the two places of a line that was moved are looked at with it. */
const NEAR = 60;
/** A line that stands more often than this isn't known again at another place. */
const FEW = 3;

/** Lines that a side took out at one place and put in at another. */
interface Moves {
  readonly keys: ReadonlySet<number>;
  /** Lines of the side's text between the two places, and those next to them. */
  readonly between: ReadonlySet<number>;
}

function movesOf(base: Lines, of: Int32Array, own: Int32Array, changes: readonly Change[]): Moves {
  const taken = new Map<number, number[]>();
  const [before, after] = [countKeys(of), countKeys(own)];
  for (const { at, removed, newAt } of changes) {
    for (let i = at; i < at + removed; i++) {
      const n = numberOf(before, of[i]!);
      if (!hasWord(base, i) || n > FEW || n !== numberOf(after, of[i]!)) continue;
      const places = taken.get(of[i]!);
      if (places) places.push(newAt);
      else taken.set(of[i]!, [newAt]);
    }
  }
  const keys = new Set<number>();
  const between = new Set<number>();
  for (const { newAt, added } of changes) {
    for (let i = newAt; i < newAt + added; i++) {
      for (const place of taken.get(own[i]!) ?? []) {
        keys.add(own[i]!);
        const [from, to] = [Math.min(i, place) - 1, Math.max(i, place) + 1];
        if (to - from <= NEAR) { for (let n = from; n <= to; n++) between.add(n); }
        else for (let n = i - 1; n <= i + 1; n++) between.add(n);
      }
    }
  }
  return { keys, between };
}

type Times = Omit<LineCounts, "least" | "most">;

/** Whether lines that were moved were taken from a hunk, or put in there. */
function touches(
  { keys }: Layout,
  moved: ReadonlySet<number>,
  hunk: Hunk,
): boolean {
  const has = (ids: Int32Array, first: number, count: number): boolean =>
    ids.subarray(first, first + count).some((key) => moved.has(key));
  return has(keys.base, hunk.base, hunk.baseCount) ||
    has(keys.side, hunk.theirs, hunk.theirsCount) ||
    has(keys.other, hunk.ours, hunk.oursCount);
}

/** What is lost of lines that a side moved, whatever signs they have: the last of a list gets a comma elsewhere. */
export function shiftedLosses(layout: Layout): LostHunk[] {
  if (!layout.hunks.some(({ take }) => take === "conflict")) return [];
  const numbers = new Map<string, number>();
  const keysOf = (text: Lines): Int32Array =>
    Int32Array.from({ length: text.count }, (_, i) => {
      const key = wordList(slice(text, i, 1)).join(" ");
      let n = numbers.get(key);
      if (n === undefined) numbers.set(key, n = numbers.size);
      return n;
    });
  const { base, other, side, result } = layout;
  const keys = {
    base: keysOf(base),
    other: keysOf(other),
    side: keysOf(side),
    result: keysOf(result),
  };
  const counts = {
    base: countKeys(keys.base),
    other: countKeys(keys.other),
    side: countKeys(keys.side),
    result: countKeys(keys.result),
  };
  const worded = { ...layout, keys };
  return [...movedAway(worded, counts, freshLines(layout).lines), ...movedBack(worded, counts)];
}

/** Conflicts in which the side moved lines: lines that the base and both sides have, and the result doesn't. */
function movedAway(layout: Layout, counts: Times, fresh: readonly KnownCounts[]): LostHunk[] {
  const { base, side, keys, words, hunks, changes } = layout;
  const conflicts = hunks.filter(({ take }) => take === "conflict");
  if (conflicts.length === 0) return [];
  const moved = movesOf(base, keys.base, keys.side, changes);
  if (moved.keys.size === 0) return [];
  const touched = conflicts.filter((hunk) => touches(layout, moved.keys, hunk));
  if (touched.length === 0) return [];
  const wanted = new Set(moved.between);
  for (const { theirs, theirsCount } of touched) {
    for (let i = theirs; i < theirs + theirsCount; i++) wanted.add(i);
  }
  for (let i = 0; i < side.count; i++) if (moved.keys.has(keys.side[i]!)) wanted.add(i);
  const lines = [...wanted].sort((a, b) => a - b).filter((i) => {
    if (i < 0 || i >= side.count || !hasWord(side, i)) return false;
    const key = keys.side[i]!;
    const [b, o, s] = timesIn(counts, key);
    const both = Math.min(o, s, o + s - b);
    if (b === 0 || numberOf(counts.result, key) >= both) return false;
    return [...wordCounts(slice(side, i, 1)).keys()].some((word) =>
      countOf(words.result, word) < Math.min(countOf(words.other, word), countOf(words.side, word))
    );
  });
  if (lines.length === 0) return [];
  let left = COMPARISONS;
  const lost = lines.filter((i) => {
    const own = wordCounts(slice(side, i, 1));
    return !fresh.some((line) => {
      const { found, total } = shared(own, line);
      return left-- <= 0 || found * 2 >= total;
    });
  });
  if (lost.length === 0) return [];
  const gone = new Set(lost.flatMap((i) => [...wordCounts(slice(side, i, 1)).keys()]));
  for (const word of gone) if (words.result.has(word)) gone.delete(word);
  if (touched.some((hunk) => isWrittenAnew(layout, hunk, Math.max(2, gone.size)))) return [];
  return [lostLines(layout, lost, placeOf(layout, touched[0]!))];
}

/** Conflicts in which the other side only moved lines of which the side deleted some, and those are back. */
function movedBack(layout: Layout, counts: Times): LostHunk[] {
  const { base, side, keys, hunks, changes, otherChanges } = layout;
  const conflicts = hunks.filter(({ take }) => take === "conflict");
  if (conflicts.length === 0) return [];
  const moved = movesOf(base, keys.base, keys.other, otherChanges);
  return conflicts.filter((hunk) => touches(layout, moved.keys, hunk)).flatMap((hunk) => {
    for (let i = hunk.ours; i < hunk.ours + hunk.oursCount; i++) {
      if (hasWord(layout.other, i) && numberOf(counts.base, keys.other[i]!) === 0) return [];
    }
    const back: number[] = [];
    for (const { at, removed, newAt, added } of aroundHunk(changes, hunk)) {
      const own = wordCounts(slice(side, newAt, added));
      const from = Math.max(at, hunk.base);
      for (let i = from; i < Math.min(at + removed, hunk.base + hunk.baseCount); i++) {
        const key = keys.base[i]!;
        if (!hasWord(base, i)) continue;
        const [b, o, s, r] = [counts.base, counts.other, counts.side, counts.result].map((of) =>
          numberOf(of, key)
        ) as [number, number, number, number];
        if (s >= b || o !== b || r <= s) continue;
        const { found, total } = shared(wordCounts(slice(base, i, 1)), own);
        if (found * 2 < total && !isNeeded(layout, i)) back.push(i);
      }
    }
    return back.length === 0 ? [] : [{
      first: hunk.theirs + 1,
      last: hunk.theirs + 1,
      words: new Map(),
      text: back.slice(0, SHOWN_LINES).map((i) => slice(base, i, 1)),
      place: placeOf(layout, hunk),
      isBack: true,
    }];
  });
}

/** Lines of the side that are lost at a place, 0-based and rising. */
export function lostLines({ side }: Layout, lines: readonly number[], place: Place): LostHunk {
  const words = new Map<string, number>();
  for (const i of lines) {
    for (const [word, n] of wordCounts(slice(side, i, 1))) {
      words.set(word, countOf(words, word) + n);
    }
  }
  return {
    first: lines[0]! + 1,
    last: lines[lines.length - 1]! + 1,
    words,
    text: lines.slice(0, SHOWN_LINES).map((i) => slice(side, i, 1)),
    place,
  };
}
