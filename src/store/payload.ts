/** Payloads: the caller's JSON, serialised once, kept byte for byte in an object of its own. */
import { AgentqError, isAgentqError } from "../errors.ts";
import { errnoOf, ioError } from "../platform/durable.ts";
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
      {
        hint: "Keep what is larger in a file of its own, and enqueue its name.",
        details: { bytes: bytes.length, limit },
      },
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

/** A new object: its directory and its file, written but not synced, and still open. */
export interface MadeObject {
  readonly directory: string;
  readonly path: string;
  readonly fd: Descriptor;
}

/**
 * Makes new objects, each a directory and a file in it. All their syncs, and that of `objects/`, are the
 * caller's to make, and the descriptors its to close.
 *
 * Where there are several, another thread makes the files, each while this one makes the next directory.
 */
export async function makeObjects(
  files: FileSystem<StoreSite>,
  paths: StorePaths,
  objects: readonly (readonly [Token, Uint8Array])[],
): Promise<MadeObject[]> {
  if (objects.length === 1) return [makeObject(files, paths, ...objects[0]!)];
  const made = await Promise.allSettled(
    objects.map(([object, bytes]) => makeObjectLater(files, paths, object, bytes)),
  );
  const failed = made.find(({ status }) => status === "rejected");
  if (failed === undefined) return made.map((one) => (one as Fulfilled<MadeObject>).value);
  for (const one of made) if (one.status === "fulfilled") files.close(one.value.fd);
  throw (failed as PromiseRejectedResult).reason;
}

type Fulfilled<T> = PromiseFulfilledResult<T>;

function makeObject(
  files: FileSystem<StoreSite>,
  paths: StorePaths,
  object: Token,
  bytes: Uint8Array,
): MadeObject {
  const directory = objectDirectory(paths, object);
  const path = payloadPath(paths, object);
  makeObjectDirectory(files, directory);
  let fd: Descriptor | undefined;
  try {
    fd = files.create("object.create", path, FILE_MODE);
    files.write("object.write", fd, bytes);
    return { directory, path, fd };
  } catch (error) {
    if (fd !== undefined) files.close(fd);
    throw ioError("write", path, error);
  }
}

async function makeObjectLater(
  files: FileSystem<StoreSite>,
  paths: StorePaths,
  object: Token,
  bytes: Uint8Array,
): Promise<MadeObject> {
  const directory = objectDirectory(paths, object);
  const path = payloadPath(paths, object);
  makeObjectDirectory(files, directory);
  let fd: Descriptor | undefined;
  try {
    fd = await files.createLater("object.create", path, FILE_MODE);
    return { directory, path, fd: files.writeEarly("object.write", fd, path, bytes) };
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
 * Reads one payload whole. `payload-unreadable` when the object is missing, damaged or swapped for
 * something else. What is a fault of the surroundings, strikes many and can be put right is thrown as
 * it is: wrong permissions (`mode-unsupported`), another owner (`identity-changed`), and `io-error`
 * when it merely couldn't be read now (EMFILE, EACCES, EIO, …).
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
    if (isOfTheSurroundings(error)) throw error;
    const errno = error instanceof AgentqError ? error.details?.errno : errnoOf(error);
    const lasting = errno === undefined || errno === "ENOENT";
    if (error instanceof AgentqError && error.code === "io-error" && !lasting) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new AgentqError("payload-unreadable", `the payload can't be read: ${reason}`, {
      cause: error,
      details: { object, ...(errno === undefined ? {} : { errno }) },
    });
  }
}

/** The disk can't read it just now, or never again: a bad sector, a cable, a network gone. */
export function isReadFault(error: unknown): boolean {
  return isAgentqError(error, "io-error") && error.details?.errno === "EIO";
}

/** Modes and owners are what a whole tree of files loses at once: by a copy, a restore, a chmod -R. */
function isOfTheSurroundings(error: unknown): boolean {
  return isAgentqError(error, "mode-unsupported") ||
    (isAgentqError(error, "identity-changed") && error.details?.uid !== undefined);
}
