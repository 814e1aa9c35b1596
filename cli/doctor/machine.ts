/** What this machine can do: its runtime, its shell, and the directory of the local state. */
import { type Check, check, failed } from "../../src/landing/doctor-check.ts";
import { submissionsTrouble } from "../../src/landing/doctor-state.ts";
import { findProgram, probeDirectory, runtimeName } from "../../src/platform/probe.ts";
import type { Context } from "../context.ts";
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

/** The machine and its state directory, with what is kept there. */
export async function machineAndState(context: Context): Promise<Check[]> {
  let directory: string;
  try {
    directory = context.stateDirectory;
  } catch (error) {
    return [failed("state", error)];
  }
  const checks = machineChecks(directory);
  const trouble = await submissionsTrouble("state", directory);
  if (trouble === null) return checks;
  return checks.map((one) => one.name === "state" && one.status === "ok" ? trouble : one);
}
