/**
 * Lines of a conflict that both sides have, of which at least one edited them, and of which the merge has no version.
 *
 * ```text
 *  base         the side     the other    the merge
 *  pytest==9.0  pytest==9.1  pytest==9.2  (nothing)            ─▶ vanished, though both changed it
 *  serve(port)  serve(host)  serve(port)  (nothing)            ─▶ vanished
 *  serve(port)  serve(host)  serve(url)   serve(url ?? host)   ─▶ there, adapted
 *  serve(port)  serve(host)  (nothing)    (nothing)            ─▶ the other side took it out
 * ```
 */
import { around, aroundHunk } from "./around.ts";
import { hasWord, type Layout, type LostHunk, placeOf, slice } from "./layout.ts";
import { freshLines } from "./fresh.ts";
import { isWrittenAnew } from "./lines.ts";
import { isRenumberedText } from "./numbers.ts";
import { pairsIn } from "./pairs.ts";
import { isEnough } from "./tally.ts";
import { runsIn, tokensOf } from "./tokens.ts";
import { type KnownCounts, shared, wordCounts } from "./words.ts";
import type { Change } from "../text/diff.ts";
import type { Hunk } from "../text/hunks.ts";
import type { Lines } from "../text/lines.ts";
import type { Steps } from "../steps.ts";

/** So many lines are compared with each other. */
const COMPARISONS = 200_000;

/** The lines that the side edited and of which nothing stands. */
export function* vanishedLines(layout: Layout): Steps<LostHunk[]> {
  const seek = seekerOf(layout);
  const lost: LostHunk[] = [];
  for (const hunk of layout.aligned) {
    if (hunk.take !== "conflict" || hunk.baseCount === 0) continue;
    yield;
    const gone = [...versionsIn(layout, hunk)].filter((line) => !seek(line));
    const words = new Set(gone.flatMap(({ own }) => [...wordsOf(layout.side, own).keys()]));
    if (gone.length === 0 || isWrittenAnew(layout, hunk, Math.max(2, words.size))) continue;
    const place = placeOf(layout, hunk);
    for (const { own } of gone) {
      const text = slice(layout.side, own, 1);
      lost.push({ first: own + 1, last: own + 1, words: wordCounts(text), text: [text], place });
    }
  }
  return lost;
}

/** A line of the base, and what the sides made of it: lines of their texts, 0-based. */
interface Versions {
  readonly old: number;
  readonly own: number;
  readonly others: number;
}

const wordsOf = (text: Lines, line: number): KnownCounts => wordCounts(slice(text, line, 1));

/** The base's lines of a conflict that both sides have, and that the side edited. */
function* versionsIn(layout: Layout, hunk: Hunk): Generator<Versions> {
  const { base, side, other, changes, otherChanges } = layout;
  const mine = versions(base, side, changes, hunk);
  const theirs = versions(base, other, otherChanges, hunk);
  for (let old = hunk.base; old < hunk.base + hunk.baseCount; old++) {
    const [own, others] = [mine(old), theirs(old)];
    if (own === undefined || others === undefined || !hasWord(base, old)) continue;
    if (own.isEdited) yield { old, own: own.line, others: others.line };
  }
}

/** Which line of a text a line of the base is; undefined where the text hasn't got it. */
function versions(
  base: Lines,
  text: Lines,
  changes: readonly Change[],
  hunk: Hunk,
): (line: number) => { readonly line: number; readonly isEdited: boolean } | undefined {
  const pairs = pairsIn(base, text, changes, hunk);
  const near = aroundHunk(changes, hunk);
  return (old) => {
    const paired = pairs.get(old);
    if (paired !== undefined) return { line: paired, isEdited: true };
    const before = near.findLast(({ at }) => at <= old);
    if (before === undefined) {
      const [next] = near;
      return next && { line: old + next.newAt - next.at, isEdited: false };
    }
    const { at, removed, newAt, added } = before;
    if (old >= at + removed) return { line: old + newAt + added - at - removed, isEdited: false };
    const line = newAt + old - at;
    return removed === added && isRenumberedText(slice(base, old, 1), slice(text, line, 1))
      ? { line, isEdited: true }
      : undefined;
  };
}

/** Tells whether a version of a line stands in the result: as somebody has it, or as nobody had it. */
function seekerOf(layout: Layout): (line: Versions) => boolean {
  const { texts, keys, known, side, other, base, rewrites } = layout;
  let left = COMPARISONS;
  let fromSide: readonly Change[] | undefined;
  let runs: ReturnType<typeof runsIn> | undefined;
  const stands = (changes: readonly Change[], line: number): boolean =>
    !around(changes, line, line).some(({ at, removed }) => at <= line && line < at + removed);
  return ({ old, own, others }) => {
    fromSide ??= texts.prepared.diff("loose", texts.side, texts.result);
    if (stands(rewrites, others) || stands(fromSide, own)) return true;
    if (isEnough(layout, keys.side[own]!) || isEnough(layout, keys.other[others]!)) return true;
    const all = [slice(side, own, 1), slice(other, others, 1), slice(base, old, 1)];
    runs ??= runsIn(tokensOf(texts.result));
    for (const [i, key] of [keys.side[own]!, keys.other[others]!].entries()) {
      if (!known.keys.result.has(key) && runs(tokensOf(all[i]!)) > 0) return true;
    }
    const fresh = freshLines(layout);
    const words = all.map(wordCounts);
    const isIn = (lines: readonly KnownCounts[], share: number): boolean =>
      lines.some((line) =>
        left-- <= 0 || words.some((one) => {
          const { found, total } = shared(one, line);
          return found >= total * share;
        })
      );
    return isIn(fresh.lines, 0.5) || isIn(fresh.runs, 1);
  };
}
