/** Clocks lie: an hour forward or back on any machine changes nothing about who holds the lock. */
import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../helpers/git.ts";
import { type Agent, agentCommit, makeAgent, start } from "./harness/agent.ts";
import { readChain } from "./harness/chains.ts";
import { makeGate } from "./harness/faults.ts";
import { checkLaws } from "./harness/laws.ts";
import { logLines, makeOrigin, verifyCommand } from "./harness/origin.ts";
import { scenario, sleep } from "./harness/scenario.ts";

const LIBRARY = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

/** Gives the agent a wall clock that `set` moves while it runs; its monotonic clock stays true. */
function withClock(agent: Agent): (offset: string) => void {
  if (!existsSync(LIBRARY)) throw new Error(`${LIBRARY} is missing: install libfaketime`);
  const file = join(tempDir(), "clock");
  writeFileSync(file, "+0");
  Object.assign(agent.env, {
    LD_PRELOAD: LIBRARY,
    FAKETIME_TIMESTAMP_FILE: file,
    FAKETIME_NO_CACHE: "1",
    FAKETIME_DONT_FAKE_MONOTONIC: "1",
    DONT_FAKE_MONOTONIC: "1",
  });
  return (offset) => writeFileSync(file, offset);
}

const HOUR = 3_600_000;

scenario(
  "the holder's and a waiter's clocks jump an hour forward and back: no takeover",
  async () => {
    const origin = makeOrigin();
    const holder = makeAgent(origin, { env: { AGENTQ_LEASE_TTL: "2" } });
    const waiter = makeAgent(origin, { env: { AGENTQ_LEASE_TTL: "2" } });
    const holderClock = withClock(holder);
    const waiterClock = withClock(waiter);
    agentCommit(holder, { "h.txt": "h\n" });
    agentCommit(waiter, { "w.txt": "w\n" });
    const gate = makeGate();
    const landing = start(holder, [
      "submit",
      "--json",
      "--verify-cmd",
      verifyCommand(origin, gate.shell),
    ]);
    await gate.reached();
    const waiting = start(waiter, ["submit", "--json", "--verify-cmd", verifyCommand(origin)]);
    for (
      const [mine, theirs] of [["+3600", "-3600"], ["-3600", "+3600"], ["+3600", "+3600"], [
        "+0",
        "-3600",
      ]]
    ) {
      holderClock(mine!);
      waiterClock(theirs!);
      await sleep(1500);
    }
    gate.open();
    const [one, two] = await Promise.all([landing.done, waiting.done]);
    assert.equal(one.status, 0, one.stdout + one.stderr);
    assert.equal(two.status, 0, two.stdout + two.stderr);
    assert.equal(
      logLines(origin.verifyLog).filter((line) => line.startsWith("start 0 ")).length,
      1,
    );
    const chain = readChain(origin, "lock").map((entry) => entry.message);
    const last = chain.findLastIndex((entry) => entry.holder === one.json.lander);
    const held = chain.slice(0, last + 1);
    assert.ok(held.every((entry) => entry.by === one.json.lander), "taken over while alive");
    // The clock really did jump for the holder: its renewals say so.
    const times = held.map((entry) => entry.at);
    assert.ok(Math.max(...times) - Math.min(...times) > 1.5 * HOUR, `${times}`);
    checkLaws(origin);
  },
);

scenario("a dead holder is taken over although the waiter's clock went back an hour", async () => {
  const origin = makeOrigin();
  const holder = makeAgent(origin, { env: { AGENTQ_LEASE_TTL: "1" } });
  const waiter = makeAgent(origin, { env: { AGENTQ_LEASE_TTL: "1" } });
  const clock = withClock(waiter);
  agentCommit(holder, { "h.txt": "h\n" });
  agentCommit(waiter, { "w.txt": "w\n" });
  const gate = makeGate();
  const landing = start(holder, ["submit", "--verify-cmd", verifyCommand(origin, gate.shell)]);
  await gate.reached();
  landing.kill("SIGKILL");
  await landing.done;
  const waiting = start(waiter, ["submit", "--json", "--wait-timeout", "60"]);
  await sleep(500);
  clock("-3600");
  const result = await waiting.done;
  gate.open();
  assert.equal(result.status, 0, result.stdout + result.stderr);
  checkLaws(origin, { killed: true });
});
