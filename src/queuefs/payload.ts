/**
 * Bytes and how they are shown and kept.
 *
 * SQLite and Redis keep a message in the envelope that OpenViking's queues use, so that either program
 * reads what the other wrote: `{"id","data","timestamp"}`, `data` a string (the bytes are its UTF-8)
 * or an array of byte values, `timestamp` Unix seconds. Text is written as a string, which is a
 * fifth of the size; everything else as the array.
 */
import { Buffer } from "node:buffer";
import { AgentqError } from "../errors.ts";

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The text that these bytes are in UTF-8, or null when they aren't. A byte order mark stays. */
export function textOf(data: Uint8Array): string | null {
  try {
    return decoder.decode(data);
  } catch {
    return null;
  }
}

/** The bytes of a text. Throws `payload-invalid` for lone surrogates, which no bytes stand for. */
export function bytesOf(text: string): Uint8Array {
  if (!text.isWellFormed()) {
    throw new AgentqError(
      "payload-invalid",
      "the text holds a lone surrogate, which UTF-8 can't hold",
    );
  }
  return Buffer.from(text, "utf8");
}

/** A message as the control paths and the command line print it. */
export function messageDocument(
  message: { id: string; data: Uint8Array | null },
): Record<string, unknown> {
  if (message.data === null) return { id: message.id, data: null };
  const text = textOf(message.data);
  if (text !== null) return { id: message.id, data: text };
  return { id: message.id, data: null, data_base64: Buffer.from(message.data).toString("base64") };
}

/** What an envelope may come to, in bytes: the runtimes' strings and Redis's values end at twice as much. */
export const MAX_ENVELOPE_BYTES = 256 * 1024 * 1024;
/** Bytes that are no text are up to four characters each there. */
export const MAX_BINARY_BYTES = MAX_ENVELOPE_BYTES / 4;
/** So many bytes are written at a time: a list of all of them would take many times their size. */
const CHUNK = 64 * 1024;

/** The envelope of a message, as a JSON text. `at` is Unix milliseconds. Throws `limit-exceeded`. */
export function encodeEnvelope(id: string, data: Uint8Array, at: number): string {
  // What is larger than that is so in any form; to a string it need not fit.
  const text = data.length > MAX_ENVELOPE_BYTES ? null : textOf(data);
  if (text === null && data.length > MAX_BINARY_BYTES) throw tooLarge(id, data);
  const body = text === null ? byteArray(data) : quotedText(id, data, text);
  return `{"id":${JSON.stringify(id)},"data":${body},"timestamp":${Math.floor(at / 1000)}}`;
}

function quotedText(id: string, data: Uint8Array, text: string): string {
  let body: string;
  try {
    body = JSON.stringify(text);
  } catch (error) {
    // With control characters, six each, it need not fit either.
    if (error instanceof RangeError) throw tooLarge(id, data);
    throw error;
  }
  // A character is three bytes at most, and counting them takes a pass.
  const small = body.length <= MAX_ENVELOPE_BYTES / 3;
  if (!small && Buffer.byteLength(body) > MAX_ENVELOPE_BYTES) throw tooLarge(id, data);
  return body;
}

function byteArray(data: Uint8Array): string {
  const parts: string[] = [];
  for (let at = 0; at < data.length; at += CHUNK) {
    parts.push(data.subarray(at, at + CHUNK).join(","));
  }
  return `[${parts.join(",")}]`;
}

function tooLarge(id: string, data: Uint8Array): AgentqError {
  return new AgentqError(
    "limit-exceeded",
    `the data of message ${id} are too large: ${data.length} bytes`,
    {
      hint: "SQLite and Redis take text of 256 MiB as JSON and other bytes of 64 MiB: " +
        "keep what is larger in a file, and enqueue its name.",
      details: { bytes: data.length, limit: MAX_BINARY_BYTES, textLimit: MAX_ENVELOPE_BYTES },
    },
  );
}

/** What an envelope holds, or why it can't be read. */
export type Decoded = { readonly data: Uint8Array } | { readonly problem: string };

/** Reads an envelope that anyone may have written. Never throws. */
export function decodeEnvelope(raw: Uint8Array | string | null): Decoded {
  if (raw === null) return { problem: "the payload is missing" };
  const text = typeof raw === "string" ? raw : textOf(raw);
  if (text === null) return { problem: "the payload is not UTF-8" };
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return { problem: "the payload is not JSON" };
  }
  // By hand, since every message is read by this: a schema would cost as much as the rest of it.
  const isObject = typeof json === "object" && json !== null && !Array.isArray(json);
  const { id, data } = isObject ? json as { id?: unknown; data?: unknown } : {};
  if (typeof id !== "string" || (typeof data !== "string" && !Array.isArray(data))) {
    return { problem: "the payload lacks id or data" };
  }
  if (typeof data === "string") {
    if (!data.isWellFormed()) return { problem: "the payload's data holds a lone surrogate" };
    return { data: Buffer.from(data, "utf8") };
  }
  const bytes = new Uint8Array(data.length);
  for (let i = 0; i < data.length; i++) {
    const byte = data[i];
    if (!Number.isInteger(byte) || (byte as number) < 0 || (byte as number) > 255) {
      return { problem: "the payload's data is no array of bytes" };
    }
    bytes[i] = byte as number;
  }
  return { data: bytes };
}
