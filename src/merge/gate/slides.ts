/**
 * Lines that are put in or taken out beside lines like them: which of them is a matter of how it is looked at. Of two
 * lines `end` that follow one another either can be the one that is new, or gone.
 */
import { around } from "./around.ts";
import type { Place } from "./layout.ts";
import type { Change } from "../text/diff.ts";
import type { Hunk } from "../text/hunks.ts";

/** Lines can slide so far. */
const SLIDE = 40;

/** All lines of what merging gives to which lines that a hunk puts in can slide; null when there are no others. */
export function slides(keys: Int32Array, hunk: Hunk, { from, to }: Place): Place | null {
  if (hunk.baseCount > 0 || hunk.oursCount > 0) return null;
  let [up, down] = [0, 0];
  while (up < SLIDE && up < from && keys[from - up - 1] === keys[to - up - 1]) up++;
  while (down < SLIDE && to + down < keys.length && keys[from + down] === keys[to + down]) down++;
  return up + down > 0 ? { from: from - up, to: to + down } : null;
}

/**
 * The changes at lines `[start, end)` of what merging gives, those that only take lines out slid there where they may
 * be: of two lines `end` that follow one another either can be the one that is gone.
 */
export function slidTo(
  keys: Int32Array,
  changes: readonly Change[],
  start: number,
  end: number,
): readonly Change[] {
  return around(changes, start - SLIDE, end + SLIDE).map((change) => {
    if (change.added > 0) return change;
    let { at } = change;
    const { removed } = change;
    const least = at - SLIDE;
    const most = at + SLIDE;
    while (at > start && at > least && keys[at - 1] === keys[at + removed - 1]) at--;
    while (at + removed < end && at < start && at < most && keys[at] === keys[at + removed]) at++;
    // What takes out more than is there is another change.
    if (at === change.at || at < start || at + removed > end) return change;
    return { ...change, at, newAt: change.newAt + at - change.at };
  }).filter(({ at, removed }) => at <= end && at + removed >= start);
}
