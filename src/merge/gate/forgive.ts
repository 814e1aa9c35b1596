/**
 * Which losses of a merge commit the candidate's later commits make good.
 *
 * ```text
 *  the tip has what was lost ─────────────────────────────────────────▶ forgiven
 *  conflict markers of the merge still stand in the tip ──────────────▶ not
 *  they did, and the path was never whole since, nor deleted ─────────▶ not: what the tip lacks is the loss
 *  no later commit changes the path, but for its layout ──────────────▶ not
 *  one does: deletes or renames it, rewrites most of it,
 *            or changes a line at every place where something is lost ▶ forgiven
 * ```
 */
import { Buffer } from "node:buffer";
import type { CommitReader } from "../../git/history.ts";
import type { Oid } from "../../git/types.ts";
import { isRegular, NOTHING, sameVersion, type Version } from "../entry.ts";
import { around } from "./around.ts";
import type { Place } from "./layout.ts";
import { markersStand } from "./markers.ts";
import { commitTree, type JudgedLoss } from "./merge.ts";
import { moves } from "./moved.ts";
import type { Loss } from "./loss.ts";
import { isText, textOf } from "./texts.ts";
import { shared, wordCounts, wordList } from "./words.ts";
import { diffLines } from "../text/diff.ts";
import { classifyLines, splitLines } from "../text/lines.ts";
import type { Steps } from "../steps.ts";
import { treePaths } from "../tree-paths.ts";

/** Less of a text's words than this are left: it was written anew. */
const REWRITTEN = 0.5;

/**
 * Judges losses of the merge commit `merge` by `tip`, to which `later` commits lead from it: what of a loss
 * stands there, or null.
 */
export function forgiveness(
  db: CommitReader,
  merge: Oid,
  tip: Oid,
  later: readonly { readonly oid: Oid; readonly parentOids: readonly Oid[] }[],
): (loss: JudgedLoss) => Steps<Loss | null> {
  if (later.length === 0) {
    // deno-lint-ignore require-yield
    return function* (loss) {
      return loss;
    };
  }
  const lookup = treePaths(db);
  const at = (commit: Oid, path: string): Version => lookup.at(commitTree(db, commit), path);
  const text = (version: Version): Uint8Array => textOf(db, version) ?? db.read(version.oid).data;

  const sameWords = (a: Version, b: Version): boolean => {
    if (!isRegular(a.mode) || a.mode !== b.mode) return false;
    const x = wordCounts(text(a));
    const y = wordCounts(text(b));
    return x.size === y.size && [...x].every(([word, count]) => y.get(word) === count);
  };
  /** Whether a later commit changes the path itself: a merge, if it differs from all its parents. */
  const changes = (path: string): boolean =>
    later.some(({ oid, parentOids }) => {
      const own = at(oid, path);
      const before = parentOids.length === 0 ? [NOTHING] : parentOids.map((p) => at(p, path));
      return before.every((old) => !sameVersion(old, own) && !sameWords(old, own));
    });

  /**
   * A merge with markers in it was half-written. What came of it later is judged as if it were the merge; and
   * that it was changed is no answer, as taking the markers out changes it.
   */
  const unmarked = function* (loss: JudgedLoss): Steps<Loss | null> {
    const merged = at(merge, loss.path);
    let now = at(tip, loss.path);
    if (now.mode === 0) {
      const differences = lookup.differences(commitTree(db, merge), commitTree(db, tip));
      now = moves(db)(merged, differences)?.right ?? NOTHING;
    }
    if (isRegular(now.mode) && markersStand(text(merged), loss.regions, text(now))) return loss;
    const left = yield* loss.again(commitTree(db, tip));
    if (left === null || left.kind === "markers") return left;
    // Deleted on purpose; or all of it stood there, and was changed later.
    if (left.kind === "missing") return null;
    for (const { oid, parentOids } of later) {
      const own = at(oid, loss.path);
      if (own.mode === 0 || parentOids.some((parent) => sameVersion(at(parent, loss.path), own))) {
        continue;
      }
      if ((yield* loss.again(commitTree(db, oid))) === null) return null;
    }
    return { ...left, what: `${left.what}, now that its conflict markers are out` };
  };

  const isForgiven = function* (loss: JudgedLoss): Steps<boolean> {
    const merged = at(merge, loss.path);
    const now = at(tip, loss.path);
    const again = yield* loss.again(commitTree(db, tip));
    if (again === null || !changes(loss.path)) return again === null;
    if (now.mode === 0) return merged.mode !== 0;
    if (loss.kind === "mode") return now.mode !== merged.mode;
    if (!isRegular(now.mode) || !isRegular(merged.mode)) return !sameVersion(now, merged);
    const [old, current] = [text(merged), text(now)];
    const { found, total } = shared(wordCounts(old), wordCounts(current));
    if (found < total * REWRITTEN) return true;
    if (loss.kind === "back") return false;
    if (loss.places.length === 0) return loss.kind === "whole" && !isText(db, merged);
    return reaches(old, current, loss.places);
  };

  return function* (loss) {
    yield;
    if (loss.kind === "markers") return yield* unmarked(loss);
    return (yield* isForgiven(loss)) ? null : loss;
  };
}

/**
 * Whether what became of `old` changes or deletes a line in each of the places, or beside a place that has
 * none: lines put in beside them reach nothing. Word by word, so that lines may be broken anew everywhere.
 */
function reaches(old: Uint8Array, now: Uint8Array, places: readonly Place[]): boolean {
  const before = wordLines(old);
  const after = wordLines(now);
  if (before.lines.length === 0) return true;
  const { ids, tables } = classifyLines(
    [before, after].map(({ lines }) =>
      splitLines(Buffer.from(lines.flat().join("\n") + "\n", "latin1"))
    ),
  );
  const changes = diffLines(ids[0]!, ids[1]!, tables, "bounded");
  const left = counted(after.lines);
  for (const [line, n] of counted(before.lines)) left.set(line, (left.get(line) ?? 0) - n);
  /** A line that isn't there any more, and of which words were changed: not only where it ends. */
  const isChanged = (line: number): boolean => {
    if (before.lines[line]!.length === 0 || left.get(before.lines[line]!.join(" "))! >= 0) {
      return false;
    }
    const [first, end] = [before.first[line]!, before.first[line + 1]!];
    return around(changes, first, end).some(({ at, removed, newAt, added }) =>
      removed > 0 ? at < end && at + removed > first : at > first && at < end ||
        at === end && after.lineOf[newAt - 1] === after.lineOf[newAt] ||
        at === first && after.lineOf[newAt + added - 1] === after.lineOf[newAt + added]
    );
  };
  /** The nearest line with a word, `step` lines on. */
  const beside = (line: number, step: 1 | -1): number[] => {
    let i = line;
    while (before.lines[i]?.length === 0) i += step;
    return before.lines[i] === undefined ? [] : [i];
  };
  return places.every(({ from, to }) => {
    const inside = Array.from({ length: to - from }, (_, n) => from + n)
      .filter((line) => (before.lines[line]?.length ?? 0) > 0);
    return (inside.length > 0 ? inside : [...beside(from - 1, -1), ...beside(to, 1)])
      .some(isChanged);
  });
}

interface WordLines {
  readonly lines: readonly (readonly string[])[];
  /** Number of each line's first word, and past the last line the number of words. */
  readonly first: readonly number[];
  /** Which line each word is in. */
  readonly lineOf: readonly number[];
}

function wordLines(data: Uint8Array): WordLines {
  const text = splitLines(data);
  const lines: string[][] = [];
  const first = [0];
  const lineOf: number[] = [];
  for (let i = 0; i < text.count; i++) {
    const words = wordList(data.subarray(text.starts[i], text.starts[i + 1]));
    lines.push(words);
    for (const _ of words) lineOf.push(i);
    first.push(lineOf.length);
  }
  return { lines, first, lineOf };
}

function counted(lines: readonly (readonly string[])[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const words of lines) {
    const line = words.join(" ");
    counts.set(line, (counts.get(line) ?? 0) + 1);
  }
  return counts;
}
