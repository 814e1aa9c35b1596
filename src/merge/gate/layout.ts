/** The texts of one path of a merge laid side by side: its hunks, and what the result made of them. */
import { Buffer } from "node:buffer";
import { firstFrom } from "./around.ts";
import { withoutBlanks } from "./prepared.ts";
import type { KnownCounts } from "./words.ts";
import type { Texts } from "./survival.ts";
import type { Change } from "../text/diff.ts";
import { alignChanges, type Hunk, joinConflicts, refineConflicts } from "../text/hunks.ts";
import { classifyLines, type Lines, splitLines } from "../text/lines.ts";

/** Lines `[from, to)` of a result, 0-based. */
export interface Place {
  readonly from: number;
  readonly to: number;
}

/** What a text is to whoever looks for one side's change. */
export type Role = "base" | "other" | "side" | "result";

/** Four texts of one path laid side by side; in hunks `ours` is the other side and `theirs` the side. */
export interface Layout {
  readonly texts: Texts;
  readonly base: Lines;
  readonly other: Lines;
  readonly side: Lines;
  readonly result: Lines;
  /** Numbers of whole lines, and of lines without their blanks. */
  readonly ids: Readonly<Record<Role, Int32Array>>;
  readonly keys: Readonly<Record<Role, Int32Array>>;
  readonly known: { readonly ids: Sets; readonly keys: Sets };
  /** As they lie, and with conflicts made small as they are shown. */
  readonly aligned: readonly Hunk[];
  readonly hunks: readonly Hunk[];
  /** What the result made of the other side's text: by whole lines, and by lines without blanks. */
  readonly edits: readonly Change[];
  readonly rewrites: readonly Change[];
  /** What the side and the other side made of the base, by lines without blanks. */
  readonly changes: readonly Change[];
  readonly otherChanges: readonly Change[];
  readonly words: Readonly<Record<Role, KnownCounts>>;
}

/** So many lines of a hunk are kept to be shown. */
export const SHOWN_LINES = 5;

/** A place where work was lost: lines of the side's text, 1-based, and their words. */
export interface LostHunk {
  readonly first: number;
  readonly last: number;
  readonly words: KnownCounts;
  /** The lines aren't missing: the side deleted them, and they are there again. */
  readonly isBack?: boolean;
  /** The lines are there, in another layout. */
  readonly isLayout?: boolean;
  /** The lines that are missing, without those that stand in the result, as far as they may be shown. */
  readonly text: readonly Uint8Array[];
  /** Where it belongs in the result. */
  readonly place: Place;
}

type Sets = Readonly<Record<Role, ReadonlySet<number>>>;

const laidOut = new WeakMap<Texts, Layout>();

/** The layout of these texts, made once. */
export function layOut(texts: Texts): Layout {
  let layout = laidOut.get(texts);
  if (!layout) laidOut.set(texts, layout = makeLayout(texts));
  return layout;
}

function makeLayout(texts: Texts): Layout {
  const { prepared } = texts;
  const of = <T>(get: (text: Uint8Array) => T): Record<Role, T> => ({
    base: get(texts.base),
    other: get(texts.other),
    side: get(texts.side),
    result: get(texts.result),
  });
  const ids = of((text) => prepared.ids("exact", text));
  const keys = of((text) => prepared.ids("loose", text));
  const aligned = alignChanges(
    prepared.diff("exact", texts.base, texts.other),
    prepared.diff("exact", texts.base, texts.side),
    ids.other,
    ids.side,
    ids.base.length,
  );
  const { tables } = prepared.classes("exact");
  return {
    texts,
    ...of(prepared.lines),
    ids,
    keys,
    known: {
      ids: of((text) => new Set(prepared.ids("exact", text))),
      keys: of((text) => new Set(prepared.ids("loose", text))),
    },
    aligned,
    hunks: joinConflicts(refineConflicts(aligned, ids.other, ids.side, tables, "bounded")),
    edits: prepared.diff("exact", texts.other, texts.result),
    rewrites: prepared.diff("loose", texts.other, texts.result),
    changes: prepared.diff("loose", texts.base, texts.side),
    otherChanges: prepared.diff("loose", texts.base, texts.other),
    words: of(prepared.words),
  };
}

/**
 * Whether `text` is `base` with every indented line (or every line) laid out anew and nothing else, as after a
 * change from spaces to tabs. Fewer lines than all can mean something, as in Python.
 */
export function isLaidOutAnew(base: Uint8Array, text: Uint8Array): boolean {
  const data = [base, text];
  const lines = data.map(splitLines) as [Lines, Lines];
  const [before, after] = classifyLines(lines).ids as [Int32Array, Int32Array];
  const loose = classifyLines(data.map((one) => splitLines(withoutBlanks(one)))).ids;
  if (before.length !== after.length) return false;
  let indented = 0;
  let same = 0;
  for (let i = 0; i < before.length; i++) {
    if (loose[0]![i] !== loose[1]![i]) return false;
    if (!hasWord(lines[0], i)) continue;
    const blank = base[lines[0].starts[i]!] === 32 || base[lines[0].starts[i]!] === 9;
    if (blank) indented++;
    if (before[i] !== after[i]) continue;
    if (blank) return false;
    same++;
  }
  return indented > 0 || same === 0;
}

/** Whether texts differ in nothing but blank lines, blanks at lines' ends, and the end of the last line. */
export function isSpacing(one: Uint8Array, other: Uint8Array): boolean {
  const bare = (data: Uint8Array): string =>
    Buffer.from(data).toString("latin1").replace(/[ \t\r]+(?=\n|$)/g, "").replace(/\n+/g, "\n")
      .replace(/^\n|\n$/g, "");
  return bare(one) === bare(other);
}

/** Whether texts differ in nothing but blanks and where lines end. */
export function isLayout(one: Uint8Array, other: Uint8Array): boolean {
  const bare = (data: Uint8Array): Uint8Array => withoutBlanks(data).filter((byte) => byte !== 10);
  return Buffer.compare(bare(one), bare(other)) === 0;
}

export interface HunkLines {
  /** Lines of the side's text that it brought and the result lacks. */
  readonly missing: readonly number[];
  /** How many that it brought the result has. */
  readonly present: number;
  /** Lines of the other text that the side did away with, and those of them still in their place. */
  readonly removed: readonly number[];
  readonly back: readonly number[];
}

export function linesOf(layout: Layout, hunk: Hunk): HunkLines {
  const { keys, known, side, other } = layout;
  const missing: number[] = [];
  let present = 0;
  for (let i = hunk.theirs; i < hunk.theirs + hunk.theirsCount; i++) {
    const key = keys.side[i]!;
    if (!hasWord(side, i) || known.keys.other.has(key)) continue;
    if (known.keys.result.has(key)) present++;
    else missing.push(i);
  }
  if (hunk.take === "conflict") return { missing, present, removed: [], back: [] };
  const { from, to } = placeOf(layout, hunk);
  const there = new Set(keys.result.subarray(from, to));
  const removed: number[] = [];
  for (let i = hunk.ours; i < hunk.ours + hunk.oursCount; i++) {
    if (hasWord(other, i) && !known.keys.side.has(keys.other[i]!)) removed.push(i);
  }
  return { missing, present, removed, back: removed.filter((i) => there.has(keys.other[i]!)) };
}

/** Where the other side's lines of a hunk are in the result, with the edits that touch them. */
export function placeOf({ rewrites }: Layout, hunk: Hunk): Place {
  const first = hunk.ours;
  const end = first + hunk.oursCount;
  const next = firstFrom(rewrites, first);
  const before = rewrites[next - 1];
  const shift = before ? before.newAt + before.added - before.at - before.removed : 0;
  const from = first + shift;
  let to = end + shift;
  let touchedFrom: number | undefined;
  for (let i = next; i < rewrites.length && rewrites[i]!.at <= end; i++) {
    const { at, removed, newAt, added } = rewrites[i]!;
    touchedFrom ??= newAt;
    to = at + removed > end ? newAt + added : end + newAt + added - at - removed;
  }
  return { from: touchedFrom === undefined ? from : Math.min(from, touchedFrom), to };
}

/** Whether a line of the result, but for its blanks, is one that none of the versions merged has. */
export function isFresh({ keys, known }: Layout, line: number): boolean {
  const key = keys.result[line]!;
  return !known.keys.base.has(key) && !known.keys.other.has(key) && !known.keys.side.has(key);
}

export function slice(text: Lines, first: number, count: number): Uint8Array {
  return text.data.subarray(text.starts[first]!, text.starts[first + count]!);
}

export function hasWord(text: Lines, line: number): boolean {
  for (let i = text.starts[line]!; i < text.starts[line + 1]!; i++) {
    const c = text.data[i]!;
    if ((c >= 48 && c <= 57) || (c >= 65 && c <= 90) || (c >= 97 && c <= 122) || c >= 128) {
      return true;
    }
  }
  return false;
}
