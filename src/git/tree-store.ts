/** Making a merged tree part of a clone: whatever of it only the merge holds is stored there. */
import { AgentqError, isAgentqError } from "../errors.ts";
import type { ObjectStore } from "./odb.ts";
import { isGitlinkMode, isTreeMode, parseTree } from "./tree.ts";
import type { ObjectReader, Oid } from "./types.ts";

/**
 * Stores the objects of `tree`, and single `others` (of any mode), that `store` lacks, in one batch. A
 * tree that the store has is taken to be whole there.
 * @throws `object-missing` when neither has one (details.oids: all of them, nothing stored), `io-error`
 */
export function storeTree(
  store: ObjectStore,
  source: ObjectReader,
  tree: Oid,
  others: readonly { readonly mode: number; readonly oid: Oid }[] = [],
): void {
  if (source === store) return;
  const missing = new Set<Oid>();
  const readOrNote = (oid: Oid) => {
    try {
      return source.read(oid);
    } catch (error) {
      if (!isAgentqError(error, "object-missing")) throw error;
      missing.add(oid);
      return null;
    }
  };
  store.batch(() => {
    const add = (mode: number, oid: Oid): void => {
      if (isGitlinkMode(mode) || store.has(oid)) return;
      const object = readOrNote(oid);
      if (object === null) return;
      const { type, data } = object;
      if (isTreeMode(mode)) {
        for (const entry of parseTree(data, oid)) add(entry.mode, entry.oid);
      }
      if (store.write(type, data) !== oid) {
        throw new AgentqError("internal", `Object ${oid} is not what its id says.`);
      }
    };
    add(0o40000, tree);
    for (const { mode, oid } of others) add(mode, oid);
    if (missing.size === 0) return;
    const oids = [...missing];
    throw new AgentqError(
      "object-missing",
      `${oids.length} objects of the tree ${tree} are missing, ${oids[0]} first.`,
      { details: { oid: oids[0], oids } },
    );
  });
}
