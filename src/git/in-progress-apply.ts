/**
 * Changing the files of a work tree that somebody works in, so that it can be undone at every moment.
 *
 * A changed file is made beside the old one and renamed over it, so that each path holds exactly what it
 * held or exactly what it will hold. Undoing touches only paths that hold one of the two.
 */
import type { Buffer } from "node:buffer";
import type { AttributeLookup } from "./attributes.ts";
import { conversionFor, toWorkTree } from "./eol.ts";
import { compareFile, type FileComparison } from "./file-compare.ts";
import { type StatData, UNKNOWN_STAT } from "./file-stat.ts";
import type { FileChange } from "./in-progress-plan.ts";
import { newEntry } from "./checkout-plan.ts";
import type { IndexEntry } from "./index-format.ts";
import { asBuffer } from "./oid.ts";
import { isGitlinkMode, isSymlinkMode, MODE } from "./tree.ts";
import type { TreeLeaf } from "./tree-leaves.ts";
import type { ObjectReader } from "./types.ts";
import { parentOf, type WorkTree } from "./work-tree.ts";

/** What writing files needs. `attributes` are those of the tree that is being written. */
export interface FileWriter extends Omit<FileComparison, "timestamp" | "exact"> {
  /** Part of the name of unfinished files: `.agentq-<nonce>`. */
  readonly nonce: string;
}

/** The name of an unfinished file in a directory. */
export function unfinishedPath(directory: string, nonce: string): string {
  return directory === "" ? `.agentq-${nonce}` : `${directory}/.agentq-${nonce}`;
}

/** Makes every change. The stat of each written path is returned. */
export async function applyChanges(
  writer: FileWriter,
  changes: readonly FileChange[],
  pause: () => Promise<void> | undefined,
): Promise<Map<string, StatData>> {
  const { files } = writer;
  const stats = new Map<string, StatData>();
  // Removals first: a directory may have to make room for a file, or a file for a directory.
  for (const { path, before, after } of changes) {
    if (after !== null || before === null) continue;
    removeTracked(files, path, before.mode);
    await pause();
  }
  for (const { path, after } of changes) {
    if (after === null) continue;
    stats.set(path, writeReplacing(writer, after));
    await pause();
  }
  return stats;
}

function removeTracked(files: WorkTree, path: string, mode: number): void {
  // A submodule's directory goes only when nothing is in it.
  if (isGitlinkMode(mode)) return files.pruneEmpty(path);
  const stat = files.lstat(path);
  if (stat !== null && !stat.isDirectory()) files.remove(path);
  files.pruneEmpty(parentOf(path));
}

function writeReplacing(writer: FileWriter, leaf: TreeLeaf): StatData {
  const { files, objects, settings, attributes, nonce } = writer;
  const { path, mode } = leaf;
  if (isGitlinkMode(mode)) {
    // Nothing can be renamed over a file or link to become a directory.
    const stat = files.lstat(path);
    if (stat !== null && !stat.isDirectory()) files.remove(path);
    files.makeDirectory(path);
    return UNKNOWN_STAT;
  }
  const temp = unfinishedPath(parentOf(path), nonce);
  const content = contentOf(objects, attributes, settings, leaf);
  if (isSymlinkMode(mode) && settings.symlinks) files.createLink(temp, content);
  else files.createFile(temp, content, mode === MODE.executable);
  try {
    if (files.lstat(path)?.isDirectory()) removeEmptyDirectories(files, path);
    return files.rename(temp, path);
  } catch (error) {
    files.remove(temp);
    throw error;
  }
}

/** Only empty directories can be in the way by now; anything else makes this fail, and be undone. */
function removeEmptyDirectories(files: WorkTree, path: string): void {
  for (const { name, isDirectory } of files.list(path)) {
    if (isDirectory) removeEmptyDirectories(files, `${path}/${name}`);
  }
  files.pruneEmpty(path);
}

function contentOf(
  objects: ObjectReader,
  attributes: AttributeLookup,
  settings: FileComparison["settings"],
  { path, mode, oid }: TreeLeaf,
): Buffer {
  const blob = objects.read(oid).data;
  if (isSymlinkMode(mode)) return asBuffer(blob);
  return asBuffer(toWorkTree(blob, conversionFor(attributes.of(path), settings.eol), oid));
}

/**
 * Puts back what {@link applyChanges} changed, as far as it got.
 * @param before writes as HEAD's tree has it; @param after knows what was being written
 * @returns paths that hold neither, which are left as they are
 */
export function undoChanges(
  before: FileWriter,
  after: FileWriter,
  changes: readonly FileChange[],
): string[] {
  const { files } = before;
  const holds = (writer: FileWriter, leaf: TreeLeaf) =>
    compareFile({ ...writer, timestamp: null, exact: true }, newEntry(leaf, UNKNOWN_STAT)).state ===
      "same";
  const open: IndexEntry[] = [];
  for (const change of changes) {
    const { path } = change;
    files.remove(unfinishedPath(parentOf(path), before.nonce));
    const file = change.before !== null && !isGitlinkMode(change.before.mode);
    if (file && holds(before, change.before!)) continue;
    if (change.after !== null) {
      if (holds(after, change.after)) removeTracked(files, path, change.after.mode);
      else if (files.lstat(path) === null) files.pruneEmpty(parentOf(path));
    }
    if (change.before !== null) open.push(change.before);
  }
  // What was written is gone by now, so that a file can stand again where a directory was made.
  const strange: string[] = [];
  for (const entry of open) {
    const obstacle = files.obstacle(entry.path);
    const submodule = isGitlinkMode(entry.mode) && obstacle?.path === entry.path &&
      obstacle.stat.isDirectory();
    if (submodule || entry.skipWorktree && obstacle === null) continue;
    if (obstacle === null) writeReplacing(before, entry);
    else strange.push(entry.path);
  }
  return strange;
}
