/** One commit that is kept twice while it can't be told that it is the same submission. */
import assert from "node:assert/strict";
import { git } from "../helpers/git.ts";
import { agentCommit, makeAgent, run, runJson } from "./harness/agent.ts";
import { away } from "./harness/keeping.ts";
import { makeOrigin } from "./harness/origin.ts";
import { scenario } from "./harness/scenario.ts";

const [plain, named] = [[], ["--branch", "main"]];

/** Kept in that order in a clone that doesn't know the origin's HEAD, the second time with a check that fails. */
async function keptTwice(first: string[], second: string[]) {
  const origin = makeOrigin();
  const agent = makeAgent(origin);
  git(agent.dir, "remote", "set-head", "origin", "-d");
  const candidate = agentCommit(agent, { "a.txt": "a\n" });
  const back = away(origin);
  const offline = ["submit", "--no-wait", "--offline"];
  await runJson(agent, [...offline, ...first]);
  await runJson(agent, [...offline, ...second, "--verify-cmd", "false"]);
  back();
  return { origin, agent, candidate };
}

for (const [first, second] of [[plain, named], [named, plain]] as const) {
  const how = first === plain ? "for HEAD, then by its name" : "by its name, then for HEAD";

  for (const delivery of ["flush", "land"] as const) {
    scenario(`kept ${how}, ${delivery}: one ticket, with the flags of the last time`, async () => {
      const { origin, agent, candidate } = await keptTwice([...first], [...second]);
      if (delivery === "flush") {
        const { delivered } = await runJson(agent, ["flush"]);
        assert.deepEqual(delivered.map(({ ticket }: { ticket: number }) => ticket), [0]);
      }
      await run(agent, ["land"]);
      const { next, submissions } = await runJson(agent, ["status"]);
      assert.deepEqual([next, submissions.length], [1, 1]);
      assert.deepEqual([submissions[0].ticket, submissions[0].state], [0, "refused"]);
      assert.notEqual(git(origin.dir, "rev-parse", "main"), candidate);
    });
  }

  scenario(`kept ${how}, then submitted and refused: nothing is left to land`, async () => {
    const { origin, agent, candidate } = await keptTwice([...first], [...second]);
    const asked = ["submit", "--branch", "main", "--verify-cmd", "exit 7"];
    const { ticket, reason, report } = await runJson(agent, asked, 1);
    assert.deepEqual([ticket, reason], [0, "verify command failed"]);
    assert.match(report, /exit 7/);
    await run(agent, ["land"]);
    const { next, submissions } = await runJson(agent, ["status"]);
    assert.deepEqual([next, submissions], [1, []]);
    assert.notEqual(git(origin.dir, "rev-parse", "main"), candidate);
  });
}

scenario("one of the two is taken back: the other is named, with what takes it back", async () => {
  const { agent } = await keptTwice([], named);
  const kept = (await runJson(agent, ["status"])).submissions as { submission: string }[];
  const [first, second] = kept.map(({ submission }) => submission) as [string, string];
  const { dropped, warnings } = await runJson(agent, ["flush", "--drop", second]);
  assert.deepEqual(dropped, [second]);
  assert.match(warnings[0], new RegExp(`is kept still.*agentq flush --drop ${first}`));
  const last = await runJson(agent, ["flush", "--drop", first]);
  assert.deepEqual([last.dropped, last.warnings], [[first], undefined]);
  assert.deepEqual((await runJson(agent, ["flush"])).delivered, []);
});

scenario("the two are told as one delivery", async () => {
  const { agent } = await keptTwice([], named);
  const { stderr } = await run(agent, ["land"]);
  assert.equal(stderr.match(/kept on this machine, as ticket 0/g)?.length, 1, stderr);
});
