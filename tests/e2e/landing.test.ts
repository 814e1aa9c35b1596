/** What the queue is for: commits land on the branch in order, merged and verified. */
import assert from "node:assert/strict";
import { cpSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { commit, git, tempDir } from "../helpers/git.ts";
import { agentCommit, makeAgent, run, runJson, start } from "./harness/agent.ts";
import { entries, isAncestor, readCommit, results } from "./harness/chains.ts";
import { checkLaws } from "./harness/laws.ts";
import {
  allRefs,
  makeOrigin,
  pushOutside,
  refOf,
  SHARED_FILE,
  tipOf,
  verifyCommand,
} from "./harness/origin.ts";
import { scenario } from "./harness/scenario.ts";
import { overBoth } from "./harness/transports.ts";

overBoth("one submitter: a fast-forward, then a merge of another's work", async (make) => {
  const origin = make();
  const a = makeAgent(origin);
  const b = makeAgent(origin);
  const first = agentCommit(a, {
    "a.txt": "a\n",
    "shared.txt": SHARED_FILE.replace("line 1\n", "A\n"),
  });
  const one = await runJson(a, ["submit", "--verify-cmd", verifyCommand(origin)]);
  assert.equal(one.schema, "agentq.result/1");
  assert.deepEqual(
    [one.ticket, one.outcome, one.reason, one.candidate, one.landed, one.tip],
    [0, "landed", "landed", first, first, origin.initial],
  );
  const second = agentCommit(b, { "shared.txt": SHARED_FILE.replace("line 50\n", "B\n") });
  const two = await runJson(b, [
    "submit",
    "--verify-cmd",
    verifyCommand(origin),
    "--title",
    "B's work",
  ]);
  assert.deepEqual([two.ticket, two.outcome, two.candidate, two.tip], [1, "landed", second, first]);
  assert.equal(tipOf(origin), two.landed);
  const merge = readCommit(origin.dir, two.landed);
  assert.deepEqual(merge.parents, [first, second]);
  assert.match(merge.text, /B's work/);
  const merged = git(origin.dir, "show", `${two.landed}:shared.txt`) + "\n";
  assert.equal(merged, SHARED_FILE.replace("line 1\n", "A\n").replace("line 50\n", "B\n"));
  checkLaws(origin);
});

overBoth("a candidate already on the branch has nothing to land", async (make) => {
  const origin = make();
  const a = makeAgent(origin);
  const result = await run(a, ["submit", "--json"]);
  assert.equal(result.json.reason, "nothing to land");
  assert.equal(result.json.landed, null);
  assert.equal(result.status, result.json.outcome === "refused" ? 1 : 0);
  assert.equal(tipOf(origin), origin.initial);
  checkLaws(origin);
});

scenario(
  "one commit submitted by several processes of one clone at once gets one ticket",
  async () => {
    const origin = makeOrigin();
    const a = makeAgent(origin);
    const candidate = agentCommit(a, { "a.txt": "a\n" });
    const all = await Promise.all(
      Array.from(
        { length: 5 },
        // Long enough for all of them to have begun: one that comes after the landing has nothing to land.
        () => runJson(a, ["submit", "--verify-cmd", verifyCommand(origin, "sleep 3")]),
      ),
    );
    for (const one of all) {
      assert.deepEqual([one.ticket, one.reason, one.landed], [0, "landed", candidate]);
    }
    assert.equal(results(origin).length, 1);
    checkLaws(origin);
  },
);

overBoth("a commit that has landed is refused, and told which ticket landed it", async (make) => {
  const origin = make();
  const a = makeAgent(origin);
  const candidate = agentCommit(a, { "a.txt": "a\n" });
  assert.equal((await runJson(a, ["submit"])).landed, candidate);
  const again = await runJson(a, ["submit"], 1);
  assert.deepEqual(
    [again.ticket, again.outcome, again.reason, again.report],
    [
      1,
      "refused",
      "nothing to land",
      `The branch is at ${candidate} already: there is nothing new in this candidate. Ticket 0 landed it.`,
    ],
  );
  checkLaws(origin);
});

overBoth("one commit submitted from two clones at once lands once", async (make) => {
  const origin = make();
  const [a, b] = [makeAgent(origin), makeAgent(origin)];
  // Not the branch's next commit, so that landing it makes a merge.
  const candidate = agentCommit(a, { "a.txt": "a\n" });
  git(b.dir, "fetch", "-q", a.dir, "HEAD");
  const outside = pushOutside(origin, { "o.txt": "o\n" });
  const submit = ["submit", "--json", "--candidate", candidate];
  const runs = await Promise.all(
    [a, b].map((agent) => run(agent, [...submit, "--verify-cmd", verifyCommand(origin)])),
  );
  const [first, second] = runs.sort((x, y) => x.json.ticket - y.json.ticket);
  assert.deepEqual(
    [first!.status, first!.json.ticket, first!.json.outcome, first!.json.landed],
    [0, 0, "landed", tipOf(origin)],
  );
  const { report, ...told } = second!.json;
  assert.deepEqual(
    [second!.status, told.ticket, told.outcome, told.reason, told.landed],
    [1, 1, "refused", "nothing to land", null],
  );
  assert.equal(
    report,
    `The branch, at ${tipOf(origin)}, contains ${candidate} already. Ticket 0 landed it.`,
  );
  assert.equal(entries(origin, "queue").length, 2);
  checkLaws(origin, { outside: [outside] });
});

scenario("an empty commit is a candidate like any other", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  const empty = commit(a.dir, "nothing changed");
  const result = await runJson(a, ["submit", "--verify-cmd", verifyCommand(origin)]);
  assert.equal(result.landed, empty);
  checkLaws(origin);
});

overBoth("--no-wait queues and returns; wait lands it", async (make) => {
  const origin = make();
  const a = makeAgent(origin);
  const candidate = agentCommit(a, { "a.txt": "a\n" });
  const queued = await runJson(a, ["submit", "--no-wait", "--verify-cmd", verifyCommand(origin)]);
  assert.deepEqual([queued.ticket, queued.outcome, queued.candidate], [0, "queued", candidate]);
  assert.equal(refOf(origin, "refs/weave/main/done"), null);
  const before = await runJson(a, ["status"]);
  assert.equal(before.schema, "agentq.status/1");
  assert.deepEqual(
    [before.pending, before.processing, before.unacked, before.complete, before.next],
    [1, 0, 1, false, 0],
  );
  assert.deepEqual(before.snapshot, {
    tip: origin.initial,
    queue: refOf(origin, "refs/weave/main/queue"),
    done: null,
    lock: null,
  });
  assert.equal(before.tickets[0].candidate, candidate);
  assert.equal(before.submissions[0].ticket, 0);
  const b = makeAgent(origin);
  const waited = await runJson(b, ["wait", "0"]);
  assert.deepEqual([waited.outcome, waited.landed], ["landed", candidate]);
  const after = await runJson(a, ["status"]);
  assert.deepEqual(
    [after.pending, after.processing, after.unacked, after.complete, after.next],
    [0, 0, 0, true, 1],
  );
  checkLaws(origin);
});

overBoth("16 at once: all land, in order, and nobody sees a push race", async (make) => {
  const origin = make();
  const agents = Array.from({ length: 16 }, () => makeAgent(origin));
  agents.forEach((agent, i) =>
    agentCommit(agent, {
      [`file-${i}.txt`]: `${i}\n`,
      "shared.txt": SHARED_FILE.replace(`line ${i * 3 + 2}\n`, `by agent ${i}\n`),
    })
  );
  const runs = await Promise.all(agents.map((agent, i) =>
    // Half of them verify, so that landings take their time while others enqueue.
    run(agent, ["submit", "--json", ...(i % 2 ? [] : ["--verify-cmd", verifyCommand(origin)])])
  ));
  for (const result of runs) {
    assert.equal(result.status, 0, result.stdout + result.stderr);
    assert.equal(result.json.outcome, "landed");
    assert.doesNotMatch(
      result.stderr,
      /\brace|reject|lost|fetch first|fast-forward|stale|lock.*exists/i,
      "a push race is shown",
    );
  }
  assert.deepEqual(runs.map((r) => r.json.ticket).sort((x, y) => x - y), [...Array(16).keys()]);
  for (let i = 0; i < 16; i++) assert.equal(git(origin.dir, "show", `main:file-${i}.txt`), `${i}`);
  checkLaws(origin);
});

scenario("the merge is deterministic: two landers make the same commits", async () => {
  const origin = makeOrigin();
  const agents = [makeAgent(origin), makeAgent(origin), makeAgent(origin)];
  for (const [i, agent] of agents.entries()) {
    agentCommit(agent, { [`f${i}`]: `${i}\n` });
    await runJson(agent, ["submit", "--no-wait", "--title", `work ${i}`]);
  }
  const twin = join(tempDir(), "twin.git");
  cpSync(origin.dir, twin, { recursive: true });
  rmSync(join(twin, "hooks"), { recursive: true }); // they write the first origin's logs
  const [x, y] = [makeAgent(origin), makeAgent(origin)];
  git(y.dir, "config", "remote.origin.url", twin);
  git(y.dir, "config", "user.name", "Someone Else");
  assert.equal((await run(x, ["land"])).status, 0);
  assert.equal((await run(y, ["land"], { env: { TZ: "Asia/Tokyo" } })).status, 0);
  assert.equal(git(twin, "rev-parse", "main"), tipOf(origin));
  checkLaws(origin);
});

scenario("land, log, show and status work with a url and no clone", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  const b = makeAgent(origin);
  agentCommit(a, { "a.txt": "a\n" });
  agentCommit(b, { "b.txt": "b\n" });
  await runJson(a, ["submit", "--no-wait", "--title", "first"]);
  await runJson(b, ["submit", "--no-wait", "--verify-cmd", verifyCommand(origin)]);
  const nowhere = { cwd: tempDir("agentq-nowhere-") };
  const remote = ["--remote", origin.dir];
  const landed = await run(a, ["land", ...remote], nowhere);
  assert.equal(landed.status, 0, landed.stderr);
  assert.equal((await runJson(a, ["status", ...remote], 0, nowhere)).complete, true);
  const shown = await runJson(a, ["show", "1", ...remote], 0, nowhere);
  assert.match(JSON.stringify(shown), new RegExp(results(origin)[1]!.landed!));
  const log = await run(a, ["log", "--json", ...remote], nowhere);
  const lines = log.stdout.trim().split("\n").map((line) => JSON.parse(line));
  assert.deepEqual(lines.map((line) => line.ticket), [1, 0], "newest first");
  assert.equal((await runJson(a, ["wait", "0", ...remote], 0, nowhere)).outcome, "landed");
  checkLaws(origin);
});

scenario("land --max stops after so many tickets; land --watch goes on until SIGTERM", async () => {
  const origin = makeOrigin();
  const agents = [makeAgent(origin), makeAgent(origin), makeAgent(origin)];
  for (const [i, agent] of agents.entries()) {
    agentCommit(agent, { [`f${i}`]: `${i}\n` });
    await runJson(agent, ["submit", "--no-wait"]);
  }
  assert.equal((await run(agents[0]!, ["land", "--max", "1"])).status, 0);
  assert.equal(results(origin).length, 1);
  checkLaws(origin, { done: 1 });
  const watcher = start(agents[0]!, ["land", "--watch"]);
  assert.equal((await runJson(agents[2]!, ["wait", "2"])).outcome, "landed");
  agentCommit(agents[1]!, { "more": "x\n" });
  assert.equal((await runJson(agents[1]!, ["submit"])).outcome, "landed");
  watcher.kill("SIGTERM");
  assert.equal((await watcher.done).status, 143);
  checkLaws(origin);
});

scenario(
  "resubmitting the same commit waits for its outstanding ticket; --again makes a new one",
  async () => {
    const origin = makeOrigin();
    const a = makeAgent(origin);
    const candidate = agentCommit(a, { "a.txt": "a\n" });
    await runJson(a, ["submit", "--no-wait"]);
    assert.equal((await runJson(a, ["submit", "--no-wait"])).ticket, 0);
    assert.equal((await runJson(a, ["submit", "--no-wait", "--again"])).ticket, 1);
    assert.equal(entries(origin, "queue").length, 2);
    assert.equal((await runJson(a, ["submit"])).candidate, candidate);
    assert.equal((await run(a, ["land"])).status, 0);
    assert.deepEqual(results(origin).map((r) => r.reason), ["landed", "nothing to land"]);
    checkLaws(origin);
  },
);

scenario("wait times out with exit 3 and the ticket stays queued", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  agentCommit(a, { "a.txt": "a\n" });
  assert.equal((await run(a, ["pause"])).status, 0);
  const timedOut = await runJson(a, ["submit", "--wait-timeout", "0.5"], 3);
  assert.deepEqual([timedOut.ticket, timedOut.outcome], [0, "queued"]);
  assert.equal((await run(a, ["resume"])).status, 0);
  assert.equal((await runJson(a, ["wait", "0"])).outcome, "landed");
  checkLaws(origin);
});

scenario("queries change nothing, and the clone is left as it was", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  const candidate = agentCommit(a, { "a.txt": "a\n" });
  await runJson(a, ["submit", "--no-wait"]);
  const refs = allRefs(origin);
  const head = readFileSync(join(a.dir, ".git/HEAD"), "utf8");
  for (const args of [["status"], ["log"], ["show", "0"]]) {
    const result = await run(a, args);
    assert.equal(result.status, 0, `${args}: ${result.stderr}`);
  }
  assert.equal(allRefs(origin), refs);
  assert.equal((await runJson(a, ["wait", "0"])).outcome, "landed");
  assert.equal(readFileSync(join(a.dir, ".git/HEAD"), "utf8"), head);
  assert.equal(git(a.dir, "rev-parse", "HEAD"), candidate);
  assert.equal(git(a.dir, "status", "--porcelain"), "");
  assert.ok(isAncestor(a.dir, origin.initial, candidate));
  assert.equal(git(a.dir, "fsck", "--no-dangling", "--no-progress"), "");
});
