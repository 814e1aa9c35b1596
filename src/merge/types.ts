/** What a merge of two commits takes and gives: shared by the merge, the gate, landing and `merge-tree`. */
import type { Attributes } from "../git/attributes.ts";
import type { ObjectReader, Oid } from "../git/types.ts";
import type { CommitGraph } from "./graph.ts";
import type { PairedVersions } from "./rename-state.ts";
import type { ConflictStyle } from "./text/merge3.ts";

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
  /** Path from the root, `/`-separated: a byte string, as in trees (one char 0–255 a byte). */
  readonly path: string;
  readonly type: ConflictType;
  /** Marked regions `first-last`, 1-based lines of the merged text with its markers. */
  readonly regions: readonly string[];
  /** A sentence for people; paths in it are decoded. */
  readonly message: string;
}

/** One unmerged index entry, as git would leave it (stages 1 base, 2 ours, 3 theirs). */
export interface ConflictStage {
  /** A byte string, as in trees. */
  readonly path: string;
  readonly stage: 1 | 2 | 3;
  readonly mode: number;
  readonly oid: Oid;
}

export interface MergeResult {
  readonly ours: Oid;
  readonly theirs: Oid;
  readonly bases: readonly Oid[];
  /** The tree both sides were compared with: the base's, or that of the merged bases. */
  readonly baseTree: Oid;
  readonly clean: boolean;
  /** The merged tree; with conflicts it holds the marked files, as `git merge-tree` writes it. */
  readonly tree: Oid;
  /** One for every path that git would leave unmerged, in path order. */
  readonly conflicts: readonly Conflict[];
  readonly stages: readonly ConflictStage[];
  /**
   * All that there is to say, path by path: conflicts too that belong to no single file (a directory
   * renamed to two places), and why a limit kept renames from being looked for.
   */
  readonly messages: readonly string[];
  /** By path as merged: the versions of files that renames brought there. */
  readonly paired: ReadonlyMap<string, PairedVersions>;
}

/** How one path is merged by a program; see {@link MergeOptions.drivers}. */
export interface DriverCall {
  /** The command line from `merge.<name>.driver`, placeholders not yet replaced. */
  readonly command: string;
  readonly base: Uint8Array;
  readonly ours: Uint8Array;
  readonly theirs: Uint8Array;
  /** A byte string. */
  readonly path: string;
  readonly markerSize: number;
}

/** What `%A` holds afterwards, and the exit status (0 is clean). */
export interface DriverResult {
  readonly data: Uint8Array;
  readonly status: number;
}

/** A merge driver that the clone's own configuration defines. */
export interface MergeDriver {
  /** `merge.<name>.driver`. */
  readonly command?: string;
  /** `merge.<name>.recursive`: the driver's name for merging merge bases. */
  readonly recursive?: string;
}

export interface MergeOptions {
  /** What follows the conflict markers; `ours` and `theirs` unless given. */
  readonly labels?: { readonly ours: string; readonly theirs: string };
  /** `merge.conflictStyle`. */
  readonly style?: ConflictStyle;
  /** Attributes of a path (a byte string). Without it no path has any. */
  readonly attributes?: (path: string) => Attributes;
  /** Drivers by name, from configuration; `merge=name` without an entry here is a text merge. */
  readonly drivers?: ReadonlyMap<string, MergeDriver>;
  /** `merge.default`: the driver of paths without a `merge` attribute. */
  readonly defaultDriver?: string;
  /** Runs a driver's command. Without it a path with a custom driver is an error. */
  readonly runDriver?: (call: DriverCall) => DriverResult;
  /** `merge.renormalize`: brings a blob to the form it would be committed in. */
  readonly renormalize?: (path: string, data: Uint8Array) => Uint8Array;
  /** `merge.renameLimit` (else `diff.renameLimit`); 7000 unless positive. */
  readonly renameLimit?: number;
  /** `merge.directoryRenames`; "conflict" unless given. */
  readonly directoryRenames?: "conflict" | boolean;
  /** Merge commits without a common ancestor too, as if the empty tree were one. */
  readonly allowUnrelated?: boolean;
  /** Commits whose parents are to be taken as absent (the boundary of a shallow clone). */
  readonly shallow?: ReadonlySet<Oid>;
  /** A graph to share between merges, so that commits are parsed once. */
  readonly graph?: CommitGraph;
  /** How a commit is named in diff3 markers; its first 7 digits unless given. */
  readonly abbreviate?: (oid: Oid) => string;
  /** The objects of a submodule that is checked out, by its path; null when it isn't. */
  readonly submodule?: (path: string) => ObjectReader | null;
}
