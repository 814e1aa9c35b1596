/**
 * Lines counted: equal lines at several places were each put in, or taken out, for a reason of their own.
 *
 * ```text
 *  what merging gives, line by line ─▶ compared with the result, and how often each line stands in either
 *    a hunk that only the side changed: lines of it are gone from their place and fewer than merging gives,
 *      with nothing but the old ones there ──────────────────────────────────────────────────▶ lost
 *    the same, lines that it took out: back at their place, and more than merging gives ─────▶ back
 * ```
 */
import { importedNames, isNameImported } from "./imports.ts";
import { hasWord, type Layout, type LostHunk, type Place, SHOWN_LINES, slice } from "./layout.ts";
import { isNeeded } from "./undone.ts";
import { lostLines, shiftedLosses } from "./shifted.ts";
import { slides, slidTo } from "./slides.ts";
import { countOf, wordCounts } from "./words.ts";
import { countKeys, type LineCounts, mergedOf, needed, numberOf, timesIn } from "./tally.ts";
import type { Steps } from "../steps.ts";
import { type Change, diffLines } from "../text/diff.ts";
import type { Hunk } from "../text/hunks.ts";
import type { Lines } from "../text/lines.ts";

/** What of the side's is lost though equal lines stand elsewhere. */
export function* countedLosses(
  layout: Layout,
  isAsked?: (hunk: Hunk) => boolean,
): Steps<LostHunk[]> {
  const { keys, counts, starts } = mergedOf(layout);
  const { tables } = layout.texts.prepared.classes("loose");
  const changes = diffLines(keys, layout.keys.result, tables, "bounded");
  const isWhole = sameKeys(layout.keys.result, layout.keys.other);
  const lost: LostHunk[] = [];
  for (const hunk of layout.hunks) {
    if (hunk.take !== "theirs" || isAsked && !isAsked(hunk)) continue;
    yield;
    const start = starts.get(hunk)!;
    const whole = { from: start, to: start + hunk.theirsCount };
    const found = lostOf(layout, hunk, whole, start, changes, counts, isWhole);
    const slid = found.length > 0 ? null : slides(keys, hunk, whole);
    lost.push(...slid ? lostOf(layout, hunk, slid, start, changes, counts, isWhole) : found);
  }
  yield;
  return isAsked ? lost : [...lost, ...shiftedLosses(layout)];
}

/** A line that stands less often than this in the base is no mere end of a block. */
const FEW = 3;

const sameKeys = (a: Int32Array, b: Int32Array): boolean =>
  a.length === b.length && a.every((key, i) => key === b[i]);

/** A hunk that only the side changed, of which lines of what merging gives are looked at: its own, or where it slides. */
function lostOf(
  layout: Layout,
  hunk: Hunk,
  { from: start, to: end }: Place,
  begin: number,
  changes: readonly Change[],
  counts: LineCounts,
  isWhole: boolean,
): LostHunk[] {
  const { base, side, result, keys } = layout;
  const { keys: wanted } = mergedOf(layout);
  const isSlid = end - start > hunk.theirsCount;
  const touching = slidTo(wanted, changes, start, end);
  if (touching.length === 0) return [];
  const [own, old] = [
    countKeys(keys.side.subarray(hunk.theirs, hunk.theirs + hunk.theirsCount)),
    countKeys(keys.base.subarray(hunk.base, hunk.base + hunk.baseCount)),
  ];
  const back = new Set<number>();
  let others = 0;
  let [from, to] = [Infinity, 0];
  for (const { newAt, added } of touching) {
    [from, to] = [Math.min(from, newAt), Math.max(to, newAt + added)];
    for (let i = newAt; i < newAt + added; i++) {
      if (!hasWord(result, i)) continue;
      const key = keys.result[i]!;
      const isBack = old.has(key) && !own.has(key) &&
        numberOf(counts.result, key) > numberOf(counts.most, key);
      if (isBack) back.add(key);
      else others++;
    }
  }
  if (others > 0) return [];
  const place = { from, to };

  const missing: number[] = [];
  for (const { at, removed } of touching) {
    for (let n = Math.max(at, start); n < Math.min(at + removed, end); n++) {
      const step = (n - begin) % Math.max(1, hunk.theirsCount);
      const i = hunk.theirs + (step < 0 ? step + hunk.theirsCount : step);
      const key = keys.side[i]!;
      if (numberOf(old, key) >= numberOf(own, key)) continue;
      if (!hasWord(side, i) && !isSignGone(layout, i, touching)) continue;
      const [now, other, theirs] = [counts.result, counts.other, counts.side].map((of) =>
        numberOf(of, key)
      ) as [number, number, number];
      if (now >= needed(counts, key)) continue;
      // Both put one in, at two places: one of the two may have been one too many.
      const before = numberOf(counts.base, key);
      const most = Math.max(other, theirs, before);
      if (now >= Math.max(other, theirs) && most < 2 && !isWhole && back.size === 0) continue;
      // Where it slides, equal lines of the other side's are near: those that stand often are told by their number.
      if (isSlid && now >= Math.max(other, theirs) && other > before && before < FEW) continue;
      if (back.size === 0 && isNameImported(layout, i)) continue;
      missing.push(i);
    }
  }
  if (missing.length > 0) {
    // With the old lines back, what tells them apart needn't be a word: a sign, an order, a comment.
    const lost = back.size > 0
      ? missing
      : missing.filter((i) => !hasWord(side, i) || isShort(layout, i));
    return lost.length > 0
      ? [lostLines(layout, [...new Set(lost)].sort((a, b) => a - b), place)]
      : [];
  }

  const deleted: number[] = [];
  for (let i = hunk.base; i < hunk.base + hunk.baseCount; i++) {
    if (hasWord(base, i) && !own.has(keys.base[i]!)) deleted.push(i);
  }
  const undone = deleted.filter((i) =>
    back.has(keys.base[i]!) && !isNeeded(layout, i) && !isUsed(layout, i)
  );
  if (undone.length === 0) return [];
  return [{
    first: hunk.theirs + 1,
    last: hunk.theirs + 1,
    words: new Map(),
    text: undone.slice(0, SHOWN_LINES).map((i) => slice(base, i, 1)),
    place,
    isBack: true,
  }];
}

/**
 * Whether a line of the side's without any word (`}`) is gone, and nothing else at its place: only this side put such
 * in, or merging gives as many brackets that open as the sides have, and the result doesn't.
 */
function isSignGone(layout: Layout, line: number, touching: readonly Change[]): boolean {
  const { side, keys } = layout;
  const key = keys.side[line]!;
  const sign = slice(side, line, 1);
  if (sign.every((byte) => byte <= 32)) return false;
  if (touching.length !== 1 || touching[0]!.added > 0 || touching[0]!.removed > 1) return false;
  const [b, o, s] = timesIn(mergedOf(layout).counts, key);
  if (s <= b) return false;
  if (o <= b) return true;
  if (openIn(sign) === 0) return false;
  const { texts } = layout;
  const open = openIn(texts.side);
  return openIn(texts.base) === open && openIn(texts.other) === open &&
    openIn(texts.result) !== open;
}

/** How many brackets a text opens more than it closes. */
function openIn(text: Uint8Array): number {
  let open = 0;
  for (const byte of text) {
    if (byte === 40 || byte === 91 || byte === 123) open++;
    else if (byte === 41 || byte === 93 || byte === 125) open--;
  }
  return open;
}

/**
 * Whether a line of the base is nothing but a name that is brought in, and the rest of the result uses it more than
 * the side does: what the merge took from the other side needs it.
 */
function isUsed(layout: Layout, line: number): boolean {
  const { base, keys, words } = layout;
  const { counts } = mergedOf(layout);
  const text = slice(base, line, 1);
  const own = wordCounts(text);
  const imported = importedNames(text);
  const names = imported.length > 0 ? imported : own.size === 1 ? [...own.keys()] : [];
  const key = keys.base[line]!;
  const elsewhere = (role: "result" | "side", name: string): number =>
    countOf(words[role], name) - countOf(own, name) * numberOf(counts[role], key);
  return names.some((name) => elsewhere("result", name) > elsewhere("side", name));
}

/** Whether the result has a word of the side's line less often than the sides' changes together give. */
function isShort({ side, words }: Layout, line: number): boolean {
  return [...wordCounts(slice(side, line, 1)).keys()].some((word) => {
    const [b, o, s] = [words.base, words.other, words.side].map((of) => countOf(of, word)) as [
      number,
      number,
      number,
    ];
    return countOf(words.result, word) < Math.max(o + s - b, Math.min(o, s));
  });
}

const isBlank = (text: Lines, line: number): boolean =>
  slice(text, line, 1).every((byte) => byte <= 32);

/**
 * The side's lines, 0-based, of its changes that the result has less often than the side or merging; and whether lines
 * that it took out are back.
 */
export function unkeptLines(layout: Layout): { missing: number[]; isBack: boolean } {
  const { base, side, keys, changes } = layout;
  const { counts } = mergedOf(layout);
  const missing: number[] = [];
  let isBack = false;
  for (const { at, removed, newAt, added } of changes) {
    for (let i = newAt; i < newAt + added; i++) {
      const key = keys.side[i]!;
      const [b, o, s] = timesIn(counts, key);
      // What the other side deleted, and this one moved, may be gone.
      const wanted = o < b ? Math.max(0, o + s - b) : Math.max(s, numberOf(counts.least, key));
      if (!isBlank(side, i) && numberOf(counts.result, key) < wanted) missing.push(i);
    }
    for (let i = at; i < at + removed; i++) {
      const key = keys.base[i]!;
      const [b, o, s] = timesIn(counts, key);
      if (hasWord(base, i) && s < b && numberOf(counts.result, key) > s + Math.max(0, o - b)) {
        isBack = true;
      }
    }
  }
  return { missing, isBack };
}
