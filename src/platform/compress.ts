/**
 * zlib streams of small objects, without loading node:zlib where Bun's own functions serve. Those say
 * neither why an input doesn't inflate nor how much of it they took, so what they don't accept is for
 * node:zlib to judge, and large inputs are too.
 */
import { Buffer } from "node:buffer";
import { nodeZlib } from "./builtins.ts";

interface BunZlib {
  inflateSync?(data: Uint8Array, options: { windowBits: number }): Uint8Array;
  deflateSync?(data: Uint8Array, options: { windowBits: number; level: number }): Uint8Array;
  readonly hash?: {
    adler32(data: Uint8Array): number;
    crc32(data: Uint8Array, seed?: number): number;
  };
}

const bun = (globalThis as { Bun?: BunZlib }).Bun;

/** Inputs up to this inflate to no more than 64 MiB. */
const SMALL = 64 * 1024;
/** CMF and FLG: deflate, a window of 32 KiB, the default level. */
const HEADER = Buffer.from([0x78, 0x9c]);

/**
 * The content of the zlib stream that `input` begins with, its checksum verified; null where node:zlib
 * must be asked.
 */
export function inflateQuickly(input: Uint8Array): Buffer | null {
  if (!bun?.inflateSync || input.length > SMALL) return null;
  try {
    const data = bun.inflateSync(input, { windowBits: 15 });
    return Buffer.from(data.buffer, data.byteOffset, data.length);
  } catch {
    return null;
  }
}

/** {@link inflateQuickly} for an input that is one stream and nothing after it. */
export function inflateWholeQuickly(input: Uint8Array): Buffer | null {
  const data = inflateQuickly(input);
  if (data === null || !bun?.hash) return null;
  // A stream ends with its content's checksum: an input that goes on after it ends with something else.
  const checksum = bun.hash.adler32(data);
  const end = input.length - 4;
  const ends = new DataView(input.buffer, input.byteOffset).getUint32(end) === checksum;
  return ends ? data : null;
}

/** `data` as a zlib stream; the level is zlib's default of 6 unless given. */
export function deflate(data: Uint8Array, level = 6): Buffer {
  if (!bun?.deflateSync || !bun.hash || data.length > SMALL) {
    return nodeZlib().deflateSync(data, { level });
  }
  const checksum = Buffer.alloc(4);
  checksum.writeUInt32BE(bun.hash.adler32(data));
  return Buffer.concat([HEADER, bun.deflateSync(data, { windowBits: -15, level }), checksum]);
}

/** The CRC-32 of `data`, or of what `before` is the CRC of followed by `data`. */
export function crc32(data: Uint8Array, before = 0): number {
  return bun?.hash ? bun.hash.crc32(data, before) : nodeZlib().crc32(data, before);
}
