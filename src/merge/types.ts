/** What a merge of two commits gives: shared by the merge, the gate, landing and `merge-tree`. */
import type { Oid } from "../git/types.ts";

/** Conflict types, named as git names them (`git merge-tree`'s stable short types). */
export type ConflictType =
  | "content"
  | "binary"
  | "add/add"
  | "modify/delete"
  | "file/directory"
  | "distinct modes"
  | "symlink"
  | "submodule"
  | "rename/rename"
  | "rename/add"
  | "rename/delete"
  | "directory rename"
  | "unsupported";

/** One conflicted path. */
export interface Conflict {
  /** Path from the root, `/`-separated. Bytes that are not UTF-8 are kept as latin1-escaped text. */
  readonly path: string;
  readonly type: ConflictType;
  /** Marked regions `first-last`, 1-based lines of the merged text with its markers. */
  readonly regions: readonly string[];
  /** A sentence for people. */
  readonly message: string;
}

/** One unmerged index entry, as git would leave it (stages 1 base, 2 ours, 3 theirs). */
export interface ConflictStage {
  readonly path: string;
  readonly stage: 1 | 2 | 3;
  readonly mode: number;
  readonly oid: Oid;
}

export interface MergeResult {
  readonly ours: Oid;
  readonly theirs: Oid;
  readonly bases: readonly Oid[];
  readonly clean: boolean;
  /** The merged tree; with conflicts it holds the marked files, as `git merge-tree` writes it. */
  readonly tree: Oid;
  readonly conflicts: readonly Conflict[];
  readonly stages: readonly ConflictStage[];
}
