/** Submissions that wait on this machine: delivering those kept offline, forgetting those that are done. */
import { AgentqError, isAgentqError } from "../src/errors.ts";
import type { Oid } from "../src/git/types.ts";
import { numberOf } from "../src/landing/chain.ts";
import { assertBranchExists } from "../src/landing/new-branch.ts";
import { readSnapshot, type Snapshot } from "../src/landing/snapshot.ts";
import { joinKept, sameKept } from "../src/landing/join-kept.ts";
import { deliver, staysAsItIs, ticketOf } from "../src/landing/resume.ts";
import { isForQueue, isFromHere, isSame } from "../src/landing/submit-request.ts";
import type { FlushDocument } from "../src/landing/schemas.ts";
import type { SubmissionRecord, Submissions } from "../src/landing/submissions.ts";
import { systemClock } from "../src/platform/clock.ts";
import { cloneOf, dropCommand } from "./clone-of-record.ts";
import type { Context } from "./context.ts";
import { type LandingSession, placeOfQueue, warnOfDamaged } from "./landing.ts";
import { toAgentqError } from "./output/errors.ts";
import { isAnswerWhole } from "./output/write.ts";
import { shellWord } from "../src/store/shell-word.ts";

/** Results may pile up to this number before they are forgotten, all in one commit of the store. */
const FORGET_AFTER = 16;

/** So many results that nobody was told are kept, the newest. */
const MAX_UNTOLD = 256;

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
  const delivered = new Set<string>();
  const { queue } = session;
  const place = placeOfQueue(context, queue);
  for (const record of await submissions.list({ undelivered: true })) {
    if (record.ticket !== null || !isDue(record) || !isForQueue(record, place)) continue;
    if (record.candidate === except && isFromHere(record, place)) continue;
    try {
      const one = await deliverOne(context, session, submissions, record);
      // Two records that turned out to be one submission are delivered once.
      if (one !== null && !delivered.has(one.submission)) {
        delivered.add(one.submission);
        context.progress.line(
          `delivered ${
            record.candidate.slice(0, 12)
          }, kept on this machine, as ticket ${one.ticket}`,
        );
      }
    } catch (error) {
      context.signal.throwIfAborted();
      const { code, message, hint } = toAgentqError(error);
      context.progress.warn(
        `${
          record.candidate.slice(0, 12)
        }, kept on this machine, can't be delivered and stays: ${message}`,
      );
      const { submission, candidate } = record;
      failed.push({ submission, candidate, error: { code, message, hint } });
    }
  }
  warnOfDamaged(context, submissions);
  // The queue has moved by what was delivered.
  const snapshot = delivered.size > 0
    ? await readSnapshot(session.queue, context.signal)
    : session.snapshot;
  return { snapshot, failed };
}

/** True for one that was kept, whatever became of attempts to deliver it. */
function isDue({ kept, since }: SubmissionRecord): boolean {
  return kept === true || since === undefined;
}

/**
 * Delivers one submission, with what turns out to be the same one, and tells its ticket and id; null when another process does.
 * @throws `branch-unknown` where the branch that it is for isn't there any more
 */
export async function deliverOne(
  context: Context,
  session: LandingSession,
  submissions: Submissions,
  wanted: SubmissionRecord,
  warnings: string[] = [],
): Promise<{ readonly ticket: number; readonly submission: string } | null> {
  const { repository, close } = cloneOf(context, wanted);
  try {
    const snapshot = await readSnapshot(session.queue, context.signal);
    const kept = await sameKept(session.queue, wanted, { submissions });
    const isBegun = kept.some(({ createBranch }) => createBranch);
    if (snapshot.tip === null && !isBegun) {
      await assertBranchExists(session.queue, snapshot, context.signal).catch((error) => {
        throw isAgentqError(error, "branch-unknown") ? goneBranch(context, wanted, error) : error;
      });
    }
    // One that isn't among them has been delivered since it was listed.
    const record = kept.some(({ submission }) => submission === wanted.submission)
      ? await joinKept(session.queue, snapshot, kept, { submissions, signal: context.signal })
      : wanted;
    if (record === null) return null;
    const ticket = await deliver(
      session.queue,
      snapshot,
      record,
      { clock: systemClock, objects: repository.objects, submissions, signal: context.signal },
    );
    if (ticket === null) return null;
    for (const warning of staysAsItIs(ticket, record)) {
      context.progress.warn(warning);
      warnings.push(warning);
    }
    return { ticket: numberOf(ticket), submission: record.submission };
  } finally {
    close();
  }
}

/** It was there, or so it seemed, when the submission was kept: begun anew by itself, it would come back to life. */
function goneBranch(
  context: Context,
  record: SubmissionRecord,
  { message, details }: AgentqError,
): AgentqError {
  const { candidate, branch } = record;
  const again = `agentq submit --candidate ${candidate}`;
  const named = branch === null ? "" : ` --branch ${shellWord(branch)}`;
  return new AgentqError("branch-unknown", message, {
    hint:
      `Submit the commit for another branch (${again} --branch BRANCH) and take this one back (${
        dropCommand(context, record)
      }), or begin the branch with it: ${again}${named} --create-branch`,
    ...(details && { details }),
  });
}

/**
 * Forgets submissions whose results have just been told, which stand where that can't be written down. Those of which
 * the answer was lost stay, for the next run that asks.
 */
export async function forgetTold(
  context: Context,
  submissions: Submissions,
  records: readonly SubmissionRecord[],
): Promise<void> {
  if (isAnswerWhole()) await forget(context, submissions, records);
}

/** The same for one submission, with what was submitted before it of the same commit: its result is the newer one. */
export async function forgetToldOf(
  context: Context,
  submissions: Submissions,
  session: LandingSession,
  record: SubmissionRecord,
): Promise<void> {
  if (!isAnswerWhole()) return;
  const { queue } = session;
  const place = placeOfQueue(context, queue);
  const { candidate } = record;
  const earlier = await submissions.list({ candidate, before: record.ticket! }).catch(() => []);
  await forget(context, submissions, [
    record,
    ...earlier.filter((one) => one.candidate === candidate && isSame(one, place)),
  ]);
}

async function forget(
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

/**
 * Forgets submissions to this queue that have results, when there are many: those whose submitters wait for nothing
 * more, and of the others the oldest beyond a bound. Never those in `keep`.
 */
export async function forgetKnown(
  context: Context,
  submissions: Submissions,
  session: LandingSession,
  keep: readonly SubmissionRecord[],
): Promise<void> {
  // That of a moment ago is good enough: forgetting can wait for the next submission.
  if (submissions.listed() < FORGET_AFTER) return;
  const { queue, snapshot: { queue: head, next } } = session;
  const kept = new Set(keep.map(({ submission }) => submission));
  const place = placeOfQueue(context, queue);
  const finished = async (told: boolean) =>
    (await submissions.list({ before: next, told }))
      .filter((record) => isForQueue(record, place) && !kept.has(record.submission));
  const told = await finished(true);
  const untold = submissions.listed() > MAX_UNTOLD ? (await finished(false)) : [];
  const known: SubmissionRecord[] = [];
  for (
    const record of [
      ...told.length < FORGET_AFTER ? [] : told,
      ...untold.slice(0, Math.max(0, untold.length - MAX_UNTOLD)),
    ]
  ) {
    // One whose number is another's by now has no result: it is lost, and stays for status to say so.
    if (await ticketOf(queue, head, record, record.ticket!, context.signal) !== null) {
      known.push(record);
    }
  }
  if (known.length > 0) await forget(context, submissions, known);
}
