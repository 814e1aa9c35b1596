/** What goes away under a run: the lander's clone, an origin on disk, this machine's notes. */
import assert from "node:assert/strict";
import { renameSync } from "node:fs";
import { agentCommit, makeAgent, run, runJson, start } from "./harness/agent.ts";
import { makeOrigin, tipOf } from "./harness/origin.ts";
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
  assert.match(error.message, /was removed while the checks ran/);
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

scenario("a result stands though this machine's notes are gone", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  const candidate = agentCommit(a, { "a.txt": "a\n" });
  const done = await run(a, ["submit", "--json", "--verify-cmd", `rm -rf '${a.state}'`]);
  assert.equal(done.status, 0, done.stderr + done.stdout);
  assert.equal(done.json.landed, candidate);
  assert.match(done.stderr, /could not be forgotten on this machine/);
});
