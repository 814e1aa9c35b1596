/**
 * Whether what one side did to a text is still there in a merge's result.
 *
 * Judged by words, not bytes: a result that was reformatted, or adapted where the two sides don't fit
 * together, keeps the words that a side brought; one that threw the change away doesn't.
 */
import { Buffer } from "node:buffer";
import { diffLines } from "./text/diff.ts";
import { alignChanges } from "./text/hunks.ts";
import { classifyLines, type Lines, splitLines } from "./text/lines.ts";

type Counts = Map<string, number>;

/** Words and how often they occur; the whole line where a line has none. */
export function wordCounts(data: Uint8Array): Counts {
  const counts: Counts = new Map();
  const text = Buffer.from(data.buffer, data.byteOffset, data.length).toString("latin1");
  for (const [word] of text.matchAll(/[A-Za-z0-9_\x80-\xff]+/g)) {
    counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  return counts;
}

const countOf = (counts: Counts, word: string): number => counts.get(word) ?? 0;

/** The texts of one path; an absent file is empty. */
export interface Texts {
  readonly base: Uint8Array;
  /** The side whose change is looked for, and the other one. */
  readonly side: Uint8Array;
  readonly other: Uint8Array;
  readonly result: Uint8Array;
  /** Words that the merge added elsewhere: a change may have moved with the code it belongs to. */
  readonly elsewhere: () => Counts;
}

/**
 * The share, 0 to 1, of the words that `side` added which the result has added too; of a change that only
 * removes words, the share of those removed. 1 when there was nothing to do that `other` hadn't done as
 * well; null when the change was not one of words.
 */
export function wordsKept(texts: Texts): number | null {
  const base = wordCounts(texts.base);
  const side = wordCounts(texts.side);
  const other = wordCounts(texts.other);
  const result = wordCounts(texts.result);
  let changed = false;
  const added = { wanted: 0, kept: 0 };
  const removed = { wanted: 0, kept: 0 };
  const missing: [string, number][] = [];
  for (const word of new Set([...base.keys(), ...side.keys()])) {
    const before = countOf(base, word);
    const after = countOf(side, word);
    const there = countOf(other, word);
    const now = countOf(result, word);
    if (before === after) continue;
    changed = true;
    if (after > before) {
      const need = Math.max(0, after - Math.max(before, there));
      const got = Math.min(need, Math.max(0, now - Math.max(before, there)));
      added.wanted += need;
      added.kept += got;
      if (got < need) missing.push([word, need - got]);
    } else {
      const need = Math.max(0, Math.min(before, there) - after);
      removed.wanted += need;
      removed.kept += Math.min(need, Math.max(0, there - now));
    }
  }
  if (!changed) return null;
  if (added.wanted === 0) return removed.wanted === 0 ? 1 : removed.kept / removed.wanted;
  if (missing.length > 0) {
    const elsewhere = texts.elsewhere();
    for (const [word, count] of missing) added.kept += Math.min(count, countOf(elsewhere, word));
  }
  return added.kept / added.wanted;
}

/** A place where work was lost: lines of the side's text, 1-based, and their words. */
export interface LostHunk {
  readonly first: number;
  readonly last: number;
  readonly words: Counts;
}

/** Whether at least half of a lost hunk's words were added elsewhere: it moved with the code it belongs to. */
export function standsElsewhere(hunk: LostHunk, elsewhere: Counts): boolean {
  let wanted = 0;
  let found = 0;
  for (const [word, count] of hunk.words) {
    wanted += count;
    found += Math.min(count, countOf(elsewhere, word));
  }
  return wanted > 0 && found * 2 >= wanted;
}

function wordsOfLines(text: Lines, from: number, to: number): Counts {
  return wordCounts(text.data.subarray(text.starts[from]!, text.starts[to]!));
}

/**
 * The hunks that only `side` changed and whose place in the result still shows exactly what `other` has,
 * while none of the lines they add stand anywhere in the result.
 */
export function lostHunks(texts: Texts): LostHunk[] {
  const lines = [texts.base, texts.other, texts.side, texts.result].map(splitLines) as [
    Lines,
    Lines,
    Lines,
    Lines,
  ];
  const { ids, tables } = classifyLines(lines);
  const [base, other, side, result] = ids as [Int32Array, Int32Array, Int32Array, Int32Array];
  const otherChanges = diffLines(base, other, tables, "histogram");
  const sideChanges = diffLines(base, side, tables, "histogram");
  const hunks = alignChanges(otherChanges, sideChanges, other, side, base.length);
  const edits = diffLines(other, result, tables, "histogram");
  const inResult = new Set(result);
  const inOther = new Set(other);
  const lost: LostHunk[] = [];
  for (const hunk of hunks) {
    if (hunk.take !== "theirs") continue;
    const from = hunk.ours;
    const to = hunk.ours + hunk.oursCount;
    if (edits.some(({ at, removed }) => at <= to && at + removed >= from)) continue;
    let added = 0;
    let present = 0;
    for (let i = hunk.theirs; i < hunk.theirs + hunk.theirsCount; i++) {
      if (!hasWord(lines[2], i) || inOther.has(side[i]!)) continue;
      added++;
      if (inResult.has(side[i]!)) present++;
    }
    // Nothing but lines that are there anyway (or blank): nothing to miss, unless lines had to go.
    if (added > 0 ? present > 0 : !removesWords(lines[1], other, from, to, side)) continue;
    lost.push({
      first: hunk.theirs + 1,
      last: hunk.theirs + Math.max(1, hunk.theirsCount),
      words: wordsOfLines(lines[2], hunk.theirs, hunk.theirs + hunk.theirsCount),
    });
  }
  return lost;
}

function hasWord(text: Lines, line: number): boolean {
  for (let i = text.starts[line]!; i < text.starts[line + 1]!; i++) {
    const c = text.data[i]!;
    if ((c >= 48 && c <= 57) || (c >= 65 && c <= 90) || (c >= 97 && c <= 122) || c >= 128) {
      return true;
    }
  }
  return false;
}

/** Whether the lines the side removed have words and are gone from the side's text altogether. */
function removesWords(
  text: Lines,
  ids: Int32Array,
  from: number,
  to: number,
  side: Int32Array,
): boolean {
  const left = new Set(side);
  for (let i = from; i < to; i++) if (hasWord(text, i) && !left.has(ids[i]!)) return true;
  return false;
}

/**
 * Words of the expected text that the result lacks because lines were taken out with nothing put in their
 * place, as when a file is cut short. Lines without words, and words found elsewhere, don't count.
 */
export function cutLines(expected: Uint8Array, base: Uint8Array, result: Uint8Array): LostHunk[] {
  const lines = [expected, result, base].map(splitLines) as [Lines, Lines, Lines];
  const { ids, tables } = classifyLines(lines);
  const [want, have, old] = ids as [Int32Array, Int32Array, Int32Array];
  const inBase = new Set(old);
  const inResult = new Set(have);
  const wanted = wordCounts(expected);
  const got = wordCounts(result);
  const lost: LostHunk[] = [];
  for (const { at, removed, added } of diffLines(want, have, tables, "histogram")) {
    if (added > 0) continue;
    for (let i = at; i < at + removed; i++) {
      if (inBase.has(want[i]!) || inResult.has(want[i]!) || !hasWord(lines[0], i)) continue;
      const words = wordsOfLines(lines[0], i, i + 1);
      if (![...words.keys()].some((word) => countOf(got, word) < countOf(wanted, word))) continue;
      lost.push({
        first: at + 1,
        last: at + removed,
        words: wordsOfLines(lines[0], at, at + removed),
      });
      break;
    }
  }
  return lost;
}

/** Lines of `result` that look like conflict markers and stand in none of `sources`: 1-based. */
export function newMarkers(
  result: Uint8Array,
  sources: readonly Uint8Array[],
  size: number,
  separators: boolean,
): number[] {
  const isMarker = (text: string): boolean => {
    const char = text[0]!;
    let n = 1;
    while (text[n] === char) n++;
    const rest = text.slice(n).replace(/\r$/, "");
    if (char === "=") return separators && n === size && rest === "";
    return n === size && (rest === "" || rest.startsWith(" "));
  };
  const markers = (data: Uint8Array): Map<number, string> => {
    const found = new Map<number, string>();
    const text = Buffer.from(data.buffer, data.byteOffset, data.length).toString("latin1");
    if (!/^[<>|=]{3}/m.test(text)) return found;
    text.split("\n").forEach((line, i) => {
      if (/^[<>|=]/.test(line) && isMarker(line)) found.set(i + 1, line);
    });
    return found;
  };
  const found = markers(result);
  if (found.size === 0) return [];
  const known = new Set(sources.flatMap((source) => [...markers(source).values()]));
  return [...found].filter(([, line]) => !known.has(line)).map(([line]) => line);
}
