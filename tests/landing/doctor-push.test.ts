/** Doctor's push, where its answer is lost or somebody is faster: what became of it is looked up. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Origin, PushOutcome } from "../../src/git/types.ts";
import { examineOrigin } from "../../src/landing/doctor.ts";
import { createFakeOrigin, fakeCommit } from "./fake-origin.ts";

type Push = Origin["push"];

/** The push check of an origin whose pushes go through `steps`, the last of them for all that follow. */
async function pushCheck(...steps: ((push: Push) => Push)[]) {
  const fake = createFakeOrigin();
  fake.refs.set("refs/heads/main", fakeCommit(fake, [], "base"));
  const origin = fake.as("me");
  const real = origin.push.bind(origin);
  let pushes = 0;
  const push: Push = (...args) => steps[Math.min(pushes++, steps.length - 1)]!(real)(...args);
  const checks = await examineOrigin(() => Promise.resolve({ ...origin, push }), {
    namespace: "refs/weave",
    branch: "main",
    by: "doctor",
    push: true,
  });
  return { push: checks.find(({ name }) => name === "push")!, pushes, refs: fake.refs };
}

const unknown: PushOutcome = { status: "unknown", message: "the answer was lost" };
const lost: PushOutcome = { status: "lost", message: "moved", refs: ["refs/weave/main/lock"] };
const through = (push: Push): Push => push;
const swallowed = (): Push => () => Promise.resolve(unknown);
const beaten = (): Push => () => Promise.resolve(lost);
const unanswered = (push: Push): Push => async (...args) => {
  await push(...args);
  return unknown;
};

test("an answer lost once is no verdict: it is pushed again", async () => {
  const { push, pushes } = await pushCheck(swallowed, through);
  assert.deepEqual([push.status, pushes], ["ok", 2]);
});

test("pushes that come to nothing without a word fail the check", async () => {
  const { push, pushes, refs } = await pushCheck(swallowed);
  assert.deepEqual([push.status, pushes], ["fail", 2]);
  assert.match(push.message, /come to nothing/);
  assert.equal(refs.has("refs/weave/main/lock"), false);
});

test("a push that took effect unheard is a warning, and none follows", async () => {
  const { push, pushes } = await pushCheck(unanswered);
  assert.deepEqual([push.status, pushes], ["warn", 1]);
  assert.match(push.message, /took effect/);
});

test("whoever is faster leaves it open, and ok the next time", async () => {
  assert.equal((await pushCheck(beaten, through)).push.status, "ok");
  assert.equal((await pushCheck(beaten)).push.status, "skip");
});
