/** What is known about renames, for each side, while trees are merged. */
import type { Oid } from "../git/types.ts";
import type { Version } from "./entry.ts";

/** Why a deleted path's new place is worth looking for. */
export const RELEVANT = { noMore: 0, content: 1, location: 2 } as const;
/** Why it matters where a removed directory went. */
export const DIRECTORY = { irrelevant: 0, forAncestor: 1, forSelf: 2 } as const;

export interface FileSpec {
  path: string;
  readonly mode: number;
  readonly oid: Oid;
  /** True once it is the source of a rename. */
  used: boolean;
}

/** A file added (`one.mode` 0), deleted (`two.mode` 0) or renamed on one side. */
export interface Pair {
  one: FileSpec;
  two: FileSpec;
  renamed: boolean;
  /** 0–60000 for a rename. */
  score: number;
  side: 1 | 2;
}

export interface SideRenames {
  pairs: Pair[];
  /** Deleted paths to find a rename for, and why ({@link RELEVANT}). */
  readonly sources: Map<string, number>;
  /** Directories this side no longer has ({@link DIRECTORY}). */
  readonly removedDirectories: Map<string, number>;
  /** Removed directory → directory its files went to → how many. */
  directoryCounts: Map<string, Map<string, number>>;
  /** Removed directory → where it went. */
  readonly directoryRenames: Map<string, string>;
  /** Directories that only this side changed, looked into only if a rename could end there. */
  deferred: Map<string, number>;
  deferring: boolean;
}

export interface RenameState {
  /** Index 1 and 2; 0 is never used. */
  readonly sides: readonly [SideRenames, SideRenames, SideRenames];
  /**
   * While directories are walked: 0 nothing special; 2 or 4 a directory above is missing on the other
   * side, so a file added here could be part of its rename; 7 one was added.
   */
  directoryMask: number;
  /** Every path that renames gave versions of other paths, once they are applied. */
  readonly paired: Map<string, PairedVersions>;
  /** The limit that would have been needed, when there were too many candidates. */
  neededLimit: number;
}

/** The versions of one file, whatever name each tree has it under. */
export interface PairedVersions {
  readonly base: Version;
  readonly ours: Version;
  readonly theirs: Version;
  /** The other name, when each side gave the file one of its own. */
  readonly twin?: string;
}

function createSide(): SideRenames {
  return {
    pairs: [],
    sources: new Map(),
    removedDirectories: new Map(),
    directoryCounts: new Map(),
    directoryRenames: new Map(),
    deferred: new Map(),
    deferring: true,
  };
}

export function createRenameState(): RenameState {
  return {
    sides: [createSide(), createSide(), createSide()],
    directoryMask: 0,
    paired: new Map(),
    neededLimit: 0,
  };
}
