/** Whether commits that are here are here with all they reach: then nothing need be fetched for them. */
import { isAgentqError } from "../errors.ts";
import { enumerate } from "./enumerate.ts";
import type { ObjectReader, Oid } from "./types.ts";

/** Objects looked at before it is believed: history that old was whole when it came. */
const ENOUGH = 20_000;

/**
 * True when `oid` and all between it and `haves` is in `objects`. Without haves only the commit itself
 * is looked for: packs come whole or not at all, and walking all history would cost more than it tells.
 */
export function isWhole(objects: ObjectReader, oid: Oid, haves: readonly Oid[]): boolean {
  if (!objects.has(oid)) return false;
  if (haves.length === 0) return true;
  let looked = 0;
  try {
    for (const item of enumerate(objects, [oid], haves)) {
      // Commits and trees were read to get here; of blobs only the name is known.
      if (item.type === "blob" && !objects.has(item.oid)) return false;
      if (++looked >= ENOUGH) return true;
    }
    return true;
  } catch (error) {
    if (isAgentqError(error, "object-missing")) return false;
    throw error;
  }
}
