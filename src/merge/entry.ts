/** What is known about one path while trees are merged. */
import type { Oid } from "../git/types.ts";

/** Sides of a merge, used as indices and, shifted, as bits of masks. */
export const BASE = 0;
export const OURS = 1;
export const THEIRS = 2;
export type Side = 1 | 2;

/** A file, link, submodule or directory in one tree; mode 0 is "not there". */
export interface Version {
  readonly mode: number;
  readonly oid: Oid;
}

export const NOTHING: Version = { mode: 0, oid: "" };

export const KIND = 0o170000;
export const isRegular = (mode: number): boolean => (mode & KIND) === 0o100000;
export const isDirectory = (mode: number): boolean => (mode & KIND) === 0o40000;
export const isLink = (mode: number): boolean => (mode & KIND) === 0o120000;
export const isSubmodule = (mode: number): boolean => (mode & KIND) === 0o160000;

/** Modes as merges write them: old repositories hold others. */
export function canonicalMode(mode: number): number {
  if (isRegular(mode)) return mode & 0o100 ? 0o100755 : 0o100644;
  if (isLink(mode)) return 0o120000;
  if (isDirectory(mode)) return 0o40000;
  return 0o160000;
}

/**
 * One path. Either it is `clean` and `result` (or, with `gone`, nothing) is what becomes of it, or the
 * three `stages` still have to be merged.
 */
export interface Entry {
  /** Path of the directory that holds it, "" for the root. */
  directory: string;
  clean: boolean;
  gone: boolean;
  result: Version;
  /** Base, ours, theirs. */
  stages: [Version, Version, Version];
  /** The path each of them has in its own tree: renames make them differ. */
  origins: [string, string, string];
  /** Bits of the sides on which the path is a file (or link or submodule), or a directory. */
  files: number;
  dirs: number;
  /** Bits of the sides that are equal; 0 when all differ. */
  matches: number;
  /** A file on one side and a directory on another. */
  typeClash: boolean;
  /** Something about the path itself is in conflict, whatever its content. */
  pathClash: boolean;
}

const NO_STAGES: [Version, Version, Version] = [NOTHING, NOTHING, NOTHING];

/** A path that needs no more thought. */
export function resolvedEntry(path: string, directory: string, result: Version): Entry {
  return {
    directory,
    clean: true,
    gone: false,
    result,
    stages: NO_STAGES,
    origins: [path, path, path],
    files: 0,
    dirs: 0,
    matches: 0,
    typeClash: false,
    pathClash: false,
  };
}

/** A path still to be merged. */
export function openEntry(
  path: string,
  directory: string,
  stages: [Version, Version, Version],
  files: number,
  dirs: number,
  matches: number,
): Entry {
  return {
    directory,
    clean: false,
    // A directory exists only if something in it does: found out when its entries are known.
    gone: dirs !== 0,
    result: NOTHING,
    stages,
    origins: [path, path, path],
    files,
    dirs,
    matches,
    typeClash: files !== 0 && dirs !== 0,
    pathClash: false,
  };
}

/** A copy that can be changed without changing the original. */
export function copyEntry(entry: Entry): Entry {
  return { ...entry, stages: [...entry.stages], origins: [...entry.origins] };
}

export const sameVersion = (a: Version, b: Version): boolean =>
  a.mode === b.mode && a.oid === b.oid;

/** The directory part of a path, "" at the root. */
export function directoryOf(path: string): string {
  const slash = path.lastIndexOf("/");
  return slash < 0 ? "" : path.slice(0, slash);
}

/** The last component of a path. */
export function baseName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}
