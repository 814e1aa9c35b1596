/**
 * The file that a database's path names: which one it is, whether it is still that one, and what stands
 * in the way of opening it, about which SQLite says only that it can't.
 *
 * The file is looked at by its name and never opened here: closing a second descriptor of it would drop
 * the locks that this process holds through SQLite.
 */
import {
  accessSync,
  closeSync,
  constants,
  openSync,
  statfsSync,
  statSync,
  unlinkSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";
import { AgentqError } from "../../../errors.ts";

/** Device and inode. While a database is open, no other file can get its inode. */
export interface FileIdentity {
  readonly dev: bigint;
  readonly ino: bigint;
}

/** Which file `path` names now; null where there is none. Throws what the system says of the way there. */
export function identityOf(path: string): FileIdentity | null {
  const stat = statSync(path, { bigint: true, throwIfNoEntry: false });
  return stat === undefined ? null : { dev: stat.dev, ino: stat.ino };
}

/**
 * Throws `identity-changed` where the file has another name: SQLite keeps the log of what isn't in it yet
 * beside the name that it was opened by, so that under two names there would be two databases, each of which
 * writes over the other.
 */
export function requireOneName(path: string): void {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (!stat?.isFile() || stat.nlink <= 1) return;
  throw new AgentqError("identity-changed", `${path} has ${stat.nlink} names (hardlinks)`, {
    hint:
      "Remove the names that have no -wal beside them, or use a copy of file and log (cp, not ln or cp -l).",
    details: { path, links: stat.nlink },
  });
}

/**
 * The log beside `path` whose database isn't there: SQLite deletes it as soon as it opens a file that is empty, and
 * with it what was acknowledged and stands in it alone. Null where there is none. A log that holds something was
 * made after its database did, so it is looked at first.
 */
export function orphanedLog(path: string): string | null {
  const holdsSomething = (file: string) =>
    (statSync(file, { throwIfNoEntry: false })?.size ?? 0) > 0;
  const log = [`${path}-wal`, `${path}-journal`].find(holdsSomething);
  if (log === undefined || holdsSomething(path)) return null;
  // A database that is being made has a journal while it is empty.
  return log.endsWith("-journal") && identityOf(path) !== null ? null : log;
}

/** Throws where the log of a database that was moved, or cut to nothing, would be deleted. */
export function requireNoOrphanedLog(path: string, create: boolean): void {
  const log = orphanedLog(path);
  if (log === null) return;
  const hint =
    "The log belongs to a database that was moved or lost and has changes that aren't in it yet: " +
    "move it along, under the database's new name, or the database back; else move the log away.";
  const missing = identityOf(path) === null;
  throw new AgentqError(
    missing && !create ? "backend-missing" : "identity-changed",
    `${path} ${missing ? "isn't there" : "is empty"}, but its log is: ${log}`,
    { hint, details: { path, log } },
  );
}

/** Throws `identity-changed` unless `path` still names the file that was opened. `log`: that of its -wal. */
export function requireSame(
  path: string,
  opened: FileIdentity,
  log: FileIdentity | null = null,
): void {
  let now: FileIdentity | null;
  try {
    now = identityOf(path);
  } catch (cause) {
    throw changed(path, "can't be reached any more", cause);
  }
  if (isSame(now, opened)) return;
  // Only while it is still the old one's: a database that is in its place by now may have made its own.
  const left = log !== null && isSame(identityOf(`${path}-wal`), log);
  throw changed(
    path,
    now === null ? "was removed" : "was replaced by another file",
    undefined,
    left,
  );
}

function isSame(a: FileIdentity | null, b: FileIdentity): boolean {
  return a !== null && a.ino === b.ino && a.dev === b.dev;
}

/** `left`: the log of the old database stands at its place, which SQLite would take for the new one's. */
function changed(path: string, what: string, cause?: unknown, left = false): AgentqError {
  const [wal, shm] = [`${path}-wal`, `${path}-shm`];
  const still = left ? `; ${wal} and ${shm} are still those of the old one` : "";
  return new AgentqError("identity-changed", `${path} ${what} while it was open${still}`, {
    hint: left
      ? `Move ${wal} and ${shm} along with the old database, or away, before anything opens ${path}: ` +
        "they would be laid over another one. Then start again with the database that is meant."
      : "Start again with the database that is meant; what was only in the old one went with it.",
    details: { path, ...(left ? { left: [wal, shm] } : {}) },
    ...(cause === undefined ? {} : { cause }),
  });
}

/** True where the disk that the file lies on, or its user's quota, has no room for what SQLite keeps beside it. */
export function isDiskFull(path: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(dirname(path));
    if (bavail * bsize < SHARED_MEMORY_BYTES) return true;
  } catch {
    // Trying tells.
  }
  return noRoomBeside(path) !== null;
}

/** ENOSPC or EDQUOT where no file can be made beside it: room for names and quotas are counted apart. */
function noRoomBeside(path: string): string | null {
  const probe = `${path}-probe-${process.pid}`;
  let fd: number | undefined;
  try {
    fd = openSync(probe, "wx", 0o600);
    writeSync(fd, new Uint8Array(SHARED_MEMORY_BYTES));
    return null;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === "ENOSPC" || code === "EDQUOT" ? code : null;
  } finally {
    if (fd !== undefined) {
      closeSync(fd);
      unlinkSync(probe);
    }
  }
}

/** The least that SQLite makes the shared memory of a log. */
const SHARED_MEMORY_BYTES = 32 * 1024;

/** Why a file can't be opened that SQLite couldn't open; null where nothing is found. */
export function whyNotOpened(path: string, cause: unknown): AgentqError | null {
  const io = (errno: string, problem: string, hint?: string) =>
    new AgentqError("io-error", `${path}: ${problem}`, {
      cause,
      details: { path, errno },
      ...(hint === undefined ? {} : { hint }),
    });
  const descriptors = outOfDescriptors();
  if (descriptors !== null) return io(descriptors, "no file can be opened");
  try {
    if (statSync(path).isDirectory()) {
      return io("EISDIR", "it is a directory", "Name a file: sqlite:FILE.");
    }
    accessSync(path, constants.R_OK | constants.W_OK);
    accessSync(dirname(path), constants.W_OK | constants.X_OK); // For the log beside it.
    const full = noRoomBeside(path);
    if (full === null) return null;
    return new AgentqError(
      "backend-full",
      `${path}: the disk is full: there is no room for its log`,
      {
        cause,
        details: { path, errno: full },
      },
    );
  } catch (error) {
    const { code = "", message } = error as NodeJS.ErrnoException;
    if (code !== "EACCES" && code !== "EPERM") return io(code, message);
    return new AgentqError("backend-denied", `${path}: ${message}`, {
      cause,
      hint: "Check who owns the database and its directory: its log is written beside it.",
      details: { path, errno: code },
    });
  }
}

/** EMFILE or ENFILE where this process can't open as many files as a database needs. */
function outOfDescriptors(): string | null {
  const opened: number[] = [];
  try {
    for (let n = 0; n < 3; n++) opened.push(openSync("/", "r"));
    return null;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === "EMFILE" || code === "ENFILE" ? code : null;
  } finally {
    for (const fd of opened) closeSync(fd);
  }
}
