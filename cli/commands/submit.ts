/** `agentq submit`: enqueue a commit, then wait until it is landed or refused. */
import { AgentqError } from "../../src/errors.ts";
import { recoverMerge } from "../../src/git/in-progress-journal.ts";
import { operationInProgress } from "../../src/git/operation.ts";
import type { Repository } from "../../src/git/repository.ts";
import { resolveCommit } from "../../src/git/revision.ts";
import { uncommittedChanges } from "../../src/git/status.ts";
import { numberOf, type ResultEntry } from "../../src/landing/chain.ts";
import {
  documentOfCancelled,
  documentOfQueued,
  documentOfResult,
} from "../../src/landing/documents.ts";
import { participantId } from "../../src/landing/participant.ts";
import type { ResultDocument } from "../../src/landing/schemas.ts";
import { staysAsItIs } from "../../src/landing/resume.ts";
import { readSnapshot } from "../../src/landing/snapshot.ts";
import { submit } from "../../src/landing/submit.ts";
import { checkRequest, type SubmitRequest } from "../../src/landing/submit-request.ts";
import {
  createSubmissions,
  type SubmissionRecord,
  type Submissions,
} from "../../src/landing/submissions.ts";
import { systemClock } from "../../src/platform/clock.ts";
import type { Context } from "../context.ts";
import { deliverKept, forgetKnown, forgetToldOf } from "../deliver.ts";
import { isToBeCancelled } from "../cancelled.ts";
import { dutyOf, type LandingSession, openSession, placeOfQueue } from "../landing.ts";
import { describeResult } from "../output/landing.ts";
import { isAnswerWhole } from "../output/write.ts";
import { offerResolution } from "../offer-resolution.ts";
import { assertSeenBefore, isCutOff, isOutOfReach, keepForLater } from "../offline.ts";
import { whileQueued } from "../queued-error.ts";
import type { Flags } from "../spec.ts";

export async function run(
  context: Context,
  _args: readonly string[],
  flags: Flags,
): Promise<number> {
  const repository = context.repository();
  const request = requestOf(repository, flags);
  const me = participantId();
  let session: LandingSession;
  try {
    session = await openSession(context);
  } catch (error) {
    if (flags.offline === true && isOutOfReach(error)) {
      if (flags["create-branch"] !== true) await assertSeenBefore(context);
      return await keepForLater(context, request, me, error as AgentqError, {
        code: codeOfKept(flags),
        again: flags.again === true,
      });
    }
    throw error;
  }
  if (session.snapshot.tip === null && flags["create-branch"] !== true) {
    const { assertBranchExists } = await import("../../src/landing/new-branch.ts");
    await assertBranchExists(session.queue, session.snapshot, context.signal);
  }
  const submissions = await createSubmissions(context.stateDirectory);
  for (let attempt = 1;; attempt++) {
    let ticket: Enqueued;
    try {
      if (attempt === 1) await deliverKept(context, session, submissions, request.candidate);
      const what = { session, submissions, request, me };
      ticket = await enqueueOnce(context, flags, what, attempt);
    } catch (error) {
      if (flags.offline !== true || context.signal.aborted || !isCutOff(error)) throw error;
      const { queue } = session;
      return await keepForLater(context, request, me, error as AgentqError, {
        code: codeOfKept(flags),
        again: flags.again === true || attempt > 1,
        place: placeOfQueue(context, queue),
      });
    }
    if (flags["no-wait"] === true) return ticket.answered;
    const document = await waitForIt(context, flags, session, ticket, me)
      .catch((error) => {
        throw whileQueued(error, ticket.number);
      });
    if (typeof document === "string") {
      if (await isToBeCancelled(context, session.queue, ticket.number)) {
        return answer(context, documentOfCancelled(ticket.record, ticket.number), ticket.warnings);
      }
      return queued(context, ticket.record, ticket.number, 3, document, ticket.warnings);
    }
    const again = attempt < Number(flags.attempts) &&
      await offerResolution(context, repository, session, document);
    if (again) continue;
    const code = answer(context, document, ticket.warnings);
    await forgetToldOf(context, submissions, session, ticket.record);
    return code;
  }
}

/** Without --no-wait its result was to be waited for, which nobody can. */
const codeOfKept = (flags: Flags) => flags["no-wait"] === true ? 0 : 3;

/** What is to be landed. @throws `work-tree-dirty`, `operation-in-progress`, `revision-unknown` */
function requestOf(repository: Repository, flags: Flags): SubmitRequest {
  const given = flags.candidate;
  if (given === undefined) assertFinished(repository);
  const request: SubmitRequest = {
    candidate: resolveCommit(repository, String(given ?? "HEAD")),
    verifyCmd: flags["verify-cmd"] === undefined ? null : String(flags["verify-cmd"]),
    verifyTimeout: Number(flags["verify-timeout"]),
    title: flags.title === undefined ? null : String(flags.title),
    drops: (flags.drop as readonly string[] | undefined) ?? [],
    createBranch: flags["create-branch"] === true,
  };
  checkRequest(request);
  return request;
}

/** HEAD stands for the work tree only when nothing in it is unfinished. */
function assertFinished(repository: Repository): void {
  if (repository.workTree === null) return;
  recoverMerge(repository);
  const running = operationInProgress(repository);
  if (running !== null && running.operation !== "bisect") {
    throw new AgentqError(
      "operation-in-progress",
      `a ${running.operation} is in progress in ${repository.workTree}`,
      {
        hint: running.operation === "merge"
          ? "Resolve the marked files, git add them, git commit, then submit again; " +
            `or end it with ${running.abort}.`
          : `Finish it, or end it with ${running.abort}; or name the commit with --candidate REV.`,
        details: { operation: running.operation },
      },
    );
  }
  const changes = uncommittedChanges(repository, { limit: 20 });
  if (changes.length === 0) return;
  const paths = changes.map(({ path }) => path);
  throw new AgentqError(
    "work-tree-dirty",
    `there are uncommitted changes in ${repository.workTree}: ${paths.slice(0, 5).join(", ")}` +
      (paths.length > 5 ? ", …" : ""),
    { details: { paths } },
  );
}

interface Enqueued {
  readonly number: number;
  readonly record: SubmissionRecord;
  /** What was asked for and the ticket isn't. */
  readonly warnings: readonly string[];
  /** The exit code with --no-wait. */
  readonly answered: number;
}

async function enqueueOnce(
  context: Context,
  flags: Flags,
  what: {
    session: LandingSession;
    submissions: Submissions;
    request: SubmitRequest;
    me: string;
  },
  attempt: number,
): Promise<Enqueued> {
  const { session, submissions, request, me } = what;
  const { queue } = session;
  const snapshot = attempt === 1 ? session.snapshot : await readSnapshot(queue, context.signal);
  const { ticket, record, fresh } = await submit(
    queue,
    snapshot,
    request,
    placeOfQueue(context, queue),
    {
      clock: systemClock,
      me,
      objects: context.repository().objects,
      submissions,
      again: flags.again === true || attempt > 1,
      signal: context.signal,
      onNote: (text) => context.progress.line(text),
    },
  );
  const number = numberOf(ticket);
  const wait = flags["no-wait"] !== true;
  const commit = request.candidate.slice(0, 12);
  const done = number < snapshot.next;
  if (!fresh) {
    const then = wait && !done ? ": waiting for its result" : "";
    context.progress.line(`${commit} was submitted before, as ticket ${number}${then}`);
  } else if (wait) context.progress.line(`queued ${commit} as ticket ${number}`);
  const warnings = staysAsItIs(ticket, request);
  for (const warning of warnings) context.progress.line(warning);
  if (wait) {
    // An earlier run may have waited for nothing more.
    if (!fresh) submissions.tell(record, false);
    return { number, record, warnings, answered: 0 };
  }
  await forgetKnown(context, submissions, session, [record]);
  if (!done) {
    const answered = queued(context, record, number, 0, "", warnings);
    if (isAnswerWhole()) submissions.tell(record, true);
    return { number, record, warnings, answered };
  }
  const result = await queue.chains.find("done", snapshot.done!, number, context.signal)
    .catch((error) => {
      throw whileQueued(error, number);
    });
  const answered = answer(context, documentOfResult(result), warnings);
  await forgetToldOf(context, submissions, session, record);
  return { number, record, warnings, answered };
}

function queued(
  context: Context,
  record: SubmissionRecord,
  ticket: number,
  code: number,
  waits = "",
  warnings: readonly string[] = [],
): number {
  const reason = code === 0 ? "queued" : "still queued";
  const document = warned(documentOfQueued(record, ticket, reason, waits), warnings);
  context.print(document, () => describeResult(document));
  return code;
}

/** Its result, or what it waits for still. */
async function waitForIt(
  context: Context,
  flags: Flags,
  session: LandingSession,
  { number: ticket, record }: Enqueued,
  me: string,
): Promise<ResultDocument | string> {
  let waits = "";
  const { waitForTicket } = await import("../../src/landing/wait-for-ticket.ts");
  const result: ResultEntry | null = await waitForTicket(
    session.queue,
    null,
    ticket,
    {
      ...dutyOf(context, flags, session, me),
      timeout: Number(flags["wait-timeout"]) * 1000,
      candidate: record.candidate,
      onWaiting: (text) => waits = text,
    },
  );
  return result === null ? waits : documentOfResult(result);
}

function warned(document: ResultDocument, warnings: readonly string[]): ResultDocument {
  return warnings.length === 0 ? document : { ...document, warnings: [...warnings] };
}

function answer(
  context: Context,
  result: ResultDocument,
  warnings: readonly string[],
): number {
  const document = warned(result, warnings);
  context.print(document, () => describeResult(document));
  return document.outcome === "landed" ? 0 : 1;
}
