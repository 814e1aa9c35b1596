/**
 * The current directory, which may be deleted under us: an agent's worktree is removed while a run goes
 * on in it. Whoever needs no relative path works on all the same. (Where it is gone before the binary
 * starts, the runtime ends it with words of its own, before any code of ours runs.)
 */
import { lstatSync, readlinkSync, realpathSync, statSync } from "node:fs";
import { basename, dirname, isAbsolute, join, resolve } from "node:path";
import { AgentqError } from "../errors.ts";
import { errnoOf, ioError } from "./durable.ts";
import { assertRepresentable } from "./representable.ts";

/** The current directory, or null where it was deleted. */
export function currentDirectoryOrNull(): string | null {
  try {
    return process.cwd();
  } catch {
    return null;
  }
}

/** The current directory. @throws `current-directory-gone`, `path-not-representable` */
export function currentDirectory(): string {
  const directory = currentDirectoryOrNull();
  if (directory !== null) {
    assertRepresentable(directory);
    return directory;
  }
  const was = process.env.PWD;
  throw new AgentqError(
    "current-directory-gone",
    `the current directory was deleted${was && isAbsolute(was) ? `: ${was}` : ""}`,
  );
}

/**
 * `path` made absolute, counted from the current directory.
 * @throws `current-directory-gone`, `path-not-representable`
 */
export function absolutePath(path: string): string {
  const absolute = isAbsolute(path) ? resolve(path) : resolve(currentDirectory(), path);
  assertRepresentable(absolute);
  return absolute;
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

/** The link at a path, or above it where there is nothing, that leads nowhere, and where to; else null. */
export function danglingLink(path: string): { link: string; target: string } | null {
  try {
    for (let at = path;; at = dirname(at)) {
      const found = lstatSync(at, { throwIfNoEntry: false });
      if (found === undefined && dirname(at) !== at) continue;
      if (!found?.isSymbolicLink()) return null;
      if (statSync(at, { throwIfNoEntry: false }) !== undefined) return null;
      return { link: at, target: readlinkSync(at) };
    }
  } catch {
    return null;
  }
}

/** `io-error`: something can't be made where a link leads nowhere; null where that isn't so. */
export function madeThroughNothing(path: string, cause: unknown): AgentqError | null {
  const dangling = danglingLink(path);
  if (dangling === null) return null;
  const { link, target } = dangling;
  return new AgentqError(
    "io-error",
    `can't make ${path}: ${link} is a link to ${target}, which isn't there`,
    {
      cause,
      hint: "Correct the link or remove it: nothing is created through it.",
      details: { operation: "make", path, link, target },
    },
  );
}
