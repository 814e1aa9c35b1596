/** What agentq says of machines and origins, and the demo that a newcomer runs first. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { git } from "../helpers/git.ts";
import { agentCommit, makeAgent, run, runJson } from "./harness/agent.ts";
import { named } from "./harness/doctor.ts";
import { checkLaws } from "./harness/laws.ts";
import { allRefs, makeOrigin, refOf, setHook } from "./harness/origin.ts";
import { scenario } from "./harness/scenario.ts";
import { overBoth } from "./harness/transports.ts";

overBoth("doctor finds a good origin good, and leaves the queue as it was", async (make) => {
  const origin = make();
  const a = makeAgent(origin);
  const document = await runJson(a, ["doctor"]);
  assert.equal(document.schema, "agentq.doctor/1");
  assert.equal(document.ok, true);
  for (const name of ["shell", "hardlinks", "directory-fsync", "file-modes", "origin", "push"]) {
    assert.equal(named(document.checks, name).status, "ok", name);
  }
  agentCommit(a, { "a.txt": "a\n" });
  assert.equal((await runJson(a, ["submit"])).outcome, "landed");
  checkLaws(origin);
});

scenario("doctor --read-only pushes nothing", async () => {
  const origin = makeOrigin();
  const before = allRefs(origin);
  const document = await runJson(makeAgent(origin), ["doctor", "--read-only"]);
  assert.equal(named(document.checks, "push").status, "skip");
  assert.equal(allRefs(origin), before);
});

scenario(
  "doctor shows a hook that refuses the namespace, in the hook's words, and exits 1",
  async () => {
    const origin = makeOrigin();
    setHook(
      origin,
      "pre-receive",
      "while read -r old new ref; do case $ref in refs/weave/*) echo 'no weaving here'; exit 1;; esac; done",
    );
    const result = await run(makeAgent(origin), ["doctor", "--json"]);
    assert.equal(result.status, 1);
    const push = named(result.json.checks, "push");
    assert.equal(push.status, "fail");
    assert.match(push.message, /no weaving here/);
    assert.ok(push.hint);
    assert.equal(refOf(origin, "refs/weave/main/lock"), null);
  },
);

scenario("doctor says that an origin can't be reached, and checks the rest", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  git(a.dir, "remote", "set-url", "origin", join(origin.dir, "gone"));
  const result = await run(a, ["doctor", "--json"]);
  assert.equal(result.status, 1);
  assert.equal(named(result.json.checks, "origin").status, "fail");
  assert.equal(named(result.json.checks, "push").status, "skip");
  assert.equal(named(result.json.checks, "state").status, "ok");
});

scenario("doctor shows a pause and who asked for it", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  await runJson(a, ["pause", "--reason", "release"]);
  const queue = named((await runJson(a, ["doctor"])).checks, "queue");
  assert.equal(queue.status, "warn");
  assert.match(queue.message, /release/);
});

scenario("demo lands what is good, refuses what is not, and needs no git", async () => {
  const a = makeAgent(makeOrigin());
  const document = await runJson(a, ["demo"]);
  assert.equal(document.good, true);
  const outcomes = document.results.map((one: { outcome: string }) => one.outcome).sort();
  assert.deepEqual(outcomes, ["landed", "landed", "refused"]);
  assert.equal(document.status.complete, true);
});
