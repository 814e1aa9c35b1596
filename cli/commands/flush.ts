/** `agentq flush`: deliver submissions that this machine kept while the origin was out of reach. */
import { AgentqError } from "../../src/errors.ts";
import { openRepository } from "../../src/git/repository.ts";
import { openOrigin } from "../../src/git/origin.ts";
import type { FlushDocument } from "../../src/landing/schemas.ts";
import { openQueue } from "../../src/landing/snapshot.ts";
import {
  openSubmissions,
  type SubmissionRecord,
  type Submissions,
} from "../../src/landing/submissions.ts";
import type { Context } from "../context.ts";
import { deliverOne } from "../deliver.ts";
import { warnOfDamaged } from "../landing.ts";
import { toAgentqError } from "../output/errors.ts";

export async function run(context: Context): Promise<number> {
  const document: FlushDocument = { schema: "agentq.flush/1", delivered: [], kept: [] };
  const warnings: string[] = [];
  const submissions = await openSubmissions(context.stateDirectory);
  for (const record of await submissions?.list({ undelivered: true }) ?? []) {
    if (record.ticket !== null) continue;
    const { submission, candidate } = record;
    try {
      const ticket = await deliverTo(context, submissions!, record, warnings);
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

/** Each submission goes to the remote that it was made for, by the clone it was made in. */
async function deliverTo(
  context: Context,
  submissions: Submissions,
  record: SubmissionRecord,
  warnings: string[],
): Promise<number | null> {
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
    return await deliverOne(context, { origin, queue, snapshot }, submissions, record, warnings);
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
