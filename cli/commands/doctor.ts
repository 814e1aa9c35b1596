/** `agentq doctor`: what this machine, this clone and this origin can do, each with what to do about it. */
import { AgentqError } from "../../src/errors.ts";
import type { Origin } from "../../src/git/types.ts";
import { examineOrigin, unexamined } from "../../src/landing/doctor.ts";
import type { Check } from "../../src/landing/doctor-check.ts";
import { cloneOrConfig, type FoundClone } from "../broken-clone.ts";
import type { Context } from "../context.ts";
import { cloneChecks } from "../doctor/clone.ts";
import { machineAndState } from "../doctor/machine.ts";
import { reaches, remoteForHints } from "../landing.ts";
import type { Flags } from "../spec.ts";

/**
 * The origin, by its url or by what the clone's config says of it. The clone itself serves only where it is
 * `whole`: one that can't be read must not fail the checks of the origin.
 */
async function originChecks(
  context: Context,
  flags: Flags,
  found: FoundClone,
  whole: boolean,
): Promise<Check[]> {
  const { remote, signal } = context;
  if (found.problem !== null && found.config === null && !/[/\\:]/.test(remote)) {
    return unexamined(
      `what ${JSON.stringify(remote)} is stands in the clone, which can't be read`,
      "Name its url: --remote URL.",
    );
  }
  const clone = whole ? found.repository : null;
  let origin: Origin | undefined;
  const open = async () =>
    origin = whole || found.config === null && found.problem === null
      ? await context.origin()
      : await openWithoutClone(remote, found);
  try {
    return await examineOrigin(open, {
      namespace: context.namespace,
      branch: context.branch,
      remote: remoteForHints(context, found.config),
      by: "doctor",
      push: flags["read-only"] !== true,
      clone,
      contains: (commit, ancestor) => reaches(context, origin!, commit, ancestor, clone),
      signal,
    });
  } finally {
    origin?.close();
  }
}

async function openWithoutClone(
  remote: string,
  { repository, config, base }: FoundClone,
): Promise<Origin> {
  const { openOrigin } = await import("../../src/git/origin.ts");
  const from = base ?? repository?.workTree ?? repository?.gitDir;
  return await openOrigin(remote, {
    repository: null,
    ...(config && { config }),
    ...(from && { base: from }),
  });
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
