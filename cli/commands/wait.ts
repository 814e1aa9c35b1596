/** `agentq wait TICKET`: wait for one ticket, landing meanwhile. */
import { numberOf } from "../../src/landing/chain.ts";
import { documentOfQueued, documentOfResult } from "../../src/landing/documents.ts";
import { waitForTicket } from "../../src/landing/wait-for-ticket.ts";
import type { EntryCache } from "../../src/landing/entry-cache.ts";
import { ticketOf } from "../../src/landing/resume.ts";
import { type Queue, readSnapshot, type Snapshot } from "../../src/landing/snapshot.ts";
import type { SubmissionRecord } from "../../src/landing/submissions.ts";
import { isForQueue } from "../../src/landing/submit-request.ts";
import type { Context } from "../context.ts";
import { deliverKept, forgetTold } from "../deliver.ts";
import {
  dutyOf,
  keptEntries,
  openSession,
  placeOf,
  submissionsOrNull,
  ticketNumber,
} from "../landing.ts";
import { goOnBy } from "../go-on.ts";
import { describeResult } from "../output/landing.ts";
import type { Flags } from "../spec.ts";

export async function run(
  context: Context,
  args: readonly string[],
  flags: Flags,
): Promise<number> {
  const ticket = ticketNumber(args[0]);
  let kept: EntryCache | undefined;
  const session = await openSession(context, (origin) => kept = keptEntries(context, origin));
  const { queue, origin } = session;
  const submissions = await submissionsOrNull(context);
  const { snapshot } = submissions ? await deliverKept(context, session, submissions) : session;
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
    const document = documentOfQueued(what, ticket, "still queued", waits);
    context.print(document, () => describeResult(document));
    return 3;
  }
  let told: readonly SubmissionRecord[] = [];
  if (submissions) {
    const place = placeOf(context, origin.url, queue.names.branchName);
    const ours = (await submissions.list().catch(() => [])).filter((record) =>
      record.ticket === ticket && isForQueue(record, place)
    );
    if (ours.length > 0) told = await submissionsOf(context, queue, snapshot, ours, ticket);
  }
  const document = documentOfResult(result);
  goOnBy(context, queue.names.branchName, document);
  context.print(document, () => describeResult(document));
  if (told.length > 0) await forgetTold(context, submissions!, told);
  return document.outcome === "landed" ? 0 : 1;
}

/** The submissions that the ticket is of. One that had its number in another life of the queue isn't. */
async function submissionsOf(
  context: Context,
  queue: Queue,
  snapshot: Snapshot,
  records: readonly SubmissionRecord[],
  ticket: number,
): Promise<SubmissionRecord[]> {
  const { queue: head } = ticket > numberOf(snapshot.queue)
    ? await readSnapshot(queue, context.signal)
    : snapshot;
  const known: SubmissionRecord[] = [];
  for (const record of records) {
    if (await ticketOf(queue, head, record, ticket, context.signal) !== null) known.push(record);
    else {
      context.progress.line(
        `warning: ticket ${ticket} is another's: ${
          record.candidate.slice(0, 12)
        }, which this machine submitted ` +
          "under that number, is not in the queue any more; submit it again",
      );
    }
  }
  return known;
}
