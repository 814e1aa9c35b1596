/** Files that stand under another name in a merge. */
import type { ObjectReader, Oid } from "../../git/types.ts";
import { isRegular, NOTHING, sameVersion, type Version } from "../entry.ts";
import { findLoss } from "./path.ts";
import type { FileSpec } from "../rename-state.ts";
import { textOf } from "./texts.ts";
import { bareLines } from "./written.ts";
import { RENAME_SCORE, similarity } from "../similarity.ts";
import type { Difference } from "../tree-paths.ts";

/** The new file that has most of a version's content, half at least, among some differences. */
export type FindMoved = (
  version: Version,
  differences: readonly Difference[],
  isPlace?: (path: string) => boolean,
) => Difference | undefined;

/** Finds a file's content under a name that only the right tree of some differences has. */
export function moves(db: ObjectReader): FindMoved {
  const compare = similarity(db, () => undefined);
  // One object for each content: what it is made of is remembered by it.
  const specs = new Map<Oid, FileSpec>();
  const specOf = ({ mode, oid }: Version): FileSpec => {
    let spec = specs.get(oid);
    if (!spec) specs.set(oid, spec = { path: "", mode, oid, used: false });
    return spec;
  };
  return (version, differences, isPlace = () => true) => {
    if (version.mode === 0) return undefined;
    let best: Difference | undefined;
    let score = RENAME_SCORE - 1;
    for (const difference of differences) {
      const { left, right, path } = difference;
      if (left.mode !== 0 || right.mode === 0 || !isPlace(path)) continue;
      if (right.oid === version.oid) return difference;
      if (!isRegular(right.mode) || !isRegular(version.mode)) continue;
      const found = compare.score(specOf(version), specOf(right), RENAME_SCORE);
      if (found > score) [best, score] = [difference, found];
    }
    return best;
  };
}

/** Words in the names of what is left over from settling a merge, or is kept aside. */
const ASIDE = aside(
  "orig|theirs|ours|mine|yours|backup|bak|incoming|copy|rej|conflicts?|merged?|tmp|temp|swp",
);
/** The same beside the name of the file itself: by themselves they name things in programs too. */
const ASIDE_OF_NAME = aside("remote|local|base|old|head|main|master|current");

function aside(words: string): RegExp {
  return new RegExp(`(?<![a-z])(?:${words})(?![a-z])`, "gi");
}

/** Whether a name is one that a copy of `path` gets: `f.orig`, `f_REMOTE_12.txt`, `.backup/f`. */
function isLeftOver(path: string, of: string): boolean {
  const known = of.toLowerCase();
  const names = new Set(of.split("/"));
  const [name, original] = [path, of].map((one) => one.slice(one.lastIndexOf("/") + 1)) as [
    string,
    string,
  ];
  if (name !== original && name.includes(original)) return true;
  const isNamed = name.includes(original.replace(/(?<=.)\.[^.]*$/, ""));
  return path.split("/").some((part) =>
    !names.has(part) && (part.startsWith(".") ||
      [ASIDE, ...isNamed ? [ASIDE_OF_NAME] : []].flatMap((words) => part.match(words) ?? [])
        .some((word) => !known.includes(word.toLowerCase())))
  );
}

/**
 * Two files that the sides added under one name, of which the merge gave one another name: whether each stands
 * whole, one at the path and one there.
 */
export function standApart(
  db: ObjectReader,
  find: FindMoved,
  { path, where, base, ours, theirs, result }: {
    readonly path: string;
    /** Where the result stands. */
    readonly where: string;
    readonly base: Version;
    readonly ours: Version;
    readonly theirs: Version;
    readonly result: Version;
  },
  differences: readonly Difference[],
): boolean {
  if (base.mode !== 0 || ours.mode === 0 || theirs.mode === 0 || sameVersion(ours, theirs)) {
    return false;
  }
  if (where !== path && isLeftOver(where, path)) return false;
  const isWhole = (side: Version, standing: Version): boolean => {
    // What stands there of the other's is not written anew.
    const written = () => bareLines(textOf(db, side === ours ? theirs : ours));
    const context = { db, elsewhere: () => new Map(), parents: () => [side], written };
    return standing.mode !== 0 && findLoss(context, {
          path,
          base: NOTHING,
          ours: NOTHING,
          theirs: side,
          expected: side,
          result: standing,
          conflicted: false,
          markerSize: 7,
        }) === null;
  };
  return [[ours, theirs], [theirs, ours]].some(([kept, moved]) => {
    if (!isWhole(kept!, result)) return false;
    const place = find(moved!, differences, (name) => name !== where && !isLeftOver(name, path));
    return place !== undefined && isWhole(moved!, place.right);
  });
}
