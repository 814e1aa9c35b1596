/** What becomes of deliveries: acked, failed, put back, renewed; each only while it is current. */
import type { StatementSync } from "node:sqlite";
import type { LeaseClock } from "../../clock.ts";
import type { Ending, Receipt, Settlement } from "../../contract.ts";
import { callerPrefix } from "../../owner.ts";
import type { Database } from "./database.ts";
import { bury } from "./dead-letters.ts";
import { requireQueue } from "./look.ts";

/** Settles one delivery inside a write transaction. */
export function end(db: Database, queue: string, ending: Ending): Settlement {
  const { how, receipt } = ending;
  if (how === "ack") return ackOne(db, queue, receipt);
  if (how === "fail") return failOne(db, queue, receipt, ending.reason, ending.untried);
  return requeueOne(db, queue, receipt, how === "requeue");
}

/** The row that a receipt names, if its delivery is current: by its lease, or by its owner. */
const BY_LEASE = `id = ?3 AND queue_name = ?1 AND message_id = ?2 AND status = 'processing'
  AND agentq_delivery = ?4 AND agentq_owner = ?5`;
const BY_OWNER = `queue_name = ?1 AND message_id = ?2 AND status = 'processing'
  AND substr(agentq_owner, 1, length(?3)) = ?3`;

/** The same statement for either way of naming a delivery. */
interface Statements {
  readonly byLease: string;
  readonly byOwner: string;
}
const either = (statement: string): Statements => ({
  byLease: `${statement} WHERE ${BY_LEASE}`,
  byOwner: `${statement} WHERE ${BY_OWNER}`,
});
const ACK = either("DELETE FROM queue_messages");
const FIND = either("SELECT id FROM queue_messages");
const RENEW = either(
  `UPDATE queue_messages
  SET agentq_granted_boot = ?6, agentq_granted_wall = ?7, agentq_lease_ms = ?8`,
);

type Values = (string | number | null)[];

/** What a receipt's statement is bound to, or null where it is none. */
function valuesOf(queue: string, receipt: Receipt): Values | null {
  if (!("lease" in receipt)) return [queue, receipt.id, callerPrefix(receipt.owner)];
  const lease = /^(\d{1,15})\.(\d{1,15})\.(.+)$/s.exec(receipt.lease);
  if (lease === null) return null;
  return [queue, receipt.id, Number(lease[1]), Number(lease[2]), lease[3]!];
}

function statementFor(db: Database, statements: Statements, receipt: Receipt): StatementSync {
  return db.sql("lease" in receipt ? statements.byLease : statements.byOwner);
}

/** Acks: one DELETE each, one commit for all. */
export function ack(db: Database, queue: string, receipts: readonly Receipt[]): Settlement[] {
  const settlements = receipts.length === 1
    ? [db.run(() => ackOne(db, queue, receipts[0]!))]
    : db.write(() => receipts.map((receipt) => ackOne(db, queue, receipt)));
  if (!settlements.includes("done")) db.run(() => requireQueue(db, queue));
  return settlements;
}

function ackOne(db: Database, queue: string, receipt: Receipt): Settlement {
  const values = valuesOf(queue, receipt);
  if (values === null) return "stale";
  return statementFor(db, ACK, receipt).run(...values).changes === 0 ? "stale" : "done";
}

/** To the dead letters, inside a write transaction. */
export function failOne(
  db: Database,
  queue: string,
  receipt: Receipt,
  reason: string,
  untried = false,
): Settlement {
  const row = findCurrent(db, queue, receipt);
  return row !== null && bury(db, row, null, reason, Date.now(), untried) ? "done" : "stale";
}

/** One transaction, in which the leases begin anew: not before the wait for the lock. */
export function renew(
  db: Database,
  queue: string,
  receipts: readonly Receipt[],
  leaseMs: number,
  clock: LeaseClock,
): Settlement[] {
  return db.write(() => {
    const now = clock();
    const settlements = receipts.map((receipt): Settlement => {
      const values = valuesOf(queue, receipt);
      if (values === null) return "stale";
      // Numbered parameters must be bound up to the highest one used: fills the gap before ?6.
      while (values.length < 5) values.push(null);
      const { changes } = statementFor(db, RENEW, receipt)
        .run(...values, now.boot, now.wall, leaseMs);
      return changes === 0 ? "stale" : "done";
    });
    if (!settlements.includes("done")) requireQueue(db, queue);
    return settlements;
  });
}

/** The row of a current delivery, or null. */
function findCurrent(db: Database, queue: string, receipt: Receipt): number | null {
  const values = valuesOf(queue, receipt);
  if (values === null) return null;
  const row = statementFor(db, FIND, receipt).get(...values);
  return row === undefined ? null : Number(row.id);
}

export const RELEASE = `UPDATE queue_messages SET status = 'pending', processing_started_at = NULL,
  agentq_owner = NULL, agentq_attempts = agentq_attempts + ?2 WHERE id = ?1`;
export const DROP = "DELETE FROM queue_messages WHERE id = ?1";
export const SUPERSEDED = `SELECT 1 FROM queue_messages AS n JOIN queue_messages AS o ON o.id = ?1
  WHERE n.queue_name = o.queue_name AND n.message_id = o.message_id AND n.status = 'pending' LIMIT 1`;
/** To the back: a new row, since the row's number is the order, for other programs too. */
const APPEND = `INSERT INTO queue_messages
  (queue_name, message_id, data, timestamp, status, agentq_delivery, agentq_attempts, created_at)
  SELECT queue_name, message_id, data, timestamp, 'pending', agentq_delivery, agentq_attempts + 1,
         created_at FROM queue_messages WHERE id = ?1`;

export function requeue(
  db: Database,
  queue: string,
  receipts: readonly Receipt[],
  counted: boolean,
): Settlement[] {
  return db.write(() => {
    requireQueue(db, queue);
    return receipts.map((receipt) => requeueOne(db, queue, receipt, counted));
  });
}

function requeueOne(db: Database, queue: string, receipt: Receipt, counted: boolean): Settlement {
  const row = findCurrent(db, queue, receipt);
  if (row === null) return "stale";
  if (db.sql(SUPERSEDED).get(row) !== undefined) {
    db.sql(DROP).run(row);
    return "superseded";
  }
  if (counted) {
    db.sql(APPEND).run(row);
    db.sql(DROP).run(row);
  } else db.sql(RELEASE).run(row, 0);
  return "done";
}
