/** Three-way merge of texts, byte for byte what git's merge machinery writes. */
import { Buffer } from "node:buffer";
import { type DiffAlgorithm, diffLines } from "./diff.ts";
import {
  alignChanges,
  type Hunk,
  joinConflicts,
  refineConflicts,
  type Take,
  trimConflicts,
} from "./hunks.ts";
import { classifyLines, type Lines, splitLines } from "./lines.ts";

export type ConflictStyle = "merge" | "diff3" | "zdiff3";

export interface TextMergeOptions {
  /** What follows the markers, as latin1 text (one char a byte). Empty: the bare marker. */
  labels: { ours: string; base: string; theirs: string };
  style?: ConflictStyle;
  /** Length of the conflict markers; 7 unless given. */
  markerSize?: number;
  /** Settles conflicts without markers, `both`: ours followed by theirs. */
  favor?: "ours" | "theirs" | "both";
  algorithm?: DiffAlgorithm;
  /**
   * How hard conflicts are made smaller: `zealous` as merges of trees do it, `alnum` also joins conflicts
   * with nothing but punctuation between them, as `git merge-file` does.
   */
  level?: "zealous" | "alnum";
}

export interface TextMerge {
  readonly data: Uint8Array;
  /** Number of conflicts left. */
  readonly conflicts: number;
  /** Where they are: `first-last`, 1-based lines of `data`, markers included. */
  readonly regions: readonly string[];
}

/** Merges what `ours` and `theirs` made of `base`. */
export function mergeTexts(
  base: Uint8Array,
  ours: Uint8Array,
  theirs: Uint8Array,
  options: TextMergeOptions,
): TextMerge {
  const algorithm = options.algorithm ?? "histogram";
  const style = options.style ?? "merge";
  const texts: [Lines, Lines, Lines] = [splitLines(base), splitLines(ours), splitLines(theirs)];
  const { ids, tables } = classifyLines(texts);
  const [ids0, ids1, ids2] = ids as [Int32Array, Int32Array, Int32Array];

  const oursChanges = diffLines(ids0, ids1, tables, algorithm);
  if (oursChanges.length === 0) return { data: theirs, conflicts: 0, regions: [] };
  const theirsChanges = diffLines(ids0, ids2, tables, algorithm);
  if (theirsChanges.length === 0) return { data: ours, conflicts: 0, regions: [] };

  let hunks = alignChanges(oursChanges, theirsChanges, ids1, ids2, ids0.length);
  if (style === "zdiff3") {
    trimConflicts(hunks, ids1, ids2);
  } else if (style === "merge") {
    hunks = refineConflicts(hunks, ids1, ids2, tables, algorithm);
    const isBoring = options.level === "alnum"
      ? (from: number, to: number) => !hasAlnum(texts[1], from, to)
      : undefined;
    hunks = joinConflicts(hunks, isBoring);
  }
  return writeMerge(texts, hunks, style, options);
}

function hasAlnum(text: Lines, from: number, to: number): boolean {
  for (let i = text.starts[from]!; i < text.starts[to]!; i++) {
    const c = text.data[i]!;
    if ((c >= 48 && c <= 57) || (c >= 65 && c <= 90) || (c >= 97 && c <= 122)) return true;
  }
  return false;
}

function writeMerge(
  [base, ours, theirs]: [Lines, Lines, Lines],
  hunks: readonly Hunk[],
  style: ConflictStyle,
  options: TextMergeOptions,
): TextMerge {
  const { labels } = options;
  const size = options.markerSize && options.markerSize > 0 ? options.markerSize : 7;
  const parts: Uint8Array[] = [];
  const regions: string[] = [];
  let line = 0;
  let conflicts = 0;

  const copy = (text: Lines, from: number, count: number): void => {
    if (count <= 0) return;
    parts.push(text.data.subarray(text.starts[from]!, text.starts[from + count]!));
    line += count;
  };
  const endLine = (text: Lines, from: number, count: number, cr: boolean): void => {
    if (count <= 0) return;
    const end = text.starts[from + count]!;
    if (text.data[end - 1] !== 10) parts.push(cr ? CRLF : LF);
  };
  const marker = (char: string, label: string, cr: boolean): void => {
    const text = char.repeat(size) + (label === "" ? "" : " " + label) + (cr ? "\r\n" : "\n");
    parts.push(Buffer.from(text, "latin1"));
    line++;
  };

  let next = 0;
  for (const hunk of hunks) {
    const take: Take = hunk.take === "conflict" ? options.favor ?? "conflict" : hunk.take;
    if (take === "same") continue;
    copy(ours, next, hunk.ours - next);
    if (take === "conflict") {
      conflicts++;
      const cr = wantsCr(base, ours, theirs, hunk);
      const first = line + 1;
      marker("<", labels.ours, cr);
      copy(ours, hunk.ours, hunk.oursCount);
      endLine(ours, hunk.ours, hunk.oursCount, cr);
      if (style !== "merge") {
        marker("|", labels.base, cr);
        copy(base, hunk.base, hunk.baseCount);
        endLine(base, hunk.base, hunk.baseCount, cr);
      }
      marker("=", "", cr);
      copy(theirs, hunk.theirs, hunk.theirsCount);
      endLine(theirs, hunk.theirs, hunk.theirsCount, cr);
      marker(">", labels.theirs, cr);
      regions.push(`${first}-${line}`);
    } else {
      if (take !== "theirs") {
        copy(ours, hunk.ours, hunk.oursCount);
        if (take === "both") {
          endLine(ours, hunk.ours, hunk.oursCount, wantsCr(base, ours, theirs, hunk));
        }
      }
      if (take !== "ours") copy(theirs, hunk.theirs, hunk.theirsCount);
    }
    next = hunk.ours + hunk.oursCount;
  }
  copy(ours, next, ours.count - next);
  return { data: Buffer.concat(parts), conflicts, regions };
}

const LF = Uint8Array.of(10);
const CRLF = Uint8Array.of(13, 10);

/** Markers end in CR LF when the lines before the hunk on both sides, and the base's first, do. */
function wantsCr(base: Lines, ours: Lines, theirs: Lines, hunk: Hunk): boolean {
  let cr = endsInCr(ours, hunk.ours > 0 ? hunk.ours - 1 : 0);
  if (cr !== false) cr = endsInCr(theirs, hunk.theirs > 0 ? hunk.theirs - 1 : 0);
  if (cr !== false) cr = endsInCr(base, 0);
  return cr === true;
}

/** Whether line `i` ends in CR LF; the line before it decides when it has no LF; undefined: can't tell. */
function endsInCr(text: Lines, i: number): boolean | undefined {
  const crBefore = (line: number): boolean => {
    const end = text.starts[line + 1]!;
    return end - text.starts[line]! > 1 && text.data[end - 2] === 13;
  };
  if (i < text.count - 1) return crBefore(i);
  if (text.count === 0) return undefined;
  const end = text.starts[i + 1]!;
  if (end > text.starts[i]! && text.data[end - 1] === 10) return crBefore(i);
  return i === 0 ? undefined : crBefore(i - 1);
}
