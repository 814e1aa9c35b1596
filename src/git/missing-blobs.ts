/** Blobs that a partial clone hasn't fetched yet, all named at once so that one fetch brings them. */
import { AgentqError } from "../errors.ts";
import type { Repository } from "./repository.ts";
import { isGitlinkMode } from "./tree.ts";
import type { TreeLeaf } from "./tree-leaves.ts";
import type { ObjectReader } from "./types.ts";

/** The remote that promised the objects which a partial clone lacks; null in any other clone. */
export function promisorOf({ config }: Pick<Repository, "config">): string | null {
  return config.get("extensions.partialClone") ??
    config.subsections("remote").find((name) => config.getBoolean(`remote.${name}.promisor`)) ??
    null;
}

/**
 * Checks, in a partial clone only, that the blobs of `leaves` are in `objects`.
 * @throws `object-missing` with every missing id in details.oids
 */
export function refuseMissing(
  repository: Pick<Repository, "config">,
  leaves: readonly TreeLeaf[],
  objects: ObjectReader,
): void {
  if (promisorOf(repository) === null) return;
  const wanted = new Set(leaves.filter(({ mode }) => !isGitlinkMode(mode)).map(({ oid }) => oid));
  const oids = [...wanted].filter((oid) => !objects.has(oid));
  if (oids.length === 0) return;
  throw new AgentqError("object-missing", `${oids.length} blobs of the tree are not here yet.`, {
    details: { oid: oids[0], oids },
  });
}
