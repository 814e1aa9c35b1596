/**
 * Whose word it is that something isn't there: the master's. A replica may be behind it, or cut off for good,
 * and what is not there, or done, as far as it knows, may be there. What it has, it may show.
 */
import type { RedisAddress } from "./address.ts";
import type { RedisConnection } from "./connection.ts";
import { nothingOnReplica } from "./faults.ts";
import { MASTER, REPLICA } from "./scripts/library.ts";

export interface Role {
  /** What scripts are told: "1" where they are to ask the server for its role. */
  readonly asks: "0" | "1";
  /** Throws `backend-denied` where a script that found nothing ran on a replica. */
  assertMaster(role: unknown): Promise<void>;
}

export function serverRole(
  { mode, label }: RedisAddress,
  connection: Pick<RedisConnection, "info">,
): Role {
  return {
    // Clusters and sentinels see to it that masters are asked.
    asks: mode === "single" ? "1" : "0",
    assertMaster: async (role) => {
      if (role === MASTER) return;
      // A server whose scripts may not ask may answer by itself; users that may not ask aren't told.
      if (role !== REPLICA && !await saysReplica(connection)) return;
      throw nothingOnReplica(label);
    },
  };
}

/** Whether the server says that it is a replica; false where the user may not ask. */
export async function saysReplica(connection: Pick<RedisConnection, "info">): Promise<boolean> {
  return /^role:slave\b/m.test(await connection.info("replication").catch(() => ""));
}
