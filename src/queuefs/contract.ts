/**
 * What a queue is, whatever keeps it: the one interface that every backend implements and that the
 * layers above (control paths, named queues, workers, the command line) are written against.
 *
 * ```
 *                       ┌────────────── requeue (to the back), recover (to its old place) ──┐
 *                       ▼                                                                   │
 *   enqueue ──────▶  pending ──────────────────── dequeue ─────────────────────▶ processing ┤
 *                       ▲ │                     (a lease)                           │  │     │
 *         failed.retry  │ │ unreadable payload                                      │  └─ack─┴▶ removed
 *                       │ ▼                                                         │
 *                    dead letters ◀──────────────────── fail ───────────────────────┘
 * ```
 *
 * A queue is complete when pending = 0 and processing = 0 in one snapshot of the backend. Nothing in
 * this process takes part in that. Dead letters are outside: complete means that nothing is
 * unacknowledged, not that everything succeeded.
 *
 * Every dequeue makes one delivery, and every delivery has its own lease token. Settling (ack,
 * requeue, fail, renew) names the delivery; a delivery that is no longer current is `stale`, and
 * settling it changes nothing.
 *
 * Ids are the caller's or generated. As in the durable store, one id has at most one pending and one
 * processing generation in a queue: enqueueing an id that is still pending replaces that message (at
 * the back of the queue); enqueueing one that is being processed adds a newer generation, which
 * survives the ack of the older one and waits until that is settled. Where the older one comes back
 * (requeue, recover) the newer one wins: `superseded`.
 */

import type { AgentqError } from "../errors.ts";

export type BackendKind = "memory" | "store" | "sqlite" | "redis" | "v1";

/** A message to enqueue. Data are bytes; nothing interprets them. */
export interface NewMessage {
  /** Generated when absent. */
  readonly id?: string;
  readonly data: Uint8Array;
}

export interface Message {
  readonly id: string;
  readonly data: Uint8Array;
}

/** A message in the hands of one worker. */
export interface Delivery extends Message {
  /** Names this delivery of this message; opaque, differs for every delivery. */
  readonly lease: string;
  /** How often this message came back (requeued or recovered) before this delivery. */
  readonly attempts: number;
}

/**
 * What a caller presents to settle a delivery: the lease it was given or, where it kept none (another
 * process dequeued), the owner in whose name the message was dequeued; then the lease that the backend
 * handed out last is meant, provided that it went to that owner and is still current.
 */
export type Receipt = LeaseReceipt | { readonly id: string; readonly owner: string };

export interface LeaseReceipt {
  readonly id: string;
  readonly lease: string;
}

/**
 * - `done`: the delivery was current and what was asked has happened;
 * - `stale`: it was not current (settled, recovered, cleared, given to another); nothing happened;
 * - `superseded`: a newer generation of the id is pending, so the returned one was dropped.
 */
export type Settlement = "done" | "stale" | "superseded";

/** How one delivery ends, for a worker that settles and takes in one step. */
export type Ending =
  /** `requeue`: to the back, the attempt counted; `release`: to its old place, uncounted. */
  | { readonly how: "ack" | "requeue" | "release"; readonly receipt: Receipt }
  | {
    readonly how: "fail";
    readonly receipt: Receipt;
    readonly reason: string;
    /** This delivery was no attempt: the dead letter counts those before it. */
    readonly untried?: boolean;
  };

/** What {@link QueueBackend.settleAndDequeue} did. */
export interface Turn {
  /** What became of each ending, in their order. */
  readonly settlements: Settlement[];
  /** What was taken afterwards, oldest first. */
  readonly deliveries: Delivery[];
}

/** Counts read from one snapshot of the backend. */
export interface QueueCounts {
  readonly pending: number;
  readonly processing: number;
}

/** An unacknowledged message as `messages` lists it. */
export interface UnackedMessage {
  readonly id: string;
  readonly state: "pending" | "processing";
  /** Null where the payload can't be read; dequeueing it moves it to the dead letters. */
  readonly data: Uint8Array | null;
}

/** A dead letter: kept until it is retried or pruned. */
export interface DeadLetter {
  /** Unique in its queue; the message's id, or that with a suffix where the id failed before. */
  readonly failedId: string;
  readonly queue: string;
  readonly id: string;
  readonly reason: string;
  /** Its deliveries: those lost with their workers too, and the one whose payload couldn't be read. */
  readonly attempts: number;
  /** Unix milliseconds; null where the backend doesn't keep it. */
  readonly failedAt: number | null;
  /** The bytes; null where the payload was missing or couldn't be read. */
  readonly data: Uint8Array | null;
  /** What stood in the payload's place where it couldn't be read; null where nothing did. */
  readonly raw: string | null;
}

export interface DequeueOptions {
  /** In whose name: {@link workerOwner} or {@link callerOwner}. */
  readonly owner: string;
  /** How long the delivery is held unless renewed, in milliseconds. */
  readonly leaseMs: number;
  /** At most this many, 1 unless given. Taken in one transaction. */
  readonly count?: number;
  /** Told of each message that went to the dead letters instead, since its payload can't be read, and why. */
  readonly onUnreadable?: (id: string, problem: string) => void;
  /** Ends waiting for a store's lock, with its reason. What has begun comes to its end. */
  readonly signal?: AbortSignal;
}

export interface RequeueOptions {
  /** False: give the message back as if it hadn't been tried (a worker that stops). */
  readonly counted?: boolean;
}

export interface RecoverOptions {
  /**
   * Treat deliveries that nobody renews (dequeued by a command that has ended, or by a program that
   * knows nothing of leases) as run out after this long, in milliseconds. Never applied to a worker.
   */
  readonly staleMs?: number;
  /**
   * Ends the watching of leases that have run out: what is certain is taken back all the same. Of very many on
   * Redis it ends after the part that is under way. Waiting for a store's lock ends with its reason.
   */
  readonly signal?: AbortSignal;
}

/** A delivery that was taken back, and why. */
export interface Recovered {
  readonly queue: string;
  readonly id: string;
  readonly why: "owner-gone" | "lease-expired";
  readonly outcome: "pending" | "superseded";
}

export interface DeadLetters {
  /** The queue's dead letters, oldest first, without loading more than `limit`. */
  list(queue: string, limit?: number): Promise<DeadLetter[]>;
  /** Throws `message-not-found`. */
  show(queue: string, failedId: string): Promise<DeadLetter>;
  /**
   * Back to pending (at the back, attempts 0), all or none; returns the ids. Throws
   * `message-not-found`, `payload-unreadable`, and `already-exists` where a message of the id is pending or in
   * processing: whatever of it was enqueued since is newer than the dead letter, and isn't to be replaced by it.
   */
  retry(queue: string, failedIds: readonly string[]): Promise<string[]>;
  /** Removes them for good: all, those named, or those that failed before a time (Unix ms). */
  prune(
    queue: string,
    which?: { failedIds?: readonly string[]; before?: number },
  ): Promise<number>;
  /**
   * Names of queues that are gone and have left dead letters, where the backend can have such: an older
   * version, killed while it removed a queue, left them. They are listed, shown and pruned by that name.
   */
  left?(): Promise<string[]>;
}

/**
 * One place that keeps queues. Every call is one transaction; calls with several messages or receipts
 * are one transaction too. All throw `queue-not-found` for a queue that doesn't exist, `queue-name-invalid`
 * and `message-id-invalid` for names outside the rules, and the `backend-…` codes for faults.
 */
export interface QueueBackend {
  readonly kind: BackendKind;
  /** Where it is, as it may be printed: never with a password. */
  readonly label: string;
  /**
   * What tells this place from any other, however its address was written: one that is made anew where it was has
   * another. Never with a password; for machines to compare.
   */
  identity(): string;
  /** False when the queue exists already. */
  create(queue: string): Promise<boolean>;
  /** Removes the queue and every queue below it, messages and dead letters included; returns their names. */
  remove(queue: string): Promise<string[]>;
  /** Sorted names: all, or `prefix` itself and the queues below it. */
  list(prefix?: string): Promise<string[]>;
  /** The ids, in order. Durable, as far as the backend is, when it returns. */
  enqueue(queue: string, messages: readonly NewMessage[]): Promise<string[]>;
  dequeue(queue: string, options: DequeueOptions): Promise<Delivery[]>;
  ack(queue: string, receipts: readonly Receipt[]): Promise<Settlement[]>;
  requeue(
    queue: string,
    receipts: readonly Receipt[],
    options?: RequeueOptions,
  ): Promise<Settlement[]>;
  fail(queue: string, receipts: readonly Receipt[], reason: string): Promise<Settlement[]>;
  renew(queue: string, receipts: readonly Receipt[], leaseMs: number): Promise<Settlement[]>;
  /**
   * Settles deliveries, in the order given, then takes at most `count` messages (none for 0): one
   * transaction, so one sync or one round trip where ack and dequeue are two. Stale deliveries are
   * answered as such and hold up nothing. When it throws, nothing was settled or taken, or the error is
   * `backend-outcome-unknown` or `commit-uncertain`. v1 alone makes steps of it, one after the other.
   */
  settleAndDequeue(
    queue: string,
    endings: readonly Ending[],
    options: DequeueOptions,
  ): Promise<Turn>;
  peek(queue: string): Promise<Message | null>;
  status(queue: string): Promise<QueueCounts>;
  /**
   * Counts of several queues (all of them when `queues` is absent) from one snapshot. `unreadable`: told of each of
   * all queues that can't be counted, by `details.queue`; without it one such is thrown.
   */
  statuses(
    queues?: readonly string[],
    unreadable?: (fault: AgentqError) => void,
  ): Promise<Map<string, QueueCounts>>;
  /** Whether all these queues are complete, from one snapshot and without counting. */
  complete(queues: readonly string[]): Promise<boolean>;
  /** Every unacknowledged message: processing first, then pending in order. Changes nothing. */
  messages(queue: string): Promise<UnackedMessage[]>;
  /** Removes every unacknowledged message, those being processed too; returns how many. */
  clear(queue: string): Promise<number>;
  /**
   * Takes back what its owner can't settle any more; every queue when `queue` is null. Where a worker's lease
   * has run out it takes half as long as that lease: one that is renewed meanwhile is left alone.
   */
  recover(queue: string | null, options?: RecoverOptions): Promise<Recovered[]>;
  readonly failed: DeadLetters;
  /** What about the place endangers messages, as it may be printed: one sentence each. */
  warnings?(): Promise<string[]>;
  close(): Promise<void>;
}
