/** A result is forgotten once it was told, whole: until then the same command tells it, without a second ticket. */
import assert from "node:assert/strict";
import { renameSync } from "node:fs";
import { type Agent, agentCommit, makeAgent, run, runJson } from "./harness/agent.ts";
import { readChain } from "./harness/chains.ts";
import { countCalls, DURABLE_CALLS, killAtCall, spread } from "./harness/faults.ts";
import { makeOrigin, type TestOrigin } from "./harness/origin.ts";
import { scenario } from "./harness/scenario.ts";

const ticketsOf = (origin: TestOrigin, candidate: string) =>
  readChain(origin, "queue").filter(({ message }) => message.candidate === candidate).length;

const own = async (agent: Agent) =>
  (await runJson(agent, ["status"])).submissions.map((
    one: Record<string, unknown>,
  ) => [one.ticket, one.state]);

const PLACES = ["submit", "wait"] as const;

for (const command of PLACES) {
  scenario(
    `SIGKILL at every durable system call of a ${command} that lands: an untold result is told by the next, once`,
    async () => {
      const begin = async () => {
        const origin = makeOrigin();
        const agent = makeAgent(origin, { env: { AGENTQ_LEASE_TTL: "1" } });
        const candidate = agentCommit(agent, { "a.txt": "a\n" });
        if (command === "wait") await runJson(agent, ["submit", "--no-wait"]);
        return { origin, agent, candidate };
      };
      const args = command === "submit" ? ["submit", "--json"] : ["wait", "0", "--json"];
      const { made } = await countCalls((await begin()).agent, args, DURABLE_CALLS);
      // The last ones are where the result is known already.
      const places = [...spread(made.slice(0, -10), 6), ...made.slice(-10)];
      let untold = 0;
      for (const place of places) {
        const { origin, agent, candidate } = await begin();
        const killed = await killAtCall(agent, args, place);
        if (killed.stdout.endsWith("}\n")) continue;
        untold++;
        const where = `killed at ${place.call} ${place.nth}`;
        const told = await run(agent, ["submit", "--json"]);
        assert.equal(told.status, 0, where + told.stdout + told.stderr);
        assert.deepEqual([told.json.ticket, told.json.landed], [0, candidate], where);
        assert.equal(ticketsOf(origin, candidate), 1, where);
      }
      assert.ok(untold > 0, "some were killed before they had answered");
    },
  );
}

for (const command of ["submit", "submit --no-wait", "wait 0"]) {
  scenario(`where the answer of ${command} is lost the next run tells it`, async () => {
    for (const where of [">/dev/full", ">&-", "| true"]) {
      const origin = makeOrigin();
      const agent = makeAgent(origin);
      const candidate = agentCommit(agent, { "a.txt": "a\n" });
      if (command !== "submit") {
        await runJson(agent, ["submit", "--no-wait"]);
        await runJson(makeAgent(origin), ["land"]);
      }
      // With a pipe the reader is gone before the program that writes begins.
      const script = where === "| true" ? '{ sleep 0.3; "$0" "$@"; } | true' : `"$0" "$@" ${where}`;
      const wrapper = ["/bin/sh", "-c", script];
      await run(agent, command.split(" "), { wrapper });
      assert.deepEqual(await own(agent), [[0, "landed"]], where);
      const told = await runJson(agent, ["submit"]);
      assert.deepEqual([told.ticket, told.landed], [0, candidate], where);
      assert.equal(ticketsOf(origin, candidate), 1);
      assert.deepEqual(await own(agent), []);
    }
  });
}

scenario(
  "many submissions of others don't make a result forgotten that nobody was told",
  async () => {
    const origin = makeOrigin();
    const agent = makeAgent(origin);
    const candidate = agentCommit(agent, { "a.txt": "a\n" });
    await run(agent, ["submit"], { wrapper: ["/bin/sh", "-c", '"$0" "$@" >/dev/full'] });
    for (let n = 0; n < 20; n++) {
      agentCommit(agent, { [`${n}.txt`]: "x\n" });
      await runJson(agent, ["submit", "--no-wait"]);
      if (n % 6 === 5) await runJson(agent, ["land"]).catch(() => run(agent, ["land"]));
    }
    const left = await own(agent);
    assert.ok(left.length < 20, `those that were told their tickets are forgotten: ${left.length}`);
    const told = await runJson(agent, ["submit", "--candidate", candidate]);
    assert.deepEqual([told.ticket, told.outcome], [0, "landed"]);
    assert.equal(ticketsOf(origin, candidate), 1);
  },
);

scenario("out of the origin's reach status claims nothing of a ticket", async () => {
  const origin = makeOrigin();
  const agent = makeAgent(origin);
  agentCommit(agent, { "a.txt": "a\n" });
  await runJson(agent, ["submit", "--no-wait"]);
  await runJson(agent, ["land"]);
  renameSync(origin.dir, `${origin.dir}.away`);
  const { error } = await runJson(agent, ["status"], 2);
  assert.deepEqual(
    error.details.submissions.map((one: Record<string, unknown>) => [one.ticket, one.state]),
    [[0, "unknown"]],
  );
  assert.match((await run(agent, ["status"])).stdout, /ticket 0 \w+ not known now/);
  const kept = await runJson(agent, ["submit", "--no-wait", "--offline"]);
  assert.match(kept.report, /isn't known now/);
});

scenario("an attempt that nobody is at any more isn't being sent", async () => {
  const origin = makeOrigin();
  const agent = makeAgent(origin);
  agentCommit(agent, { "a.txt": "a\n" });
  const { made } = await countCalls(agent, ["submit", "--no-wait"], "rename");
  for (const place of made) {
    agentCommit(agent, { "b.txt": `${place.nth}\n` });
    await killAtCall(agent, ["submit", "--no-wait"], place);
  }
  const states = (await own(agent)).map(([, state]: unknown[]) => state);
  assert.ok(states.includes("recorded"), states.join());
  assert.ok(!states.includes("sending"), states.join());
});
