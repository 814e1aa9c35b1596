/** Writing one file of a tree into a work tree that is ours. */
import { AgentqError, isAgentqError } from "../errors.ts";
import type { AttributeLookup } from "./attributes.ts";
import { conversionFor, toWorkTree } from "./eol.ts";
import type { StatData } from "./file-stat.ts";
import { quotePath } from "./path-quote.ts";
import { isSymlinkMode, MODE } from "./tree.ts";
import type { TreeLeaf } from "./tree-leaves.ts";
import type { ObjectReader } from "./types.ts";
import type { WorkTree } from "./work-tree.ts";
import type { WorkTreeSettings } from "./work-tree-settings.ts";

/** Writes one file or link as the tree and the attributes say. */
export function writeLeaf(
  files: WorkTree,
  objects: ObjectReader,
  settings: WorkTreeSettings,
  attributes: AttributeLookup,
  leaf: TreeLeaf,
): StatData {
  const { path, mode, oid } = leaf;
  const { type, data } = objects.read(oid);
  if (type !== "blob") {
    throw new AgentqError("repository-corrupt", `${quotePath(path)} is a ${type}, not a blob.`, {
      details: { path: quotePath(path), oid },
    });
  }
  if (isSymlinkMode(mode)) {
    return makeRoom(
      files,
      path,
      () => settings.symlinks ? files.createLink(path, data) : files.createFile(path, data, false),
    );
  }
  const content = toWorkTree(data, conversionFor(attributes.of(path), settings.eol), oid);
  return makeRoom(files, path, () => files.createFile(path, content, mode === MODE.executable));
}

/** Creates something; what stands in its way, if anything does, is removed and it is tried again. */
export function makeRoom<T>(files: WorkTree, path: string, create: () => T): T {
  try {
    return create();
  } catch (error) {
    const obstacle = isAgentqError(error, "io-error") ? files.obstacle(path) : null;
    if (obstacle === null) throw error;
    files.remove(obstacle.path);
    return create();
  }
}
