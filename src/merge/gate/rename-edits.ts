/**
 * What the side that renamed a file changed in it besides, where the merge undid the rename: that file is nobody's
 * loss by itself, as it stands under the old name.
 */
import { Buffer } from "node:buffer";
import { shellPath } from "../../git/path-quote.ts";
import { isRegular, sameVersion } from "../entry.ts";
import { bringFile, changeMode, inCommit, inTop, mergeFile } from "./commands.ts";
import { mergedInto } from "./fitting.ts";
import type { Said, Scope } from "./mend.ts";
import type { FileMove } from "./renames-back.ts";
import { treePaths } from "../tree-paths.ts";

/** Advice for a file that the draft has moved already; null where nothing is missing in it. */
export function renameEdits(
  { db, draft, guard, holders }: Scope,
  { to, parent, scene }: FileMove,
): Said | null {
  const { base } = scene;
  const now = draft.at(to);
  if (parent === 0) return null;
  draft.copyTo(scene.db);
  const side = treePaths(scene.db).at(scene.trees[parent - 1]!, to);
  const holder = side.mode === 0 ? null : holders.of({ ...scene, path: to }, parent, side);
  if (!holder || sameVersion(side, now) || sameVersion(side, base)) return null;
  const why = `Parent ${holder.n} changed it too`;
  const take = (): Said => {
    const stop = guard(to);
    draft.put(to, side);
    return [
      why,
      inTop(stop + bringFile(holder.commit, holder.name, to, side, draft.hasDirectory)),
    ];
  };
  if (sameVersion(now, base)) return take();
  const commands: string[] = [];
  let { mode, oid } = now;
  if (side.mode !== base.mode && side.mode !== mode && isRegular(side.mode) && isRegular(mode)) {
    mode = side.mode;
    commands.push(changeMode(to, mode));
  }
  const shown = inCommit(holder.commit, holder.name);
  if (side.oid !== base.oid && side.oid !== oid) {
    const merged = mergedInto(scene.db, base, now, side);
    if (!merged || !db.has(base.oid)) {
      const diff = `git diff ${base.oid.slice(0, 12)} ${shown}`;
      return [
        why,
        `edit ${shellPath(to)} so that all that parent ${holder.n} changed in it (${diff}) ` +
        `is changed there too; git show ${shown} has it.`,
      ];
    }
    if (Buffer.compare(merged, scene.db.read(oid).data) !== 0) {
      oid = draft.write(merged);
      commands.push(mergeFile(to, base.oid, shown));
    }
  }
  if (commands.length === 0) return null;
  draft.put(to, { mode, oid });
  return [why, inTop(commands.join(" && "))];
}
