/**
 * Lines that one side put in, and that the merge adapted to what the other side did: a call that the one added, of
 * what the other renamed or gave another argument.
 *
 * ```text
 *  base    user = fetch_user(ctx)        the other side   user = load_user(ctx)
 *  put in  guest = fetch_user(id)        the merge        guest = load_user(id)   ─▶ taken for the line put in
 * ```
 */
import { Buffer } from "node:buffer";
import { slice } from "./layout.ts";
import type { Merged } from "./cuts.ts";
import { type PathTexts, withoutBlanks } from "./prepared.ts";
import { countKeys, numberOf } from "./tally.ts";
import { countOf, type KnownCounts, shared, wordCounts } from "./words.ts";
import { diffLines } from "../text/diff.ts";
import { classifyLines, splitLines } from "../text/lines.ts";

/** Lines of one place are compared with each other at most so often: past that, none is adapted. */
const COMPARISONS = 10_000;

/** What one path of a merge is made of, and what merging gives. */
export interface MergedTexts extends PathTexts {
  /** What merging gives. */
  readonly merged: Merged;
}

/** The same with lines as the merge adapted them; null when it adapted none. */
export function withAdapted(texts: MergedTexts): MergedTexts | null {
  const { base, ours, theirs, result, merged } = texts;
  const data = [merged.text, result, base, ours, theirs];
  const [want, have, , one, two] = data.map(splitLines) as Five<ReturnType<typeof splitLines>>;
  const { ids, tables } = classifyLines(data.map((text) => splitLines(withoutBlanks(text))));
  const [wanted, got, old, left, right] = ids as Five<Int32Array>;
  const known = { base: new Set(old), ours: new Set(left), theirs: new Set(right) };
  const words = { base: wordCounts(base), ours: wordCounts(ours), theirs: wordCounts(theirs) };
  const counts = { base: countKeys(old), ours: countKeys(left), theirs: countKeys(right) };

  /** Of each line that was adapted: the line that it became. */
  const became = new Map<number, Uint8Array>();
  const changes = new Map<number, Uint8Array>();
  for (const { at, removed, newAt, added } of diffLines(wanted, got, tables, "bounded")) {
    if (removed * added > COMPARISONS) continue;
    const free = new Set(Array.from({ length: added }, (_, i) => newAt + i));
    for (let i = at; i < at + removed; i++) {
      const id = wanted[i]!;
      // Which of two edits of one line counts, in a conflict, is for the rules of conflicts to say.
      if (merged.conflicted?.[i] === 1) continue;
      const [mine, other] = known.ours.has(id)
        ? ["ours", "theirs"] as const
        : ["theirs", "ours"] as const;
      if (known.base.has(id) || known[other].has(id) || !known[mine].has(id)) continue;
      const line = wordCounts(slice(want, i, 1));
      // A line that this side took out is back, whatever the other side uses its words for.
      const isBack = (id: number): boolean =>
        numberOf(counts[mine], id) < numberOf(counts.base, id);
      const found = [...free].find((j) =>
        !isBack(got[j]!) &&
        isAdaption(line, wordCounts(slice(have, j, 1)), words.base, words[other])
      );
      if (found === undefined) continue;
      free.delete(found);
      changes.set(i, slice(have, found, 1));
      became.set(id, slice(have, found, 1));
    }
  }
  // Of equal lines some of which were not adapted nothing is taken for another: those may be what is lost.
  for (const i of [...changes.keys()]) {
    const id = wanted[i]!;
    if (wanted.every((other, at) => other !== id || changes.has(at))) continue;
    became.delete(id);
    changes.delete(i);
  }
  if (changes.size === 0) return null;
  return {
    base,
    ours: replaced(one, (i) => became.get(left[i]!)),
    theirs: replaced(two, (i) => became.get(right[i]!)),
    result,
    merged: { ...merged, text: replaced(want, (i) => changes.get(i)) },
  };
}

type Five<T> = [T, T, T, T, T];

/**
 * Whether `now` is the line with most of its words, but for such as the other side has fewer of than the base, and
 * with others that it has more of.
 */
function isAdaption(
  line: KnownCounts,
  now: KnownCounts,
  base: KnownCounts,
  other: KnownCounts,
): boolean {
  const kept = shared(line, now);
  if (kept.found === 0 || kept.found * 2 < kept.total) return false;
  let more = 0;
  for (const [word, n] of now) {
    if (n <= countOf(line, word)) continue;
    if (countOf(other, word) <= countOf(base, word)) return false;
    more += n - countOf(line, word);
  }
  // Words that merely went are lost.
  if (more === 0 || more < kept.total - kept.found) return false;
  return [...line].every(([word, n]) =>
    n <= countOf(now, word) || countOf(other, word) < countOf(base, word)
  );
}

function replaced(
  lines: ReturnType<typeof splitLines>,
  by: (line: number) => Uint8Array | undefined,
): Uint8Array {
  const parts: Uint8Array[] = [];
  for (let i = 0; i < lines.count; i++) parts.push(by(i) ?? slice(lines, i, 1));
  return Buffer.concat(parts);
}
