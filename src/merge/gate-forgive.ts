/**
 * Which losses of a merge commit the candidate's later commits make good.
 *
 * ```text
 *  the tip has what was lost ─────────────────────────────────────────▶ forgiven
 *  conflict markers of the merge still stand in the tip ──────────────▶ not
 *  they did, and the path was never whole since, nor deleted ─────────▶ not: what the tip lacks is the loss
 *  no later commit changes the path, but for its layout ──────────────▶ not
 *  one does: deletes or renames it, rewrites most of it,
 *            or reaches every place where something is lost ──────────▶ forgiven
 * ```
 */
import { Buffer } from "node:buffer";
import type { CommitReader } from "../git/history.ts";
import type { Oid } from "../git/types.ts";
import { isRegular, NOTHING, sameVersion, type Version } from "./entry.ts";
import type { Place } from "./gate-layout.ts";
import { markersStand } from "./gate-markers.ts";
import { commitTree, type JudgedLoss, moves } from "./gate-merge.ts";
import type { Loss } from "./gate-path.ts";
import { shared, wordCounts, wordList } from "./gate-words.ts";
import { diffLines } from "./text/diff.ts";
import { classifyLines, splitLines } from "./text/lines.ts";
import { treePaths } from "./tree-paths.ts";

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
): (loss: JudgedLoss) => Loss | null {
  if (later.length === 0) return (loss) => loss;
  const lookup = treePaths(db);
  const at = (commit: Oid, path: string): Version => lookup.at(commitTree(db, commit), path);
  const text = (version: Version): Uint8Array => db.read(version.oid).data;

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
  const unmarked = (loss: JudgedLoss): Loss | null => {
    const merged = at(merge, loss.path);
    let now = at(tip, loss.path);
    if (now.mode === 0) {
      const differences = lookup.differences(commitTree(db, merge), commitTree(db, tip));
      now = moves(db)(merged, differences)?.right ?? NOTHING;
    }
    if (isRegular(now.mode) && markersStand(text(merged), loss.regions, text(now))) return loss;
    const left = loss.again(commitTree(db, tip));
    if (left === null || left.kind === "markers") return left;
    // Deleted on purpose; or all of it stood there, and was changed later.
    const wasWhole = ({ oid, parentOids }: (typeof later)[number]): boolean =>
      !parentOids.some((parent) => sameVersion(at(parent, loss.path), at(oid, loss.path))) &&
      at(oid, loss.path).mode !== 0 && loss.again(commitTree(db, oid)) === null;
    if (left.kind === "missing" || later.some(wasWhole)) return null;
    return { ...left, what: `${left.what}, now that its conflict markers are out` };
  };

  const isForgiven = (loss: JudgedLoss): boolean => {
    const merged = at(merge, loss.path);
    const now = at(tip, loss.path);
    const again = loss.again(commitTree(db, tip));
    if (again === null || !changes(loss.path)) return again === null;
    if (now.mode === 0) return merged.mode !== 0;
    if (loss.kind === "mode") return now.mode !== merged.mode;
    if (!isRegular(now.mode) || !isRegular(merged.mode)) return !sameVersion(now, merged);
    const [old, current] = [text(merged), text(now)];
    const { found, total } = shared(wordCounts(old), wordCounts(current));
    if (found < total * REWRITTEN) return true;
    if (loss.kind === "back") return false;
    if (loss.places.length === 0) return loss.kind === "whole" && !isText(old);
    return reaches(old, current, loss.places);
  };

  return (loss) => loss.kind === "markers" ? unmarked(loss) : isForgiven(loss) ? null : loss;
}

const isText = (data: Uint8Array): boolean => !data.subarray(0, 8000).includes(0);

/**
 * Whether what became of `old` changes words in each of the places, or in a line beside it. Word by word,
 * so that lines may be broken anew everywhere.
 */
function reaches(old: Uint8Array, now: Uint8Array, places: readonly Place[]): boolean {
  const lines = splitLines(old);
  const firstWord = [0];
  for (let i = 0; i < lines.count; i++) {
    const words = wordList(old.subarray(lines.starts[i], lines.starts[i + 1]));
    firstWord.push(firstWord[i]! + words.length);
  }
  const { ids, tables } = classifyLines(
    [old, now].map((data) => splitLines(Buffer.from(wordList(data).join("\n") + "\n", "latin1"))),
  );
  const changes = diffLines(ids[0]!, ids[1]!, tables, "histogram");
  /** The nearest line with a word, `step` lines on. */
  const beside = (line: number, step: 1 | -1): number => {
    let i = line;
    while (i >= 0 && i < lines.count && firstWord[i] === firstWord[i + 1]) i += step;
    return Math.min(Math.max(i, 0), lines.count - 1);
  };
  return lines.count === 0 || places.every(({ from, to }) => {
    const first = firstWord[beside(from - 1, -1)]!;
    const end = firstWord[beside(to, 1) + 1]!;
    return changes.some(({ at, removed }) => at <= end && at + removed >= first);
  });
}
