/**
 * The current directory, which may have been deleted under us: an agent's worktree is removed while its
 * shell still stands in it. Whoever needs no relative path works there all the same.
 */
import { isAbsolute, resolve } from "node:path";
import process from "node:process";
import { AgentqError } from "../errors.ts";

/** Where the binary's entry goes when there is no current directory (scripts/entry.ts). */
const NOWHERE = /^\/proc\/\d+\/fdinfo$/;

/** The current directory, or null where it was deleted. */
export function currentDirectoryOrNull(): string | null {
  try {
    const directory = process.cwd();
    return NOWHERE.test(directory) ? null : directory;
  } catch {
    return null;
  }
}

/** The current directory. @throws `current-directory-gone` */
export function currentDirectory(): string {
  const directory = currentDirectoryOrNull();
  if (directory !== null) return directory;
  const was = process.env.PWD;
  throw new AgentqError(
    "current-directory-gone",
    `the current directory was deleted${was && isAbsolute(was) ? `: ${was}` : ""}`,
  );
}

/** `path` made absolute, counted from the current directory. @throws `current-directory-gone` */
export function absolutePath(path: string): string {
  return isAbsolute(path) ? resolve(path) : resolve(currentDirectory(), path);
}
