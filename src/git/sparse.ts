/**
 * Sparse checkout: which paths of a tree belong into the work tree, from `info/sparse-checkout`.
 *
 * The file is read as git reads it without cone mode: of the lines that match a path the last decides,
 * and where none does, its directory decides. The patterns that cone mode writes say the same in
 * this reading, so there is one reading.
 */
import fs from "node:fs";
import { join } from "node:path";
import { lastMatch, parsePatternFile } from "./ignore.ts";
import type { Repository } from "./repository.ts";

/** True for the paths (byte strings of files) that belong into the work tree. */
export type SparseMatcher = (path: string) => boolean;

/** The matcher of a repository or linked worktree; null when everything belongs. */
export function sparseMatcher(
  repository: Pick<Repository, "gitDir" | "config">,
): SparseMatcher | null {
  if (!repository.config.getBoolean("core.sparseCheckout")) return null;
  const file = join(repository.gitDir, "info", "sparse-checkout");
  if (!fs.existsSync(file)) return null;
  return compileSparse(
    fs.readFileSync(file),
    repository.config.getBoolean("core.ignoreCase") ?? false,
  );
}

export function compileSparse(content: Uint8Array, ignoreCase: boolean): SparseMatcher {
  const patterns = parsePatternFile(content, ignoreCase);
  const directories = new Map<string, boolean>([["", false]]);
  const directory = (path: string): boolean => {
    const known = directories.get(path);
    if (known !== undefined) return known;
    const parent = directory(path.slice(0, Math.max(path.lastIndexOf("/"), 0)));
    const inside = lastMatch(patterns, path, true) ?? parent;
    directories.set(path, inside);
    return inside;
  };
  return (path) =>
    lastMatch(patterns, path, false) ??
      directory(path.slice(0, Math.max(path.lastIndexOf("/"), 0)));
}
