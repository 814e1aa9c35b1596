/**
 * Questions that were answered, in one way or another: hunks that are no one's loss.
 *
 * ```text
 *  a conflict in which both gave other numbers, and the old ones are gone ─▶ answered
 *  in which the other side did all that the side did ──────────────────────▶ answered
 *  in which the side brought in names that the result brings in ───────────▶ answered
 *  a hunk of one side's that stands there with other numbers ──────────────▶ answered
 * ```
 */
import { Buffer } from "node:buffer";
import { isNameImported } from "./imports.ts";
import { hasWord, type Layout, layOut, linesOf, placeOf, slice } from "./layout.ts";
import { inNumbers, isHunkNumberAnswered, numberedLines } from "./numbers.ts";
import { isContained } from "./tokens.ts";
import type { Texts } from "./survival.ts";
import type { Hunk } from "../text/hunks.ts";

const answered = new WeakMap<Layout, ReadonlySet<Hunk>>();

/**
 * Conflicts that are no one's loss, whichever answer was given: in which the sides differ in nothing but numbers (but
 * for the old ones), or in which the other side did all that the side did.
 */
function answeredHunks(layout: Layout): ReadonlySet<Hunk> {
  let found = answered.get(layout);
  if (!found) {
    const { base, other, side } = layout;
    const isAnswer = (hunk: Hunk): boolean =>
      inNumbers(layout, hunk) && !isBase(layout, hunk) || isHunkNumberAnswered(layout, hunk) ||
      bringsNames(layout, hunk) ||
      isContained(
        slice(base, hunk.base, hunk.baseCount),
        slice(other, hunk.ours, hunk.oursCount),
        slice(side, hunk.theirs, hunk.theirsCount),
      );
    found = new Set(
      layout.aligned.filter((hunk) =>
        hunk.take === "conflict"
          ? isAnswer(hunk)
          : hunk.take === "theirs" && isRenumbered(layout, hunk)
      ),
    );
    answered.set(layout, found);
  }
  return found;
}

/** A hunk that only the side changed, and that the result has with other numbers than anybody's. */
function isRenumbered(layout: Layout, hunk: Hunk): boolean {
  const { missing } = linesOf(layout, hunk);
  if (missing.length === 0) return false;
  const lines = numberedLines(layout, hunk);
  return missing.every((line) => lines.has(line));
}

/** Whether all conflicts that a hunk is made of are. */
export function isAnswered(layout: Layout, { take, theirs, theirsCount }: Hunk): boolean {
  if (take !== "conflict") return false;
  const found = answeredHunks(layout);
  if (found.size === 0) return false;
  const parts = layout.aligned.filter((part) =>
    part.take !== "ours" && part.theirs <= theirs + theirsCount &&
    part.theirs + part.theirsCount >= theirs
  );
  return parts.length > 0 && parts.every((part) => found.has(part));
}

/**
 * The text of the side where a question is answered: with what stood there, and with the other side's answer. Null
 * when there is no such question.
 */
export function withAnswers(texts: Texts): { old: Uint8Array; other: Uint8Array } | null {
  const layout = layOut(texts);
  const found = layout.aligned.filter((hunk) => answeredHunks(layout).has(hunk));
  if (found.length === 0) return null;
  const put = (answer: (hunk: Hunk) => Uint8Array): Uint8Array => {
    const parts: Uint8Array[] = [];
    let at = 0;
    for (const hunk of found) {
      parts.push(texts.side.subarray(layout.side.starts[at], layout.side.starts[hunk.theirs]));
      parts.push(answer(hunk));
      at = hunk.theirs + hunk.theirsCount;
    }
    parts.push(texts.side.subarray(layout.side.starts[at]));
    return Buffer.concat(parts);
  };
  return {
    old: put((hunk) => slice(layout.base, hunk.base, hunk.baseCount)),
    other: put((hunk) => slice(layout.other, hunk.ours, hunk.oursCount)),
  };
}

/** The place shows what stood there before either side. */
export function isBase(layout: Layout, hunk: Hunk): boolean {
  const { from, to } = placeOf(layout, hunk);
  const { base, result } = layout.keys;
  if (to - from !== hunk.baseCount) return false;
  for (let i = 0; i < hunk.baseCount; i++) {
    if (result[from + i] !== base[hunk.base + i]) return false;
  }
  return true;
}

/** The hunk does no more than to bring in names that the result has brought in too. */
export function bringsNames(layout: Layout, hunk: Hunk): boolean {
  for (let i = hunk.theirs; i < hunk.theirs + hunk.theirsCount; i++) {
    if (hasWord(layout.side, i) && !isNameImported(layout, i)) {
      return false;
    }
  }
  return hunk.theirsCount > 0 && hunk.baseCount === 0;
}
