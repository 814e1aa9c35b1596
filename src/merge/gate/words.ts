/** Words of a text: what the gate counts, so that layout doesn't matter. */
import { Buffer } from "node:buffer";

export type Counts = Map<string, number>;
/** Counts that others look into too. */
export type KnownCounts = ReadonlyMap<string, number>;

/** Counts to look words up in. */
export interface WordSource {
  get(word: string): number | undefined;
}

/**
 * UTF-8 read byte by byte. Scripts that put no spaces between words (Chinese, Japanese, Korean, Thai, Lao)
 * have each letter counted as a word, as otherwise a sentence would be one; their punctuation is none.
 */
const WORD = new RegExp(
  "\\xe3\\x80[\\x80-\\xbf]|\\xef\\xbc[\\x80-\\x8f\\x9a-\\xa0]|" +
    "([\\xe3-\\xed][\\x80-\\xbf]{2}|\\xe0[\\xb8-\\xbb][\\x80-\\xbf]|\\xf0[\\xa0-\\xbf][\\x80-\\xbf]{2}|" +
    "(?:[A-Za-z0-9_]|(?!\\xe0[\\xb8-\\xbb]|[\\xe3-\\xed][\\x80-\\xbf]{2}|\\xef\\xbc[\\x80-\\x8f]|" +
    "\\xf0[\\xa0-\\xbf][\\x80-\\xbf]{2})[\\x80-\\xff])+)",
  "g",
);

/** The words of a text in order, as byte strings. */
export function wordList(data: Uint8Array): string[] {
  const text = Buffer.from(data.buffer, data.byteOffset, data.length).toString("latin1");
  if (!/[\x80-\xff]/.test(text)) return text.match(/\w+/g) ?? [];
  const words: string[] = [];
  for (const [, word] of text.matchAll(WORD)) if (word !== undefined) words.push(word);
  return words;
}

/** Of texts as long as this the counts are kept, as long as the text is: a line can be a whole file. */
const LONG = 1 << 16;
const kept = new WeakMap<ArrayBufferLike, Map<string, KnownCounts>>();

/** Words and how often they occur. */
export function wordCounts(data: Uint8Array): KnownCounts {
  if (data.length < LONG) return countWords(wordList(data));
  let known = kept.get(data.buffer);
  if (!known) kept.set(data.buffer, known = new Map());
  const key = `${data.byteOffset} ${data.length}`;
  let counts = known.get(key);
  if (!counts) known.set(key, counts = countWords(wordList(data)));
  return counts;
}

export function countWords(words: readonly string[]): Counts {
  const counts: Counts = new Map();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  return counts;
}

/** Whether a word only joins others, as signs do too. */
export const isJoining = (word: string): boolean => /^(?:and|or)$/i.test(word);

export const countOf = (counts: WordSource, word: string): number => counts.get(word) ?? 0;

/** How many of the words of `wanted` stand in `counts`, and how many there are. */
export function shared(wanted: KnownCounts, counts: WordSource): { found: number; total: number } {
  let found = 0;
  let total = 0;
  for (const [word, count] of wanted) {
    total += count;
    found += Math.min(count, countOf(counts, word));
  }
  return { found, total };
}
