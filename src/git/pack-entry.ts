/** One entry of a pack that is being taken in: its header, its content, its hash. */
import { Buffer } from "node:buffer";
import { createHash, type Hash } from "node:crypto";
import zlib, { inflateSync } from "node:zlib";
import { AgentqError } from "../errors.ts";
import { corrupt, crcOf, type PackSource, WINDOW } from "./pack-source.ts";
import type { ObjectType, Oid } from "./types.ts";

/** Object types by their number in a pack; null for what is none. */
export const TYPES: readonly (ObjectType | null)[] = [null, "commit", "tree", "blob", "tag"];
const OFS_DELTA = 6;
const REF_DELTA = 7;

export interface Entry {
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

/** Reads the header of the entry at `offset`. @throws `protocol-error` */
export function entryAt(source: PackSource, offset: number, from: string | undefined): Entry {
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

/** The content of an entry (a delta's instructions), and how long its stream is. @throws `protocol-error` */
export function inflate(
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

/** Hashes a large whole object while it inflates. Returns where its stream ends. */
export async function hashStreamed(
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
