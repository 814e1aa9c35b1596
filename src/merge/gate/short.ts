/**
 * Lines that one side put in, in a conflict, and that are there too few times, though equal lines stand elsewhere: the
 * base had some, or the other side put one in too.
 *
 * ```text
 *  base   the side   the other   wanted   the merge
 *   1        2           1          2         1      ─▶ short
 *   1        2           2          3         2      ─▶ short, put in at two places
 *   1        2           2          2         2      ─▶ enough, put in by both at one place
 *   1        2           0          1         1      ─▶ enough, the other side took one out
 * ```
 */
import { hasWord, type Layout, placeOf, slice } from "./layout.ts";
import { countKeys, mergedOf, numberOf, type Numbers, timesIn } from "./tally.ts";
import { countOf, wordCounts } from "./words.ts";
import type { Hunk } from "../text/hunks.ts";

/** Lines of nothing but these close blocks, or end what many do. */
const COMMON = new Set(
  ("begin break case catch continue default do done else elseif elif end endif ensure esac except exit false fi " +
    "finally if loop nil none null ok pass return self then this throw true try undefined void while")
    .split(" "),
);

const wantedOf = new WeakMap<Layout, Map<number, number>>();

/** Lines of the side's text in the conflict, 0-based, that are there too few times; the other side has such, too. */
export function shortLines(layout: Layout, hunk: Hunk): ReadonlySet<number> {
  const short = new Set<number>();
  if (hunk.take !== "conflict") return short;
  const { side, keys, known } = layout;
  const { counts } = mergedOf(layout);
  let parts: ReturnType<typeof partsOf> | undefined;
  let there: Map<number, number> | undefined;
  const left = new Map<number, number>();
  for (let i = hunk.theirs; i < hunk.theirs + hunk.theirsCount; i++) {
    const key = keys.side[i]!;
    if (!known.keys.other.has(key) || !hasWord(side, i)) continue;
    const [b, , s] = timesIn(counts, key);
    if (s <= b) continue;
    parts ??= partsOf(layout, hunk);
    const own = numberOf(parts.own, key);
    if (own <= numberOf(parts.old, key) || own <= numberOf(parts.others, key)) continue;
    const missing = left.get(key) ?? wanted(layout, key) - numberOf(counts.result, key);
    if (missing <= 0) continue;
    if (!there) {
      const { from, to } = placeOf(layout, hunk);
      there = countKeys(keys.result.subarray(from, to));
    }
    const n = numberOf(there, key);
    there.set(key, n - 1);
    if (n > 0 || !isTold(layout, i)) continue;
    left.set(key, missing - 1);
    short.add(i);
  }
  return short;
}

/** How often lines stand in a hunk: in the base, with the side, with the other one. */
function partsOf(
  { keys }: Layout,
  hunk: Hunk,
): { readonly old: Numbers; readonly own: Numbers; readonly others: Numbers } {
  return {
    old: countKeys(keys.base.subarray(hunk.base, hunk.base + hunk.baseCount)),
    own: countKeys(keys.side.subarray(hunk.theirs, hunk.theirs + hunk.theirsCount)),
    others: countKeys(keys.other.subarray(hunk.ours, hunk.ours + hunk.oursCount)),
  };
}

/** How often both sides' changes give a line; what both put in, in one conflict, once. */
function wanted(layout: Layout, key: number): number {
  const { counts } = mergedOf(layout);
  let all = wantedOf.get(layout);
  if (!all) {
    wantedOf.set(layout, all = new Map(counts.least));
    for (const hunk of layout.hunks) {
      if (hunk.take !== "conflict") continue;
      const { old, own, others } = partsOf(layout, hunk);
      for (const [one, n] of own) {
        const [before, there] = [numberOf(old, one), numberOf(others, one)];
        const both = there < before || n < before ? n + there - before : Math.max(n, there);
        all.set(one, numberOf(all, one) - Math.min(n, there) + Math.max(0, both));
      }
      for (const [one, n] of others) {
        if (!own.has(one)) all.set(one, numberOf(all, one) + Math.max(0, n - numberOf(old, one)));
      }
    }
  }
  const [b, o, s] = timesIn(counts, key);
  return Math.min(numberOf(all, key), Math.max(o + s - b, Math.min(o, s)));
}

/** Whether a line is one of its own kind, and one of its rarest words is there too few times, too. */
function isTold({ side, words, texts }: Layout, line: number): boolean {
  const own = [...wordCounts(slice(side, line, 1)).keys()];
  if (own.every((word) => COMMON.has(word.toLowerCase()) || /^\d+$/.test(word))) return false;
  const rarest = Math.min(...own.map((word) => countOf(words.base, word)));
  return own.some((word) => {
    if (countOf(words.base, word) > rarest || countOf(texts.elsewhere(), word) > 0) return false;
    const [b, o, s] = [words.base, words.other, words.side].map((of) => countOf(of, word)) as [
      number,
      number,
      number,
    ];
    return countOf(words.result, word) < Math.max(o + s - b, Math.min(o, s));
  });
}
