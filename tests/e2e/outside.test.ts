/** Others push to the branch too: the queue notices, redoes what it must, and stops when history is gone. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { commit, git, tempDir, tryGit } from "../helpers/git.ts";
import { agentCommit, makeAgent, run, runJson, start } from "./harness/agent.ts";
import { isAncestor, results } from "./harness/chains.ts";
import { makeGate, onRef } from "./harness/faults.ts";
import { checkLaws } from "./harness/laws.ts";
import {
  installHooks,
  logLines,
  makeOrigin,
  pushOutside,
  SHARED_FILE,
  tipOf,
  verifyCommand,
} from "./harness/origin.ts";
import { scenario } from "./harness/scenario.ts";
import { overBoth } from "./harness/transports.ts";

overBoth(
  "the branch is pushed during verification: redone and verified on the new tip",
  async (make) => {
    const gate = makeGate();
    const origin = make();
    const a = makeAgent(origin);
    const candidate = agentCommit(a, { "a.txt": "a\n" });
    const running = start(a, [
      "submit",
      "--json",
      "--verify-cmd",
      verifyCommand(origin, gate.shell),
    ]);
    await gate.reached();
    const outside = pushOutside(origin, { "outside.txt": "o\n" });
    gate.open();
    const result = await running.done;
    assert.equal(result.status, 0, result.stdout + result.stderr);
    assert.equal(result.json.tip, outside);
    assert.notEqual(result.json.landed, candidate);
    const tips = logLines(origin.verifyLog).filter((l) => l.startsWith("ok ")).map((l) =>
      l.split(" ")[4]
    );
    assert.equal(tips.at(-1), outside);
    checkLaws(origin, { outside: [outside] });
  },
);

scenario(
  "the branch is pushed between the last check and the landing: redone on the new tip",
  async () => {
    const gate = makeGate();
    const origin = makeOrigin();
    // Only landings touch `done`; the outside push must not be held by the gate.
    installHooks(origin, onRef("refs/weave/main/done", gate.shell));
    const a = makeAgent(origin);
    agentCommit(a, { "a.txt": "a\n" });
    const running = start(a, ["submit", "--json", "--verify-cmd", verifyCommand(origin)]);
    await gate.reached();
    const outside = pushOutside(origin, { "outside.txt": "o\n" });
    gate.open();
    const result = await running.done;
    assert.equal(result.status, 0, result.stdout + result.stderr);
    assert.equal(result.json.tip, outside);
    checkLaws(origin, { outside: [outside] });
  },
);

scenario(
  "an outside push that conflicts during verification: the ticket is refused, not forced",
  async () => {
    const gate = makeGate();
    const origin = makeOrigin();
    const a = makeAgent(origin);
    agentCommit(a, { "shared.txt": SHARED_FILE.replace("line 7\n", "mine\n") });
    const running = start(a, [
      "submit",
      "--json",
      "--verify-cmd",
      verifyCommand(origin, gate.shell),
    ]);
    await gate.reached();
    const outside = pushOutside(origin, {
      "shared.txt": SHARED_FILE.replace("line 7\n", "theirs\n"),
    });
    gate.open();
    const result = await running.done;
    assert.deepEqual([result.status, result.json.reason], [1, "merge refused"]);
    assert.equal(tipOf(origin), outside);
    checkLaws(origin, { outside: [outside] });
  },
);

overBoth(
  "the branch is rewound behind a landed commit: landing stops until resume --accept-tip",
  async (make) => {
    const origin = make();
    const a = makeAgent(origin);
    const b = makeAgent(origin);
    agentCommit(a, { "a.txt": "a\n" });
    assert.equal((await runJson(a, ["submit"])).outcome, "landed");
    git(origin.dir, "update-ref", "refs/heads/main", origin.initial);
    agentCommit(b, { "b.txt": "b\n" });
    assert.equal((await runJson(b, ["submit", "--no-wait"])).ticket, 1);
    const stopped = await runJson(b, ["land"], 2);
    assert.equal(stopped.error.code, "branch-rewound");
    assert.equal((await runJson(b, ["status"])).rewound, true);
    assert.equal(tipOf(origin), origin.initial);
    assert.equal(results(origin).length, 1);
    // A plain resume says nothing about which tip is meant.
    await run(b, ["resume"]);
    assert.equal((await runJson(b, ["land"], 2)).error.code, "branch-rewound");
    assert.equal((await run(b, ["resume", "--accept-tip", origin.initial])).status, 0);
    assert.equal((await run(b, ["land"])).status, 0);
    assert.equal(results(origin)[1]!.reason, "landed");
    assert.equal(results(origin)[1]!.tip, origin.initial);
    assert.equal((await runJson(b, ["status"])).rewound, false);
    assert.equal(isAncestor(origin.dir, results(origin)[0]!.landed!, tipOf(origin)), false);
    checkLaws(origin, { rewound: true });
  },
);

scenario(
  "the candidate's branch is force-pushed after submit: the submitted commit lands",
  async () => {
    const origin = makeOrigin({ config: { "receive.denyNonFastForwards": "false" } });
    const a = makeAgent(origin);
    git(a.dir, "checkout", "-q", "-b", "feat/x");
    const submitted = agentCommit(a, { "good.txt": "good\n" });
    git(a.dir, "push", "-q", origin.dir, "feat/x");
    assert.equal(
      (await runJson(a, ["submit", "--candidate", "feat/x", "--no-wait"])).candidate,
      submitted,
    );
    git(a.dir, "commit", "-q", "--amend", "-m", "rewritten");
    commit(a.dir, "more", { "evil.txt": "evil\n" });
    git(a.dir, "push", "-q", "-f", origin.dir, "feat/x");
    const lander = makeAgent(origin);
    assert.equal((await run(lander, ["land"])).status, 0);
    assert.equal(results(origin)[0]!.landed, submitted);
    assert.equal(tryGit(origin.dir, ["cat-file", "-e", "main:evil.txt"]).status, 128);
    checkLaws(origin);
  },
);

scenario(
  "a real git push loop on the branch while 8 submitters run: neither corrupts the other",
  async () => {
    const origin = makeOrigin();
    const agents = Array.from({ length: 8 }, () => makeAgent(origin));
    agents.forEach((agent, i) => agentCommit(agent, { [`q${i}.txt`]: `${i}\n` }));
    const runs = agents.map((agent, i) =>
      start(agent, [
        "submit",
        "--json",
        ...(i % 2 ? ["--verify-cmd", verifyCommand(origin, "sleep 0.2")] : []),
      ])
    );
    const all = Promise.all(runs.map((r) => r.done));
    let finished = false;
    all.then(() => finished = true, () => finished = true);
    const clone = join(tempDir(), "pusher");
    git("/", "clone", "-q", origin.dir, clone);
    const outside: string[] = [];
    for (let n = 0; n < 12 && !finished; n++) {
      const oid = commit(clone, `outside ${n}`, { [`outside-${n % 3}.txt`]: `${n}\n` });
      const pushed = await gitPush(clone);
      if (pushed) outside.push(oid);
      else git(clone, "fetch", "-q", "origin");
      if (!pushed) git(clone, "reset", "-q", "--hard", "origin/main");
    }
    for (const result of await all) assert.equal(result.status, 0, result.stdout + result.stderr);
    assert.ok(outside.length > 0, "some pushes won");
    for (const oid of outside) {
      assert.ok(
        isAncestor(origin.dir, oid, tipOf(origin)),
        "an outside push was lost",
      );
    }
    checkLaws(origin, { outside });
  },
);

/** `git push` without blocking this process, so that the agents' output keeps being read. */
async function gitPush(clone: string): Promise<boolean> {
  await new Promise((resolve) => setTimeout(resolve, 50));
  return tryGit(clone, ["push", "-q", "origin", "HEAD:refs/heads/main"]).status === 0;
}
