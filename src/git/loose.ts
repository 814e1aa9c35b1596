/**
 * Loose objects: `objects/ab/cdef…`, one zlib stream of `type size NUL content` each.
 *
 * Writing is durable before it is visible: a temporary file beside the target is synced, then renamed,
 * then its directory is synced. Never a hard link: file systems of containers and phones refuse them.
 */
import { Buffer } from "node:buffer";
import {
  accessSync,
  chmodSync,
  closeSync,
  fsyncSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  unlinkSync,
  utimesSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";
import { AgentqError } from "../errors.ts";
import { nodeZlib } from "../platform/builtins.ts";
import { deflate, inflateWholeQuickly } from "../platform/compress.ts";
import { randomBytes } from "../platform/hash.ts";
import { makeBelow } from "../platform/make-below.ts";
import type { ObjectType, Oid, RawObject } from "./types.ts";

const HEADER = /^(commit|tree|blob|tag) (0|[1-9][0-9]*)$/;

export function looseObjectPath(objectsDir: string, oid: Oid): string {
  return `${objectsDir}/${oid.slice(0, 2)}/${oid.slice(2)}`;
}

function corrupt(oid: Oid, path: string, what: string, cause?: unknown): AgentqError {
  return new AgentqError("repository-corrupt", `Loose object ${oid} ${what} (${path}).`, {
    cause,
    details: { oid, path },
  });
}

function ioError(path: string, cause: unknown): AgentqError {
  const code = (cause as { code?: string }).code;
  return new AgentqError("io-error", `Cannot use ${path} (${code ?? cause}).`, {
    cause,
    details: { path, errno: code },
  });
}

const isMissing = (cause: unknown) =>
  ["ENOENT", "ENOTDIR"].includes((cause as { code?: string }).code ?? "");

function parseHeader(data: Buffer, oid: Oid, path: string) {
  const nul = data.subarray(0, 32).indexOf(0);
  const match = nul < 0 ? null : HEADER.exec(data.toString("latin1", 0, nul));
  if (!match) throw corrupt(oid, path, "has a malformed header");
  return { type: match[1] as ObjectType, size: Number(match[2]), start: nul + 1 };
}

/** The object, or null when there is no such file. @throws `repository-corrupt`, `io-error` */
export function readLoose(objectsDir: string, oid: Oid): RawObject | null {
  const path = looseObjectPath(objectsDir, oid);
  let file: Buffer;
  try {
    file = readFileSync(path);
  } catch (cause) {
    if (isMissing(cause)) return null;
    throw ioError(path, cause);
  }
  let data = inflateWholeQuickly(file);
  if (data === null) {
    let consumed: number;
    try {
      // The types of `info` are missing from @types/node: it returns the engine beside the buffer.
      const result = nodeZlib().inflateSync(file, { info: true }) as unknown as {
        buffer: Buffer;
        engine: { bytesWritten: number };
      };
      data = result.buffer;
      consumed = result.engine.bytesWritten;
    } catch (cause) {
      throw corrupt(oid, path, "does not inflate", cause);
    }
    if (consumed !== file.length) throw corrupt(oid, path, "has garbage at its end");
  }
  const { type, size, start } = parseHeader(data, oid, path);
  if (data.length - start !== size) throw corrupt(oid, path, "has the wrong size");
  return { type, data: data.subarray(start) };
}

/** Type and size from the first bytes, or null when there is no such file. */
export function statLoose(objectsDir: string, oid: Oid): { type: ObjectType; size: number } | null {
  const path = looseObjectPath(objectsDir, oid);
  const head = Buffer.allocUnsafe(4096);
  let length: number;
  try {
    const fd = openSync(path, "r");
    try {
      length = readSync(fd, head, 0, head.length, 0);
    } finally {
      closeSync(fd);
    }
  } catch (cause) {
    if (isMissing(cause)) return null;
    throw ioError(path, cause);
  }
  // Mostly that was the whole file.
  let data = inflateWholeQuickly(head.subarray(0, length));
  try {
    data ??= nodeZlib().inflateSync(head.subarray(0, length), {
      finishFlush: nodeZlib().constants.Z_SYNC_FLUSH,
    });
  } catch (cause) {
    throw corrupt(oid, path, "does not inflate", cause);
  }
  const { type, size } = parseHeader(data, oid, path);
  return { type, size };
}

export function hasLoose(objectsDir: string, oid: Oid): boolean {
  try {
    accessSync(looseObjectPath(objectsDir, oid));
    return true;
  } catch {
    return false;
  }
}

/** Tells a concurrent `git gc` that the object is wanted again. False when there is no such file. */
export function freshenLoose(objectsDir: string, oid: Oid): boolean {
  const now = new Date();
  try {
    utimesSync(looseObjectPath(objectsDir, oid), now, now);
    return true;
  } catch (cause) {
    // Someone else's object, or one on a read-only file system, is there all the same.
    return !isMissing(cause);
  }
}

/** Ids of loose objects that begin with `prefix` (at least two hex digits). */
export function prefixedLoose(objectsDir: string, prefix: string): Oid[] {
  try {
    return readdirSync(`${objectsDir}/${prefix.slice(0, 2)}`)
      .filter((name) => /^[0-9a-f]{38}$/.test(name) && name.startsWith(prefix.slice(2)))
      .map((name) => prefix.slice(0, 2) + name);
  } catch {
    return [];
  }
}

export function fsyncDirectory(path: string): void {
  const fd = openSync(path, "r");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** An object to be written, with its id already known. */
export interface LooseObject extends RawObject {
  readonly oid: Oid;
}

/** Git's prune removes empty directories: one can go between making it and making a file in it. */
const DIRECTORY_ATTEMPTS = 32;

/** Creates `path`, making its directory where it is missing; `made` is called when it was. */
function openBelow(directory: string, path: string, made: () => void): number {
  for (let attempt = 1;; attempt++) {
    try {
      return openSync(path, "wx", 0o444);
    } catch (cause) {
      if (!isMissing(cause) || attempt === DIRECTORY_ATTEMPTS) throw cause;
    }
    try {
      // The objects directory itself is there in every repository; where it isn't, the repository is gone.
      makeBelow(dirname(directory), directory);
      made();
    } catch (cause) {
      if (!isMissing(cause)) throw cause;
    }
  }
}

/**
 * Writes objects in one sweep: all temporary files first, then every sync, then the renames, then each
 * directory once. `sharedMode` is what `core.sharedRepository` adds to the permission bits.
 * @throws `io-error`; then none of the names that were not there before may be relied upon
 */
export function writeLoose(
  objectsDir: string,
  objects: readonly LooseObject[],
  sharedMode = 0,
): void {
  const pending: { temp: string; path: string; fd: number }[] = [];
  const directories = new Set<string>();
  try {
    for (const { oid, type, data } of objects) {
      const path = looseObjectPath(objectsDir, oid);
      const directory = path.slice(0, objectsDir.length + 3);
      const temp = `${directory}/tmp_obj_${randomBytes(6).toString("hex")}`;
      const fd = openBelow(directory, temp, () => {
        if (sharedMode) chmodSync(directory, 0o2700 | sharedMode | ((sharedMode & 0o444) >> 2));
        directories.add(objectsDir);
      });
      pending.push({ temp, path, fd });
      directories.add(directory);
      if (sharedMode) chmodSync(temp, 0o400 | (sharedMode & 0o444));
      const file = deflate(
        Buffer.concat([Buffer.from(`${type} ${data.length}\0`), data]),
        data.length > 1024 * 1024 ? 1 : 6,
      );
      for (let done = 0; done < file.length;) done += writeSync(fd, file, done);
    }
    for (const { fd } of pending) fsyncSync(fd);
    for (const entry of pending) {
      closeSync(entry.fd);
      entry.fd = -1;
      renameSync(entry.temp, entry.path);
      entry.temp = "";
    }
    for (const directory of directories) fsyncDirectory(directory);
  } catch (cause) {
    throw cause instanceof AgentqError ? cause : ioError(objectsDir, cause);
  } finally {
    for (const { fd, temp } of pending) {
      if (fd >= 0) closeSync(fd);
      if (temp !== "") {
        try {
          unlinkSync(temp);
        } catch {
          // git gc prunes forgotten tmp_obj_ files.
        }
      }
    }
  }
}
