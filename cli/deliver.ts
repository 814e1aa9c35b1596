/** Submissions that wait on this machine: delivering those kept offline, forgetting those that are done. */
import { existsSync } from "node:fs";
import { AgentqError, isAgentqError } from "../src/errors.ts";
import { holdsCommit, openRepository, type Repository } from "../src/git/repository.ts";
import type { Oid } from "../src/git/types.ts";
import { numberOf } from "../src/landing/chain.ts";
import { assertBranchExists } from "../src/landing/new-branch.ts";
import { readSnapshot, type Snapshot } from "../src/landing/snapshot.ts";
import { deliver, staysAsItIs, ticketOf } from "../src/landing/resume.ts";
import {
  isForQueue,
  isFromHere,
  isInView,
  isSame,
  isUrlKnown,
} from "../src/landing/submit-request.ts";
import { directoryId } from "../src/platform/mount.ts";
import type { FlushDocument } from "../src/landing/schemas.ts";
import type { SubmissionRecord, Submissions } from "../src/landing/submissions.ts";
import { systemClock } from "../src/platform/clock.ts";
import type { Context } from "./context.ts";
import { type LandingSession, placeOfQueue, warnOfDamaged } from "./landing.ts";
import { toAgentqError } from "./output/errors.ts";
import { isAnswerWhole } from "./output/write.ts";
import { shellWord } from "../src/store/shell-word.ts";
import { stateOption } from "./state.ts";

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
  let delivered = 0;
  const { queue } = session;
  const place = placeOfQueue(context, queue);
  for (const record of await submissions.list({ undelivered: true })) {
    if (record.ticket !== null || !isDue(record) || !isForQueue(record, place)) continue;
    if (record.candidate === except && isFromHere(record, place)) continue;
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
  const snapshot = delivered > 0
    ? await readSnapshot(session.queue, context.signal)
    : session.snapshot;
  return { snapshot, failed };
}

/** True for one that was kept, whatever became of attempts to deliver it. */
function isDue({ kept, since }: SubmissionRecord): boolean {
  return kept === true || since === undefined;
}

/**
 * Delivers one submission and gives its ticket; null when another process does.
 * @throws `branch-unknown` where the branch that it is for isn't there any more
 */
export async function deliverOne(
  context: Context,
  session: LandingSession,
  submissions: Submissions,
  record: SubmissionRecord,
  warnings: string[] = [],
): Promise<number | null> {
  const { repository, close } = cloneOf(context, record);
  try {
    const snapshot = await readSnapshot(session.queue, context.signal);
    if (snapshot.tip === null && !record.createBranch) {
      await assertBranchExists(session.queue, snapshot, context.signal).catch((error) => {
        throw isAgentqError(error, "branch-unknown") ? goneBranch(context, record, error) : error;
      });
    }
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
    return numberOf(ticket);
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

/** The command that takes a submission back. */
export function dropCommand(context: Context, { submission }: SubmissionRecord): string {
  return `agentq flush --drop ${submission}${stateOption(context)}`;
}

/**
 * The clone that a submission was made in; where that is gone (moved, or deleted), this run's, if it has the commit.
 * @throws `not-a-repository`
 */
export function cloneOf(
  context: Context,
  record: SubmissionRecord,
): { repository: Repository; close(): void } {
  const { repository: path, candidate, submission } = record;
  const here = context.repositoryOrNull();
  const place = { repository: here?.commonDir ?? "", clone: directoryId(here?.commonDir ?? "") };
  // What another container kept for a path of its own goes nowhere from here.
  const mayGo = isUrlKnown(record, place);
  if (mayGo && here?.objects.has(candidate)) {
    if (here.commonDir === path || !holdsCommit(path, candidate)) {
      return { repository: here, close() {} };
    }
  }
  const isThere = existsSync(path);
  // Where the commit can't be told to be missing, opening it says what is wrong.
  if (mayGo && isThere && !lacksCommit(path, candidate)) {
    const repository = openRepository(path);
    return { repository, close: () => repository.close() };
  }
  const commit = candidate.slice(0, 12);
  if (!isInView(record)) {
    throw new AgentqError(
      "not-a-repository",
      `the clone that ${commit} was submitted from isn't seen from here (another container, or a disk that isn't mounted): ${path}`,
      {
        hint: mayGo
          ? "Run agentq flush where that clone is, or in one here that has the commit."
          : `Run agentq flush where that clone is: ${record.url} may lead elsewhere from here.`,
        details: { path, submission },
      },
    );
  }
  if (isThere && record.clone !== undefined && record.clone === directoryId(path)) {
    throw new AgentqError(
      "object-missing",
      `the commit ${commit} isn't in the clone that it was submitted from any more: ${path}`,
      {
        hint: "It was pruned. Fetch it from where it is still, or submit it from another clone; " +
          `or take it back with ${dropCommand(context, record)}`,
        details: { path, submission, oid: candidate },
      },
    );
  }
  throw new AgentqError(
    "not-a-repository",
    isThere
      ? `the clone that ${commit} was submitted from is gone: another stands at ${path}, without that commit`
      : `the clone that ${commit} was submitted from is gone: ${path}`,
    {
      hint: "Run agentq flush in a clone that has the commit, or take it back with " +
        dropCommand(context, record),
      details: { path, submission },
    },
  );
}

/** True for a sound clone in which the commit isn't. */
function lacksCommit(path: string, candidate: Oid): boolean {
  try {
    const repository = openRepository(path);
    try {
      return !repository.objects.has(candidate);
    } finally {
      repository.close();
    }
  } catch {
    return false;
  }
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
