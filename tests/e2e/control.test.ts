/** Cancel, pause and resume against landings in flight: what was cancelled never lands afterwards. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { git } from "../helpers/git.ts";
import {
  type Agent,
  agentCommit,
  makeAgent,
  run,
  runJson,
  type Running,
  start,
} from "./harness/agent.ts";
import { readChain, results } from "./harness/chains.ts";
import { type Gate, makeGate, onRef } from "./harness/faults.ts";
import { checkLaws } from "./harness/laws.ts";
import {
  installHooks,
  makeOrigin,
  refOf,
  setHook,
  type TestOrigin,
  tipOf,
  verifyCommand,
} from "./harness/origin.ts";
import { scenario, until } from "./harness/scenario.ts";
import { type MakeOrigin, overBoth } from "./harness/transports.ts";

/** The steps of a landing at which it can be held from outside. */
const STEPS = ["taking the lock", "verifying", "the landing push"] as const;
type Step = typeof STEPS[number];

interface Held {
  origin: TestOrigin;
  gate: Gate;
  submitter: Agent;
  other: Agent;
  running: Running;
}

/** A submit whose landing stands still at `step`. */
async function heldAt(make: MakeOrigin, step: Step): Promise<Held> {
  const gate = makeGate();
  const origin = make();
  // A gate on `done` holds the landing alone: control entries touch only `lock`.
  if (step === "taking the lock") installHooks(origin, onRef("refs/weave/main/lock", gate.shell));
  if (step === "the landing push") installHooks(origin, onRef("refs/weave/main/done", gate.shell));
  const submitter = makeAgent(origin, { env: { AGENTQ_LEASE_TTL: "60" } });
  const other = makeAgent(origin, { env: { AGENTQ_LEASE_TTL: "60" } });
  agentCommit(submitter, { "s.txt": "s\n" });
  const then = step === "verifying" ? gate.shell : ":";
  const running = start(submitter, [
    "submit",
    "--json",
    "--verify-cmd",
    verifyCommand(origin, then),
  ]);
  await gate.reached();
  return { origin, gate, submitter, other, running };
}

for (const step of STEPS) {
  overBoth(`cancel while ${step}: the ticket never lands`, async (make) => {
    const { origin, gate, other, running } = await heldAt(make, step);
    const cancelled = await run(other, ["cancel", "0"]);
    assert.equal(cancelled.status, 0, cancelled.stderr);
    gate.open();
    const result = await running.done;
    assert.deepEqual([result.status, result.json.reason], [1, "cancelled"], result.stderr);
    assert.equal(tipOf(origin), origin.initial);
    // The queue goes on behind it.
    agentCommit(other, { "o.txt": "o\n" });
    assert.equal((await runJson(other, ["submit"])).outcome, "landed");
    assert.deepEqual(results(origin).map((r) => r.reason), ["cancelled", "landed"]);
    checkLaws(origin);
  });

  overBoth(`pause and resume while ${step}: nothing lands in between`, async (make) => {
    const { origin, gate, other, running } = await heldAt(make, step);
    assert.equal((await run(other, ["pause", "--reason", "release day"])).status, 0);
    gate.open();
    // Submissions are accepted and wait.
    agentCommit(other, { "o.txt": "o\n" });
    const waiting = await runJson(other, ["submit", "--wait-timeout", "1"], 3);
    assert.equal(waiting.outcome, "queued");
    assert.equal(tipOf(origin), origin.initial, "landed while paused");
    const status = await runJson(other, ["status"]);
    assert.equal(status.paused.reason, "release day");
    assert.equal(typeof status.paused.by, "string");
    assert.equal((await run(other, ["resume"])).status, 0);
    assert.equal((await runJson(other, ["status"])).paused, null);
    const result = await running.done;
    assert.equal(result.status, 0, result.stdout + result.stderr);
    assert.equal((await runJson(other, ["wait", "1"])).outcome, "landed");
    checkLaws(origin);
  });
}

scenario("who waits for a ticket that is cancelled is told so, though nothing moves", async () => {
  const origin = makeOrigin();
  const [a, other] = [makeAgent(origin), makeAgent(origin)];
  agentCommit(a, { "a.txt": "a\n" });
  await run(other, ["pause"]);
  const waiting = start(a, ["submit", "--json", "--wait-timeout", "3"]);
  await until("the wait", () => waiting.stderr().includes("paused"));
  assert.equal((await run(other, ["cancel", "0"])).status, 0);
  const { status, json, stderr } = await waiting.done;
  assert.deepEqual([status, json.outcome, json.reason], [1, "refused", "cancelled"]);
  assert.match(stderr, /ticket 0 is cancelled: it gets that result in its turn/);
  const waited = await runJson(other, ["wait", "0", "--wait-timeout", "1"], 1);
  assert.deepEqual([waited.outcome, waited.reason], ["refused", "cancelled"]);
  await run(other, ["resume"]);
  assert.equal((await runJson(other, ["wait", "0"], 1)).reason, "cancelled");
  checkLaws(origin);
});

scenario("the advised commands are for the queue that they are about", async () => {
  const origin = makeOrigin();
  git(origin.dir, "branch", "feat/it's", "main");
  const a = makeAgent(origin);
  agentCommit(a, { "a.txt": "a\n" });
  await runJson(a, ["submit", "--no-wait"]);
  await run(a, ["pause"]);
  const there = ["--branch", "feat/it's", "--namespace", "refs/weave/x"];
  await runJson(a, ["submit", "--no-wait", ...there]);
  const said = (await run(a, ["pause", ...there])).stdout;
  const [, command] = /go on with agentq (.*)\n/.exec(said)!;
  // As a shell takes it apart.
  const words = execFileSync("sh", ["-c", `printf '%s\\n' ${command}`], { encoding: "utf8" });
  assert.equal((await run(a, words.trim().split("\n"))).status, 0);
  assert.equal((await runJson(a, ["status", ...there])).paused, null);
  assert.notEqual((await runJson(a, ["status"])).paused, null);
  assert.match((await run(a, ["pause"])).stdout, /go on with agentq resume\n/);
});

scenario(
  "land finds that the branch lost what was landed, also when nothing is queued",
  async () => {
    const origin = makeOrigin();
    const a = makeAgent(origin);
    const before = tipOf(origin);
    agentCommit(a, { "a.txt": "a\n" });
    await runJson(a, ["submit"]);
    assert.equal((await run(a, ["land"])).status, 0);
    for (const to of [before, null]) {
      if (to === null) git(origin.dir, "update-ref", "-d", "refs/heads/main");
      else git(origin.dir, "update-ref", "refs/heads/main", to);
      const { status, json } = await run(a, ["land", "--json"]);
      assert.deepEqual([status, json.error.code], [2, "branch-rewound"]);
    }
  },
);

scenario("cancel a queued ticket that nobody is landing, and one of several", async () => {
  const origin = makeOrigin();
  const agents = [makeAgent(origin), makeAgent(origin), makeAgent(origin)];
  for (const [i, agent] of agents.entries()) {
    agentCommit(agent, { [`f${i}`]: `${i}\n` });
    await runJson(agent, ["submit", "--no-wait"]);
  }
  assert.equal((await run(agents[2]!, ["cancel", "1"])).status, 0);
  assert.equal((await run(agents[0]!, ["land"])).status, 0);
  assert.deepEqual(results(origin).map((r) => r.reason), ["landed", "cancelled", "landed"]);
  assert.equal((await runJson(agents[1]!, ["wait", "1"], 1)).reason, "cancelled");
  checkLaws(origin);
});

scenario(
  "cancel of a ticket that is done answers with its result; of one that doesn't exist fails",
  async () => {
    const origin = makeOrigin();
    const a = makeAgent(origin);
    const candidate = agentCommit(a, { "a.txt": "a\n" });
    await runJson(a, ["submit"]);
    const refs = refOf(origin, "refs/weave/main/lock");
    const late = await run(a, ["cancel", "0", "--json"]);
    assert.equal(late.json.landed, candidate);
    assert.equal(late.json.outcome, "landed");
    const unknown = await run(a, ["cancel", "7", "--json"]);
    assert.equal(unknown.json.schema, "agentq.error/1");
    assert.notEqual(unknown.status, 0);
    assert.equal(refOf(origin, "refs/weave/main/lock"), refs, "nothing was changed");
    assert.equal(results(origin).length, 1);
    checkLaws(origin);
  },
);

scenario(
  "cancel after the landing was applied but before its lander knows: the result stands",
  async () => {
    const gate = makeGate();
    const origin = makeOrigin();
    const hook = `while read -r old new ref; do
  if [ "$ref" = refs/heads/main ]; then echo "$old $new" >> ${origin.movesLog}; ${gate.shell}; fi
done
`;
    setHook(origin, "post-receive", hook);
    const a = makeAgent(origin, { env: { AGENTQ_LEASE_TTL: "60" } });
    const other = makeAgent(origin, { env: { AGENTQ_LEASE_TTL: "60" } });
    const candidate = agentCommit(a, { "a.txt": "a\n" });
    const running = start(a, ["submit", "--json", "--verify-cmd", verifyCommand(origin)]);
    await gate.reached();
    const late = await run(other, ["cancel", "0", "--json"]);
    assert.equal(late.json.landed, candidate, late.stdout + late.stderr);
    gate.open();
    assert.equal((await running.done).status, 0);
    checkLaws(origin);
  },
);

scenario("control state is carried forward through acquire, renewal and release", async () => {
  const origin = makeOrigin();
  const agents = [makeAgent(origin), makeAgent(origin), makeAgent(origin)];
  for (const [i, agent] of agents.entries()) {
    agentCommit(agent, { [`f${i}`]: `${i}\n` });
    await runJson(agent, ["submit", "--no-wait"]);
  }
  assert.equal((await run(agents[0]!, ["cancel", "2"])).status, 0);
  assert.equal((await run(agents[0]!, ["land", "--max", "1"])).status, 0);
  const carried = readChain(origin, "lock").at(-1)!.message;
  assert.equal(carried.holder, null);
  assert.deepEqual(carried.agentq.cancelled, [2]);
  assert.equal((await run(agents[1]!, ["land"])).status, 0);
  assert.deepEqual(results(origin).map((r) => r.reason), ["landed", "landed", "cancelled"]);
  checkLaws(origin);
  // A finished ticket drops out of the list at the next entry.
  agentCommit(agents[0]!, { "more": "m\n" });
  await runJson(agents[0]!, ["submit"]);
  assert.deepEqual(readChain(origin, "lock").at(-1)!.message.agentq.cancelled, []);
});

scenario("land on a paused queue lands nothing and says who paused it", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  agentCommit(a, { "a.txt": "a\n" });
  await runJson(a, ["submit", "--no-wait"]);
  assert.equal((await run(a, ["pause", "--reason", "freeze for the audit"])).status, 0);
  const land = await run(a, ["land"]);
  assert.match(land.stdout + land.stderr, /freeze for the audit/);
  assert.equal(results(origin).length, 0);
  assert.equal(tipOf(origin), origin.initial);
  checkLaws(origin, { done: 0 });
});
