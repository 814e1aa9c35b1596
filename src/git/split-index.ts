/**
 * A split index: a large file that stays as it is, `sharedindex.<checksum>`, and a small one that says
 * what is different. The small file's `link` extension names the large one and has two bitmaps over its entries:
 *
 *   [20 bytes of checksum] deleted replaced
 *
 * The small file's entries are first the replacements, in the order of the bits, without a path of their
 * own, and then what was added. Source: gitformat-index(5), "Split index".
 */
import type { Buffer } from "node:buffer";
import type { AgentqError } from "../errors.ts";
import type { IndexEntry } from "./index-format.ts";
import type { Oid } from "./types.ts";

export interface IndexLink {
  readonly checksum: Oid;
  /** The bitmaps, undecoded: what they may say depends on the other file. */
  readonly bitmaps: Buffer;
}

type Corrupt = (what: string) => AgentqError;

/** Parses the extension; null for the zeros that stand for no other file. */
export function parseLink(body: Buffer, corrupt: Corrupt): IndexLink | null {
  if (body.length < 20) throw corrupt("is cut off");
  const checksum = body.toString("hex", 0, 20);
  return /^0+$/.test(checksum) ? null : { checksum, bitmaps: body.subarray(20) };
}

/** The entries that both files make together. @throws what `corrupt` makes when they don't fit together */
export function joinSplit(
  base: readonly IndexEntry[],
  own: readonly IndexEntry[],
  { bitmaps }: IndexLink,
  corrupt: Corrupt,
): IndexEntry[] {
  const joined: (IndexEntry | null)[] = [...base];
  let added = 0;
  // No bitmaps at all: nothing is deleted or replaced.
  if (bitmaps.length > 0) {
    const deleted = readBitmap(bitmaps, 0, base.length, corrupt);
    const replaced = readBitmap(bitmaps, deleted.end, base.length, corrupt);
    if (replaced.end !== bitmaps.length) throw corrupt("has a malformed link extension");
    for (const position of replaced.positions) {
      const entry = own[added++];
      if (entry === undefined) throw corrupt("replaces more entries than it has");
      if (entry.path !== "") throw corrupt("replaces an entry by one of another path");
      joined[position] = { ...entry, path: base[position]!.path };
    }
    for (const position of deleted.positions) joined[position] = null;
  }
  return mergeSorted(joined.filter((entry) => entry !== null), own.slice(added));
}

/** Both are sorted; if one isn't, neither is the result. */
function mergeSorted(a: readonly IndexEntry[], b: readonly IndexEntry[]): IndexEntry[] {
  if (b.length === 0) return a as IndexEntry[];
  const merged: IndexEntry[] = [];
  let j = 0;
  for (const entry of a) {
    while (
      j < b.length &&
      (b[j]!.path < entry.path || b[j]!.path === entry.path && b[j]!.stage < entry.stage)
    ) merged.push(b[j++]!);
    merged.push(entry);
  }
  for (; j < b.length; j++) merged.push(b[j]!);
  return merged;
}

/**
 * Decodes an EWAH bitmap, of which no bit from `limit` on may be set.
 *
 *   bits(4) words(4) word(8)… last-marker(4)
 *
 * A marker word has, from its lowest bit: the running bit, how many words consist of it (32 bits), and how many
 * literal words follow (31 bits). Positions are returned in order.
 */
export function readBitmap(
  data: Buffer,
  at: number,
  limit: number,
  corrupt: Corrupt,
): { positions: number[]; end: number } {
  const malformed = () => corrupt("has a malformed link extension");
  if (at + 8 > data.length) throw malformed();
  const words = data.readUInt32BE(at + 4);
  const start = at + 8;
  const end = start + words * 8 + 4;
  if (end > data.length) throw malformed();
  const positions: number[] = [];
  const put = (position: number) => {
    if (position >= limit) throw corrupt("speaks of entries that the shared index doesn't have");
    positions.push(position);
  };
  let position = 0;
  for (let word = 0; word < words;) {
    const high = data.readUInt32BE(start + word * 8);
    const low = data.readUInt32BE(start + word * 8 + 4);
    word++;
    const run = ((low >>> 1) + (high & 1) * 2 ** 31) * 64;
    const literals = high >>> 1;
    if (literals > words - word) throw malformed();
    // A run may claim to be very long: the first bit beyond the limit ends it.
    if (low & 1) { for (let i = 0; i < run; i++) put(position + i); }
    position += run;
    for (let left = literals; left > 0; left--, word++, position += 64) {
      for (let half = 0; half < 2; half++) {
        const bits = data.readUInt32BE(start + word * 8 + (half === 0 ? 4 : 0));
        for (let i = 0; i < 32; i++) {
          if (bits >>> i & 1) put(position + half * 32 + i);
        }
      }
    }
  }
  return { positions, end };
}
