/**
 * Lines that merging gives and that were cut out of the result, whoever wrote them.
 *
 * ```text
 *  the two sides merged, line by line ─▶ compared with the result, blanks aside ─▶ lines gone
 *    in a hunk that was in conflict ───────────────────────────────▶ not judged here
 *    all their words are there (joined, broken, moved in the file) ─▶ kept
 *    half of their words came to other paths ──────────────────────▶ kept: moved
 *    in their place as many new words as a quarter of those lost ──▶ kept: adapted
 *    else ─────────────────────────────────────────────────────────▶ cut out
 * ```
 */
import { Buffer } from "node:buffer";
import { hasWord, type Place, SHOWN_LINES, slice } from "./layout.ts";
import { isImported } from "./imports.ts";
import { withoutBlanks } from "./prepared.ts";
import {
  countOf,
  type Counts,
  type KnownCounts,
  shared,
  wordCounts,
  wordList,
  type WordSource,
} from "./words.ts";
import type { Steps } from "../steps.ts";
import { diffLines } from "../text/diff.ts";
import { alignChanges, joinConflicts, refineConflicts } from "../text/hunks.ts";
import { classifyLines, type Lines, splitLines } from "../text/lines.ts";

/** A stretch of lines cut out: lines of the merged text, 1-based. */
export interface Cut {
  readonly first: number;
  readonly last: number;
  readonly text: readonly Uint8Array[];
  readonly place: Place;
}

/** What stands in the place of lines has fewer words than this share of theirs: it isn't what became of them. */
const INSTEAD = 0.25;
/** So many lines of a place are compared with each other. */
const COMPARISONS = 40_000;
/** The same where one line stands for four or more. */
const INSTEAD_OF_MANY = 0.5;

/** The text that merging gives; of what is in conflict both sides' lines, one after the other. */
export interface Merged {
  readonly text: Uint8Array;
  /** 1 for a line that was in conflict; none were when it isn't given. */
  readonly conflicted?: Uint8Array;
  /** The base and the two sides: with them, what one side deleted and the other only moved isn't missing. */
  readonly sides?: readonly [base: Uint8Array, ours: Uint8Array, theirs: Uint8Array];
}

export function* cutsOf(
  of: Merged | Uint8Array,
  result: Uint8Array,
  elsewhere: () => WordSource,
): Steps<Cut[]> {
  const merged: Merged = of instanceof Uint8Array ? { text: of } : of;
  const [want, have] = [merged.text, result].map(splitLines) as [Lines, Lines];
  const { ids, tables } = classifyLines(
    [merged.text, result, ...merged.sides ?? []].map((text) => splitLines(withoutBlanks(text))),
  );
  const [wanted, got, ...sides] = ids as [Int32Array, Int32Array, ...Int32Array[]];
  const isSettled = (line: number): boolean => merged.conflicted?.[line] !== 1;
  const known = { settled: new Set(wanted.filter((_, i) => isSettled(i))), got: new Set(got) };

  const counts = ids.map((of) => {
    const times = new Map<number, number>();
    for (const id of of) times.set(id, (times.get(id) ?? 0) + 1);
    return (id: number): number => times.get(id) ?? 0;
  }) as [(id: number) => number, (id: number) => number, ...((id: number) => number)[]];
  /** A line that one side deleted, and the other has as often as the base, wherever. */
  const isDeleted = (id: number): boolean => {
    if (sides.length < 3) return false;
    const [old, one, two] = counts.slice(2).map((count) => count(id)) as [number, number, number];
    const fewer = Math.min(one, two);
    return fewer < old && Math.max(one, two) === old && counts[1](id) >= fewer;
  };
  /** A line that merging has too, but not so often, is put in like one that it hasn't. */
  const isPut = (id: number): boolean => !known.settled.has(id) || counts[1](id) > counts[0](id);
  const isOld = (line: number): boolean => known.settled.has(got[line]!);
  let missing: Counts | undefined;
  /** Words that the result has fewer of than the lines out of conflict. */
  const missingWords = (): Counts => {
    const counts: Counts = new Map();
    for (let i = 0; i < want.count; i++) if (isSettled(i)) add(counts, slice(want, i, 1));
    for (const [word, n] of wordCounts(result)) counts.set(word, countOf(counts, word) - n);
    return counts;
  };

  const cuts: Cut[] = [];
  for (const { at, removed, newAt, added } of diffLines(wanted, got, tables, "bounded")) {
    yield;
    const lines: number[] = [];
    const settled: Counts = new Map();
    for (let i = at; i < at + removed; i++) {
      if (!isSettled(i)) add(settled, slice(want, i, 1));
      else if (
        hasWord(want, i) && !known.got.has(wanted[i]!) && !isDeleted(wanted[i]!) &&
        !isImported(slice(want, i, 1), have, isOld)
      ) lines.push(i);
    }
    const put: KnownCounts[] = [];
    for (let i = newAt; i < newAt + added; i++) {
      if (isPut(got[i]!) && hasWord(have, i)) put.push(wordCounts(slice(have, i, 1)));
    }
    const cut = withoutAdapted(lines, (i) => wordCounts(slice(want, i, 1)), put);
    if (cut.length === 0) continue;
    missing ??= missingWords();
    const lost: Counts = new Map();
    const gone = cut.filter((i) => {
      const before = total(lost);
      for (const word of wordList(slice(want, i, 1))) {
        if (countOf(lost, word) < countOf(missing!, word)) lost.set(word, countOf(lost, word) + 1);
      }
      return total(lost) > before;
    });
    const words = total(lost);
    if (words === 0) continue;
    // Settling a conflict may do away with a line beside it.
    const touches = [...Array(removed + 2).keys()].some((i) => !isSettled(at - 1 + i));
    if (touches && gone.length === 1) continue;
    const instead: Counts = new Map();
    let newLines = 0;
    for (const line of put) {
      for (const [word, n] of line) instead.set(word, countOf(instead, word) + n);
      const like = shared(line, settled);
      if (like.found * 2 < like.total) newLines++;
    }
    const share = newLines * 4 <= gone.length ? INSTEAD_OF_MANY : INSTEAD;
    if (total(instead) - shared(instead, settled).found >= words * share) continue;
    if (shared(lost, elsewhere()).found * 2 >= words) continue;
    cuts.push({
      first: gone[0]! + 1,
      last: gone[gone.length - 1]! + 1,
      text: gone.slice(0, SHOWN_LINES).map((i) => slice(want, i, 1)),
      place: { from: newAt, to: newAt + added },
    });
  }
  return cuts;
}

/**
 * The lines for which none of those put in stands, adapted: half of whose words are the line's, a third of the line's
 * at least, with one that the line hasn't.
 */
function withoutAdapted(
  lines: readonly number[],
  wordsOf: (line: number) => KnownCounts,
  put: readonly KnownCounts[],
): number[] {
  if (lines.length * put.length > COMPARISONS) return [...lines];
  const left = new Set(put);
  return lines.filter((line) => {
    const words = wordsOf(line);
    for (const one of left) {
      const { found, total } = shared(one, words);
      if (found * 2 < total || found === total || found * 3 < shared(words, words).total) continue;
      left.delete(one);
      return false;
    }
    return true;
  });
}

/** Two sides' texts merged, whatever is in conflict. */
export function mergedText(base: Uint8Array, ours: Uint8Array, theirs: Uint8Array): Merged {
  const lines = [base, ours, theirs].map(splitLines) as [Lines, Lines, Lines];
  const { ids, tables } = classifyLines(lines);
  const [old, one, two] = ids as [Int32Array, Int32Array, Int32Array];
  const aligned = alignChanges(
    diffLines(old, one, tables, "bounded"),
    diffLines(old, two, tables, "bounded"),
    one,
    two,
    old.length,
  );
  const parts: Uint8Array[] = [];
  const conflicted: number[] = [];
  const put = (text: Lines, first: number, count: number, conflict = false): void => {
    for (let i = first; i < first + count; i++) {
      const line = slice(text, i, 1);
      parts.push(line[line.length - 1] === 10 ? line : Buffer.concat([line, Buffer.from("\n")]));
      conflicted.push(conflict ? 1 : 0);
    }
  };
  let at = 0;
  for (const hunk of joinConflicts(refineConflicts(aligned, one, two, tables, "bounded"))) {
    const conflict = hunk.take === "conflict";
    put(lines[1], at, hunk.ours - at);
    if (hunk.take !== "theirs") put(lines[1], hunk.ours, hunk.oursCount, conflict);
    if (hunk.take === "theirs" || conflict) put(lines[2], hunk.theirs, hunk.theirsCount, conflict);
    at = hunk.ours + hunk.oursCount;
  }
  put(lines[1], at, lines[1].count - at);
  return {
    text: Buffer.concat(parts),
    conflicted: Uint8Array.from(conflicted),
    sides: [base, ours, theirs],
  };
}

function add(counts: Counts, data: Uint8Array): void {
  for (const word of wordList(data)) counts.set(word, countOf(counts, word) + 1);
}

function total(counts: Counts): number {
  let sum = 0;
  for (const n of counts.values()) sum += n;
  return sum;
}
