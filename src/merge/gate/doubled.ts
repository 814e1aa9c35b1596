/**
 * Lines of a conflict that one side replaced, that the other left alone, and that stand there beside what the side
 * replaced them by: both sides' lines one after the other, as an editor's "accept both changes" leaves them.
 *
 * ```text
 *  base        the side      the other     the merge
 *  retries=3   retries=n()   retries=3     retries=n()
 *  host=a      host=a        host=b        host=a      ─▶ one too many, as the other side says
 *                                          retries=3   ─▶ one too many
 *                                          host=b
 * ```
 */
import { Buffer } from "node:buffer";
import { around, aroundHunk } from "./around.ts";
import { hasWord, type Layout, type LostHunk, placeOf, SHOWN_LINES, slice } from "./layout.ts";
import { pairsIn } from "./pairs.ts";
import { countKeys, isBackAgain, numberOf } from "./tally.ts";
import { isNeeded } from "./undone.ts";
import { countOf, wordCounts } from "./words.ts";
import type { Hunk } from "../text/hunks.ts";

/** The old lines in conflicts that stand beside what the side replaced them by. */
export function doubledLines(layout: Layout): LostHunk[] {
  const hunks = [...layout.aligned, ...layout.hunks].filter(({ take }) => take === "conflict");
  const told = new Set<number>();
  return hunks.flatMap((hunk) => doubledIn(layout, hunk, told));
}

function doubledIn(layout: Layout, hunk: Hunk, told: Set<number>): LostHunk[] {
  const { base, keys } = layout;
  const replaced = replacedIn(layout, hunk);
  if (replaced.size === 0) return [];
  const place = placeOf(layout, hunk);
  const there = countKeys(keys.result.subarray(place.from, place.to));
  const [old, own, others] = [
    countKeys(keys.base.subarray(hunk.base, hunk.base + hunk.baseCount)),
    countKeys(keys.side.subarray(hunk.theirs, hunk.theirs + hunk.theirsCount)),
    countKeys(keys.other.subarray(hunk.ours, hunk.ours + hunk.oursCount)),
  ];
  const back: { line: number; by: number }[] = [];
  for (const [line, { by, isFewer }] of replaced) {
    const key = keys.base[line]!;
    if (told.has(line) || !hasWord(base, line) || !isBackAgain(layout, key)) continue;
    const wanted = numberOf(own, key) + Math.max(0, numberOf(others, key) - numberOf(old, key));
    if (numberOf(there, key) <= wanted || !by.every((i) => there.has(keys.side[i]!))) continue;
    // Where the side has fewer lines instead, this one may be a mere deletion.
    if (isImportNeeded(layout, line, by) || isFewer && isNeeded(layout, line)) continue;
    told.add(line);
    back.push({ line, by: by[0]! });
  }
  if (back.length === 0) return [];
  return [{
    first: back[0]!.by + 1,
    last: back[0]!.by + 1,
    words: new Map(),
    text: back.slice(0, SHOWN_LINES).map(({ line }) => slice(base, line, 1)),
    place,
    isBack: true,
  }];
}

/** What the side has instead of a line: lines that have any word, in a change that has fewer of them or not. */
interface Instead {
  readonly by: readonly number[];
  readonly isFewer: boolean;
}

/** Lines of the base that the side replaced and the other left alone. */
function replacedIn(layout: Layout, hunk: Hunk): Map<number, Instead> {
  const { base, side, changes, otherChanges } = layout;
  const isLeft = (from: number, to: number): boolean =>
    !around(otherChanges, from, to).some(({ at, removed }) => at < to && at + removed > from);
  const found = new Map<number, Instead>();
  const pairs = pairsIn(base, side, changes, hunk);
  const end = hunk.base + hunk.baseCount;
  for (const { at, removed, newAt, added } of aroundHunk(changes, hunk)) {
    if (at < hunk.base || at + removed > end) continue;
    const isWhole = isLeft(at, at + removed);
    const all = Array.from({ length: added }, (_, i) => newAt + i).filter((i) => hasWord(side, i));
    for (let line = at; line < at + removed; line++) {
      const paired = pairs.get(line);
      if (!isWhole && (paired === undefined || !isLeft(line, line + 1))) continue;
      const by = paired === undefined ? all : [paired].filter((i) => hasWord(side, i));
      if (by.length > 0) found.set(line, { by, isFewer: added < removed });
    }
  }
  return found;
}

/** A line that brings names in, in most languages. */
const BRINGS =
  /^\s*(?:import|from|use|using|#\s*include|require|include|(?:const|let|var)\b.*\brequire)\b/;

/** Whether the other side uses more of what the old line brings in, and the new ones don't. */
function isImportNeeded(
  { base, side, words }: Layout,
  line: number,
  by: readonly number[],
): boolean {
  const old = slice(base, line, 1);
  if (!BRINGS.test(Buffer.from(old.subarray(0, 400)).toString("latin1"))) return false;
  const now = new Set(by.flatMap((i) => [...wordCounts(slice(side, i, 1)).keys()]));
  return [...wordCounts(old).keys()].some((name) =>
    !now.has(name) && countOf(words.other, name) > countOf(words.base, name)
  );
}
