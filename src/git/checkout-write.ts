/** Writing files of a tree into a work tree that is ours. */
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

/** Whether a leaf is a file that is written as it is stored. */
export function isPlain(
  { path, mode }: TreeLeaf,
  settings: WorkTreeSettings,
  attributes: AttributeLookup,
): boolean {
  if (isSymlinkMode(mode)) return false;
  const { lineEnds, encoding, ident } = conversionFor(attributes.of(path), settings.eol);
  return !lineEnds.endsWith("-crlf") && encoding === null && !ident;
}

/** Creates one file; null when that can't be done just so. */
export function writePlain(
  files: WorkTree,
  objects: ObjectReader,
  leaf: TreeLeaf,
): StatData | null {
  try {
    const { type, data } = objects.read(leaf.oid);
    return type === "blob"
      ? files.createFile(leaf.path, data, leaf.mode === MODE.executable)
      : null;
  } catch {
    return null;
  }
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
