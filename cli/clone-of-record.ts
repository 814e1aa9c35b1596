/** The clone that has what a submission is to deliver. */
import { existsSync } from "node:fs";
import { AgentqError } from "../src/errors.ts";
import { holdsCommit, openRepository, type Repository } from "../src/git/repository.ts";
import type { Oid } from "../src/git/types.ts";
import type { SubmissionRecord } from "../src/landing/submissions.ts";
import { isInView, isUrlKnown } from "../src/landing/submit-request.ts";
import type { Context } from "./context.ts";
import { cloneHere } from "./landing.ts";
import { stateOption } from "./state.ts";

/** The command that takes a submission back. */
export function dropCommand(context: Context, { submission }: SubmissionRecord): string {
  return `agentq flush --drop ${submission}${stateOption(context)}`;
}

/**
 * The clone that a submission was made in; where that is gone (moved, or deleted), this run's, if it has the commit.
 * @throws `not-a-repository`, `object-missing`
 */
export function cloneOf(
  context: Context,
  record: SubmissionRecord,
): { repository: Repository; close(): void } {
  const { repository: path, candidate, submission } = record;
  const here = context.repositoryOrNull();
  // What another container kept for a path of its own goes nowhere from here.
  const mayGo = isUrlKnown(record, cloneHere(context));
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
  const takeBack = `or take it back with ${dropCommand(context, record)}`;
  if (isThere) {
    throw new AgentqError(
      "object-missing",
      `the commit ${commit} isn't in the clone that it was submitted from, ${path}, any more: it was pruned there, or that is another clone by now`,
      {
        hint:
          `Fetch it there from where it still is, or run agentq flush in a clone that has it; ${takeBack}`,
        details: { path, submission, oid: candidate },
      },
    );
  }
  throw new AgentqError(
    "not-a-repository",
    `the clone that ${commit} was submitted from is gone: ${path}`,
    {
      hint: `Run agentq flush in a clone that has the commit, ${takeBack}`,
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
