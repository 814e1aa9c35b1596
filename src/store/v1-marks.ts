/** Telling v1 queue directories by what `@openclaw/fs-safe` leaves in them. */
import { join, sep } from "node:path";
import { AgentqError } from "../errors.ts";
import { errnoOf, ioError } from "../platform/durable.ts";
import type { FileStat, FileSystem } from "../platform/files.ts";
import { FILE_MODE, NAMESPACE } from "./layout.ts";
import type { StoreSite } from "./sites.ts";

/** Names that nothing but a v1 queue has. */
const V1_OWN = /^\.fs-safe-(?:retirements|transfer-[0-9a-f]{32}\.lock)$/;
/** Files that v1 makes: an id, and what is with the message. */
const PENDING = /^[A-Za-z0-9_-][A-Za-z0-9._-]*\.json$/;
const TAKEN = /^[A-Za-z0-9_-][A-Za-z0-9._-]*\.(?:processing|delivered)$/;
/** What v1 writes before it renames it. */
export const TEMPORARY = /\.[0-9]+\.[0-9a-f-]{36}\.tmp$/;
/** Where a queue's dead letters lie, unless it was opened with another place for them. */
export const FAILED = "failed";
/** A part of a queue's name, which is a directory. */
const QUEUE_PART = /^[A-Za-z0-9_-](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?$/;
/** The files by which other programs know a directory of theirs. */
export const MANIFEST =
  /^(?:package(?:-lock)?|[jt]sconfig(?:\.[a-z]+)?|deno|composer|angular|manifest)\.json$/;

const MAX_DEPTH = 8;
/** A directory that holds more than so much was not made for queues. */
const MAX_ENTRIES = 10_000;

/**
 * What tells that `directory` is a v1 queue, or that v1 queues lie below it: a path from there, or null.
 *
 * In the directory itself any message does. Below it, where JSON of any kind may lie, only what v1 alone
 * leaves: a claimed or delivered message, a lock, or the directory of the dead letters, which every queue
 * has that was made through `v1:DIR`. Symlinks and hidden directories are not followed.
 *
 * Where there are only such files, whatever is called like one counts. Where there are others too, as in
 * a project of any kind, only what v1 itself has written does: for its owner alone, and without a line's
 * end after the JSON, which editors and package managers write.
 */
export function findV1Mark(files: FileSystem<StoreSite>, directory: string): string | null {
  const { own, messages, letters, mixed } = survey(files, directory);
  if (own !== null) return own;
  const counts = (path: string) => {
    const name = path.slice(path.lastIndexOf(sep) + 1);
    return (!mixed && !MANIFEST.test(name)) || isWrittenByV1(files, join(directory, path));
  };
  const message = messages.find(counts);
  if (message !== undefined) return message;
  return letters.find((path) => {
    const within = list(files, join(directory, path), false);
    if (within.length === 0) return isPrivate(files, join(directory, path));
    return within.every((name) => PENDING.test(name) && counts(join(path, name)));
  }) ?? null;
}

interface Survey {
  /** What only v1 has. */
  own: string | null;
  /** Files named like messages, and directories named like those of dead letters. */
  readonly messages: string[];
  readonly letters: string[];
  /** There are files that v1 didn't make, or too many to look at. */
  mixed: boolean;
}

function survey(files: FileSystem<StoreSite>, directory: string): Survey {
  const found: Survey = { own: null, messages: [], letters: [], mixed: false };
  let level = [""];
  let entries = 0;
  for (let depth = 0; depth <= MAX_DEPTH && level.length > 0; depth++) {
    const below: string[] = [];
    for (const place of level) {
      const names = list(files, join(directory, place), depth === 0);
      entries += names.length;
      if (entries > MAX_ENTRIES && depth > 0) return { ...found, mixed: true };
      const own = names.find((name) => V1_OWN.test(name));
      if (own !== undefined) return { ...found, own: join(place, own) };
      const kinds = new Map(
        names.map((name) => [name, stat(files, join(directory, place, name))?.kind]),
      );
      const isFile = (name: string) => kinds.get(name) === "file";
      const directories = names.filter((name) =>
        kinds.get(name) === "directory" && QUEUE_PART.test(name) && !PENDING.test(name)
      );
      const taken = names.filter((name) => TAKEN.test(name) && isFile(name));
      const pending = names.filter((name) => PENDING.test(name) && isFile(name));
      for (const name of depth === 0 ? [...taken, ...pending] : taken) {
        found.messages.push(join(place, name));
      }
      const known = new Set([...directories, ...taken, ...pending]);
      const foreign = names.filter((name) => !known.has(name) && !TEMPORARY.test(name));
      found.mixed ||= foreign.some((name) => !name.startsWith(NAMESPACE));
      if (directories.includes(FAILED) && foreign.every((name) => name.startsWith("."))) {
        found.letters.push(join(place, FAILED));
      }
      for (const name of directories) if (name !== FAILED) below.push(join(place, name));
    }
    level = below;
  }
  return found;
}

/** A regular file for its owner alone whose text doesn't end with a line. */
export function isWrittenByV1(files: FileSystem<StoreSite>, path: string): boolean {
  const found = stat(files, path);
  if (found?.kind !== "file") return false;
  if (files.hasModes && found.mode !== FILE_MODE) return false;
  // Longer than other programs' settings are, or not ours to read.
  if (found.size > MAX_READ_BYTES) return true;
  try {
    const fd = files.openRead(path);
    try {
      return files.readAll(fd, found.size, MAX_READ_BYTES).at(-1) !== LINE_FEED;
    } finally {
      files.close(fd);
    }
  } catch (error) {
    if (errnoOf(error) === null) throw error;
    return true;
  }
}

const MAX_READ_BYTES = 1024 * 1024;
const LINE_FEED = 10;

function isPrivate(files: FileSystem<StoreSite>, path: string): boolean {
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
