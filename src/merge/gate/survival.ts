/**
 * Whether what one side did to a text is still there in a merge's result.
 *
 * Judged by words, not bytes: a result that was reformatted, or adapted where the two sides don't fit
 * together, keeps the words that a side brought; one that threw the change away doesn't.
 */
import type { LostHunk } from "./layout.ts";
import type { Prepared } from "./prepared.ts";
import { countOf, type KnownCounts, shared, wordCounts, type WordSource } from "./words.ts";

/** The texts of one path; an absent file is empty. */
export interface Texts {
  readonly base: Uint8Array;
  /** The side whose change is looked for, and the other one. */
  readonly side: Uint8Array;
  readonly other: Uint8Array;
  readonly result: Uint8Array;
  /** Words that the merge added elsewhere: a change may have moved with the code it belongs to. */
  readonly elsewhere: () => WordSource;
  /** Lines, without blanks, of files that a side changed: who copies one has written nothing. */
  readonly written?: () => ReadonlySet<string>;
  /** Where these texts were prepared (the side's, unless it is one made up). */
  readonly prepared: Prepared;
}

/**
 * The share, 0 to 1, of the words that `side` added which the result has added too; of a change that only
 * removes words, the share of those removed. 1 when there was nothing to do that `other` hadn't done as
 * well; null when the change was not one of words.
 */
export function wordsKept(texts: Texts): number | null {
  const { prepared } = texts;
  const [base, side, other, result] = [texts.base, texts.side, texts.other, texts.result].map(
    (text) => prepared.texts.includes(text) ? prepared.words(text) : wordCounts(text),
  ) as [KnownCounts, KnownCounts, KnownCounts, KnownCounts];
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

/** Whether at least half of a lost hunk's words were added elsewhere: it moved with the code it belongs to. */
export function standsElsewhere(hunk: LostHunk, elsewhere: WordSource): boolean {
  const { found, total } = shared(hunk.words, elsewhere);
  return total > 0 && found * 2 >= total;
}
