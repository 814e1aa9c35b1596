/** Doctor's push, where its answer is lost or somebody is faster: what became of it is looked up. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { AgentqError } from "../../src/errors.ts";
import type { Origin, PushOutcome } from "../../src/git/types.ts";
import { lockCommit, NO_CONTROL } from "../../src/landing/control.ts";
import { examineOrigin } from "../../src/landing/doctor.ts";
import { createFakeOrigin, fakeCommit, type FakeOrigin } from "./fake-origin.ts";

type Push = Origin["push"];
type Step = (push: Push, fake: FakeOrigin) => Push;

const LOCK = "refs/weave/main/lock";

/** The push check of an origin whose pushes go through `steps`, the last of them for all that follow. */
async function pushCheck(kind: Origin["kind"], ...steps: Step[]) {
  const fake = createFakeOrigin();
  fake.refs.set("refs/heads/main", fakeCommit(fake, [], "base"));
  const origin = fake.as("me");
  const real = origin.push.bind(origin);
  let pushes = 0;
  const push: Push = (...args) => steps[Math.min(pushes++, steps.length - 1)]!(real, fake)(...args);
  const checks = await examineOrigin(() => Promise.resolve({ ...origin, kind, push }), {
    namespace: "refs/weave",
    branch: "main",
    by: "doctor",
    push: true,
    clone: null,
    contains: () => Promise.reject(new Error("nothing was landed")),
  });
  return { push: checks.find(({ name }) => name === "push")!, pushes, refs: fake.refs };
}

const unknown: PushOutcome = { status: "unknown", message: "the answer was lost" };
const lost: PushOutcome = { status: "lost", message: "moved", refs: [LOCK] };
const through: Step = (push) => push;
const swallowed: Step = () => () => Promise.resolve(unknown);
const blocked: Step = () => () => Promise.resolve(lost);
/** Somebody else moves the lock first. */
const beaten: Step = (_push, fake) => () => {
  const head = fake.refs.get(LOCK) ?? null;
  const entry = lockCommit(head, { holder: null, by: "other", at: 1000, control: NO_CONTROL });
  fake.refs.set(LOCK, fake.write("commit", entry.content));
  return Promise.resolve(lost);
};
const unanswered: Step = (push) => async (...args) => {
  await push(...args);
  return unknown;
};
const locked: Step = () => () =>
  Promise.reject(new AgentqError("ref-locked", `${LOCK} is locked`, { hint: "Remove it." }));

test("an answer lost once is no verdict: it is pushed again", async () => {
  const { push, pushes } = await pushCheck("http", swallowed, through);
  assert.deepEqual([push.status, pushes], ["ok", 2]);
});

test("pushes that come to nothing without a word fail the check", async () => {
  const { push, pushes, refs } = await pushCheck("http", swallowed);
  assert.deepEqual([push.status, pushes], ["fail", 2]);
  assert.match(push.message, /come to nothing/);
  assert.match(push.hint!, /connection/);
  assert.equal(refs.has(LOCK), false);
});

test("a push that took effect unheard is a warning, and none follows", async () => {
  const { push, pushes } = await pushCheck("http", unanswered);
  assert.deepEqual([push.status, pushes], ["warn", 1]);
  assert.match(push.message, /took effect/);
});

test("of a path no connection is spoken", async () => {
  for (const step of [swallowed, unanswered]) {
    const { push } = await pushCheck("file", step);
    assert.match(push.message, /come to nothing|took effect/);
    assert.match(push.hint!, /disk/);
    assert.doesNotMatch(`${push.message} ${push.hint}`, /connection|answer/);
  }
});

test("whoever is faster leaves it open, and ok the next time", async () => {
  assert.equal((await pushCheck("http", beaten, through)).push.status, "ok");
  assert.equal((await pushCheck("http", beaten)).push.status, "skip");
});

test("pushes that lose while nothing moves fail it", async () => {
  const { push } = await pushCheck("http", blocked);
  assert.equal(push.status, "fail");
  assert.match(push.hint!, /\*\.lock/);
});

test("a ref that stays locked is told in the lock's own words, and not waited for twice", async () => {
  const { push, pushes } = await pushCheck("file", locked);
  assert.deepEqual(push, {
    name: "push",
    status: "fail",
    message: `${LOCK} is locked`,
    hint: "Remove it.",
  });
  assert.equal(pushes, 1);
});
