/**
 * Texts laid side by side token by token: words, and signs that say something. Brackets, commas, semicolons,
 * quotes and blanks are layout.
 */
import { Buffer } from "node:buffer";
import { diffLines } from "../text/diff.ts";
import { alignChanges, type Hunk } from "../text/hunks.ts";

const TOKEN = /[\w\x80-\xff]+|[^\s\w\x80-\xff,;"'`()[\]{}]+/g;
/** Longer texts aren't compared token by token. */
const BYTES = 100_000;
/** Of what one side removed, the other may keep so much and still have answered the same question. */
const KEPT = 0.5;

export const isWord = (token: string): boolean => /^[\w\x80-\xff]/.test(token);

export function tokensOf(data: Uint8Array): string[] {
  const text = Buffer.from(data.buffer, data.byteOffset, data.length).toString("latin1");
  return text.match(TOKEN) ?? [];
}

/** Tokens of three texts; in hunks `ours` is the other side and `theirs` the side. */
export interface TokenMerge {
  readonly base: readonly string[];
  readonly other: readonly string[];
  readonly side: readonly string[];
  readonly hunks: readonly Hunk[];
}

/** Null when the texts are too long for it. What both sides did alike is in no hunk. */
export function mergeTokens(
  base: Uint8Array,
  other: Uint8Array,
  side: Uint8Array,
): TokenMerge | null {
  if (base.length + other.length + side.length > BYTES) return null;
  const lists = [base, other, side].map(tokensOf) as [string[], string[], string[]];
  const numbers = new Map<string, number>();
  const ids = lists.map((list) =>
    Int32Array.from(list, (token) => {
      let id = numbers.get(token);
      if (id === undefined) numbers.set(token, id = numbers.size);
      return id;
    })
  ) as [Int32Array, Int32Array, Int32Array];
  const [first, countA, countB] = [0, 1, 2].map(() => new Int32Array(numbers.size)) as [
    Int32Array,
    Int32Array,
    Int32Array,
  ];
  const tables = { first, countA, countB };
  const hunks = alignChanges(
    diffLines(ids[0], ids[1], tables, "bounded"),
    diffLines(ids[0], ids[2], tables, "bounded"),
    ids[1],
    ids[2],
    ids[0].length,
  );
  return { base: lists[0], other: lists[1], side: lists[2], hunks };
}

/**
 * Whether the other side did all that the side did: the same edits, with others beside them or something more in
 * their place.
 */
export function isContained(
  base: Uint8Array,
  other: Uint8Array,
  side: Uint8Array,
): boolean {
  const merge = mergeTokens(base, other, side);
  if (merge === null || !merge.hunks.every((hunk) => isHunkContained(merge, hunk))) return false;
  // A change of layout alone is none of tokens.
  return merge.base.length !== merge.side.length ||
    merge.base.some((token, i) => token !== merge.side[i]);
}

function isHunkContained(merge: TokenMerge, hunk: Hunk): boolean {
  if (hunk.take === "theirs") return false;
  if (hunk.take !== "conflict") return true;
  const base = merge.base.slice(hunk.base, hunk.base + hunk.baseCount);
  const other = merge.other.slice(hunk.ours, hunk.ours + hunk.oursCount);
  const side = merge.side.slice(hunk.theirs, hunk.theirs + hunk.theirsCount);
  const span = spanOf(side, other);
  if (span === null) return false;
  // Of what is merely put in, the other has to have the same: single words are in any longer text.
  if (base.length === 0) return span === side.length;
  const gone = counted(base.filter(isWord));
  for (const token of side) gone.set(token, (gone.get(token) ?? 0) - 1);
  const there = counted(other);
  let removed = 0;
  let kept = 0;
  for (const [token, n] of gone) {
    if (n <= 0) continue;
    removed += n;
    kept += Math.min(n, there.get(token) ?? 0);
  }
  return kept <= removed * KEPT && span <= side.length * 1.5 + 3;
}

/** So many tokens are compared with each other in a text. */
const COMPARISONS = 1_000_000;

/** Tells how often some tokens, two or more, stand one right after the other in a text. */
export function runsIn(list: readonly string[]): (some: readonly string[]) => number {
  const places = new Map<string, number[]>();
  for (let i = 0; i + 1 < list.length; i++) {
    const key = `${list[i]} ${list[i + 1]}`;
    const known = places.get(key);
    if (known) known.push(i);
    else places.set(key, [i]);
  }
  let left = COMPARISONS;
  return (some) => {
    if (some.length < 2) return 0;
    const starts = places.get(`${some[0]} ${some[1]}`) ?? [];
    return starts.filter((at) => {
      for (let i = 2; i < some.length; i++) {
        if (left-- <= 0 || list[at + i] !== some[i]) return false;
      }
      return left > 0;
    }).length;
  };
}

/** In how many tokens of `list` all of `some` stand one after the other; null when they don't. */
function spanOf(some: readonly string[], list: readonly string[]): number | null {
  if (some.length === 0) return 0;
  let begin = -1;
  let next = 0;
  for (let i = 0; i < list.length; i++) {
    if (list[i] !== some[next]) continue;
    if (next === 0) begin = i;
    if (++next === some.length) return i + 1 - begin;
  }
  return null;
}

function counted(tokens: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const token of tokens) counts.set(token, (counts.get(token) ?? 0) + 1);
  return counts;
}
