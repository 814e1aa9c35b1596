/** What goes away under a run: the clone, an origin on disk, this machine's notes, the terminal. */
import assert from "node:assert/strict";
import { cpSync, existsSync, readdirSync, renameSync } from "node:fs";
import process from "node:process";
import { git } from "../helpers/git.ts";
import { agentCommit, makeAgent, run, runJson, start } from "./harness/agent.ts";
import { readChain } from "./harness/chains.ts";
import { type Gate, makeGate, onRef } from "./harness/faults.ts";
import { installHooks, makeOrigin, type TestOrigin, tipOf } from "./harness/origin.ts";
import { scenario, until } from "./harness/scenario.ts";

scenario("a clone removed while its lander checks proves nothing about the commit", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  const b = makeAgent(origin);
  agentCommit(a, { "a.txt": "a\n" });
  const verify = `rm -rf '${a.dir}'; true`;
  const { error } = await runJson(a, ["submit", "--verify-cmd", verify], 2);
  assert.equal(error.code, "io-error");
  assert.equal(error.details.ticket, 0);
  assert.match(error.message, /was removed while a ticket was being landed/);
  assert.equal(tipOf(origin), origin.initial);
  assert.equal((await runJson(b, ["wait", "0"])).outcome, "landed");
});

scenario("an origin on disk that is away for a while is waited for", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  const b = makeAgent(origin);
  agentCommit(a, { "a.txt": "a\n" });
  await runJson(b, ["pause"]);
  const waiting = start(a, ["submit", "--json"]);
  await until("the wait to begin", () => /paused by/.test(waiting.stderr()));
  renameSync(origin.dir, `${origin.dir}.away`);
  await until("the absence to be noticed", () => /isn't there any more/.test(waiting.stderr()));
  renameSync(`${origin.dir}.away`, origin.dir);
  await runJson(b, ["resume"]);
  const done = await waiting.done;
  assert.equal(done.json.outcome, "landed", done.stderr);
});

/** Has the origin's next push stop in its pre-receive hook; gives the gate there. */
function stopInHook(origin: TestOrigin, ref: string): Gate {
  const gate = makeGate();
  installHooks(origin, onRef(ref, gate.shell));
  return gate;
}

scenario("an origin moved away in a hook of a submit gets its ticket once it is back", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  agentCommit(a, { "a.txt": "a\n" });
  const gate = stopInHook(origin, "refs/weave/main/queue");
  const submitting = start(a, ["submit", "--json", "--no-wait"]);
  await gate.reached();
  renameSync(origin.dir, `${origin.dir}.away`);
  gate.open();
  const done = await submitting.done;
  assert.equal(done.status, 2, done.stdout);
  assert.equal(done.json.error.code, "origin-unreachable");
  assert.equal(done.json.error.retryable, true);
  assert.equal(existsSync(origin.dir), false);
  renameSync(`${origin.dir}.away`, origin.dir);
  assert.equal(git(origin.dir, "for-each-ref", "refs/weave"), "");
  const left = readdirSync(origin.dir, { recursive: true }).map(String);
  assert.deepEqual(left.filter((name) => /\.lock$|\.keep$|tmp_|agentq-life/.test(name)), []);
  const flushed = await run(a, ["flush"]);
  assert.equal(flushed.status, 0, flushed.stderr);
  assert.equal((await runJson(a, ["wait", "0"])).outcome, "landed");
});

scenario(
  "an origin put back from a backup in a hook of a submit gets what it lacks too",
  async () => {
    const origin = makeOrigin();
    const a = makeAgent(origin);
    agentCommit(a, { "a.txt": "a\n" });
    await runJson(a, ["submit"]);
    cpSync(origin.dir, `${origin.dir}.backup`, { recursive: true });
    agentCommit(a, { "b.txt": "b\n" });
    git(a.dir, "push", "-q", origin.dir, "HEAD:refs/heads/feat/b");
    const candidate = agentCommit(a, { "c.txt": "c\n" });
    const gate = stopInHook(origin, "refs/weave/main/queue");
    const submitting = start(a, ["submit", "--json", "--no-wait"]);
    await gate.reached();
    renameSync(origin.dir, `${origin.dir}.away`);
    renameSync(`${origin.dir}.backup`, origin.dir);
    gate.open();
    const done = await submitting.done;
    assert.equal(done.status, 0, done.stdout + done.stderr);
    assert.equal(git(origin.dir, "fsck", "--full", "--connectivity-only"), "");
    assert.equal((await runJson(a, ["wait", "1"])).outcome, "landed");
    git(origin.dir, "merge-base", "--is-ancestor", candidate, "main");
  },
);

scenario("a result stands though this machine's notes are gone", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  const candidate = agentCommit(a, { "a.txt": "a\n" });
  const done = await run(a, ["submit", "--json", "--verify-cmd", `rm -rf '${a.state}'`]);
  assert.equal(done.status, 0, done.stderr + done.stdout);
  assert.equal(done.json.landed, candidate);
  assert.match(done.stderr, /could not be forgotten on this machine/);
});

scenario(
  "a closed terminal ends a lander, which gives the lock back; not under nohup",
  async () => {
    const origin = makeOrigin();
    const a = makeAgent(origin);
    agentCommit(a, { "a.txt": "a\n" });
    for (const [i, wrapper] of [[], ["/usr/bin/nohup"]].entries()) {
      const gate = makeGate();
      const args = ["submit", "--again", "--json", "--lease-ttl", "60", "--verify-cmd", gate.shell];
      const running = start(a, args, { wrapper });
      await gate.reached();
      process.kill(running.pid, "SIGHUP");
      if (i > 0) gate.open();
      const done = await running.done;
      assert.equal(done.status, i === 0 ? 129 : 0, done.stderr + done.stdout);
      if (i === 0) assert.match(done.json.error.message, /stopped by SIGHUP/);
      assert.equal(readChain(origin, "lock").at(-1)!.message.holder, null);
      if (i === 0) await runJson(a, ["cancel", "0"]);
    }
  },
);
