/**
 * The tables, as OpenViking's queue databases have them, and what is added to keep leases.
 *
 * Columns that it doesn't know have defaults and it names the columns it uses, so either program can
 * open what the other wrote. It marks a row `processing` without knowing of leases; the trigger turns
 * that into a delivery of its own, so that a lease handed out here before can't settle it.
 *
 * It numbers rows with AUTOINCREMENT, which is a page more to write for every message; databases made
 * here go without. A row is in its place in the order either way, and leases don't rely on its number.
 */
import type { DatabaseSync } from "node:sqlite";

const TABLES = `
CREATE TABLE IF NOT EXISTS queue_metadata (
  queue_name TEXT PRIMARY KEY,
  created_at INTEGER DEFAULT (strftime('%s', 'now')),
  last_updated INTEGER DEFAULT (strftime('%s', 'now'))
);
CREATE TABLE IF NOT EXISTS queue_messages (
  id INTEGER PRIMARY KEY,
  queue_name TEXT NOT NULL,
  message_id TEXT NOT NULL,
  data TEXT NOT NULL,
  timestamp INTEGER NOT NULL,
  status TEXT NOT NULL DEFAULT 'pending',
  processing_started_at INTEGER,
  created_at INTEGER DEFAULT (strftime('%s', 'now'))
);
`;

/** Columns by name; those of the first two lines are missing in the oldest OpenViking databases. */
const COLUMNS: Record<string, string> = {
  status: "TEXT NOT NULL DEFAULT 'pending'",
  processing_started_at: "INTEGER",
  // The current delivery; owner is null when a program without leases made it.
  agentq_owner: "TEXT",
  agentq_delivery: "INTEGER NOT NULL DEFAULT 0",
  agentq_attempts: "INTEGER NOT NULL DEFAULT 0",
  agentq_granted_boot: "INTEGER",
  agentq_granted_wall: "INTEGER",
  agentq_lease_ms: "INTEGER",
};

const BESIDE = `
CREATE INDEX IF NOT EXISTS idx_queue_status ON queue_messages(queue_name, status, id);
CREATE INDEX IF NOT EXISTS idx_queue_message_id ON queue_messages(queue_name, message_id);
CREATE TABLE IF NOT EXISTS agentq_failed (
  id INTEGER PRIMARY KEY,
  queue_name TEXT NOT NULL,
  failed_id TEXT NOT NULL,
  message_id TEXT NOT NULL,
  data,
  reason TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  failed_at INTEGER NOT NULL,
  UNIQUE (queue_name, failed_id)
);
CREATE TABLE IF NOT EXISTS agentq_identity (id TEXT NOT NULL);
INSERT INTO agentq_identity
  SELECT lower(hex(randomblob(16))) WHERE NOT EXISTS (SELECT 1 FROM agentq_identity);
CREATE TRIGGER IF NOT EXISTS agentq_foreign_delivery
AFTER UPDATE OF status ON queue_messages
WHEN NEW.status = 'processing' AND NEW.agentq_delivery = OLD.agentq_delivery
BEGIN
  UPDATE queue_messages SET agentq_owner = NULL, agentq_delivery = agentq_delivery + 1
  WHERE id = NEW.id;
END;
`;

const NEEDED = [
  "queue_metadata",
  "queue_messages",
  "idx_queue_status",
  "idx_queue_message_id",
  "agentq_failed",
  "agentq_identity",
  "agentq_foreign_delivery",
];

/** True when nothing has to be added. Reads only. */
export function isCurrent(db: DatabaseSync): boolean {
  const names = new Set(
    db.prepare("SELECT name FROM sqlite_master").all().map((row) => String(row.name)),
  );
  return NEEDED.every((name) => names.has(name)) && missingColumns(db).length === 0 &&
    hasOrderIndex(db);
}

const QUEUE_TABLES = ["queue_messages", "queue_metadata", "agentq_failed"];

/** True when the database holds something, and none of it is a queue. */
export function isSomethingElse(db: DatabaseSync): boolean {
  const names = db.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all().map(
    (row) => String(row.name),
  );
  return names.length > 0 && !QUEUE_TABLES.some((name) => names.includes(name));
}

/**
 * Tables that were there and aren't any more: making them anew would call a queue complete whose messages
 * are gone. Databases that were used here have had all of them; what other programs made is completed,
 * unless what would hold the messages is missing and `create` doesn't ask for it. Reads only.
 */
export function missingTables(db: DatabaseSync, create: boolean): string[] {
  const names = new Set(
    db.prepare("SELECT name FROM sqlite_master").all().map((row) => String(row.name)),
  );
  const columns = db.prepare(
    "SELECT 1 FROM pragma_table_info('queue_messages') WHERE name = 'agentq_delivery'",
  ).get();
  const ours = names.has("agentq_failed") || columns !== undefined;
  const wanted = ours ? QUEUE_TABLES : create || names.size === 0 ? [] : ["queue_messages"];
  return wanted.filter((name) => !names.has(name));
}

/** Adds what is missing. Run it inside a write transaction. Changes no row of another program. */
export function migrate(db: DatabaseSync): void {
  db.exec(TABLES);
  for (const name of missingColumns(db)) {
    db.exec(`ALTER TABLE queue_messages ADD COLUMN ${name} ${COLUMNS[name]}`);
  }
  if (!hasOrderIndex(db)) db.exec("DROP INDEX IF EXISTS idx_queue_status");
  db.exec(BESIDE);
  db.exec(
    `INSERT OR IGNORE INTO queue_metadata (queue_name)
     SELECT DISTINCT queue_name FROM queue_messages WHERE queue_name <> ''`,
  );
}

/** Whether the index that finds the next message is there, and is not one of that name for something else. */
function hasOrderIndex(db: DatabaseSync): boolean {
  const columns = db.prepare(
    "SELECT name FROM pragma_index_info('idx_queue_status') ORDER BY seqno",
  )
    .all().map((row) => String(row.name));
  return columns[0] === "queue_name" && columns[1] === "status";
}

function missingColumns(db: DatabaseSync): string[] {
  const there = new Set(
    db.prepare("SELECT name FROM pragma_table_info('queue_messages')").all().map((row) =>
      String(row.name)
    ),
  );
  return Object.keys(COLUMNS).filter((name) => !there.has(name));
}
