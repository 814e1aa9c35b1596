/** Taking back what its owner can't settle any more. */
import type { LeaseClock } from "../../clock.ts";
import type { Recovered } from "../../contract.ts";
import { judgeLease } from "../../lease.ts";
import type { Database } from "./database.ts";
import { requireQueue } from "./look.ts";
import { DROP, RELEASE, SUPERSEDED } from "./settle.ts";

/** Takes back what `judgeLease` says. One write transaction, so nothing renews in between. */
export function recover(
  db: Database,
  queue: string,
  clock: LeaseClock,
  staleMs: number | undefined,
): Recovered[] {
  const held = (status: string) =>
    db.sql(
      `SELECT id, message_id, agentq_owner AS owner, agentq_granted_boot AS boot,
              coalesce(agentq_granted_wall, processing_started_at * 1000, 0) AS wall,
              processing_started_at * 1000 AS started, agentq_lease_ms AS length
       FROM queue_messages WHERE queue_name = ?1 AND status = ?2 ORDER BY id`,
    ).all(queue, status);
  // The common case, nothing in processing, takes no lock.
  if (db.run(() => db.sql(ANY).get(queue, "processing")) === undefined) {
    db.run(() => requireQueue(db, queue));
    return [];
  }
  return db.write(() => {
    const now = clock();
    const recovered: Recovered[] = [];
    for (const row of held("processing")) {
      const owner = row.owner === null ? null : String(row.owner);
      const why = judgeLease(
        owner === null
          ? { owner, grantedBoot: null, grantedWall: Number(row.started ?? 0), lengthMs: null }
          : {
            owner,
            grantedBoot: row.boot === null ? null : Number(row.boot),
            grantedWall: Number(row.wall),
            lengthMs: row.length === null ? null : Number(row.length),
          },
        now,
        staleMs,
      );
      if (why === "held") continue;
      const id = Number(row.id);
      const superseded = db.sql(SUPERSEDED).get(id) !== undefined;
      if (superseded) db.sql(DROP).run(id);
      else db.sql(RELEASE).run(id, 1);
      recovered.push({
        queue,
        id: String(row.message_id),
        why,
        outcome: superseded ? "superseded" : "pending",
      });
    }
    return recovered;
  });
}

const ANY = "SELECT 1 FROM queue_messages WHERE queue_name = ?1 AND status = ?2 LIMIT 1";
