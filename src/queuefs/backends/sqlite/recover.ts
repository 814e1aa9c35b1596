/** Taking back what its owner can't settle any more. */
import type { LeaseClock, LeaseTime } from "../../clock.ts";
import type { Recovered } from "../../contract.ts";
import type { Lease } from "../../lease.ts";
import type { MayTake } from "../../watch.ts";
import type { Database } from "./database.ts";
import { requireQueue } from "./look.ts";
import { DROP, RELEASE, SUPERSEDED } from "./settle.ts";

const ANY = "SELECT 1 FROM queue_messages WHERE queue_name = ?1 AND status = 'processing' LIMIT 1";
const HELD = `SELECT id, message_id, agentq_delivery AS delivery, agentq_owner AS owner,
    agentq_granted_boot AS boot, agentq_lease_ms AS length,
    coalesce(agentq_granted_wall, processing_started_at * 1000, 0) AS wall,
    processing_started_at * 1000 AS started
  FROM queue_messages WHERE queue_name = ?1 AND status = 'processing' ORDER BY id`;

const SEEN = "UPDATE queue_messages SET processing_started_at = ?2 WHERE id = ?1";

/** Takes back what it may. One write transaction, so nothing renews in between. */
export function recover(
  db: Database,
  queue: string,
  clock: LeaseClock,
  mayTake: MayTake,
): Recovered[] {
  // The common case, nothing in processing, takes no lock.
  if (db.run(() => db.sql(ANY).get(queue)) === undefined) {
    db.run(() => requireQueue(db, queue));
    return [];
  }
  return db.write(() => {
    const now = clock();
    const recovered: Recovered[] = [];
    for (const row of db.sql(HELD).all(queue)) {
      const id = Number(row.id);
      const why = mayTake(`${id} ${row.delivery}`, leaseOf(row, now), now);
      if (why === null) {
        if (isTimeless(row)) db.sql(SEEN).run(id, Math.ceil(now.wall / 1000));
        continue;
      }
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

/** Taken by a program that keeps neither leases nor the time: that begins when the row is seen here first. */
function isTimeless(row: Record<string, unknown>): boolean {
  return row.owner === null && row.started === null;
}

function leaseOf(row: Record<string, unknown>, now: LeaseTime): Lease {
  if (row.owner === null) {
    return {
      owner: null,
      grantedBoot: null,
      grantedWall: row.started === null ? now.wall : Number(row.started),
      lengthMs: null,
    };
  }
  return {
    owner: String(row.owner),
    grantedBoot: row.boot === null ? null : Number(row.boot),
    grantedWall: Number(row.wall),
    lengthMs: row.length === null ? null : Number(row.length),
  };
}
