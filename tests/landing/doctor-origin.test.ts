/** What a doctor says of a branch that isn't there, of a queue that can't be read, and of locks. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Origin } from "../../src/git/types.ts";
import { examineOrigin } from "../../src/landing/doctor.ts";
import type { Check } from "../../src/landing/doctor-check.ts";
import { createFakeOrigin, fakeCommit, type FakeOrigin } from "./fake-origin.ts";

const LOCK = "refs/weave/main/lock";

async function examine(fake: FakeOrigin, change: Partial<Origin> = {}, push = true) {
  const checks = await examineOrigin(
    () => Promise.resolve({ ...fake.as("me"), ...change }),
    {
      namespace: "refs/weave",
      branch: "main",
      by: "doctor",
      push,
      clone: null,
      contains: () => Promise.reject(new Error("nothing was landed")),
    },
  );
  return (name: string): Check => {
    const found = checks.filter((one) => one.name === name);
    assert.equal(found.length, 1, `${found.length} checks ${name}`);
    return found[0]!;
  };
}

function withBranch(name: string): FakeOrigin {
  const fake = createFakeOrigin();
  fake.refs.set(`refs/heads/${name}`, fakeCommit(fake, [], "base"));
  return fake;
}

test("a branch that isn't among the origin's fails, as submit does, and no queue is begun for it", async () => {
  const fake = withBranch("trunk");
  const of = await examine(fake);
  assert.equal(of("branch").status, "fail");
  assert.match(of("branch").message, /has no branch "main"/);
  assert.match(of("branch").hint!, /It has "trunk"\. .*--create-branch/);
  assert.equal(of("push").status, "skip");
  assert.deepEqual([...fake.refs.keys()], ["refs/heads/trunk"]);
});

test("in an origin without branches the first landing makes it; no queue is begun before", async () => {
  const fake = createFakeOrigin();
  const of = await examine(fake);
  assert.equal(of("branch").status, "warn");
  assert.match(of("branch").hint!, /first ticket to land will create it/);
  assert.equal(of("push").status, "skip");
  assert.deepEqual([...fake.refs], []);
});

test("a chain that can't be read is the queue's fault, not the origin's", async () => {
  const fake = withBranch("main");
  fake.refs.set("refs/weave/main/queue", fakeCommit(fake, [], "no ticket"));
  const of = await examine(fake);
  assert.equal(of("origin").status, "ok");
  assert.equal(of("queue").status, "fail");
  assert.equal(of("push").status, "skip");
});

test("left locks fail with each path, owner and advice; the lock's own spares a push that must fail", async () => {
  const fake = withBranch("main");
  const left = (ref: string | null, path: string) => ({
    path,
    ref,
    owner: "somebody holds it",
    advice: "Remove it.",
  });
  const found = [left("refs/weave/main/queue", "/o/queue.lock"), left(LOCK, "/o/lock.lock")];
  const of = await examine(fake, { leftLocks: () => Promise.resolve(found) });
  assert.deepEqual(of("origin-locks"), {
    name: "origin-locks",
    status: "fail",
    message: "/o/queue.lock: somebody holds it; /o/lock.lock: somebody holds it",
    hint: "Remove it. Until then what moves those refs fails.",
  });
  assert.deepEqual([of("push").status, of("push").message], [
    "skip",
    `not tried: ${LOCK} is locked`,
  ]);
  assert.equal(fake.refs.has(LOCK), false);

  const packed = [left(null, "/o/packed-refs.lock")];
  const other = await examine(fake, { leftLocks: () => Promise.resolve(packed) });
  assert.deepEqual([other("origin-locks").status, other("push").status], ["warn", "ok"]);
});

test("agentq.json of a commit that isn't here, and would have to be fetched whole, is left unread", async () => {
  const of = await examine(withBranch("main"), {}, false);
  assert.equal(of("pins").status, "skip");
  assert.ok(of("pins").hint);
});
