/**
 * Going on with a submission that was recorded before: by a run that died, by one that is at it in
 * another process, or kept offline. Whoever delivers it, it gets one ticket.
 */
import { AgentqError } from "../errors.ts";
import type { Oid } from "../git/types.ts";
import { numberOf, type TicketEntry } from "./chain.ts";
import { enqueue } from "./enqueue.ts";
import { PATIENCE_MS } from "./push.ts";
import { type Queue, readSnapshot, type Snapshot } from "./snapshot.ts";
import { draftOf, type SubmissionRecord } from "./submissions.ts";
import type { SubmitOptions, Submitted } from "./submit.ts";

/** How often to look whether another process has got the ticket. */
const SHARED_POLL_MS = 50;

/**
 * Goes on with an earlier submission, together with another run that may be at it; null when the queue
 * no longer knows it. @throws `submission-busy`
 */
export async function resume(
  queue: Queue,
  snapshot: Snapshot,
  record: SubmissionRecord,
  options: SubmitOptions,
): Promise<Submitted | null> {
  const { submissions, clock, signal } = options;
  for (const began = clock.monotonic(); record.ticket === null;) {
    const ticket = await deliver(queue, snapshot, record, options);
    if (ticket) return { ticket, record: { ...record, ticket: numberOf(ticket) }, fresh: false };
    // Another process has it: the ticket that it gets is this run's too.
    const { candidate, submission } = record;
    const now = (await submissions.list({ candidate })).find((one) =>
      one.submission === submission
    );
    if (now === undefined) return null;
    record = now;
    if (record.ticket !== null) break;
    if (clock.monotonic() - began > PATIENCE_MS) {
      throw new AgentqError(
        "submission-busy",
        `another process has been submitting ${candidate} from here for a while`,
      );
    }
    await clock.sleep(SHARED_POLL_MS, signal);
  }
  // A ticket that the snapshot doesn't have may have been made since: by another run, or by the
  // delivery of what was kept offline.
  const { queue: head } = record.ticket > numberOf(snapshot.queue)
    ? await readSnapshot(queue, signal)
    : snapshot;
  const ticket = record.ticket <= numberOf(head)
    ? await queue.chains.find("queue", head!, record.ticket, signal)
    : null;
  if (ticket?.message.agentq?.submission === record.submission) {
    return { ticket, record, fresh: false };
  }
  // The queue was made anew: that ticket is nowhere.
  await submissions.forget([record]);
  return null;
}

/**
 * Delivers a recorded submission that has no ticket yet, once: null when another process of this
 * machine is at it, or has done it.
 */
export async function deliver(
  queue: Queue,
  snapshot: Snapshot,
  wanted: SubmissionRecord,
  options: Pick<SubmitOptions, "clock" | "objects" | "submissions" | "signal">,
): Promise<TicketEntry | null> {
  return await options.submissions.exclusively(wanted, async (record, learn) => {
    if (record.ticket !== null) {
      return record.ticket <= numberOf(snapshot.queue)
        ? await queue.chains.find("queue", snapshot.queue!, record.ticket, options.signal)
        : null;
    }
    const since = record.since === undefined ? snapshot.queueHead : record.since as Oid | null;
    if (record.since === undefined) await learn.since(queue.names.branchName, since);
    const ticket = await enqueue(queue, snapshot, draftOf(record), {
      clock: options.clock,
      objects: options.objects,
      since,
      ...(options.signal && { signal: options.signal }),
    });
    await learn.ticket(numberOf(ticket));
    return ticket;
  });
}
