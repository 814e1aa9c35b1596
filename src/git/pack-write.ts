/**
 * Writing packs: a stream for the wire, or a pack with its index for a repository's own store.
 *
 *   "PACK" version count │ entry… │ SHA-1 of all before
 *   entry: type and size (7 bits a byte, low first) │ base (deltas only) │ zlib stream
 */
import { Buffer } from "node:buffer";
import { AgentqError } from "../errors.ts";
import { crc32, deflate } from "../platform/compress.ts";
import { createHash } from "../platform/hash.ts";
import { makeDelta } from "./delta-make.ts";
import type { Enumerated } from "./enumerate.ts";
import { asBuffer, oidBytes } from "./oid.ts";
import { EMPTY_TREE, type ObjectReader, type ObjectType, type Oid } from "./types.ts";

const TYPE_NUMBER: Record<ObjectType, number> = { commit: 1, tree: 2, blob: 3, tag: 4 };
const REF_DELTA = 7;

/** Objects between these sizes are tried as deltas: below nothing is won, above it costs memory. */
const DELTA_MIN = 128;
const DELTA_MAX = 8 * 1024 * 1024;

/** What a pack's index needs to know of one entry. */
export interface PackedEntry {
  readonly oid: Oid;
  readonly offset: number;
  readonly crc: number;
}

export interface PackOptions {
  /**
   * Allows deltas against objects that the pack doesn't hold (`base` of what is sent): the receiver
   * must have them and complete the pack. Only for the wire.
   */
  readonly thin?: boolean;
  /** Told of every entry, in pack order. */
  readonly onEntry?: (entry: PackedEntry) => void;
  /** zlib level; git's own default is zlib's. */
  readonly level?: number;
}

/** The head of an entry: type and inflated size. */
export function entryHeader(type: number, size: number): Buffer {
  const bytes = [(type << 4) | (size % 16)];
  for (let rest = Math.floor(size / 16); rest > 0; rest = Math.floor(rest / 128)) {
    bytes[bytes.length - 1]! |= 0x80;
    bytes.push(rest % 128);
  }
  return Buffer.from(bytes);
}

/** The first twelve bytes of a pack. */
export function packHeader(count: number): Buffer {
  const header = Buffer.from("PACK\0\0\0\x02\0\0\0\0", "latin1");
  header.writeUInt32BE(count, 8);
  return header;
}

/**
 * The pack of these objects, chunk by chunk; one object is in memory at a time. Returns the pack's
 * checksum, which its last chunk holds.
 */
export function* writePack(
  objects: ObjectReader,
  list: readonly Enumerated[],
  options: PackOptions = {},
): Generator<Buffer, Buffer, undefined> {
  const hash = createHash("sha1");
  let offset = 0;
  const header = packHeader(list.length);
  hash.update(header);
  offset += header.length;
  yield header;
  for (const item of list) {
    const chunks = entryOf(objects, item, options);
    let crc = 0;
    const start = offset;
    for (const chunk of chunks) {
      hash.update(chunk);
      crc = crc32(chunk, crc);
      offset += chunk.length;
    }
    options.onEntry?.({ oid: item.oid, offset: start, crc });
    yield* chunks;
  }
  const checksum = hash.digest();
  yield checksum;
  return checksum;
}

function entryOf(objects: ObjectReader, item: Enumerated, options: PackOptions): Buffer[] {
  const { type, data } = item.oid === EMPTY_TREE
    ? { type: "tree" as const, data: Buffer.alloc(0) }
    : objects.read(item.oid);
  if (type !== item.type) {
    throw new AgentqError(
      "repository-corrupt",
      `Object ${item.oid} is a ${type}, not a ${item.type}.`,
    );
  }
  if (options.thin && item.base && data.length >= DELTA_MIN && data.length <= DELTA_MAX) {
    const base = baseOf(objects, item.base, type);
    const delta = base && makeDelta(base, data, data.length >> 1);
    if (delta) {
      return [
        entryHeader(REF_DELTA, delta.length),
        oidBytes(item.base),
        deflate(delta, options.level),
      ];
    }
  }
  return [entryHeader(TYPE_NUMBER[type], data.length), deflate(data, options.level)];
}

function baseOf(objects: ObjectReader, oid: Oid, type: ObjectType): Uint8Array | null {
  if (oid === EMPTY_TREE || !objects.has(oid)) return null;
  const { type: baseType, size } = objects.stat(oid);
  return baseType === type && size <= DELTA_MAX ? objects.read(oid).data : null;
}

/** The index (version 2) of a pack with these entries. */
export function packIndexBytes(entries: readonly PackedEntry[], packChecksum: Buffer): Buffer {
  const sorted = [...entries].sort((a, b) => (a.oid < b.oid ? -1 : a.oid > b.oid ? 1 : 0));
  const large = sorted.filter((entry) => entry.offset >= 0x80000000);
  const count = sorted.length;
  const out = Buffer.alloc(8 + 1024 + count * 28 + large.length * 8 + 40);
  out.writeUInt32BE(0xff744f63, 0);
  out.writeUInt32BE(2, 4);
  const ids = 8 + 1024;
  const crcs = ids + count * 20;
  const offsets = crcs + count * 4;
  const larges = offsets + count * 4;
  let nextLarge = 0;
  const fan = new Uint32Array(256);
  sorted.forEach(({ oid, offset, crc }, i) => {
    out.write(oid, ids + i * 20, "hex");
    fan[out[ids + i * 20]!]!++;
    out.writeUInt32BE(crc >>> 0, crcs + i * 4);
    if (offset < 0x80000000) out.writeUInt32BE(offset, offsets + i * 4);
    else {
      out.writeUInt32BE(0x80000000 + nextLarge, offsets + i * 4);
      out.writeBigUInt64BE(BigInt(offset), larges + nextLarge++ * 8);
    }
  });
  let total = 0;
  for (let i = 0; i < 256; i++) out.writeUInt32BE(total += fan[i]!, 8 + i * 4);
  const end = out.length - 40;
  asBuffer(packChecksum).copy(out, end);
  createHash("sha1").update(out.subarray(0, end + 20)).digest().copy(out, end + 20);
  return out;
}
