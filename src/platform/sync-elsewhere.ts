/** Syncs that other threads make, while this one goes on with something else. */
import { syncLater, type SyncTarget } from "./files.ts";

/**
 * Begins all these syncs. Resolves when none is going on any more, with the error of each or null, in the
 * order given; descriptors must stay open until then.
 */
export async function syncElsewhere(requests: readonly SyncTarget[]): Promise<unknown[]> {
  const settled = await Promise.allSettled(requests.map(syncLater));
  return settled.map((one) => one.status === "rejected" ? one.reason : null);
}
