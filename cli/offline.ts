/** A submission whose origin is out of reach: kept on this machine, for a later command to deliver. */
import { AgentqError, isAgentqError } from "../src/errors.ts";
import { documentOfQueued } from "../src/landing/documents.ts";
import { keep } from "../src/landing/keep.ts";
import { isOfConnection } from "../src/landing/patience.ts";
import type { SubmitPlace, SubmitRequest } from "../src/landing/submit-request.ts";
import { createSubmissions } from "../src/landing/submissions.ts";
import { systemClock } from "../src/platform/clock.ts";
import type { Context } from "./context.ts";
import { guessedBranch, placeOf, warnOfDamaged } from "./landing.ts";
import { isAnswerWhole } from "./output/write.ts";

/** Nobody answered: the origin isn't there, or the way to it is cut. */
export function isOutOfReach(error: unknown): boolean {
  return error instanceof AgentqError &&
    (error.retryable || isAgentqError(error, "origin-not-found"));
}

/** It went away after it had answered, so that nobody may know what became of the push. */
export function isCutOff(error: unknown): boolean {
  return isOfConnection(error) || isAgentqError(error, "push-unknown", "origin-not-found");
}

/** Out of the origin's reach the branches are those that the clone saw there last, if it ever looked. */
export async function assertSeenBefore({ branch, remote, repository }: Context): Promise<void> {
  const { config, refs } = repository();
  const prefix = `refs/remotes/${remote}/`;
  // A clone of a single branch knows of no others, and one of a url has no such refs.
  const sees = config.getAll(`remote.${remote}.fetch`)
    .some((spec) => spec === `+refs/heads/*:${prefix}*`);
  if (branch === null || !sees) return;
  const seen = refs.list(prefix).map(({ name }) => name.slice(prefix.length))
    .filter((name) => name !== "HEAD");
  if (seen.length === 0 || seen.includes(branch)) return;
  const { unknownBranch } = await import("../src/landing/new-branch.ts");
  throw unknownBranch(branch, `${remote}, when this clone last saw it,`, seen);
}

const NOT_KNOWN = "whether it has a result isn't known now: the origin can't be reached";

/**
 * Keeps the submission, or marks as kept what was recorded of it: an attempt that got through unseen is found again by
 * whoever delivers it. `place`: where it was pushed to, where that much is known.
 */
export async function keepForLater(
  context: Context,
  request: SubmitRequest,
  me: string,
  reason: AgentqError,
  { code, again, place }: {
    readonly code: number;
    readonly again: boolean;
    readonly place?: SubmitPlace;
  },
): Promise<number> {
  const submissions = await createSubmissions(context.stateDirectory);
  const { record, fresh } = await keep(request, place ?? await guessedPlace(context), {
    clock: systemClock,
    me,
    submissions,
    again,
    signal: context.signal,
    onNote: (text) => context.progress.line(text),
  });
  warnOfDamaged(context, submissions);
  context.progress.line(`${reason.message}`);
  const { ticket } = record;
  const commit = request.candidate.slice(0, 12);
  if (ticket !== null) {
    const document = documentOfQueued(record, ticket, "queued", NOT_KNOWN);
    context.print(
      document,
      () =>
        `${commit} was submitted before, as ticket ${ticket}; ${NOT_KNOWN}; --again queues a new one`,
    );
  } else {
    const document = documentOfQueued(record, null, "offline");
    context.print(
      document,
      () =>
        `${commit} is kept on this machine${fresh || place ? "" : " already"}; ` +
        `the next submit, wait, land or flush delivers it`,
    );
  }
  if (isAnswerWhole()) submissions.tell(record, code === 0);
  return code;
}

async function guessedPlace(context: Context): Promise<SubmitPlace> {
  const { originUrl } = await import("../src/git/origin.ts");
  const url = originUrl(context.repository(), context.remote);
  return placeOf(context, url, guessedBranch(context));
}
