/** Payloads of messages that are merely listed: read as they lie, without the lock. */
import { readFileSync } from "node:fs";
import { payloadPath, storePaths } from "../../../store/layout.ts";
import { decodePayload, type Reference, type Store } from "../../../store/mod.ts";

/** The bytes that a reference stands for, or null where they can't be read (any more). */
export function readStored(store: Store, reference: Reference): Uint8Array | null {
  let bytes: Uint8Array;
  try {
    bytes = readFileSync(payloadPath(storePaths(store.root), reference.object));
  } catch {
    return null;
  }
  const decoded = decodePayload(bytes, reference.encoding ?? null);
  return "data" in decoded ? decoded.data : null;
}
