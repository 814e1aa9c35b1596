/** What is worked out once about the texts of a path, whichever side is looked at. */
import { type KnownCounts, wordCounts } from "./words.ts";
import { type Change, diffLines } from "../text/diff.ts";
import { classifyLines, type LineClasses, type Lines, splitLines } from "../text/lines.ts";

/** The texts of one path of a merge; an absent file is empty. */
export interface PathTexts {
  readonly base: Uint8Array;
  readonly ours: Uint8Array;
  readonly theirs: Uint8Array;
  readonly result: Uint8Array;
}

/** `exact`: by whole lines; `loose`: by lines without their blanks. */
export type Strictness = "exact" | "loose";

/** Knows some texts, by identity, and works out about them what is asked. */
export interface Prepared {
  readonly texts: readonly Uint8Array[];
  lines(text: Uint8Array): Lines;
  words(text: Uint8Array): KnownCounts;
  classes(how: Strictness): LineClasses;
  ids(how: Strictness, text: Uint8Array): Int32Array;
  diff(how: Strictness, from: Uint8Array, to: Uint8Array): readonly Change[];
}

export function prepare(texts: readonly Uint8Array[]): Prepared {
  const indexOf = (text: Uint8Array): number => texts.indexOf(text);
  const lines: Lines[] = [];
  const words: KnownCounts[] = [];
  const classes: Partial<Record<Strictness, LineClasses>> = {};
  const diffs = new Map<string, Change[]>();
  const prepared: Prepared = {
    texts,
    lines: (text) => lines[indexOf(text)] ??= splitLines(text),
    words: (text) => words[indexOf(text)] ??= wordCounts(text),
    classes: (how) =>
      classes[how] ??= classifyLines(
        texts.map((text) =>
          how === "exact" ? prepared.lines(text) : splitLines(withoutBlanks(text))
        ),
      ),
    ids: (how, text) => prepared.classes(how).ids[indexOf(text)]!,
    diff(how, from, to) {
      const key = `${how} ${indexOf(from)} ${indexOf(to)}`;
      let found = diffs.get(key);
      if (!found) {
        const { tables } = prepared.classes(how);
        found = diffLines(prepared.ids(how, from), prepared.ids(how, to), tables, "bounded");
        diffs.set(key, found);
      }
      return found;
    },
  };
  return prepared;
}

/** A text whose lines have no blanks; as many lines. */
export function withoutBlanks(data: Uint8Array): Uint8Array {
  return data.filter((byte) => byte !== 32 && byte !== 9 && byte !== 13);
}
