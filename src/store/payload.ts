/** Payloads: the caller's JSON, serialised once, kept byte for byte in an object of its own. */
import { AgentqError } from "../errors.ts";
import { errnoOf, ioError, syncError } from "../platform/durable.ts";
import type { Descriptor, FileSystem } from "../platform/files.ts";
import { type AdmissionPolicy, admitDirectory, admitFile } from "./admit.ts";
import {
  DIRECTORY_MODE,
  FILE_MODE,
  objectDirectory,
  payloadPath,
  type StorePaths,
} from "./layout.ts";
import type { StoreSite } from "./sites.ts";
import { type Json, PREPARED, type PreparedPayload, type Token } from "./types.ts";

/** Wraps JSON text that is already serialised. Throws `payload-invalid` unless it is JSON. */
export function preparedPayload(jsonText: string): PreparedPayload {
  try {
    JSON.parse(jsonText);
  } catch (cause) {
    throw new AgentqError("payload-invalid", "the payload isn't JSON", { cause });
  }
  if (!jsonText.isWellFormed()) {
    throw new AgentqError("payload-invalid", "the payload has a lone surrogate, which isn't UTF-8");
  }
  return { [PREPARED]: true, jsonText };
}

/** A payload's bytes. Errors: `payload-invalid`, `limit-exceeded`. */
export function payloadBytes(payload: Json | PreparedPayload, limit: number): Uint8Array {
  const text = isPrepared(payload) ? payload.jsonText : serialize(payload);
  const bytes = new TextEncoder().encode(text);
  if (bytes.length > limit) {
    throw new AgentqError(
      "limit-exceeded",
      `the payload has ${bytes.length} bytes; a store takes at most ${limit}`,
      { details: { bytes: bytes.length, limit } },
    );
  }
  return bytes;
}

function isPrepared(payload: Json | PreparedPayload): payload is PreparedPayload {
  return typeof payload === "object" && payload !== null && PREPARED in payload;
}

function serialize(payload: Json): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(payload);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new AgentqError("payload-invalid", `the payload can't be written as JSON: ${reason}`, {
      cause,
    });
  }
  if (text === undefined) {
    throw new AgentqError(
      "payload-invalid",
      `the payload is ${typeof payload}, which JSON has not`,
    );
  }
  return text;
}

/** Objects whose syncs are under way at a time: few enough to stay far from the limit of open files. */
const MAX_UNDER_WAY = 128;

/**
 * Writes payloads as new objects: each its own directory and file, both synced. The edges in
 * `objects/` are the caller's to sync, once for all of them.
 *
 * In a batch the syncs of one object go on while the next is written.
 */
export async function writeAllObjects(
  files: FileSystem<StoreSite>,
  paths: StorePaths,
  objects: ReadonlyMap<Token, Uint8Array>,
): Promise<void> {
  const underWay: Promise<void>[] = [];
  try {
    for (const [object, bytes] of objects) {
      if (objects.size === 1) return writeObject(files, paths, object, bytes);
      underWay.push(writeObjectLater(files, paths, object, bytes));
      if (underWay.length === MAX_UNDER_WAY) await Promise.all(underWay.splice(0));
    }
  } finally {
    // Whatever failed: nothing may still be going on when the transaction is taken back.
    await Promise.allSettled(underWay);
  }
  await Promise.all(underWay);
}

function writeObject(
  files: FileSystem<StoreSite>,
  paths: StorePaths,
  object: Token,
  bytes: Uint8Array,
): void {
  const directory = objectDirectory(paths, object);
  const path = payloadPath(paths, object);
  const fd = createPayload(files, directory, path, bytes);
  try {
    files.sync("object.sync-file", fd);
  } catch (error) {
    throw ioError("sync", path, error);
  } finally {
    files.close(fd);
  }
  try {
    files.syncDirectory("object.sync-directory", directory);
  } catch (error) {
    throw syncError(directory, error);
  }
}

async function writeObjectLater(
  files: FileSystem<StoreSite>,
  paths: StorePaths,
  object: Token,
  bytes: Uint8Array,
): Promise<void> {
  const directory = objectDirectory(paths, object);
  const path = payloadPath(paths, object);
  const fd = createPayload(files, directory, path, bytes);
  try {
    await files.syncLater("object.sync-file", fd);
  } catch (error) {
    throw ioError("sync", path, error);
  } finally {
    files.close(fd);
  }
  try {
    await files.syncDirectoryLater("object.sync-directory", directory);
  } catch (error) {
    throw syncError(directory, error);
  }
}

/** Makes the directory and the file in it, written but not synced, and still open. */
function createPayload(
  files: FileSystem<StoreSite>,
  directory: string,
  path: string,
  bytes: Uint8Array,
): Descriptor {
  makeObjectDirectory(files, directory);
  let fd: Descriptor | undefined;
  try {
    fd = files.create("object.create", path, FILE_MODE);
    files.write("object.write", fd, bytes);
    return fd;
  } catch (error) {
    if (fd !== undefined) files.close(fd);
    throw ioError("write", path, error);
  }
}

function makeObjectDirectory(files: FileSystem<StoreSite>, directory: string): void {
  try {
    files.mkdir("object.mkdir", directory, DIRECTORY_MODE);
  } catch (error) {
    if (errnoOf(error) === "EEXIST") {
      throw new AgentqError("store-invalid", `${directory} exists: an object token was reused`);
    }
    throw ioError("make", directory, error);
  }
}

/**
 * Reads one payload whole. `payload-unreadable` when the object is missing, damaged or not ours;
 * `io-error` when this process merely couldn't read it (EMFILE, EACCES, …) and may later.
 */
export function readObject(
  files: FileSystem<StoreSite>,
  paths: StorePaths,
  object: Token,
  policy: AdmissionPolicy,
  limit: number,
): Uint8Array {
  try {
    admitDirectory(files, objectDirectory(paths, object), policy);
    return admitFile(files, payloadPath(paths, object), policy, limit).bytes;
  } catch (error) {
    const errno = error instanceof AgentqError ? error.details?.errno : errnoOf(error);
    // A bad sector won't heal, and must not block the messages behind it.
    const lasting = errno === undefined || errno === "ENOENT" || errno === "EIO";
    if (error instanceof AgentqError && error.code === "io-error" && !lasting) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new AgentqError("payload-unreadable", `the payload can't be read: ${reason}`, {
      cause: error,
      details: { object, ...(errno === undefined ? {} : { errno }) },
    });
  }
}
