/** Lines of the files that the sides of a merge changed: a result that has one of them by copying is not written anew. */
import { Buffer } from "node:buffer";
import type { ObjectReader, Oid } from "../../git/types.ts";
import { isRegular } from "../entry.ts";
import type { TreePaths } from "../tree-paths.ts";
import { withoutBlanks } from "./prepared.ts";
import { isFresh, type Layout, slice } from "./layout.ts";
import { textOf } from "./texts.ts";
import { countOf, type Counts, type KnownCounts, shared, wordCounts } from "./words.ts";

/** What is looked at of a large change: so many files, and so much text of each, in bytes. */
const FILES = 400;
const BYTES = 400_000;

/** A line as it is compared. */
export const bareText = (line: Uint8Array): string =>
  Buffer.from(withoutBlanks(line)).toString("latin1").replace(/\n$/, "");

/** The lines of a text as they are compared, if it isn't too long; of what is none, none. */
export function bareLines(text: Uint8Array | null): Set<string> {
  if (text === null || text.length > BYTES) return new Set();
  const bare = Buffer.from(withoutBlanks(text)).toString("latin1");
  return new Set(bare.split("\n").filter((line) => line.length > 3));
}

/** Read when they are asked for, once. */
export function writtenLines(
  db: ObjectReader,
  lookup: TreePaths,
  base: Oid,
  sides: readonly Oid[],
): () => ReadonlySet<string> {
  let lines: Set<string> | undefined;
  return () => {
    if (lines) return lines;
    lines = new Set();
    const seen = new Set<Oid>();
    for (const side of sides) {
      for (const { left, right } of lookup.differences(base, side)) {
        for (const version of [left, right]) {
          if (!isRegular(version.mode) || seen.has(version.oid) || seen.size >= FILES) continue;
          seen.add(version.oid);
          for (const line of bareLines(textOf(db, version))) lines.add(line);
        }
      }
    }
    return lines;
  };
}

interface Copied {
  readonly lines: readonly KnownCounts[];
  /** Of all of them. */
  readonly counts: KnownCounts;
}

const copied = new WeakMap<Layout, Copied>();

/** The words of lines of the result that none of the versions merged has and another file does. */
function copiedLines(layout: Layout): Copied {
  let found = copied.get(layout);
  if (found !== undefined) return found;
  const { texts, keys, result } = layout;
  const written = texts.written?.() ?? new Set();
  const lines: KnownCounts[] = [];
  const counts: Counts = new Map();
  for (let i = 0; i < keys.result.length; i++) {
    if (!isFresh(layout, i)) continue;
    const line = slice(result, i, 1);
    if (!written.has(bareText(line))) continue;
    const words = wordCounts(line);
    lines.push(words);
    for (const [word, n] of words) counts.set(word, countOf(counts, word) + n);
  }
  copied.set(layout, found = { lines, counts });
  return found;
}

/**
 * How often the result has a word of a line with the words `own`: not counting lines copied from another file, unless
 * one of them is that line with other words in it.
 */
export function ownCount(layout: Layout, word: string, own: KnownCounts): number {
  const all = countOf(layout.words.result, word);
  if (all === 0 || layout.texts.written === undefined) return all;
  const { lines, counts } = copiedLines(layout);
  const isAlike = (line: KnownCounts): boolean => {
    const { found, total } = shared(own, line);
    return found * 2 >= total;
  };
  return countOf(counts, word) === 0 || lines.some(isAlike) ? all : all - countOf(counts, word);
}
