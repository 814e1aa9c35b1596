/**
 * One connection, opened so that its promises hold: write-ahead log, a sync at every commit
 * (`synchronous=FULL`; NORMAL, which others use, may lose the last commits at a power cut), and a
 * bounded wait for other writers. Transactions are begun IMMEDIATE: a deferred one that turns into a
 * writer fails at once where another wrote in between, whatever the busy timeout.
 */
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { AgentqError } from "../../../errors.ts";
import { absolutePath } from "../../../platform/directory.ts";
import { sqliteFault } from "./faults.ts";
import { isCurrent, isSomethingElse, migrate } from "./schema.ts";

export interface SqliteOptions {
  /** Make the database where there is none. Otherwise `backend-missing`. */
  readonly create?: boolean;
  /** How long to wait for another process's transaction, in milliseconds; 5000 unless given. */
  readonly busyTimeoutMs?: number;
}

/** A connection with its statements prepared once. */
export interface Database {
  readonly label: string;
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
  const isNew = !existsSync(path);
  if (isNew && !options.create) {
    throw new AgentqError("backend-missing", `there is no database ${path}`);
  }
  let db: DatabaseSync | undefined;
  try {
    if (isNew) {
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
      makePrivate(path);
    }
    db = new DatabaseSync(path);
    configure(db, label, busyTimeoutMs, options.create ?? false);
    // The database's own name: SQLite syncs its files, and the directory only for journals.
    if (isNew) syncDirectory(dirname(path));
  } catch (error) {
    db?.close();
    throw openFault(error, label, path);
  }
  return connection(db, label);
}

function configure(db: DatabaseSync, label: string, busyTimeoutMs: number, create: boolean): void {
  db.exec(`PRAGMA busy_timeout = ${Math.max(0, Math.trunc(busyTimeoutMs))}`);
  if (isSomethingElse(db)) {
    throw new AgentqError("backend-unsupported", `${label} is a database of something else`, {
      hint: "Name another file: agentq keeps its queues in a database of their own.",
    });
  }
  // Turning the log on doesn't wait for others as everything else does.
  retryWhileBusy(busyTimeoutMs, () => db.exec("PRAGMA journal_mode = WAL"));
  db.exec("PRAGMA synchronous = FULL");
  if (isCurrent(db)) return;
  if (!create && db.prepare("SELECT count(*) AS n FROM sqlite_master").get()?.n === 0) {
    throw new AgentqError("backend-missing", `${label} is empty`);
  }
  db.exec("BEGIN IMMEDIATE");
  try {
    migrate(db);
    db.exec("COMMIT");
  } catch (error) {
    rollback(db);
    throw error;
  }
}

function connection(db: DatabaseSync, label: string): Database {
  const statements = new Map<string, StatementSync>();
  const sql = (text: string) => {
    let statement = statements.get(text);
    if (statement === undefined) statements.set(text, statement = db.prepare(text));
    return statement;
  };
  const run = <T>(work: () => T): T => {
    try {
      return work();
    } catch (error) {
      throw sqliteFault(error, label);
    }
  };
  const transaction = <T>(begin: string, work: () => T): T => {
    let begun = false;
    try {
      sql(begin).run();
      begun = true;
      const result = work();
      sql("COMMIT").run();
      return result;
    } catch (error) {
      if (begun) rollback(db);
      throw sqliteFault(error, label);
    }
  };
  return {
    label,
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

function retryWhileBusy(forMs: number, work: () => void): void {
  const until = performance.now() + forMs;
  const nap = new Int32Array(new SharedArrayBuffer(4));
  for (;;) {
    try {
      return work();
    } catch (error) {
      const fault = sqliteFault(error, "");
      const busy = fault instanceof AgentqError && fault.code === "backend-busy";
      if (!busy || performance.now() >= until) throw error;
      Atomics.wait(nap, 0, 0, 10);
    }
  }
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
  const fault = sqliteFault(error, label);
  const { code } = error as { code?: unknown };
  if (fault instanceof AgentqError || typeof code !== "string") return fault;
  return new AgentqError("io-error", `${path}: ${(error as Error).message}`, {
    cause: error,
    details: { path, errno: code },
  });
}
