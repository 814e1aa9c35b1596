/**
 * How bytes become a payload of the durable store, which is plain JSON: as they are where they are JSON
 * themselves, else as a string whose reference says how to read it back.
 */
import { Buffer } from "node:buffer";
import {
  type Claim,
  decodePayload,
  type PreparedPayload,
  preparedPayload,
} from "../../../store/mod.ts";
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
  return decodePayload(claim.bytes, claim.encoding);
}
