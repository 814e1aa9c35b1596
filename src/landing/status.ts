/** The queue now, from one snapshot. */
import type { Oid } from "../git/types.ts";
import { numberOf, type TicketEntry } from "./chain.ts";
import { type Control, readControl } from "./control.ts";
import { isRewound, lastLanded } from "./decide.ts";
import { stateOfTicket } from "./documents.ts";
import { findSubmission } from "./enqueue.ts";
import { holderOf } from "./held-lock.ts";
import { readAhead } from "./read-ahead.ts";
import type { StatusDocument } from "./schemas.ts";
import { ticketOf } from "./resume.ts";
import { type Queue, readSnapshot, type Snapshot } from "./snapshot.ts";
import { isBeingSent, type SubmissionRecord } from "./submissions.ts";

export interface StatusOptions {
  /** Name or url of the remote, without credentials. */
  readonly remote: string;
  /** List at most so many tickets. */
  readonly limit: number;
  /** This machine's submissions to this queue. */
  readonly submissions: readonly SubmissionRecord[];
  /** Whether one commit reaches another; asked only when the branch isn't where the queue left it. */
  readonly contains: (commit: Oid, ancestor: Oid) => Promise<boolean>;
  readonly signal?: AbortSignal;
}

/** Builds `agentq.status/1`. */
export async function statusOf(
  queue: Queue,
  snapshot: Snapshot,
  options: StatusOptions,
): Promise<StatusDocument> {
  const { signal } = options;
  let control = await readControl(queue, snapshot.lock, signal);
  let rewound = await seemsRewound(queue, snapshot, control, options);
  if (rewound) {
    // Refs are advertised one after another: a landing in between looks the same. Look once more.
    snapshot = await readSnapshot(queue, signal);
    control = await readControl(queue, snapshot.lock, signal);
    rewound = await seemsRewound(queue, snapshot, control, options);
  }
  if (
    options.submissions.some(({ ticket }) => ticket !== null && ticket > numberOf(snapshot.queue))
  ) {
    // Made since the snapshot was, or nowhere: that a look tells.
    snapshot = await readSnapshot(queue, signal);
    control = await readControl(queue, snapshot.lock, signal);
  }
  const { message: lock } = snapshot.lock ?? { message: null };
  const processing = holderOf(snapshot.lock) !== null && snapshot.unacked > 0 ? 1 : 0;
  const tickets = await oldestTickets(queue, snapshot, options.limit, signal);
  return {
    schema: "agentq.status/1",
    remote: options.remote,
    url: queue.origin.url,
    branch: queue.names.branchName,
    namespace: queue.names.namespace,
    snapshot: {
      tip: snapshot.tip,
      queue: snapshot.queueHead,
      done: snapshot.doneHead,
      lock: snapshot.lockHead,
    },
    pending: snapshot.unacked - processing,
    processing,
    unacked: snapshot.unacked,
    complete: snapshot.unacked === 0,
    next: snapshot.next,
    lock: lock && { holder: lock.holder ?? null, by: lock.by, at: lock.at },
    paused: control.paused && { by: control.paused.by, reason: control.paused.reason },
    refused: refusedOf(control, snapshot),
    rewound,
    tickets: tickets.map(({ message }) => ({
      ticket: message.ticket,
      state: stateOfTicket(message.ticket, snapshot, control),
      candidate: message.candidate,
      submitter: message.submitter,
      submittedAt: message.agentq?.submittedAt ?? null,
      title: message.agentq?.title ?? null,
    })),
    submissions: await Promise.all(
      options.submissions.map((record) =>
        submissionState(queue, snapshot, control, record, signal)
      ),
    ),
  };
}

function refusedOf(
  { refusals, cancelled }: Control,
  { next, unacked }: Snapshot,
): StatusDocument["refused"] {
  if (refusals === null || unacked === 0 || refusals.ticket !== next) return null;
  // Whoever lands next records the cancellation: nothing waits for the origin any more.
  if (cancelled.includes(next)) return null;
  const { ticket, count, why } = refusals;
  return { ticket, count, why };
}

async function seemsRewound(
  queue: Queue,
  snapshot: Snapshot,
  control: Control,
  options: StatusOptions,
): Promise<boolean> {
  const landed = await lastLanded(queue.chains, snapshot.done, options.signal);
  return await isRewound(snapshot, control, landed, options.contains);
}

/** The oldest tickets without a result, in order. */
async function oldestTickets(
  queue: Queue,
  snapshot: Snapshot,
  limit: number,
  signal?: AbortSignal,
): Promise<TicketEntry[]> {
  const count = Math.min(limit, snapshot.unacked);
  if (count <= 0) return [];
  const newest = snapshot.next + count - 1;
  let at = await queue.chains.find("queue", snapshot.queue!, newest, signal, count - 1);
  await readAhead(queue.chains, "queue", at, snapshot.next, signal);
  const found = [at];
  while (numberOf(at) > snapshot.next) {
    at = (await queue.chains.before("queue", at, signal))!;
    found.unshift(at);
  }
  return found;
}

/** What a submission is that has no ticket, as far as that is known. */
export function stateWithoutTicket(record: SubmissionRecord): "offline" | "sending" | "recorded" {
  if (record.kept || record.since === undefined) return "offline";
  return isBeingSent(record) ? "sending" : "recorded";
}

async function submissionState(
  queue: Queue,
  snapshot: Snapshot,
  control: Control,
  record: SubmissionRecord,
  signal?: AbortSignal,
): Promise<StatusDocument["submissions"][number]> {
  const { submission, candidate, since } = record;
  let { ticket } = record;
  if (ticket === null && since !== undefined) {
    // Its process ended between the push and the record of it: the chain knows.
    const found = await findSubmission(queue, snapshot, submission, since, signal);
    ticket = found ? numberOf(found) : null;
  }
  if (ticket === null) {
    return { submission, candidate, ticket, state: stateWithoutTicket(record) };
  }
  if (await ticketOf(queue, snapshot.queue, record, ticket, signal) === null) {
    return { submission, candidate, ticket, state: "lost" };
  }
  if (ticket > numberOf(snapshot.done)) {
    const state = control.cancelled.includes(ticket) ? "cancelled" as const : "queued" as const;
    return { submission, candidate, ticket, state };
  }
  const result = await queue.chains.find("done", snapshot.done!, ticket, signal);
  const state = result.message.landed ? "landed" as const : "refused" as const;
  return { submission, candidate, ticket, state };
}
