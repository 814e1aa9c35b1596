/** Whether a path's content, there as a file of the right type, lacks what a side did to it. */
import { isRegular } from "../entry.ts";
import { cutsOf, mergedText } from "./cuts.ts";
import type { Loss, Lost, PathContext, PathVersions } from "./loss.ts";
import { isNumberedOn } from "./numbers.ts";
import { prepare } from "./prepared.ts";
import { BARELY, findTextLoss, ranges, readTexts, textOf } from "./texts.ts";
import { shared, wordCounts } from "./words.ts";

export function findContentLoss(
  context: PathContext,
  versions: PathVersions,
  lost: Lost,
): Loss | null {
  const { base, ours, theirs, expected, result, conflicted } = versions;
  const texts = readTexts(context.db, [base, ours, theirs, result]);
  const prepared = texts && prepare(texts);
  for (const [parent, side, other] of [[2, theirs, ours], [1, ours, theirs]] as const) {
    if (side.mode === 0 || side.oid === base.oid || side.oid === result.oid) continue;
    const alone = other.oid === base.oid || other.oid === side.oid;
    if (!texts || !prepared) {
      const stale = alone ? base : other;
      if (result.oid === stale.oid && (conflicted || result.oid !== expected.oid)) {
        return lost(
          "whole",
          parent,
          alone ? "has the old content" : "has the other side's content whole",
        );
      }
      // What has no lines can't be adapted line by line: without a conflict it is what merging gives.
      if (!conflicted && result.oid !== expected.oid) {
        return lost("whole", parent, "has other content than merging gives");
      }
      continue;
    }
    if (ours.oid === theirs.oid && isNumberedOn(texts[0]!, texts[1]!, texts[3]!)) continue;
    const found = findTextLoss(
      {
        base: texts[0]!,
        side: parent === 1 ? texts[1]! : texts[2]!,
        other: alone ? texts[0]! : parent === 1 ? texts[2]! : texts[1]!,
        result: texts[3]!,
        elsewhere: context.elsewhere,
        prepared,
      },
      conflicted,
      result.oid === (alone ? base : other).oid,
    );
    if (found) return lost("text", parent, found.what, found);
  }
  const merged = !texts
    ? null
    : conflicted
    ? mergedText(texts[0]!, texts[1]!, texts[2]!)
    : textOf(context.db, expected);
  if (merged) {
    const cuts = cutsOf(merged, texts![3]!, () => context.elsewhere());
    if (cuts.length > 0) {
      const what = conflicted
        ? "lacks lines that merging gives beside what was in conflict"
        : `lacks ${ranges(cuts)} of what merging gives`;
      const places = cuts.map(({ place }) => place);
      return lost("text", 0, what, { places, text: cuts.flatMap(({ text }) => text) });
    }
  }
  return null;
}

/** Neither side touched it: adapting it to the rest is part of merging, replacing it is not. */
export function findOverwritten(
  context: PathContext,
  versions: PathVersions,
  lost: Lost,
): Loss | null {
  const { expected, result } = versions;
  if (isRegular(expected.mode) !== isRegular(result.mode)) {
    return lost("whole", 0, "is of another type, though neither side changed it");
  }
  const texts = readTexts(context.db, [expected, result]);
  if (!texts) {
    return result.oid === expected.oid
      ? null
      : lost("whole", 0, "was changed by neither side and has other content");
  }
  const old = wordCounts(texts[0]!);
  const now = wordCounts(texts[1]!);
  const { found, total } = shared(old, now);
  const gone = total - found;
  const more = shared(now, old);
  const isCut = gone * 2 > total && more.total - more.found < gone * BARELY;
  if (found >= total * BARELY && !isCut) return null;
  const moved = shared(old, context.elsewhere()).found;
  if (moved >= total * BARELY) return null;
  if (isCut) {
    return lost("whole", 0, "was changed by neither side and has less than half of its words");
  }
  return lost("whole", 0, "was changed by neither side and is replaced by something else");
}
