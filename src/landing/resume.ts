/**
 * Going on with a submission that was recorded before: by a run that died, by one that is at it in
 * another process, or kept offline. Whoever delivers it, it gets one ticket.
 */
import { AgentqError, isAgentqError } from "../errors.ts";
import type { Oid } from "../git/types.ts";
import { numberOf, type TicketEntry } from "./chain.ts";
import { readControl } from "./control.ts";
import { enqueue, findSubmission } from "./enqueue.ts";
import { patientWithOthers } from "./others-delivery.ts";
import { type Queue, readSnapshot, type Snapshot } from "./snapshot.ts";
import { draftOf, isUnderWay, type SubmissionRecord } from "./submissions.ts";
import type { SubmitOptions, Submitted } from "./submit.ts";
import type { SubmitRequest } from "./submit-request.ts";
import { delivering } from "./under-way.ts";

/**
 * Goes on with an earlier submission, together with another run that may be at it; null when the queue
 * no longer knows it. One that has no ticket yet gets it as `request` asks. @throws `submission-busy`
 */
export async function resume(
  queue: Queue,
  snapshot: Snapshot,
  record: SubmissionRecord,
  options: SubmitOptions,
  request?: SubmitRequest,
): Promise<Submitted | null> {
  const { submissions, signal } = options;
  for (const pause = patientWithOthers(options); record.ticket === null;) {
    const ticket = await deliver(queue, snapshot, record, options, request)
      .catch((error) => {
        throw whileRecorded(error, record);
      });
    if (ticket) return { ticket, record: { ...record, ticket: numberOf(ticket) }, fresh: false };
    // Another process has it: the ticket that it gets is this run's too.
    const { candidate, submission } = record;
    const now = (await submissions.list({ candidate })).find((one) =>
      one.submission === submission
    );
    if (now === undefined) return null;
    record = now;
    if (record.ticket !== null) break;
    await pause(record);
  }
  // A ticket that the snapshot doesn't have may have been made since: by another run, or by the
  // delivery of what was kept offline.
  const { queue: head } = record.ticket > numberOf(snapshot.queue)
    ? await readSnapshot(queue, signal)
    : snapshot;
  const ticket = await ticketOf(queue, head, record, record.ticket, signal);
  if (ticket !== null && !await isToBeCancelled(queue, snapshot, record.ticket, signal)) {
    return { ticket, record, fresh: false };
  }
  if (ticket !== null) {
    options.onNote?.(`ticket ${record.ticket} of this commit is cancelled: it gets a new one`);
  }
  // The queue was made anew, and that ticket is nowhere; or it will never land.
  await submissions.forget([record]);
  return null;
}

/** The same error, saying which submission stays recorded (`details.submission`), and how it gets its ticket. */
export function whileRecorded(error: unknown, { submission }: SubmissionRecord): unknown {
  if (!isAgentqError(error) || error.code === "interrupted") return error;
  return new AgentqError(error.code, error.message, {
    cause: error.cause ?? error,
    hint:
      `${error.hint} The submission ${submission} is recorded on this machine: agentq submit of the same ` +
      "commit, or agentq flush, delivers it, once.",
    retryable: error.retryable,
    details: { ...error.details, submission },
  });
}

/**
 * The ticket of a submission by its number, or null where that number is another's or nobody's: a queue that was put
 * back (an origin restored from a backup) gives out its numbers again.
 */
export async function ticketOf(
  queue: Queue,
  head: TicketEntry | null,
  { submission }: Pick<SubmissionRecord, "submission">,
  ticket: number,
  signal?: AbortSignal,
): Promise<TicketEntry | null> {
  if (ticket > numberOf(head)) return null;
  const found = await queue.chains.find("queue", head!, ticket, signal);
  return found.message.agentq?.submission === submission ? found : null;
}

/** True for a ticket without a result that somebody has cancelled. */
async function isToBeCancelled(
  queue: Queue,
  snapshot: Snapshot,
  ticket: number,
  signal?: AbortSignal,
): Promise<boolean> {
  if (ticket < snapshot.next) return false;
  return (await readControl(queue, snapshot.lock, signal)).cancelled.includes(ticket);
}

/** True when what is asked for now isn't what was recorded. */
export function asksOtherwise(record: SubmissionRecord, request: SubmitRequest): boolean {
  return record.verifyCmd !== request.verifyCmd ||
    record.verifyTimeout !== Math.ceil(request.verifyTimeout) ||
    record.title !== request.title || record.drops.join("\0") !== request.drops.join("\0");
}

/** What is asked for and its ticket, of an earlier attempt, isn't: that can't be changed. At most one sentence. */
export function staysAsItIs(
  { message }: TicketEntry,
  { verifyCmd, title, drops }: Pick<SubmitRequest, "verifyCmd" | "title" | "drops">,
): string[] {
  const its = message.agentq;
  const other = [
    ...(verifyCmd !== null && verifyCmd !== (message.verify_cmd ?? null) ? ["--verify-cmd"] : []),
    ...(title !== null && title !== (its?.title ?? null) ? ["--title"] : []),
    ...(drops.some((path) => !its?.drops?.includes(path)) ? ["--drop"] : []),
  ];
  return other.length === 0 ? [] : [
    `ticket ${message.ticket} was submitted without this ${other.join(", ")} and stays as it is; ` +
    "--again queues a new ticket with it",
  ];
}

/** A record that has no ticket yet, as it is asked for now. */
export function asAsked(
  record: SubmissionRecord,
  request: SubmitRequest,
  { clock, me }: Pick<SubmitOptions, "clock"> & { me?: string },
): SubmissionRecord {
  return {
    ...record,
    ...(me !== undefined && { submitter: me }),
    submittedAt: Math.floor(clock.wall()),
    verifyCmd: request.verifyCmd,
    verifyTimeout: Math.ceil(request.verifyTimeout),
    title: request.title,
    drops: [...request.drops],
    ...(request.createBranch && { createBranch: true }),
  };
}

/**
 * Delivers a recorded submission that has no ticket yet, once: null when another process of this
 * machine is at it, or has done it.
 */
export async function deliver(
  queue: Queue,
  snapshot: Snapshot,
  wanted: SubmissionRecord,
  options:
    & Pick<SubmitOptions, "clock" | "objects" | "submissions" | "signal">
    & Partial<Pick<SubmitOptions, "me" | "again">>,
  request?: SubmitRequest,
): Promise<TicketEntry | null> {
  return await options.submissions.exclusively(wanted, async (recorded, learn) => {
    let record = recorded;
    if (record.ticket !== null) {
      return record.ticket <= numberOf(snapshot.queue)
        ? await queue.chains.find("queue", snapshot.queue!, record.ticket, options.signal)
        : null;
    }
    const since = record.since === undefined ? snapshot.queueHead : record.since as Oid | null;
    if (record.since === undefined) {
      const known = await recentTicket(queue, snapshot, record, options.signal);
      if (known) {
        await learn.ticket(numberOf(known));
        return known;
      }
    }
    if (request && (options.again || asksOtherwise(record, request))) {
      // An attempt that got through unseen is a ticket as it is. Else it keeps its id: of that attempt, should
      // it be on its way still, and this one, whichever comes first is the only ticket.
      const got = record.since === undefined
        ? null
        : await findSubmission(queue, snapshot, record.submission, since, options.signal);
      if (got) {
        await learn.ticket(numberOf(got));
        return got;
      }
      record = { ...asAsked(record, request, options), branch: queue.names.branchName, since };
      await learn.change(record);
    } else if (record.since === undefined) await learn.since(queue.names.branchName, since);
    delivering.add(record.submission);
    const ticket = await enqueue(queue, snapshot, draftOf(record), {
      clock: options.clock,
      objects: options.objects,
      since,
      ...(options.signal && { signal: options.signal }),
    }).finally(() => delivering.delete(record.submission));
    await learn.ticket(numberOf(ticket));
    return ticket;
  });
}

/** How far back the ticket of a submission is looked for that, as far as its record knows, was never pushed. */
const RECENT = { tickets: 256, ms: 3_600_000 };

/**
 * The ticket that such a submission has all the same: where the state directory was put back to what it was before
 * the delivery. Tickets that were submitted an hour before it, by their clocks, are where the search ends.
 */
async function recentTicket(
  queue: Queue,
  snapshot: Snapshot,
  { submission, submittedAt }: SubmissionRecord,
  signal?: AbortSignal,
): Promise<TicketEntry | null> {
  let at = snapshot.queue;
  for (let n = 0; at !== null && n < RECENT.tickets; n++) {
    const its = at.message.agentq;
    if (its?.submission === submission) return at;
    if (its && (its.submittedAt ?? Infinity) < submittedAt - RECENT.ms) return null;
    at = await queue.chains.before("queue", at, signal);
  }
  return null;
}

/**
 * Takes a recorded submission back that never came through; false for one that did, or that another process
 * has. The queue is needed for one that may have been pushed.
 */
export async function withdraw(
  queue: Queue | null,
  wanted: SubmissionRecord,
  { submissions, signal }: Pick<SubmitOptions, "submissions" | "signal">,
): Promise<boolean> {
  if (isUnderWay(wanted)) return false;
  const gone = await submissions.exclusively(wanted, async (record, learn) => {
    if (record.ticket !== null) return false;
    if (record.since !== undefined) {
      if (queue === null) return false;
      const now = await readSnapshot(queue, signal);
      const since = record.since as Oid | null;
      if (await findSubmission(queue, now, record.submission, since, signal)) return false;
    }
    await learn.nothing();
    return true;
  });
  return gone === true;
}
