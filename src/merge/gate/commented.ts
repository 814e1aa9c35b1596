/**
 * Lines that the merge commented out: their words are in the file, and the work isn't.
 *
 * ```text
 *  a side            the merge               judged as
 *  check(token)      # check(token)          #
 *  check(token)      /* check(token) * /     /*
 *  # check(token)    # check(token)          as it is: a side has it so
 * ```
 *
 * Where a side comments lines out itself, the merge may do so with what the other made of them: nothing is taken for gone there.
 */
import { Buffer } from "node:buffer";
import type { PathTexts } from "./prepared.ts";
import type { Steps } from "../steps.ts";

/** Signs that begin a comment in one language or another; a bullet (`*`, `-`) or one quote is none. */
const BEGIN = /^(?:\/\/+!?|\/\*+|#+|--+|;+|%+|"""|'''|<!--+|\{\/\*|\{#|<%#|@?rem\b|dnl\b)/i;
/** What closes it. */
const ENDS = ["*/}", "*/", "-->", "#}", "%>", '"""', "'''"];

/** A line's comment sign, and what it makes a comment of; null for a line that is none. */
function commentOf(line: string): { readonly sign: string; readonly text: string } | null {
  const sign = BEGIN.exec(line)?.[0];
  if (sign === undefined) return null;
  const rest = line.slice(sign.length);
  const end = ENDS.find((each) => rest.endsWith(each)) ?? "";
  return { sign, text: rest.slice(0, rest.length - end.length).trim() };
}

const linesOf = (data: Uint8Array): string[] => Buffer.from(data).toString("latin1").split("\n");
const isCode = (line: string): boolean => /\w/.test(line) && !BEGIN.test(line);

/** The texts, with the result as if those lines had nothing but their comment sign; the same ones where there are none. */
export function* withoutCommented(texts: PathTexts): Steps<PathTexts> {
  const { base, ours, theirs, result } = texts;
  const lines = linesOf(result);
  const comments = new Map<string, { readonly sign: string; readonly text: string }>();
  const wanted = new Set<string>();
  for (const ended of lines) {
    const line = ended.trim();
    const comment = commentOf(line);
    if (!comment || !isCode(comment.text)) continue;
    comments.set(line, comment);
    wanted.add(line).add(comment.text);
  }
  if (comments.size === 0) return texts;
  yield;
  const old = new Set<string>();
  const sides = [new Set<string>(), new Set<string>()] as const;
  for (const [known, text] of [[old, base], [sides[0], ours], [sides[1], theirs]] as const) {
    for (const ended of linesOf(text)) {
      const line = ended.trim();
      if (wanted.has(line)) known.add(line);
    }
    yield;
  }
  const isIn = (line: string): boolean => old.has(line) || sides.some((side) => side.has(line));
  const out = new Map<string, string>();
  for (const [line, { sign, text }] of comments) if (!isIn(line) && isIn(text)) out.set(line, sign);
  if (out.size === 0) return texts;
  // A side's own way with its lines may be the way for what the other made of them.
  const known = new Set(linesOf(base).map((line) => line.trim()));
  const doesSo = (side: Uint8Array): boolean =>
    linesOf(side).some((ended) => {
      const comment = commentOf(ended.trim());
      return comment && isCode(comment.text) && known.has(comment.text) && !known.has(ended.trim());
    });
  if (doesSo(ours) || doesSo(theirs)) return texts;
  const kept = lines.map((line) => out.get(line.trim()) ?? line);
  return { base, ours, theirs, result: Buffer.from(kept.join("\n"), "latin1") };
}
