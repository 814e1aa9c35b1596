/**
 * .gitignore: which untracked paths git leaves out.
 *
 * The last matching line decides, searched for in this order, and nothing below an ignored directory
 * can be un-ignored:
 *
 *   the path's directory ▸ … ▸ the root ▸ $GIT_DIR/info/exclude ▸ core.excludesFile
 */
import { asBuffer } from "./oid.ts";
import { parsePathPattern, type PathPattern } from "./path-pattern.ts";

/** Gives the content of the .gitignore in a directory ("" is the root), null when there is none. */
export type IgnoreFiles = (directory: string) => Uint8Array | null;

export interface IgnoreLookup {
  /** Whether a path is ignored, when its directory is not. `path` is a byte string. */
  ignores(path: string, isDirectory: boolean): boolean;
}

export interface IgnoreLookupOptions {
  files: IgnoreFiles;
  /** $GIT_DIR/info/exclude. */
  info?: Uint8Array | null;
  /** core.excludesFile. */
  global?: Uint8Array | null;
  /** core.ignoreCase. */
  ignoreCase?: boolean;
}

interface Frame {
  readonly patterns: readonly PathPattern[];
  readonly strip: number;
}

export function ignoreLookup(options: IgnoreLookupOptions): IgnoreLookup {
  const ignoreCase = options.ignoreCase ?? false;
  const below = [options.files(""), options.info, options.global]
    .map((content) => ({ patterns: parsePatternFile(content ?? null, ignoreCase), strip: 0 }))
    .filter((frame) => frame.patterns.length > 0);
  const directories = new Map<string, readonly Frame[]>([["", below]]);
  const framesOf = (directory: string): readonly Frame[] => {
    const known = directories.get(directory);
    if (known !== undefined) return known;
    const parent = framesOf(directory.slice(0, Math.max(directory.lastIndexOf("/"), 0)));
    const patterns = parsePatternFile(options.files(directory), ignoreCase);
    const frames = patterns.length > 0
      ? [{ patterns, strip: directory.length + 1 }, ...parent]
      : parent;
    directories.set(directory, frames);
    return frames;
  };
  return {
    ignores(path, isDirectory) {
      const slash = path.lastIndexOf("/");
      for (const { patterns, strip } of framesOf(slash < 0 ? "" : path.slice(0, slash))) {
        const verdict = lastMatch(patterns, path.slice(strip), isDirectory);
        if (verdict !== null) return verdict;
      }
      return false;
    },
  };
}

/** True, false for a `!` line, null when no pattern speaks of the path. */
export function lastMatch(
  patterns: readonly PathPattern[],
  relative: string,
  isDirectory: boolean,
): boolean | null {
  for (let i = patterns.length - 1; i >= 0; i--) {
    const pattern = patterns[i]!;
    if (pattern.matches(relative, isDirectory)) return !pattern.negative;
  }
  return null;
}

/** The patterns of a .gitignore, info/exclude or info/sparse-checkout file. */
export function parsePatternFile(content: Uint8Array | null, ignoreCase: boolean): PathPattern[] {
  if (content === null) return [];
  const text = asBuffer(content).toString("latin1").replace(/^\xef\xbb\xbf/, "");
  const patterns: PathPattern[] = [];
  for (const raw of text.split("\n")) {
    if (raw.startsWith("#")) continue;
    const line = trimSpaces(raw.replace(/\r$/, ""));
    // "!" and "/" alone match nothing.
    if (/[^!/]/.test(line)) patterns.push(parsePathPattern(line, ignoreCase));
  }
  return patterns;
}

/** Takes final spaces off, but not one that a backslash keeps. */
function trimSpaces(line: string): string {
  let end = line.length;
  while (end > 0 && line[end - 1] === " ") end--;
  let backslashes = 0;
  while (backslashes < end && line[end - 1 - backslashes] === "\\") backslashes++;
  return line.slice(0, backslashes % 2 === 1 && end < line.length ? end + 1 : end);
}
