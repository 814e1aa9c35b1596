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
import type { ObjectReader, Oid } from "../git/types.ts";
import { isRegular, sameVersion, type Version } from "./entry.ts";
import { cutsOf, mergedText } from "./gate-cuts.ts";
import type { Place } from "./gate-layout.ts";
import { newMarkerSets } from "./gate-markers.ts";
import { isNumberedOn } from "./gate-numbers.ts";
import { BARELY, findTextLoss, ranges, readTexts, textOf } from "./gate-texts.ts";
import { shared, wordCounts, type WordSource } from "./gate-words.ts";
import { newMarkers, wordsKept } from "./survival.ts";

/** What one path is in all the trees that matter. */
export interface PathVersions {
  readonly path: string;
  readonly base: Version;
  readonly ours: Version;
  readonly theirs: Version;
  /** What merging gives; with a conflict, the marked text. */
  readonly expected: Version;
  readonly result: Version;
  readonly conflicted: boolean;
  readonly markerSize: number;
}

export interface PathContext {
  readonly db: ObjectReader;
  /** Words that the merge added to paths other than the one judged. */
  elsewhere(): WordSource;
  /** What the parents have at all paths that the merge changed. */
  parents(): readonly Version[];
}

export interface Loss {
  readonly path: string;
  /** Whose work: 0 when it isn't one side's. */
  readonly parent: 0 | 1 | 2;
  readonly what: string;
  /** `first-last` lines, of the result for markers. */
  readonly regions: readonly string[];
  readonly kind: LossKind;
  /** Of lost text: where it belongs in the result. None when that can't be told. */
  readonly places: readonly Place[];
  /** Of lost text: the first of the lines that are missing. */
  readonly text: readonly Uint8Array[];
  readonly remedy: Remedy;
  /** The side's version, where it isn't at this path in that side's tree. */
  readonly blob?: Oid;
}

/**
 * What brings the work back: the parent's version as a whole (`keep` where the other parent deleted it), the
 * path's removal, or nothing but an edit.
 */
export type Remedy = "take" | "keep" | "remove" | "edit";

/** `whole`: the file's content, as with binaries; `back`: a deleted file that is there again. */
export type LossKind = "markers" | "missing" | "back" | "mode" | "whole" | "text";

type Lost = (
  kind: LossKind,
  parent: 0 | 1 | 2,
  what: string,
  more?: {
    regions?: readonly string[];
    places?: readonly Place[];
    text?: readonly Uint8Array[];
  },
) => Loss;

function remedyOf(
  { base, ours, theirs }: PathVersions,
  kind: LossKind,
  parent: 0 | 1 | 2,
): Remedy {
  if (kind === "back") return "remove";
  if (kind === "markers" || parent === 0) return "edit";
  const [side, other] = parent === 1 ? [ours, theirs] : [theirs, ours];
  if (base.mode !== 0 && other.mode === 0) return "keep";
  return other.mode === 0 || sameVersion(other, base) || sameVersion(other, side) ? "take" : "edit";
}

/** What was lost at this path, or null. */
export function findLoss(context: PathContext, versions: PathVersions): Loss | null {
  const { path, base, ours, theirs, expected, result, conflicted } = versions;
  const lost: Lost = (kind, parent, what, { regions = [], places = [], text = [] } = {}) => ({
    path,
    parent,
    what,
    regions,
    kind,
    places,
    text,
    remedy: remedyOf(versions, kind, parent),
  });

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
    return sameVersion(result, base) || sameVersion(result, kept)
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

  const texts = readTexts(context.db, [base, ours, theirs, result]);
  for (const [parent, side, other] of [[2, theirs, ours], [1, ours, theirs]] as const) {
    if (side.mode === 0 || side.oid === base.oid || side.oid === result.oid) continue;
    const alone = other.oid === base.oid || other.oid === side.oid;
    if (!texts) {
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

/** Neither side touched it: adapting it to the rest is part of merging, replacing it is not. */
function findOverwritten(context: PathContext, versions: PathVersions, lost: Lost): Loss | null {
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
