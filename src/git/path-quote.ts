/** Paths as git prints them when they hold more than plain characters. */
import { Buffer } from "node:buffer";

const LETTERS = new Map([
  ["\x07", "a"],
  ["\b", "b"],
  ["\f", "f"],
  ["\n", "n"],
  ["\r", "r"],
  ["\t", "t"],
  ["\v", "v"],
  ["\\", "\\"],
  ['"', '"'],
]);

/**
 * A path (byte string) for a person or a log: as it is when printable ASCII, else between double
 * quotes with its other bytes escaped, so that nothing in it reaches a terminal.
 */
export function quotePath(path: string): string {
  if (/^[\x20\x21\x23-\x5b\x5d-\x7e]*$/.test(path)) return path;
  const inner = path.replace(/[\x00-\x1f"\\\x7f-\uffff]/g, (char) => {
    const letter = LETTERS.get(char);
    if (letter !== undefined) return "\\" + letter;
    return "\\" + char.charCodeAt(0).toString(8).padStart(3, "0");
  });
  return `"${inner}"`;
}

/** The path (byte string) that {@link quotePath} and git give between double quotes; null for any other text. */
export function unquotePath(text: string): string | null {
  const inner = /^"((?:[^"\\]|\\[abfnrtv"\\]|\\[0-3][0-7]{2})*)"$/.exec(text)?.[1];
  if (inner === undefined) return null;
  return utf8(inner).replace(/\\([0-3][0-7]{2}|.)/g, (_, code: string) => {
    if (code.length === 3) return String.fromCharCode(Number.parseInt(code, 8));
    return [...LETTERS].find(([, letter]) => letter === code)![0];
  });
}

/**
 * A path that is text already, for a line of its own: one with control characters (a newline could pass for a line
 * of ours) stands between double quotes, escaped as by {@link quotePath}.
 */
export function shownPath(text: string): string {
  return CONTROL.test(text) ? quotePath(utf8(text)) : text;
}

/**
 * A path (byte string) as one word of a shell's command line: as it is where no character means anything, else between
 * single quotes. One with control characters, or that isn't UTF-8, is what `printf` makes of it, as every shell reads;
 * at the end of which a shell drops newlines, so that a name with one there needs bash or zsh (`$'…'`).
 */
export function shellPath(path: string): string {
  if (/^[A-Za-z0-9_./@+,=][A-Za-z0-9_./@+,=-]*$/.test(path)) return path;
  const text = Buffer.from(path, "latin1").toString("utf8");
  if (!CONTROL.test(text) && utf8(text) === path) return `'${text.replaceAll("'", "'\\''")}'`;
  const inner = path.replace(/[\x00-\x1f'\\\x7f-\uffff]/g, (char) => {
    const letter = char === '"' ? undefined : LETTERS.get(char);
    return "\\" + (letter ?? char.charCodeAt(0).toString(8).padStart(3, "0"));
  });
  return path.endsWith("\n") ? `$'${inner}'` : `"$(printf '${inner.replaceAll("%", "%%")}')"`;
}

/** A sentence that names paths, on one line: those of `paths` as {@link shownPath} gives them. */
export function shownSentence(text: string, paths: readonly string[]): string {
  let shown = text;
  for (const path of paths) if (CONTROL.test(path)) shown = shown.replaceAll(path, shownPath(path));
  return CONTROL.test(shown)
    ? shown.replace(/[\x00-\x1f\x7f-\x9f]/g, (char) => quotePath(utf8(char)).slice(1, -1))
    : shown;
}

const CONTROL = /[\x00-\x1f\x7f-\x9f]/;

const utf8 = (text: string): string => Buffer.from(text, "utf8").toString("latin1");
