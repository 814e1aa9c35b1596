/**
 * Renames that merging had no need to know: one side renamed a file, and edited it perhaps, and the other left it
 * alone. Merging takes the new file as it is; the gate has to know what the old one was, to tell what the side did.
 */
import type { ObjectReader, Oid } from "../../git/types.ts";
import { isRegular, sameVersion, type Version } from "../entry.ts";
import { findRenames } from "../find-renames.ts";
import { createRenameState, RELEVANT } from "../rename-state.ts";
import type { Steps } from "../steps.ts";
import type { TreePaths } from "../tree-paths.ts";
import type { MergeOptions } from "../types.ts";

/** As many pairs as git compares in a diff, unless the settings say otherwise: `diff.renameLimit`. */
const RENAME_LIMIT = 1000;

/** The old version of each file that `side` renamed and the `other` side has as it was, by the new path. */
export function* renamedAside(
  db: ObjectReader,
  lookup: TreePaths,
  trees: { readonly base: Oid; readonly side: Oid; readonly other: Oid },
  options: MergeOptions,
): Steps<Map<string, Version>> {
  const state = createRenameState();
  const side = state.sides[1];
  for (const { path, left, right } of lookup.differences(trees.base, trees.side)) {
    const wasFile = isRegular(left.mode) && right.mode === 0;
    const isFile = left.mode === 0 && isRegular(right.mode);
    if (!wasFile && !isFile) continue;
    if (wasFile && !sameVersion(lookup.at(trees.other, path), left)) continue;
    if (wasFile) side.sources.set(path, RELEVANT.content);
    side.pairs.push({
      one: { path, ...left, used: false },
      two: { path, ...right, used: false },
      renamed: false,
      score: 0,
      side: 1,
    });
  }
  const limit = options.renameLimit && options.renameLimit > 0 ? options.renameLimit : RENAME_LIMIT;
  yield* findRenames(db, state, side, limit, () => undefined);
  const found = new Map<string, Version>();
  for (const { one, two, renamed } of side.pairs) {
    if (renamed) found.set(two.path, { mode: one.mode, oid: one.oid });
  }
  return found;
}
