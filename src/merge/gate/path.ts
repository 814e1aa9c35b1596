/**
 * One path of a merge commit that isn't what merging its parents gives: was work lost there?
 *
 * ```text
 *  conflict markers in it ────────────────────────────────▶ lost
 *  gone, though a side changed or added it ───────────────▶ lost, unless it stands under another name
 *  back, though a side deleted it ────────────────────────▶ lost
 *  one side's version whole, the other's change in it not ▶ lost
 *  a side's change neither there nor adapted ─────────────▶ lost
 *  anything else (adapted, reformatted, more than asked) ─▶ kept
 * ```
 */
import { isRegular, sameVersion, type Version } from "../entry.ts";
import { findContentLoss, findOverwritten } from "./content.ts";
import { type Loss, lossAt, type Lost, type PathContext, type PathVersions } from "./loss.ts";
import { newMarkers, newMarkerSets } from "./markers.ts";
import { BARELY, readTexts, textOf } from "./texts.ts";
import { prepare } from "./prepared.ts";
import { wordsKept } from "./survival.ts";
import { type KnownCounts, shared, wordCounts } from "./words.ts";
import { atOnce, type Steps } from "../steps.ts";

/** A file that has so much of the words of an old one, and that one of its, is the same file. */
const MOSTLY = 0.75;

/** What was lost at this path, or null. */
export const findLoss = (context: PathContext, versions: PathVersions): Loss | null =>
  atOnce(lossSteps(context, versions));

/** The same, left off now and then. */
export function* lossSteps(context: PathContext, versions: PathVersions): Steps<Loss | null> {
  const { base, ours, theirs, expected, result, conflicted } = versions;
  const lost = lossAt(versions);

  if (result.mode === 0) return findRemoval(context, versions, lost);

  const deletedBy = base.mode === 0 ? 0 : ours.mode === 0 ? 1 : theirs.mode === 0 ? 2 : 0;
  if (deletedBy !== 0) {
    // Keeping the changed file is one of the two answers to modify/delete, and loses nothing.
    const kept = deletedBy === 1 ? theirs : ours;
    if (conflicted || expected.mode !== 0) {
      return kept.mode !== 0 && kept.oid !== base.oid && result.oid === base.oid
        ? lost("whole", deletedBy === 1 ? 2 : 1, "has the old content")
        : markersIn(context, versions, lost);
    }
    return isSame(context, result, base) || isSame(context, result, kept)
      ? lost("back", deletedBy, "was deleted there and is back in the merge")
      : markersInNew(context, versions, lost);
  }
  if (!conflicted && expected.mode === 0) return markersInNew(context, versions, lost);

  const marked = markersIn(context, versions, lost);
  if (marked) return marked;
  const mode = findModeLoss(versions, lost);
  if (mode) return mode;
  if (base.mode !== 0 && sameVersion(ours, theirs) && sameVersion(base, ours)) {
    return findOverwritten(context, versions, lost);
  }

  return yield* findContentLoss(context, versions, lost);
}

/** Whether a file that is back is that old one: as it was, laid out anew, or with little changed. */
function isSame({ db }: PathContext, result: Version, old: Version): boolean {
  if (sameVersion(result, old)) return true;
  if (old.mode === 0) return false;
  if (result.oid === old.oid) return true;
  const texts = readTexts(db, [result, old]);
  if (!texts) return false;
  const [now, before] = texts.map(wordCounts) as [KnownCounts, KnownCounts];
  return [shared(before, now), shared(now, before)].every(({ found, total }) =>
    total > 0 && found >= total * MOSTLY
  );
}

/** The path is in no directory of the result. */
function findRemoval(context: PathContext, versions: PathVersions, lost: Lost): Loss | null {
  const { base, ours, theirs, expected, conflicted } = versions;
  if (expected.mode === 0 && !conflicted) return null;
  const changed = (side: Version): boolean => side.mode !== 0 && !sameVersion(side, base);
  for (const [parent, side, other] of [[2, theirs, ours], [1, ours, theirs]] as const) {
    if (!changed(side)) continue;
    if (base.mode === 0) {
      return lost("missing", parent, "was added there and is missing in the merge");
    }
    if (other.mode === 0 && conflicted) {
      const texts = readTexts(context.db, [base, side]);
      const kept = texts && wordsKept({
        base: texts[0]!,
        side: texts[1]!,
        other: texts[0]!,
        result: texts[0]!,
        elsewhere: context.elsewhere,
        prepared: prepare(texts),
      });
      if (kept !== null && kept >= BARELY) return null;
      return lost("missing", parent, "was changed there and is deleted in the merge");
    }
    return lost("missing", parent, "was changed there and is missing in the merge");
  }
  if (expected.mode === 0) return null;
  if (ours.mode === 0 && theirs.mode === 0) {
    // A name that exists only because merging moved a file out of another's way.
    return lost("missing", 0, "was moved aside by merging and is missing in the merge");
  }
  return lost("missing", 0, "was deleted by neither side and is missing in the merge");
}

function markersIn(context: PathContext, versions: PathVersions, lost: Lost): Loss | null {
  const { result, conflicted, base, ours, theirs, markerSize } = versions;
  const data = textOf(context.db, result);
  if (data === null) return null;
  const sources = contents(context, [base, ours, theirs]);
  const lines = newMarkers(data, sources, markerSize, conflicted);
  lines.push(...newMarkerSets(data, () => sources, markerSize).flat());
  return lines.length > 0 ? marked(lines, lost) : null;
}

/** A file that the merge itself puts in: often a copy of a marked one, left over from settling it. */
function markersInNew(context: PathContext, versions: PathVersions, lost: Lost): Loss | null {
  const data = textOf(context.db, versions.result);
  if (data === null) return null;
  const lines = newMarkerSets(
    data,
    () => contents(context, context.parents()),
    versions.markerSize,
  ).flat();
  return lines.length > 0 ? marked(lines, lost) : null;
}

function contents({ db }: PathContext, versions: readonly Version[]): Uint8Array[] {
  return versions.map((version) => textOf(db, version)).filter((text) => text !== null);
}

function marked(lines: readonly number[], lost: Lost): Loss {
  const [first, last] = lines.reduce(
    ([low, high], line) => [Math.min(low, line), Math.max(high, line)],
    [Infinity, 0],
  );
  return lost("markers", 0, "has conflict markers", { regions: [`${first}-${last}`] });
}

function findModeLoss(versions: PathVersions, lost: Lost): Loss | null {
  const { base, ours, theirs, expected, result, conflicted } = versions;
  const differs = (side: Version): boolean => side.mode !== 0 && side.mode !== base.mode;
  if (base.mode !== 0 && !differs(ours) && !differs(theirs) && result.mode !== base.mode) {
    const parents = ([[1, ours], [2, theirs]] as const).filter(([, { oid }]) => oid !== base.oid);
    const what = isRegular(base.mode) && isRegular(result.mode)
      ? `has the mode ${result.mode.toString(8)} instead of ${base.mode.toString(8)}`
      : "is of another type";
    return lost(
      "mode",
      parents.length === 1 ? parents[0]![0] : 0,
      `${what}, which neither side made`,
    );
  }
  // Added: by one side, or by both alike. Else there is no saying which mode was meant.
  const before = base.mode !== 0 ? base.mode : conflicted ? result.mode : 0;
  for (const [parent, side, other] of [[2, theirs, ours], [1, ours, theirs]] as const) {
    if (side.mode === 0 || side.mode === before || side.mode === result.mode) continue;
    if (other.mode !== base.mode && other.mode !== side.mode) continue;
    // A third mode is someone's answer, unless merging the modes was no question.
    if (base.mode !== 0 && result.mode !== base.mode && expected.mode !== side.mode) continue;
    return isRegular(side.mode) && isRegular(result.mode)
      ? lost(
        "mode",
        parent,
        `has the mode ${result.mode.toString(8)} instead of ${side.mode.toString(8)}`,
      )
      : lost("mode", parent, "is of another type there");
  }
  return null;
}
