/** Each step of a message's life as one SQL statement or transaction. */
import { randomUUID } from "node:crypto";
import type { LeaseClock } from "../../clock.ts";
import type {
  Delivery,
  DequeueOptions,
  Ending,
  NewMessage,
  QueueCounts,
  Receipt,
  Recovered,
  Settlement,
  Turn,
  UnackedMessage,
} from "../../contract.ts";
import { judgeLease } from "../../lease.ts";
import { checkMessageId } from "../../names.ts";
import { callerPrefix } from "../../owner.ts";
import { decodeEnvelope, encodeEnvelope } from "../../payload.ts";
import { noQueue } from "../shared.ts";
import type { Database } from "./database.ts";
import { bury } from "./dead-letters.ts";

/** Fails unless the queue is there. Like OpenViking's, a queue is there when messages say so, too. */
export function requireQueue(db: Database, queue: string): void {
  const known = db.sql(
    `SELECT EXISTS (SELECT 1 FROM queue_metadata WHERE queue_name = ?1)
         OR EXISTS (SELECT 1 FROM queue_messages WHERE queue_name = ?1) AS known`,
  ).get(queue)?.known;
  if (!known) throw noQueue(queue);
}

const INSERT = `INSERT INTO queue_messages (queue_name, message_id, data, timestamp, status)
  SELECT ?1, ?2, ?3, ?4, 'pending'
  WHERE EXISTS (SELECT 1 FROM queue_metadata WHERE queue_name = ?1)
     OR EXISTS (SELECT 1 FROM queue_messages WHERE queue_name = ?1)`;
const REPLACE =
  `DELETE FROM queue_messages WHERE queue_name = ?1 AND message_id = ?2 AND status = 'pending'`;

export function enqueue(
  db: Database,
  queue: string,
  messages: readonly NewMessage[],
  at: number,
): string[] {
  const rows = messages.map(({ id, data }) => {
    const name = id === undefined ? randomUUID() : checkMessageId(id);
    return { id: name, given: id !== undefined, envelope: encodeEnvelope(name, data, at) };
  });
  const insert = (row: typeof rows[number]) => {
    if (row.given) db.sql(REPLACE).run(queue, row.id);
    const { changes } = db.sql(INSERT).run(queue, row.id, row.envelope, Math.floor(at / 1000));
    if (Number(changes) === 0) throw noQueue(queue);
  };
  if (rows.length === 0) db.run(() => requireQueue(db, queue));
  else if (rows.length === 1 && !rows[0]!.given) db.run(() => insert(rows[0]!));
  else db.write(() => rows.forEach(insert));
  return rows.map(({ id }) => id);
}

/**
 * The candidates, oldest first, but none whose id is being processed already. The index is named since
 * after an ANALYZE, where almost all are pending, some versions of SQLite would walk through the table.
 */
const NEXT = `SELECT id FROM queue_messages AS m INDEXED BY idx_queue_status
  WHERE queue_name = ?1 AND status = 'pending' AND NOT EXISTS (
    SELECT 1 FROM queue_messages AS p
    WHERE p.queue_name = ?1 AND p.message_id = m.message_id AND p.id <> m.id
      AND p.status = 'processing')
  ORDER BY id LIMIT ?2`;
/** Takes one, or all, of `rows`. One is found without making a table of it first, which costs a third. */
const take = (rows: string) =>
  `UPDATE queue_messages
  SET status = 'processing', processing_started_at = ?3, agentq_owner = ?4,
      agentq_delivery = agentq_delivery + 1, agentq_granted_boot = ?5, agentq_granted_wall = ?6,
      agentq_lease_ms = ?7
  WHERE id ${rows}
  RETURNING id, message_id, CAST(data AS BLOB) AS data, agentq_delivery AS delivery,
            agentq_attempts AS attempts`;
export const TAKE_ONE = take(`= (${NEXT.replace("?2", "1")})`);
export const TAKE = take(`IN (${NEXT})`);

/** One transaction, in which the lease begins: not before the wait for the lock. */
export function dequeue(
  db: Database,
  queue: string,
  options: Required<DequeueOptions>,
  clock: LeaseClock,
): Delivery[] {
  return db.write(() => {
    const deliveries = takeReadable(db, queue, options, clock);
    if (deliveries.length === 0) requireQueue(db, queue);
    return deliveries;
  });
}

/** Settles, then takes, in one transaction. */
export function settleAndDequeue(
  db: Database,
  queue: string,
  endings: readonly Ending[],
  options: Required<DequeueOptions>,
  clock: LeaseClock,
): Turn {
  return db.write(() => {
    const settlements = endings.map((ending) => end(db, queue, ending));
    const deliveries = takeReadable(db, queue, options, clock);
    const nothing = deliveries.length === 0 && settlements.every((each) => each === "stale");
    if (nothing) requireQueue(db, queue);
    return { settlements, deliveries };
  });
}

/** Takes inside a write transaction; what can't be read goes to the dead letters. */
function takeReadable(
  db: Database,
  queue: string,
  { owner, leaseMs, count }: Required<DequeueOptions>,
  clock: LeaseClock,
): Delivery[] {
  const deliveries: Delivery[] = [];
  while (deliveries.length < count) {
    const want = count - deliveries.length;
    const now = clock();
    const seconds = Math.floor(now.wall / 1000);
    const rows = db.sql(want === 1 ? TAKE_ONE : TAKE)
      .all(queue, want, seconds, owner, now.boot, now.wall, leaseMs);
    // The order of what RETURNING returns isn't defined.
    if (rows.length > 1) rows.sort((a, b) => Number(a.id) - Number(b.id));
    for (const row of rows) {
      const decoded = decodeEnvelope(row.data as Uint8Array | null);
      const rowId = Number(row.id);
      if ("problem" in decoded) {
        bury(db, rowId, { delivery: Number(row.delivery), owner }, decoded.problem, now.wall);
        continue;
      }
      deliveries.push({
        id: String(row.message_id),
        data: decoded.data,
        lease: `${rowId}.${row.delivery}.${owner}`,
        attempts: Number(row.attempts),
      });
    }
    if (rows.length < want) break;
  }
  return deliveries;
}

/** Settles one delivery inside a write transaction. */
function end(db: Database, queue: string, ending: Ending): Settlement {
  const { how, receipt } = ending;
  if (how === "ack") return ackOne(db, queue, receipt);
  if (how === "fail") return failOne(db, queue, receipt, ending.reason);
  return requeueOne(db, queue, receipt, how === "requeue");
}

/** Finds the row that a receipt names, if its delivery is current. */
const BY_LEASE = `id = ?3 AND queue_name = ?1 AND message_id = ?2 AND status = 'processing'
  AND agentq_delivery = ?4 AND agentq_owner = ?5`;
const BY_OWNER = `queue_name = ?1 AND message_id = ?2 AND status = 'processing'
  AND substr(agentq_owner, 1, length(?3)) = ?3`;

interface Condition {
  readonly where: string;
  readonly values: (string | number)[];
}

function condition(queue: string, receipt: Receipt): Condition | null {
  if (!("lease" in receipt)) {
    return { where: BY_OWNER, values: [queue, receipt.id, callerPrefix(receipt.owner)] };
  }
  const lease = /^(\d{1,15})\.(\d{1,15})\.(.+)$/s.exec(receipt.lease);
  if (lease === null) return null;
  return {
    where: BY_LEASE,
    values: [queue, receipt.id, Number(lease[1]), Number(lease[2]), lease[3]!],
  };
}

/** Acks: one DELETE each, one commit for all. */
export function ack(db: Database, queue: string, receipts: readonly Receipt[]): Settlement[] {
  return settleAll(db, queue, receipts, (receipt) => ackOne(db, queue, receipt));
}

function ackOne(db: Database, queue: string, receipt: Receipt): Settlement {
  const found = condition(queue, receipt);
  if (found === null) return "stale";
  const { changes } = db.sql(`DELETE FROM queue_messages WHERE ${found.where}`).run(
    ...found.values,
  );
  return Number(changes) > 0 ? "done" : "stale";
}

/** To the dead letters, inside a write transaction. */
export function failOne(
  db: Database,
  queue: string,
  receipt: Receipt,
  reason: string,
): Settlement {
  const row = findCurrent(db, queue, receipt);
  return row !== null && bury(db, row, null, reason, Date.now()) ? "done" : "stale";
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
      const found = condition(queue, receipt);
      if (found === null) return "stale";
      const { changes } = db.sql(
        `UPDATE queue_messages SET agentq_granted_boot = ?6, agentq_granted_wall = ?7,
         agentq_lease_ms = ?8 WHERE ${found.where}`,
      ).run(...pad(found.values), now.boot, now.wall, leaseMs);
      return Number(changes) > 0 ? "done" : "stale";
    });
    if (!settlements.includes("done")) requireQueue(db, queue);
    return settlements;
  });
}

/** Numbered parameters must be bound up to the highest one used: fills the gap before ?6. */
function pad(values: (string | number)[]): (string | number | null)[] {
  return [...values, ...Array<null>(5 - values.length).fill(null)];
}

/** The row of a current delivery, or null. */
function findCurrent(db: Database, queue: string, receipt: Receipt): number | null {
  const found = condition(queue, receipt);
  if (found === null) return null;
  const row = db.sql(`SELECT id FROM queue_messages WHERE ${found.where}`).get(...found.values);
  return row === undefined ? null : Number(row.id);
}

const RELEASE = `UPDATE queue_messages SET status = 'pending', processing_started_at = NULL,
  agentq_owner = NULL, agentq_attempts = agentq_attempts + ?2 WHERE id = ?1`;
const DROP = "DELETE FROM queue_messages WHERE id = ?1";
const SUPERSEDED = `SELECT 1 FROM queue_messages AS n JOIN queue_messages AS o ON o.id = ?1
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

/** One receipt is one statement; several are one transaction. */
function settleAll(
  db: Database,
  queue: string,
  receipts: readonly Receipt[],
  one: (receipt: Receipt) => Settlement,
): Settlement[] {
  const settlements = receipts.length === 1
    ? [db.run(() => one(receipts[0]!))]
    : db.write(() => receipts.map(one));
  if (!settlements.includes("done")) db.run(() => requireQueue(db, queue));
  return settlements;
}

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

/** Both counts in one statement, so from one snapshot. */
export function counts(db: Database, queue: string): QueueCounts {
  const row = db.run(() =>
    db.sql(
      `SELECT
        (SELECT count(*) FROM queue_messages WHERE queue_name = ?1 AND status = 'pending') AS pending,
        (SELECT count(*) FROM queue_messages WHERE queue_name = ?1 AND status = 'processing') AS processing,
        EXISTS (SELECT 1 FROM queue_metadata WHERE queue_name = ?1) AS known`,
    ).get(queue)!
  );
  const [pending, processing] = [Number(row.pending), Number(row.processing)];
  if (!row.known && pending + processing === 0) throw noQueue(queue);
  return { pending, processing };
}

/** Complete without counting: one index probe a state, in one snapshot for all queues. */
export function complete(db: Database, queues: readonly string[]): boolean {
  return db.read(() =>
    queues.every((queue) => {
      const row = db.sql(
        `SELECT EXISTS (SELECT 1 FROM queue_messages WHERE queue_name = ?1 AND status = 'pending')
              OR EXISTS (SELECT 1 FROM queue_messages WHERE queue_name = ?1 AND status = 'processing') AS unacked,
            EXISTS (SELECT 1 FROM queue_metadata WHERE queue_name = ?1) AS known`,
      ).get(queue)!;
      if (!row.known && !row.unacked) throw noQueue(queue);
      return !row.unacked;
    })
  );
}

export function messages(db: Database, queue: string): UnackedMessage[] {
  return db.run(() => {
    requireQueue(db, queue);
    return db.sql(
      `SELECT message_id, status, CAST(data AS BLOB) AS data FROM queue_messages
       WHERE queue_name = ?1 AND status IN ('pending', 'processing')
       ORDER BY status = 'pending', id`,
    ).all(queue).map((row) => {
      const decoded = decodeEnvelope(row.data as Uint8Array | null);
      return {
        id: String(row.message_id),
        state: row.status === "pending" ? "pending" as const : "processing" as const,
        data: "data" in decoded ? decoded.data : null,
      };
    });
  });
}

/** The next message that can be read. What can't is passed over; a dequeue moves it away. */
export function peek(db: Database, queue: string): { id: string; data: Uint8Array } | null {
  return db.run(() => {
    for (const { id } of db.sql(NEXT).iterate(queue, -1)) {
      const row = db.sql(
        "SELECT message_id, CAST(data AS BLOB) AS data FROM queue_messages WHERE id = ?1",
      ).get(id as number)!;
      const decoded = decodeEnvelope(row.data as Uint8Array | null);
      if ("data" in decoded) return { id: String(row.message_id), data: decoded.data };
    }
    requireQueue(db, queue);
    return null;
  });
}
