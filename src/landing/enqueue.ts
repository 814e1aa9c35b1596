/**
 * Enqueueing: one push that appends a ticket, after one advertisement and the head's message,
 * however long the queue is.
 *
 * Exactly once: the ticket carries a submission id. Whenever an attempt may have succeeded unseen (its
 * answer was lost, the process died after it, another process of ours delivered the same submission),
 * the tickets that appeared since are looked through for that id before anything is pushed again.
 */
import type { Clock } from "../platform/clock.ts";
import type { ObjectReader, Oid } from "../git/types.ts";
import { numberOf, type TicketEntry } from "./chain.ts";
import { chainCommit } from "./chain-commit.ts";
import { type Lists, listsAfter } from "./lists.ts";
import type { Genesis, Ticket } from "./messages.ts";
import { createRetry, foundAfterStop, PATIENCE_MS, pushOnce } from "./push.ts";
import { type Queue, readSnapshot, type Snapshot } from "./snapshot.ts";

/** What is submitted. */
export interface Draft {
  readonly candidate: Oid;
  readonly submitter: string;
  readonly verifyCmd: string | null;
  /** Seconds. */
  readonly verifyTimeout: number;
  readonly submission: string;
  /** Milliseconds since 1970, for people to read. */
  readonly submittedAt: number;
  readonly title: string | null;
  readonly drops: readonly string[];
}

export interface EnqueueOptions {
  readonly clock: Clock;
  /** The clone that holds the candidate. */
  readonly objects: ObjectReader;
  /**
   * The queue's head before the first attempt at this submission, when there was an earlier one: only
   * tickets after it can be that attempt's. Undefined: this is the first attempt.
   */
  readonly since?: Oid | null;
  readonly signal?: AbortSignal;
  /** Told of every lost race. */
  readonly onRetry?: () => void;
}

/**
 * Appends `draft` to the queue and gives its entry: the one that is already there if an earlier
 * attempt at the same submission got through.
 * @throws `push-refused`, `push-unknown`, `corrupt-chain`
 */
export async function enqueue(
  queue: Queue,
  snapshot: Snapshot,
  draft: Draft,
  options: EnqueueOptions,
): Promise<TicketEntry> {
  const { clock, signal } = options;
  const retry = createRetry(clock, {
    what: "submit",
    start: snapshot.queueHead,
    patience: PATIENCE_MS,
  });
  let since = options.since === undefined ? snapshot.queueHead : options.since;
  for (;;) {
    const earlier = await findSubmission(queue, snapshot, draft.submission, since, signal);
    if (earlier) return earlier;
    since = snapshot.queueHead;

    const before = snapshot.queue;
    const number = numberOf(before) + 1;
    const genesis = snapshot.queueHead === null ? genesisOf("queue", clock) : null;
    const parent = snapshot.queueHead ?? genesis!.oid;
    const entry = chainCommit(
      [parent, draft.candidate],
      ticketMessage(
        draft,
        number,
        snapshot.tip,
        await listsAfter(queue.chains, "queue", before, signal),
      ),
      clock.wall() / 1000,
    );
    const pushed = await pushOnce(queue, {
      updates: [{ ref: queue.names.queue, old: snapshot.queueHead, new: entry.oid }],
      commits: genesis ? [genesis, entry] : [entry],
      objects: options.objects,
      remoteHas: [snapshot.tip, snapshot.queueHead].filter((oid) => oid !== null),
      ...(signal && { signal }),
    });
    if (pushed.status === "won") return await queue.chains.remember("queue", entry);
    options.onRetry?.();
    if (pushed.status === "unknown" && signal?.aborted) {
      return await foundAfterStop("submit", async (asking) => {
        const now = await readSnapshot(queue, asking);
        return await findSubmission(queue, now, draft.submission, since, asking);
      });
    }
    snapshot = await readSnapshot(queue, signal);
    if (pushed.status === "unknown") {
      const got = await findSubmission(queue, snapshot, draft.submission, since, signal);
      if (got) return got;
    }
    await retry.again(snapshot.queueHead, pushed, signal);
  }
}

/** The ticket of `submission` among those after `since`; null when there is none. */
export async function findSubmission(
  queue: Queue,
  snapshot: Snapshot,
  submission: string,
  since: Oid | null,
  signal?: AbortSignal,
): Promise<TicketEntry | null> {
  for (let at = snapshot.queue; at !== null && at.oid !== since;) {
    if (at.message.agentq?.submission === submission) return at;
    at = await queue.chains.before("queue", at, signal);
  }
  return null;
}

/** The parentless first commit of a chain. */
export function genesisOf(chain: "queue" | "done", clock: Clock) {
  const message: Genesis = { kind: "genesis", chain };
  return chainCommit([], message, clock.wall() / 1000);
}

function ticketMessage(draft: Draft, number: number, tip: Oid | null, lists: Lists): Ticket {
  return {
    kind: "ticket",
    ticket: number,
    candidate: draft.candidate,
    submitter: draft.submitter,
    verify_cmd: draft.verifyCmd,
    verify_timeout: draft.verifyTimeout,
    check: null,
    checkers: null,
    agentq: {
      v: 1,
      submission: draft.submission,
      submittedAt: draft.submittedAt,
      title: draft.title,
      strategy: null,
      tip,
      ...(draft.drops.length > 0 && { drops: [...draft.drops] }),
      ...lists,
    },
  };
}
