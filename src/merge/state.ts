/** What one three-way merge of trees works on, from collecting paths to writing the result. */
import { Buffer, isUtf8 } from "node:buffer";
import { quotePath } from "../git/path-quote.ts";
import type { ObjectDatabase, Oid } from "../git/types.ts";
import { baseName, type Entry, type Side } from "./entry.ts";
import { createRenameState, type RenameState } from "./rename-state.ts";
import type { ConflictType, MergeOptions } from "./types.ts";

/** Something to tell about paths; the first one is the path it is filed under. */
export interface Note {
  /** Null for information about a path that merged cleanly. */
  readonly type: ConflictType | null;
  readonly paths: readonly string[];
  readonly text: string;
}

/** Lasts through the merge of two commits, its merge bases' merges included. */
export interface MergeContext {
  readonly db: ObjectDatabase;
  readonly options: MergeOptions;
  /** Marked regions of every text that was written with markers, by its id. */
  readonly regions: Map<Oid, readonly string[]>;
  /** Merges of merge bases already made, by depth and the two commits. */
  readonly mergedBases: Map<string, Oid>;
}

export interface MergeState extends MergeContext {
  /** How deep in merging merge bases; 0 is the merge that was asked for. */
  readonly depth: number;
  /** Byte strings for markers and for the names of files that have to move out of the way. */
  readonly labels: readonly [base: string, ours: string, theirs: string];
  /** Every path met, directories too. */
  readonly paths: Map<string, Entry>;
  /** Those that stay unmerged. */
  readonly conflicted: Map<string, Entry>;
  readonly notes: Note[];
  readonly renames: RenameState;
}

export function createState(
  context: MergeContext,
  depth: number,
  labels: readonly [base: string, ours: string, theirs: string],
): MergeState {
  return {
    ...context,
    depth,
    labels,
    paths: new Map(),
    conflicted: new Map(),
    notes: [],
    renames: createRenameState(),
  };
}

/** Files a note, unless it is about a merge of merge bases, which nobody sees. */
export function note(
  state: MergeState,
  type: ConflictType | null,
  paths: readonly string[],
  text: string,
): void {
  if (state.depth === 0) state.notes.push({ type, paths, text });
}

/** A name beside `path` that nothing has yet, made from the side's label. */
export function uniquePath(state: MergeState, path: string, side: Side): string {
  const base = `${path}~${state.labels[side].replaceAll("/", "_")}`;
  let name = base;
  for (let n = 0; state.paths.has(name); n++) name = `${base}_${n}`;
  return name;
}

/** The name under which an entry stands in its directory's tree. */
export const nameInDirectory = (path: string): string => baseName(path);

/**
 * A byte string as text: its UTF-8. A name that isn't UTF-8, or that begins with a double quote, is given
 * between double quotes, escaped as git does it (`"\377\376"`): what begins with one leads back to the bytes.
 */
export function pathText(path: string): string {
  if (path.startsWith('"')) return quotePath(path);
  // deno-lint-ignore no-control-regex
  if (/^[\x00-\x7f]*$/.test(path)) return path;
  const bytes = Buffer.from(path, "latin1");
  return isUtf8(bytes) ? bytes.toString("utf8") : quotePath(path);
}

/** Text as the byte string of its UTF-8. */
export function byteString(text: string): string {
  return Buffer.from(text, "utf8").toString("latin1");
}
