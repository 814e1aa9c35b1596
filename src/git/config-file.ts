/** The syntax of git's configuration files: sections, quoting, escapes, continuation lines. */
import { AgentqError } from "../errors.ts";

export interface ConfigEntry {
  /** `section.key` or `section.sub.section.key`; section and key in lower case. */
  readonly key: string;
  /** null for a key without `=`, which as a boolean means true. */
  readonly value: string | null;
}

const ESCAPES: Record<string, string> = { n: "\n", t: "\t", b: "\b", "\\": "\\", '"': '"' };
/** Values without these are read as they stand, which nearly all are. */
const SPECIAL = /["\\;#]/;
const isSpace = (char: string) =>
  char === " " || char === "\t" || char === "\r" || char === "\f" || char === "\v";

/** Entries in file order. `file` names the file in errors. @throws `config-invalid` with the line */
export function parseConfig(text: string, file: string): ConfigEntry[] {
  const entries: ConfigEntry[] = [];
  readConfig(text, file, (entry) => entries.push(entry));
  return entries;
}

/** The same, one entry at a time: those in front of a syntax error are told before it is thrown. */
export function readConfig(text: string, file: string, tell: (entry: ConfigEntry) => void): void {
  const source = text.replace(/^\ufeff/, "").replaceAll("\r\n", "\n");
  let at = 0;
  let section: string | null = null;

  function bad(): AgentqError {
    const line = source.slice(0, at).split("\n").length;
    return new AgentqError("config-invalid", `Bad configuration line ${line} in ${file}.`, {
      details: { path: file, line },
    });
  }

  function readSection(): string {
    const plain = /[A-Za-z0-9.-]*/y;
    plain.lastIndex = at;
    const name = plain.exec(source)![0];
    at += name.length;
    if (source[at] === "]" && name !== "") {
      at++;
      return name.toLowerCase();
    }
    const opening = /[ \t]+"/y;
    opening.lastIndex = at;
    const match = opening.exec(source);
    if (!match || name === "") throw bad();
    at += match[0].length;
    let subsection = "";
    for (;; at++) {
      let char = source[at];
      if (char === '"') break;
      if (char === "\\") char = source[++at];
      if (char === undefined || char === "\n") throw bad();
      subsection += char;
    }
    if (source[++at] !== "]") throw bad();
    at++;
    return `${name.toLowerCase()}.${subsection}`;
  }

  /** The rest of the line without the spaces around it; null when it holds what needs a closer look. */
  function readPlainValue(): string | null {
    const newline = source.indexOf("\n", at);
    let end = newline < 0 ? source.length : newline;
    const line = source.slice(at, end);
    if (SPECIAL.test(line)) return null;
    let start = at;
    at = end;
    while (start < end && isSpace(source[start]!)) start++;
    while (end > start && isSpace(source[end - 1]!)) end--;
    return source.slice(start, end);
  }

  function readValue(): string {
    let value = "";
    let keep = 0; // length of value up to its last character that is not trailing space
    let quoted = false;
    for (;; at++) {
      const char = source[at];
      if (char === undefined || char === "\n") {
        if (quoted) throw bad();
        return value.slice(0, keep);
      }
      if (!quoted && (char === ";" || char === "#")) {
        while (at < source.length && source[at] !== "\n") at++;
        return value.slice(0, keep);
      }
      if (!quoted && isSpace(char)) {
        if (value !== "") value += char;
        continue;
      }
      if (char === '"') quoted = !quoted;
      else if (char === "\\") {
        const next = source[++at];
        // The end of the file ends a line too. Spaces in front of a continued line stay, as in git.
        if (next === "\n" || next === undefined) {
          keep = value.length;
          continue;
        }
        const meant = ESCAPES[next];
        if (meant === undefined) throw bad();
        value += meant;
      } else value += char;
      keep = value.length;
    }
  }

  while (at < source.length) {
    const char = source[at]!;
    if (char === "\n" || isSpace(char)) at++;
    else if (char === "#" || char === ";") {
      while (at < source.length && source[at] !== "\n") at++;
    } else if (char === "[") {
      at++;
      section = readSection();
    } else {
      const name = /[A-Za-z][A-Za-z0-9-]*/y;
      name.lastIndex = at;
      const key = name.exec(source)?.[0];
      if (key === undefined) throw bad();
      at += key.length;
      while (at < source.length && isSpace(source[at]!)) at++;
      let value: string | null = null;
      if (source[at] === "=") {
        at++;
        value = readPlainValue() ?? readValue();
      } else if (at < source.length && source[at] !== "\n") throw bad();
      // Before the first section git takes a key without one, which nothing asks for.
      const lower = key.toLowerCase();
      tell({ key: section === null ? lower : `${section}.${lower}`, value });
    }
  }
}

/** `Section.Sub.Key` with section and key in lower case, the subsection as it is. */
export function normalizeKey(key: string): string {
  const first = key.indexOf(".");
  const last = key.lastIndexOf(".");
  return first < 0
    ? key.toLowerCase()
    : key.slice(0, first).toLowerCase() + key.slice(first, last) + key.slice(last).toLowerCase();
}

/** A boolean as git reads it; undefined when the text is none. */
export function parseBoolean(value: string | null): boolean | undefined {
  if (value === null) return true;
  if (/^(true|yes|on)$/i.test(value)) return true;
  if (value === "" || /^(false|no|off)$/i.test(value)) return false;
  const number = parseInteger(value);
  // Git reads these into 32 bits.
  return number === undefined || Math.abs(number) > 0x7fffffff ? undefined : number !== 0;
}

/** A whole number with an optional suffix k, m or g; undefined when the text is none. */
export function parseInteger(value: string): number | undefined {
  const match = /^\s*([+-]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)([kKmMgG]?)$/.exec(value);
  if (!match) return undefined;
  const digits = match[2]!;
  // A leading zero means octal, as for C's strtol, which git uses.
  const base = /^0[0-7]+$/.test(digits) ? parseInt(digits, 8) : Number(digits);
  const scale = { "": 1, k: 2 ** 10, m: 2 ** 20, g: 2 ** 30 }[match[3]!.toLowerCase()]!;
  const number = base * scale * (match[1] === "-" ? -1 : 1);
  return Number.isSafeInteger(number) ? number : undefined;
}
