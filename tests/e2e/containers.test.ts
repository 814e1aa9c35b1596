/**
 * Agents in containers (pid namespaces of their own) on one origin on disk, killed with SIGKILL: no lock that
 * one of them leaves needs anybody's hand.
 */
import assert from "node:assert/strict";
import { cpSync, existsSync, lstatSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { contained } from "../helpers/containers.ts";
import { git, tempDir, tryGit } from "../helpers/git.ts";
import { type Agent, agentCommit, makeAgent, run, runJson, start } from "./harness/agent.ts";
import { results } from "./harness/chains.ts";
import { countCalls, DURABLE_CALLS, killAtCall, spread } from "./harness/faults.ts";
import { checkLaws, leftovers } from "./harness/laws.ts";
import { makeOrigin, type TestOrigin, verifyCommand } from "./harness/origin.ts";
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

/** Runs in a container of its own, with `clone` mounted at `place` and nothing else different. */
const mounted = (clone: string, place: string) => ({
  wrapper: [
    ...wrapper,
    "/bin/sh",
    "-c",
    '/usr/bin/mount --bind "$0" "$1" && cd "$1" && shift && exec "$@"',
    clone,
    place,
  ],
});

scenario(
  "two containers' clones at one path, with one state directory: each has its own tickets",
  async () => {
    const origin = makeOrigin();
    const [a, b] = [makeAgent(origin), makeAgent(origin)];
    const candidate = freshCommit(a);
    git(b.dir, "fetch", "-q", a.dir, "HEAD");
    git(b.dir, "reset", "-q", "--hard", candidate);
    const place = tempDir();
    const both = { ...a, dir: place };
    const submit = (verify: string) => ["submit", "--verify-cmd", verify];
    await runJson(both, [...submit("false"), "--no-wait"], 0, mounted(a.dir, place));
    await run({ ...b, env: { ...b.env, AGENTQ_STATE: tempDir() } }, ["land"]);
    const other = await runJson(both, submit(verifyCommand(origin)), 0, mounted(b.dir, place));
    assert.deepEqual([other.ticket, other.outcome], [1, "landed"]);
    const own = await runJson(both, submit("false"), 1, mounted(a.dir, place));
    assert.deepEqual([own.ticket, own.reason], [0, "verify command failed"]);
    checkLaws(origin);
  },
);

scenario(
  "what another container's clone keeps isn't said to be gone, and is delivered there",
  async () => {
    const origin = makeOrigin();
    const [a, b] = [makeAgent(origin), makeAgent(origin)];
    freshCommit(a);
    const place = tempDir();
    const both = { ...a, dir: place };
    renameSync(origin.dir, `${origin.dir}.away`);
    await runJson(both, ["submit", "--no-wait", "--offline"], 0, mounted(a.dir, place));
    renameSync(`${origin.dir}.away`, origin.dir);
    const [kept] = (await runJson(both, ["flush"], 2, mounted(b.dir, place))).kept;
    assert.match(kept.error.message, /isn't seen from here/);
    assert.doesNotMatch(kept.error.hint, /--drop/);
    const { delivered } = await runJson(both, ["flush"], 0, mounted(a.dir, place));
    assert.equal(delivered.length, 1);
  },
);

for (const command of [["submit"], ["land"], ["flush"]]) {
  scenario(
    `what another container keeps for an origin at its path goes to no other's: ${command}`,
    async () => {
      const origins = [makeOrigin(), makeOrigin()] as const;
      const agents = origins.map((origin) => makeAgent(origin)) as [Agent, Agent];
      const [place, at] = [tempDir(), tempDir()];
      for (const agent of agents) git(agent.dir, "config", "remote.origin.url", at);
      const candidate = freshCommit(agents[0]);
      // A fork that has only fetched it.
      git(agents[1].dir, "fetch", "-q", agents[0].dir, "HEAD:refs/remotes/upstream/main");
      freshCommit(agents[1]);
      const both = { ...agents[0], dir: place };
      const inside = (i: 0 | 1, isThere = true) => {
        const [clone, ...rest] = mounted(agents[i].dir, place).wrapper.slice(-2);
        const mount = `/usr/bin/mount --bind '${origins[i].dir}' '${at}' && `;
        const enter = '/usr/bin/mount --bind "$0" "$1" && cd "$1" && shift && exec "$@"';
        const script = (isThere ? mount : "") + enter;
        return { wrapper: [...wrapper, "/bin/sh", "-c", script, clone!, ...rest] };
      };
      await runJson(both, ["submit", "--no-wait", "--offline"], 0, inside(0, false));
      const code = command[0] === "flush" ? 2 : 0;
      await run(both, [...command, "--json"], inside(1)).then(({ status, stdout }) =>
        assert.equal(status, code, stdout)
      );
      const { submissions } = await runJson(both, ["status"], 0, inside(1));
      assert.ok(submissions.every((one: { candidate: string }) => one.candidate !== candidate));
      const { delivered } = await runJson(both, ["flush"], 0, inside(0));
      assert.deepEqual(delivered.map((one: { candidate: string }) => one.candidate), [candidate]);
      const landed = await runJson(both, ["wait", "0"], 0, inside(0));
      assert.equal(landed.outcome, "landed");
      assert.equal(tryGit(origins[1].dir, ["cat-file", "-e", candidate]).status === 0, false);
      for (const origin of origins) checkLaws(origin);
    },
  );
}
