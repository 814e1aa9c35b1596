/** Which permission a database lacks that SQLite says may not be written, or not opened. */
import { accessSync, constants, statSync } from "node:fs";
import { dirname } from "node:path";
import { AgentqError } from "../../../errors.ts";

const { R_OK, W_OK, X_OK } = constants;

/** Names the file or directory that this user may not write, and its mode; null where each may be. */
export function whyDenied(path: string, label: string, cause: Error): AgentqError | null {
  const directory = dirname(path);
  const files = [path, `${path}-wal`, `${path}-shm`];
  const looked: readonly (readonly [string, number, string])[] = [
    ...files.map((file) => [file, R_OK, "read"] as const),
    ...files.map((file) => [file, W_OK, "write"] as const),
    // Its log is made beside it.
    [directory, W_OK | X_OK, "make files in"],
  ];
  for (const [file, wanted, what] of looked) {
    const errno = refusal(file, wanted);
    if (errno === null) continue;
    const why = errno === "EROFS" ? "its file system is read-only" : modeOf(file);
    return new AgentqError(
      "backend-denied",
      `${label}: ${cause.message}: this user may not ${what} ${file}: ${why}`,
      {
        cause,
        hint: "Check who owns the database and its directory: its log is written beside it.",
        details: { path: file, errno },
      },
    );
  }
  return null;
}

function refusal(file: string, wanted: number): string | null {
  try {
    accessSync(file, wanted);
    return null;
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException;
    return code === "ENOENT" ? null : code;
  }
}

function modeOf(file: string): string {
  const { mode, uid, gid } = statSync(file);
  const me = `${process.geteuid?.() ?? "?"}:${process.getegid?.() ?? "?"}`;
  const bits = (mode & 0o7777).toString(8).padStart(4, "0");
  return `it has mode ${bits} and belongs to ${uid}:${gid}, this is ${me}`;
}
