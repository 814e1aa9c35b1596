/** Steps 3 to 5 of a transaction (see `transaction.ts`): what is written, in which order, with which sync. */
import { AgentqError } from "../errors.ts";
import { ioError, syncError } from "../platform/durable.ts";
import { type FileStat, sameFile } from "../platform/files.ts";
import type { Admitted } from "./admission.ts";
import { admitDirectory, assertSame, lstatOrNull } from "./admit.ts";
import { assertHeld, type ExclusiveFile } from "./exclusive.ts";
import { objectDirectory, payloadPath } from "./layout.ts";
import { writeAllObjects } from "./payload.ts";
import type { StoreContext } from "./transaction.ts";
import type { Token } from "./types.ts";

/**
 * Makes the new state the authority: objects, the state's file, the rename, the parent's sync. Errors
 * before the rename take everything back; one after it is `commit-uncertain`.
 */
export async function commit(
  context: StoreContext,
  lock: ExclusiveFile,
  admitted: Admitted,
  objects: ReadonlyMap<Token, Uint8Array>,
  bytes: Uint8Array,
): Promise<void> {
  const { paths, platform } = context;
  const { files } = platform;
  let written: FileStat;
  try {
    await writeObjects(context, objects);
    written = writeTemp(context, lock, bytes);
    assertHeld(platform, lock);
    // A root swapped meanwhile shows here too: its namespace would be another.
    assertSame(files, paths.namespace, admitted.namespace);
    assertSame(files, paths.state, admitted.stateFile);
    rename(context, lock, written);
  } catch (error) {
    if (!(error instanceof AgentqError && error.code === "commit-uncertain")) {
      abort(context, objects);
    }
    throw error;
  }
  try {
    files.syncDirectory("state.sync-parent", paths.namespace);
    assertSame(files, paths.state, written);
  } catch (error) {
    const cause = syncError(paths.namespace, error);
    if (cause.code === "durability-unavailable") throw cause;
    throw uncertain(paths.state, cause);
  }
}

async function writeObjects(
  context: StoreContext,
  objects: ReadonlyMap<Token, Uint8Array>,
): Promise<void> {
  if (objects.size === 0) return;
  const { paths, policy } = context;
  const { files } = context.platform;
  admitDirectory(files, paths.objects, policy);
  await writeAllObjects(files, paths, objects);
  try {
    files.syncDirectory("objects.sync", paths.objects);
  } catch (error) {
    throw syncError(paths.objects, error);
  }
}

/** The lock's announcement, empty and private so far, takes the new state. */
function writeTemp(context: StoreContext, lock: ExclusiveFile, bytes: Uint8Array): FileStat {
  const { files } = context.platform;
  const { path, fd } = lock.announcement!;
  try {
    files.write("state.write-temp", fd, bytes);
    files.sync("state.sync-temp", fd);
    return files.fstat(fd);
  } catch (error) {
    throw ioError("write", path, error);
  }
}

/** A rename that fails has usually not happened; whether it has is looked at, not assumed. */
function rename(context: StoreContext, lock: ExclusiveFile, written: FileStat): void {
  const { files } = context.platform;
  const { state } = context.paths;
  const { path: temp, fd } = lock.announcement!;
  try {
    files.rename("state.rename", temp, state);
  } catch (error) {
    const cause = ioError("replace", state, error);
    let now: FileStat | null;
    try {
      now = lstatOrNull(files, temp);
    } catch {
      throw uncertain(state, cause);
    }
    // Still under its old name: it wasn't renamed.
    if (now !== null && sameFile(now, written)) throw cause;
    throw uncertain(state, cause);
  }
  lock.announcement = null;
  files.close(fd);
}

function uncertain(path: string, cause: AgentqError): AgentqError {
  return new AgentqError(
    "commit-uncertain",
    `the new ${path} is in place but may not last: ${cause.message}`,
    { cause, details: { path, ...cause.details } },
  );
}

/** Takes back what no state refers to. What can't be removed stays, an orphan for `gc`. */
function abort(context: StoreContext, objects: ReadonlyMap<Token, Uint8Array>): void {
  const { files } = context.platform;
  for (const object of objects.keys()) {
    const directory = objectDirectory(context.paths, object);
    if (lstatOrNull(files, directory) === null) continue;
    attempt(() => files.unlink("abort.unlink-payload", payloadPath(context.paths, object)));
    attempt(() => files.rmdir("abort.rmdir-object", directory));
  }
}

/** Still under the lock, so that nobody is just starting to read them. Failure is never an error. */
export async function collect(context: StoreContext, released: readonly Token[]): Promise<void> {
  const { files } = context.platform;
  const removeDirectory = (object: Token) =>
    attempt(() => files.rmdir("collect.rmdir", objectDirectory(context.paths, object)));
  if (released.length === 1) {
    attempt(() => files.unlink("collect.unlink", payloadPath(context.paths, released[0]!)));
    removeDirectory(released[0]!);
    return;
  }
  await Promise.allSettled(released.map(async (object) => {
    await files.unlinkLater("collect.unlink", payloadPath(context.paths, object));
    removeDirectory(object);
  }));
}

function attempt(action: () => void): boolean {
  try {
    action();
    return true;
  } catch {
    return false;
  }
}
