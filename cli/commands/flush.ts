/** `agentq flush`: deliver submissions that this machine kept while the origin was out of reach. */
import { AgentqError } from "../../src/errors.ts";
import { openRepository } from "../../src/git/repository.ts";
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
import type { Context } from "../context.ts";
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
      const ticket = await atItsOrigin(
        context,
        record,
        (session) => deliverOne(context, session, submissions!, record, warnings),
      );
      if (ticket !== null) document.delivered.push({ submission, candidate, ticket });
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

/** Takes one back that has no ticket; of one that may have been pushed the queue is asked first. */
async function drop(context: Context, id: string): Promise<number> {
  const submissions = await openSubmissions(context.stateDirectory);
  const record = (await submissions?.list() ?? []).find(({ submission }) => submission === id);
  if (!record) return await setAside(context, submissions, id);
  warnOfDamaged(context, submissions);
  const gone = record.since === undefined
    ? await withdraw(null, record, { submissions: submissions! })
    : await atItsOrigin(
      context,
      record,
      ({ queue }) => withdraw(queue, record, { submissions: submissions!, signal: context.signal }),
    );
  if (!gone) {
    throw new AgentqError(
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
  context.print(document, () => `dropped ${record.candidate.slice(0, 12)}`);
  return 0;
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
  const repository = openRepository(record.repository);
  const origin = await openOrigin(record.remote, { repository });
  try {
    if (origin.url !== record.url) {
      throw new AgentqError(
        "origin-not-found",
        `remote ${record.remote} is ${origin.url} now; the submission was made for ${record.url}`,
      );
    }
    const { queue, snapshot } = await openQueue(origin, {
      namespace: record.namespace,
      branch: record.branch,
      signal: context.signal,
    });
    return await work({ origin, queue, snapshot });
  } finally {
    origin.close();
    repository.close();
  }
}

function describe(document: FlushDocument): string {
  const lines = [
    ...document.delivered.map(({ candidate, ticket }) =>
      `delivered ${candidate.slice(0, 12)} as ticket ${ticket}`
    ),
    ...document.kept.map(({ candidate, error }) =>
      `kept ${candidate.slice(0, 12)}: ${error.message}`
    ),
  ];
  return lines.length === 0 ? "nothing to deliver" : lines.join("\n");
}
