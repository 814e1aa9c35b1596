/** Telling v1 queue directories by what `@openclaw/fs-safe` leaves in them. */
import { join } from "node:path";
import { AgentqError } from "../errors.ts";
import { errnoOf, ioError } from "../platform/durable.ts";
import type { FileStat, FileSystem } from "../platform/files.ts";
import type { StoreSite } from "./sites.ts";

/** Names that nothing but a v1 queue has. */
const V1_NAME =
  /(?:^\.fs-safe-retirements$)|(?:^\.fs-safe-transfer-[0-9a-f]{32}\.lock$)|(?:\.(?:processing|delivered)$)/;
const MESSAGE = /\.json$/;
/** Where a queue's dead letters lie, unless it was opened with another place for them. */
const FAILED = "failed";
/** A part of a queue's name, which is a directory. */
const QUEUE_PART = /^[A-Za-z0-9_-](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?$/;

const MAX_DEPTH = 8;
/** A directory that holds more than so much was not made for queues. */
const MAX_ENTRIES = 10_000;

/**
 * What tells that `directory` is a v1 queue, or that v1 queues lie below it: a path from there, or null.
 *
 * In the directory itself any message does. Below it, where JSON of any kind may lie, only what v1 alone
 * leaves: a claimed or delivered message, a lock, or the directory of the dead letters, which every queue
 * has that was made through `v1:DIR`. Symlinks and hidden directories are not followed.
 */
export function findV1Mark(files: FileSystem<StoreSite>, directory: string): string | null {
  let level = [""];
  let entries = 0;
  for (let depth = 0; depth <= MAX_DEPTH && level.length > 0; depth++) {
    const below: string[] = [];
    for (const place of level) {
      const names = list(files, join(directory, place), depth === 0);
      entries += names.length;
      if (entries > MAX_ENTRIES && depth > 0) return null;
      const mark = names.find((name) => V1_NAME.test(name) || (depth === 0 && MESSAGE.test(name)));
      if (mark !== undefined) return join(place, mark);
      const parts = names.filter((name) => QUEUE_PART.test(name) && !MESSAGE.test(name));
      const directories = parts.filter((name) =>
        stat(files, join(directory, place, name))?.kind === "directory"
      );
      const foreign = names.some((name) =>
        !name.startsWith(".") && !MESSAGE.test(name) && !directories.includes(name)
      );
      if (!foreign && directories.includes(FAILED)) {
        const failed = join(place, FAILED);
        if (isOfDeadLetters(files, join(directory, failed))) return failed;
      }
      below.push(...directories.filter((name) => name !== FAILED).map((name) => join(place, name)));
    }
    level = below;
  }
  return null;
}

/** Holds messages and nothing else; or nothing, and is private, as v1 makes it. */
function isOfDeadLetters(files: FileSystem<StoreSite>, path: string): boolean {
  const names = list(files, path, false);
  if (names.length > 0) return names.every((name) => MESSAGE.test(name));
  return !files.hasModes || ((stat(files, path)?.mode ?? 0o777) & 0o077) === 0;
}

/** The refusal to take a directory of v1 queues for a v2 store's. */
export function v1Directory(root: string, mark: string): AgentqError {
  const message = `${root} looks like a directory of v1 queues: it holds ${mark}`;
  return new AgentqError("v1-directory", message, { details: { path: root, mark } });
}

function list(files: FileSystem<StoreSite>, path: string, required: boolean): string[] {
  try {
    return files.readdir(path);
  } catch (error) {
    if (required) throw ioError("list", path, error);
    return [];
  }
}

function stat(files: FileSystem<StoreSite>, path: string): FileStat | null {
  try {
    return files.lstat(path);
  } catch (error) {
    if (errnoOf(error) === null) throw error;
    return null;
  }
}
