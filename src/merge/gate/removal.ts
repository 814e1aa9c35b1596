/** What is advised for a file that a side deleted or renamed, and that is back. */
import { Buffer } from "node:buffer";
import { shellPath } from "../../git/path-quote.ts";
import { NOTHING } from "../entry.ts";
import { dropFlag, inTop, mergeFile, removeFile } from "./commands.ts";
import type { Side } from "../entry.ts";
import type { JudgedLoss } from "./merge.ts";
import { mergedInto } from "./fitting.ts";
import type { Said, Scope } from "./mend.ts";

/** `twin` is the name that the side gave the file, if one was found. */
export function removal(
  { db, draft, guard, holders }: Scope,
  { path, scene }: JudgedLoss,
  side: 0 | Side,
  twin: string | undefined,
): Said {
  const now = draft.at(path);
  const stop = guard(path);
  const command = inTop(stop + removeFile(path));
  const label = holders.label(side);
  const isOld = now.oid === scene.base.oid;
  if (twin !== undefined && draft.at(twin).mode !== 0) {
    const [why, there] = [
      `${label} renamed it to ${shellPath(twin)}, which is there too`,
      draft.at(twin),
    ];
    draft.copyTo(scene.db);
    const merged = isOld ? null : mergedInto(scene.db, scene.base, there, now);
    draft.put(path, NOTHING);
    if (isOld || merged && Buffer.compare(merged, scene.db.read(there.oid).data) === 0) {
      return [why, command];
    }
    if (merged && db.has(scene.base.oid)) {
      draft.put(twin, { mode: there.mode, oid: draft.write(merged) });
      const file = mergeFile(twin, scene.base.oid, `HEAD:${shellPath(path)}`);
      return [why, inTop(`${stop}${file} && ${removeFile(path)}`)];
    }
    const diff = `git diff ${scene.base.oid.slice(0, 12)} HEAD:${shellPath(path)}`;
    return [
      why,
      `edit ${shellPath(twin)} so that what was changed in ${shellPath(path)} (${diff}) ` +
      `is changed there too, then ${command}`,
    ];
  }
  if (isOld) {
    draft.put(path, NOTHING);
    return [`${label} deleted it`, command];
  }
  return [
    `${label} deleted it, and it was changed since`,
    `${command} deletes it with what was changed, ${dropFlag(path)} keeps it.`,
  ];
}
