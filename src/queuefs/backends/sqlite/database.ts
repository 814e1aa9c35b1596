/**
 * One connection, opened so that its promises hold: write-ahead log, a sync at every commit
 * (`synchronous=FULL`; NORMAL, which others use, may lose the last commits at a power cut), and a
 * bounded wait for other writers. Transactions are begun IMMEDIATE: a deferred one that turns into a
 * writer fails at once where another wrote in between, whatever the busy timeout.
 */
import { closeSync, fsyncSync, mkdirSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { AgentqError, isAgentqError } from "../../../errors.ts";
import { absolutePath, danglingLink } from "../../../platform/directory.ts";
import { assertUsableUmask } from "../../../platform/umask.ts";
import { startWaiting } from "../../../platform/waiting.ts";
import { sqliteFault } from "./faults.ts";
import {
  type FileIdentity,
  identityOf,
  requireNoOrphanedLog,
  requireOneName,
  requireSame,
} from "./place.ts";
import { isCurrent, isSomethingElse, migrate, missingTables } from "./schema.ts";

export interface SqliteOptions {
  /** Make the database where there is none. Otherwise `backend-missing`. */
  readonly create?: boolean;
  /** How long to wait for another process's transaction, in milliseconds; 5000 unless given. */
  readonly busyTimeoutMs?: number;
}

/**
 * A connection with its statements prepared once. Each piece of work begins with a look whether the path
 * still names the file that was opened, else `identity-changed`: an unlinked file goes on answering, and
 * all it would say is how things stood when it was removed.
 */
export interface Database {
  readonly label: string;
  /** Made with the database; a copy has the same. */
  readonly id: string;
  /** The statement for this SQL text, prepared on first use. */
  sql(text: string): StatementSync;
  /** Runs `work` with faults translated; one statement is a transaction of its own. */
  run<T>(work: () => T): T;
  /** Runs `work` in one write transaction: all of it or nothing. */
  write<T>(work: () => T): T;
  /** Runs `work` on one snapshot. */
  read<T>(work: () => T): T;
  close(): void;
}

/** Opens `file`; creates or completes the tables where needed. Throws `backend-…`. */
export function openDatabase(file: string, options: SqliteOptions = {}): Database {
  const path = absolutePath(file);
  const label = `sqlite:${file}`;
  const busyTimeoutMs = options.busyTimeoutMs ?? 5000;
  let identity: FileIdentity | null;
  let db: DatabaseSync | undefined;
  let id: string;
  try {
    requireNoOrphanedLog(path, options.create ?? false);
    const isNew = identityOf(path) === null;
    if (isNew) {
      requireMayCreate(path, options.create ?? false);
      assertUsableUmask(path);
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
      makePrivate(path);
    }
    identity = identityOf(path);
    requireOneName(path);
    db = new DatabaseSync(path);
    configure(db, label, busyTimeoutMs, options.create ?? false);
    // The database's own name: SQLite syncs its files, and the directory only for journals.
    if (isNew) syncDirectory(dirname(path));
    if (identity === null) throw new AgentqError("backend-missing", `there is no database ${path}`);
    requireSame(path, identity);
    id = String(db.prepare("SELECT id FROM agentq_identity").get()?.id ?? "");
  } catch (error) {
    // Before the files that are open are closed: they may be what there are too many of.
    const fault = openFault(error, label, path);
    db?.close();
    throw fault;
  }
  return connection(db, { label, id }, path, identity, patience(label, busyTimeoutMs));
}

/** Throws `backend-missing` where there is no database and none is to be made. */
function requireMayCreate(path: string, create: boolean): void {
  const dangling = danglingLink(path);
  if (dangling !== null) {
    const { link, target } = dangling;
    throw new AgentqError("backend-missing", `${link} is a link to ${target}, which isn't there`, {
      hint: "Correct the link or remove it: no database is created through it.",
    });
  }
  if (!create) throw new AgentqError("backend-missing", `there is no database ${path}`);
}

function configure(db: DatabaseSync, label: string, busyTimeoutMs: number, create: boolean): void {
  const patiently = patience(label, busyTimeoutMs);
  db.exec(`PRAGMA busy_timeout = ${Math.max(0, Math.trunc(Math.min(busyTimeoutMs, PART_MS)))}`);
  if (patiently(() => isSomethingElse(db))) {
    throw new AgentqError("backend-unsupported", `${label} is a database of something else`, {
      hint: "Name another file: agentq keeps its queues in a database of their own.",
    });
  }
  patiently(() => db.exec("PRAGMA journal_mode = WAL"));
  db.exec("PRAGMA synchronous = FULL");
  if (patiently(() => isCurrent(db))) return;
  const missing = missingTables(db, create);
  if (missing.length > 0) {
    throw new AgentqError("backend-corrupt", `${label} has lost its table ${missing.join(", ")}`);
  }
  if (!create && db.prepare("SELECT count(*) AS n FROM sqlite_master").get()?.n === 0) {
    throw new AgentqError("backend-missing", `${label} is empty`);
  }
  patiently(() => db.exec("BEGIN IMMEDIATE"));
  try {
    migrate(db);
    db.exec("COMMIT");
  } catch (error) {
    rollback(db);
    throw error;
  }
}

function connection(
  db: DatabaseSync,
  { label, id }: Pick<Database, "label" | "id">,
  path: string,
  identity: FileIdentity,
  patiently: Patience,
): Database {
  const statements = new Map<string, StatementSync>();
  // It is there as long as the connection.
  const log = identityOf(`${path}-wal`);
  const sql = (text: string) => {
    let statement = statements.get(text);
    if (statement === undefined) statements.set(text, statement = db.prepare(text));
    return statement;
  };
  let inTransaction = false;
  const run = <T>(work: () => T): T => {
    try {
      if (inTransaction) return work();
      requireSame(path, identity, log);
      return patiently(work);
    } catch (error) {
      throw sqliteFault(error, label, path);
    }
  };
  const transaction = <T>(begin: string, work: () => T): T => {
    let begun = false;
    try {
      patiently(() => sql(begin).run());
      begun = inTransaction = true;
      requireSame(path, identity, log); // Not before the wait for the lock.
      const result = work();
      sql("COMMIT").run();
      return result;
    } catch (error) {
      if (begun) rollback(db);
      throw sqliteFault(error, label, path);
    } finally {
      inTransaction = false;
    }
  };
  return {
    label,
    id,
    sql,
    run,
    write: (work) => transaction("BEGIN IMMEDIATE", work),
    read: (work) => transaction("BEGIN", work),
    close: () => {
      statements.clear();
      db.close();
    },
  };
}

/** SQLite may have rolled back already, as it does when the disk is full. */
function rollback(db: DatabaseSync): void {
  try {
    db.exec("ROLLBACK");
  } catch {
    // No transaction is open any more.
  }
}

/** Does again what failed since others have the lock, until that has taken too long. Nothing of it was done. */
type Patience = <T>(work: () => T) => T;

/** SQLite waits in silence: in between it is told that it does. */
const PART_MS = 1000;
const NAP_MS = 10;

function patience(label: string, busyTimeoutMs: number): Patience {
  return (work) => {
    const began = performance.now();
    const waiting = startWaiting();
    const isOver = () => performance.now() - began >= busyTimeoutMs - NAP_MS;
    try {
      for (;;) {
        try {
          return work();
        } catch (error) {
          if (!isBusy(error) || isOver()) throw error;
          waiting.still(() => `waiting for the lock of ${label}`);
          // Turning the log on doesn't wait for others as everything else does.
          Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, NAP_MS);
        }
      }
    } finally {
      waiting.over();
    }
  };
}

function isBusy(error: unknown): boolean {
  return !(error instanceof AgentqError) && isAgentqError(sqliteFault(error, ""), "backend-busy");
}

/**
 * Makes the empty file, for its owner alone: SQLite would make one that all may read. The log and the
 * shared memory beside it get the database's own mode.
 */
function makePrivate(path: string): void {
  try {
    closeSync(openSync(path, "wx", 0o600));
  } catch (error) {
    if ((error as { code?: unknown }).code !== "EEXIST") throw error; // Another process was faster.
  }
}

function syncDirectory(directory: string): void {
  const fd = openSync(directory, "r");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

function openFault(error: unknown, label: string, path: string): unknown {
  const fault = sqliteFault(error, label, path);
  const { code } = error as { code?: unknown };
  if (fault instanceof AgentqError || typeof code !== "string") return fault;
  return new AgentqError("io-error", `${path}: ${(error as Error).message}`, {
    cause: error,
    details: { path, errno: code },
  });
}
