/** What `agentq doctor --json` says, check by check. */
import assert from "node:assert/strict";
import { type Agent, run } from "./agent.ts";

export interface Check {
  name: string;
  status: string;
  message: string;
  hint: string | null;
}

/** The one check of that name. */
export function named(checks: Check[], name: string): Check {
  const found = checks.filter((one) => one.name === name);
  assert.equal(found.length, 1, `${found.length} checks ${name}`);
  return found[0]!;
}

/** Runs it and demands that it ends with a document, whose `ok` its exit code follows. */
export async function doctor(
  agent: Agent,
  args: readonly string[] = [],
  options: { cwd?: string } = {},
): Promise<{ ok: boolean; of: (name: string) => Check }> {
  const { json, status } = await run(agent, ["doctor", "--json", ...args], options);
  assert.equal(json.schema, "agentq.doctor/1", JSON.stringify(json));
  const failed = json.checks.filter((one: Check) => one.status === "fail");
  assert.deepEqual([json.ok, status], failed.length === 0 ? [true, 0] : [false, 1]);
  return { ok: json.ok, of: (name) => named(json.checks, name) };
}
