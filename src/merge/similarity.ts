/**
 * How much of one file is in another, by git's estimate: both are cut into lines (of at most 64 bytes),
 * each piece is reduced to one of 107927 numbers, and the bytes of pieces found in both are counted.
 */
import type { ObjectReader } from "../git/types.ts";
import { isRegular } from "./entry.ts";
import type { FileSpec } from "./rename-state.ts";

/** A file that is the same has this score. */
export const FULL_SCORE = 60000;
/** At least this makes a rename. */
export const RENAME_SCORE = 30000;

const BUCKETS = 107927;
const PIECE = 64;

/** Pieces in ascending order of their number, with the bytes in each. */
interface Spans {
  readonly numbers: Int32Array;
  readonly bytes: Int32Array;
  readonly size: number;
}

export interface Similarity {
  /** 0–60000; 0 too when less than `minimum` is certain from the sizes alone. */
  score(source: FileSpec, target: FileSpec, minimum: number): number;
}

/** Remembers the pieces of every file it has read. `isBinary` settles it by attribute, if anything does. */
export function similarity(
  db: ObjectReader,
  isBinary: (path: string) => boolean | undefined,
): Similarity {
  const counts = new Int32Array(BUCKETS);
  const known = new Map<FileSpec, Spans>();
  const sizes = new Map<FileSpec, number>();

  const sizeOf = (spec: FileSpec): number => {
    let size = known.get(spec)?.size ?? sizes.get(spec);
    if (size === undefined) {
      size = db.stat(spec.oid).size;
      sizes.set(spec, size);
    }
    return size;
  };
  const spansOf = (spec: FileSpec): Spans => {
    let spans = known.get(spec);
    if (!spans) {
      const { data } = db.read(spec.oid);
      const binary = isBinary(spec.path) ?? hasNul(data);
      spans = countSpans(data, !binary, counts);
      known.set(spec, spans);
    }
    return spans;
  };

  return {
    score(source, target, minimum) {
      if (!isRegular(source.mode) || !isRegular(target.mode)) return 0;
      const a = sizeOf(source);
      const b = sizeOf(target);
      const larger = Math.max(a, b);
      const difference = larger - Math.min(a, b);
      if (larger * (FULL_SCORE - minimum) < difference * FULL_SCORE) return 0;
      if (b === 0) return 0;
      const copied = commonBytes(spansOf(source), spansOf(target));
      return Math.floor(copied * FULL_SCORE / larger);
    },
  };
}

/** Git's test for binary content: a NUL in the first 8000 bytes. */
export function hasNul(data: Uint8Array): boolean {
  const at = data.indexOf(0);
  return at >= 0 && at < 8000;
}

function countSpans(data: Uint8Array, text: boolean, counts: Int32Array): Spans {
  const size = data.length;
  const touched: number[] = [];
  let n = 0;
  let a = 0;
  let b = 0;
  for (let i = 0; i < size; i++) {
    const c = data[i]!;
    // CR LF counts as LF. What follows the last LF (less than 64 bytes) isn't counted.
    if (text && c === 13 && i + 1 < size && data[i + 1] === 10) continue;
    const old = a;
    a = (((a << 7) ^ (b >>> 25)) + c) | 0;
    b = (b << 7) ^ (old >>> 25);
    if (++n < PIECE && c !== 10) continue;
    const number = ((a + Math.imul(b, 0x61)) >>> 0) % BUCKETS;
    if (counts[number] === 0) touched.push(number);
    counts[number] = counts[number]! + n;
    n = 0;
    a = 0;
    b = 0;
  }
  const numbers = Int32Array.from(touched).sort();
  const bytes = new Int32Array(numbers.length);
  for (let i = 0; i < numbers.length; i++) {
    bytes[i] = counts[numbers[i]!]!;
    counts[numbers[i]!] = 0;
  }
  return { numbers, bytes, size };
}

function commonBytes(a: Spans, b: Spans): number {
  let common = 0;
  for (let i = 0, j = 0; i < a.numbers.length && j < b.numbers.length;) {
    const x = a.numbers[i]!;
    const y = b.numbers[j]!;
    if (x === y) common += Math.min(a.bytes[i++]!, b.bytes[j++]!);
    else if (x < y) i++;
    else j++;
  }
  return common;
}
