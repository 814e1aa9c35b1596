/**
 * One transaction: the only way anything in a store changes.
 *
 *   lock ─▶ admit ─▶ body (in memory) ─▶ objects ─▶ state temp ─▶ RENAME ─▶ sync parent ─▶ collect ─▶ unlock
 *                                        synced     synced          │           │
 *        crash here: the old state, at most orphans ◀───────────────┘           │
 *        crash here: the old or the new state, every object of both there ◀─────┘
 *        crash after the sync: the new state
 *
 * The rename is the only commit point; success is reported only after the parent's sync, which is what
 * makes it last. Two transactions of one process exclude each other by the same lock; readers see files.
 */
import { Buffer } from "node:buffer";
import { AgentqError } from "../errors.ts";
import { errnoOf, ioError, syncError } from "../platform/durable.ts";
import { type FileStat, sameFile } from "../platform/files.ts";
import {
  type AdmissionPolicy,
  admitDirectory,
  admitFile,
  admitRoot,
  assertSame,
  isUnchanged,
  lstatOrNull,
} from "./admit.ts";
import { assertHeld, type ExclusiveFile, releaseLeftovers, releaseOrKeep } from "./exclusive.ts";
import { objectDirectory, payloadPath, type StorePaths } from "./layout.ts";
import { acquireLock, type LockWait } from "./lock.ts";
import { readObject, writeAllObjects } from "./payload.ts";
import { nextRevision, parseFormat, parseState, serializeState, type StoreState } from "./state.ts";
import type { Revision, StoreLimits, StorePlatform, Token } from "./types.ts";

/** An opened store, as its operations see it. */
export interface StoreContext {
  readonly paths: StorePaths;
  readonly platform: StorePlatform;
  readonly limits: StoreLimits;
  readonly wait: LockWait;
  readonly policy: AdmissionPolicy;
  readonly storeId: string;
  /**
   * The state that is known to be durable, with its exact bytes: when state.json still has them,
   * neither parsing nor another sync of its parent is needed. Null while a transaction works on it.
   */
  trusted: { readonly bytes: Uint8Array; readonly state: StoreState } | null;
  /** format.json as it was admitted. */
  formatFile: FileStat | null;
}

/** What an operation works with under the lock. */
export interface Transaction {
  readonly state: StoreState;
  /** The revision that the state will have if anything changes. */
  readonly revision: Revision;
  readonly context: StoreContext;
  /** A fresh token, unlike any in the state. */
  token(): Token;
  /** A new payload, written before the commit. */
  addObject(bytes: Uint8Array): Token;
  /** A payload that the new state won't refer to, collected after the commit. */
  releaseObject(object: Token): void;
  readObject(object: Token): Uint8Array;
  /** Says that the state was changed and must be committed. */
  change(growth?: "bounded"): void;
}

/** Room that only new messages leave free, so that a full store can still be drained. */
const DRAIN_RESERVE = 1 / 16;

/** Runs `body` under the lock on the admitted state, and commits what it changed. */
export async function transact<T>(
  context: StoreContext,
  body: (transaction: Transaction) => T,
): Promise<T> {
  const { platform, paths, wait } = context;
  releaseLeftovers(platform);
  const lock = await acquireLock(platform, paths.lock, wait);
  try {
    return await runLocked(context, lock, body);
  } catch (error) {
    throw typed(paths, error);
  } finally {
    // The change is made or not, whatever becomes of the lock.
    releaseOrKeep(platform, lock);
  }
}

/** What the file system says outside of any more exact place. */
export function typed(paths: StorePaths, error: unknown): unknown {
  return errnoOf(error) === null ? error : ioError("use the store in", paths.root, error);
}

/** Runs `action` under the lock on the admitted and synced state, without committing anything. */
export async function withLock<T>(
  context: StoreContext,
  action: (state: StoreState) => T,
): Promise<T> {
  return await transact(context, ({ state }) => action(state));
}

async function runLocked<T>(
  context: StoreContext,
  lock: ExclusiveFile,
  body: (transaction: Transaction) => T,
): Promise<T> {
  const admitted = admit(context);
  const { state } = admitted;
  const objects = new Map<Token, Uint8Array>();
  const released: Token[] = [];
  let changed = false;
  let grows = false;
  const transaction: Transaction = {
    state,
    revision: nextRevision(state.revision),
    context,
    token: () => context.platform.token(),
    addObject(bytes) {
      const object = context.platform.token();
      objects.set(object, bytes);
      return object;
    },
    releaseObject: (object) => void released.push(object),
    readObject: (object) => {
      const { platform, paths, policy, limits } = context;
      return readObject(platform.files, paths, object, policy, limits.maxPayloadBytes);
    },
    change(growth) {
      changed = true;
      if (growth === "bounded") grows = true;
    },
  };

  // From here on the in-memory state may be half changed: it is trusted again only once it is whole.
  context.trusted = null;
  const result = body(transaction);
  if (!changed) {
    context.trusted = { bytes: admitted.bytes, state };
    return result;
  }
  state.revision = transaction.revision;
  const bytes = new TextEncoder().encode(serializeState(state));
  assertWithinLimits(context, state, bytes.length, grows);
  await commit(context, lock, admitted, objects, bytes);
  context.trusted = { bytes, state };
  await collect(context, released);
  return result;
}

interface Admitted {
  readonly root: FileStat;
  readonly namespace: FileStat;
  readonly stateFile: FileStat;
  readonly bytes: Uint8Array;
  readonly state: StoreState;
}

const MAX_FORMAT_BYTES = 4096;

/** Root, namespace, format and state are this store's; the state is durable. */
export function admit(context: StoreContext): Admitted {
  const { paths, policy, limits } = context;
  const { files } = context.platform;
  const root = admitRoot(files, paths.root, policy);
  const namespace = admitDirectory(files, paths.namespace, policy);
  admitFormat(context);

  const { stat, bytes } = admitFile(files, paths.state, policy, limits.maxStateBytes);
  if (context.trusted !== null && equalBytes(context.trusted.bytes, bytes)) {
    return { root, namespace, stateFile: stat, bytes, state: context.trusted.state };
  }
  // Its writer may have died between the rename and the sync: only now will it last.
  try {
    files.syncDirectory("admit.sync-parent", paths.namespace);
  } catch (error) {
    throw syncError(paths.namespace, error);
  }
  const state = parseState(decode(bytes), paths.state);
  if (state.storeId !== context.storeId) throw mismatch(paths.state, context.storeId);
  return { root, namespace, stateFile: stat, bytes, state };
}

/** format.json never changes: once it was read, lstat tells whether it still is that file. */
function admitFormat(context: StoreContext): void {
  const { paths, policy } = context;
  const { files } = context.platform;
  if (context.formatFile !== null && isUnchanged(files, paths.format, context.formatFile)) return;
  const { stat, bytes } = admitFile(files, paths.format, policy, MAX_FORMAT_BYTES);
  const format = parseFormat(decode(bytes), paths.format);
  if (format.storeId !== context.storeId) throw mismatch(paths.format, context.storeId);
  context.formatFile = stat;
}

async function commit(
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
    assertSame(files, paths.root, admitted.root);
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
async function collect(context: StoreContext, released: readonly Token[]): Promise<void> {
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

function assertWithinLimits(
  context: StoreContext,
  state: StoreState,
  bytes: number,
  grows: boolean,
): void {
  const { maxSlots, maxStateBytes } = context.limits;
  if (grows && state.slots > maxSlots) {
    throw new AgentqError("limit-exceeded", `the store would have more than ${maxSlots} messages`, {
      details: { slots: state.slots, limit: maxSlots },
    });
  }
  const limit = grows ? Math.floor(maxStateBytes * (1 - DRAIN_RESERVE)) : maxStateBytes;
  if (bytes > limit) {
    throw new AgentqError(
      "limit-exceeded",
      `the store's state would have more than ${limit} bytes`,
      {
        details: { bytes, limit, failed: state.failed.size },
      },
    );
  }
}

function mismatch(path: string, storeId: string): AgentqError {
  return new AgentqError("store-id-mismatch", `${path} isn't of store ${storeId}`, {
    details: { path },
  });
}

/** UTF-8, strictly: a state that isn't is malformed. */
export function decode(bytes: Uint8Array): string {
  try {
    return STRICT_UTF8.decode(bytes);
  } catch {
    // Not JSON either, which is what the parser then says.
    return "\ufffd";
  }
}

const STRICT_UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length &&
    Buffer.compare(a, b) === 0;
}

function attempt(action: () => void): boolean {
  try {
    action();
    return true;
  } catch {
    return false;
  }
}
