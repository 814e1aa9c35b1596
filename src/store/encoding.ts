/**
 * How callers read payloads, which are plain JSON in the store: a reference says so by its `encoding`.
 *
 * ```
 * absent      the JSON itself, byte for byte
 * "text"      a JSON string; the payload is its UTF-8
 * "base64"    a JSON string; the payload is what it encodes
 * ```
 */
import { Buffer } from "node:buffer";
import { AgentqError } from "../errors.ts";

const ENCODINGS: ReadonlySet<unknown> = new Set(["text", "base64"]);

/** Whether a reference may have this encoding. */
export function isEncoding(value: unknown): boolean {
  return ENCODINGS.has(value);
}

/** Throws `payload-invalid` for an encoding that nobody could read. */
export function assertEncoding(encoding: string | undefined): void {
  if (encoding === undefined || isEncoding(encoding)) return;
  throw new AgentqError(
    "payload-invalid",
    `the store knows no encoding ${JSON.stringify(encoding.slice(0, 20))}`,
    { hint: "Give text or base64, or none where the payload is JSON itself." },
  );
}

/** What a payload stands for, or why it can't be read. */
export type DecodedPayload = { readonly data: Uint8Array } | { readonly problem: string };

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The bytes that a payload file stands for. Never throws. */
export function decodePayload(bytes: Uint8Array, encoding: string | null): DecodedPayload {
  let text: string;
  try {
    text = utf8.decode(bytes);
  } catch {
    return { problem: "the payload is not UTF-8" };
  }
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return { problem: "the payload is not JSON" };
  }
  if (encoding === null) return { data: new Uint8Array(bytes) };
  if (typeof json !== "string") return { problem: `the payload is not ${encoding}` };
  if (encoding === "text") {
    if (!json.isWellFormed()) return { problem: "the payload holds a lone surrogate" };
    return { data: Buffer.from(json, "utf8") };
  }
  const data = Buffer.from(json, "base64");
  return data.toString("base64") === json ? { data } : { problem: "the payload is not base64" };
}
