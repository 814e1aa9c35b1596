/**
 * Putting a pack into a repository so that it survives a power cut the moment it is visible:
 *
 *   tmp_pack_…, tmp_idx_… written ─▶ both fsync ─▶ rename .pack ─▶ rename .idx ─▶ fsync directory
 *
 * Readers look for `.idx` files, so a pack exists for them with the last rename only. What a crash
 * leaves is named `tmp_…`, which `git gc` prunes. Never a hard link.
 */
import { Buffer } from "node:buffer";
import {
  chmodSync,
  closeSync,
  fsyncSync,
  openSync,
  renameSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";
import { AgentqError } from "../errors.ts";
import { ioError } from "../platform/durable.ts";
import { createHash, randomBytes } from "../platform/hash.ts";
import type { Enumerated } from "./enumerate.ts";
import { fsyncDirectory } from "./loose.ts";
import { makeBelow } from "../platform/make-below.ts";
import { type PackedEntry, packIndexBytes, writePack } from "./pack-write.ts";
import type { ObjectReader } from "./types.ts";

export interface StoreOptions {
  /** What `core.sharedRepository` adds to permission bits (0 for none). */
  readonly sharedMode?: number;
  /** False where the pack is to be moved once more, and made durable then. */
  readonly syncDirectory?: boolean;
  /** Marks it as a promisor's, as git does: in a partial clone what it refers to may be missing. */
  readonly promisor?: boolean;
  /** Text of a `.keep` file that is there before the pack is seen: no gc removes it meanwhile. */
  readonly keep?: string;
}

/** A temporary file in a pack directory; the descriptor is the caller's to close. */
export function temporaryFile(
  packDirectory: string,
  kind: "pack" | "idx",
): { path: string; fd: number } {
  const path = `${packDirectory}/tmp_${kind}_${randomBytes(8).toString("hex")}`;
  for (let attempt = 0;; attempt++) {
    try {
      return { path, fd: openSync(path, "wx+", 0o444) };
    } catch (cause) {
      const code = (cause as { code?: string }).code;
      if (code !== "ENOENT" || attempt > 0) {
        throw new AgentqError("io-error", `Cannot write to ${packDirectory} (${code || cause}).`, {
          cause,
          details: { path: packDirectory, errno: code },
        });
      }
      // Its objects directory is there in every repository; where it isn't, the repository is gone.
      makeBelow(dirname(packDirectory), packDirectory);
    }
  }
}

/** Removes a file that may be gone already. */
export function discard(path: string): void {
  try {
    unlinkSync(path);
  } catch {
    // Gone, or left for git gc, which prunes files of these names.
  }
}

/**
 * Gives a complete, already synced temporary pack its index and its name.
 * @returns the path of the `.pack` file
 */
export function installPack(
  packDirectory: string,
  temporary: string,
  checksum: Buffer,
  entries: readonly PackedEntry[],
  options: StoreOptions = {},
): string {
  const index = temporaryFile(packDirectory, "idx");
  try {
    try {
      writeAll(index.fd, packIndexBytes(entries, checksum));
      fsyncSync(index.fd);
    } finally {
      closeSync(index.fd);
    }
    return moveIn(packDirectory, temporary, index.path, checksum, options);
  } catch (error) {
    discard(index.path);
    throw ioError("store a pack in", packDirectory, error);
  }
}

/** Both files are whole and last: gives them their names. */
function moveIn(
  packDirectory: string,
  pack: string,
  index: string,
  checksum: Buffer,
  options: StoreOptions,
): string {
  // Never the name of a pack with the same content, which a gc may be about to remove by that name.
  const unique = createHash("sha1").update(checksum).update(randomBytes(16)).digest("hex");
  const name = `${packDirectory}/pack-${unique}`;
  try {
    if (options.sharedMode) { for (const path of [pack, index]) chmodSync(path, 0o444); }
    if (options.keep !== undefined) writeFileSync(`${name}.keep`, options.keep, { flag: "wx" });
    if (options.promisor) writeFileSync(`${name}.promisor`, "", { flag: "wx" });
    renameSync(pack, `${name}.pack`);
    renameSync(index, `${name}.idx`);
    if (options.syncDirectory !== false) fsyncDirectory(packDirectory);
  } catch (error) {
    if (options.keep !== undefined) discard(`${name}.keep`);
    if (options.promisor) discard(`${name}.promisor`);
    throw error;
  }
  return `${name}.pack`;
}

/** A pack and its index as temporary files. Either `install` or `discard` must be called. */
export interface StagedPack {
  /** What must last before `install`. */
  readonly fds: readonly number[];
  /** @returns the path of the `.pack` file */
  install(options?: Pick<StoreOptions, "syncDirectory">): string;
  /** Removes what isn't installed. */
  discard(): void;
}

/** Writes the listed objects as one pack with its index into `packDirectory`, without any sync. */
export function stagePack(
  packDirectory: string,
  objects: ObjectReader,
  list: readonly Enumerated[],
  options: StoreOptions = {},
): StagedPack {
  const open: { path: string; fd: number }[] = [];
  const close = () => {
    for (const { fd } of open.splice(0)) closeSync(fd);
  };
  const failed = (error: unknown) => ioError("store a pack in", packDirectory, error);
  const paths: string[] = [];
  const discardAll = () => {
    close();
    paths.splice(0).forEach(discard);
  };
  const temporary = (kind: "pack" | "idx") => {
    const file = temporaryFile(packDirectory, kind);
    open.push(file);
    paths.push(file.path);
    return file.fd;
  };
  try {
    const { checksum, entries } = writeObjects(temporary("pack"), objects, list);
    writeAll(temporary("idx"), packIndexBytes(entries, checksum));
    return {
      fds: open.map(({ fd }) => fd),
      install(given = {}) {
        close();
        const [pack, index] = paths as [string, string];
        try {
          const path = moveIn(packDirectory, pack, index, checksum, { ...options, ...given });
          paths.length = 0;
          return path;
        } catch (error) {
          discardAll();
          throw failed(error);
        }
      },
      discard: discardAll,
    };
  } catch (error) {
    discardAll();
    throw failed(error);
  }
}

/**
 * Writes the listed objects as one pack into `packDirectory`.
 * @returns the path of the `.pack` file, or null for an empty list
 */
export function storePack(
  packDirectory: string,
  objects: ObjectReader,
  list: readonly Enumerated[],
  options: StoreOptions = {},
): string | null {
  if (list.length === 0) return null;
  const staged = stagePack(packDirectory, objects, list, options);
  try {
    for (const fd of staged.fds) fsyncSync(fd);
    return staged.install();
  } catch (error) {
    staged.discard();
    throw ioError("store a pack in", packDirectory, error);
  }
}

function writeObjects(fd: number, objects: ObjectReader, list: readonly Enumerated[]) {
  const entries: PackedEntry[] = [];
  const chunks = writePack(objects, list, { onEntry: (entry) => entries.push(entry) });
  let waiting: Buffer[] = [];
  let size = 0;
  let step = chunks.next();
  for (; !step.done; step = chunks.next()) {
    waiting.push(step.value);
    size += step.value.length;
    if (size < 1 << 18) continue;
    writeAll(fd, Buffer.concat(waiting));
    waiting = [];
    size = 0;
  }
  writeAll(fd, Buffer.concat(waiting));
  return { checksum: step.value, entries };
}

/** Writes all of `data` at the file's position. */
export function writeAll(fd: number, data: Uint8Array): void {
  for (let done = 0; done < data.length;) done += writeSync(fd, data, done, data.length - done);
}
