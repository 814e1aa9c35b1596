/** This machine's submissions where clone, remote or queue aren't what they were. */
import assert from "node:assert/strict";
import { cpSync, mkdirSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { git } from "../helpers/git.ts";
import { type Agent, agentCommit, makeAgent, run, runJson, start } from "./harness/agent.ts";
import { makeGate } from "./harness/faults.ts";
import { away, keeping } from "./harness/keeping.ts";
import { makeOrigin, setHook, tipOf } from "./harness/origin.ts";
import { scenario, until } from "./harness/scenario.ts";

const own = async (agent: Agent) =>
  (await runJson(agent, ["status"])).submissions.map((
    one: Record<string, unknown>,
  ) => [one.ticket, one.state]);

for (const command of [["flush"], ["submit", "--no-wait"]]) {
  scenario(
    `what a clone that was moved kept is delivered by ${command[0]} in its new place, once`,
    async () => {
      const origin = makeOrigin();
      const { agent, candidate } = await keeping(origin);
      const moved = { ...agent, dir: `${agent.dir}.moved` };
      renameSync(agent.dir, moved.dir);
      await runJson(moved, command);
      assert.deepEqual(await own(moved), [[0, "queued"]]);
      renameSync(moved.dir, agent.dir);
      assert.deepEqual((await runJson(agent, ["flush"])).delivered, []);
      await runJson(agent, ["land"]);
      assert.equal(tipOf(origin), candidate);
    },
  );
}

scenario(
  "the submission of a clone that is gone names the ways on, and one of them works",
  async () => {
    const origin = makeOrigin();
    const { agent } = await keeping(origin);
    const other = { ...makeAgent(origin), state: agent.state };
    other.env = { ...other.env, AGENTQ_STATE: agent.state };
    rmSync(agent.dir, { recursive: true });
    const [kept] = (await runJson(other, ["flush"], 2)).kept;
    assert.equal(kept.error.code, "not-a-repository");
    assert.match(kept.error.message, /is gone: /);
    const [, id] = /agentq flush --drop ([0-9a-f]{32})/.exec(kept.error.hint)!;
    assert.deepEqual((await runJson(other, ["flush", "--drop", id!])).dropped, [id]);
    assert.deepEqual((await runJson(other, ["flush"])).kept, []);
  },
);

scenario(
  "a clone that another stands in the place of is gone too; what is advised works as it is typed",
  async () => {
    const origin = makeOrigin();
    const { agent } = await keeping(origin);
    rmSync(agent.dir, { recursive: true });
    git(origin.dir, "clone", "-q", origin.dir, agent.dir);
    // By a flag, and not by the environment.
    const typed = { ...agent, env: { ...agent.env, AGENTQ_STATE: "" } };
    const [kept] = (await runJson(typed, ["flush", "--state", agent.state], 2)).kept;
    assert.match(kept.error.message, /or that is another clone by now/);
    const [, words] = /agentq (flush --drop .*)$/.exec(kept.error.hint)!;
    assert.equal((await runJson(typed, words!.split(" "))).dropped.length, 1);
    assert.deepEqual((await runJson(typed, ["flush", "--state", agent.state])).kept, []);
  },
);

for (const begun of [false, true]) {
  scenario(
    `what was kept for a branch that is deleted meanwhile begins it anew only where that was asked for${
      begun ? ", and was" : ""
    }`,
    async () => {
      const origin = makeOrigin();
      git(origin.dir, "branch", "feat/release", "main");
      const agent = makeAgent(origin);
      const candidate = agentCommit(agent, { "a.txt": "a\n" });
      const back = away(origin);
      const create = begun ? ["--create-branch"] : [];
      const keep = ["submit", "--no-wait", "--offline", "--branch", "feat/release", ...create];
      await runJson(agent, keep);
      back();
      git(origin.dir, "branch", "-D", "feat/release");
      if (begun) {
        assert.equal((await runJson(agent, ["flush"])).delivered.length, 1);
        await run(agent, ["land", "--branch", "feat/release"]);
        assert.equal(git(origin.dir, "rev-parse", "feat/release"), candidate);
        return;
      }
      await run(agent, ["land", "--branch", "feat/release"]);
      const [kept] = (await runJson(agent, ["flush"], 2)).kept;
      assert.equal(kept.error.code, "branch-unknown");
      assert.equal(
        git(origin.dir, "for-each-ref", "refs/heads/feat/release", "refs/weave/feat/release"),
        "",
      );
      const [, words] = /begin the branch with it: agentq (.*)$/.exec(kept.error.hint)!;
      assert.equal((await runJson(agent, words!.split(" "))).outcome, "landed");
      assert.equal(git(origin.dir, "rev-parse", "feat/release"), candidate);
      assert.deepEqual((await runJson(agent, ["flush"])).kept, []);
    },
  );
}

scenario("submit tells this clone's own result before that of a clone that is gone", async () => {
  const origin = makeOrigin();
  const agent = makeAgent(origin);
  agentCommit(agent, { "a.txt": "a\n" });
  const copy = { ...agent, dir: `${agent.dir}.copy` };
  cpSync(agent.dir, copy.dir, { recursive: true });
  for (const one of [agent, copy]) await runJson(one, ["submit", "--no-wait"]);
  rmSync(copy.dir, { recursive: true });
  await run(makeAgent(origin), ["land"]);
  const { ticket, outcome } = await runJson(agent, ["submit"]);
  assert.deepEqual([ticket, outcome], [0, "landed"]);
});

scenario("what a moved clone kept is its own, whatever is in its old place", async () => {
  const origin = makeOrigin();
  const { agent, candidate } = await keeping(origin);
  const moved = { ...agent, dir: `${agent.dir}.moved` };
  renameSync(agent.dir, moved.dir);
  git(origin.dir, "clone", "-q", origin.dir, agent.dir);
  await runJson(moved, ["submit", "--no-wait"]);
  assert.deepEqual((await runJson(moved, ["flush"])).delivered, []);
  assert.deepEqual((await runJson(agent, ["flush"])).delivered, []);
  assert.deepEqual(await own(moved), [[0, "queued"]]);
  await runJson(moved, ["land"]);
  assert.equal(tipOf(origin), candidate);
});

for (const linked of [false, true]) {
  scenario(
    `a ${
      linked ? "worktree" : "clone"
    } that is deleted under its waiting submit costs nobody else's ticket`,
    async () => {
      const origin = makeOrigin();
      const other = makeAgent(origin);
      agentCommit(other, { "b.txt": "b\n" });
      await runJson(other, ["pause"]);
      await runJson(other, ["submit", "--no-wait", "--verify-cmd", "true"]);
      const clone = makeAgent(origin);
      const agent = linked ? { ...clone, dir: join(dirname(clone.dir), "tree") } : clone;
      if (linked) git(clone.dir, "worktree", "add", "-q", agent.dir, "-b", "work");
      agentCommit(agent, { "a.txt": "a\n" });
      const waiting = start(agent, ["submit", "--json"]);
      await until("the wait", () => waiting.stderr().includes("paused"));
      if (linked) git(clone.dir, "worktree", "remove", "--force", agent.dir);
      else rmSync(agent.dir, { recursive: true });
      await runJson(other, ["resume"]);
      const { status, json } = await waiting.done;
      assert.equal(status, 2);
      assert.match(json.error.message, /was removed while a ticket was being landed in it/);
      const landed = await runJson(other, ["submit"]);
      assert.deepEqual([landed.ticket, landed.outcome], [0, "landed"]);
    },
  );
}

scenario("what was kept for a remote goes there under the remote's new name", async () => {
  const origin = makeOrigin();
  const { agent } = await keeping(origin);
  git(agent.dir, "remote", "rename", "origin", "up");
  const { delivered } = await runJson(agent, ["flush", "--remote", "up"]);
  assert.equal(delivered.length, 1);
});

scenario("what was kept for another url says how to go on", async () => {
  const origin = makeOrigin();
  const { agent } = await keeping(origin);
  const elsewhere = makeOrigin();
  git(agent.dir, "remote", "set-url", "origin", elsewhere.url);
  assert.match(
    (await runJson(agent, ["status"])).warnings.join(),
    /is kept for .*: agentq flush delivers it/,
  );
  const [kept] = (await runJson(agent, ["flush"], 2)).kept;
  assert.match(kept.error.message, /the submission was made for /);
  const [, id] = /agentq flush --drop ([0-9a-f]{32})/.exec(kept.error.hint)!;
  await runJson(agent, ["flush", "--drop", id!]);
  assert.deepEqual((await runJson(agent, ["flush"])).kept, []);
});

scenario(
  "a ticket whose number is another's, in a restored origin, is lost and never landed",
  async () => {
    const origin = makeOrigin();
    const backup = `${origin.dir}.backup`;
    cpSync(origin.dir, backup, { recursive: true });
    const agent = makeAgent(origin);
    const candidate = agentCommit(agent, { "a.txt": "a\n" });
    await runJson(agent, ["submit", "--no-wait"]);
    rmSync(origin.dir, { recursive: true });
    renameSync(backup, origin.dir);
    // Nobody has its number yet, then another has.
    assert.deepEqual(await own(agent), [[0, "lost"]]);
    const other = makeAgent(origin);
    agentCommit(other, { "b.txt": "b\n" });
    await runJson(other, ["submit"]);
    assert.deepEqual(await own(agent), [[0, "lost"]]);
    const { error } = await runJson(agent, ["wait", "0"], 2);
    assert.equal(error.code, "ticket-unknown");
    assert.match(error.message, /^ticket 0 is another's: /);
    assert.match(error.hint, /agentq submit --candidate .*agentq show 0 /);
    assert.deepEqual([error.details.candidate, error.details.lost], [candidate, true]);
    // To others, who have no such record, it is a ticket as any.
    assert.equal((await runJson(other, ["wait", "0"])).outcome, "landed");
    assert.deepEqual(await own(agent), [[0, "lost"]]);
    const again = await runJson(agent, ["submit"]);
    assert.deepEqual([again.ticket, again.outcome, again.candidate], [1, "landed", candidate]);
    assert.deepEqual(await own(agent), []);
  },
);

scenario("a wait for what is another's by now doesn't wait for that to land", async () => {
  const origin = makeOrigin();
  const backup = `${origin.dir}.backup`;
  cpSync(origin.dir, backup, { recursive: true });
  const agent = makeAgent(origin);
  agentCommit(agent, { "a.txt": "a\n" });
  await runJson(agent, ["submit", "--no-wait"]);
  rmSync(origin.dir, { recursive: true });
  renameSync(backup, origin.dir);
  const other = makeAgent(origin);
  agentCommit(other, { "b.txt": "b\n" });
  await runJson(other, ["submit", "--no-wait"]);
  assert.equal((await runJson(agent, ["wait", "0"], 2)).error.code, "ticket-unknown");
  assert.equal((await runJson(other, ["status"])).unacked, 1);
});

scenario(
  "a commit whose ticket is cancelled gets a new one when it is submitted again",
  async () => {
    const origin = makeOrigin();
    const agent = makeAgent(origin);
    agentCommit(agent, { "a.txt": "a\n" });
    await runJson(agent, ["submit", "--no-wait"]);
    await runJson(agent, ["cancel", "0"]);
    assert.deepEqual(await own(agent), [[0, "cancelled"]]);
    const queued = await runJson(agent, ["submit", "--no-wait"]);
    assert.deepEqual([queued.ticket, queued.outcome], [1, "queued"]);
    const landed = await runJson(agent, ["submit"]);
    assert.deepEqual([landed.ticket, landed.outcome], [1, "landed"]);
  },
);

for (const taken of [false, true]) {
  scenario(
    `a submit that waits learns that its origin was put back${
      taken ? ", and its number another's" : ""
    }`,
    async () => {
      const origin = makeOrigin();
      const operator = makeAgent(origin);
      await runJson(operator, ["pause"]);
      const backup = `${origin.dir}.backup`;
      cpSync(origin.dir, backup, { recursive: true });
      const agent = makeAgent(origin);
      agentCommit(agent, { "a.txt": "a\n" });
      const waiting = [start(agent, ["submit", "--json"])];
      await until("the ticket", async () => (await runJson(operator, ["status"])).unacked === 1);
      waiting.push(start(operator, ["wait", "0", "--json"]));
      await until("the wait", () => waiting[1]!.stderr().includes("paused"));
      const back = away(origin);
      rmSync(`${origin.dir}.away`, { recursive: true });
      renameSync(backup, `${origin.dir}.away`);
      if (taken) {
        // Before anybody looks again.
        const other = makeAgent({
          ...origin,
          dir: `${origin.dir}.away`,
          url: `${origin.dir}.away`,
        });
        agentCommit(other, { "b.txt": "b\n" });
        await runJson(other, ["resume"]);
        assert.equal((await runJson(other, ["submit"])).ticket, 0);
      }
      back();
      for (const { done } of waiting) {
        const { status, json } = await done;
        assert.equal(status, 2);
        assert.equal(json.error.code, "ticket-unknown");
        assert.match(json.error.message, /^ticket 0 is not in the queue any more/);
      }
      assert.deepEqual(await own(agent), [[0, "lost"]]);
    },
  );
}

scenario("a state directory that was put back makes no second ticket of what it kept", async () => {
  const origin = makeOrigin();
  const { agent } = await keeping(origin);
  const backup = `${agent.state}.backup`;
  cpSync(agent.state, backup, { recursive: true });
  const [first] = (await runJson(agent, ["flush"])).delivered;
  rmSync(agent.state, { recursive: true });
  renameSync(backup, agent.state);
  const [again] = (await runJson(agent, ["flush"])).delivered;
  assert.deepEqual(again, first);
  assert.equal((await runJson(agent, ["status"])).unacked, 1);
});

scenario("relative paths of origins are told apart by where they lead", async () => {
  const agents = [makeOrigin(), makeOrigin()].map((origin) => {
    const agent = makeAgent(origin);
    symlinkSync(origin.dir, join(dirname(agent.dir), "origin.git"));
    git(agent.dir, "remote", "set-url", "origin", "../origin.git");
    return agent;
  });
  const [one, two] = [agents[0]!, { ...agents[1]!, state: agents[0]!.state }];
  two.env = { ...two.env, AGENTQ_STATE: one.state };
  agentCommit(one, { "a.txt": "a\n" });
  await runJson(one, ["submit", "--no-wait"]);
  assert.deepEqual(await own(two), []);
  assert.deepEqual(await own(one), [[0, "queued"]]);
});

scenario("a worktree whose clone was moved is told by its .git file", async () => {
  const origin = makeOrigin();
  const agent = makeAgent(origin);
  const tree = join(dirname(agent.dir), "tree");
  git(agent.dir, "worktree", "add", "-q", tree, "-b", "work");
  renameSync(agent.dir, `${agent.dir}.moved`);
  const { error } = await runJson({ ...agent, dir: tree }, ["submit", "--no-wait"], 2);
  assert.equal(error.code, "not-a-repository");
  assert.match(error.message, /tree\/\.git points to .*, which is no repository/);
  assert.match(error.hint, /git worktree repair/);
});

scenario("a relative XDG_STATE_HOME doesn't count", async () => {
  const origin = makeOrigin();
  const agent = makeAgent(origin);
  agentCommit(agent, { "a.txt": "a\n" });
  const { AGENTQ_STATE: _none, ...env } = agent.env;
  const home = { ...agent, env: { ...env, XDG_STATE_HOME: "relative" } };
  await runJson(home, ["submit", "--no-wait"]);
  assert.equal(git(agent.dir, "status", "--short"), "");
  mkdirSync(join(agent.dir, "below"));
  assert.deepEqual(await own({ ...home, dir: join(agent.dir, "below") }), [[0, "queued"]]);
});

scenario("a second signal ends it at once, with a word", async () => {
  const origin = makeOrigin();
  const agent = makeAgent(origin);
  const backend = `store:${join(agent.state, "jobs")}`;
  await runJson(agent, ["queue", "create", "jobs", "--backend", backend]);
  await runJson(agent, ["queue", "enqueue", "jobs", "x", "--backend", backend]);
  const worker = start(agent, [
    ...[
      "queue",
      "work",
      "jobs",
      "--backend",
      backend,
      "--",
      "sh",
      "-c",
      "echo begun >&2; sleep 60",
    ],
  ]);
  await until("the handler", () => worker.stderr().includes("begun"));
  worker.kill("SIGTERM");
  const repeat = setInterval(() => worker.child.exitCode === null && worker.kill("SIGTERM"), 200);
  const { status, stderr } = await worker.done;
  clearInterval(repeat);
  assert.equal(status, 143);
  assert.match(stderr, /agentq: cut off by a second SIGTERM/);
});

scenario(
  "a submit that a second signal cuts off in its push names its submission, which can be told by it",
  async () => {
    const origin = makeOrigin();
    const agent = makeAgent(origin);
    agentCommit(agent, { "a.txt": "a\n" });
    const gate = makeGate();
    // The ticket is in the queue by then; the run has no word of it yet.
    setHook(origin, "post-receive", gate.shell);
    const submitter = start(agent, ["submit", "--no-wait", "--json"]);
    await gate.reached();
    submitter.kill("SIGTERM");
    const repeat = setInterval(
      () => submitter.child.exitCode === null && submitter.kill("SIGTERM"),
      200,
    );
    const { status, json } = await submitter.done;
    clearInterval(repeat);
    gate.open();
    assert.deepEqual([status, json.error.code], [143, "interrupted"]);
    const { submission } = json.error.details;
    assert.ok(json.error.message.includes(submission), json.error.message);
    const { pending, submissions } = await runJson(agent, ["status"]);
    assert.equal(pending, 1);
    assert.equal(submissions[0].submission, submission);
    assert.equal((await runJson(agent, ["submit", "--no-wait"])).ticket, 0);
  },
);
