/**
 * The store's public shapes.
 *
 * One message is one *slot* (queue, id) holding at most one pending and one claimed *reference*:
 *
 *            enqueue              claim                 ack
 *   (none) ─────────▶ pending ─────────▶ claimed ─────────────▶ (none)
 *                        ▲                  │ └── quarantine ──▶ failed index
 *                        └─ requeue/release ┘
 *
 * A reference names a *generation* (one accepted enqueue, whatever its bytes) and the *object* that
 * holds the payload. Ownership is the generation, never the bytes.
 */
import type { FileSystem } from "../platform/files.ts";
import type { HostProbe, ProcessIdentity } from "../platform/host.ts";
import type { AgentqError } from "../errors.ts";
import type { StoreSite } from "./sites.ts";

/** Any value that JSON can carry. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** 128 random bits as 32 lowercase hex digits, made by the store only. */
export type Token = string;

/** A growing decimal number, kept as a string so that it never loses a digit. */
export type Revision = string;

/** What a state says about one payload. Optional fields are absent when they have no value. */
export interface Reference {
  readonly generation: Token;
  readonly object: Token;
  /** The revision that published it as pending: the queue's order. */
  readonly seq: Revision;
  /** How often it was requeued. */
  readonly attempts: number;
  /** Place within the transaction that published it, for batches; absent means 0. */
  readonly ordinal?: number;
  /** How the caller reads its payload: `text` or `base64`, a JSON string; absent: as the JSON it is. */
  readonly encoding?: string;
  /** How often it was claimed; absent means 0. */
  readonly deliveries?: number;
  /** The claimer's own note (worker, lease, …); only on claimed references. */
  readonly owner?: Json;
}

export interface Slot {
  readonly pending: Reference | null;
  readonly claimed: Reference | null;
}

/** A dead letter: inspection evidence, never pending work. */
export interface FailedEntry {
  readonly failedId: string;
  readonly queue: string;
  readonly id: string;
  readonly generation: Token;
  readonly object: Token;
  readonly reason: string;
  readonly attempts?: number;
  readonly encoding?: string;
  readonly deliveries?: number;
}

/** Proof of what a caller holds. Plain JSON; survives the process. */
export interface Receipt {
  readonly storeId: string;
  readonly queue: string;
  readonly id: string;
  readonly generation: Token;
  readonly object: Token;
  /** The revision that the receipt was given out in. */
  readonly revision: Revision;
  /**
   * Which claim of the generation this is (1 for the first). A claim that was taken back and given to
   * somebody else has the same generation and another delivery.
   */
  readonly delivery?: number;
}

/** A claimed (or peeked) message. */
export interface Claim {
  readonly receipt: Receipt;
  readonly attempts: number;
  readonly deliveries: number;
  readonly encoding: string | null;
  readonly owner: Json | null;
  /** The payload's bytes, exactly as serialised by the enqueuer; null when `unreadable`. */
  readonly bytes: Uint8Array | null;
  /** Why the payload can't be read (`payload-unreadable`), or null. Quarantine it with the receipt. */
  readonly unreadable: AgentqError | null;
  /** The payload as text. Throws `unreadable`. */
  text(): string;
  /** The payload parsed. Throws `unreadable`. */
  json(): Json;
}

/** A message without its payload, from one state. */
export interface MessageInfo {
  readonly queue: string;
  readonly id: string;
  readonly state: "pending" | "claimed";
  readonly reference: Reference;
  readonly receipt: Receipt;
}

export interface QueueCounts {
  readonly pending: number;
  readonly processing: number;
  readonly unacked: number;
}

/** Counts of every registered queue from one state. */
export interface StoreSnapshot {
  readonly storeId: string;
  readonly revision: Revision;
  readonly queues: ReadonlyMap<string, QueueCounts>;
  readonly failed: number;
}

/** What became of a claim that was given back. */
export interface ReturnOutcome {
  readonly receipt: Receipt;
  /** `superseded`: a newer pending generation of the same id won; this one is gone. */
  readonly outcome: "pending" | "superseded";
}

export interface EnqueueEntry {
  readonly id: string;
  readonly payload: Json | PreparedPayload;
  readonly encoding?: string;
}

/** Marks {@link PreparedPayload}, so that no payload can be taken for one. */
export const PREPARED: unique symbol = Symbol("agentq.prepared-payload");

/** JSON that the caller has already serialised (see `preparedPayload`); stored byte for byte. */
export interface PreparedPayload {
  readonly [PREPARED]: true;
  readonly jsonText: string;
}

export interface StoreLimits {
  readonly maxPayloadBytes: number;
  readonly maxStateBytes: number;
  readonly maxSlots: number;
}

export interface StoreOptions {
  /** How long to wait for the transfer lock, in milliseconds. Default 45,000. */
  lockTimeoutMs?: number;
  /** Prove a lock's owner gone and remove the lock instead of failing. Default: AGENTQ_RECOVER_STALE=1. */
  recoverStale?: boolean;
  /** Ends waiting for the lock, with its reason. What has the lock comes to its end. */
  signal?: AbortSignal;
  /** The same while the store is opened, where another is just making it; `signal` unless given. */
  openingSignal?: AbortSignal;
  limits?: Partial<StoreLimits>;
  /** What the tests replace: the file system, who this process is, what the kernel answers. */
  platform?: Partial<StorePlatform>;
}

export interface StorePlatform {
  readonly files: FileSystem<StoreSite>;
  readonly identity: ProcessIdentity;
  readonly probe: HostProbe;
  readonly token: () => Token;
  /** Resolves after about so many milliseconds. */
  readonly sleep: (ms: number) => Promise<void>;
}

/** What `removeQueue` removed. */
export interface RemovedQueues {
  /** Names, sorted, those too of which nothing but dead letters was left. */
  readonly queues: string[];
  /** Unacknowledged messages. */
  readonly messages: number;
  readonly failed: number;
}

/** A dead letter with its payload. */
export interface ShownFailed {
  readonly entry: FailedEntry;
  readonly claim: Claim;
}

export interface ClaimOptions {
  /** This message and no other. One that is claimed already is returned as it is. */
  id?: string;
  /** These messages in one transaction, as `id` each; those that are gone are left out. */
  ids?: readonly string[];
  /** At most so many of the oldest pending messages. Default 1. */
  count?: number;
  /** Kept with each claimed reference, at most 1 KiB as JSON. A function is asked under the lock. */
  owner?: Json | (() => Json);
  /**
   * Asked under the lock about each of the oldest that would be handed out: why it can't be used, or null.
   * Then it goes to the dead letters in the same commit, and the next is taken. Not asked about those named.
   */
  unfit?: (claim: Claim) => string | null;
  /** Ends waiting for the lock, with its reason. */
  signal?: AbortSignal;
}

/** How one claim ends; the same as `ack`, `requeue`, `release` and `quarantine` by themselves. */
export type ClaimEnding =
  | { readonly how: "ack" | "requeue" | "release"; readonly receipt: Receipt }
  /** The dead letter has the message's id, or that with the first free number (`id.2`). */
  | {
    readonly how: "quarantine";
    readonly receipt: Receipt;
    readonly reason: string;
    /** The dead letter counts one attempt less: this claim was none. */
    readonly untried?: boolean;
  };

export interface FinishedAndClaimed {
  /** `stale`: the receipt held nothing any more, and nothing happened. */
  readonly outcomes: ("done" | "stale" | "superseded")[];
  readonly claims: Claim[];
}

export interface MessageFilter {
  queue?: string;
  state?: "pending" | "claimed";
  limit?: number;
}

export interface CheckFinding {
  readonly level: "error" | "warning" | "note";
  readonly path: string;
  readonly message: string;
}

export interface CheckReport {
  readonly storeId: string;
  readonly revision: Revision;
  readonly slots: number;
  readonly failed: number;
  readonly orphans: number;
  readonly stateBytes: number;
  readonly findings: readonly CheckFinding[];
  /** True when there is no finding of level `error`. */
  readonly sound: boolean;
}

export interface GcReport {
  readonly objects: number;
  readonly files: number;
  /** What should have gone and could not, with the reason. Never an error. */
  readonly left: readonly string[];
}

export interface Store {
  readonly root: string;
  readonly storeId: string;

  /** Publishes a new pending generation; replaces a still-pending one of the same id. */
  enqueue(
    queue: string,
    id: string,
    payload: Json | PreparedPayload,
    options?: { encoding?: string },
  ): Promise<Receipt>;
  /**
   * The same for many entries of one queue, in one commit, ordered as given. With `existing` a queue that
   * isn't there is `queue-not-found`; otherwise it is made.
   */
  enqueueMany(
    queue: string,
    entries: readonly EnqueueEntry[],
    options?: { existing?: boolean },
  ): Promise<Receipt[]>;
  /** Oldest pending → claimed. */
  claim(queue: string, options?: ClaimOptions): Promise<Claim[]>;
  /**
   * Ends claims, each by itself, then claims the oldest pending messages (none for `count` 0): one
   * commit for all of it.
   */
  finishAndClaim(
    queue: string,
    endings: readonly ClaimEnding[],
    options?: Omit<ClaimOptions, "id">,
  ): Promise<FinishedAndClaimed>;
  /**
   * Replaces the owner note of claims that the receipts still hold (`stale-generation` otherwise). A
   * function is asked under the lock for each, with the note that it has.
   */
  renew(
    receipts: readonly Receipt[],
    owner: Json | ((note: Json | null) => Json),
  ): Promise<Receipt[]>;
  /** Replaces a claim's payload by what `fn` makes of it, outside the lock; the generation stays. */
  migrate(
    claim: Claim,
    fn: (payload: Json, claim: Claim) => Json | PreparedPayload | Promise<Json | PreparedPayload>,
    options?: { encoding?: string },
  ): Promise<Claim>;
  /** Claimed → gone. All or none of the receipts, in one commit. */
  ack(...receipts: Receipt[]): Promise<void>;
  /** Claimed → pending at the end of the queue, `attempts` + 1. All or none. */
  requeue(...receipts: Receipt[]): Promise<ReturnOutcome[]>;
  /**
   * Claimed → pending at its old place in the order. Takes receipts (all or none) or a test that is
   * asked about every claimed message of the state, under the lock.
   */
  release(
    which: readonly Receipt[] | ((message: MessageInfo) => boolean),
    options?: { countAttempt?: boolean; queue?: string; signal?: AbortSignal },
  ): Promise<ReturnOutcome[]>;
  /** Claimed → failed index, create-only over all queues (`already-exists`). `failedId` defaults to the id. */
  quarantine(
    receipt: Receipt,
    options: { failedId?: string; reason: string },
  ): Promise<FailedEntry>;

  /** Registers an empty queue; true when it wasn't there. */
  createQueue(queue: string): Promise<boolean>;
  /**
   * Removes a queue, its messages and its dead letters (with `tree`, also those below it), in one commit.
   * Where nothing of that name is there, nothing is removed.
   */
  removeQueue(queue: string, options?: { tree?: boolean }): Promise<RemovedQueues>;
  /** Drops a queue's pending messages (and, with `claimed`, claims too); says how many. */
  clear(queue: string, options?: { claimed?: boolean }): Promise<number>;
  listQueues(prefix?: string): Promise<string[]>;

  snapshot(): Promise<StoreSnapshot>;
  /** Messages in order, oldest first, claimed and pending mixed, from one state. */
  messages(filter?: MessageFilter): Promise<MessageInfo[]>;
  /**
   * Messages with payloads, all from one state; changes nothing and takes no lock. The oldest pending
   * ones, or those named by `id` or `ids`, claimed or pending, in the order named.
   */
  peek(
    queue: string,
    options?: { count?: number; id?: string; ids?: readonly string[] },
  ): Promise<Claim[]>;

  /** Messages with their payloads, all from one state; changes nothing and takes no lock. */
  read(filter?: MessageFilter): Promise<{ message: MessageInfo; claim: Claim }[]>;

  readonly failed: {
    list(): Promise<FailedEntry[]>;
    show(failedId: string): Promise<ShownFailed>;
    /** Those of one queue, or all, with their payloads, from one state, oldest first. */
    read(filter?: { queue?: string; limit?: number }): Promise<ShownFailed[]>;
    /** Failed → pending at the end of its queue, attempts 0. `already-exists` when its id is pending or claimed. */
    retry(failedId: string): Promise<Receipt>;
    /**
     * The same for several, all or none, in one commit. `admit` sees each under the lock and throws what
     * refuses it.
     */
    retryMany(
      failedIds: readonly string[],
      admit?: (letter: ShownFailed) => void,
    ): Promise<Receipt[]>;
    /** Removes dead letters (all, or those named, `not-found` otherwise); says how many. */
    prune(failedIds?: readonly string[]): Promise<number>;
    /** Removes one queue's, or those of the named that are there; says how many. */
    pruneQueue(queue: string, failedIds?: readonly string[]): Promise<number>;
  };

  check(): Promise<CheckReport>;
  gc(): Promise<GcReport>;
}
