/** A run that is stopped while its push is under way: it says what it did, or that it doesn't know. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { AgentqError } from "../../src/errors.ts";
import { readControl } from "../../src/landing/control.ts";
import { cancelTicket, pauseQueue } from "../../src/landing/operator.ts";
import { enqueue } from "../../src/landing/enqueue.ts";
import { openQueue, readSnapshot } from "../../src/landing/snapshot.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { createFakeOrigin, fakeCommit, type PushFault } from "./fake-origin.ts";

async function makeQueue() {
  const fake = createFakeOrigin();
  const tip = fakeCommit(fake, [], "tip");
  fake.refs.set("refs/heads/main", tip);
  const origin = fake.as("me");
  const { queue } = await openQueue(origin, { namespace: "refs/weave", branch: "main" });
  const draft = (name: string) => ({
    candidate: fakeCommit(fake, [tip], name),
    submitter: "me",
    verifyCmd: null,
    verifyTimeout: 1,
    submission: name.padEnd(32, "0"),
    submittedAt: 0,
    title: null,
    drops: [],
  });
  /** Runs `work` with a signal that comes while its push is at the origin. */
  const stopped = async <T>(fault: PushFault, work: (signal: AbortSignal) => Promise<T>) => {
    const abort = new AbortController();
    fake.interference = {
      push: () => {
        abort.abort(new AgentqError("interrupted", "stopped by SIGTERM"));
        return fault;
      },
    };
    try {
      return await work(abort.signal);
    } finally {
      fake.interference = {};
    }
  };
  const submit = (name: string, fault: PushFault) =>
    stopped(fault, async (signal) =>
      await enqueue(queue, await readSnapshot(queue), draft(name), {
        clock: systemClock,
        objects: fake.reader(),
        signal,
      }));
  return { queue, stopped, submit };
}

const unknown = { code: "push-unknown" };

test("a submission that got through is one, whatever became of the answer", async () => {
  const { queue, submit } = await makeQueue();
  assert.equal((await submit("a", "none")).message.submitter, "me");
  assert.equal((await submit("b", "lost-answer")).message.ticket, 1);
  await assert.rejects(submit("c", "lost-request"), unknown);
  assert.equal((await readSnapshot(queue)).unacked, 2);
});

test("so is a pause and a cancelled ticket", async () => {
  const { queue, stopped, submit } = await makeQueue();
  await submit("a", "none");
  const options = (signal: AbortSignal) => ({ clock: systemClock, by: "me", signal });
  const pause = (fault: PushFault) =>
    stopped(
      fault,
      async (signal) => await pauseQueue(queue, await readSnapshot(queue), "rest", options(signal)),
    );
  const cancel = (fault: PushFault) =>
    stopped(
      fault,
      async (signal) => await cancelTicket(queue, await readSnapshot(queue), 0, options(signal)),
    );
  await assert.rejects(pause("lost-request"), unknown);
  assert.equal((await pause("lost-answer")).reason, "rest");
  await assert.rejects(cancel("lost-request"), unknown);
  assert.equal(await cancel("lost-answer"), null);
  const control = await readControl(queue, (await readSnapshot(queue)).lock);
  assert.deepEqual([control.paused?.reason, control.cancelled], ["rest", [0]]);
});
