/**
 * `working-tree-encoding`: text that the repository holds as UTF-8 and the work tree holds otherwise.
 *
 * Decoding is the platform's TextDecoder. The platform encodes nothing but UTF-8, so the way back is
 * UTF-16 and UTF-32 by hand and, for the one- to three-byte encodings, the decoder's own table turned
 * round. Both give null for what can't be converted without loss: the caller keeps the bytes.
 */
import { Buffer } from "node:buffer";
import { asBuffer } from "./oid.ts";

/** UTF-16/32 in all their spellings: unit size, byte order, and what is said about the mark. */
interface Utf {
  readonly unit: 2 | 4;
  readonly bigEndian: boolean;
  /** `required` when read and written, `forbidden`, or `written` but not asked for. */
  readonly mark: "required" | "forbidden" | "written";
}

const UTF: ReadonlyMap<string, Utf> = new Map([
  ["utf16", { unit: 2, bigEndian: false, mark: "required" }],
  ["utf16le", { unit: 2, bigEndian: false, mark: "forbidden" }],
  ["utf16be", { unit: 2, bigEndian: true, mark: "forbidden" }],
  ["utf16lebom", { unit: 2, bigEndian: false, mark: "written" }],
  ["utf16bebom", { unit: 2, bigEndian: true, mark: "written" }],
  ["utf32", { unit: 4, bigEndian: false, mark: "required" }],
  ["utf32le", { unit: 4, bigEndian: false, mark: "forbidden" }],
  ["utf32be", { unit: 4, bigEndian: true, mark: "forbidden" }],
]);

/** A work tree file's bytes as UTF-8; null when they are not text in that encoding. */
export function decodeToUtf8(data: Uint8Array, encoding: string): Uint8Array | null {
  const text = decode(asBuffer(data), encoding);
  return text === null ? null : Buffer.from(text, "utf8");
}

/** UTF-8 bytes in another encoding; null when they aren't UTF-8 or can't be said in it. */
export function encodeFromUtf8(data: Uint8Array, encoding: string): Uint8Array | null {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    return null;
  }
  const utf = UTF.get(normalName(encoding));
  if (utf !== undefined) {
    const marked = utf.mark === "forbidden" ? text : "\ufeff" + text;
    return utf.unit === 2 ? encodeUtf16(marked, utf.bigEndian) : encodeUtf32(marked, utf.bigEndian);
  }
  const table = tableOf(encoding);
  if (table === null) return null;
  const out: number[] = [];
  for (const char of text) {
    const code = table.get(char);
    if (code === undefined) return null;
    if (code > 0xffff) out.push(code >> 16);
    if (code > 0xff) out.push((code >> 8) & 0xff);
    out.push(code & 0xff);
  }
  return Uint8Array.from(out);
}

/** `UTF-16LE`, `utf16le` and `UTF_16LE` are one name. */
function normalName(encoding: string): string {
  return encoding.toLowerCase().replace(/[-_]/g, "");
}

/** Encodings whose name the platform's decoder gives another meaning to: byte n is code point n. */
function directLimit(encoding: string): number | null {
  const name = normalName(encoding);
  if (name === "iso88591" || name === "latin1") return 0x100;
  return name === "usascii" || name === "ascii" ? 0x80 : null;
}

function decode(data: Buffer, encoding: string): string | null {
  const name = normalName(encoding);
  // git writes this one and can't read it back: iconv doesn't know the name.
  if (name === "utf16bebom") return null;
  const utf = UTF.get(name);
  if (utf !== undefined) {
    return utf.unit === 2 ? decodeUtf16(data, utf) : decodeUtf32(data, utf);
  }
  const limit = directLimit(encoding);
  if (limit !== null) return data.every((byte) => byte < limit) ? data.toString("latin1") : null;
  try {
    return new TextDecoder(encoding, { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    return null;
  }
}

/** The byte order that the mark at the beginning tells, null without a mark. */
function markOf(data: Buffer, unit: 2 | 4): { bigEndian: boolean } | null {
  if (data.length < unit) return null;
  const little = unit === 2 ? data.readUInt16LE(0) : data.readUInt32LE(0);
  if (little === 0xfeff) return { bigEndian: false };
  const big = unit === 2 ? data.readUInt16BE(0) : data.readUInt32BE(0);
  return big === 0xfeff ? { bigEndian: true } : null;
}

/** Settles byte order and where the text begins; null when the mark is not as the encoding says. */
function opening(data: Buffer, utf: Utf): { bigEndian: boolean; start: number } | null {
  if (data.length % utf.unit !== 0) return null;
  const mark = markOf(data, utf.unit);
  if (utf.mark === "forbidden") {
    return mark === null ? { bigEndian: utf.bigEndian, start: 0 } : null;
  }
  if (mark === null) return utf.mark === "required" ? null : { bigEndian: utf.bigEndian, start: 0 };
  return { bigEndian: mark.bigEndian, start: utf.unit };
}

function decodeUtf16(data: Buffer, utf: Utf): string | null {
  const open = opening(data, utf);
  if (open === null) return null;
  const units = Buffer.from(data.subarray(open.start));
  if (open.bigEndian) units.swap16();
  const text = units.toString("utf16le");
  return text.isWellFormed() ? text : null;
}

function decodeUtf32(data: Buffer, utf: Utf): string | null {
  const open = opening(data, utf);
  if (open === null) return null;
  const chars: string[] = [];
  for (let at = open.start; at < data.length; at += 4) {
    const point = open.bigEndian ? data.readUInt32BE(at) : data.readUInt32LE(at);
    if (point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return null;
    chars.push(String.fromCodePoint(point));
  }
  return chars.join("");
}

function encodeUtf16(text: string, bigEndian: boolean): Uint8Array {
  const units = Buffer.from(text, "utf16le");
  return bigEndian ? units.swap16() : units;
}

function encodeUtf32(text: string, bigEndian: boolean): Uint8Array {
  const points = [...text];
  const out = Buffer.alloc(points.length * 4);
  points.forEach((char, i) => {
    const point = char.codePointAt(0)!;
    if (bigEndian) out.writeUInt32BE(point, i * 4);
    else out.writeUInt32LE(point, i * 4);
  });
  return out;
}

const tables = new Map<string, ReadonlyMap<string, number> | null>();

/** Character to code (its bytes as one big-endian number) of an encoding without shift states. */
function tableOf(encoding: string): ReadonlyMap<string, number> | null {
  const known = tables.get(encoding);
  if (known !== undefined) return known;
  const table = buildTable(encoding);
  tables.set(encoding, table);
  return table;
}

function buildTable(encoding: string): ReadonlyMap<string, number> | null {
  const table = new Map<string, number>();
  const limit = directLimit(encoding);
  if (limit !== null) {
    for (let byte = 0; byte < limit; byte++) table.set(String.fromCharCode(byte), byte);
    return table;
  }
  // Encodings with shift states can't be turned round a character at a time.
  if (/^iso-?2022|^utf|^hz/i.test(encoding)) return null;
  let decoder: TextDecoder;
  try {
    decoder = new TextDecoder(encoding, { fatal: true, ignoreBOM: true });
  } catch {
    return null;
  }
  const big5 = /^big-?5$/i.test(encoding);
  const leads: number[] = [];
  const add = (bytes: number[], code: number): boolean => {
    try {
      const text = decoder.decode(Uint8Array.from(bytes));
      if (big5 && code > 0xff && !isPlainBig5(code)) return true;
      if ([...text].length === 1 && !table.has(text)) table.set(text, code);
      return true;
    } catch {
      // A fresh decoder: some keep the state that the failure left.
      decoder = new TextDecoder(encoding, { fatal: true, ignoreBOM: true });
      return false;
    }
  };
  for (let byte = 0; byte < 256; byte++) if (!add([byte], byte)) leads.push(byte);
  for (const lead of leads) {
    for (let trail = 0x30; trail < 256; trail++) {
      // EUC-JP alone has three bytes, after 0x8f.
      if (add([lead, trail], (lead << 8) | trail) || lead !== 0x8f) continue;
      for (let last = 0xa1; last < 0xff; last++) {
        if (!add([lead, trail, last], (lead << 16) | (trail << 8) | last)) break;
      }
    }
  }
  return table;
}

/** The platform's Big5 holds additions of Hong Kong and others that iconv's has not. */
function isPlainBig5(code: number): boolean {
  return (code >= 0xa140 && code <= 0xa3e1) || (code >= 0xa440 && code <= 0xc67e) ||
    (code >= 0xc940 && code <= 0xf9d5);
}
