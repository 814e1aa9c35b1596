/** SQLite's result codes as agentq's errors. */
import { AgentqError, type ErrorCode } from "../../../errors.ts";
import { isDiskFull, whyNotOpened } from "./place.ts";
import { whyDenied } from "./permissions.ts";

interface Fault {
  readonly codes: readonly number[];
  readonly words: RegExp;
  readonly code: ErrorCode;
}

const IO_ERROR: Fault = { codes: [10], words: /disk I\/O error/, code: "backend-error" };

/** Primary result codes; where the runtime gives none (Deno), SQLite's own words for them. */
const FAULTS: readonly Fault[] = [
  {
    codes: [5, 6],
    words: /database (table )?is locked|database schema is locked/,
    code: "backend-busy",
  },
  { codes: [13], words: /database or disk is full/, code: "backend-full" },
  {
    codes: [11, 26],
    words: /malformed|file is not a database|malformed database schema|no such (table|column)/,
    code: "backend-corrupt",
  },
  {
    codes: [3, 8, 14, 23],
    words: /readonly database|access permission denied|unable to open database|not authorized/,
    code: "backend-denied",
  },
  IO_ERROR,
];

const CAN_NOT_OPEN = { code: 14, words: /unable to open database/ };

/**
 * The error to throw for one that `node:sqlite` threw; any other error comes back unchanged.
 * @param path the database's, to say why it couldn't be opened
 */
export function sqliteFault(error: unknown, label: string, path?: string): unknown {
  if (!(error instanceof Error)) return error;
  const { code, errcode } = error as { code?: unknown; errcode?: unknown };
  if (code !== "ERR_SQLITE_ERROR" && typeof errcode !== "number") return error;
  const primary = typeof errcode === "number" ? errcode & 0xff : -1;
  // Beside the runtimes that give none, an error of the statement itself (1) is told by its words.
  const byWords = primary === -1 || primary === 1;
  const fault = FAULTS.find(({ codes, words }) =>
    codes.includes(primary) || (byWords && words.test(error.message))
  );
  const notOpened = primary === CAN_NOT_OPEN.code || CAN_NOT_OPEN.words.test(error.message);
  const why = notOpened && path !== undefined ? whyNotOpened(path, error) : null;
  if (path !== undefined && (why ?? fault)?.code === "backend-denied") {
    const denied = whyDenied(path, label, error);
    if (denied !== null) return denied;
  }
  if (why !== null) return why;
  // So it calls a full disk where the shared memory of its log finds no room.
  const full = fault === IO_ERROR && path !== undefined && isDiskFull(path);
  const said = full ? `${error.message}: the disk is full` : error.message;
  const kind = full ? "backend-full" : fault?.code ?? "backend-error";
  return new AgentqError(kind, `${label}: ${said}`, {
    cause: error,
    details: { backend: label, ...(primary >= 0 ? { sqlite: primary } : {}) },
  });
}
