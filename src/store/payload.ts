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

/** Open files at a time, well below what a process may have. */
const MAX_OPEN = 128;

/**
 * Writes payloads as new objects: each its own directory and file, both synced. The edges in
 * `objects/` are the caller's to sync, once for all of them.
 *
 * The syncs of a batch are asked for together, so that the disk can do them in one go.
 */
export async function writeAllObjects(
  files: FileSystem<StoreSite>,
  paths: StorePaths,
  objects: ReadonlyMap<Token, Uint8Array>,
): Promise<void> {
  const all = [...objects];
  for (let from = 0; from < all.length; from += MAX_OPEN) {
    await writeSomeObjects(files, paths, all.slice(from, from + MAX_OPEN));
  }
}

async function writeSomeObjects(
  files: FileSystem<StoreSite>,
  paths: StorePaths,
  objects: readonly (readonly [Token, Uint8Array])[],
): Promise<void> {
  const open: Descriptor[] = [];
  let path = paths.objects;
  try {
    for (const [object, bytes] of objects) {
      path = payloadPath(paths, object);
      makeObjectDirectory(files, objectDirectory(paths, object));
      const fd = files.create("object.create", path, FILE_MODE);
      open.push(fd);
      files.write("object.write", fd, bytes);
    }
    if (open.length === 1) files.sync("object.sync-file", open[0]!);
    else await files.syncAll("object.sync-file", open);
  } catch (error) {
    throw ioError("write", path, error);
  } finally {
    for (const fd of open) files.close(fd);
  }
  const directories = objects.map(([object]) => objectDirectory(paths, object));
  try {
    if (directories.length === 1) {
      files.syncDirectory("object.sync-directory", directories[0]!);
    } else await files.syncDirectories("object.sync-directory", directories);
  } catch (error) {
    throw syncError(directories[0]!, error);
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
