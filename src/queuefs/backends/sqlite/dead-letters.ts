/** Dead letters: a table beside the queue's, so that other programs never see them. */
import { Buffer } from "node:buffer";
import type { DeadLetter } from "../../contract.ts";
import { decodeEnvelope, encodeEnvelope, textOf } from "../../payload.ts";
import { freeFailedId, idInUse, noDeadLetter, unreadable } from "../shared.ts";
import type { Database } from "./database.ts";

/**
 * Moves a row in processing to the dead letters. Inside a write transaction; false when not current.
 * `untried`: its last delivery was no attempt.
 */
export function bury(
  db: Database,
  row: number,
  current: { delivery: number; owner: string } | null,
  reason: string,
  at: number,
  untried = false,
): boolean {
  const message = db.sql(
    `SELECT queue_name, message_id, status, agentq_delivery AS delivery, agentq_owner AS owner
     FROM queue_messages WHERE id = ?1`,
  ).get(row);
  if (message === undefined || message.status !== "processing") return false;
  if (
    current && (message.delivery !== current.delivery || message.owner !== current.owner)
  ) return false;
  const taken = (failedId: string) =>
    db.sql("SELECT 1 FROM agentq_failed WHERE queue_name = ?1 AND failed_id = ?2").get(
      message.queue_name as string,
      failedId,
    ) !== undefined;
  const failedId = freeFailedId(String(message.message_id), taken);
  db.sql(
    `INSERT INTO agentq_failed (queue_name, failed_id, message_id, data, reason, attempts, failed_at)
     SELECT queue_name, ?2, message_id, data, ?3, agentq_attempts + ?5, ?4
     FROM queue_messages WHERE id = ?1`,
  ).run(row, failedId, reason.toWellFormed(), at, untried ? 0 : 1);
  db.sql("DELETE FROM queue_messages WHERE id = ?1").run(row);
  return true;
}

const SELECT = `SELECT id, queue_name, failed_id, message_id, CAST(data AS BLOB) AS data,
  CAST(reason AS BLOB) AS reason,
  attempts, failed_at FROM agentq_failed WHERE queue_name = ?1`;

export function listFailed(db: Database, queue: string, limit: number): DeadLetter[] {
  return db.run(() =>
    db.sql(`${SELECT} ORDER BY id LIMIT ?2`).all(queue, limit).map((row) => letter(row))
  );
}

export function showFailed(db: Database, queue: string, failedId: string): DeadLetter {
  const row = db.run(() => db.sql(`${SELECT} AND failed_id = ?2`).get(queue, failedId));
  if (row === undefined) throw noDeadLetter(queue, failedId);
  return letter(row);
}

export function retryFailed(
  db: Database,
  queue: string,
  failedIds: readonly string[],
  at: number,
): string[] {
  return db.write(() =>
    [...new Set(failedIds)].map((failedId) => {
      const found = showFailed(db, queue, failedId);
      if (found.data === null) throw unreadable(queue, failedId);
      const pending = db.sql(
        "SELECT max(status = 'pending') AS pending FROM queue_messages WHERE queue_name = ?1 AND message_id = ?2",
      ).get(queue, found.id)!.pending;
      if (pending !== null) throw idInUse(queue, failedId, pending ? "pending" : "processing");
      db.sql(
        `INSERT INTO queue_messages (queue_name, message_id, data, timestamp, status)
         VALUES (?1, ?2, ?3, ?4, 'pending')`,
      ).run(queue, found.id, encodeEnvelope(found.id, found.data, at), Math.floor(at / 1000));
      db.sql("DELETE FROM agentq_failed WHERE queue_name = ?1 AND failed_id = ?2").run(
        queue,
        failedId,
      );
      return found.id;
    })
  );
}

export function pruneFailed(
  db: Database,
  queue: string,
  which: { failedIds?: readonly string[]; before?: number },
): number {
  const remove = (failedId: string | null) =>
    Number(
      db.sql(
        `DELETE FROM agentq_failed WHERE queue_name = ?1
         AND (?2 IS NULL OR failed_id = ?2) AND (?3 IS NULL OR failed_at < ?3)`,
      ).run(queue, failedId, which.before ?? null).changes,
    );
  return db.write(() =>
    which.failedIds === undefined
      ? remove(null)
      : which.failedIds.reduce((sum, failedId) => sum + remove(failedId), 0)
  );
}

function letter(row: Record<string, unknown>): DeadLetter {
  const raw = row.data as Uint8Array | null;
  const decoded = decodeEnvelope(raw);
  const readable = "data" in decoded;
  return {
    failedId: String(row.failed_id),
    queue: String(row.queue_name),
    id: String(row.message_id),
    // As bytes, since Deno ends a text at its first NUL.
    reason: Buffer.from(row.reason as Uint8Array).toString("utf8"),
    attempts: Number(row.attempts),
    failedAt: Number(row.failed_at),
    data: readable ? decoded.data : null,
    raw: readable || raw === null ? null : textOf(raw) ?? new TextDecoder().decode(raw),
  };
}
