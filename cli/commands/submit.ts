/** `agentq submit`: enqueue a commit, then wait until it is landed or refused. */
import { AgentqError, isAgentqError } from "../../src/errors.ts";
import { recoverMerge } from "../../src/git/in-progress-journal.ts";
import { operationInProgress } from "../../src/git/operation.ts";
import type { Repository } from "../../src/git/repository.ts";
import { resolveCommit } from "../../src/git/revision.ts";
import { uncommittedChanges } from "../../src/git/status.ts";
import { numberOf, type ResultEntry } from "../../src/landing/chain.ts";
import { documentOfQueued, documentOfResult } from "../../src/landing/documents.ts";
import { participantId } from "../../src/landing/participant.ts";
import type { ResultDocument } from "../../src/landing/schemas.ts";
import { readSnapshot } from "../../src/landing/snapshot.ts";
import { checkRequest, keep, submit, type SubmitRequest } from "../../src/landing/submit.ts";
import {
  createSubmissions,
  type SubmissionRecord,
  type Submissions,
} from "../../src/landing/submissions.ts";
import { systemClock } from "../../src/platform/clock.ts";
import type { Context } from "../context.ts";
import { deliverKept, forgetAnswered, forgetKnown } from "../deliver.ts";
import { dutyOf, type LandingSession, openSession, placeOf } from "../landing.ts";
import { describeResult } from "../output/landing.ts";
import { goOnBy, upstreamName } from "../go-on.ts";
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
    if (flags.offline === true && flags["no-wait"] === true && isOutOfReach(error)) {
      if (flags["create-branch"] !== true) await assertSeenBefore(context);
      return await keepForLater(context, request, me, error as AgentqError, flags.again === true);
    }
    throw error;
  }
  if (session.snapshot.tip === null && flags["create-branch"] !== true) {
    const { assertBranchExists } = await import("../../src/landing/new-branch.ts");
    await assertBranchExists(session.queue, session.snapshot, context.signal);
  }
  const submissions = await createSubmissions(context.stateDirectory);
  await deliverKept(context, session, submissions);
  for (let attempt = 1;; attempt++) {
    const ticket = await enqueueOnce(
      context,
      flags,
      { session, submissions, request, me },
      attempt,
    );
    if (flags["no-wait"] === true) return ticket.answered;
    const document = await waitForIt(context, flags, session, ticket.number, me)
      .catch((error) => {
        throw whileQueued(error, ticket.number);
      });
    if (typeof document === "string") {
      return queued(context, ticket.record, ticket.number, 3, document);
    }
    await forgetAnswered(context, submissions, [ticket.record]);
    const again = attempt < Number(flags.attempts) &&
      await offerResolution(context, repository, session, document);
    if (!again) return answer(context, document);
  }
}

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

/** Nobody answered: the origin isn't there, or the way to it is cut. */
function isOutOfReach(error: unknown): boolean {
  return error instanceof AgentqError &&
    (error.retryable || isAgentqError(error, "origin-not-found"));
}

/** Out of the origin's reach the branches are those that the clone saw there last, if it ever looked. */
async function assertSeenBefore({ branch, remote, repository }: Context): Promise<void> {
  const { config, refs } = repository();
  const prefix = `refs/remotes/${remote}/`;
  // A clone of a single branch knows of no others, and one of a url has no such refs.
  const sees = config.getAll(`remote.${remote}.fetch`)
    .some((spec) => spec === `+refs/heads/*:${prefix}*`);
  if (branch === null || !sees) return;
  const seen = refs.list(prefix).map(({ name }) => name.slice(prefix.length))
    .filter((name) => name !== "HEAD");
  if (seen.length === 0 || seen.includes(branch)) return;
  const { unknownBranch } = await import("../../src/landing/new-branch.ts");
  throw unknownBranch(branch, `${remote}, when this clone last saw it,`, seen);
}

async function keepForLater(
  context: Context,
  request: SubmitRequest,
  me: string,
  reason: AgentqError,
  again: boolean,
): Promise<number> {
  const { resolveRemote, redactUrl } = await import("../../src/git/remote.ts");
  const { config, workTree, gitDir } = context.repository();
  const { pushUrl } = resolveRemote(config, context.remote, workTree ?? gitDir);
  const place = placeOf(context, redactUrl(pushUrl), context.branch);
  const submissions = await createSubmissions(context.stateDirectory);
  const { record, fresh } = await keep(request, place, {
    clock: systemClock,
    me,
    submissions,
    again,
  });
  context.progress.line(`${reason.message}`);
  const document = documentOfQueued(record, null, "offline");
  context.print(
    document,
    () =>
      `${request.candidate.slice(0, 12)} is kept on this machine${fresh ? "" : " already"}; ` +
      `the next submit, wait, land or flush delivers it`,
  );
  return 0;
}

interface Enqueued {
  readonly number: number;
  readonly record: SubmissionRecord;
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
  const { queue, origin } = session;
  const snapshot = attempt === 1 ? session.snapshot : await readSnapshot(queue, context.signal);
  const { ticket, record, fresh } = await submit(
    queue,
    snapshot,
    request,
    placeOf(context, origin.url, queue.names.branchName),
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
    const other = differences(record, request);
    if (other.length > 0) {
      context.progress.line(
        `ticket ${number} was submitted without this ${other.join(", ")} and stays as it is; ` +
          "--again queues a new ticket with it",
      );
    }
  } else if (wait) context.progress.line(`queued ${commit} as ticket ${number}`);
  if (wait) return { number, record, answered: 0 };
  await forgetKnown(context, submissions, session, [record]);
  if (!done) return { number, record, answered: queued(context, record, number, 0) };
  const result = await queue.chains.find("done", snapshot.done!, number, context.signal);
  await forgetAnswered(context, submissions, [record]);
  return { number, record, answered: answer(context, documentOfResult(result)) };
}

/** What is asked for now and wasn't then: a ticket can't be changed. */
function differences(record: SubmissionRecord, request: SubmitRequest): string[] {
  const { verifyCmd, title, drops } = request;
  return [
    ...(verifyCmd !== null && verifyCmd !== record.verifyCmd ? ["--verify-cmd"] : []),
    ...(title !== null && title !== record.title ? ["--title"] : []),
    ...(drops.some((path) => !record.drops.includes(path)) ? ["--drop"] : []),
  ];
}

function queued(
  context: Context,
  record: SubmissionRecord,
  ticket: number,
  code: number,
  waits?: string,
): number {
  const reason = code === 0 ? "queued" : "still queued";
  const document = documentOfQueued(record, ticket, reason, waits);
  context.print(document, () => describeResult(document));
  return code;
}

/** Its result, or what it waits for still. */
async function waitForIt(
  context: Context,
  flags: Flags,
  session: LandingSession,
  ticket: number,
  me: string,
): Promise<ResultDocument | string> {
  let waits = "";
  const { waitForTicket } = await import("../../src/landing/duty.ts");
  const result: ResultEntry | null = await waitForTicket(
    session.queue,
    await readSnapshot(session.queue, context.signal),
    ticket,
    {
      ...dutyOf(context, flags, session, me),
      timeout: Number(flags["wait-timeout"]) * 1000,
      onWaiting: (text) => waits = text,
    },
  );
  return result === null ? waits : documentOfResult(result);
}

/**
 * After a refused merge the same merge is left in progress here. True when it passes by now, because
 * the branch moved on: then it is worth another ticket.
 */
async function offerResolution(
  context: Context,
  repository: Repository,
  session: LandingSession,
  document: ResultDocument,
): Promise<boolean> {
  if (document.reason !== "merge refused" || repository.workTree === null) return false;
  const { leaveRefusedMerge } = await import("../../src/landing/leave-merge.ts");
  const { queue, origin } = session;
  const { tip } = await readSnapshot(queue, context.signal);
  if (tip === null) return false;
  const label = upstreamName(context, queue.names.branchName);
  try {
    const left = await leaveRefusedMerge(origin, repository, {
      candidate: document.candidate,
      tip,
      label,
      signal: context.signal,
    });
    if (left.left) {
      context.progress.line(
        `the merge with ${label} is left in progress in ${repository.workTree}: resolve the marked ` +
          `files so that both sides' changes are in them, git add them, git commit, submit again`,
      );
    } else if (left.reason === "clean") {
      context.progress.line(`${left.message} Submitting it again.`);
      return true;
    } else {
      context.progress.line(`the merge was not left in progress here: ${left.message}`);
      goOnBy(context, queue.names.branchName, document);
    }
  } catch (error) {
    context.signal.throwIfAborted();
    const message = error instanceof AgentqError ? error.message : String(error);
    context.progress.line(`the merge could not be left in progress here: ${message}`);
    goOnBy(context, queue.names.branchName, document);
  }
  return false;
}

function answer(context: Context, document: ResultDocument): number {
  context.print(document, () => describeResult(document));
  return document.outcome === "landed" ? 0 : 1;
}
