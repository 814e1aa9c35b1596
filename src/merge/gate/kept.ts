/**
 * Whether what a side put into a line stands in the result though that line doesn't: it is the other side's version.
 *
 * Words count in so far as they are there more often than the side's other lines account for, each of which has them
 * for its own reason:
 *
 * ```text
 *  a line of the side's text
 *    stands in the result, wherever, or broken into other lines ───▶ all its words
 *    became another line there (of the other side's, or anyone's) ─▶ the words that both have
 *    was adapted to what the other side put into the line ─────────▶ none: `opts.timeout`, for `timeout`
 *    is gone ──────────────────────────────────────────────────────▶ none
 * ```
 */
import { isFresh, type Layout, slice } from "./layout.ts";
import { pairsIn } from "./pairs.ts";
import { mergedOf, numberOf } from "./tally.ts";
import { runsIn, tokensOf } from "./tokens.ts";
import { countOf, type Counts, isJoining, type KnownCounts, wordCounts } from "./words.ts";

/** What the result has of words that a side put into a line. */
export interface Kept {
  /**
   * Whether one of the words that both sides replaced there is somewhere. `renamed`: they are in the place of words
   * that are gone on both sides, so that any will do.
   */
  has(words: readonly string[], renamed: boolean): boolean;
  /** Whether the merge has the other side's word for all of these in another of the side's lines, too, as nobody had it. */
  isReplaced(words: readonly string[]): boolean;
}

/** So many lines are looked at for words in others' place. */
const COMPARISONS = 200_000;

/** A line of the side's that became one that nobody had: the words that went, and those that are there. */
interface FreshLine {
  readonly line: number;
  readonly own: KnownCounts;
  readonly words: KnownCounts;
  readonly fresh: KnownCounts;
}

/** Words of the side's text that are gone from where it has them. */
interface Gone {
  readonly lines: ReadonlyMap<number, KnownCounts>;
  /** Of all lines. */
  readonly words: KnownCounts;
  /** By each of the side's words. */
  readonly fresh: ReadonlyMap<string, readonly FreshLine[]>;
  /** Words of the other side's lines that don't stand in the result. */
  readonly others: ReadonlySet<string>;
  left: number;
}

const known = new WeakMap<Layout, Gone>();

/** Of a line of the side's, of which a version stands that has the words `now`; `was`: those of the base's line. */
export function keptBeside(
  layout: Layout,
  line: number,
  was: KnownCounts,
  now: KnownCounts,
): Kept {
  const { words, texts } = layout;
  const gone = goneOf(layout);
  const own = wordCounts(slice(layout.side, line, 1));
  const ownGone: KnownCounts = gone.lines.get(line) ?? new Map();
  /** New words of the line that stands, which the other side has in no line that became another. */
  const another = [...now.keys()].filter((word) => !was.has(word) && !gone.others.has(word));
  /** How often lines that were adapted to the line that stands have a word: `opts.timeout`, for `timeout`. */
  const adapted = (word: string): number => {
    let times = 0;
    if (another.length === 0) return times;
    for (const { line: at, own, fresh } of gone.fresh.get(word) ?? []) {
      if (at === line || gone.left-- <= 0) continue;
      if (!another.some((one) => fresh.has(one) && !own.has(one))) continue;
      times += Math.min(countOf(own, word), countOf(fresh, word));
    }
    return times;
  };
  /** How often the side's other lines have a word, so far as they stand. */
  const held = (word: string): number =>
    countOf(words.side, word) - countOf(own, word) -
    (countOf(gone.words, word) - countOf(ownGone, word)) - adapted(word);
  const isAgreed = (word: string): boolean => countOf(now, word) > countOf(was, word);
  return {
    has(put, renamed) {
      const all = put.filter((word) => !isJoining(word));
      const agreed = all.filter(isAgreed);
      const alone = all.filter((word) => !isAgreed(word));
      // The other side put the same words in, or the same with other numbers.
      if (agreed.length > 0 && alone.every((word) => /^\d+$/.test(word))) return true;
      return (all.length > 0 ? alone : put).some((word) => {
        const times = countOf(words.result, word);
        return countOf(texts.elsewhere(), word) > 0 || renamed && times > 0 ||
          times > Math.min(countOf(was, word), countOf(now, word)) + held(word);
      });
    },
    isReplaced(put) {
      const some = put.filter((word) => !isJoining(word) && !isAgreed(word));
      if (some.length === 0) return false;
      for (const { line: at, words, fresh } of gone.fresh.get(some[0]!) ?? []) {
        if (at === line || gone.left-- <= 0) continue;
        if (!some.every((word) => words.has(word) && !fresh.has(word))) continue;
        if ([...now.keys()].some((word) => !was.has(word) && fresh.has(word))) return true;
      }
      return false;
    },
  };
}

function goneOf(layout: Layout): Gone {
  let found = known.get(layout);
  if (!found) known.set(layout, found = goneLines(layout));
  return found;
}

function goneLines(layout: Layout): Gone {
  const { texts, side, result, keys } = layout;
  const { counts } = mergedOf(layout);
  const changes = texts.prepared.diff("loose", texts.side, texts.result);
  const became = pairsIn(side, result, changes, { base: 0, baseCount: side.count });
  let runs: ReturnType<typeof runsIn> | undefined;
  const lines = new Map<number, KnownCounts>();
  const fresh = new Map<string, FreshLine[]>();
  const all: Counts = new Map();
  for (const { at, removed } of changes) {
    for (let i = at; i < at + removed; i++) {
      const key = keys.side[i]!;
      if (numberOf(counts.result, key) >= numberOf(counts.side, key)) continue;
      const own = slice(side, i, 1);
      const line = became.get(i);
      if (line === undefined) {
        runs ??= runsIn(tokensOf(texts.result));
        if (runs(tokensOf(own)) > 0) continue;
      }
      const now: KnownCounts = line === undefined ? new Map() : wordCounts(slice(result, line, 1));
      const words: Counts = new Map();
      for (const [word, n] of wordCounts(own)) {
        const less = n - countOf(now, word);
        if (less <= 0) continue;
        words.set(word, less);
        all.set(word, countOf(all, word) + less);
      }
      lines.set(i, words);
      if (line === undefined || !isFresh(layout, line)) continue;
      const had = wordCounts(own);
      const one = { line: i, own: had, words, fresh: now };
      for (const word of had.keys()) {
        const some = fresh.get(word);
        if (some) some.push(one);
        else fresh.set(word, [one]);
      }
    }
  }
  return { lines, words: all, fresh, others: goneWords(layout), left: COMPARISONS };
}

/** Words of lines of the other side's that the result doesn't have as often. */
function goneWords(layout: Layout): ReadonlySet<string> {
  const { counts } = mergedOf(layout);
  const words = new Set<string>();
  for (const { at, removed } of layout.rewrites) {
    for (let i = at; i < at + removed; i++) {
      const key = layout.keys.other[i]!;
      if (numberOf(counts.result, key) >= numberOf(counts.other, key)) continue;
      for (const word of wordCounts(slice(layout.other, i, 1)).keys()) words.add(word);
    }
  }
  return words;
}
