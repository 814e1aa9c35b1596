/** `agentq doctor`: what this machine, this clone and this origin can do, each with what to do about it. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { AgentqError } from "../../src/errors.ts";
import type { Repository } from "../../src/git/repository.ts";
import { type Check, check, examineOrigin, failed } from "../../src/landing/doctor.ts";
import { findProgram, probeDirectory, runtimeName } from "../../src/platform/probe.ts";
import type { Context } from "../context.ts";
import type { Flags } from "../spec.ts";
import { VERSION } from "../version.ts";

function machineChecks(stateDirectory: string): Check[] {
  const probe = probeDirectory(stateDirectory);
  const shell = findProgram("sh");
  const why = (one: { able: boolean; why?: string }) => one.able ? "" : `: ${one.why}`;
  const checks = [
    check("runtime", "ok", `agentq ${VERSION} (${runtimeName()})`),
    shell
      ? check("shell", "ok", `verify commands run with ${shell}`)
      : check("shell", "fail", "no sh on PATH: no verify command can run here", "Install a shell."),
    probe.writable.able ? check("state", "ok", `local state is kept in ${stateDirectory}`) : check(
      "state",
      "fail",
      `${stateDirectory} can't be written${why(probe.writable)}`,
      "Name another directory with --state or AGENTQ_STATE.",
    ),
  ];
  if (!probe.writable.able) {
    return [
      ...checks,
      ...["hardlinks", "directory-fsync", "file-modes"].map((name) =>
        check(name, "skip", "the state directory can't be written")
      ),
    ];
  }
  return [
    ...checks,
    probe.hardlinks.able
      ? check("hardlinks", "ok", "hardlinks work here; agentq makes none")
      : check(
        "hardlinks",
        "warn",
        `no hardlinks in ${stateDirectory}${why(probe.hardlinks)}`,
        "Nothing to do, unless you use the v1 store (v1:DIR), which needs them: use store:DIR.",
      ),
    probe.directorySync.able
      ? check("directory-fsync", "ok", "changes in directories can be made to last")
      : check(
        "directory-fsync",
        "fail",
        `directories can't be synced in ${stateDirectory}${why(probe.directorySync)}`,
        "Put the state on another file system with --state: here a crash could lose it.",
      ),
    probe.modes.able ? check("file-modes", "ok", "files keep their modes") : check(
      "file-modes",
      "warn",
      `modes are not kept in ${stateDirectory}${why(probe.modes)}`,
      "Create stores there with --allow-open-modes, or put the state elsewhere with --state.",
    ),
    probe.network === null ? check("state-file-system", "ok", "a local file system") : check(
      "state-file-system",
      "warn",
      `${stateDirectory} lies on ${probe.network}, a network file system`,
      "Put the state (and every SQLite queue, whose WAL does not work there) on a local disk.",
    ),
  ];
}

function stateChecks(context: Context): Check[] {
  let directory: string;
  try {
    directory = context.stateDirectory;
  } catch (error) {
    return [failed("state", error)];
  }
  return machineChecks(directory);
}

function cloneChecks(open: () => Repository | null): Check[] {
  let repository: Repository | null;
  try {
    repository = open();
  } catch (error) {
    return [failed("clone", error)];
  }
  if (!repository) return [check("clone", "skip", "not in a repository")];
  const { config, workTree } = repository;
  const checks = [
    check(
      "clone",
      "ok",
      `${workTree ?? repository.gitDir}, HEAD at ${repository.head().oid ?? "no commit"}`,
    ),
  ];
  if (repository.shallow.size > 0) {
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

const SIGN = { ok: "ok  ", warn: "warn", fail: "FAIL", skip: "skip" } as const;

export async function run(
  context: Context,
  _args: readonly string[],
  flags: Flags,
): Promise<number> {
  const checks = [
    ...stateChecks(context),
    ...cloneChecks(context.repositoryOrNull),
    ...await examineOrigin(context.origin, {
      namespace: context.namespace,
      branch: context.branch,
      by: "doctor",
      push: flags["read-only"] !== true,
      signal: context.signal,
    }),
  ];
  if (context.signal.aborted) throw new AgentqError("interrupted", "stopped");
  const good = checks.every((one) => one.status !== "fail");
  context.print(
    { schema: "agentq.doctor/1", ok: good, checks },
    () =>
      checks.map((one) =>
        `${SIGN[one.status]}  ${one.name}: ${one.message}${
          one.hint && one.status !== "ok" ? `\n      ${one.hint}` : ""
        }`
      ).join("\n"),
  );
  return good ? 0 : 1;
}
