/** Whether a path's content, there as a file of the right type, lacks what a side did to it. */
import { isRegular, isSubmodule } from "../entry.ts";
import { withAdapted } from "./adapted.ts";
import { cutsOf, type Merged, mergedText } from "./cuts.ts";
import { withoutCommented } from "./commented.ts";
import { inUtf8 } from "./encoding.ts";
import type { Loss, Lost, PathContext, PathVersions } from "./loss.ts";
import { isNumberedOn } from "./numbers.ts";
import { type PathTexts, prepare } from "./prepared.ts";
import { BARELY, findAgreedLoss, findTextLoss, ranges, readTexts, textOf } from "./texts.ts";
import { shared, wordCounts } from "./words.ts";
import type { Steps } from "../steps.ts";

export function* findContentLoss(
  context: PathContext,
  versions: PathVersions,
  lost: Lost,
): Steps<Loss | null> {
  const { base, ours, theirs, expected, result, conflicted } = versions;
  const texts = readTexts(context.db, [base, ours, theirs, result]);
  if (!texts) return findOpaqueLoss(versions, lost);
  const [one, two, three, four] = texts as [Uint8Array, Uint8Array, Uint8Array, Uint8Array];
  const raw = { base: one, ours: two, theirs: three, result: four };
  const decoded = inUtf8(raw);
  const all = yield* withoutCommented(decoded ?? raw);
  const merged = conflicted || decoded
    ? mergedText(all.base, all.ours, all.theirs)
    : textOf(context.db, expected);
  if (!merged) return yield* findLineLoss(context, versions, all, null, lost);
  const given = merged instanceof Uint8Array ? { text: merged } : merged;
  yield;
  const found = yield* findLineLoss(context, versions, all, given, lost);
  const adapted = found && withAdapted({ ...all, merged: given });
  if (!adapted) return found;
  yield;
  return (yield* findLineLoss(context, versions, adapted, adapted.merged, lost)) && found;
}

/** What has no lines: nothing but the whole of it can be compared. */
function findOpaqueLoss(
  { base, ours, theirs, expected, result, conflicted }: PathVersions,
  lost: Lost,
): Loss | null {
  const kinds = [ours, theirs, result, ...base.mode === 0 ? [] : [base]];
  if (conflicted && kinds.every(({ mode }) => isSubmodule(mode))) {
    // Either side's commit may contain the other's: its own history knows, and lies elsewhere. git fast-forwards then.
    return result.oid === base.oid && ours.oid !== base.oid && theirs.oid !== base.oid
      ? lost("whole", 0, "has the old commit, which both sides changed")
      : null;
  }
  const isOld = base.mode !== 0 && result.oid === base.oid;
  if (isOld && conflicted && ours.oid !== base.oid && theirs.oid !== base.oid) {
    return lost("whole", 0, "has the old content, which both sides changed");
  }
  for (const [parent, side, other] of [[2, theirs, ours], [1, ours, theirs]] as const) {
    if (side.mode === 0 || side.oid === base.oid || side.oid === result.oid) continue;
    const alone = other.oid === base.oid || other.oid === side.oid;
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
  }
  return null;
}

function* findLineLoss(
  context: PathContext,
  { base, ours, theirs, result, conflicted, isPartial }: PathVersions,
  texts: PathTexts,
  merged: Merged | null,
  lost: Lost,
): Steps<Loss | null> {
  const prepared = prepare([texts.base, texts.ours, texts.theirs, texts.result]);
  for (const [parent, side, other] of [[2, theirs, ours], [1, ours, theirs]] as const) {
    if (side.mode === 0 || side.oid === base.oid || side.oid === result.oid) continue;
    const alone = other.oid === base.oid || other.oid === side.oid;
    if (ours.oid === theirs.oid && isNumberedOn(texts.base, texts.ours, texts.result)) continue;
    const found = yield* findTextLoss(
      {
        base: texts.base,
        side: parent === 1 ? texts.ours : texts.theirs,
        other: alone ? texts.base : parent === 1 ? texts.theirs : texts.ours,
        result: texts.result,
        // Where the file is as it was, its lines belong here, whatever other file has them too.
        elsewhere: alone && !conflicted && result.oid === base.oid
          ? () => new Map()
          : context.elsewhere,
        ...context.written && { written: () => context.written!() },
        prepared,
      },
      conflicted,
      result.oid === (alone ? base : other).oid,
    );
    if (found) return lost("text", parent, found.what, found);
  }
  if (isPartial) return null;
  const undone = ours.oid === theirs.oid ? null : yield* findAgreedLoss({
    base: texts.base,
    side: texts.theirs,
    other: texts.ours,
    result: texts.result,
    elsewhere: context.elsewhere,
    prepared,
  });
  if (undone) return lost("text", 2, undone.what, undone);
  if (!merged) return null;
  const cuts = yield* cutsOf(
    { ...merged, sides: [texts.base, texts.ours, texts.theirs] },
    texts.result,
    () => context.elsewhere(),
  );
  if (cuts.length === 0) return null;
  const what = conflicted
    ? "lacks lines that merging gives beside what was in conflict"
    : `lacks ${ranges(cuts)} of what merging gives`;
  const places = cuts.map(({ place }) => place);
  return lost("text", 0, what, { places, text: cuts.flatMap(({ text }) => text) });
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
