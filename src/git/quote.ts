/** C-style quoting as git uses it in alternates and attribute files. */
import { Buffer } from "node:buffer";

const ESCAPES: Record<string, string> = {
  a: "\x07",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
  "\\": "\\",
  '"': '"',
};

/** Takes apart `"…"` (a byte string in, a byte string out); null when it is not well-formed. */
export function unquoteC(text: string): string | null {
  if (text.length < 2 || text[0] !== '"' || text.at(-1) !== '"') return null;
  let result = "";
  for (let i = 1; i < text.length - 1; i++) {
    const char = text[i]!;
    if (char === '"') return null;
    if (char !== "\\") {
      result += char;
      continue;
    }
    const octal = /^[0-3][0-7]{2}/.exec(text.slice(i + 1, text.length - 1));
    const plain = i + 1 < text.length - 1 ? ESCAPES[text[i + 1]!] : undefined;
    if (octal) {
      result += String.fromCharCode(parseInt(octal[0], 8));
      i += 3;
    } else if (plain !== undefined) {
      result += plain;
      i++;
    } else return null;
  }
  return result;
}

/** A byte string as the path the file system calls take. */
export function pathFromBytes(bytes: string): string {
  return Buffer.from(bytes, "latin1").toString("utf8");
}
