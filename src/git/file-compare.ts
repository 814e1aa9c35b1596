/** Is a file of the work tree what the index says? By stat where that proves it, else by content. */
import { Buffer } from "node:buffer";
import type { BigIntStats } from "node:fs";
import { createHash } from "../platform/hash.ts";
import type { AttributeLookup } from "./attributes.ts";
import { conversionFor, convertsNothing, toRepository, toWorkTree } from "./eol.ts";
import { isRacy, isStatOf, type StatData, statData, type Timestamp } from "./file-stat.ts";
import type { IndexEntry } from "./index-format.ts";
import { hashObject } from "./oid.ts";
import { isGitlinkMode, isSymlinkMode, MODE } from "./tree.ts";
import type { ObjectReader, Oid } from "./types.ts";
import type { WorkTree } from "./work-tree.ts";
import type { WorkTreeSettings } from "./work-tree-settings.ts";

export interface FileComparison {
  readonly files: WorkTree;
  readonly objects: ObjectReader;
  readonly settings: WorkTreeSettings;
  readonly attributes: AttributeLookup;
  /** The index's own mtime; null to read every file. */
  readonly timestamp: Timestamp | null;
  /**
   * A file that is read must hold exactly the bytes that a checkout would write. Without it, what
   * `git add` would make of the file must be what is committed: other line ends are no change then.
   */
  readonly exact?: boolean;
}

/**
 * `same` (with the stat to remember when it was read to know), `deleted`, `modified` (content or
 * executable bit), `type changed`, or `filtered`: a filter program that is not run here would decide.
 */
export type FileState =
  | { readonly state: "same"; readonly stat: StatData | null }
  | { readonly state: "deleted" | "modified" | "type changed" | "filtered" };

const EMPTY_BLOB = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";
const SAME: FileState = { state: "same", stat: null };

/** Compares one entry (stage 0, not skipped) with its file. Submodules are not looked into. */
export function compareFile(context: FileComparison, entry: IndexEntry): FileState {
  const { files, settings } = context;
  const stat = files.lstat(entry.path);
  if (isGitlinkMode(entry.mode)) {
    if (stat === null || stat.isDirectory()) return SAME;
    return { state: "type changed" };
  }
  if (stat === null) return { state: "deleted" };
  if (!hasEntryType(stat, entry.mode, settings.symlinks)) {
    return { state: stat.isDirectory() ? "deleted" : "type changed" };
  }
  if (settings.fileMode && stat.isFile() && !isSymlinkMode(entry.mode)) {
    const executable = (Number(stat.mode) & 0o100) !== 0;
    if (executable !== (entry.mode === MODE.executable)) return { state: "modified" };
  }
  if (
    isStatOf(entry.stat, stat, settings.trust) && !isRacy(entry.stat, context.timestamp) &&
    // Size 0 for content that isn't empty is how git marks an entry to be read again.
    (entry.stat.size !== 0 || entry.oid === EMPTY_BLOB)
  ) {
    return SAME;
  }
  return compareContent(context, entry, stat);
}

function hasEntryType(stat: BigIntStats, mode: number, symlinks: boolean): boolean {
  if (!isSymlinkMode(mode)) return stat.isFile();
  return stat.isSymbolicLink() || (!symlinks && stat.isFile());
}

/** Reads the file, as git would add it, and compares ids. */
function compareContent(
  context: FileComparison,
  entry: Pick<IndexEntry, "path" | "mode" | "oid">,
  stat: BigIntStats,
): FileState {
  const { files, objects, settings, attributes } = context;
  const same: FileState = { state: "same", stat: statData(stat) };
  if (stat.isSymbolicLink()) {
    const target = files.readLink(entry.path);
    return hashObject("blob", target) === entry.oid ? same : { state: "modified" };
  }
  const content = files.readFile(entry.path);
  const identical = hashObject("blob", content) === entry.oid;
  if (isSymlinkMode(entry.mode)) return identical ? same : { state: "modified" };
  if (identical && !context.exact) return same;
  const conversion = conversionFor(attributes.of(entry.path), settings.eol);
  if (context.exact) {
    if (convertsNothing(conversion)) return identical ? same : { state: "modified" };
    const wanted = toWorkTree(objects.read(entry.oid).data, conversion, entry.oid);
    return content.equals(wanted) ? same : { state: "modified" };
  }
  if (conversion.filter !== null) {
    return matchesPointer(objects, entry.oid, content) ? same : { state: "filtered" };
  }
  if (convertsNothing(conversion)) return { state: "modified" };
  const staged = () => objects.read(entry.oid).data;
  const blob = toRepository(content, conversion, staged);
  return blob !== null && hashObject("blob", blob) === entry.oid ? same : { state: "modified" };
}

/** Git LFS keeps a pointer in the repository that says which content it stands for. */
function matchesPointer(objects: ObjectReader, oid: Oid, content: Uint8Array): boolean {
  if (!objects.has(oid) || objects.stat(oid).size > 1024) return false;
  const pointer = Buffer.from(objects.read(oid).data).toString("latin1");
  const hash =
    /^version https:\/\/git-lfs\.github\.com\/spec\/v1\n(?:.*\n)*?oid sha256:([0-9a-f]{64})\nsize (\d+)\n/
      .exec(pointer);
  return hash !== null && Number(hash[2]) === content.length &&
    createHash("sha256").update(content).digest("hex") === hash[1];
}
