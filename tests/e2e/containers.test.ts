/**
 * Agents in containers (pid namespaces of their own) on one origin on disk, killed with SIGKILL: no lock that
 * one of them leaves needs anybody's hand.
 */
import assert from "node:assert/strict";
import { cpSync, existsSync, lstatSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { contained } from "../helpers/containers.ts";
import { tempDir } from "../helpers/git.ts";
import { type Agent, agentCommit, makeAgent, run, runJson, start } from "./harness/agent.ts";
import { results } from "./harness/chains.ts";
import { countCalls, DURABLE_CALLS, killAtCall, spread } from "./harness/faults.ts";
import { checkLaws, leftovers } from "./harness/laws.ts";
import { makeOrigin, type TestOrigin } from "./harness/origin.ts";
import { scenario, sleep } from "./harness/scenario.ts";

const [unshare, ...flags] = contained();
const wrapper = [`/usr/bin/${unshare}`, ...flags];

const refLocks = (origin: TestOrigin) =>
  leftovers(origin.dir).filter((path) => path.endsWith(".lock") && !path.endsWith(".agentq.lock"));
const signs = (origin: TestOrigin) =>
  readdirSync(origin.dir).filter((name) => name.startsWith("agentq-life-"));

let made = 0;
const freshCommit = (agent: Agent) => agentCommit(agent, { [`file-${++made}`]: `${made}\n` });
/** The same agent in a container that was started anew, with nothing of the old one's state. */
const anew = (agent: Agent): Agent => ({
  ...agent,
  env: { ...agent.env, AGENTQ_STATE: tempDir() },
});

scenario("killed at any durable call of a submit: the next container's goes through", async () => {
  const origin = makeOrigin();
  const victim = makeAgent(origin);
  const rescuer = makeAgent(origin);
  freshCommit(victim);
  const calls = `${DURABLE_CALLS},symlink,symlinkat,flock`;
  const { made: places } = await countCalls(anew(victim), ["submit", "--no-wait"], calls);
  assert.ok(places.some(({ call }) => call === "flock"), "no sign of life was locked");
  let kills = 0;
  let locks = 0;
  for (const place of spread(places, 24)) {
    freshCommit(victim);
    const killed = await killAtCall(anew(victim), ["submit", "--no-wait"], place, { wrapper });
    if (killed.status !== 0) kills++;
    if (refLocks(origin).length > 0) locks++;
    freshCommit(rescuer);
    const { outcome } = await runJson(anew(rescuer), ["submit", "--no-wait"], 0, { wrapper });
    assert.equal(outcome, "queued", `after a kill at ${place.call} ${place.nth}`);
    assert.deepEqual(refLocks(origin), [], `after a kill at ${place.call} ${place.nth}`);
  }
  assert.ok(kills > 10, `${kills} kills`);
  assert.ok(locks > 0, "no kill left a lock");
  assert.deepEqual(signs(origin), []);
});

scenario("killed while it holds its submissions: the next container has them at once", async () => {
  const origin = makeOrigin();
  const agent = makeAgent(origin);
  const namespace = join(agent.state, "submissions", ".fs-safe-queue-v2");
  const transfer = () =>
    existsSync(namespace)
      ? readdirSync(namespace).filter((name) => name.startsWith(".state-transfer.lock"))
      : [];
  // Killed while the store is made, and when it is there.
  for (const found of [false, true]) {
    freshCommit(agent);
    const calls = `${DURABLE_CALLS},flock,pwrite64`;
    const { made: places } = await countCalls(agent, ["submit", "--no-wait"], calls);
    const held: string[] = [];
    for (const place of spread(places, 28)) {
      if (!found) rmSync(agent.state, { recursive: true, force: true });
      freshCommit(agent);
      await killAtCall(agent, ["submit", "--no-wait"], place, { wrapper });
      const where = `${place.call} ${place.nth}`;
      if (transfer().includes(".state-transfer.lock")) held.push(where);
      freshCommit(agent);
      const { outcome } = await runJson(agent, ["submit", "--no-wait"], 0, { wrapper });
      assert.equal(outcome, "queued", `after a kill at ${where}`);
    }
    assert.ok(held.length > 1, `only a kill at ${held} left the lock`);
    const gc = ["store", "gc", "--store", join(agent.state, "submissions")];
    await runJson(agent, gc, 0, { wrapper });
    assert.deepEqual(transfer(), []);
  }
});

scenario(
  "killed while it leaves a conflict in the clone: the next container leaves it whole",
  async () => {
    const origin = makeOrigin();
    const first = makeAgent(origin);
    const agent = makeAgent(origin);
    agentCommit(first, { "f.txt": "of the first\n" });
    agentCommit(agent, { "f.txt": "of the agent\n" });
    assert.equal((await runJson(first, ["submit"])).outcome, "landed");
    const pristine = join(tempDir(), "clone");
    cpSync(agent.dir, pristine, { recursive: true });
    const restore = () => {
      rmSync(agent.dir, { recursive: true });
      cpSync(pristine, agent.dir, { recursive: true });
    };
    const { made: places } = await countCalls(agent, ["submit"], "symlink,symlinkat,rename,unlink");
    const lock = join(agent.dir, ".git/index.lock");
    let locks = 0;
    // The clone is written at the end of it.
    for (const place of places.slice(-14)) {
      restore();
      await killAtCall(anew(agent), ["submit"], place, { wrapper });
      // Who has it in progress must end it first.
      if (existsSync(join(agent.dir, ".git/MERGE_HEAD"))) continue;
      if (lstatSync(lock, { throwIfNoEntry: false })) locks++;
      const { json } = await run(anew(agent), ["submit", "--json"], { wrapper });
      const where = `after a kill at ${place.call} ${place.nth}`;
      // What only MERGE_HEAD was missing of is finished first.
      const said = json.outcome ?? json.error.code;
      assert.ok(["refused", "operation-in-progress"].includes(said), `${said} ${where}`);
      assert.ok(existsSync(join(agent.dir, ".git/MERGE_HEAD")), where);
      const left = readdirSync(join(agent.dir, ".git"));
      assert.deepEqual(left.filter((name) => /\.lock$|^agentq-life-/.test(name)), [], where);
    }
    assert.ok(locks > 0, "no kill left the lock of the index");
  },
);

scenario("a fleet of containers submits while others are killed: all of it lands", async () => {
  const origin = makeOrigin();
  const ROUNDS = 3;
  const fleet = [0, 1, 2].map(() => makeAgent(origin));
  const victims = [0, 1].map(() => makeAgent(origin));
  let busy = fleet.length;
  const landed = fleet.map(async (agent) => {
    for (let round = 0; round < ROUNDS; round++) {
      freshCommit(agent);
      const { outcome } = await runJson(agent, ["submit"], 0, { wrapper });
      assert.equal(outcome, "landed");
    }
  });
  for (const work of landed) work.catch(() => {}).finally(() => busy--);
  const killed = victims.map(async (agent) => {
    for (let round = 0; busy > 0; round++) {
      freshCommit(agent);
      const running = start(anew(agent), ["submit"], { wrapper });
      await sleep(40 + Math.random() * 200);
      // With it everything goes that is in its container.
      running.kill("SIGKILL");
      await running.done;
    }
  });
  await Promise.all([...landed, ...killed]);
  const last = makeAgent(origin);
  freshCommit(last);
  assert.equal((await runJson(last, ["submit"], 0, { wrapper })).outcome, "landed");
  for (let i = 0; i < 20 && signs(origin).length > 0; i++) {
    freshCommit(last);
    await runJson(last, ["submit", "--no-wait"], 0, { wrapper });
  }
  assert.deepEqual(signs(origin), []);
  assert.deepEqual(refLocks(origin), []);
  assert.ok(results(origin).length >= fleet.length * ROUNDS + 1);
  checkLaws(origin, { killed: true });
  assert.ok(readdirSync(join(origin.dir, "objects/pack")).every((name) => !name.endsWith(".keep")));
});
