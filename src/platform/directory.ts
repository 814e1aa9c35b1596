/**
 * The current directory, which may be deleted under us: an agent's worktree is removed while a run goes
 * on in it. Whoever needs no relative path works on all the same. (Where it is gone before the binary
 * starts, the runtime ends it with words of its own, before any code of ours runs.)
 */
import { readlinkSync, realpathSync } from "node:fs";
import { basename, dirname, isAbsolute, join, resolve } from "node:path";
import { AgentqError } from "../errors.ts";
import { errnoOf, ioError } from "./durable.ts";

/** The current directory, or null where it was deleted. */
export function currentDirectoryOrNull(): string | null {
  try {
    return process.cwd();
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

/** An absolute path without links, as far as there is something at it. @throws `io-error` */
export function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch (error) {
    const parent = dirname(path);
    const missing = errnoOf(error) === "ENOENT" || errnoOf(error) === "ENOTDIR";
    if (missing && parent !== path) return realPath(parent);
    throw ioError("look at", path, error);
  }
}

/** An absolute path with the links in it followed, as far as there is something at it. @throws `io-error` */
export function withoutLinks(path: string): string {
  try {
    return realpathSync(path);
  } catch (error) {
    const parent = dirname(path);
    if (errnoOf(error) !== "ENOENT" || parent === path) throw ioError("look at", path, error);
    return join(withoutLinks(parent), basename(path));
  }
}

/** Where the link at an absolute path leads, from the root; null where that can't be told. */
export function linkTarget(path: string): string | null {
  try {
    return resolve(dirname(path), readlinkSync(path));
  } catch {
    return null;
  }
}
