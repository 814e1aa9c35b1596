/**
 * Between what the repository holds and what the work tree holds: line ends (`text`, `eol`, `crlf`,
 * core.autocrlf, core.eol), `working-tree-encoding` and `ident`.
 *
 *   blob ──ident──▶ ──LF to CRLF──▶ ──encode──▶ ──(smudge filter: never run)──▶ file
 *   file ──(clean filter: never run)──▶ ──decode──▶ ──CRLF to LF──▶ ──ident──▶ blob
 *
 * Filter programs are the user's to run: a path that has one is written as the blob holds it, and
 * whoever writes it says so.
 */
import { Buffer } from "node:buffer";
import type { Attributes } from "./attributes.ts";
import { asBuffer } from "./oid.ts";
import { decodeToUtf8, encodeFromUtf8 } from "./text-encoding.ts";
import type { Oid } from "./types.ts";

/** The settings that conversions depend on. */
export interface EolSettings {
  /** core.autocrlf. */
  readonly autocrlf: boolean | "input";
  /** core.eol, with `native` resolved; what text files get when nothing else says. */
  readonly eol: "lf" | "crlf";
}

type LineEnds = "binary" | "text-lf" | "text-crlf" | "auto-lf" | "auto-crlf";

/** How one path is converted. */
export interface Conversion {
  readonly lineEnds: LineEnds;
  /** working-tree-encoding, unless it is UTF-8. */
  readonly encoding: string | null;
  readonly ident: boolean;
  /** The name of the filter driver that git would run here. */
  readonly filter: string | null;
}

const NONE: Conversion = { lineEnds: "binary", encoding: null, ident: false, filter: null };

/** What the attributes of a path and the settings come to. */
export function conversionFor(attributes: Attributes, settings: EolSettings): Conversion {
  if (attributes.size === 0 && settings.autocrlf === false) return NONE;
  const encoding = attributes.get("working-tree-encoding");
  const filter = attributes.get("filter");
  return {
    lineEnds: lineEndsFor(attributes, settings),
    encoding: typeof encoding === "string" && !/^utf-?8$/i.test(encoding) && encoding !== ""
      ? encoding
      : null,
    ident: attributes.get("ident") === true,
    filter: typeof filter === "string" && filter !== "" ? filter : null,
  };
}

function lineEndsFor(attributes: Attributes, settings: EolSettings): LineEnds {
  const native = settings.autocrlf === true
    ? "crlf"
    : settings.autocrlf === "input"
    ? "lf"
    : settings.eol;
  // `crlf` is the old name of `text`, heard where `text` says nothing.
  const text = meaning(attributes.get("text")) ?? meaning(attributes.get("crlf"));
  if (text === "binary") return "binary";
  const eol = attributes.get("eol");
  if (eol === "lf" || eol === "crlf") return text === "auto" ? `auto-${eol}` : `text-${eol}`;
  if (text === "input") return "text-lf";
  if (text === "auto") return `auto-${native}`;
  if (text === "text") return `text-${native}`;
  return settings.autocrlf === false ? "binary" : `auto-${native}`;
}

function meaning(value: true | false | string | undefined) {
  if (value === true) return "text";
  if (value === false) return "binary";
  return value === "input" || value === "auto" ? value : undefined;
}

/** True when file and blob are the same bytes whatever they are (filters apart). */
export function convertsNothing(conversion: Conversion): boolean {
  return conversion.lineEnds === "binary" && conversion.encoding === null && !conversion.ident;
}

/**
 * The bytes to write into the work tree for a blob.
 *
 * Content that can't be written in its working-tree-encoding is left as it is, as git leaves it.
 * @param oid the blob's id, which `ident` shows
 */
export function toWorkTree(blob: Uint8Array, conversion: Conversion, oid: Oid): Uint8Array {
  let data = conversion.ident ? expandIdent(blob, oid) : blob;
  if (conversion.lineEnds.endsWith("-crlf")) data = addCarriageReturns(data, conversion.lineEnds);
  if (conversion.encoding !== null && data.length > 0) {
    data = encodeFromUtf8(data, conversion.encoding) ?? data;
  }
  return data;
}

/**
 * The blob that `git add` would make of a file's bytes; null when its working-tree-encoding can't be
 * decoded, which git refuses to add.
 * @param staged reads what the index holds for the path: an automatic conversion leaves alone a file
 *   that was committed with CRLF
 */
export function toRepository(
  file: Uint8Array,
  conversion: Conversion,
  staged: () => Uint8Array | null,
): Uint8Array | null {
  let data = file;
  if (conversion.encoding !== null && data.length > 0) {
    const decoded = decodeToUtf8(data, conversion.encoding);
    if (decoded === null) return null;
    data = decoded;
  }
  if (conversion.lineEnds !== "binary") {
    data = removeCarriageReturns(data, conversion.lineEnds, staged);
  }
  return conversion.ident ? contractIdent(data) : data;
}

interface TextStats {
  nul: boolean;
  loneCr: number;
  loneLf: number;
  crlf: number;
  printable: number;
  nonPrintable: number;
}

/** Counts what git's guess between text and binary looks at. */
function gatherStats(data: Uint8Array): TextStats {
  const stats = { nul: false, loneCr: 0, loneLf: 0, crlf: 0, printable: 0, nonPrintable: 0 };
  for (let i = 0; i < data.length; i++) {
    const byte = data[i]!;
    if (byte === 0x0d) {
      if (data[i + 1] === 0x0a) {
        stats.crlf++;
        i++;
      } else stats.loneCr++;
    } else if (byte === 0x0a) stats.loneLf++;
    else if (byte >= 0x20 && byte !== 0x7f) stats.printable++;
    else if (byte === 0x08 || byte === 0x09 || byte === 0x0c || byte === 0x1b) stats.printable++;
    else {
      stats.nonPrintable++;
      if (byte === 0) stats.nul = true;
    }
  }
  // A final ^Z is DOS's end of file.
  if (data.length > 0 && data[data.length - 1] === 0x1a) stats.nonPrintable--;
  return stats;
}

function looksBinary(stats: TextStats): boolean {
  return stats.loneCr > 0 || stats.nul || (stats.printable >> 7) < stats.nonPrintable;
}

function addCarriageReturns(data: Uint8Array, lineEnds: LineEnds): Uint8Array {
  const stats = gatherStats(data);
  if (stats.loneLf === 0) return data;
  if (lineEnds === "auto-crlf" && (stats.crlf > 0 || looksBinary(stats))) return data;
  const out = new Uint8Array(data.length + stats.loneLf);
  let at = 0;
  for (let i = 0; i < data.length; i++) {
    const byte = data[i]!;
    if (byte === 0x0a && data[i - 1] !== 0x0d) out[at++] = 0x0d;
    out[at++] = byte;
  }
  return out;
}

function removeCarriageReturns(
  data: Uint8Array,
  lineEnds: LineEnds,
  staged: () => Uint8Array | null,
): Uint8Array {
  if (!data.includes(0x0d)) return data;
  const stats = gatherStats(data);
  if (stats.crlf === 0) return data;
  if (lineEnds.startsWith("auto-")) {
    if (looksBinary(stats)) return data;
    const before = staged();
    if (before !== null && before.includes(0x0d)) {
      const then = gatherStats(before);
      if (then.crlf > 0 && !looksBinary(then)) return data;
    }
  }
  const out = new Uint8Array(data.length - stats.crlf);
  let at = 0;
  for (let i = 0; i < data.length; i++) {
    if (data[i] === 0x0d && data[i + 1] === 0x0a) continue;
    out[at++] = data[i]!;
  }
  return out;
}

/** `$Id$`, and an id that was committed expanded, become `$Id: <oid> $`. */
function expandIdent(data: Uint8Array, oid: Oid): Uint8Array {
  return rewriteIdent(data, (inner) => {
    // Spaces inside tell another version control system's id, which is kept.
    const space = inner.indexOf(" ", 1);
    return space > 0 && space < inner.length - 1 ? null : `Id: ${oid} $`;
  }, true);
}

/** `$Id: anything$` on one line becomes `$Id$`. */
function contractIdent(data: Uint8Array): Uint8Array {
  return rewriteIdent(data, () => "Id$", false);
}

/**
 * Replaces each keyword between dollars. `replace` gets what stands between `Id:` and the closing
 * dollar ("" for a bare `$Id$`, when `bare` asks for those) and gives what follows the first dollar.
 */
function rewriteIdent(
  data: Uint8Array,
  replace: (inner: string) => string | null,
  bare: boolean,
): Uint8Array {
  const text = asBuffer(data).toString("latin1");
  if (!text.includes("$Id")) return data;
  let out = "";
  let at = 0;
  for (;;) {
    const dollar = text.indexOf("$", at);
    if (dollar < 0) break;
    out += text.slice(at, dollar + 1);
    at = dollar + 1;
    if (bare && text.startsWith("Id$", at)) {
      out += replace("");
      at += 3;
    } else if (text.startsWith("Id:", at)) {
      const close = text.indexOf("$", at + 3);
      if (close < 0) break;
      const inner = text.slice(at + 3, close);
      const replacement = inner.includes("\n") ? null : replace(inner);
      if (replacement === null) continue;
      out += replacement;
      at = close + 1;
    }
  }
  return Buffer.from(out + text.slice(at), "latin1");
}
