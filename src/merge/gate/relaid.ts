/**
 * Lines of which a side changed no more than the blanks, an indentation most of all, and that are as they were: a line
 * that fell out of the block that the side put under a condition.
 *
 * ```text
 *  a line of the base that the side laid out anew, and the other side left alone
 *    the result has it as the base had it, and not as the side has it
 *      what the side put in beside it isn't there ───────────────────────────▶ not judged here: written anew
 *      as many lines have a layout that nobody gave them ────────────────────▶ not judged here: a formatter's
 *      the side laid out the whole file anew, and there were conflicts,
 *        or all of it is as it was ──────────────────────────────────────────▶ one of two layouts
 *      else ─────────────────────────────────────────────────────────────────▶ back
 * ```
 */
import { Buffer } from "node:buffer";
import { hasWord, type Layout, type LostHunk, SHOWN_LINES, slice } from "./layout.ts";
import { countKeys, numberOf, timesIn } from "./tally.ts";
import type { Change } from "../text/diff.ts";
import type { Hunk } from "../text/hunks.ts";
import type { Lines } from "../text/lines.ts";

/** Lines of the side's text that are lines of the base in another layout: which ones. */
type Relaid = ReadonlyMap<number, number>;

/** The side's changes of layout alone that the result hasn't. */
export function relaidLosses(layout: Layout): LostHunk[] {
  const { texts, base, side, result, ids, known } = layout;
  const relaid = relaidLines(layout);
  if (relaid.size === 0) return [];
  const kept = matesOf(side, texts.prepared.diff("loose", texts.side, texts.result));
  // A line that fell out behind what closes its block stands past lines that were kept.
  const mates = kept.map((now, line) =>
    now < 0 && relaid.has(line) ? ids.result.indexOf(ids.base[relaid.get(line)!]!) : now
  );
  const counts = {
    base: countKeys(ids.base),
    other: countKeys(ids.other),
    side: countKeys(ids.side),
    result: countKeys(ids.result),
  };
  const given = (id: number): number => {
    const [b, o, s] = timesIn(counts, id);
    return Math.max(0, o + s - b);
  };
  /** The result's line that is the side's, as it was before. */
  const isBack = (line: number, old: number): boolean => {
    const now = mates[line]!;
    return now >= 0 && isSame(result, now, base, old) &&
      numberOf(counts.result, ids.result[now]!) > given(ids.base[old]!) &&
      numberOf(counts.result, ids.side[line]!) < given(ids.side[line]!);
  };
  const back = new Set([...relaid].flatMap(([line, old]) => isBack(line, old) ? [line] : []));
  if (back.size === 0) return [];
  if (isWhole(layout, relaid) && !isUnderNew(layout, back)) {
    const isMinor = layout.hunks.some(({ take }) => take === "conflict");
    if (isMinor || back.size === relaid.size) return [];
  }
  let strange = 0;
  for (let i = 0; i < side.count; i++) {
    const now = mates[i]!;
    if (now < 0 || !hasWord(side, i)) continue;
    const id = ids.result[now]!;
    if (!(["base", "other", "side"] as const).some((role) => known.ids[role].has(id))) strange++;
  }
  if (strange >= back.size) return [];
  return layout.hunks.flatMap((hunk) => {
    if (hunk.take !== "theirs" && hunk.take !== "conflict") return [];
    const lines = linesIn(hunk).filter((line) => back.has(line));
    if (lines.length === 0 || !isPutIn(layout, hunk, mates)) return [];
    const places = lines.map((line) => mates[line]!);
    return [{
      first: lines[0]! + 1,
      last: lines[lines.length - 1]! + 1,
      words: new Map(),
      text: lines.slice(0, SHOWN_LINES).map((line) => slice(side, line, 1)),
      isLayout: true,
      place: { from: Math.min(...places), to: Math.max(...places) + 1 },
    }];
  });
}

/** Of the hunks that the side has a part in: its lines that it laid out anew, where the other side left them alone. */
function relaidLines({ texts, base, side, hunks, changes }: Layout): Relaid {
  const found = new Map<number, number>();
  let mates: Int32Array | undefined;
  let untouched: Int32Array | undefined;
  const others = texts.prepared.diff("exact", texts.base, texts.other);
  for (const hunk of hunks) {
    if (hunk.take !== "theirs" && hunk.take !== "conflict") continue;
    mates ??= matesOf(base, changes, side.count);
    for (const line of linesIn(hunk)) {
      const old = mates[line]!;
      if (old < 0 || !hasWord(side, line) || isSame(side, line, base, old)) continue;
      untouched ??= matesOf(base, others);
      if (untouched[old]! >= 0) found.set(line, old);
    }
  }
  return found;
}

/**
 * Of each line of a text, which line of the other one it is, or -1: of the old text of some changes, or, when the new
 * one's number of lines is given, of that.
 */
function matesOf(old: Lines, changes: readonly Change[], count?: number): Int32Array {
  const mates = new Int32Array(count ?? old.count).fill(-1);
  let [at, newAt] = [0, 0];
  const keep = (end: number): void => {
    for (; at < end; at++, newAt++) {
      mates[count === undefined ? at : newAt] = count === undefined ? newAt : at;
    }
  };
  for (const change of changes) {
    keep(change.at);
    at += change.removed;
    newAt += change.added;
  }
  keep(old.count);
  return mates;
}

const linesIn = ({ theirs, theirsCount }: Hunk): number[] =>
  Array.from({ length: theirsCount }, (_, i) => theirs + i);

/** Whether lines are the same but for blanks at their ends. */
const isSame = (one: Lines, a: number, other: Lines, b: number): boolean =>
  Buffer.compare(withoutEnd(one, a), withoutEnd(other, b)) === 0;

function withoutEnd(text: Lines, line: number): Uint8Array {
  const data = slice(text, line, 1);
  let end = data.length;
  while (end > 0 && (data[end - 1]! <= 13 && data[end - 1]! >= 9 || data[end - 1] === 32)) end--;
  return data.subarray(0, end);
}

/** Whether no indented line of the base has its old layout with the side. */
function isWhole({ base, ids, known }: Layout, relaid: Relaid): boolean {
  const lines = new Set(relaid.values());
  for (let i = 0; i < base.count; i++) {
    const first = base.data[base.starts[i]!];
    if (first !== 32 && first !== 9 || !hasWord(base, i) || lines.has(i)) continue;
    if (known.ids.side.has(ids.base[i]!)) return false;
  }
  return true;
}

/** Whether the side put a line in where one of these lies: that is no layout alone, however small the file. */
function isUnderNew({ hunks, changes, side }: Layout, back: ReadonlySet<number>): boolean {
  return hunks.some((hunk) =>
    linesIn(hunk).some((line) => back.has(line)) &&
    changes.some(({ newAt, added }) =>
      newAt >= hunk.theirs && newAt + added <= hunk.theirs + hunk.theirsCount &&
      Array.from({ length: added }, (_, i) => newAt + i).some((line) => hasWord(side, line))
    )
  );
}

/** Whether what the side put in at a hunk stands in the result. */
function isPutIn({ side, keys, known }: Layout, hunk: Hunk, mates: Int32Array): boolean {
  return linesIn(hunk).every((line) =>
    !hasWord(side, line) || mates[line]! >= 0 ||
    known.keys.base.has(keys.side[line]!) || known.keys.result.has(keys.side[line]!)
  );
}
