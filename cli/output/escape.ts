/**
 * Text from outside, made safe for a terminal: control characters (C0 except newline and tab, DEL,
 * C1), bidirectional overrides and lone surrogates become visible escapes.
 *
 * @example escapeTerminal("a\x1b[31mb") // "a\\x1b[31mb"
 */
export function escapeTerminal(text: string): string {
  return text.replace(
    // deno-lint-ignore no-control-regex -- finding control characters is what this is for
    /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g,
    (char) => {
      const code = char.charCodeAt(0);
      return code < 0x100
        ? `\\x${code.toString(16).padStart(2, "0")}`
        : `\\u${code.toString(16).padStart(4, "0")}`;
    },
  );
}

/** {@link escapeTerminal} for a value that must stay on one line: newlines and tabs too. */
export function escapeLine(text: string): string {
  return escapeTerminal(text).replace(/\n/g, "\\n").replace(/\t/g, "\\t");
}

/** A name for a line of its own: {@link escapeLine}, and none at all is seen too. */
export function shownName(name: string): string {
  return name === "" ? '""' : escapeLine(name);
}

/** JSON in which nothing can act on a terminal, and which says the same. */
export function safeJson(document: unknown): string {
  return JSON.stringify(document).replace(
    /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
