/** Making a merged tree part of a clone: whatever of it only the merge holds is stored there. */
import { AgentqError } from "../errors.ts";
import type { ObjectStore } from "./odb.ts";
import { isGitlinkMode, isTreeMode, parseTree } from "./tree.ts";
import type { ObjectReader, Oid } from "./types.ts";

/**
 * Stores the objects of `tree`, and single `others` (of any mode), that `store` lacks, in one batch. A
 * tree that the store has is taken to be whole there.
 * @throws `object-missing` when neither has one, `io-error`
 */
export function storeTree(
  store: ObjectStore,
  source: ObjectReader,
  tree: Oid,
  others: readonly { readonly mode: number; readonly oid: Oid }[] = [],
): void {
  if (source === store) return;
  store.batch(() => {
    const add = (mode: number, oid: Oid): void => {
      if (isGitlinkMode(mode) || store.has(oid)) return;
      const { type, data } = source.read(oid);
      if (isTreeMode(mode)) {
        for (const entry of parseTree(data, oid)) add(entry.mode, entry.oid);
      }
      if (store.write(type, data) !== oid) {
        throw new AgentqError("internal", `Object ${oid} is not what its id says.`);
      }
    };
    add(0o40000, tree);
    for (const { mode, oid } of others) add(mode, oid);
  });
}
