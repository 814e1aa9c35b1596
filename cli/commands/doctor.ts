/** `agentq doctor`: what this machine, this clone and this origin can do, each with what to do about it. */
import { AgentqError } from "../../src/errors.ts";
import type { Origin } from "../../src/git/types.ts";
import { examineOrigin, unexamined } from "../../src/landing/doctor.ts";
import type { Check } from "../../src/landing/doctor-check.ts";
import { cloneOrConfig, type FoundClone } from "../broken-clone.ts";
import type { Context } from "../context.ts";
import { cloneChecks } from "../doctor/clone.ts";
import { machineAndState } from "../doctor/machine.ts";
import { reaches } from "../landing.ts";
import type { Flags } from "../spec.ts";

/** The origin as far as the clone lets it be found: by its url also where the clone can't be read. */
async function originChecks(
  context: Context,
  flags: Flags,
  { repository, config, base, problem }: FoundClone,
  whole: boolean,
): Promise<Check[]> {
  const { remote, signal } = context;
  if (problem !== null && config === null && !/[/\\:]/.test(remote)) {
    return unexamined(
      `what ${JSON.stringify(remote)} is stands in the clone, which can't be read`,
      "Name its url: --remote URL.",
    );
  }
  let origin: Origin | undefined;
  const open = async () => {
    if (problem === null) return origin = await context.origin();
    const { openOrigin } = await import("../../src/git/origin.ts");
    return origin = await openOrigin(remote, {
      repository: null,
      ...(config && { config }),
      ...(base !== null && { base }),
    });
  };
  try {
    return await examineOrigin(open, {
      namespace: context.namespace,
      branch: context.branch,
      by: "doctor",
      push: flags["read-only"] !== true,
      clone: whole ? repository : null,
      contains: (commit, ancestor) => reaches(context, origin!, commit, ancestor),
      signal,
    });
  } finally {
    origin?.close();
  }
}

const SIGN = { ok: "ok  ", warn: "warn", fail: "FAIL", skip: "skip" } as const;

export async function run(
  context: Context,
  _args: readonly string[],
  flags: Flags,
): Promise<number> {
  const repo = typeof flags.repo === "string" ? flags.repo : undefined;
  const clone = cloneOrConfig(context.repositoryOrNull, repo);
  const machine = await machineAndState(context);
  const ofClone = cloneChecks(context, clone);
  const whole = ofClone[0]?.status === "ok";
  const checks = [
    ...machine,
    ...ofClone,
    ...await originChecks(context, flags, clone, whole),
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
