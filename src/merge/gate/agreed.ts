/**
 * What both sides did alike, and the merge undid: a fix that one of them picked from the other.
 *
 * ```text
 *  base ─▶ ours, base ─▶ theirs: changes that are the same ─▶ taken out of one side's text
 *    now only the other side made them ───────────────────▶ judged as hunks that one side made
 * ```
 */
import { Buffer } from "node:buffer";
import { lostHunks } from "./hunks.ts";
import { type LostHunk, slice } from "./layout.ts";
import { prepare, type Prepared } from "./prepared.ts";
import type { Texts } from "./survival.ts";
import type { Steps } from "../steps.ts";
import type { Change } from "../text/diff.ts";
import type { Hunk } from "../text/hunks.ts";

/** The hunks that both sides made, exactly alike, and that are lost; lines are those of the side's text. */
export function* agreedLosses(texts: Texts): Steps<LostHunk[]> {
  const { prepared, base, other, side } = texts;
  const [own, others] = [side, other].map((text) => prepared.diff("exact", base, text)) as [
    readonly Change[],
    readonly Change[],
  ];
  const agreed = agreedChanges(prepared, texts, own, others);
  if (agreed.length === 0) return [];
  const [old, there] = [prepared.lines(base), prepared.lines(other)];
  const parts: Uint8Array[] = [];
  let at = 0;
  for (const change of agreed) {
    parts.push(slice(there, at, change.newAt - at), slice(old, change.at, change.removed));
    at = change.newAt + change.added;
  }
  parts.push(slice(there, at, there.count - at));
  const without = Buffer.concat(parts);
  // A last line that isn't ended would go on in the next one.
  if (parts.some((part, i) => i < parts.length - 1 && part.length > 0 && part.at(-1) !== 10)) {
    return [];
  }
  const places = new Set(agreed.map((change) => `${change.at} ${change.removed}`));
  const isAgreed = ({ base, baseCount }: Hunk): boolean => places.has(`${base} ${baseCount}`);
  return yield* lostHunks({
    ...texts,
    other: without,
    prepared: prepare([base, side, without, texts.result]),
  }, isAgreed);
}

/** Those of the other side's changes that the side made too. */
function agreedChanges(
  prepared: Prepared,
  { side, other }: Texts,
  own: readonly Change[],
  others: readonly Change[],
): Change[] {
  const [a, b] = [side, other].map((text) => prepared.ids("exact", text)) as [
    Int32Array,
    Int32Array,
  ];
  const known = new Map(own.map((change) => [`${change.at} ${change.removed}`, change]));
  return others.filter(({ at, removed, newAt, added }) => {
    const same = known.get(`${at} ${removed}`);
    if (same?.added !== added) return false;
    for (let i = 0; i < added; i++) if (a[same.newAt + i] !== b[newAt + i]) return false;
    return true;
  });
}
