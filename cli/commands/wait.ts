/** `agentq wait TICKET`: wait for one ticket, landing meanwhile. */
import { numberOf } from "../../src/landing/chain.ts";
import {
  documentOfCancelled,
  documentOfQueued,
  documentOfResult,
} from "../../src/landing/documents.ts";
import { anothersTicket, waitForTicket } from "../../src/landing/wait-for-ticket.ts";
import type { EntryCache } from "../../src/landing/entry-cache.ts";
import { ticketOf } from "../../src/landing/resume.ts";
import { readSnapshot, type Snapshot } from "../../src/landing/snapshot.ts";
import type { SubmissionRecord, Submissions } from "../../src/landing/submissions.ts";
import { isForQueue } from "../../src/landing/submit-request.ts";
import type { Context } from "../context.ts";
import { deliverKept, forgetTold } from "../deliver.ts";
import {
  dutyOf,
  keptEntries,
  type LandingSession,
  openSession,
  placeOfQueue,
  submissionsOrNull,
  ticketNumber,
} from "../landing.ts";
import { goOnBy } from "../go-on.ts";
import { describeResult } from "../output/landing.ts";
import { isToBeCancelled } from "../cancelled.ts";
import type { Flags } from "../spec.ts";

export async function run(
  context: Context,
  args: readonly string[],
  flags: Flags,
): Promise<number> {
  const ticket = ticketNumber(args[0]);
  let kept: EntryCache | undefined;
  const session = await openSession(context, (origin) => kept = keptEntries(context, origin));
  const { queue } = session;
  const submissions = await submissionsOrNull(context);
  const { snapshot } = submissions ? await deliverKept(context, session, submissions) : session;
  // Not to wait for what another will land.
  if (submissions) await ownOf(context, session, submissions, snapshot, ticket);
  let waits = "";
  const result = await waitForTicket(queue, snapshot, ticket, {
    ...dutyOf(context, flags, session),
    timeout: Number(flags["wait-timeout"]) * 1000,
    onWaiting: (text) => waits = text,
  });
  kept?.save();
  if (result === null) {
    const entry = await queue.chains.find("queue", snapshot.queue!, ticket, context.signal);
    const { candidate, agentq } = entry.message;
    const what = { candidate, drops: agentq?.drops ?? [] };
    const cancelled = await isToBeCancelled(context, queue, ticket);
    const document = cancelled
      ? documentOfCancelled(what, ticket)
      : documentOfQueued(what, ticket, "still queued", waits);
    context.print(document, () => describeResult(document));
    return cancelled ? 1 : 3;
  }
  const told = submissions ? await ownOf(context, session, submissions, snapshot, ticket) : [];
  const document = documentOfResult(result);
  goOnBy(context, queue.names.branchName, document);
  context.print(document, () => describeResult(document));
  if (told.length > 0) await forgetTold(context, submissions!, told);
  return document.outcome === "landed" ? 0 : 1;
}

/**
 * This machine's submissions that the ticket is of. @throws `ticket-unknown` where by its records the number was that of
 * its own ones alone, in another life of the queue, and is another's now
 */
async function ownOf(
  context: Context,
  { queue }: LandingSession,
  submissions: Submissions,
  snapshot: Snapshot,
  ticket: number,
): Promise<SubmissionRecord[]> {
  const place = placeOfQueue(context, queue);
  const records = (await submissions.list().catch(() => [])).filter((record) =>
    record.ticket === ticket && isForQueue(record, place)
  );
  if (records.length === 0) return [];
  const { queue: head } = ticket > numberOf(snapshot.queue)
    ? await readSnapshot(queue, context.signal)
    : snapshot;
  // Nobody's yet: the wait says so, once the queue is read again.
  if (ticket > numberOf(head)) return [];
  const known: SubmissionRecord[] = [];
  for (const record of records) {
    if (await ticketOf(queue, head, record, ticket, context.signal) !== null) known.push(record);
  }
  if (known.length === 0) throw anothersTicket(queue, ticket, records[0]!.candidate);
  return known;
}
