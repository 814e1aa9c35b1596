/**
 * Pack indexes, versions 1 and 2, searched by position.
 *
 * v1: fan-out (256 × u32), then entries of offset (u32) + id (20 bytes).
 * v2: magic, version, fan-out, ids, CRCs, offsets (u32; the high bit points into…), 64-bit offsets.
 * Both end in the pack's and their own SHA-1. Ids are spread evenly, so a lookup guesses the position
 * and mostly needs one slice of the id table.
 */
import { Buffer } from "node:buffer";
import { AgentqError } from "../errors.ts";
import { oidAt, oidBytes } from "./oid.ts";
import type { SliceFile } from "./slices.ts";
import type { Oid } from "./types.ts";

/** Bytes of an index that is read whole. */
const SMALL = 4096;
/** Entries of the id table that are read together: about 4 KiB. */
const GROUP = 204;

export interface PackIndex {
  readonly count: number;
  /** The object's offset in the pack, or -1. */
  find(oid: Oid): number;
  /** Ids that begin with these hex digits (at least two), at most `limit`. */
  prefixed(prefix: string, limit: number): Oid[];
  /** Every id with its offset, in id order. */
  entries(): Iterable<{ oid: Oid; offset: number }>;
}

function compareId(data: Buffer, at: number, id: Buffer): number {
  for (let i = 0; i < 20; i++) {
    const difference = data[at + i]! - id[i]!;
    if (difference !== 0) return difference;
  }
  return 0;
}

/** @throws `repository-corrupt` for an unknown version, a fan-out that falls, a wrong length */
export function openPackIndex(file: SliceFile): PackIndex {
  const corrupt = (what: string) =>
    new AgentqError("repository-corrupt", `Pack index ${file.path} ${what}.`, {
      details: { path: file.path },
    });
  const size = file.size();
  if (size < 1064) throw corrupt("is cut off");
  // A small index is read at once, whatever will be asked of it.
  const whole = size <= SMALL ? file.chunk(0, size) : null;
  const chunk = (offset: number, length: number): Buffer =>
    whole && offset + length <= size
      ? whole.subarray(offset, offset + length)
      : file.chunk(offset, length);
  const head = chunk(0, 1032);
  const version = head.readUInt32BE(0) === 0xff744f63 ? head.readUInt32BE(4) : 1;
  if (version > 2) throw corrupt(`has version ${version}`);
  const fanStart = version === 2 ? 8 : 0;
  const fan = new Uint32Array(257);
  for (let i = 0; i < 256; i++) {
    fan[i + 1] = head.readUInt32BE(fanStart + i * 4);
    if (fan[i + 1]! < fan[i]!) throw corrupt("has a broken fan-out");
  }
  const count = fan[256]!;
  const stride = version === 2 ? 20 : 24;
  const idStart = version === 2 ? 0 : 4;
  const table = fanStart + 1024;
  const offsets = table + count * 24;
  const large = offsets + count * 4;
  if (version === 1 ? size !== table + count * 24 + 40 : size < large + 40) {
    throw corrupt("has a length that does not fit its count");
  }

  /** The slice of the id table that holds `position`, and the position it begins with. */
  function group(position: number): { data: Buffer; first: number; length: number } {
    const first = position - (position % GROUP);
    const length = Math.min(GROUP, count - first);
    return { data: chunk(table + first * stride, length * stride), first, length };
  }

  function offsetAt(position: number): number {
    if (version === 1) {
      const { data, first } = group(position);
      return data.readUInt32BE((position - first) * stride);
    }
    const first = position - (position % 1024);
    const slice = chunk(offsets + first * 4, Math.min(1024, count - first) * 4);
    const small = slice.readUInt32BE((position - first) * 4);
    if (small < 0x80000000) return small;
    const at = large + (small - 0x80000000) * 8;
    if (at + 8 > size - 40) throw corrupt("points outside its table of large offsets");
    const value = chunk(at, 8).readBigUInt64BE();
    if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw corrupt("holds an impossible offset");
    return Number(value);
  }

  /** The first position in [0, count] whose id is not below `id`. */
  function lowerBound(id: Buffer): number {
    let low = fan[id[0]!]!;
    let high = fan[id[0]! + 1]!;
    // Where the id would stand if ids were spread evenly over the bucket.
    let guess = low + Math.floor((id.readUInt32BE(1) / 0x100000000) * (high - low));
    while (low < high) {
      const { data, first, length } = group(Math.min(guess, high - 1));
      if (compareId(data, idStart, id) >= 0 && first > low) {
        high = first;
      } else if (
        compareId(data, (length - 1) * stride + idStart, id) < 0 && first + length < high
      ) {
        low = first + length;
      } else {
        let from = Math.max(low - first, 0);
        let to = Math.min(high - first, length);
        while (from < to) {
          const middle = (from + to) >>> 1;
          if (compareId(data, middle * stride + idStart, id) < 0) from = middle + 1;
          else to = middle;
        }
        return first + from;
      }
      guess = guess < low && low - guess <= GROUP
        ? low
        : guess >= high && guess - high < GROUP
        ? high - 1
        : (low + high) >>> 1;
    }
    return low;
  }

  function idOf(position: number): { data: Buffer; at: number } {
    const { data, first } = group(position);
    return { data, at: (position - first) * stride + idStart };
  }

  return {
    count,
    find(oid) {
      const id = oidBytes(oid);
      if (fan[id[0]!] === fan[id[0]! + 1]) return -1;
      const position = lowerBound(id);
      if (position >= count) return -1;
      const { data, at } = idOf(position);
      return compareId(data, at, id) === 0 ? offsetAt(position) : -1;
    },
    prefixed(prefix, limit) {
      const found: Oid[] = [];
      for (
        let i = lowerBound(oidBytes(prefix.padEnd(40, "0")));
        i < count && found.length < limit;
        i++
      ) {
        const { data, at } = idOf(i);
        const oid = oidAt(data, at);
        if (!oid.startsWith(prefix)) break;
        found.push(oid);
      }
      return found;
    },
    *entries() {
      for (let i = 0; i < count; i++) {
        const { data, at } = idOf(i);
        yield { oid: oidAt(data, at), offset: offsetAt(i) };
      }
    },
  };
}
