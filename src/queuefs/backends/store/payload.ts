/**
 * How bytes become a payload of the durable store, which is plain JSON, and what its reference says
 * about reading it back.
 *
 * ```
 * encoding absent   the bytes are JSON themselves, stored byte for byte
 * "text"            a JSON string; the bytes are its UTF-8
 * "base64"          a JSON string; the bytes are what it encodes
 * ```
 */
import { Buffer } from "node:buffer";
import { type Claim, type PreparedPayload, preparedPayload } from "../../../store/mod.ts";
import { isAgentqError } from "../../../errors.ts";
import { textOf } from "../../payload.ts";
import type { Decoded } from "../../payload.ts";

export interface StorePayload {
  readonly payload: string | PreparedPayload;
  readonly encoding?: string;
}

export function toStorePayload(data: Uint8Array): StorePayload {
  const text = textOf(data);
  if (text === null) return { payload: Buffer.from(data).toString("base64"), encoding: "base64" };
  try {
    return { payload: preparedPayload(text) };
  } catch (error) {
    if (!isAgentqError(error, "payload-invalid")) throw error;
    return { payload: text, encoding: "text" };
  }
}

/** The bytes of a claimed or peeked message. Never throws. */
export function fromClaim(claim: Claim): Decoded {
  if (claim.bytes === null) return { problem: claim.unreadable?.message ?? "it can't be read" };
  return fromStorePayload(claim.bytes, claim.encoding);
}

/** The bytes of a payload file. Never throws. */
export function fromStorePayload(bytes: Uint8Array, encoding: string | null): Decoded {
  const text = textOf(bytes);
  if (text === null) return { problem: "the payload is not UTF-8" };
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
  if (encoding === "base64") {
    const data = Buffer.from(json, "base64");
    if (data.toString("base64") === json) return { data };
  }
  return { problem: `the payload is not ${encoding.slice(0, 20)}` };
}
