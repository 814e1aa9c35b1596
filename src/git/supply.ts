/**
 * Objects that are fetched when they turn out to be missing: readers are synchronous and throw
 * `object-missing`, and whoever owns the transport fetches what is named and runs the same function
 * again. For partial clones, and for what only the origin holds.
 */
import { isAgentqError } from "../errors.ts";
import { isOid } from "./oid.ts";
import type { Oid } from "./types.ts";

/**
 * Runs `work` again and again until it misses no object that can be had.
 * @throws `object-missing` for what was fetched and still isn't here
 */
export async function supplied<T>(
  work: () => T | Promise<T>,
  supply: (oids: readonly Oid[]) => Promise<void>,
): Promise<T> {
  for (const asked = new Set<Oid>();;) {
    try {
      return await work();
    } catch (error) {
      if (!isAgentqError(error, "object-missing")) throw error;
      const oids = missingIn(error.details).filter((oid) => !asked.has(oid));
      if (oids.length === 0) throw error;
      for (const oid of oids) asked.add(oid);
      await supply(oids);
    }
  }
}

/** The ids that an `object-missing` error names. */
function missingIn(details: Record<string, unknown> | undefined): Oid[] {
  const { oid, oids } = details ?? {};
  const named: unknown[] = Array.isArray(oids) ? oids : [oid];
  return named.filter((one): one is Oid => typeof one === "string" && isOid(one));
}
