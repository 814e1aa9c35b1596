/** Over http an answer can be lost after the server did what it was asked: nothing is done twice. */
import assert from "node:assert/strict";
import { git } from "../helpers/git.ts";
import { type Agent, agentCommit, makeAgent, run, runJson, start } from "./harness/agent.ts";
import { results } from "./harness/chains.ts";
import { checkLaws } from "./harness/laws.ts";
import { makeOrigin, type TestOrigin, tipOf, verifyCommand } from "./harness/origin.ts";
import {
  type Fault,
  type FaultProxy,
  httpAnswer,
  type ProxiedRequest,
  startProxy,
} from "./harness/proxy.ts";
import { scenario } from "./harness/scenario.ts";
import { webServer } from "./harness/transports.ts";

/** An origin whose url leads through a fault proxy, and the url past it. */
async function proxied(): Promise<{ origin: TestOrigin; direct: string; proxy: FaultProxy }> {
  const web = await webServer();
  const origin = makeOrigin();
  const direct = web.serve(origin).http;
  const proxy = await startProxy(web.httpPort);
  const url = new URL(direct);
  url.port = String(proxy.port);
  origin.url = url.href;
  return { origin, direct, proxy };
}

/** Applies `fault` to the n-th request that `is` selects, and passes everything else. */
function nth(
  n: number,
  fault: Fault,
  is: (request: ProxiedRequest) => boolean,
): FaultProxy["decide"] {
  let seen = 0;
  return (request) => is(request) && seen++ === n ? fault : "pass";
}

const pushes = (request: ProxiedRequest) => request.service === "push";

/** Two agents' work, the second a merge; gives the second agent. */
async function prepared(origin: TestOrigin): Promise<Agent> {
  const [a, b] = [makeAgent(origin), makeAgent(origin)];
  agentCommit(a, { "a.txt": "a\n" });
  agentCommit(b, { "b.txt": "b\n" });
  assert.equal((await runJson(a, ["submit"])).outcome, "landed");
  return b;
}

async function countRequests(is: (request: ProxiedRequest) => boolean): Promise<number> {
  const { origin, proxy } = await proxied();
  const agent = await prepared(origin);
  const before = proxy.requests.filter(is).length;
  assert.equal(
    (await runJson(agent, ["submit", "--verify-cmd", verifyCommand(origin)])).outcome,
    "landed",
  );
  checkLaws(origin);
  proxy.stop();
  return proxy.requests.filter(is).length - before;
}

for (const fault of ["cut-after", "cut-half", "cut-before"] as const) {
  scenario(`each push of a submit in turn is ${fault}: one ticket, one landing`, async () => {
    const total = await countRequests(pushes);
    assert.ok(total >= 3, `enqueue, lock, landing: ${total}`);
    for (let n = 0; n < total; n++) {
      const { origin, proxy } = await proxied();
      const agent = await prepared(origin);
      proxy.decide = nth(n, fault, pushes);
      const result = await runJson(agent, ["submit", "--verify-cmd", verifyCommand(origin)]);
      assert.deepEqual([result.ticket, result.outcome], [1, "landed"], `push ${n} was ${fault}`);
      proxy.stop();
      checkLaws(origin);
      assert.equal(results(origin).length, 2);
    }
  });
}

const busy = httpAnswer("503 busy", "later", ["Retry-After: 0"]);
const FAULTY: readonly (readonly [string, Fault])[] = [
  ["cut in half", "cut-half"],
  ["cut off", "cut-after"],
  ["put off (503)", { answer: busy }],
];
for (const [how, fault] of FAULTY) {
  scenario(`each read of a submit in turn is ${how}: it lands all the same`, async () => {
    const reads = (request: ProxiedRequest) => !pushes(request);
    const total = await countRequests(reads);
    assert.ok(total >= 5, `refs, chains, what pushes can do: ${total}`);
    for (let n = 0; n < total; n++) {
      const { origin, proxy } = await proxied();
      const agent = await prepared(origin);
      proxy.decide = nth(n, fault, reads);
      const result = await runJson(agent, ["submit", "--verify-cmd", verifyCommand(origin)]);
      assert.deepEqual([result.ticket, result.outcome], [1, "landed"], `read ${n} was ${how}`);
      proxy.stop();
      checkLaws(origin);
      assert.equal(results(origin).length, 2);
    }
  });
}

for (const [status, told] of [[500, "server-error"], [503, "push-unknown"]] as const) {
  scenario(
    `pushes that are answered with ${status}: told with the server's words, by doctor too`,
    async () => {
      const { origin, proxy } = await proxied();
      const words = new RegExp(`HTTP ${status}[^]*closed until noon`);
      const agent = await prepared(origin);
      const answer = httpAnswer(`${status} down`, "closed until noon", [
        "Content-Type: text/plain",
      ]);
      proxy.decide = (request) => pushes(request) ? { answer } : "pass";
      const turned = await run(agent, ["submit", "--json"]);
      assert.equal(turned.status, 2);
      const { code, message, details } = turned.json.error;
      assert.deepEqual([code, details.status], [told, status]);
      assert.match(message, words);
      const doctor = await run(agent, ["doctor", "--json"]);
      assert.equal(doctor.status, 1);
      const push = doctor.json.checks.find(({ name }: { name: string }) => name === "push");
      assert.equal(push.status, "fail");
      assert.match(push.message, words);
      proxy.decide = () => "pass";
      const result = await runJson(agent, ["submit"]);
      assert.deepEqual([result.ticket, result.outcome], [1, "landed"]);
      proxy.stop();
      checkLaws(origin);
    },
  );
}

scenario(
  "an enqueue whose answer and rereading are lost is found by the rerun: no second ticket",
  async () => {
    const { origin, proxy } = await proxied();
    const agent = await prepared(origin);
    let pushed = false;
    proxy.decide = (request) => {
      if (pushed) return "cut-before";
      pushed = pushes(request);
      return pushed ? "cut-after" : "pass";
    };
    const lost = await run(agent, ["submit", "--no-wait", "--json"]);
    assert.equal(lost.status, 2, lost.stdout);
    assert.equal(lost.json.schema, "agentq.error/1");
    assert.notEqual(lost.json.error.code, "internal");
    proxy.decide = () => "pass";
    const result = await runJson(agent, ["submit"]);
    assert.deepEqual([result.ticket, result.outcome], [1, "landed"]);
    proxy.stop();
    checkLaws(origin);
  },
);

scenario("the lander is killed around each of its requests: another lands the ticket", async () => {
  const { origin: probe, proxy: counting } = await proxied();
  const first = await prepared(probe);
  await runJson(first, ["submit", "--no-wait"]);
  const before = counting.requests.length;
  assert.equal((await run(makeAgent(probe), ["land"])).status, 0);
  const total = counting.requests.length - before;
  counting.stop();
  for (let n = 0; n < total; n++) {
    for (const when of ["before", "after"] as const) {
      const { origin, direct, proxy } = await proxied();
      const agent = await prepared(origin);
      await runJson(agent, ["submit", "--no-wait", "--verify-cmd", verifyCommand(origin)]);
      const lander = makeAgent(origin);
      const rescuer = makeAgent(origin, { env: { AGENTQ_LEASE_TTL: "0.5" } });
      git(rescuer.dir, "config", "remote.origin.url", direct);
      let seen = 0;
      const running = { kill: () => {} };
      proxy.decide = () => {
        if (seen++ !== n) return "pass";
        if (when === "after") return { after: () => running.kill() };
        running.kill();
        return "stall";
      };
      const landing = start(lander, ["land"]);
      running.kill = () => landing.kill("SIGKILL");
      await landing.done;
      const result = await runJson(rescuer, ["wait", "1"]);
      assert.equal(result.outcome, "landed", `killed ${when} request ${n}`);
      proxy.stop();
      // Who died after publishing left the lock held: nobody has had a reason to take it over.
      checkLaws(origin, { lockHeld: true });
    }
  }
});

scenario(
  "a landing push held up past the ttl arrives after a takeover: refused as a whole",
  async () => {
    const { origin, direct, proxy } = await proxied();
    const agent = await prepared(origin);
    const other = makeAgent(origin, { env: { AGENTQ_LEASE_TTL: "1" } });
    git(other.dir, "config", "remote.origin.url", direct);
    agentCommit(other, { "o.txt": "o\n" });
    let release = () => {};
    const held = new Promise<void>((resolve) => release = resolve);
    let reached = () => {};
    const arrived = new Promise<void>((resolve) => reached = resolve);
    proxy.decide = (request) => {
      if (!pushes(request) || !request.body.includes("refs/heads/main")) return "pass";
      proxy.decide = () => "pass";
      reached();
      return { hold: held };
    };
    const slow = start(agent, ["submit", "--json", "--verify-cmd", verifyCommand(origin)], {
      env: { AGENTQ_LEASE_TTL: "1" },
    });
    await arrived;
    const landed = await runJson(other, ["submit", "--verify-cmd", verifyCommand(origin)]);
    assert.equal(landed.outcome, "landed");
    const tip = tipOf(origin);
    release();
    const late = await slow.done;
    assert.equal(late.status, 0, late.stdout + late.stderr);
    assert.equal(tipOf(origin), tip);
    proxy.stop();
    checkLaws(origin);
  },
);
