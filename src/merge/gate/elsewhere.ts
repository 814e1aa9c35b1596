/**
 * Lines that a merge moved to other paths, as code moves between files.
 *
 * ```text
 *  a line missing at the path judged
 *    └─ among the lines that other paths got: most of its own words, in one line or neighbouring ones ─▶ there
 *       but for files that the merge puts in and that
 *         hold half of what stands at the path (f.orig), or are a patch ──────────────────────────▶ left over
 *         hold the lines of one parent's version of the path, and no others (f.theirs) ────────────▶ left over
 *         come with one parent's version whole, or the old one ───────────────────────────────────▶ left over
 * ```
 */
import { Buffer } from "node:buffer";
import type { ObjectReader } from "../../git/types.ts";
import { sameVersion, type Version } from "../entry.ts";
import { textOf } from "./texts.ts";
import { countOf, type Counts, shared, wordList } from "./words.ts";
import { splitLines } from "../text/lines.ts";
import type { Difference } from "../tree-paths.ts";

/** A path of a merge of which lines may have moved. */
export interface MovedFrom {
  /** Its names, in the merge and by merging. */
  readonly paths: ReadonlySet<string>;
  readonly base: Version;
  /** Whose lines are looked for. */
  readonly sides: readonly Version[];
  readonly result: Version;
}

/** So many lines that share a rare word with a missing one are looked at. */
const CANDIDATES = 64;
/** Of one path so many are compared: past that, none stands elsewhere. */
const COMPARISONS = 200_000;
/** Lines elsewhere may say so much more than the one missing: in files that are new, and in others. */
const MORE = { inNew: 1.5, inOld: 2.5 };

interface Added {
  readonly path: string;
  readonly isNew: boolean;
  /** Words of the file's lines that have any, and which of them it is. */
  readonly file: readonly (readonly string[])[];
  readonly at: number;
}

/** Tells which words of a path's missing lines stand in lines that other paths got. */
export function linesElsewhere(
  db: ObjectReader,
  baseOf: (path: string) => Version,
): (from: MovedFrom, changes: readonly Difference[]) => Counts {
  const known = new Map<readonly Difference[], AddedLines>();
  return (from, changes) => {
    const missing = missingLines(db, from);
    if (missing.size === 0) return new Map();
    let added = known.get(changes);
    if (!added) known.set(changes, added = addedLines(db, changes, baseOf));
    return standing(db, from, missing, added);
  };
}

interface AddedLines {
  readonly lines: readonly Added[];
  /** Lines by word, in order. */
  readonly byWord: ReadonlyMap<string, readonly number[]>;
  /** Words that each path got, and how many times more often than before. */
  readonly gained: ReadonlyMap<string, { readonly words: Counts; readonly isNew: boolean }>;
  /** Of a file that is new: its lines. */
  newFile(path: string): ReadonlySet<string>;
}

/** A line that was deleted in its file and is back there has come from nowhere else: it is not among them. */
function addedLines(
  db: ObjectReader,
  changes: readonly Difference[],
  baseOf: (path: string) => Version,
): AddedLines {
  const lines: Added[] = [];
  const byWord = new Map<string, number[]>();
  const texts = new Map<string, Set<string>>();
  const gained = new Map<string, { words: Counts; isNew: boolean }>();
  for (const { path, left, right } of changes) {
    if (textOf(db, right) === null) continue;
    const isNew = left.mode === 0;
    const file = splitWords(db, right);
    if (isNew && isPatch(db, right)) continue;
    if (isNew) texts.set(path, new Set(file.map(keyOf)));
    const more = counted(file.flat());
    const there = lineCounts(file);
    const before = new Map<string, number>();
    for (const words of splitWords(db, left)) {
      before.set(keyOf(words), (before.get(keyOf(words)) ?? 0) + 1);
      for (const word of words) more.set(word, countOf(more, word) - 1);
    }
    const old = isNew ? [] : splitWords(db, baseOf(path));
    for (const [key, n] of lineCounts(old)) {
      const back = Math.min(n, there.get(key) ?? 0) - (before.get(key) ?? 0);
      if (back <= 0) continue;
      before.set(key, (before.get(key) ?? 0) + back);
      for (const word of key.split(" ")) more.set(word, countOf(more, word) - back);
    }
    gained.set(path, { words: more, isNew });
    file.forEach((words, at) => {
      const n = before.get(keyOf(words)) ?? 0;
      if (n > 0) return void before.set(keyOf(words), n - 1);
      for (const word of new Set(words)) {
        const list = byWord.get(word);
        if (list) list.push(lines.length);
        else byWord.set(word, [lines.length]);
      }
      lines.push({ path, isNew, file, at });
    });
  }
  return { lines, byWord, gained, newFile: (path) => texts.get(path) ?? new Set() };
}

/** Lines of the sides' that the result lacks: their words, and how often each is missing. */
function missingLines(
  db: ObjectReader,
  { sides, result }: MovedFrom,
): Map<string, { words: Counts; times: number }> {
  const there = new Set(splitWords(db, result).map(keyOf));
  const missing = new Map<string, { words: Counts; times: number }>();
  for (const side of sides) {
    const times = new Map<string, number>();
    for (const words of splitWords(db, side)) {
      const key = keyOf(words);
      if (there.has(key)) continue;
      const n = (times.get(key) ?? 0) + 1;
      times.set(key, n);
      const known = missing.get(key);
      if (!known) missing.set(key, { words: counted(words), times: 1 });
      else known.times = Math.max(known.times, n);
    }
  }
  return missing;
}

function standing(
  db: ObjectReader,
  { paths, base, sides, result }: MovedFrom,
  missing: ReadonlyMap<string, { words: Counts; times: number }>,
  { lines, byWord, gained, newFile }: AddedLines,
): Counts {
  const known = counted(splitWords(db, base).flat());
  const isWhole = result.mode !== 0 && [base, ...sides].some((side) => sameVersion(side, result));
  const resultLines = splitWords(db, result).map(keyOf);
  const parents = [base, ...sides].map((side) => new Set(splitWords(db, side).map(keyOf)));
  const copies = new Map<string, boolean>();
  const isCopy = (path: string): boolean => {
    let found = copies.get(path);
    if (found === undefined) {
      const text = newFile(path);
      const same = resultLines.filter((line) => text.has(line)).length;
      found = same > 0 && same * 2 >= resultLines.length ||
        parents.some((lines) => lines.size === text.size && [...lines].every((l) => text.has(l)));
      copies.set(path, found);
    }
    return found;
  };
  const counts = (path: string, isNew: boolean): boolean =>
    !paths.has(path) && !(isNew && (isWhole || isCopy(path)));

  let left = COMPARISONS;
  const found: Counts = new Map();
  for (const { words, times } of missing.values()) {
    const own = [...words.keys()].filter((word) => !known.has(word));
    const wanted = own.length > 0 ? own : [...words.keys()];
    const candidates = wanted.map((word) => byWord.get(word) ?? [])
      .filter((list) => list.length > 0)
      .sort((a, b) => a.length - b.length).slice(0, 3).flatMap((list) => list.slice(0, CANDIDATES));
    const isThere = candidates.some((i) =>
      left-- > 0 && counts(lines[i]!.path, lines[i]!.isNew) && standsAt(lines[i]!, words, wanted)
    );
    if (!isThere) continue;
    for (const [word, n] of words) found.set(word, countOf(found, word) + n * times);
  }
  const places = [...gained].filter(([path, { isNew }]) => counts(path, isNew));
  for (const [word, n] of found) {
    const room = places.reduce((sum, [, got]) => sum + Math.max(0, countOf(got.words, word)), 0);
    found.set(word, Math.min(n, room));
  }
  return found;
}

/** Whether a line has it, by itself or with the lines next to it. */
function standsAt(
  { file, at, isNew }: Added,
  words: Counts,
  wanted: readonly string[],
): boolean {
  const size = sum(words);
  const limit = size * (isNew ? MORE.inNew : MORE.inOld);
  for (const [before, after] of [[0, 0], [1, 0], [0, 1], [1, 1]] as const) {
    const together = file.slice(Math.max(0, at - before), at + after + 1).flat();
    if (together.length > limit) continue;
    const counts = counted(together);
    const own = wanted.filter((word) => counts.has(word)).length;
    if (own * 2 > wanted.length && shared(words, counts).found * 2 >= size) return true;
  }
  return false;
}

const sum = (counts: Counts): number => [...counts.values()].reduce((n, more) => n + more, 0);

/** The words of each line that has any; of what is no text, none. */
function splitWords(db: ObjectReader, version: Version): readonly (readonly string[])[] {
  const text = textOf(db, version);
  if (text === null) return [];
  const { starts, count } = splitLines(text);
  const lines: string[][] = [];
  for (let i = 0; i < count; i++) {
    const words = wordList(text.subarray(starts[i], starts[i + 1]));
    if (words.length > 0) lines.push(words);
  }
  return lines;
}

const plain = (data: Uint8Array | null): string =>
  data ? Buffer.from(data.buffer, data.byteOffset, data.length).toString("latin1") : "";

const keyOf = (words: readonly string[]): string => words.join(" ");

function lineCounts(lines: readonly (readonly string[])[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const words of lines) counts.set(keyOf(words), (counts.get(keyOf(words)) ?? 0) + 1);
  return counts;
}

function counted(words: readonly string[]): Counts {
  const counts: Counts = new Map();
  for (const word of words) counts.set(word, countOf(counts, word) + 1);
  return counts;
}

/** A diff is a record of work, and no place for it. */
const isPatch = (db: ObjectReader, version: Version): boolean =>
  /^@@ -\d+(,\d+)? \+\d+(,\d+)? @@/m.test(plain(textOf(db, version)));
