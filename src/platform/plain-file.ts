/**
 * Reading small files that others could have put something else in the place of: no link is followed, and
 * nobody waits for a FIFO that has no writer.
 */
import fs, { constants } from "node:fs";
import { errnoOf, ioError } from "./durable.ts";

/** Opens at once whatever lies there, and no link. */
export const READ_PLAIN = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) |
  (constants.O_NONBLOCK ?? 0);

export interface PlainFileOptions {
  /** Bytes; a longer file is none. */
  readonly limit: number;
  /** The one other name that it may have, if any. */
  readonly alias?: string;
}

/**
 * All of a regular file of this user's. Null where there is none at `path`: nothing, a link, a directory, a
 * FIFO, another user's, one with more names or longer than allowed.
 * @throws `io-error` where there may be one that can't be read now
 */
export function readPlainFile(path: string, options: PlainFileOptions): Uint8Array | null {
  const { limit, alias } = options;
  let fd: number | undefined;
  try {
    fd = fs.openSync(path, READ_PLAIN);
    const stat = fs.fstatSync(fd, { bigint: true });
    const mine = process.geteuid === undefined || Number(stat.uid) === process.geteuid();
    if (!stat.isFile() || !mine || stat.size > limit) return null;
    if (stat.nlink > 1n && !(stat.nlink === 2n && leadsTo(alias, stat))) return null;
    const bytes = fs.readFileSync(fd);
    return bytes.length > limit ? null : bytes;
  } catch (error) {
    if (NOT_PLAIN.has(errnoOf(error) ?? "")) return null;
    throw ioError("read", path, error);
  } finally {
    if (fd !== undefined) fs.closeSync(fd);
  }
}

function leadsTo(path: string | undefined, file: fs.BigIntStats): boolean {
  const found = path && fs.lstatSync(path, { bigint: true, throwIfNoEntry: false });
  return !!found && found.dev === file.dev && found.ino === file.ino;
}

/** Nothing, a link, a socket, a directory: as open and read say it on the systems there are. */
const NOT_PLAIN = new Set(["ENOENT", "ENOTDIR", "ELOOP", "EMLINK", "ENXIO", "EISDIR"]);
