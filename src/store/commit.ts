/** Steps 3 to 5 of a transaction (see `transaction.ts`): what is written, in which order, with which sync. */
import { AgentqError } from "../errors.ts";
import { ioError, syncError } from "../platform/durable.ts";
import {
  type Descriptor,
  type FileStat,
  type FileSystem,
  type SyncRequest,
} from "../platform/files.ts";
import type { Admitted } from "./admission.ts";
import { assertSame, assertUnchanged, changed, lstatOrNull } from "./admit.ts";
import { assertHeld, type ExclusiveFile } from "./exclusive.ts";
import { objectDirectory, payloadPath } from "./layout.ts";
import { makeObjects } from "./payload.ts";
import { replaceState, uncertain } from "./replace-state.ts";
import type { StoreSite } from "./sites.ts";
import type { StoreContext } from "./transaction.ts";
import type { Token } from "./types.ts";

/**
 * Makes the new state the authority: objects, the state's file, the rename, the parent's sync. Errors
 * before the rename take everything back; one after it is `commit-uncertain`. Returns the state's file
 * as it is then.
 */
export async function commit(
  context: StoreContext,
  lock: ExclusiveFile,
  admitted: Admitted,
  objects: ReadonlyMap<Token, Uint8Array>,
  state: readonly Uint8Array[],
): Promise<FileStat> {
  const { paths, platform } = context;
  const { files } = platform;
  let written: FileStat;
  let old: Descriptor | null = null;
  try {
    written = await write(context, lock, objects, state);
    assertHeld(platform, lock);
    // A root swapped meanwhile shows here too: its namespace would be another.
    assertSame(files, paths.namespace, admitted.namespace);
    // Written to in place, it would be another state: one that this change was not made on.
    assertUnchanged(files, paths.state, admitted.stateFile);
    // The old state is kept from being freed until the new one lasts: a power cut in between may bring
    // it back, and freeing takes time.
    old = files.hold(paths.state, admitted.stateFile.dev);
    replaceState(context, lock, written, admitted.stateFile, old !== null);
  } catch (error) {
    if (old !== null) files.close(old);
    if (!(error instanceof AgentqError && error.code === "commit-uncertain")) {
      abort(context, objects);
    }
    throw error;
  }
  try {
    files.syncDirectory("state.sync-parent", paths.namespace);
    return assertSame(files, paths.state, written);
  } catch (error) {
    const cause = syncError(paths.namespace, error);
    if (cause.code === "durability-unavailable") throw cause;
    throw cause.code === "identity-changed"
      ? uncertain(paths.state, cause, "was put in place, where another stands now")
      : uncertain(paths.state, cause);
  } finally {
    if (old !== null) await files.letGo([old]);
  }
}

/** Payload files that are open at a time: few enough to stay far from the limit of open files. */
const MAX_OPEN = 100;

/**
 * Writes the new objects and the new state, and makes all of it last. Nothing orders these syncs among
 * each other, only before the rename, so that they are made together.
 */
async function write(
  context: StoreContext,
  lock: ExclusiveFile,
  objects: ReadonlyMap<Token, Uint8Array>,
  state: readonly Uint8Array[],
): Promise<FileStat> {
  const { paths } = context;
  const { files } = context.platform;
  const { path: temp, fd } = lock.announcement!;
  if (objects.size === 0) {
    writeTemp(files, lock, state);
    try {
      files.sync("state.sync-temp", fd);
    } catch (error) {
      throw ioError("write", temp, error);
    }
    return fstat(files, lock);
  }
  const all = [...objects];
  for (let from = 0; from < all.length; from += MAX_OPEN) {
    const made = await makeObjects(files, paths, all.slice(from, from + MAX_OPEN));
    try {
      const syncs: NamedSync[] = [
        ...made.map(({ path, fd }) => ({ site: "object.sync-file", path, fd }) as const),
        ...made.map(({ directory }) => directorySync("object.sync-directory", directory)),
      ];
      if (from + MAX_OPEN >= all.length) {
        writeTemp(files, lock, state);
        syncs.push(directorySync("objects.sync", paths.objects));
        syncs.push({ site: "state.sync-temp", path: temp, fd });
      }
      await syncAll(files, syncs);
    } finally {
      for (const { fd } of made) files.close(fd);
    }
  }
  return fstat(files, lock);
}

type NamedSync = SyncRequest<StoreSite> & { readonly path: string };

function directorySync(site: StoreSite, path: string): NamedSync {
  return { site, path, directory: path };
}

/** Throws the first error, once nothing is going on any more. */
async function syncAll(
  files: FileSystem<StoreSite>,
  syncs: readonly NamedSync[],
): Promise<void> {
  const errors = await files.syncAll(syncs);
  const failed = errors.findIndex((error) => error !== null);
  if (failed < 0) return;
  const { path } = syncs[failed]!;
  if ("directory" in syncs[failed]!) throw syncError(path, errors[failed]);
  throw ioError("sync", path, errors[failed]);
}

/** The lock's announcement, empty and private so far, takes the new state. */
function writeTemp(
  files: FileSystem<StoreSite>,
  lock: ExclusiveFile,
  state: readonly Uint8Array[],
): void {
  const { path, fd } = lock.announcement!;
  try {
    files.write("state.write-temp", fd, state);
  } catch (error) {
    throw ioError("write", path, error);
  }
}

function fstat(files: FileSystem<StoreSite>, lock: ExclusiveFile): FileStat {
  const { path, fd } = lock.announcement!;
  try {
    return files.fstat(fd);
  } catch (error) {
    throw ioError("write", path, error);
  }
}

/** Takes back what no state refers to. What can't be removed stays, an orphan for `gc`. */
function abort(context: StoreContext, objects: ReadonlyMap<Token, Uint8Array>): void {
  const { files } = context.platform;
  for (const object of objects.keys()) {
    const directory = objectDirectory(context.paths, object);
    if (!attempt(() => assertObjectDirectory(context, directory))) continue;
    attempt(() => files.unlink("abort.unlink-payload", payloadPath(context.paths, object)));
    attempt(() => files.rmdir("abort.rmdir-object", directory));
  }
}

/** Objects that are kept from being freed at a time, each a file and a directory. */
const MAX_HELD = 50;

/**
 * An object is a directory, ours, on the device of the one it lies in. Through a link that somebody has put in
 * its place, removing what is in it would remove a file of another place or of another message.
 */
function assertObjectDirectory(
  { platform: { files }, paths, policy }: StoreContext,
  directory: string,
): void {
  const found = lstatOrNull(files, directory);
  const isOurs = !policy.strictModes || files.uid === null || found?.uid === files.uid;
  const dev = lstatOrNull(files, paths.objects)?.dev;
  if (found?.kind !== "directory" || found.dev !== dev || !isOurs) throw changed(directory);
}

/**
 * Still under the lock, so that nobody is just starting to read them. Only the names go here: freeing what
 * they led to, which takes a disk much longer, is left to other threads. Failure is never an error.
 */
export async function collect(
  context: StoreContext,
  released: readonly Token[],
  dev: bigint,
): Promise<void> {
  const { platform: { files }, paths } = context;
  for (let from = 0; from < released.length; from += MAX_HELD) {
    const held: (Descriptor | null)[] = [];
    for (const object of released.slice(from, from + MAX_HELD)) {
      const [directory, payload] = [objectDirectory(paths, object), payloadPath(paths, object)];
      if (!attempt(() => assertObjectDirectory(context, directory))) continue;
      held.push(files.hold(payload, dev), files.hold(directory, dev));
      attempt(() => files.unlink("collect.unlink", payload));
      attempt(() => files.rmdir("collect.rmdir", directory));
    }
    await files.letGo(held.filter((fd) => fd !== null));
  }
}

function attempt(action: () => void): boolean {
  try {
    action();
    return true;
  } catch {
    return false;
  }
}
