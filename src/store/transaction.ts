/**
 * One transaction: the only way anything in a store changes.
 *
 *   lock ─▶ admit ─▶ body (in memory) ─▶ objects, state temp ─▶ RENAME ─▶ sync parent ─▶ collect ─▶ unlock
 *                                        synced, all together      │           │
 *        crash here: the old state, at most orphans ◀──────────────┘           │
 *        crash here: the old or the new state, every object of both there ◀────┘
 *        crash after the sync: the new state
 *
 * The rename is the only commit point; success is reported only after the parent's sync, which is what
 * makes it last. Transactions of one process take turns, in order; readers see files.
 */
import { AgentqError, isAgentqError } from "../errors.ts";
import { errnoOf, ioError } from "../platform/durable.ts";
import type { FileStat } from "../platform/files.ts";
import { admit, bytesToKnow, type KnownState } from "./admission.ts";
import type { AdmissionPolicy } from "./admit.ts";
import { collect, commit } from "./commit.ts";
import { type ExclusiveFile, releaseLeftovers, releaseOrKeep } from "./exclusive.ts";
import type { StorePaths } from "./layout.ts";
import { acquireLock, type LockWait } from "./lock.ts";
import { readObject } from "./payload.ts";
import { nextRevision, type StoreState } from "./state.ts";
import { encodeState } from "./state-file.ts";
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
   * The state that is known to be durable: when state.json is still that, neither parsing nor another
   * sync of its parent is needed. Null while a transaction works on it.
   */
  trusted: KnownState | null;
  /** format.json as it was admitted. */
  formatFile: FileStat | null;
  /** Settles when the last transaction that was asked for has ended. */
  turn?: Promise<void>;
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

/** However long it waited for its turn, a transaction waits so long for a lock that others hold. */
const LEAST_WAIT_MS = 1000;

/**
 * Runs `body` under the lock on the admitted state, and commits what it changed. `signal` ends waiting for the lock, as
 * that of the whole store does.
 */
export async function transact<T>(
  context: StoreContext,
  body: (transaction: Transaction) => T,
  signal?: AbortSignal,
): Promise<T> {
  // In turn: whoever asks again as soon as it is done would always find the lock free before those that
  // wait for it in the same process.
  const asked = performance.now();
  const result = (context.turn ?? Promise.resolve()).then(() =>
    inTurn(context, asked, body, signal)
  );
  context.turn = result.then(() => {}, () => {});
  return await result;
}

async function inTurn<T>(
  context: StoreContext,
  asked: number,
  body: (transaction: Transaction) => T,
  signal: AbortSignal | undefined,
): Promise<T> {
  const { platform, paths } = context;
  const wait = signal === undefined
    ? context.wait
    : { ...context.wait, signal: either(context.wait.signal, signal) };
  releaseLeftovers(platform);
  const timeoutMs = Math.max(
    wait.timeoutMs - (performance.now() - asked),
    Math.min(wait.timeoutMs, LEAST_WAIT_MS),
  );
  const lock = await acquireLock(platform, paths.lock, { ...wait, timeoutMs });
  try {
    return await runLocked(context, lock, body);
  } catch (error) {
    throw typed(paths, error);
  } finally {
    // The change is made or not, whatever becomes of the lock.
    releaseOrKeep(platform, lock);
  }
}

function either(one: AbortSignal | undefined, other: AbortSignal): AbortSignal {
  return one === undefined ? other : AbortSignal.any([one, other]);
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
    const { stateFile, bytes } = admitted;
    context.trusted = { stateFile, bytes, state };
    return result;
  }
  state.revision = transaction.revision;
  const pieces = encodeState(state);
  assertWithinLimits(context, state, pieces, grows);
  const stateFile = await commit(context, lock, admitted, objects, pieces);
  context.trusted = { stateFile, bytes: bytesToKnow(pieces), state };
  await collect(context, released, stateFile.dev);
  return result;
}

/** A payload under the lock, or why it will never be read. */
export function readOrWhyNot(transaction: Transaction, object: Token): Uint8Array | AgentqError {
  try {
    return transaction.readObject(object);
  } catch (error) {
    if (!isAgentqError(error, "payload-unreadable")) throw error;
    return error;
  }
}

function assertWithinLimits(
  context: StoreContext,
  state: StoreState,
  pieces: readonly Uint8Array[],
  grows: boolean,
): void {
  const { maxSlots, maxStateBytes } = context.limits;
  const bytes = pieces.reduce((sum, { length }) => sum + length, 0);
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
