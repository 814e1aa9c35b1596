/** `agentq flush`: deliver submissions that this machine kept while the origin was out of reach. */
import { AgentqError, isAgentqError } from "../../src/errors.ts";
import type { Repository } from "../../src/git/repository.ts";
import type { Origin } from "../../src/git/types.ts";
import { openOrigin } from "../../src/git/origin.ts";
import { withdraw } from "../../src/landing/resume.ts";
import type { FlushDocument } from "../../src/landing/schemas.ts";
import { openQueue } from "../../src/landing/snapshot.ts";
import {
  openSubmissions,
  type SubmissionRecord,
  type Submissions,
  submissionsDirectory,
} from "../../src/landing/submissions.ts";
import { isFromHere, isSameOrigin } from "../../src/landing/submit-request.ts";
import type { Context } from "../context.ts";
import { cloneOf, dropCommand } from "../clone-of-record.ts";
import { deliverOne } from "../deliver.ts";
import { type LandingSession, warnOfDamaged } from "../landing.ts";
import { toAgentqError } from "../output/errors.ts";
import type { Flags } from "../spec.ts";

export async function run(
  context: Context,
  _args: readonly string[],
  flags: Flags,
): Promise<number> {
  if (flags.drop !== undefined) return await drop(context, String(flags.drop));
  const document: FlushDocument = { schema: "agentq.flush/1", delivered: [], kept: [] };
  const warnings: string[] = [];
  const submissions = await openSubmissions(context.stateDirectory);
  for (const record of await submissions?.list({ undelivered: true }) ?? []) {
    if (record.ticket !== null) continue;
    const { submission, candidate } = record;
    try {
      const one = await atItsOrigin(
        context,
        record,
        (session) => deliverOne(context, session, submissions!, record, warnings),
      );
      if (one !== null) {
        // Two records that turned out to be one submission are delivered once.
        const { delivered } = document;
        if (!delivered.some((before) => before.submission === one.submission)) {
          delivered.push({ submission: one.submission, candidate, ticket: one.ticket });
        }
      } else if (await isHeld(submissions!, record)) {
        throw await submissions!.takenAway(record) ?? new AgentqError(
          "submission-busy",
          "another process holds it: it is delivering it now, or ended where nobody here can tell",
          { hint: "Try again: what nobody can be shown to deliver is taken over after a minute." },
        );
      }
    } catch (thrown) {
      if (document.delivered.length === 0) context.signal.throwIfAborted();
      const { code, message, hint } = toAgentqError(thrown);
      document.kept.push({ submission, candidate, error: { code, message, hint } });
    }
  }
  warnings.push(...warnOfDamaged(context, submissions));
  if (warnings.length > 0) document.warnings = warnings;
  context.print(document, () => describe(document));
  if (document.kept.length === 0) return 0;
  return 2;
}

/** True for one that has no ticket still, after another process was found to have it. */
async function isHeld(submissions: Submissions, record: SubmissionRecord): Promise<boolean> {
  const left = await submissions.list({ candidate: record.candidate, undelivered: true });
  return left.some(({ submission, ticket }) => submission === record.submission && ticket === null);
}

/** Takes one back that has no ticket; of one that may have been pushed the queue is asked first. */
async function drop(context: Context, id: string): Promise<number> {
  const submissions = await openSubmissions(context.stateDirectory);
  const record = (await submissions?.list() ?? []).find(({ submission }) => submission === id);
  if (!record) return await setAside(context, submissions, id);
  warnOfDamaged(context, submissions);
  const gone = record.since === undefined
    ? await withdraw(null, record, { submissions: submissions! })
    : await atItsUrl(
      context,
      record,
      ({ queue }) => withdraw(queue, record, { submissions: submissions!, signal: context.signal }),
    );
  if (!gone) {
    throw await submissions!.takenAway(record) ?? new AgentqError(
      "submission-busy",
      `the submission ${id} has a ticket, or another process is delivering it`,
      { hint: "agentq status tells its ticket; agentq cancel TICKET ends that.", retryable: false },
    );
  }
  const document: FlushDocument = {
    schema: "agentq.flush/1",
    delivered: [],
    kept: [],
    dropped: [id],
  };
  const warnings = await keptStill(context, submissions!, record);
  if (warnings.length > 0) document.warnings = warnings;
  context.print(document, () => `dropped ${record.candidate.slice(0, 12)}`);
  return 0;
}

/** Other records of the commit that may be the same submission: for the origin's HEAD, and for a branch by its name. */
async function keptStill(
  context: Context,
  submissions: Submissions,
  { candidate, branch, ...place }: SubmissionRecord,
): Promise<string[]> {
  const others = (await submissions.list({ candidate, undelivered: true })).filter((one) =>
    one.candidate === candidate && one.ticket === null && one.namespace === place.namespace &&
    (one.branch === null || branch === null || one.branch === branch) &&
    isSameOrigin(one.url, place.url) && isFromHere(one, place)
  );
  const warnings = others.map((one) =>
    `${candidate.slice(0, 12)} is kept still, for ${
      one.branch === null ? "the origin's HEAD" : one.branch
    }: ${dropCommand(context, one)} takes that back too`
  );
  for (const warning of warnings) context.progress.warn(warning);
  return warnings;
}

/** What can't be read, or is no submission's record, leaves the queue with all its bytes. */
async function setAside(
  context: Context,
  submissions: Submissions | null,
  id: string,
): Promise<number> {
  const dropped = await submissions?.setAside(id) ?? null;
  if (dropped === null) {
    warnOfDamaged(context, submissions);
    throw new AgentqError("usage", `this machine has no submission ${id}`);
  }
  const document: FlushDocument = {
    schema: "agentq.flush/1",
    delivered: [],
    kept: [],
    dropped: [dropped],
  };
  const store = submissionsDirectory(context.stateDirectory);
  context.print(
    document,
    () => `set aside ${dropped}, as a dead letter of the queue "submissions" of store:${store}`,
  );
  return 0;
}

/** Each submission goes to the remote that it was made for, by the clone it was made in. */
async function atItsOrigin<T>(
  context: Context,
  record: SubmissionRecord,
  work: (session: LandingSession) => Promise<T>,
): Promise<T> {
  const { repository, close } = cloneOf(context, record);
  let origin: Origin | null = null;
  try {
    origin = await originOf(context, repository, record);
    const { queue, snapshot } = await openQueue(origin, {
      namespace: record.namespace,
      branch: record.branch,
      signal: context.signal,
    });
    return await work({ origin, queue, snapshot });
  } finally {
    origin?.close();
    close();
  }
}

/** The same for what needs no commit: where clone or remote are gone, by the url alone. */
async function atItsUrl<T>(
  context: Context,
  record: SubmissionRecord,
  work: (session: Pick<LandingSession, "queue">) => Promise<T>,
): Promise<T> {
  try {
    return await atItsOrigin(context, record, work);
  } catch (error) {
    const gone = [
      "not-a-repository",
      "object-missing",
      "remote-unknown",
      "origin-not-found",
    ] as const;
    if (!isAgentqError(error, ...gone)) throw error;
  }
  const repository = context.repositoryOrNull();
  const origin = await openOrigin(record.url, repository ? { repository } : {});
  try {
    const { namespace, branch } = record;
    return await work(await openQueue(origin, { namespace, branch, signal: context.signal }));
  } finally {
    origin.close();
  }
}

/** The remote of that name, or another of the clone's that leads where that one led. */
async function originOf(
  context: Context,
  repository: Repository,
  record: SubmissionRecord,
): Promise<Origin> {
  const { remote, url, submission } = record;
  const leadsElsewhere: string[] = [];
  for (const name of new Set([remote, ...repository.config.subsections("remote")])) {
    const origin = await openOrigin(name, { repository }).catch((error) => {
      if (name === remote && !isAgentqError(error, "remote-unknown")) throw error;
      return null;
    });
    if (origin === null) continue;
    if (isSameOrigin(origin.url, url)) return origin;
    origin.close();
    if (name === remote) leadsElsewhere.push(`remote ${remote} is ${origin.url} now`);
  }
  throw new AgentqError(
    "origin-not-found",
    `${leadsElsewhere[0] ?? `no remote leads there any more`}; the submission was made for ${url}`,
    {
      hint:
        "Submit the commit again to send it where the remote leads now, and take this one back: " +
        dropCommand(context, record),
      details: { submission, url },
    },
  );
}

function describe(document: FlushDocument): string {
  const lines = [
    ...document.delivered.map(({ candidate, ticket }) =>
      `delivered ${candidate.slice(0, 12)} as ticket ${ticket}`
    ),
    ...document.kept.map(({ candidate, error }) =>
      `kept ${candidate.slice(0, 12)}: ${error.message}${error.hint ? `\n  ${error.hint}` : ""}`
    ),
  ];
  return lines.length === 0 ? "nothing to deliver" : lines.join("\n");
}
