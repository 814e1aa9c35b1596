/** Submissions that wait on this machine: delivering those kept offline, forgetting those that are done. */
import { AgentqError } from "../src/errors.ts";
import { openRepository } from "../src/git/repository.ts";
import type { Oid } from "../src/git/types.ts";
import { numberOf } from "../src/landing/chain.ts";
import { readSnapshot, type Snapshot } from "../src/landing/snapshot.ts";
import { deliver, staysAsItIs } from "../src/landing/resume.ts";
import { isForQueue } from "../src/landing/submit.ts";
import type { FlushDocument } from "../src/landing/schemas.ts";
import type { SubmissionRecord, Submissions } from "../src/landing/submissions.ts";
import { systemClock } from "../src/platform/clock.ts";
import type { Context } from "./context.ts";
import { type LandingSession, placeOf, warnOfDamaged } from "./landing.ts";
import { toAgentqError } from "./output/errors.ts";

/** Results may pile up to this number before they are forgotten, all in one commit of the store. */
const FORGET_AFTER = 16;

export interface Delivery {
  /** The queue with what was delivered. */
  readonly snapshot: Snapshot;
  readonly failed: FlushDocument["kept"];
}

/**
 * Delivers what was kept offline for this queue. What can't be delivered is said, given back, and stays.
 * `except`: a commit of this clone that the caller submits itself, as it is asked for now.
 */
export async function deliverKept(
  context: Context,
  session: LandingSession,
  submissions: Submissions,
  except?: Oid,
): Promise<Delivery> {
  const failed: FlushDocument["kept"] = [];
  let delivered = 0;
  const { queue, origin } = session;
  const place = placeOf(context, origin.url, queue.names.branchName);
  for (const record of await submissions.list({ undelivered: true })) {
    if (record.ticket !== null || !isDue(record) || !isForQueue(record, place)) continue;
    if (record.candidate === except && record.repository === place.repository) continue;
    try {
      const ticket = await deliverOne(context, session, submissions, record);
      if (ticket !== null) {
        delivered++;
        context.progress.line(
          `delivered ${record.candidate.slice(0, 12)}, kept on this machine, as ticket ${ticket}`,
        );
      }
    } catch (error) {
      context.signal.throwIfAborted();
      const { code, message, hint } = toAgentqError(error);
      context.progress.line(
        `warning: ${
          record.candidate.slice(0, 12)
        }, kept on this machine, can't be delivered and stays: ${message}`,
      );
      const { submission, candidate } = record;
      failed.push({ submission, candidate, error: { code, message, hint } });
    }
  }
  warnOfDamaged(context, submissions);
  // The queue has moved by what was delivered.
  const snapshot = delivered > 0
    ? await readSnapshot(session.queue, context.signal)
    : session.snapshot;
  return { snapshot, failed };
}

/** True for one that was kept, whatever became of attempts to deliver it. */
function isDue({ kept, since }: SubmissionRecord): boolean {
  return kept === true || since === undefined;
}

/** Delivers one submission and gives its ticket; null when another process does. */
export async function deliverOne(
  context: Context,
  session: LandingSession,
  submissions: Submissions,
  record: SubmissionRecord,
  warnings: string[] = [],
): Promise<number | null> {
  const here = context.repositoryOrNull();
  const ours = here?.commonDir === record.repository;
  const repository = ours ? here : openRepository(record.repository);
  try {
    const ticket = await deliver(
      session.queue,
      await readSnapshot(session.queue, context.signal),
      record,
      { clock: systemClock, objects: repository.objects, submissions, signal: context.signal },
    );
    if (ticket === null) return null;
    for (const warning of staysAsItIs(ticket, record)) {
      context.progress.line(`warning: ${warning}`);
      warnings.push(warning);
    }
    return numberOf(ticket);
  } finally {
    if (!ours) repository.close();
  }
}

/** Forgets submissions whose result is known; the result stands where that can't be written down. */
export async function forgetAnswered(
  context: Context,
  submissions: Submissions,
  records: readonly SubmissionRecord[],
): Promise<void> {
  try {
    await submissions.forget(records);
  } catch (error) {
    const message = error instanceof AgentqError ? error.message : String(error);
    context.progress.line(`the submission could not be forgotten on this machine: ${message}`);
  }
}

/** Forgets submissions to this queue that have results, when there are many; never those in `keep`. */
export async function forgetKnown(
  context: Context,
  submissions: Submissions,
  session: LandingSession,
  keep: readonly SubmissionRecord[],
): Promise<void> {
  // That of a moment ago is good enough: forgetting can wait for the next submission.
  if (submissions.listed() < FORGET_AFTER) return;
  const { names, origin } = session.queue;
  const kept = new Set(keep.map(({ submission }) => submission));
  const place = { url: origin.url, namespace: names.namespace, branch: names.branchName };
  const finished = await submissions.list({ before: session.snapshot.next });
  const known = finished.filter((record) =>
    isForQueue(record, place) && !kept.has(record.submission)
  );
  await forgetAnswered(context, submissions, known);
}
