/** One queue, two tools: chains written and read by a client that knows only the shared fields. */
import assert from "node:assert/strict";
import { git } from "../helpers/git.ts";
import { agentCommit, makeAgent, run, runJson, start } from "./harness/agent.ts";
import { entries, readChain, results } from "./harness/chains.ts";
import { checkLaws } from "./harness/laws.ts";
import { chainRef, makeOrigin, refOf, SHARED_FILE, verifyCommand } from "./harness/origin.ts";
import { scenario, until } from "./harness/scenario.ts";
import { casPush, chainCommit, weaveLandAll, weaveSubmit } from "./harness/weave.ts";
import { overBoth } from "./harness/transports.ts";

overBoth("a queue that weave wrote is landed, verified and reported by agentq", async (make) => {
  const origin = make();
  const [x, y, z, lander] = [
    makeAgent(origin),
    makeAgent(origin),
    makeAgent(origin),
    makeAgent(origin),
  ];
  const first = agentCommit(x, { "x.txt": "x\n" });
  const second = agentCommit(y, { "shared.txt": SHARED_FILE.replace("line 9\n", "y\n") });
  const third = agentCommit(z, { "z.txt": "z\n" });
  weaveSubmit(origin, x.dir, first, { verifyCmd: verifyCommand(origin) });
  weaveSubmit(origin, y.dir, second, { verifyCmd: verifyCommand(origin) });
  weaveSubmit(origin, z.dir, third, { verifyCmd: "echo no; exit 3" });
  const status = await runJson(lander, ["status"]);
  assert.deepEqual(status.tickets.map((t: { candidate: string }) => t.candidate), [
    first,
    second,
    third,
  ]);
  assert.equal(status.tickets[0].submitter, "weavehost-1-0");
  assert.equal(status.tickets[0].title ?? null, null);
  assert.equal((await run(lander, ["land"])).status, 0);
  assert.deepEqual(results(origin).map((r) => r.reason), [
    "landed",
    "landed",
    "verify command failed",
  ]);
  assert.equal((await runJson(lander, ["wait", "1"])).outcome, "landed");
  assert.equal((await runJson(lander, ["wait", "2"], 1)).reason, "verify command failed");
  assert.equal((await run(lander, ["show", "1"])).status, 0);
  assert.equal((await run(lander, ["log"])).status, 0);
  checkLaws(origin);
});

scenario(
  "weave lands what agentq queued, and the waiting agentq understands the result",
  async () => {
    const origin = makeOrigin();
    const [a, b, weave] = [makeAgent(origin), makeAgent(origin), makeAgent(origin)];
    const candidate = agentCommit(a, { "a.txt": "a\n" });
    agentCommit(b, { "shared.txt": SHARED_FILE.replace("line 2\n", "b\n") });
    await runJson(a, ["submit", "--no-wait", "--title", "ours"]);
    await runJson(b, ["submit", "--no-wait"]);
    weaveLandAll(origin, weave.dir);
    const one = await runJson(a, ["wait", "0"]);
    assert.deepEqual([one.outcome, one.landed, one.lander], [
      "landed",
      candidate,
      "weavehost-1-lander",
    ]);
    assert.equal(
      (await runJson(b, ["submit"])).ticket,
      1,
      "its own ticket, landed by the other tool",
    );
    checkLaws(origin);
  },
);

scenario("both tools take turns on one queue", async () => {
  const origin = makeOrigin();
  const agents = Array.from({ length: 6 }, () => makeAgent(origin));
  for (const [i, agent] of agents.entries()) {
    const oid = agentCommit(agent, { [`f${i}`]: `${i}\n` });
    if (i % 2) weaveSubmit(origin, agent.dir, oid);
    else await runJson(agent, ["submit", "--no-wait"]);
    if (i === 2) weaveLandAll(origin, agent.dir);
    if (i === 4) assert.equal((await run(agent, ["land"])).status, 0);
  }
  weaveLandAll(origin, agents[0]!.dir);
  assert.deepEqual(results(origin).map((r) => r.reason), Array(6).fill("landed"));
  assert.equal((await runJson(agents[5]!, ["status"])).complete, true);
  checkLaws(origin);
});

scenario("agentq waits while weave holds the lock, and takes over when weave is dead", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin, { env: { AGENTQ_LEASE_TTL: "1" } });
  agentCommit(a, { "a.txt": "a\n" });
  const lock = (holder: string | null) => {
    const ref = chainRef(origin, "lock");
    const old = refOf(origin, ref);
    const entry = chainCommit(a.dir, old === null ? [] : [old], {
      kind: "lock",
      holder,
      by: "weavehost-9-x",
      at: Date.now(),
    });
    assert.ok(casPush(a.dir, origin.dir, [{ ref, old, new: entry }]));
  };
  lock("weavehost-9-x");
  git(a.dir, "fetch", "-q", origin.dir, "+refs/weave/*:refs/other/*");
  const running = start(a, ["submit", "--json"]);
  await until("the ticket", () => refOf(origin, chainRef(origin, "queue")) !== null);
  git(a.dir, "fetch", "-q", origin.dir, "+refs/weave/*:refs/other/*");
  lock("weavehost-9-x"); // a renewal restarts the waiter's patience
  const result = await running.done;
  assert.equal(result.status, 0, result.stdout + result.stderr);
  const chain = readChain(origin, "lock").map((e) => e.message);
  assert.deepEqual(chain.slice(0, 2).map((m) => m.holder), ["weavehost-9-x", "weavehost-9-x"]);
  checkLaws(origin);
});

scenario("a weave ticket that asks for sem is never landed unchecked", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  weaveSubmit(origin, a.dir, agentCommit(a, { "a.txt": "a\n" }), { check: "sem" });
  assert.equal((await run(a, ["land"])).status, 0);
  assert.equal(results(origin)[0]!.reason, "sem not installed");
  assert.equal(results(origin)[0]!.landed, null);
  checkLaws(origin);
});

scenario(
  "our messages carry the shared fields with the shared types, ours in one object",
  async () => {
    const origin = makeOrigin();
    const a = makeAgent(origin);
    agentCommit(a, { "a.txt": "a\n" });
    await runJson(a, [
      "submit",
      "--title",
      "T",
      "--verify-cmd",
      verifyCommand(origin),
      "--verify-timeout",
      "90",
    ]);
    const ticket = entries(origin, "queue")[0]!.message;
    assert.deepEqual(Object.keys(ticket).sort(), [
      "agentq",
      "candidate",
      "check",
      "checkers",
      "kind",
      "submitter",
      "ticket",
      "verify_cmd",
      "verify_timeout",
    ]);
    assert.equal(ticket.verify_timeout, 90);
    assert.match(ticket.submitter, /^.+-\d+-[0-9A-Za-z]+$/);
    assert.equal(ticket.agentq.title, "T");
    const result = entries(origin, "done")[0]!.message;
    assert.deepEqual(Object.keys(result).sort(), [
      "agentq",
      "candidate",
      "files",
      "kind",
      "landed",
      "lander",
      "reason",
      "regions",
      "report",
      "submitter",
      "ticket",
      "tip",
    ]);
    assert.deepEqual([result.agentq.verify.exit, typeof result.agentq.verify.ms], [0, "number"]);
    for (const entry of readChain(origin, "lock")) {
      assert.deepEqual(Object.keys(entry.message).sort(), ["agentq", "at", "by", "holder", "kind"]);
    }
    checkLaws(origin);
  },
);

scenario("unknown fields and odd but valid JSON from other clients are accepted", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  const candidate = agentCommit(a, { "a.txt": "a\n" });
  const genesis = chainCommit(
    a.dir,
    [],
    ' { "chain" : "queue", "kind":"genesis", "since": 1 }\n\n',
  );
  const ticket = chainCommit(
    a.dir,
    [genesis, candidate],
    JSON.stringify(
      {
        future: { x: [1, 2, { y: null }] },
        checkers: null,
        check: null,
        verify_timeout: 1800,
        verify_cmd: null,
        submitter: "ünï-1-x",
        candidate,
        ticket: 0,
        kind: "ticket",
      },
      null,
      4,
    ) + "\n",
  );
  assert.ok(
    casPush(a.dir, origin.dir, [{ ref: chainRef(origin, "queue"), old: null, new: ticket }]),
  );
  assert.equal((await run(a, ["land"])).status, 0);
  assert.equal(results(origin)[0]!.landed, candidate);
  assert.equal(results(origin)[0]!.submitter, "ünï-1-x");
  checkLaws(origin);
});
