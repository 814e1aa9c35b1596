/** Changes of a file that fit together, and that git's commands put together as merging does. */
import { Buffer } from "node:buffer";
import type { ObjectReader } from "../../git/types.ts";
import { isRegular, type Version } from "../entry.ts";
import type { Scene } from "./merge.ts";
import { countKeys, numberOf, type Numbers } from "./tally.ts";
import { hasNul } from "../similarity.ts";
import type { DiffAlgorithm } from "../text/diff.ts";
import { classifyLines, splitLines } from "../text/lines.ts";
import { mergeTexts } from "../text/merge3.ts";

/**
 * Whether a text has each line no more often than merging gives it, or what stands there now has it, and no less than
 * both: lines that were taken apart otherwise when that was made can be put in twice, or not at all.
 */
export function isAsGiven(
  { db, expected, conflicted }: Scene,
  text: Uint8Array,
  now: Version,
): boolean {
  if (!isPlain(db, expected)) return false;
  const lines = [text, db.read(expected.oid).data, db.read(now.oid).data].map(splitLines);
  const { ids } = classifyLines(lines);
  const [own, given, there] = ids.map((of) => countKeys(of)) as Numbers[] as [
    Numbers,
    Numbers,
    Numbers,
  ];
  for (const key of new Set([...own.keys(), ...given.keys()])) {
    const [n, one, two] = [own, given, there].map((counts) => numberOf(counts, key)) as [
      number,
      number,
      number,
    ];
    // Of a conflict both sides' lines are given.
    if (n > Math.max(one, two) || !conflicted && n < Math.min(one, two)) return false;
  }
  return true;
}

/** Whether it is a file that is merged by lines just as it is. */
export const isPlain = (db: ObjectReader, { mode, oid }: Version): boolean =>
  isRegular(mode) && !hasNul(db.read(oid).data);

/**
 * What both made of the base, where that fits together; null too for what has no lines. Without an algorithm, where
 * git's commands for files and patches, which go by Myers' diff, give the same as merging does.
 */
export function mergedInto(
  db: ObjectReader,
  base: Version,
  ours: Version,
  theirs: Version,
  algorithm?: "histogram",
): Uint8Array | null {
  if (![ours, theirs, ...base.mode === 0 ? [] : [base]].every((one) => isPlain(db, one))) {
    return null;
  }
  const [old, one, two] = [base, ours, theirs].map(({ mode, oid }) =>
    mode === 0 ? new Uint8Array(0) : db.read(oid).data
  ) as [Uint8Array, Uint8Array, Uint8Array];
  const merge = (by: DiffAlgorithm): Uint8Array | null => {
    const labels = { ours: "", base: "", theirs: "" };
    const { data, conflicts } = mergeTexts(old, one, two, { labels, algorithm: by });
    return conflicts === 0 ? data : null;
  };
  const merged = merge("histogram");
  if (!merged || algorithm) return merged;
  const other = merge("myers");
  return other && Buffer.compare(merged, other) === 0 ? merged : null;
}
