/** Whether a side's change of a text is lost, as a whole or in single hunks. */
import { Buffer } from "node:buffer";
import type { ObjectReader } from "../../git/types.ts";
import { isRegular, type Version } from "../entry.ts";
import { agreedLosses } from "./agreed.ts";
import { withAnswers } from "./answers.ts";
import { lostHunks, missingPlaces, undoneLines } from "./hunks.ts";
import { unkeptLines } from "./counted.ts";
import {
  isLaidOutAnew,
  isLayout,
  isSpacing,
  layOut,
  type LostHunk,
  type Place,
  SHOWN_LINES,
  slice,
} from "./layout.ts";
import type { Steps } from "../steps.ts";
import { hasNul } from "../similarity.ts";
import { standsElsewhere, type Texts, wordsKept } from "./survival.ts";

/** A side whose change is less present than this in words is taken for lost. */
export const BARELY = 0.25;
/** Where both sides changed the same lines, one has to give way to some extent. */
const BARELY_IN_CONFLICT = 0.1;

export interface TextLoss {
  readonly what: string;
  readonly places: readonly Place[];
  /** Lines that are missing, of which the first ones are to be shown. */
  readonly text: readonly Uint8Array[];
}

export function* findTextLoss(
  texts: Texts,
  conflicted: boolean,
  unchanged: boolean,
): Steps<TextLoss | null> {
  layOut(texts);
  yield;
  const answers = withAnswers(texts);
  yield;
  const kept = answers ? keptOf(texts, answers) : wordsKept(texts);
  if (kept === null) {
    const { base, side } = texts;
    const isMinor = conflicted && (isLaidOutAnew(base, side) || isSpacing(base, side));
    if (!unchanged || answers || isMinor) {
      return isMinor ? null : lossOf(texts, yield* undoneLines(texts));
    }
    const what = isLayout(base, side)
      ? "lacks that side's change, which is one of layout alone"
      : "lacks that side's change altogether";
    return { what, places: missingPlaces(texts), text: [] };
  }
  const unkept = kept < (conflicted ? BARELY_IN_CONFLICT : BARELY)
    ? unkeptLines(layOut(texts))
    : null;
  if (unkept && (unchanged || unkept.missing.length > 0 || unkept.isBack)) {
    const { side } = layOut(texts);
    return {
      what: unchanged
        ? "lacks that side's change altogether"
        : "shows next to nothing of that side's change",
      places: missingPlaces(texts),
      text: unkept.missing.slice(0, SHOWN_LINES).map((i) => slice(side, i, 1)),
    };
  }
  return lossOf(texts, yield* lostHunks(texts));
}

/** What both sides did alike, and is undone. */
export function* findAgreedLoss(texts: Texts): Steps<TextLoss | null> {
  const found = lossOf(texts, yield* agreedLosses(texts));
  return found && { ...found, what: `${found.what}, as the other side did too` };
}

/** Words kept of what is no answered question; the most of it, whatever the answer is taken to be. */
function keptOf(texts: Texts, answers: { old: Uint8Array; other: Uint8Array }): number | null {
  const old = wordsKept({ ...texts, side: answers.old });
  if (old === null) return null;
  const other = wordsKept({ ...texts, side: answers.other }) ?? 0;
  return Math.max(old, other, wordsKept(texts) ?? 0);
}

function lossOf(texts: Texts, lost: readonly LostHunk[]): TextLoss | null {
  const hunks = lost.filter((hunk) => !standsElsewhere(hunk, texts.elsewhere()));
  if (hunks.length === 0) return null;
  const missing = hunks.filter(({ isBack }) => !isBack);
  return {
    what: [
      ...missing.length > 0
        ? [
          `lacks what that side changed in ${ranges(missing)} of its version` +
          (missing.every(({ isLayout }) => isLayout) ? ", which is their layout" : ""),
        ]
        : [],
      ...missing.length < hunks.length ? ["has lines back that were deleted there"] : [],
    ].join(", and "),
    places: hunks.map(({ place }) => place),
    text: (missing.length > 0 ? missing : hunks).flatMap(({ text }) => text),
  };
}

/** `line 4`, `lines 4-6`, `lines 4, 8-9`. */
export function ranges(hunks: readonly Pick<LostHunk, "first" | "last">[]): string {
  return linesOfText(
    hunks.map(({ first, last }) => first === last ? `${first}` : `${first}-${last}`),
  );
}

/** Regions as text: `4-4` and `4` are one line. */
export function linesOfText(regions: readonly string[]): string {
  const all = regions.map((region) => region.replace(/^(\d+)-\1$/, "$1"));
  return `${all.length === 1 && !all[0]!.includes("-") ? "line" : "lines"} ${all.join(", ")}`;
}

export const isText = (db: ObjectReader, version: Version): boolean => textOf(db, version) !== null;

/** A file's text, as UTF-8 where it is UTF-16 with a byte order mark; null when it is none. */
export function textOf(db: ObjectReader, version: Version): Uint8Array | null {
  if (!isRegular(version.mode)) return null;
  const { data } = db.read(version.oid);
  if (!hasNul(data)) return data;
  const isBig = data[0] === 0xfe && data[1] === 0xff;
  const isLittle = data[0] === 0xff && data[1] === 0xfe;
  if (data.length % 2 !== 0 || !isBig && !isLittle) return null;
  const units = Buffer.from(data.subarray(2));
  const text = (isBig ? units.swap16() : units).toString("utf16le");
  return text.includes("\0") ? null : Buffer.from(text);
}

/** The contents, when all that exist are text. */
export function readTexts(db: ObjectReader, versions: readonly Version[]): Uint8Array[] | null {
  const texts: Uint8Array[] = [];
  for (const version of versions) {
    const text = version.mode === 0 ? new Uint8Array(0) : textOf(db, version);
    if (text === null) return null;
    texts.push(text);
  }
  return texts;
}
