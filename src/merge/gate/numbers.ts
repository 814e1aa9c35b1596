/**
 * Places where the sides gave two answers to one question: a version, a limit, a checksum. Whichever is taken,
 * nobody's work is lost.
 */
import { Buffer } from "node:buffer";
import { isFresh, type Layout, placeOf, slice } from "./layout.ts";
import type { Lines } from "../text/lines.ts";
import type { Hunk } from "../text/hunks.ts";

const PRERELEASE =
  "alpha|beta|rc|cr|pre|preview|dev|post|snapshot|next|canary|nightly|final|ga|build";
const UNIT =
  "[nuμµm]?s|secs?|m|mins?|h|hrs?|d|w|y|[kmgt]?i?b|[kmgt]|px|r?em|pt|v[hw]|[kmg]?hz|fps|x";
/** A number of its own with what belongs to it: `1.2.0-rc.1`, `1.0a2`, `30s`, `1h30m`, `0.0.0-20240102030405-0123456789ab`. */
const NUMBER = new RegExp(
  "(?<![a-z0-9_])(v?)\\d+(?:\\.\\d+)*(?:" +
    "-\\d{14}-[0-9a-f]{12}|" +
    `(?:(?:[-._+]?(?:${PRERELEASE})|[abcmpr](?=\\d))(?:[-._]?\\d+)*)+|` +
    `(?:${UNIT})(?:\\d+(?:${UNIT}))*` +
    ")(?![a-z0-9_])",
  "gi",
);
/** `sha512-…`, `sha256:…`, `h1:…`, and bare checksums. */
const NAMED_HASH = /(?<![a-z0-9_])(sha\d{1,3}|md5|h1)([-:=])[a-z0-9+/_-]{20,}={0,2}/gi;
const HASH = /(?<![a-z0-9_])[0-9a-f]{32,128}(?![a-z0-9_])/gi;
/** Abbreviated names of commits, which have a letter and a digit. */
const SHORT = /(?<![a-z0-9_])(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,31}(?![a-z0-9_])/gi;
/** Days with the month's name: `February 7, 2024`, `7 Feb 2024`, `2024-Feb-07`. */
const MONTH = "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|" +
  "sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\\.?";
const DAY = new RegExp(
  `(?<![a-z0-9_])(?:${MONTH}[ -]\\d{1,2}(?:st|nd|rd|th)?(?:,? |-)\\d{4}|` +
    `\\d{1,2}(?:st|nd|rd|th)?[ -]${MONTH}[ ,-]{1,2}\\d{4}|\\d{4}[ -]${MONTH}[ -]\\d{1,2})(?![a-z0-9_])`,
  "gi",
);
/** A line that gives a name a number: the name, and what comes before the number. */
const KEYED =
  /^\s*(["']?[\w.@/-]*[a-z_][\w.@/-]*["']?\s*(?:[:=~^<>!]=?|=>|===)\s*["']?[v^~<>= ]*)\d/i;

/** Longer texts aren't compared number by number. */
const BYTES = 1_000_000;

const plain = (data: Uint8Array): string =>
  Buffer.from(data.buffer, data.byteOffset, data.length).toString("latin1");

/** Numbers, ranges of them, and days: `1.2`, `2021-2024`, `11/2026`, `2024_02_01_101010`. */
const PLAIN = /\d+(?:[._]\d+)*(?:(?:[-/]|\xe2\x80[\x93\x94])\d+(?:[._]\d+)*)*/g;
/** The years of a copyright notice: `2021, 2023 - present`. */
const YEARS = new RegExp(
  "(?<=(?:copyright|\\(c\\)|\\xc2\\xa9)[^\\n\\d]*)(?:19|20)\\d\\d" +
    "(?:\\s*(?:,|-|\\xe2\\x80[\\x93\\x94])\\s*(?:(?:19|20)\\d\\d|present|now)(?![\\w]))*",
  "gi",
);

/** Each kind, the longer before what may be a part of it, and what stands for it. */
const BY_KIND: readonly (readonly [RegExp, string])[] = [
  [YEARS, "0"],
  [NAMED_HASH, "$1$2#"],
  [DAY, "0"],
  [HASH, "#"],
  [NUMBER, "$10"],
  [SHORT, "0"],
  [PLAIN, "0"],
];

/** Whether texts are the same but for blanks, and numbers and checksums in them. */
function differInNumbers(...texts: readonly Uint8Array[]): boolean {
  if (texts.some(({ length }) => length > BYTES)) return false;
  const bare = texts.map((data) =>
    BY_KIND.reduce((text, [kind, instead]) => text.replace(kind, instead), plain(data))
      .replace(/\s+/g, "")
  );
  return bare.every((one) => one === bare[0]);
}

const ANY_NUMBER = new RegExp(BY_KIND.map(([{ source }]) => `(?:${source})`).join("|"), "gi");

/** The numbers and checksums of a text, one after the other. */
export const numbersOf = (data: Uint8Array): string[] => plain(data).match(ANY_NUMBER) ?? [];

/** Whether texts differ, and in nothing but numbers. */
export const isRenumberedText = (old: Uint8Array, own: Uint8Array): boolean =>
  Buffer.compare(old, own) !== 0 && differInNumbers(old, own);

/** The hunk is two answers to one question: what stood there and what the sides made of it differ in numbers only. */
export function inNumbers(layout: Layout, hunk: Hunk): boolean {
  if (hunk.oursCount === 0 || hunk.theirsCount === 0) return false;
  const other = slice(layout.other, hunk.ours, hunk.oursCount);
  const side = slice(layout.side, hunk.theirs, hunk.theirsCount);
  if (hunk.baseCount > 0) {
    const old = slice(layout.base, hunk.base, hunk.baseCount);
    if (!differInNumbers(old, other, side)) return false;
    // Blanks alone are no answer to a question of numbers.
    const numbers = [old, other, side].map((text) => numbersOf(text).join(" "));
    return numbers.some((one) => one !== numbers[0]);
  }
  // Put in by both: only the same names with other numbers are an answer to the same question.
  if (hunk.oursCount !== hunk.theirsCount || !differInNumbers(other, side)) return false;
  for (let i = 0; i < hunk.oursCount; i++) {
    const key = keyOf(layout.other, hunk.ours + i);
    if (key === undefined || key !== keyOf(layout.side, hunk.theirs + i)) return false;
  }
  return true;
}

/**
 * Whether a side made nothing but other numbers of `old`, and the numbers that it changed are gone from what stands
 * there now, whatever other answer that is.
 */
export function isNumberAnswered(old: Uint8Array, own: Uint8Array, now: Uint8Array): boolean {
  if (!differInNumbers(old, own)) return false;
  const [before, after, there] = [old, own, now].map(numbersOf) as [string[], string[], string[]];
  if (before.length !== after.length) return false;
  const changed = before.filter((number, i) => after[i] !== number);
  return changed.length > 0 && there.length >= changed.length &&
    changed.every((number) => !there.includes(number) && !after.includes(number));
}

/** The same of a hunk, the lines of which stand nowhere as they were. */
export function isHunkNumberAnswered(layout: Layout, hunk: Hunk): boolean {
  if (hunk.baseCount === 0 || hunk.theirsCount === 0) return false;
  const { base, side, result, keys, known } = layout;
  for (let i = hunk.base; i < hunk.base + hunk.baseCount; i++) {
    const key = keys.base[i]!;
    if (known.keys.result.has(key) && !known.keys.side.has(key)) return false;
  }
  const { from, to } = placeOf(layout, hunk);
  return isNumberAnswered(
    slice(base, hunk.base, hunk.baseCount),
    slice(side, hunk.theirs, hunk.theirsCount),
    slice(result, from, to - from),
  );
}

/** Whether `result` goes on from what both sides made of `base`: other numbers, and none of them the old ones. */
export function isNumberedOn(base: Uint8Array, both: Uint8Array, result: Uint8Array): boolean {
  if (!differInNumbers(both, result)) return false;
  const [old, wanted, got] = [base, both, result].map((data) => plain(data).split("\n"));
  const known = new Set(old);
  return wanted!.length === got!.length &&
    got!.every((line, i) => line === wanted![i] || !known.has(line));
}

/** Of a place so many lines are compared with each other, number by number. */
const RENUMBERED = 100;

/** Lines of a side's text, 0-based. */
export type NumberedLines = ReadonlySet<number>;

/**
 * Lines of the side's that give a name a number, where the other side gives it another, and the result any; and those
 * that stand there with numbers that nobody gave.
 */
export function numberedLines(layout: Layout, hunk: Hunk): NumberedLines {
  const { from, to } = placeOf(layout, hunk);
  const found = renumberedLines(layout, hunk);
  const others = keysOf(layout.other, hunk.ours, hunk.ours + hunk.oursCount);
  const results = keysOf(layout.result, from, to);
  for (const [key, lines] of keysOf(layout.side, hunk.theirs, hunk.theirs + hunk.theirsCount)) {
    const [own, other] = [lines[0]!, others.get(key)?.[0]];
    if (lines.length > 1 || other === undefined || !results.has(key)) continue;
    if (differInNumbers(bareLine(layout.other, other), bareLine(layout.side, own))) found.add(own);
  }
  return found;
}

function renumberedLines(layout: Layout, hunk: Hunk): Set<number> {
  const { keys, known, side, result } = layout;
  const { from, to } = placeOf(layout, hunk);
  const own: number[] = [];
  for (let i = from; i < to && own.length < RENUMBERED; i++) {
    if (!isFresh(layout, i)) continue;
    if (numbersOf(slice(result, i, 1)).length > 0) own.push(i);
  }
  const found = new Set<number>();
  if (own.length === 0 || hunk.theirsCount > RENUMBERED) return found;
  for (let i = hunk.theirs; i < hunk.theirs + hunk.theirsCount; i++) {
    const line = slice(side, i, 1);
    if (known.keys.result.has(keys.side[i]!) || numbersOf(line).length === 0) continue;
    if (own.some((n) => differInNumbers(line, slice(result, n, 1)))) found.add(i);
  }
  return found;
}

function keysOf(text: Lines, from: number, to: number): Map<string, number[]> {
  const found = new Map<string, number[]>();
  for (let i = from; i < to; i++) {
    const key = keyOf(text, i);
    if (key === undefined) continue;
    const lines = found.get(key);
    if (lines) lines.push(i);
    else found.set(key, [i]);
  }
  return found;
}

const keyOf = (text: Lines, line: number): string | undefined =>
  KEYED.exec(plain(slice(text, line, 1)))?.[1]?.replace(/\s+/g, "");

/** A line without what ends it. */
const bareLine = (text: Lines, line: number): Uint8Array =>
  Buffer.from(plain(slice(text, line, 1)).replace(/[,;]?\s*$/, ""), "latin1");
