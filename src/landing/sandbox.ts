/**
 * The sandbox that a branch puts around its checks. Where it can't be had, no check of that branch can
 * be run: that says something about the machine, and nothing about a ticket.
 */
import { Buffer } from "node:buffer";
import { accessSync, constants } from "node:fs";
import { delimiter, isAbsolute, join } from "node:path";
import { AgentqError, isAgentqError } from "../errors.ts";
import type { RunOptions, Site } from "./verify.ts";

/** True when a program of this name can be run: from PATH, or by its absolute path. */
export function isInstalled(program: string): boolean {
  if (isAbsolute(program)) return isExecutable(program);
  return (process.env.PATH ?? "").split(delimiter).some((directory) =>
    directory !== "" && isExecutable(join(directory, program))
  );
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/**
 * Why this machine can't put `sandbox` around a check; null when it can as far as is known. A path
 * within the worktree is the branch's own file, and known only there.
 */
export function missingSandbox(sandbox: readonly string[]): string | null {
  const program = sandbox[0];
  if (program === undefined || isInstalled(program)) return null;
  if (!isAbsolute(program) && program.includes("/")) return null;
  return cantSandbox(`there is no program ${program} here`);
}

/** The same, from the failure to start a check; null when it was something else. */
export function unstartableSandbox(sandbox: readonly string[], error: unknown): string | null {
  if (!isAgentqError(error, "command-not-started")) return null;
  const { details, message } = error;
  const program = sandbox[0];
  const ofMachine = program !== undefined && details?.program === program &&
    (isAbsolute(program) || !program.includes("/")) &&
    // A command line too long for the system is the ticket's.
    details?.errno !== "E2BIG";
  return ofMachine ? cantSandbox(message) : null;
}

function cantSandbox(why: string): string {
  return `agentq.json wants its checks in a sandbox that this machine doesn't have: ${why}`;
}

/** A sandbox does nothing for that long only when it doesn't work. */
const PROBE_MS = 20_000;

/**
 * Told apart from a failed check: a sandbox that fails around a command that does nothing. Whose fault
 * that is can't be known (the kernel's settings, a file of the branch that it uses).
 * @throws `sandbox-failed`
 */
export async function assertSandboxWorks(
  sandbox: readonly string[],
  site: Site,
  { run, signal }: Pick<RunOptions, "run" | "signal">,
): Promise<void> {
  if (sandbox.length === 0) return;
  const options = { cwd: site.path, env: {}, timeoutMs: PROBE_MS, signal, wrapper: sandbox };
  const { exit, timedOut, killedBy, tail } = await run("exit 0", options);
  if (exit === 0) return;
  const how = timedOut ? "hangs" : exit === null ? `is ended by ${killedBy}` : `exits ${exit}`;
  const said = Buffer.from(tail).toString("utf8").trim().slice(-2000);
  throw new AgentqError(
    "sandbox-failed",
    `${sandbox[0]} ${how} around a command that does nothing${said === "" ? "" : `: ${said}`}`,
    { details: { sandbox } },
  );
}
