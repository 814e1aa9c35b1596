/**
 * Records of one commit for one queue that couldn't be told to be that when they were kept: one for the origin's HEAD,
 * which wasn't known, and one for the branch by its name. As soon as it is known they are one submission, as it was
 * asked for last.
 *
 * ```text
 *  the one that is left asks for what was asked for last ─durable─▶ the others go ─durable─▶ it is delivered
 * ```
 *
 * Cut off in between, what is left still asks for no less than that, and joining them again is right.
 */
import type { Oid } from "../git/types.ts";
import { findSubmission } from "./enqueue.ts";
import { withdraw } from "./resume.ts";
import type { Queue, Snapshot } from "./snapshot.ts";
import type { SubmitOptions } from "./submit.ts";
import { isSame, type SubmitRequest } from "./submit-request.ts";
import { isUnderWay, type SubmissionRecord } from "./submissions.ts";

type JoinOptions = Pick<SubmitOptions, "submissions" | "signal">;

/** All of this machine's that are the same submission as `record`, now that the queue is known; oldest first. */
export async function sameKept(
  queue: Queue,
  record: SubmissionRecord,
  { submissions }: JoinOptions,
): Promise<SubmissionRecord[]> {
  const { candidate, submission } = record;
  const place = { ...record, branch: queue.names.branchName, isDefault: queue.isDefault ?? false };
  return (await submissions.list({ candidate, undelivered: true }))
    .filter((one) =>
      one.submission === submission || one.candidate === candidate && isSame(one, place)
    );
}

/**
 * Makes one of several; null while another process has one of them. What may have been pushed keeps its id: should
 * that have got through unseen, its ticket is the ticket of them all. `request`: what is asked for now, where somebody
 * asks.
 */
export async function joinKept(
  queue: Queue,
  snapshot: Snapshot,
  kept: readonly SubmissionRecord[],
  options: JoinOptions,
  request?: SubmitRequest,
): Promise<SubmissionRecord | null> {
  if (kept.length === 1) return kept[0]!;
  if (kept.some(isUnderWay)) return null;
  const last = kept.reduce((a, b) => (b.submittedAt >= a.submittedAt ? b : a));
  const left = await mayBePushed(queue, snapshot, kept, options) ?? last;
  const joined = await options.submissions.exclusively(left, async (record, learn) => {
    if (record.ticket !== null) return null;
    const asked = request ?? last;
    const changed: SubmissionRecord = {
      ...record,
      submitter: last.submitter,
      submittedAt: last.submittedAt,
      verifyCmd: asked.verifyCmd,
      verifyTimeout: Math.ceil(asked.verifyTimeout),
      title: asked.title,
      drops: [...asked.drops],
      ...(kept.some(({ createBranch }) => createBranch) && { createBranch: true }),
      ...(kept.some((one) => one.kept) && { kept: true }),
    };
    await learn.change(changed);
    return changed;
  });
  if (joined === null) return null;
  for (const other of kept) {
    if (other !== left && !await withdraw(queue, other, options)) return null;
  }
  return joined;
}

/** One that got through unseen; else the oldest that may have been tried. */
async function mayBePushed(
  queue: Queue,
  snapshot: Snapshot,
  kept: readonly SubmissionRecord[],
  { signal }: JoinOptions,
): Promise<SubmissionRecord | undefined> {
  const tried = kept.filter(({ since }) => since !== undefined);
  for (const record of tried) {
    const since = record.since as Oid | null;
    if (await findSubmission(queue, snapshot, record.submission, since, signal)) return record;
  }
  return tried[0];
}
