/** `agentq status`: the queue now, from one snapshot, and this machine's own submissions. */
import { join } from "node:path";
import { AgentqError } from "../../src/errors.ts";
import { repositoryInputs } from "../../src/git/inputs.ts";
import type { EntryCache } from "../../src/landing/entry-cache.ts";
import { stateWithoutTicket, statusOf } from "../../src/landing/status.ts";
import { isForQueue, type SubmitPlace } from "../../src/landing/submit-request.ts";
import { type SubmissionRecord, submissionsInputs } from "../../src/landing/submissions.ts";
import { currentDirectory } from "../../src/platform/directory.ts";
import type { Input } from "../../src/platform/inputs.ts";
import type { Context } from "../context.ts";
import {
  keptEntries,
  type LandingSession,
  openSession,
  placeOfQueue,
  printableRemote,
  reaches,
  submissionsOrNull,
  warnOfDamaged,
} from "../landing.ts";
import { describeStatus, describeSubmissions } from "../output/landing.ts";
import type { Flags } from "../spec.ts";

export async function run(
  context: Context,
  _args: readonly string[],
  flags: Flags,
): Promise<number> {
  let kept: EntryCache | undefined;
  const session = await openSession(context, (origin) => kept = keptEntries(context, origin))
    .catch(async (error) => {
      const { isOutOfReach } = await import("../offline.ts");
      throw isOutOfReach(error) ? await withSubmissions(context, error) : error;
    });
  const { queue, snapshot, origin } = session;
  const place = placeOfQueue(context, queue);
  // What one commit reaches rests on the clone too, and what can't be read on who knows what.
  let repeatable = true;
  const unreadable: string[] = [];
  const submissions = await submissionsOrNull(context, (what) => unreadable.push(what));
  const all = await submissions?.list() ?? [];
  const own = all.filter((record) => isForQueue(record, place));
  const warnings = [
    ...unreadable,
    ...warnOfDamaged(context, submissions),
    ...warnOfElsewhere(context, all, place),
  ];
  if (warnings.length > 0) repeatable = false;
  const document = await statusOf(queue, snapshot, {
    remote: printableRemote(context),
    limit: Number(flags.limit),
    submissions: own,
    contains: (commit, ancestor) => {
      repeatable = false;
      return reaches(context, origin, commit, ancestor);
    },
    signal: context.signal,
  });
  if (warnings.length > 0) document.warnings = warnings;
  // That a process lives isn't written anywhere.
  if (document.submissions.some(({ state }) => state === "sending")) repeatable = false;
  context.print(document, () => describeStatus(document, queue.options));
  kept?.save();
  if (repeatable) context.keepAnswer(() => inputsOf(context, session));
  return 0;
}

/** What this clone keeps for another origin, as where its remote led before. */
function warnOfElsewhere(
  context: Context,
  all: readonly SubmissionRecord[],
  place: SubmitPlace,
): string[] {
  const warnings = all.filter(({ repository, ticket, url }) =>
    repository === place.repository && ticket === null && url !== place.url
  ).map(({ candidate, url }) =>
    `${
      candidate.slice(0, 12)
    } is kept for ${url}: agentq flush delivers it, or tells what can be done`
  );
  for (const warning of warnings) context.progress.warn(warning);
  return warnings;
}

/** The origin can't be asked: what this machine has submitted, or keeps for it, is known all the same. */
async function withSubmissions(context: Context, error: AgentqError): Promise<AgentqError> {
  const here = context.repositoryOrNull()?.commonDir;
  const url = printableRemote(context);
  const submissionsHere = await submissionsOrNull(context);
  const all = await submissionsHere?.list() ?? [];
  warnOfDamaged(context, submissionsHere);
  const own = all.filter((record) =>
    here === undefined
      ? record.url === url || record.remote === url
      : record.repository === here && record.remote === url
  );
  if (own.length === 0) return error;
  // What became of a ticket only the origin can tell, as whether an attempt that nobody is at any more came through.
  const submissions = own.map((record) => {
    const { submission, candidate, ticket } = record;
    const here = ticket === null ? stateWithoutTicket(record) : null;
    return {
      submission,
      candidate,
      ticket,
      state: here === null || here === "recorded" ? "unknown" : here,
    };
  });
  if (!context.json) context.print(null, () => describeSubmissions(submissions));
  return new AgentqError(error.code, error.message, {
    cause: error.cause ?? error,
    hint: error.hint,
    retryable: error.retryable,
    details: { ...error.details, submissions },
  });
}

/** All that the document was made from; chain entries are found by their hash and never change. */
function inputsOf(context: Context, { queue, origin }: LandingSession): Input[] | null {
  const repository = context.repositoryOrNull();
  const clone = repository && repositoryInputs(repository, currentDirectory());
  const refs = origin.inputs?.(queue.names.prefixes);
  if (!repository || !clone || !refs) return null;
  const all: Input[] = [
    ...clone,
    ["text", join(repository.commonDir, "refs/remotes", context.remote, "HEAD")],
    ...refs,
    ...submissionsInputs(context.stateDirectory),
  ];
  return [...new Map(all.map((input) => [input.join("\n"), input])).values()];
}
