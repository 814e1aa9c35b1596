/** Putting messages in. */
import { randomUUID } from "node:crypto";
import type { NewMessage } from "../../contract.ts";
import { checkMessageId } from "../../names.ts";
import { encodeEnvelope } from "../../payload.ts";
import type { Database } from "./database.ts";
import { requireQueue } from "./look.ts";

/**
 * A row only where the queue is on record. Not a WHERE EXISTS beside the values, which costs as much as
 * the row.
 */
const INSERT = `INSERT INTO queue_messages (queue_name, message_id, data, timestamp, status)
  SELECT queue_name, ?2, ?3, ?4, 'pending' FROM queue_metadata WHERE queue_name = ?1`;
const REPLACE =
  `DELETE FROM queue_messages WHERE queue_name = ?1 AND message_id = ?2 AND status = 'pending'`;

const RECORD = "INSERT OR IGNORE INTO queue_metadata (queue_name) VALUES (?1)";

interface Row {
  readonly id: string;
  readonly given: boolean;
  readonly envelope: string;
}

/** A message with an id of its own is one statement; all else is one transaction. */
export function enqueue(
  db: Database,
  queue: string,
  messages: readonly NewMessage[],
  at: number,
): string[] {
  const rows = messages.map(({ id, data }): Row => {
    const name = id === undefined ? randomUUID() : checkMessageId(id);
    return { id: name, given: id !== undefined, envelope: encodeEnvelope(name, data, at) };
  });
  const seconds = Math.floor(at / 1000);
  const insert = ({ id, envelope }: Row) =>
    db.sql(INSERT).run(queue, id, envelope, seconds).changes !== 0;
  const [first] = rows;
  if (rows.length === 1 && !first!.given && db.run(() => insert(first!))) return [first!.id];
  db.write(() => {
    requireQueue(db, queue);
    db.sql(RECORD).run(queue); // Perhaps only messages say so far that it is there.
    for (const row of rows) {
      if (row.given) db.sql(REPLACE).run(queue, row.id);
      insert(row);
    }
  });
  return rows.map(({ id }) => id);
}
