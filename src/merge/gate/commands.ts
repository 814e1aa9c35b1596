/** Commands of git's, as a shell takes them. */
import { quotePath, shellPath } from "../../git/path-quote.ts";
import type { Oid } from "../../git/types.ts";
import { directoryOf, type Version } from "../entry.ts";

/** A path for git's command line: what git would take for a pattern is marked as a name. */
export const pathspec = (path: string): string =>
  shellPath(/^:|[*?[\\]/.test(path) ? `:(literal)${path}` : path);

/** The same, whatever directory the command is given in. */
export const topPathspec = (path: string): string =>
  shellPath(/^[^\w.]|[*?[\\]/.test(path) ? `:(top,literal)${path}` : `:/${path}`);

/** Paths in commands are those of the top directory; whoever follows them may stand below it. */
export const inTop = (command: string): string =>
  `cd "$(git rev-parse --show-toplevel)" && ${command}`;

/** Stops a command that would overwrite what was made of a path since `commit`, be it not committed yet. */
export const unlessChanged = (commit: Oid, path: string): string =>
  `git diff --quiet ${commit.slice(0, 12)} -- ${pathspec(path)} && `;
export const unlessThere = (path: string): string => `test ! -e ${shellPath(path)} && `;

/** A path as `--drop` takes it for that path alone: no glob is meant by what stands between double quotes. */
export function dropFlag(path: string): string {
  const quoted = quotePath(path);
  const exact = /^"|[*?[\\]/.test(path) && !quoted.startsWith('"') ? `"${quoted}"` : path;
  return `--drop=${shellPath(exact)}`;
}

/** A path in a commit. */
export const inCommit = (commit: string, path: string): string => `${commit}:${shellPath(path)}`;

const makeDirectory = (path: string, hasDirectory: (path: string) => boolean): string => {
  const directory = directoryOf(path);
  return directory === "" || hasDirectory(directory)
    ? ""
    : `mkdir -p -- ${shellPath(directory)} && `;
};

/** Puts a commit's file, that has the name `name` there, into the index and the work tree. */
export function bringFile(
  commit: string,
  name: string,
  path: string,
  { mode }: Version,
  hasDirectory: (path: string) => boolean,
): string {
  if (name === path) return `git checkout ${commit} -- ${pathspec(path)}`;
  if (mode === 0o100644) {
    return makeDirectory(path, hasDirectory) +
      `git show ${inCommit(commit, name)} > ${shellPath(path)} && git add -f -- ${pathspec(path)}`;
  }
  // A link, or an executable: what stands in a file wouldn't be enough.
  return `git update-index --add --cacheinfo ${mode.toString(8)},` +
    `$(git rev-parse ${inCommit(commit, name)}),${shellPath(path)} && ` +
    `git checkout -- ${pathspec(path)}`;
}

/** Moves a file or directory. */
export function moveFile(
  from: string,
  to: string,
  hasDirectory: (path: string) => boolean,
): string {
  const [a, b] = [from, to].map(shellPath) as [string, string];
  if (to.startsWith(`${from}/`)) {
    const aside = shellPath(`${from}.aside`);
    return `git mv -- ${a} ${aside} && ` +
      `mkdir -p -- ${shellPath(directoryOf(to))} && git mv -- ${aside} ${b}`;
  }
  if (from.startsWith(`${to}/`)) {
    const aside = shellPath(`${to}.aside`);
    return `git mv -- ${a} ${aside} && rm -rf -- ${b} && git mv -- ${aside} ${b}`;
  }
  return `${makeDirectory(to, hasDirectory)}git mv -- ${a} ${b}`;
}

export const removeFile = (path: string): string => `git rm -r -- ${pathspec(path)}`;

/** Gives a file another mode. */
export function changeMode(path: string, mode: number): string {
  const sign = mode === 0o100755 ? "+x" : "-x";
  return `chmod ${sign} -- ${shellPath(path)} && git add --chmod=${sign} -- ${pathspec(path)}`;
}

/** Does again at a path what was done to it between two commits. */
export const applyChange = (from: string, to: string, path: string): string =>
  `git diff-tree -p -a --full-index ${from} ${to} -- ${pathspec(path)} | git apply --3way`;

/** Puts what merging gives at a path there. */
export const takeMerged = (merge: string, path: string): string =>
  `git checkout "$(git merge-tree --write-tree ${merge}^1 ${merge}^2 | head -n 1)" -- ${
    pathspec(path)
  }`;

/** Merges into a file what was made of the object `base` in another one, whatever their names. */
export const mergeFile = (path: string, base: string, theirs: string): string =>
  `b=$(mktemp) && t=$(mktemp) && git show ${
    base.slice(0, 12)
  } > "$b" && git show ${theirs} > "$t" && ` +
  `git merge-file -- ${shellPath(path)} "$b" "$t" && git add -- ${pathspec(path)}`;
