/** Landers that die, sleep or are overtaken: what they began is finished by another, exactly once. */
import assert from "node:assert/strict";
import { cpSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { git, tempDir } from "../helpers/git.ts";
import {
  type Agent,
  agentCommit,
  makeAgent,
  run,
  runJson,
  start,
  toolPath,
} from "./harness/agent.ts";
import { readChain, results } from "./harness/chains.ts";
import {
  countCalls,
  DURABLE_CALLS,
  killAtCall,
  makeGate,
  onRef,
  spread,
} from "./harness/faults.ts";
import { checkLaws } from "./harness/laws.ts";
import {
  installHooks,
  logLines,
  makeOrigin,
  setHook,
  type TestOrigin,
  tipOf,
  verifyCommand,
} from "./harness/origin.ts";
import { scenario, sleep } from "./harness/scenario.ts";
import { overBoth } from "./harness/transports.ts";

const SHORT = { AGENTQ_LEASE_TTL: "1" };

/** An origin with one ticket that needs a merge, an agent to land it and one to come after. */
async function queued(
  make: (options?: object) => TestOrigin,
  then = ":",
): Promise<{ origin: TestOrigin; lander: Agent; rescuer: Agent }> {
  const origin = make();
  const first = makeAgent(origin);
  const second = makeAgent(origin);
  const lander = makeAgent(origin, { env: SHORT });
  const rescuer = makeAgent(origin, { env: SHORT });
  agentCommit(first, { "first.txt": "1\n" });
  agentCommit(second, { "second.txt": "2\n" });
  assert.equal((await runJson(first, ["submit"])).outcome, "landed");
  await runJson(second, ["submit", "--no-wait", "--verify-cmd", verifyCommand(origin, then)]);
  return { origin, lander, rescuer };
}

/** The dead lander's ticket is landed, once, and whoever comes next lands too and frees the lock. */
async function rescued(origin: TestOrigin, rescuer: Agent): Promise<void> {
  const result = await runJson(rescuer, ["wait", "1"]);
  assert.equal(result.outcome, "landed");
  assert.equal(git(origin.dir, "show", "main:second.txt"), "2");
  // The one who died after publishing left the lock held: nobody had a reason to take it over yet.
  checkLaws(origin, { killed: true, lockHeld: true });
  agentCommit(rescuer, { "third.txt": "3\n" });
  assert.equal((await runJson(rescuer, ["submit"])).outcome, "landed");
  checkLaws(origin, { killed: true });
}

overBoth("SIGKILL while verifying: another lands the ticket", async (make) => {
  const gate = makeGate();
  const { origin, lander, rescuer } = await queued(make, gate.shell);
  const running = start(lander, ["land"]);
  await gate.reached();
  running.kill("SIGKILL");
  assert.equal((await running.done).signal, "SIGKILL");
  await rescued(origin, rescuer);
  gate.open();
});

scenario(
  "SIGKILL while verifying: the same clone lands it, its worktree still in use by the orphan",
  async () => {
    const gate = makeGate();
    const { origin, lander } = await queued(makeOrigin, gate.shell);
    const running = start(lander, ["land"]);
    await gate.reached();
    running.kill("SIGKILL");
    await running.done;
    await rescued(origin, lander);
    gate.open();
  },
);

overBoth("SIGKILL before the landing is applied: another lands the ticket", async (make) => {
  const gate = makeGate();
  const { origin, lander, rescuer } = await queued(make);
  installHooks(origin, onRef("refs/heads/main", gate.shell));
  const running = start(lander, ["land"]);
  await gate.reached();
  running.kill("SIGKILL");
  await running.done;
  // Behind http the server goes on with the push of the dead lander, at any time: both orders are fine.
  setTimeout(gate.open, 300);
  await rescued(origin, rescuer);
});

overBoth(
  "SIGKILL after the landing was applied: it is known and not landed again",
  async (make) => {
    const gate = makeGate();
    const { origin, lander, rescuer } = await queued(make);
    setHook(origin, "post-update", gate.shell + "\n");
    const running = start(lander, ["land"]);
    await gate.reached();
    running.kill("SIGKILL");
    await running.done;
    gate.open();
    await rescued(origin, rescuer);
  },
);

overBoth("SIGKILL while taking the lock and just after: another lands the ticket", async (make) => {
  for (const hook of ["pre-receive", "post-update"]) {
    const gate = makeGate();
    const { origin, lander, rescuer } = await queued(make);
    if (hook === "pre-receive") installHooks(origin, onRef("refs/weave/main/lock", gate.shell));
    else setHook(origin, hook, gate.shell + "\n");
    const running = start(lander, ["land"]);
    await gate.reached();
    running.kill("SIGKILL");
    await running.done;
    setTimeout(gate.open, 300);
    await rescued(origin, rescuer);
  }
});

for (const state of ["prepared", "committed"]) {
  scenario(
    `SIGKILL in the reference transaction (${state}) on disk: no lock file wedges the queue`,
    async () => {
      const gate = makeGate();
      const { origin, lander, rescuer } = await queued(makeOrigin);
      setHook(
        origin,
        "reference-transaction",
        `while read -r old new ref; do
if [ "$1" = ${state} ] && [ "$ref" = refs/heads/main ]; then ${gate.shell}; fi
done
`,
      );
      const running = start(lander, ["land"]);
      await gate.reached();
      running.kill("SIGKILL");
      await running.done;
      gate.open();
      await rescued(origin, rescuer);
    },
  );
}

scenario(
  "SIGKILL at every durable system call of a landing: another lands the ticket",
  async () => {
    const { origin, lander, rescuer } = await queued(makeOrigin);
    const root = tempDir();
    const copyOf = (dir: string, name: string) => {
      const copy = join(root, name);
      cpSync(dir, copy, { recursive: true });
      return copy;
    };
    const pristine = copyOf(origin.dir, "pristine.git");
    const unused = {
      lander: copyOf(lander.dir, "lander"),
      rescuer: copyOf(rescuer.dir, "rescuer"),
    };
    const { run: counted, made } = await countCalls(lander, ["land"], DURABLE_CALLS);
    assert.equal(counted.status, 0, counted.stderr);
    checkLaws(origin);
    const places = spread(made, 16);
    assert.ok(places.length >= 8, `durable calls of a landing: ${made.length}`);
    let kills = 0;
    for (const [trial, place] of places.entries()) {
      // The same queue again, with hooks that log for it alone. The ticket's verify command goes on
      // writing to the first origin's log.
      const other = { ...makeOrigin(), dir: copyOf(pristine, `${trial}.git`) };
      const judged: TestOrigin = { ...origin, dir: other.dir, movesLog: other.movesLog };
      installHooks(judged);
      const agentOn = (agent: Agent, clone: string): Agent => {
        git(clone, "config", "remote.origin.url", judged.dir);
        return { ...agent, dir: clone, env: { ...agent.env, AGENTQ_STATE: tempDir() } };
      };
      const victim = agentOn(lander, copyOf(unused.lander, `${trial}-lander`));
      const killed = await killAtCall(victim, ["land"], place);
      if (killed.signal === "SIGKILL" || killed.status === 137) kills++;
      try {
        await rescued(judged, agentOn(rescuer, copyOf(unused.rescuer, `${trial}-rescuer`)));
      } catch (error) {
        const { message } = error as Error;
        throw new Error(`killed at ${place.call} ${place.nth}: ${message}`, { cause: error });
      }
    }
    // A call can vanish when the machine is busier than at the count, but few do.
    assert.ok(kills > places.length / 2, `${kills} of ${places.length} runs were killed`);
  },
);

scenario(
  "SIGKILL at every durable system call of a submit: the rerun makes no second ticket",
  async () => {
    const probe = makeOrigin();
    const prober = makeAgent(probe);
    agentCommit(prober, { "a.txt": "a\n" });
    const { made } = await countCalls(prober, ["submit", "--no-wait"], DURABLE_CALLS);
    const places = spread(made, 16);
    assert.ok(places.length >= 8, `durable calls of a submit: ${made.length}`);
    let kills = 0;
    for (const place of places) {
      const origin = makeOrigin();
      const agent = makeAgent(origin);
      const candidate = agentCommit(agent, { "a.txt": "a\n" });
      const killed = await killAtCall(agent, ["submit", "--no-wait"], place);
      if (killed.signal === "SIGKILL" || killed.status === 137) kills++;
      const result = await runJson(agent, ["submit"]);
      const where = `killed at ${place.call} ${place.nth}`;
      assert.deepEqual([result.ticket, result.landed], [0, candidate], where);
      assert.equal(results(origin).length, 1, where);
      checkLaws(origin, { killed: true });
    }
    assert.ok(kills > places.length / 2, `${kills} of ${places.length} runs were killed`);
  },
);

overBoth("SIGSTOP past the ttl while verifying: woken, it publishes nothing", async (make) => {
  const gate = makeGate();
  const origin = make();
  const sleeper = makeAgent(origin, { env: SHORT });
  const other = makeAgent(origin, { env: SHORT });
  agentCommit(sleeper, { "s.txt": "s\n" });
  agentCommit(other, { "o.txt": "o\n" });
  const asleep = start(sleeper, [
    "submit",
    "--json",
    "--verify-cmd",
    verifyCommand(origin, gate.shell),
  ]);
  await gate.reached();
  asleep.kill("SIGSTOP");
  gate.open();
  const landed = await runJson(other, ["submit", "--verify-cmd", verifyCommand(origin)]);
  assert.deepEqual([landed.ticket, landed.outcome], [1, "landed"]);
  const before = results(origin)[0]!;
  assert.equal(before.lander, landed.lander, "the one awake landed both");
  asleep.kill("SIGCONT");
  const woken = await asleep.done;
  assert.equal(woken.status, 0, woken.stderr);
  assert.deepEqual([woken.json.ticket, woken.json.landed, woken.json.lander], [
    0,
    before.landed,
    landed.lander,
  ]);
  checkLaws(origin);
});

overBoth(
  "SIGSTOP past the ttl in the landing push: woken, its push is refused as a whole",
  async (make) => {
    const gate = makeGate();
    const origin = make();
    installHooks(origin, onRef("refs/heads/main", gate.shell));
    const sleeper = makeAgent(origin, { env: SHORT });
    const other = makeAgent(origin, { env: SHORT });
    agentCommit(sleeper, { "s.txt": "s\n" });
    agentCommit(other, { "o.txt": "o\n" });
    const asleep = start(sleeper, ["submit", "--json", "--verify-cmd", verifyCommand(origin)]);
    await gate.reached();
    asleep.kill("SIGSTOP");
    const landed = await runJson(other, ["submit", "--verify-cmd", verifyCommand(origin)]);
    assert.deepEqual([landed.ticket, landed.outcome], [1, "landed"]);
    const tip = tipOf(origin);
    gate.open();
    asleep.kill("SIGCONT");
    const woken = await asleep.done;
    assert.equal(woken.status, 0, woken.stderr);
    assert.equal(woken.json.lander, landed.lander);
    assert.equal(tipOf(origin), tip);
    checkLaws(origin);
  },
);

scenario(
  "SIGSTOP while holding the origin's ref locks: nobody breaks them, and nothing is lost",
  async () => {
    const gate = makeGate();
    const origin = makeOrigin();
    setHook(
      origin,
      "reference-transaction",
      `while read -r old new ref; do
if [ "$1" = prepared ] && [ "$ref" = refs/heads/main ]; then ${gate.shell}; fi
done
`,
    );
    const sleeper = makeAgent(origin, { env: SHORT });
    const other = makeAgent(origin, { env: SHORT });
    agentCommit(sleeper, { "s.txt": "s\n" });
    agentCommit(other, { "o.txt": "o\n" });
    const asleep = start(sleeper, ["submit", "--json"]);
    await gate.reached();
    asleep.kill("SIGSTOP");
    gate.open();
    const waiting = start(other, ["submit", "--json"]);
    await sleep(2500);
    assert.equal(tipOf(origin), origin.initial);
    asleep.kill("SIGCONT");
    const [one, two] = await Promise.all([asleep.done, waiting.done]);
    assert.equal(one.status, 0, one.stdout + one.stderr);
    assert.equal(two.status, 0, two.stdout + two.stderr);
    checkLaws(origin);
  },
);

overBoth(
  "a verification longer than the ttl isn't taken over while its lander lives",
  async (make) => {
    const origin = make();
    const slow = makeAgent(origin, { env: { AGENTQ_LEASE_TTL: "2" } });
    const waiter = makeAgent(origin, { env: { AGENTQ_LEASE_TTL: "2" } });
    agentCommit(slow, { "s.txt": "s\n" });
    agentCommit(waiter, { "w.txt": "w\n" });
    const gate = makeGate();
    const landing = start(slow, [
      "submit",
      "--json",
      "--verify-cmd",
      verifyCommand(origin, `${gate.shell}; sleep 6`),
    ]);
    await gate.reached();
    gate.open();
    const waiting = start(waiter, ["submit", "--json"]);
    const [one, two] = await Promise.all([landing.done, waiting.done]);
    assert.equal(one.status, 0, one.stderr);
    assert.equal(two.status, 0, two.stderr);
    assert.equal(
      logLines(origin.verifyLog).filter((line) => line.startsWith("start 0 ")).length,
      1,
    );
    const holder = one.json.lander;
    const chain = readChain(origin, "lock").map((entry) => entry.message);
    const last = chain.findLastIndex((entry) => entry.holder === holder);
    assert.ok(
      chain.slice(0, last + 1).every((entry) => entry.by === holder),
      "taken over while alive",
    );
    assert.ok(last >= 4, `renewed while verifying: ${last}`);
    checkLaws(origin);
  },
);

overBoth("two waiters on a stale lock: one wins, both land", async (make) => {
  const gate = makeGate();
  const { origin, lander } = await queued(make, gate.shell);
  const running = start(lander, ["land"]);
  await gate.reached();
  running.kill("SIGKILL");
  await running.done;
  const waiters = [1, 2, 3].map(() => makeAgent(origin, { env: SHORT }));
  const runs = await Promise.all(waiters.map((agent, i) => {
    agentCommit(agent, { [`w${i}`]: `${i}\n` });
    return run(agent, ["submit", "--json", "--verify-cmd", verifyCommand(origin)]);
  }));
  gate.open();
  for (const result of runs) assert.equal(result.status, 0, result.stdout + result.stderr);
  checkLaws(origin, { killed: true });
});

scenario("SIGINT and SIGTERM release the lock and exit 130 and 143", async () => {
  for (const [signal, status] of [["SIGINT", 130], ["SIGTERM", 143]] as const) {
    const gate = makeGate();
    const { origin, lander, rescuer } = await queued(makeOrigin, gate.shell);
    // A ttl that nobody could wait for: only a release lets the next one in.
    const running = start(lander, ["land", "--json"], { env: { AGENTQ_LEASE_TTL: "3600" } });
    await gate.reached();
    running.kill(signal);
    const stopped = await running.done;
    const { error } = JSON.parse(stopped.stdout.trim().split("\n").at(-1)!);
    assert.deepEqual([stopped.status, error.code], [status, "interrupted"]);
    const result = await runJson(rescuer, ["wait", "1"], 0, { env: { AGENTQ_LEASE_TTL: "3600" } });
    assert.equal(result.outcome, "landed");
    checkLaws(origin);
    gate.open();
  }
});

scenario("the agent's PATH holds no git", async () => {
  assert.ok(!readdirSync(toolPath()).some((name) => name.startsWith("git")));
  const origin = makeOrigin();
  const agent = makeAgent(origin);
  agentCommit(agent, { "a.txt": "a\n" });
  const result = await runJson(agent, [
    "submit",
    "--verify-cmd",
    "command -v git && exit 1; exit 0",
  ]);
  assert.equal(result.outcome, "landed");
  checkLaws(origin, { foreignVerify: true });
});
