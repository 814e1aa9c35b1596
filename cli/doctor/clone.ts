/** What there is to say of the clone: whether it can be read and submitted from, and what it lacks. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ERROR_KINDS, isAgentqError } from "../../src/errors.ts";
import { parseCommit } from "../../src/git/commit.ts";
import { operationInProgress } from "../../src/git/operation.ts";
import { quotePath } from "../../src/git/path-quote.ts";
import type { Repository } from "../../src/git/repository.ts";
import { uncommittedChanges } from "../../src/git/status.ts";
import { type Check, check, failed } from "../../src/landing/doctor-check.ts";
import type { FoundClone } from "../broken-clone.ts";
import type { Context } from "../context.ts";

/** Checks that begin with `clone`; what can't be read there fails it. */
export function cloneChecks(context: Context, { repository, problem }: FoundClone): Check[] {
  if (problem !== null) return [failed("clone", problem)];
  if (repository === null) return [noClone(context)];
  try {
    return [cloneCheck(repository), ...workTreeCheck(repository), ...lacks(repository)];
  } catch (error) {
    return [failed("clone", error)];
  }
}

/** A worktree whose clone is gone is told from no clone at all by the error that other commands give. */
function noClone(context: Context): Check {
  try {
    context.repository();
  } catch (error) {
    const found = isAgentqError(error) && error.details?.gitDir !== undefined;
    if (found) return failed("clone", error);
  }
  return check("clone", "skip", "not in a repository");
}

function cloneCheck(repository: Repository): Check {
  const { oid } = repository.head();
  // What is submitted is this commit: it has to be here.
  if (oid !== null) parseCommit(repository.objects.read(oid).data, oid);
  const { workTree, gitDir } = repository;
  return check("clone", "ok", `${workTree ?? gitDir}, HEAD at ${oid ?? "no commit"}`);
}

/** Whether `submit` would take HEAD for what is meant. */
function workTreeCheck(repository: Repository): Check[] {
  if (repository.workTree === null) return [];
  const name = "work-tree";
  try {
    const running = operationInProgress(repository);
    if (running !== null && running.operation !== "bisect") {
      const hint = ERROR_KINDS["operation-in-progress"].hint;
      return [check(name, "warn", `a ${running.operation} is in progress`, hint)];
    }
    const [first] = uncommittedChanges(repository, { limit: 1 });
    return [
      first === undefined ? check(name, "ok", "nothing is uncommitted") : check(
        name,
        "warn",
        `agentq submit refuses uncommitted changes, and there are some, such as ${
          quotePath(first.path)
        }`,
        ERROR_KINDS["work-tree-dirty"].hint,
      ),
    ];
  } catch (error) {
    return [failed(name, error)];
  }
}

function lacks({ config, workTree, shallow }: Repository): Check[] {
  const checks: Check[] = [];
  if (shallow.size > 0) {
    checks.push(check(
      "shallow",
      "warn",
      "a shallow clone: history that a merge needs may have to be fetched first",
      "Nothing to do; git fetch --unshallow makes the first landing quicker.",
    ));
  }
  const promisor = config.get("extensions.partialclone");
  if (promisor) {
    checks.push(check(
      "partial-clone",
      "warn",
      `a partial clone of ${promisor}: objects that are not here are fetched when a merge needs them`,
      null,
    ));
  }
  if (workTree !== null) {
    const attributes = join(workTree, ".gitattributes");
    if (existsSync(attributes) && /\bfilter=/.test(readFileSync(attributes, "latin1"))) {
      checks.push(check(
        "filters",
        "warn",
        ".gitattributes names filters (LFS or others): they are not run, verifications see pointers",
        "Let the verify command fetch what it needs.",
      ));
    }
    if (existsSync(join(workTree, ".gitmodules"))) {
      checks.push(check(
        "submodules",
        "warn",
        "submodules are left as links: verifications see empty directories",
        "Let the verify command fetch what it needs.",
      ));
    }
  }
  return checks;
}
