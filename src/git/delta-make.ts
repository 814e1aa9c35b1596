/**
 * Making pack deltas: what a version of a file takes over from the one before it, as copy and insert
 * instructions. Blocks of the base are indexed by their content; the target is scanned byte by byte
 * with a rolling hash, and each hit is stretched both ways.
 */
import { Buffer } from "node:buffer";

const BLOCK = 16;
const PRIME = 16777619;
/** Longest copy that one instruction of pack version 2 can say. */
const MAX_COPY = 0xffff;
const MAX_INSERT = 127;
/** Positions tried for one hash, so that repetitive content stays linear. */
const MAX_CHAIN = 16;

/** PRIME to the power of BLOCK - 1, for taking the oldest byte out of the hash. */
const OUT = (() => {
  let power = 1;
  for (let i = 1; i < BLOCK; i++) power = Math.imul(power, PRIME);
  return power;
})();

function hashAt(data: Uint8Array, at: number): number {
  let hash = 0;
  for (let i = 0; i < BLOCK; i++) hash = (Math.imul(hash, PRIME) + data[at + i]!) | 0;
  return hash;
}

/**
 * A delta that makes `target` of `base`, or null when it would be longer than `limit` bytes: then the
 * whole object is the better choice.
 */
export function makeDelta(base: Uint8Array, target: Uint8Array, limit: number): Buffer | null {
  if (base.length < BLOCK || target.length < BLOCK) return null;
  const bits = Math.min(20, Math.max(6, 32 - Math.clz32(base.length / BLOCK)));
  const slot = (hash: number) => Math.imul(hash, 0x9e3779b1) >>> (32 - bits);
  const heads = new Int32Array(1 << bits).fill(-1);
  const blocks = Math.floor(base.length / BLOCK);
  const next = new Int32Array(blocks);
  // Filled from the end, so that the first block of a chain is the earliest in the base.
  for (let block = blocks - 1; block >= 0; block--) {
    const bucket = slot(hashAt(base, block * BLOCK));
    next[block] = heads[bucket]!;
    heads[bucket] = block;
  }

  const out = Buffer.allocUnsafe(Math.max(limit, 0) + 2 * MAX_INSERT + 64);
  let length = writeSize(out, writeSize(out, 0, base.length), target.length);
  let pending = 0; // where bytes begin that no copy covers yet
  const insertUpTo = (end: number): boolean => {
    while (pending < end) {
      const size = Math.min(MAX_INSERT, end - pending);
      if (length + size + 1 > limit) return false;
      out[length++] = size;
      out.set(target.subarray(pending, pending + size), length);
      length += size;
      pending += size;
    }
    return true;
  };

  let at = 0;
  let hash = hashAt(target, 0);
  while (at + BLOCK <= target.length) {
    let bestFrom = -1;
    let bestSize = BLOCK - 1;
    let tries = MAX_CHAIN;
    for (let block = heads[slot(hash)]!; block >= 0 && tries-- > 0; block = next[block]!) {
      const from = block * BLOCK;
      let size = 0;
      const most = Math.min(base.length - from, target.length - at);
      while (size < most && base[from + size] === target[at + size]) size++;
      if (size > bestSize) {
        bestSize = size;
        bestFrom = from;
      }
    }
    if (bestFrom < 0) {
      if (at + BLOCK >= target.length) break;
      hash = (Math.imul(hash - Math.imul(target[at]!, OUT), PRIME) + target[at + BLOCK]!) | 0;
      at++;
      continue;
    }
    let from = bestFrom;
    let start = at;
    while (start > pending && from > 0 && base[from - 1] === target[start - 1]) {
      from--;
      start--;
    }
    const end = at + bestSize;
    if (!insertUpTo(start)) return null;
    for (let size = end - start; size > 0;) {
      const part = Math.min(size, MAX_COPY);
      if (length + 7 > limit) return null;
      length = writeCopy(out, length, from, part);
      from += part;
      size -= part;
    }
    pending = at = end;
    if (at + BLOCK <= target.length) hash = hashAt(target, at);
  }
  return insertUpTo(target.length) ? out.subarray(0, length) : null;
}

function writeSize(out: Buffer, at: number, size: number): number {
  for (; size >= 128; size = Math.floor(size / 128)) out[at++] = (size % 128) | 0x80;
  out[at++] = size;
  return at;
}

function writeCopy(out: Buffer, at: number, offset: number, size: number): number {
  const op = at++;
  let flags = 0x80;
  for (let i = 0; i < 4; i++) {
    const byte = (offset >>> (i * 8)) & 255;
    if (byte) {
      flags |= 1 << i;
      out[at++] = byte;
    }
  }
  for (let i = 0; i < 2; i++) {
    const byte = (size >>> (i * 8)) & 255;
    if (byte) {
      flags |= 16 << i;
      out[at++] = byte;
    }
  }
  out[op] = flags;
  return at;
}
