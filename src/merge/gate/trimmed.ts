/**
 * Lines that one side put in and that the merge has without some of their words, with nothing in their place: whoever
 * writes a conflict anew by hand drops an `await`, an option, a guard.
 *
 * ```text
 *  the side                        the merge
 *  res.status(201).json(user)      res.json(user)          ─▶ trimmed
 *  connect(host, port, retry)      connect(host, port)     ─▶ trimmed, unless the other side has fewer of `retry`
 *  connect(host, port, retry)      connect(url, port)      ─▶ adapted: it has a word of its own
 * ```
 */
import { isFresh, type Layout, type LostHunk, placeOf, slice } from "./layout.ts";
import { countOf, countWords, type KnownCounts, wordList } from "./words.ts";
import type { Steps } from "../steps.ts";

/** So many lines are compared with each other. */
const COMPARISONS = 200_000;
/** So many lines may close a block. */
const CLOSING = 3;
/** What is left of a line has at least so much of its words. */
const MOSTLY = 0.6;

/** The lines that are there without some of their words. */
export function* trimmedLines(layout: Layout): Steps<LostHunk[]> {
  const lost: LostHunk[] = [];
  let left = COMPARISONS;
  for (const hunk of layout.hunks) {
    if (hunk.take !== "conflict" && hunk.take !== "theirs") continue;
    yield;
    const place = placeOf(layout, hunk);
    const fresh: string[][] = [];
    // One after the other, as both stand there mostly, the side's lines can begin past the other's and what closes them.
    const reach = hunk.theirsCount + CLOSING;
    const to = Math.min(layout.result.count, place.to + reach);
    for (let i = Math.max(0, place.from - reach); i < to; i++) {
      if (isFresh(layout, i)) fresh.push(wordList(slice(layout.result, i, 1)));
    }
    if (fresh.length === 0) continue;
    const own = missingIn(layout, "side", hunk.theirs, hunk.theirsCount);
    const others = missingIn(layout, "other", hunk.ours, hunk.oursCount);
    for (const there of fresh) {
      if (there.length < 2) continue;
      const of = [...own, ...others].filter(({ words }) =>
        left-- > 0 && words.length > there.length && isPart(there, words) &&
        there.length >= words.length * MOSTLY
      ).sort((a, b) => a.words.length - b.words.length);
      const [line] = of;
      if (line === undefined || !own.includes(line)) continue;
      const gone = new Map<string, number>(countWords(line.words));
      for (const word of there) gone.set(word, countOf(gone, word) - 1);
      if (![...gone].some(([word, n]) => n > 0 && isShort(layout, word))) continue;
      if (fresh.some((one) => one !== there && one.some((word) => countOf(gone, word) > 0))) {
        continue;
      }
      const text = slice(layout.side, line.at, 1);
      const words: KnownCounts = new Map([...gone].filter(([, n]) => n > 0));
      lost.push({ first: line.at + 1, last: line.at + 1, words, text: [text], place });
    }
  }
  return lost;
}

interface Missing {
  readonly at: number;
  readonly words: readonly string[];
}

/** Lines of a text that neither the result nor the other texts have. */
function missingIn(
  layout: Layout,
  role: "side" | "other",
  first: number,
  count: number,
): Missing[] {
  const { known, keys } = layout;
  const found: Missing[] = [];
  for (let at = first; at < first + count; at++) {
    const key = keys[role][at]!;
    if (known.keys.result.has(key) || known.keys.base.has(key)) continue;
    if (known.keys[role === "side" ? "other" : "side"].has(key)) continue;
    found.push({ at, words: wordList(slice(layout[role], at, 1)) });
  }
  return found;
}

/** Whether all of these words stand among those, in their order. */
function isPart(these: readonly string[], those: readonly string[]): boolean {
  let at = 0;
  for (const word of those) if (word === these[at]) at++;
  return at === these.length;
}

/** Whether the result has a word less often than both sides' changes give it, and the other side did away with none. */
function isShort({ words, texts }: Layout, word: string): boolean {
  const [b, o, s] = [words.base, words.other, words.side].map((of) => countOf(of, word)) as [
    number,
    number,
    number,
  ];
  return o >= b && countOf(words.result, word) < o + s - b &&
    countOf(texts.elsewhere(), word) === 0;
}
