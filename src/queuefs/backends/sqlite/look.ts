/** Reading queues: what is there, what is next. Changes nothing. */
import type { QueueCounts, UnackedMessage } from "../../contract.ts";
import { decodeEnvelope } from "../../payload.ts";
import { noQueue } from "../shared.ts";
import type { Database } from "./database.ts";

/** Fails unless the queue is there. Like OpenViking's, a queue is there when messages say so, too. */
export function requireQueue(db: Database, queue: string): void {
  const known =
    db.sql("SELECT 1 FROM queue_metadata WHERE queue_name = ?1").get(queue) !== undefined ||
    db.sql("SELECT 1 FROM queue_messages WHERE queue_name = ?1 LIMIT 1").get(queue) !== undefined;
  if (!known) throw noQueue(queue);
}

/** A pending row. */
export interface Pending {
  readonly id: number;
  readonly messageId: string;
  readonly data: Uint8Array | null;
  readonly attempts: number;
}

/**
 * The index is named since after an ANALYZE, where almost all are pending, some versions of SQLite would
 * walk through the table.
 */
export const PENDING =
  `SELECT id, message_id, CAST(data AS BLOB) AS data, agentq_attempts AS attempts
  FROM queue_messages INDEXED BY idx_queue_status
  WHERE queue_name = ?1 AND status = 'pending' AND id > ?2 ORDER BY id LIMIT ?3`;
export const BLOCKED = `SELECT 1 FROM queue_messages
  WHERE queue_name = ?1 AND message_id = ?2 AND status = 'processing' LIMIT 1`;

/** Up to `count` pending rows after row `last`, oldest first, none whose id is being processed already. */
export function nextPending(db: Database, queue: string, last: number, count: number): Pending[] {
  const found: Pending[] = [];
  while (found.length < count) {
    const want = count - found.length;
    const rows = db.sql(PENDING).all(queue, last, want);
    for (const row of rows) {
      last = Number(row.id);
      const messageId = String(row.message_id);
      if (db.sql(BLOCKED).get(queue, messageId) !== undefined) continue;
      const data = row.data as Uint8Array | null;
      found.push({ id: last, messageId, data, attempts: Number(row.attempts) });
    }
    if (rows.length < want) break;
  }
  return found;
}

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
    for (let last = 0;;) {
      const [row] = nextPending(db, queue, last, 1);
      if (row === undefined) break;
      const decoded = decodeEnvelope(row.data);
      if ("data" in decoded) return { id: row.messageId, data: decoded.data };
      last = row.id;
    }
    requireQueue(db, queue);
    return null;
  });
}
