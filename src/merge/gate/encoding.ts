/** A file that one side brought from an eight-bit encoding to UTF-8, and to which the other side did something else. */
import { Buffer, isUtf8 } from "node:buffer";
import type { PathTexts } from "./prepared.ts";
import { splitLines } from "../text/lines.ts";

/**
 * The texts all in UTF-8, where one side did nothing but bring the old one there (from windows-1252, of which Latin-1's
 * letters are part) and the result is UTF-8 too; else null.
 */
export function inUtf8({ base, ours, theirs, result }: PathTexts): PathTexts | null {
  if (isUtf8(base) || !isUtf8(result) || !isUtf8(ours) && !isUtf8(theirs)) return null;
  const [old, one, two] = [base, ours, theirs].map(recoded) as [Buffer, Buffer, Buffer];
  const isMade = (side: Uint8Array, now: Buffer): boolean => isUtf8(side) && now.equals(old);
  return isMade(ours, one) || isMade(theirs, two)
    ? { base: old, ours: one, theirs: two, result }
    : null;
}

/** Line by line, as the lines of a merged file may differ in it. */
function recoded(data: Uint8Array): Buffer {
  const decoder = new TextDecoder("windows-1252");
  const lines = splitLines(data);
  const parts: Uint8Array[] = [];
  for (let i = 0; i < lines.count; i++) {
    const line = data.subarray(lines.starts[i], lines.starts[i + 1]);
    parts.push(isUtf8(line) ? line : Buffer.from(decoder.decode(line)));
  }
  return Buffer.concat(parts);
}
