/**
 * Files that are still there, whole, after a power cut once the call has returned.
 *
 *   write a private temp file → fsync it → rename it over the name → fsync the directory
 *
 * The rename makes the change visible whole; the directory's fsync makes it last.
 */
import { statfsSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { AgentqError } from "../errors.ts";
import { type FileSystem, nodeFiles } from "./files.ts";
import { randomBytes } from "./hash.ts";

export interface DurableOptions {
  /** Permission bits of the file. Default 0o600. */
  mode?: number;
  files?: FileSystem;
}

/** Creates a file that must not exist (`EEXIST` in details.errno) and makes it last. */
export function writeFileDurable(
  path: string,
  content: string | Uint8Array,
  options: DurableOptions = {},
): void {
  const files = options.files ?? nodeFiles;
  let created = false;
  try {
    const fd = files.create("durable.create", path, options.mode ?? 0o600);
    created = true;
    fill(files, fd, content);
  } catch (error) {
    // An unfinished file must not be taken for a finished one.
    if (created) discard(files, path);
    throw ioError("write", path, error);
  }
  syncDirectory(dirname(path), files);
}

/** Creates or atomically replaces a file and makes it last. Readers see the old or the new, whole. */
export function replaceFileDurable(
  path: string,
  content: string | Uint8Array,
  options: DurableOptions = {},
): void {
  const files = options.files ?? nodeFiles;
  const temp = join(
    dirname(path),
    `.${basename(path).slice(0, 200)}.${randomBytes(8).toString("hex")}.tmp`,
  );
  let created = false;
  try {
    const fd = files.create("durable.create-temp", temp, options.mode ?? 0o600);
    created = true;
    fill(files, fd, content);
    files.rename("durable.rename", temp, path);
  } catch (error) {
    if (created) discard(files, temp);
    throw ioError("replace", path, error);
  }
  syncDirectory(dirname(path), files);
}

/**
 * Makes the entries of a directory last. A file system that can't say so (EINVAL, ENOTSUP) is
 * `durability-unavailable`, never success.
 */
export function syncDirectory(path: string, files: FileSystem = nodeFiles): void {
  try {
    files.syncDirectory("durable.sync-directory", path);
  } catch (error) {
    throw syncError(path, error);
  }
}

function fill(files: FileSystem, fd: number, content: string | Uint8Array): void {
  try {
    const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
    files.write("durable.write", fd, bytes);
    files.sync("durable.sync", fd);
  } finally {
    files.close(fd);
  }
}

function discard(files: FileSystem, path: string): void {
  try {
    files.unlink("durable.discard", path);
  } catch {
    // The first error is the one to report.
  }
}

/** The system's error code (`ENOSPC`, …), or null for anything else. */
export function errnoOf(error: unknown): string | null {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" && /^E[A-Z0-9]+$/.test(code) ? code : null;
}

/** An `io-error` that names the operation and the path and keeps the errno. */
export function ioError(
  operation: string,
  path: string,
  cause: unknown,
  details: Record<string, unknown> = {},
): AgentqError {
  if (cause instanceof AgentqError) return cause;
  const errno = errnoOf(cause);
  const said = cause instanceof Error ? cause.message : String(cause);
  const words = errno === null ? null : new RegExp(`^${errno}: ([^,]+)`).exec(said)?.[1];
  const reason = errno === null ? said : words ? `${words} (${errno})` : errno;
  const inodes = errno === "ENOSPC" && hasNoInodes(path);
  return new AgentqError("io-error", `can't ${operation} ${path}: ${reason}`, {
    cause,
    ...(inodes ? { hint: `${NO_INODES}.` } : {}),
    retryable: errno === "EINTR" || errno === "EMFILE" || errno === "ENFILE" || errno === "EAGAIN",
    details: { operation, path, ...(errno === null ? {} : { errno }), ...details },
  });
}

const NO_INODES = "The file system holds as many files as it can (no inodes are free): remove some";

/** What to do first about a disk that is full, of space or of files; null where the error is none of that. */
export function makeRoom({ hint, details }: AgentqError): string | null {
  if (details?.errno !== "ENOSPC" && details?.errno !== "EDQUOT") return null;
  return hint === `${NO_INODES}.` ? NO_INODES : "The disk is full: free some space";
}

/** Space is free, and no file can be made all the same. */
function hasNoInodes(path: string): boolean {
  for (const at of [path, dirname(path), dirname(dirname(path))]) {
    try {
      const { files, ffree, bavail } = statfsSync(at);
      return files > 0 && ffree === 0 && bavail > 0;
    } catch {
      // Nothing is there: what is above it lies on the same file system, as a rule.
    }
  }
  return false;
}

/** The error of a failed directory sync. */
export function syncError(path: string, cause: unknown): AgentqError {
  const errno = errnoOf(cause);
  if (errno === "EINVAL" || errno === "ENOTSUP" || errno === "EOPNOTSUPP") {
    return new AgentqError(
      "durability-unavailable",
      `the file system of ${path} can't make directory changes last (fsync: ${errno})`,
      { cause, details: { operation: "sync", path, errno } },
    );
  }
  return ioError("sync", path, cause);
}
