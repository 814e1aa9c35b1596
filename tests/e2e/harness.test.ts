/** The harness itself, on a queue driven by system git alone: it accepts a lawful origin and notices broken ones. */
import assert from "node:assert/strict";
import { appendFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { git } from "../helpers/git.ts";
import { chainCommit, weaveLandAll, weaveSubmit } from "./harness/weave.ts";
import { checkLaws } from "./harness/laws.ts";
import { agentCommit, makeAgent } from "./harness/agent.ts";
import {
  chainRef,
  logLines,
  makeOrigin,
  pushOutside,
  type TestOrigin,
  tipOf,
} from "./harness/origin.ts";
import { results } from "./harness/chains.ts";
import { scenario } from "./harness/scenario.ts";

/** Two tickets landed: one fast-forward, one merge. */
function landedQueue(): TestOrigin {
  const origin = makeOrigin();
  const [a, b] = [makeAgent(origin), makeAgent(origin)];
  const work = [agentCommit(a, { "a.txt": "a\n" }), agentCommit(b, { "b.txt": "b\n" })];
  weaveSubmit(origin, a.dir, work[0]!);
  weaveSubmit(origin, b.dir, work[1]!);
  weaveLandAll(origin, a.dir);
  return origin;
}

scenario("the checker accepts a queue that system git landed", () => {
  const origin = landedQueue();
  assert.deepEqual(results(origin).map((r) => r.reason), ["landed", "landed"]);
  assert.equal(logLines(origin.movesLog).length, 2);
  checkLaws(origin);
});

scenario("the checker notices a branch that moved without a result", () => {
  const origin = landedQueue();
  const outside = pushOutside(origin, { "x.txt": "x\n" });
  assert.throws(() => checkLaws(origin), /the branch is at|no result says so/);
  checkLaws(origin, { outside: [outside] });
});

scenario(
  "the checker notices a second result, a missing result, a held lock, an unverified landing",
  () => {
    const twice = landedQueue();
    const done = git(twice.dir, "rev-parse", chainRef(twice, "done"));
    const repeat = { ...results(twice)[1]!, landed: null, reason: "merge refused" };
    git(
      twice.dir,
      "update-ref",
      chainRef(twice, "done"),
      chainCommit(twice.dir, [done], { kind: "result", ...repeat }),
    );
    assert.throws(() => checkLaws(twice), /one result a ticket/);

    const missing = landedQueue();
    git(missing.dir, "update-ref", chainRef(missing, "done"), `${chainRef(missing, "done")}^`);
    assert.throws(() => checkLaws(missing), /number of results/);

    const held = landedQueue();
    git(held.dir, "update-ref", chainRef(held, "lock"), `${chainRef(held, "lock")}^`);
    assert.throws(() => checkLaws(held), /left held/);

    const unverified = makeOrigin();
    const agent = makeAgent(unverified);
    weaveSubmit(unverified, agent.dir, agentCommit(agent, { "a.txt": "a\n" }), {
      verifyCmd: "true",
    });
    weaveLandAll(unverified, agent.dir);
    assert.throws(() => checkLaws(unverified), /landed without verification/);
  },
);

scenario("the checker notices a missing object and leftovers", () => {
  const broken = landedQueue();
  writeFileSync(join(broken.dir, "refs/weave/main/done.lock"), "");
  assert.throws(() => checkLaws(broken), /left behind/);
  const blob = git(broken.dir, "rev-parse", `${tipOf(broken)}:a.txt`);
  rmSync(join(broken.dir, "objects", blob.slice(0, 2), blob.slice(2)));
  assert.throws(() => checkLaws(broken), /git fsck/);
});

scenario("post-receive logs a real push and pre-receive refuses other refs", () => {
  const origin = makeOrigin();
  const agent = makeAgent(origin);
  const oid = agentCommit(agent, { "a.txt": "a\n" });
  assert.throws(
    () => git(agent.dir, "push", "-q", "origin", `${oid}:refs/heads/other`),
    /not admitted/,
  );
  git(agent.dir, "push", "-q", "origin", `${oid}:refs/heads/main`);
  assert.deepEqual(logLines(origin.movesLog), [`${origin.initial} ${oid}`]);
  appendFileSync(origin.movesLog, `${oid} ${origin.initial}\n`);
  assert.throws(() => checkLaws(origin, { outside: [oid] }), /not a fast-forward/);
});
