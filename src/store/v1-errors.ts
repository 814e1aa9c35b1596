/** What fs-safe and the system say of v1's files, as this program's errors; and whether a message is in place. */
import { lstatSync } from "node:fs";
import { AgentqError, type ErrorCode } from "../errors.ts";
import { errnoOf, ioError } from "../platform/durable.ts";

/** Refusals of link(2): EISDIR is what exFAT drivers answer. */
const LINK_REFUSALS = new Set([
  "EACCES",
  "EPERM",
  "EXDEV",
  "ENOTSUP",
  "EOPNOTSUPP",
  "ENOSYS",
  "EISDIR",
]);

/** Turns what fs-safe and the system throw into this program's errors. */
export async function typed<T>(
  operation: string,
  path: string,
  call: () => Promise<T>,
): Promise<T> {
  try {
    return await call();
  } catch (error) {
    throw toTyped(operation, path, error);
  }
}

const FS_SAFE_CODES: Readonly<Record<string, ErrorCode>> = {
  "helper-unavailable": "helper-unavailable",
  "already-exists": "already-exists",
  "path-mismatch": "identity-changed",
  "timeout": "store-locked",
  "file_lock_timeout": "store-locked",
  "file_lock_stale": "store-locked",
};

export function toTyped(operation: string, path: string, error: unknown): AgentqError {
  const { code, syscall } = error as { code?: unknown; syscall?: unknown };
  const message = error instanceof Error ? error.message : String(error);
  const errno = errnoOf(error);
  if (errno !== null && syscall === "link" && LINK_REFUSALS.has(errno)) {
    return new AgentqError(
      "helper-unavailable",
      `can't ${operation} ${path}: the system refuses hardlinks (${errno})`,
      { cause: error, details: { operation, path, errno } },
    );
  }
  if (errno === "ENOENT" && operation === "fail") {
    return new AgentqError("not-found", `there is no message at ${path}`, { cause: error });
  }
  if (errno !== null) return ioError(operation, path, error);
  const known = FS_SAFE_CODES[String(code)];
  if (known !== undefined) {
    return new AgentqError(known, `can't ${operation} ${path}: ${message}`, {
      cause: error,
      hint: FS_SAFE_HINTS[known],
      details: { operation, path, reason: String(code) },
    });
  }
  if (operation === "claim") {
    return new AgentqError("payload-unreadable", `can't read ${path}: ${message}`, {
      cause: error,
    });
  }
  return new AgentqError("io-error", `can't ${operation} ${path}: ${message}`, { cause: error });
}

const FS_SAFE_HINTS: { readonly [Code in ErrorCode]?: string } = {
  "helper-unavailable":
    "fs-safe's native helper is required and can't be loaded: set FS_SAFE_NATIVE_MODE to auto or off.",
  "identity-changed":
    "fs-safe doesn't accept what is at that path: look at its owner, links and permissions.",
};

/**
 * fs-safe looks whether what it has renamed into place is still there, alone. A consumer may have been
 * faster: the message is then gone, or has a second name while it is being claimed.
 */
export function wasPublished(path: string, error: unknown): boolean {
  const { code, message } = error as { code?: unknown; message?: unknown };
  return (code === "path-mismatch" || code === "hardlink") &&
    typeof message === "string" && message.endsWith(`: ${path}`);
}

/** fs-safe found no claim to acknowledge any more: nothing to rename, or a newer message alone. */
export function wasTaken(error: unknown): boolean {
  const { code, syscall } = error as { code?: unknown; syscall?: unknown };
  return (code === "ENOENT" && syscall === "rename") || code === "path-mismatch";
}

/** Which file is at a path, as far as it matters whether another has taken its place; null: none. */
export function versionOf(path: string): string | null {
  const stat = lstatSync(path, { bigint: true, throwIfNoEntry: false });
  return stat === undefined ? null : `${stat.dev}:${stat.ino}:${stat.mtimeNs}`;
}

/**
 * `commit-uncertain` where it can't be told whether the message was published: another file than `before` is
 * there, and it isn't what fs-safe has put there (a newer message of the id wouldn't be either), or the sync
 * failed that makes it last.
 */
export function unsure(path: string, before: string | null, error: unknown): AgentqError | null {
  const { code, syscall, message } = error as Record<"code" | "syscall" | "message", unknown>;
  const replaced = code === "path-mismatch" || code === "symlink" || code === "not-file";
  const unsynced = errnoOf(error) !== null && (syscall === "fsync" || syscall === "fdatasync");
  if ((!replaced && !unsynced) || versionOf(path) === before) return null;
  return new AgentqError("commit-uncertain", `${path} may have been written: ${message}`, {
    cause: error,
    details: { path, ...(unsynced ? { errno: errnoOf(error) } : {}) },
  });
}
