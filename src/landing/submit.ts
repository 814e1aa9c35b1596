/**
 * Submitting: the intent is durable before the push can be seen, and the ticket is noted after it. A rerun
 * after a crash anywhere finds its own ticket, by that or by the submission's id, instead of making a
 * second one.
 */
import type { Clock } from "../platform/clock.ts";
import { isAgentqError } from "../errors.ts";
import type { ObjectReader, Origin } from "../git/types.ts";
import { numberOf, type TicketEntry } from "./chain.ts";
import { enqueue, findSubmission } from "./enqueue.ts";
import { joinKept } from "./join-kept.ts";
import { resume, whileRecorded, withdraw } from "./resume.ts";
import { foundAfterStop } from "./push.ts";
import { type Queue, readSnapshot, type Snapshot } from "./snapshot.ts";
import { owner } from "./submission-record.ts";
import { draftOf, isUnderWay, type SubmissionRecord, type Submissions } from "./submissions.ts";
import {
  isOwn,
  isSame,
  newRecord,
  type SubmitPlace,
  type SubmitRequest,
} from "./submit-request.ts";
import { pushing } from "./under-way.ts";

export interface SubmitOptions {
  readonly clock: Clock;
  readonly me: string;
  readonly objects: ObjectReader;
  readonly submissions: Submissions;
  /** Make a new ticket even when this commit has one outstanding. */
  readonly again: boolean;
  readonly signal?: AbortSignal;
  /** Told what went wrong beside the submission, which stands. */
  readonly onNote?: (text: string) => void;
}

export interface Submitted {
  readonly ticket: TicketEntry;
  readonly record: SubmissionRecord;
  /** False when the ticket is that of an earlier run. */
  readonly fresh: boolean;
}

/**
 * Enqueues the candidate, or finds the outstanding ticket of an earlier run for the same commit.
 * @throws `push-refused`, `push-unknown`, `corrupt-chain`, `state-unavailable`
 */
export async function submit(
  queue: Queue,
  snapshot: Snapshot,
  request: SubmitRequest,
  place: SubmitPlace,
  options: SubmitOptions,
): Promise<Submitted> {
  const { submissions } = options;
  const mine = (record: SubmissionRecord) =>
    isSame(record, place) && record.candidate === request.candidate;
  if (options.again) {
    // What was recorded before and never came through is not to come after this one: this one takes its place.
    const left = (await submissions.list({ candidate: request.candidate, undelivered: true }))
      .filter((record) => mine(record) && !isUnderWay(record));
    const one = left.length > 1 && await joinKept(queue, snapshot, left, options, request);
    let taken: Submitted | null = null;
    for (const record of one ? [one] : left) {
      if (taken) {
        await withdraw(queue, record, options);
        continue;
      }
      const found = await resume(queue, snapshot, record, options, request);
      if (found?.ticket.message.submitter === options.me) taken = found;
    }
    if (taken) return { ...taken, fresh: true };
  } else {
    const list = async () =>
      (await submissions.list({ candidate: request.candidate })).filter(mine);
    let earlier = await list();
    const kept = earlier.filter(({ ticket }) => ticket === null);
    if (kept.length > 1) {
      await joinKept(queue, snapshot, kept, options, request);
      earlier = await list();
    }
    // Outstanding ones first, the oldest of them; else the newest whose result nobody asked for yet. What a clone
    // that is gone has left comes after all of this one's own.
    const outstanding = (record: SubmissionRecord) =>
      record.ticket === null || record.ticket >= snapshot.next;
    const ordered = (records: readonly SubmissionRecord[]) => [
      ...records.filter(outstanding),
      ...records.filter((record) => !outstanding(record)).reverse(),
    ];
    const own = (record: SubmissionRecord) => isOwn(record, place);
    const left = earlier.filter((record) => !own(record));
    for (const record of [...ordered(earlier.filter(own)), ...ordered(left)]) {
      const asked = isUnderWay(record) ? undefined : request;
      const found = await resume(queue, snapshot, record, options, asked);
      if (found) return found;
    }
  }
  return await submitNew(queue, snapshot, request, place, options);
}

async function submitNew(
  queue: Queue,
  snapshot: Snapshot,
  request: SubmitRequest,
  place: SubmitPlace,
  options: SubmitOptions,
): Promise<Submitted> {
  const { clock } = options;
  const record = newRecord(request, place, {
    submitter: options.me,
    now: clock.wall(),
    since: snapshot.queueHead,
    by: owner(),
  });
  pushing.add(record.submission);
  try {
    return await pushNew(queue, snapshot, record, place, options);
  } finally {
    pushing.delete(record.submission);
  }
}

async function pushNew(
  queue: Queue,
  snapshot: Snapshot,
  record: SubmissionRecord,
  place: SubmitPlace,
  options: SubmitOptions,
): Promise<Submitted> {
  const { submissions, clock, signal } = options;
  // Durable, and known to be the only one for this commit, before the push can be seen.
  const alone = submissions.record(record).then(() =>
    options.again || isAlone(submissions, record)
  );
  let begun = false;
  const deliver = (to: Queue) =>
    enqueue(to, snapshot, draftOf(record), {
      clock,
      objects: options.objects,
      ...(signal && { signal }),
    }).catch(async (error) => {
      await alone;
      // Refused for good, or never begun: there is nothing to come back to. What a status alone refused may
      // be on its way still.
      const refused = isAgentqError(error, "push-refused", "repository-foreign") &&
        error.details?.status === undefined;
      if (refused || (signal?.aborted && !begun)) {
        await submissions.forget([record]);
        throw error;
      }
      if (signal?.aborted && !isAgentqError(error, "push-unknown")) {
        return await foundAfterStop("submit", async (asking) => {
          const now = await readSnapshot(queue, asking);
          return await findSubmission(queue, now, record.submission, record.since!, asking);
        }).catch((unknown) => {
          throw whileRecorded(unknown, record);
        });
      }
      throw whileRecorded(error, record);
    });
  let ticket = await deliver(whenReady(queue, async () => {
    if (!await alone) throw OTHERS;
    signal?.throwIfAborted();
    begun = true;
  })).catch((error) => {
    if (error !== OTHERS) throw error;
    return null;
  });
  if (ticket === null) {
    const shared = await giveWay(queue, snapshot, record, place, options);
    if (shared) return shared;
    begun = true;
    ticket = await deliver(queue);
  }
  const known = { ...record, ticket: numberOf(ticket) };
  // What isn't written down is found by its submission id, as after a crash at this point.
  try {
    submissions.settle(known, known.ticket);
  } catch (error) {
    options.onNote?.(noteOf(error));
  }
  return { ticket, record: known, fresh: true };
}

/** Names alone tell that there is no other for the same commit, which is nearly always so. */
async function isAlone(submissions: Submissions, mine: SubmissionRecord): Promise<boolean> {
  return (await submissions.list({ candidate: mine.candidate, except: mine })).length === 0;
}

const OTHERS = new Error("there are other submissions of the same commit");

/**
 * The queue, whose pushes wait for `ready` before anything of them can be seen. What can be prepared
 * meanwhile is, the first time; a push that was overtaken is made in the usual order.
 */
function whenReady(queue: Queue, ready: () => Promise<void>): Queue {
  let first = true;
  const { origin } = queue;
  const push: Origin["push"] = async (updates, objects, options = {}) => {
    if (first && origin.kind === "file") {
      first = false;
      return await origin.push(updates, objects, { ...options, ready });
    }
    await ready();
    return await origin.push(updates, objects, options);
  };
  return { ...queue, origin: { ...origin, push } };
}

/**
 * Two runs that submit the same commit at the same moment both look before either records. So each
 * looks once more: of those recorded, the oldest is delivered, by whoever comes first, and the others go.
 */
async function giveWay(
  queue: Queue,
  snapshot: Snapshot,
  mine: SubmissionRecord,
  place: SubmitPlace,
  options: SubmitOptions,
): Promise<Submitted | null> {
  const { submissions } = options;
  const { candidate } = mine;
  for (const record of await submissions.list({ candidate })) {
    if (record.submission === mine.submission) return null;
    if (!isSame(record, place)) continue;
    await submissions.forget([mine]);
    return await resume(queue, snapshot, record, options) ??
      await submit(
        queue,
        await readSnapshot(queue, options.signal),
        requestOf(mine),
        place,
        options,
      );
  }
  return null;
}

const requestOf = (
  { candidate, verifyCmd, verifyTimeout, title, drops, createBranch = false }: SubmissionRecord,
) => ({ candidate, verifyCmd, verifyTimeout, title, drops, createBranch });

function noteOf(error: unknown): string {
  return `the ticket's number could not be kept on this machine: ${(error as Error).message}`;
}
