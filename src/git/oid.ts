/** Object ids: hashing content, and between hex digits and the twenty bytes that packs and trees hold. */
import { Buffer } from "node:buffer";
import { createHash, hash } from "../platform/hash.ts";
import type { ObjectType, Oid } from "./types.ts";

/** "Nothing" where an old or new value is written: forty zeros. */
export const ZERO_OID: Oid = "0".repeat(40);

/** True for forty lowercase hex digits. */
export function isOid(text: string): text is Oid {
  return text.length === 40 && /^[0-9a-f]{40}$/.test(text);
}

/** The id that `git hash-object -t type` gives for this content. */
export function hashObject(type: ObjectType, data: Uint8Array): Oid {
  const header = `${type} ${data.length}\0`;
  if (data.length > SMALL) return createHash("sha1").update(header).update(data).digest("hex");
  // For small objects a copy and one call cost half of what setting up a hash does.
  const whole = Buffer.allocUnsafe(header.length + data.length);
  whole.write(header, "latin1");
  whole.set(data, header.length);
  return hash("sha1", whole);
}

const SMALL = 16 * 1024;

/** Twenty bytes at `offset` as hex digits. */
export function oidAt(bytes: Buffer, offset: number): Oid {
  return bytes.toString("hex", offset, offset + 20);
}

/** The twenty bytes of an id. */
export function oidBytes(oid: Oid): Buffer {
  return Buffer.from(oid, "hex");
}

/** A view of the same memory with Buffer's methods, without copying. */
export function asBuffer(data: Uint8Array): Buffer {
  return Buffer.isBuffer(data) ? data : Buffer.from(data.buffer, data.byteOffset, data.byteLength);
}
