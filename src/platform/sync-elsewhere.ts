/** Syncs that other threads make, while this one goes on with something else. */
import fs, { constants } from "node:fs";
import { later } from "./at-once.ts";

/** An open file, or a directory by its path. */
export type ToSync = { readonly fd: number } | { readonly directory: string };

/**
 * Begins all these syncs. Resolves when none is going on any more, with the error of each or null, in the
 * order given; descriptors must stay open until then.
 */
export function syncElsewhere(requests: readonly ToSync[]): Promise<unknown[]> {
  return Promise.all(requests.map(async (request) => {
    try {
      await ("fd" in request ? syncFile(request.fd) : syncDirectory(request.directory));
      return null;
    } catch (error) {
      return error;
    }
  }));
}

const syncFile = (fd: number) => later<void>((done) => fs.fsync(fd, done));

async function syncDirectory(path: string): Promise<void> {
  // Windows has no way to flush a directory; NTFS journals the entries itself.
  if (process.platform === "win32") return;
  const { O_RDONLY, O_DIRECTORY = 0, O_NOFOLLOW = 0 } = constants;
  const fd = fs.openSync(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  try {
    await syncFile(fd);
  } finally {
    fs.closeSync(fd);
  }
}
