/**
 * One pattern line of .gitignore, .gitattributes or info/sparse-checkout: what the three agree on.
 *
 * A pattern without a slash is held against the last name of a path, any other against the path
 * below the directory whose file the pattern is in. `/` at the end asks for a directory.
 */
import { compileWildmatch, foldCase, type Matcher } from "./wildmatch.ts";

export interface PathPattern {
  /** The line began with `!`. */
  readonly negative: boolean;
  /** The line ended in `/`: only directories match. */
  readonly directoryOnly: boolean;
  /**
   * Whether a path matches.
   * @param relative the path below the pattern's own directory, without a final slash
   * @param isDirectory what the path is
   */
  matches(relative: string, isDirectory: boolean): boolean;
}

/** Parses one line that is known to be a pattern (no comment, nothing to trim left). */
export function parsePathPattern(line: string, ignoreCase: boolean): PathPattern {
  const negative = line.startsWith("!");
  let pattern = negative ? line.slice(1) : line;
  const directoryOnly = pattern.endsWith("/");
  if (directoryOnly) pattern = pattern.slice(0, -1);
  const matcher = pattern.includes("/")
    ? pathMatcher(pattern.startsWith("/") ? pattern.slice(1) : pattern, ignoreCase)
    : nameMatcher(pattern, ignoreCase);
  return {
    negative,
    directoryOnly,
    matches: (relative, isDirectory) => (isDirectory || !directoryOnly) && matcher(relative),
  };
}

/** The length of the part before the first glob character. */
function literalLength(pattern: string): number {
  const at = pattern.search(/[*?[\\]/);
  return at < 0 ? pattern.length : at;
}

function nameMatcher(pattern: string, ignoreCase: boolean): Matcher {
  let matcher: Matcher;
  if (
    !ignoreCase && pattern.startsWith("*") && literalLength(pattern.slice(1)) === pattern.length - 1
  ) {
    const suffix = pattern.slice(1);
    matcher = (name) => name.endsWith(suffix);
  } else matcher = compileWildmatch(pattern, { pathname: false, ignoreCase });
  return (path) => matcher(path.slice(path.lastIndexOf("/") + 1));
}

/**
 * git compares the literal beginning first and globs only the rest, so that `a**` + `/b` has its
 * stars at the beginning of what is globbed and they count as bounded. Kept, for the same answers.
 */
function pathMatcher(pattern: string, ignoreCase: boolean): Matcher {
  const length = literalLength(pattern);
  const literal = ignoreCase ? foldCase(pattern.slice(0, length)) : pattern.slice(0, length);
  const rest = pattern.slice(length);
  const matcher = compileWildmatch(rest, { ignoreCase });
  return (path) => {
    const head = path.slice(0, length);
    return (ignoreCase ? foldCase(head) : head) === literal && matcher(path.slice(length));
  };
}
