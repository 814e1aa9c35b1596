/**
 * Taking in a pack from a stream: everything in it is given its id, deltas are resolved, and it is
 * checked to the last byte before anything of it becomes visible.
 *
 *   stream ─▶ tmp_pack, hashing ─▶ trailer fits? ─▶ scan: offset, type, size, CRC, id of whole objects
 *     ─▶ deltas, from each base outwards ─▶ thin pack: append the bases it left out ─▶ index ─▶ install
 *
 * One object and its chain of bases are in memory at a time (within a budget), whatever the pack's size.
 */
import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { closeSync, fstatSync, fsyncSync, ftruncateSync, writeSync } from "node:fs";
import { crc32, deflateSync } from "node:zlib";
import { throwIfAborted } from "../platform/clock.ts";
import { TYPES } from "./pack-entry.ts";
import { resolveAll, type ResolvedEntry, type ResolveOptions } from "./pack-resolve.ts";
import { corrupt, fileSource, packCutOff, type PackSource, WINDOW } from "./pack-source.ts";
import { discard, installPack, type StoreOptions, temporaryFile, writeAll } from "./pack-store.ts";
import { entryHeader, packHeader } from "./pack-write.ts";
import type { Oid, RawObject } from "./types.ts";

export interface IndexOptions extends StoreOptions, ResolveOptions {}

/**
 * Stores a pack that arrives as a stream.
 * @returns the `.pack` file's path, or null when the pack holds no object
 * @throws `protocol-error` when anything about it is wrong; nothing is left behind then
 */
export async function indexPack(
  stream: AsyncIterable<Uint8Array>,
  packDirectory: string,
  options: IndexOptions = {},
): Promise<string | null> {
  const { path, fd } = temporaryFile(packDirectory, "pack");
  let open = true;
  try {
    await spool(stream, fd, options);
    const source = fileSource(fd);
    const entries = await resolveAll(source, options, null);
    if (entries.length === 0) {
      discard(path);
      return null;
    }
    const thin = entries.filter(({ added }) => added !== undefined);
    const checksum = thin.length > 0
      ? complete(fd, source, entries)
      : source.read(source.size - 20, 20);
    fsyncSync(fd);
    closeSync(fd);
    open = false;
    return installPack(packDirectory, path, Buffer.from(checksum), entries, options);
  } catch (error) {
    discard(path);
    throw error;
  } finally {
    if (open) closeSync(fd);
  }
}

/**
 * The objects of a small pack, in memory only.
 * @param limit bytes of the pack; more is `protocol-error`
 */
export async function readPackObjects(
  stream: AsyncIterable<Uint8Array>,
  limit: number,
  options: Pick<IndexOptions, "signal" | "from"> = {},
): Promise<Map<Oid, RawObject>> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of stream) {
    throwIfAborted(options.signal);
    chunks.push(chunk);
    if ((size += chunk.length) > limit) {
      throw corrupt(options.from, `is larger than ${limit} bytes`);
    }
  }
  const data = Buffer.concat(chunks);
  const source = {
    size: data.length,
    read: (offset: number, length: number) => data.subarray(offset, offset + length),
  };
  if (data.length < 32) throw packCutOff(options.from, "is cut off");
  if (!createHash("sha1").update(data.subarray(0, -20)).digest().equals(data.subarray(-20))) {
    throw packCutOff(options.from, "has a wrong checksum");
  }
  const objects = new Map<Oid, RawObject>();
  await resolveAll(source, options, (oid, object) => objects.set(oid, object));
  return objects;
}

/** Writes the stream to the file and checks the trailer. */
async function spool(
  stream: AsyncIterable<Uint8Array>,
  fd: number,
  options: IndexOptions,
): Promise<void> {
  const hash = createHash("sha1");
  let tail: Buffer = Buffer.alloc(0);
  for await (const chunk of stream) {
    throwIfAborted(options.signal);
    writeAll(fd, chunk);
    // The last twenty bytes are the trailer, whichever they turn out to be.
    const seen = Buffer.concat([tail, chunk]);
    const end = Math.max(0, seen.length - 20);
    hash.update(seen.subarray(0, end));
    tail = Buffer.from(seen.subarray(end));
  }
  if (tail.length < 20 || fstatSync(fd).size < 32) throw packCutOff(options.from, "is cut off");
  if (!hash.digest().equals(tail)) throw packCutOff(options.from, "has a wrong checksum");
}

/** Appends the bases a thin pack left out; rewrites count and checksum. Returns the new checksum. */
function complete(fd: number, source: PackSource, entries: ResolvedEntry[]): Buffer {
  let offset = source.size - 20;
  ftruncateSync(fd, offset);
  for (const [i, entry] of entries.entries()) {
    if (!entry.added) continue;
    const { type, data } = entry.added;
    const chunk = Buffer.concat([entryHeader(TYPES.indexOf(type), data.length), deflateSync(data)]);
    writeAt(fd, chunk, offset);
    entries[i] = { oid: entry.oid, offset, crc: crc32(chunk) };
    offset += chunk.length;
  }
  writeAt(fd, packHeader(entries.length), 0);
  const hash = createHash("sha1");
  const whole = fileSource(fd);
  for (let at = 0; at < whole.size;) {
    const chunk = whole.read(at, WINDOW);
    hash.update(chunk);
    at += chunk.length;
  }
  const checksum = hash.digest();
  writeAt(fd, checksum, offset);
  return checksum;
}

function writeAt(fd: number, data: Uint8Array, position: number): void {
  for (let done = 0; done < data.length;) {
    done += writeSync(fd, data, done, data.length - done, position + done);
  }
}
