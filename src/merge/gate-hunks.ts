/**
 * The hunks of a merge, one by one: which of a side's are gone from the result, and where in the result
 * they belong.
 */
import { Buffer } from "node:buffer";
import { type Change, diffLines } from "./text/diff.ts";
import { alignChanges, type Hunk, joinConflicts, refineConflicts } from "./text/hunks.ts";
import { classifyLines, type Lines, splitLines } from "./text/lines.ts";
import { countOf, type Counts, differInNumbers, wordCounts } from "./gate-words.ts";
import type { Texts } from "./survival.ts";

/** Lines `[from, to)` of a result, 0-based. */
export interface Place {
  readonly from: number;
  readonly to: number;
}

/** A place where work was lost: lines of the side's text, 1-based, and their words. */
export interface LostHunk {
  readonly first: number;
  readonly last: number;
  readonly words: Counts;
  /** Where it belongs in the result. */
  readonly place: Place;
}

/** Four texts of one path laid side by side; in hunks `ours` is the other side and `theirs` the side. */
interface Layout {
  readonly texts: Texts;
  readonly base: Lines;
  readonly other: Lines;
  readonly side: Lines;
  /** Numbers of whole lines, and of lines without their blanks. */
  readonly ids: { readonly other: Int32Array; readonly side: Int32Array };
  readonly keys: { readonly other: Int32Array; readonly side: Int32Array; result: Int32Array };
  readonly known: { readonly ids: Sets; readonly keys: Sets };
  /** As they lie, and with conflicts made small as they are shown. */
  readonly aligned: readonly Hunk[];
  readonly hunks: readonly Hunk[];
  /** What the result made of the other side's text: by whole lines, and by lines without blanks. */
  readonly edits: readonly Change[];
  readonly rewrites: readonly Change[];
  readonly words: Record<"base" | "other" | "side" | "result", Counts>;
}

interface Sets {
  readonly other: ReadonlySet<number>;
  readonly side: ReadonlySet<number>;
  readonly result: ReadonlySet<number>;
}

function layOut(texts: Texts): Layout {
  const data = [texts.base, texts.other, texts.side, texts.result];
  const lines = data.map(splitLines) as [Lines, Lines, Lines, Lines];
  const exact = classifyLines(lines);
  const loose = classifyLines(data.map((text) => splitLines(withoutBlanks(text))));
  const [base, other, side, result] = exact.ids as [Int32Array, Int32Array, Int32Array, Int32Array];
  const [, otherKeys, sideKeys, resultKeys] = loose.ids as [
    Int32Array,
    Int32Array,
    Int32Array,
    Int32Array,
  ];
  const aligned = alignChanges(
    diffLines(base, other, exact.tables, "histogram"),
    diffLines(base, side, exact.tables, "histogram"),
    other,
    side,
    base.length,
  );
  const sets = (a: Int32Array, b: Int32Array, c: Int32Array): Sets => ({
    other: new Set(a),
    side: new Set(b),
    result: new Set(c),
  });
  return {
    texts,
    base: lines[0],
    other: lines[1],
    side: lines[2],
    ids: { other, side },
    keys: { other: otherKeys, side: sideKeys, result: resultKeys },
    known: { ids: sets(other, side, result), keys: sets(otherKeys, sideKeys, resultKeys) },
    aligned,
    hunks: joinConflicts(refineConflicts(aligned, other, side, exact.tables, "histogram")),
    edits: diffLines(other, result, exact.tables, "histogram"),
    rewrites: diffLines(otherKeys, resultKeys, loose.tables, "histogram"),
    words: {
      base: wordCounts(texts.base),
      other: wordCounts(texts.other),
      side: wordCounts(texts.side),
      result: wordCounts(texts.result),
    },
  };
}

/** A text whose lines have no blanks; as many lines. */
function withoutBlanks(data: Uint8Array): Uint8Array {
  return data.filter((byte) => byte !== 32 && byte !== 9 && byte !== 13);
}

/** The hunks of one side that were lost. */
export function lostHunks(texts: Texts): LostHunk[] {
  const layout = layOut(texts);
  return layout.hunks
    .filter((hunk) =>
      hunk.take === "theirs"
        ? isUndone(layout, hunk)
        : hunk.take === "conflict" && !inNumbers(layout, hunk) && isOverruled(layout, hunk)
    )
    .map((hunk) => lostAt(layout, hunk));
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

/**
 * Conflicts in which the sides differ in nothing but numbers are no one's loss, whichever is taken: the
 * text of the side without its change there.
 */
export function withoutNumbers(texts: Texts): Uint8Array {
  const layout = layOut(texts);
  const parts: Uint8Array[] = [];
  let at = 0;
  for (const hunk of layout.aligned) {
    if (hunk.take !== "conflict" || !inNumbers(layout, hunk)) continue;
    parts.push(texts.side.subarray(layout.side.starts[at], layout.side.starts[hunk.theirs]));
    parts.push(slice(layout.base, hunk.base, hunk.baseCount));
    at = hunk.theirs + hunk.theirsCount;
  }
  if (parts.length === 0) return texts.side;
  parts.push(texts.side.subarray(layout.side.starts[at]));
  return Buffer.concat(parts);
}

function inNumbers(layout: Layout, hunk: Hunk): boolean {
  return hunk.oursCount > 0 && hunk.theirsCount > 0 && differInNumbers(
    slice(layout.other, hunk.ours, hunk.oursCount),
    slice(layout.side, hunk.theirs, hunk.theirsCount),
  );
}

/** A hunk that only the side changed: the other side's lines are what the base has. */
function isUndone(layout: Layout, hunk: Hunk): boolean {
  const from = hunk.ours;
  const to = from + hunk.oursCount;
  const touched = layout.edits.some(({ at, removed }) => at <= to && at + removed >= from);
  if (!touched && isUntouched(layout, hunk)) return true;

  const { missing, present, removed, back } = linesOf(layout, hunk);
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
  const rewritten = rewrites.some(({ at, removed }) =>
    removed === 0
      ? at > from && at < to || from === to && at === from
      : at < to && at + removed > from
  );
  if (rewritten) return false;
  const brought: Counts = new Map(
    [...wordCounts(slice(side, hunk.theirs, hunk.theirsCount))]
      .filter(([word]) => !words.base.has(word) && !words.other.has(word)),
  );
  return hasTrace(layout, brought) === false;
}

interface HunkLines {
  /** Lines of the side's text that it brought and the result lacks. */
  readonly missing: readonly number[];
  /** How many that it brought the result has. */
  readonly present: number;
  /** Lines of the other text that the side did away with, and those of them still in their place. */
  readonly removed: readonly number[];
  readonly back: readonly number[];
}

function linesOf(layout: Layout, hunk: Hunk): HunkLines {
  const { keys, known, side, other } = layout;
  const missing: number[] = [];
  let present = 0;
  for (let i = hunk.theirs; i < hunk.theirs + hunk.theirsCount; i++) {
    const key = keys.side[i]!;
    if (!hasWord(side, i) || known.keys.other.has(key)) continue;
    if (known.keys.result.has(key)) present++;
    else missing.push(i);
  }
  if (hunk.take === "conflict") return { missing, present, removed: [], back: [] };
  const { from, to } = placeOf(layout, hunk);
  const there = new Set(keys.result.subarray(from, to));
  const removed: number[] = [];
  for (let i = hunk.ours; i < hunk.ours + hunk.oursCount; i++) {
    if (hasWord(other, i) && !known.keys.side.has(keys.other[i]!)) removed.push(i);
  }
  return { missing, present, removed, back: removed.filter((i) => there.has(keys.other[i]!)) };
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

/** Where the other side's lines of a hunk are in the result, with the edits that touch them. */
function placeOf({ rewrites }: Layout, hunk: Hunk): Place {
  const first = hunk.ours;
  const end = first + hunk.oursCount;
  let from = first;
  let to = end;
  let touchedFrom: number | undefined;
  for (const { at, removed, newAt, added } of rewrites) {
    if (at > end) break;
    const shift = newAt + added - at - removed;
    if (at + removed < first) from = first + shift;
    else touchedFrom ??= newAt;
    to = at + removed > end ? newAt + added : end + shift;
  }
  return { from: touchedFrom === undefined ? from : Math.min(from, touchedFrom), to };
}

function lostAt(layout: Layout, hunk: Hunk): LostHunk {
  return {
    first: hunk.theirs + 1,
    last: hunk.theirs + Math.max(1, hunk.theirsCount),
    words: wordCounts(slice(layout.side, hunk.theirs, hunk.theirsCount)),
    place: placeOf(layout, hunk),
  };
}

export function slice(text: Lines, first: number, count: number): Uint8Array {
  return text.data.subarray(text.starts[first]!, text.starts[first + count]!);
}

export function hasWord(text: Lines, line: number): boolean {
  for (let i = text.starts[line]!; i < text.starts[line + 1]!; i++) {
    const c = text.data[i]!;
    if ((c >= 48 && c <= 57) || (c >= 65 && c <= 90) || (c >= 97 && c <= 122) || c >= 128) {
      return true;
    }
  }
  return false;
}
