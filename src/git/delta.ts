/** Applying pack deltas: instructions that copy from a base or insert new bytes. */
import { Buffer } from "node:buffer";

/** Reads one of the two sizes a delta begins with: [value, position behind it], or null when cut off. */
function readSize(delta: Uint8Array, at: number): [number, number] | null {
  let value = 0;
  let scale = 1;
  for (;;) {
    const byte = delta[at++];
    if (byte === undefined || scale > 2 ** 49) return null;
    value += (byte & 0x7f) * scale;
    if (byte < 0x80) return [value, at];
    scale *= 128;
  }
}

/** The size of what a delta makes, from its first (at most 20) bytes; null when they are malformed. */
export function deltaResultSize(delta: Uint8Array): number | null {
  const base = readSize(delta, 0);
  return base && (readSize(delta, base[1])?.[0] ?? null);
}

/** What `delta` makes of `base`; null when the delta is malformed or not for this base. */
export function applyDelta(base: Uint8Array, delta: Uint8Array): Buffer | null {
  const source = readSize(delta, 0);
  if (!source || source[0] !== base.length) return null;
  const target = readSize(delta, source[1]);
  if (!target) return null;
  const result = Buffer.allocUnsafe(target[0]);
  let at = target[1];
  let out = 0;
  while (at < delta.length) {
    const op = delta[at++]!;
    if (op & 0x80) {
      let offset = 0;
      let size = 0;
      if (op & 1) offset = delta[at++]!;
      if (op & 2) offset |= delta[at++]! << 8;
      if (op & 4) offset |= delta[at++]! << 16;
      if (op & 8) offset += delta[at++]! * 0x1000000;
      if (op & 16) size = delta[at++]!;
      if (op & 32) size |= delta[at++]! << 8;
      if (op & 64) size |= delta[at++]! << 16;
      if (size === 0) size = 0x10000;
      if (at > delta.length || offset + size > base.length || out + size > result.length) {
        return null;
      }
      // Short copies are the rule, and a loop beats the call for them.
      if (size < 24) { for (let i = 0; i < size; i++) result[out + i] = base[offset + i]!; }
      else result.set(base.subarray(offset, offset + size), out);
      out += size;
    } else {
      if (op === 0 || at + op > delta.length || out + op > result.length) return null;
      if (op < 24) { for (let i = 0; i < op; i++) result[out + i] = delta[at + i]!; }
      else result.set(delta.subarray(at, at + op), out);
      at += op;
      out += op;
    }
  }
  return out === result.length ? result : null;
}
