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
import { createHash, type Hash } from "node:crypto";
import { closeSync, fstatSync, fsyncSync, ftruncateSync, readSync, writeSync } from "node:fs";
import zlib, { crc32, deflateSync, inflateSync } from "node:zlib";
import { AgentqError } from "../errors.ts";
import { throwIfAborted } from "../platform/clock.ts";
import { applyDelta } from "./delta.ts";
import { hashObject } from "./oid.ts";
import { discard, installPack, type StoreOptions, temporaryFile, writeAll } from "./pack-store.ts";
import { entryHeader, type PackedEntry, packHeader } from "./pack-write.ts";
import type { ObjectReader, ObjectType, Oid, RawObject } from "./types.ts";

const TYPES: readonly (ObjectType | null)[] = [null, "commit", "tree", "blob", "tag"];
const OFS_DELTA = 6;
const REF_DELTA = 7;
/** Whole objects above this are hashed as they inflate, never held. */
const STREAMED = 16 * 1024 * 1024;
/** Bytes of bases kept while their deltas are resolved; more are made again when needed. */
const BASE_BUDGET = 128 * 1024 * 1024;
const WINDOW = 256 * 1024;

/** A complete pack, read by position. */
interface PackSource {
  readonly size: number;
  /** Up to `length` bytes at `offset`; fewer only at the end. */
  read(offset: number, length: number): Buffer;
}

interface Entry {
  readonly offset: number;
  readonly type: number;
  readonly size: number;
  /** Where the zlib stream begins. */
  readonly stream: number;
  /** The base: an offset in this pack or an id; null for whole objects. */
  readonly base: number | Oid | null;
  crc: number;
  oid: Oid | null;
}

export interface IndexOptions extends StoreOptions {
  /** Where bases that a thin pack leaves out are found. */
  readonly bases?: ObjectReader;
  readonly signal?: AbortSignal;
  /** Who sent it, for messages. */
  readonly from?: string;
}

function corrupt(from: string | undefined, what: string, cause?: unknown): AgentqError {
  return new AgentqError("protocol-error", `The pack from ${from ?? "the server"} ${what}.`, {
    cause,
  });
}

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
  if (data.length < 32) throw corrupt(options.from, "is cut off");
  if (!createHash("sha1").update(data.subarray(0, -20)).digest().equals(data.subarray(-20))) {
    throw corrupt(options.from, "has a wrong checksum");
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
  if (tail.length < 20 || fstatSync(fd).size < 32) throw corrupt(options.from, "is cut off");
  if (!hash.digest().equals(tail)) throw corrupt(options.from, "has a wrong checksum");
}

function fileSource(fd: number): PackSource {
  const { size } = fstatSync(fd);
  let start = 0;
  let window: Buffer = Buffer.alloc(0);
  return {
    size,
    read(offset, length) {
      const wanted = Math.max(0, Math.min(length, size - offset));
      if (offset < start || offset + wanted > start + window.length) {
        const data = Buffer.allocUnsafeSlow(Math.min(Math.max(wanted, WINDOW), size - offset));
        let done = 0;
        while (done < data.length) {
          const got = readSync(fd, data, done, data.length - done, offset + done);
          if (got === 0) break;
          done += got;
        }
        start = offset;
        window = data.subarray(0, done);
      }
      return window.subarray(offset - start, offset - start + wanted);
    },
  };
}

/** Given every object with its content; null where nobody needs the contents. */
type OnObject = (oid: Oid, object: RawObject) => void;

interface ResolvedEntry extends PackedEntry {
  /** A base from outside that the pack must be completed with. */
  readonly added?: RawObject;
}

async function resolveAll(
  source: PackSource,
  options: Pick<IndexOptions, "bases" | "signal" | "from">,
  onObject: OnObject | null,
): Promise<ResolvedEntry[]> {
  const { from, signal } = options;
  const head = source.read(0, 12);
  if (head.toString("latin1", 0, 4) !== "PACK" || ![2, 3].includes(head.readUInt32BE(4))) {
    throw corrupt(from, "is not a pack of version 2 or 3");
  }
  const count = head.readUInt32BE(8);
  const entries: Entry[] = [];
  const byOffset = new Map<number, Entry>();
  const children = new Map<number | Oid, Entry[]>();
  let offset = 12;
  let turn = 0;
  for (let i = 0; i < count; i++) {
    if ((i & 255) === 255) {
      throwIfAborted(signal);
      // A large pack must not keep timers (a lock's renewal) from running.
      if (performance.now() - turn > 50) {
        await new Promise((resume) => setTimeout(resume));
        turn = performance.now();
      }
    }
    const entry = entryAt(source, offset, from);
    let end: number;
    if (entry.base === null && entry.size > STREAMED && onObject === null) {
      end = await hashStreamed(source, entry, from);
    } else {
      const { data, consumed } = inflate(source, entry, from);
      end = entry.stream + consumed;
      entry.crc = crcOf(source, offset, end);
      const type = TYPES[entry.type];
      if (type) {
        entry.oid = hashObject(type, data);
        onObject?.(entry.oid, { type, data });
      }
    }
    entries.push(entry);
    byOffset.set(offset, entry);
    if (entry.base !== null) {
      const siblings = children.get(entry.base);
      if (siblings) siblings.push(entry);
      else children.set(entry.base, [entry]);
    }
    offset = end;
  }
  if (offset !== source.size - 20) throw corrupt(from, "does not end where it should");

  const added: { oid: Oid; object: RawObject }[] = [];
  if (children.size > 0) {
    const resolver = deltaResolver(source, children, from, onObject);
    for (const entry of entries) {
      const type = TYPES[entry.type];
      if (type && (children.has(entry.offset) || children.has(entry.oid!))) {
        resolver(entry.offset, entry.oid!, type, () => inflate(source, entry, from).data);
      }
      throwIfAborted(signal);
    }
    // What is left hangs on objects outside the pack, one of which may lead to another.
    for (const base of [...children.keys()]) {
      if (typeof base !== "string" || !children.has(base)) continue;
      if (!options.bases?.has(base)) continue;
      const object = options.bases.read(base);
      added.push({ oid: base, object });
      resolver(null, base, object.type, () => object.data);
    }
    if (entries.some(({ oid }) => oid === null)) {
      const left = [...children.keys()].find((base) => typeof base === "string");
      throw corrupt(from, left ? `lacks the delta base ${left}` : "has deltas without their base");
    }
  }
  return [
    ...entries.map(({ oid, offset, crc }) => ({ oid: oid!, offset, crc })),
    ...added.map(({ oid, object }) => ({ oid, offset: 0, crc: 0, added: object })),
  ];
}

function entryAt(source: PackSource, offset: number, from: string | undefined): Entry {
  const head = source.read(offset, 32);
  let at = 0;
  const next = (): number => {
    const byte = head[at++];
    if (byte === undefined || offset + at > source.size - 20) throw corrupt(from, "is cut off");
    return byte;
  };
  let byte = next();
  const type = (byte >> 4) & 7;
  let size = byte & 15;
  for (let scale = 16; byte >= 0x80; scale *= 128) {
    byte = next();
    if (scale > 2 ** 45) throw corrupt(from, "has a malformed entry");
    size += (byte & 0x7f) * scale;
  }
  let base: number | Oid | null = null;
  if (type === OFS_DELTA) {
    let distance = 0;
    do {
      byte = next();
      if (distance > 2 ** 45) throw corrupt(from, "has a malformed entry");
      distance = distance * 128 + (byte & 0x7f) + (byte >= 0x80 ? 1 : 0);
    } while (byte >= 0x80);
    base = offset - distance;
    if (distance === 0 || base < 12) throw corrupt(from, "refers outside itself");
  } else if (type === REF_DELTA) {
    if (at + 20 > head.length) throw corrupt(from, "is cut off");
    base = head.toString("hex", at, at + 20);
    at += 20;
  } else if (!TYPES[type]) throw corrupt(from, `has an entry of type ${type}`);
  return { offset, type, size, stream: offset + at, base, crc: 0, oid: null };
}

function inflate(
  source: PackSource,
  entry: Entry,
  from: string | undefined,
): { data: Buffer; consumed: number } {
  let room = entry.size + (entry.size >>> 9) + 64;
  for (;;) {
    const input = source.read(entry.stream, room);
    try {
      // The types of `info` are missing from @types/node: it returns the engine beside the buffer.
      const result = inflateSync(input, {
        info: true,
        maxOutputLength: Math.max(1, entry.size),
        chunkSize: Math.max(64, entry.size + 8),
      }) as unknown as { buffer: Buffer; engine: { bytesWritten: number } };
      if (result.buffer.length !== entry.size) {
        throw corrupt(from, "has an entry of the wrong size");
      }
      return { data: result.buffer, consumed: result.engine.bytesWritten };
    } catch (cause) {
      if (cause instanceof AgentqError) throw cause;
      const code = (cause as { code?: string }).code;
      if (code !== "Z_BUF_ERROR" || input.length < room) {
        throw corrupt(from, "has an entry that does not inflate", cause);
      }
      room = room * 2 + 4096;
    }
  }
}

function crcOf(source: PackSource, start: number, end: number): number {
  let crc = 0;
  for (let at = start; at < end;) {
    const chunk = source.read(at, Math.min(WINDOW, end - at));
    crc = crc32(chunk, crc);
    at += chunk.length;
  }
  return crc;
}

/** Hashes a large whole object while it inflates. Returns where its stream ends. */
async function hashStreamed(
  source: PackSource,
  entry: Entry,
  from: string | undefined,
): Promise<number> {
  const hash: Hash = createHash("sha1").update(`${TYPES[entry.type]} ${entry.size}\0`);
  const inflater = zlib.createInflate({ chunkSize: WINDOW });
  let produced = 0;
  let failure: unknown;
  let ended = false;
  inflater.on("data", (chunk: Buffer) => {
    produced += chunk.length;
    hash.update(chunk);
  });
  inflater.on("error", (cause: unknown) => failure = cause);
  inflater.on("end", () => ended = true);
  for (let at = entry.stream; !ended && !failure && at < source.size - 20;) {
    const chunk = Buffer.from(source.read(at, WINDOW));
    at += chunk.length;
    await new Promise<void>((resume) => inflater.write(chunk, () => resume()));
    // Whatever this chunk makes is delivered before the next one goes in.
    await new Promise((resume) => setTimeout(resume));
    if (produced > entry.size) break;
  }
  if (failure || !ended || produced !== entry.size) {
    throw corrupt(from, "has an entry that does not inflate", failure);
  }
  const end = entry.stream + inflater.bytesWritten;
  inflater.destroy();
  entry.oid = hash.digest("hex");
  entry.crc = crcOf(source, entry.offset, end);
  return end;
}

interface Frame {
  readonly below: Frame | null;
  readonly make: () => Buffer | Uint8Array;
  data: Uint8Array | null;
  readonly pending: Entry[];
}

/** Resolves, depth first, everything that hangs on one base. */
function deltaResolver(
  source: PackSource,
  children: Map<number | Oid, Entry[]>,
  from: string | undefined,
  onObject: OnObject | null,
) {
  const take = (offset: number | null, oid: Oid): Entry[] => {
    const found = [
      ...(offset === null ? [] : children.get(offset) ?? []),
      ...children.get(oid) ?? [],
    ];
    if (offset !== null) children.delete(offset);
    children.delete(oid);
    return found;
  };
  return (offset: number | null, oid: Oid, type: ObjectType, make: () => Uint8Array): void => {
    const stack: Frame[] = [{ below: null, make, data: null, pending: take(offset, oid) }];
    let held = 0;
    const dataOf = (frame: Frame): Uint8Array => {
      if (frame.data === null) {
        frame.data = frame.make();
        held += frame.data.length;
      }
      return frame.data;
    };
    while (stack.length > 0) {
      const frame = stack.at(-1)!;
      const entry = frame.pending.pop();
      if (!entry) {
        if (frame.data) held -= frame.data.length;
        stack.pop();
        continue;
      }
      const apply = (): Buffer => {
        const result = applyDelta(dataOf(frame), inflate(source, entry, from).data);
        if (!result) throw corrupt(from, "has a delta that does not fit its base");
        return result;
      };
      const data = apply();
      entry.oid = hashObject(type, data);
      onObject?.(entry.oid, { type, data });
      const pending = take(entry.offset, entry.oid);
      if (pending.length === 0) continue;
      stack.push({ below: frame, make: apply, data, pending });
      held += data.length;
      for (const lower of stack) {
        if (held <= BASE_BUDGET || lower === stack.at(-1)) break;
        if (lower.data) held -= lower.data.length;
        lower.data = null;
      }
    }
  };
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
