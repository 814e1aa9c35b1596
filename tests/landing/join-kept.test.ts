/** Records that turn out to be one submission once the origin's HEAD is known are one ticket, as asked for last. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { joinKept, sameKept } from "../../src/landing/join-kept.ts";
import { keep } from "../../src/landing/keep.ts";
import { deliver } from "../../src/landing/resume.ts";
import { readSnapshot } from "../../src/landing/snapshot.ts";
import { submit } from "../../src/landing/submit.ts";
import { newRecord } from "../../src/landing/submit-request.ts";
import { place, setting } from "./submission-setting.ts";

/** For HEAD, which wasn't known, and by its name; in the order in which they are kept. */
const WAYS = [[null, "main"], ["main", null]] as const;
const placeFor = (branch: string | null) => ({ ...place, branch, isDefault: branch === null });

async function keptTwice(order: readonly (string | null)[]) {
  const all = await setting();
  const { request, options } = all;
  const queue = { ...all.queue, isDefault: true };
  await keep(request, placeFor(order[0]!), options);
  const asked = { ...request, verifyCmd: "make test" };
  await keep(asked, placeFor(order[1]!), options);
  const records = await all.submissions.list();
  assert.equal(records.length, 2);
  return { ...all, queue, records };
}

for (const order of WAYS) {
  test(`kept for ${order.join(" and ")}: one is left, with the flags of the last`, async () => {
    const { queue, submissions, records } = await keptTwice(order);
    const snapshot = await readSnapshot(queue);
    for (const record of records) {
      assert.equal((await sameKept(queue, record, { submissions })).length, 2);
    }
    const joined = await joinKept(queue, snapshot, records, { submissions });
    assert.equal(joined!.verifyCmd, "make test");
    const [left, ...more] = await submissions.list();
    assert.deepEqual([left!.submission, more.length], [joined!.submission, 0]);
    assert.equal(left!.verifyCmd, "make test");
  });

  for (const again of [false, true]) {
    const how = `${order.join(" and ")}, then submitted${again ? " --again" : ""}`;
    test(`kept for ${how}: one ticket, as it is asked for then`, async () => {
      const { queue, submissions, request, options, tickets } = await keptTwice(order);
      const asked = { ...request, verifyCmd: "now" };
      const known = { ...place, isDefault: true };
      const snapshot = await readSnapshot(queue);
      const { ticket } = await submit(queue, snapshot, asked, known, { ...options, again });
      assert.equal(ticket.message.verify_cmd, "now");
      assert.deepEqual(await submissions.list({ undelivered: true }), []);
      assert.equal(await tickets(), 0);
    });
  }
}

test("asked for in turns, the last counts, though the clock was set back", async () => {
  const { queue, submissions, request, options } = await keptTwice([null, "main"]);
  const clock = { ...options.clock, wall: () => 1000 };
  const asked = { ...request, verifyCmd: "last" };
  await keep(asked, placeFor(null), { ...options, clock });
  const records = await submissions.list();
  const joined = await joinKept(queue, await readSnapshot(queue), records, { submissions });
  assert.equal(joined!.verifyCmd, "last");
});

test("asked for once more as it was, it is the last", async () => {
  const { queue, submissions, request, options } = await keptTwice([null, "main"]);
  await keep(request, placeFor(null), options);
  const records = await submissions.list();
  const joined = await joinKept(queue, await readSnapshot(queue), records, { submissions });
  assert.equal(joined!.verifyCmd, null);
});

test("one that got through unseen is the ticket of both", async () => {
  const { fake, queue, submissions, request, options, tickets } = await setting();
  const known = { ...queue, isDefault: true };
  const before = await readSnapshot(queue);
  fake.interference = {
    push: () => "lost-answer",
    step: (operation) => {
      if (operation === "refs") throw new Error("killed");
      return Promise.resolve();
    },
  };
  await assert.rejects(submit(queue, before, request, placeFor("main"), options), /killed/);
  fake.interference = {};
  await submissions.record(newRecord(request, placeFor(null), { submitter: "me", now: 9e12 }));
  const records = await submissions.list();
  assert.equal(records.length, 2);
  const snapshot = await readSnapshot(queue);
  const joined = await joinKept(known, snapshot, records, { submissions });
  assert.notEqual(joined!.since, undefined);
  const ticket = await deliver(known, snapshot, joined!, options);
  assert.equal(ticket!.message.ticket, 0);
  assert.equal((await submissions.list({ undelivered: true })).length, 0);
  assert.equal(await tickets(), 0);
});

test("while another process has one of them, none is delivered", async () => {
  const { queue, submissions, records } = await keptTwice([null, "main"]);
  const snapshot = await readSnapshot(queue);
  for (const record of records) {
    const held = {
      ...submissions,
      exclusively: ((wanted, work) =>
        wanted.submission === record.submission
          ? Promise.resolve(null)
          : submissions.exclusively(wanted, work)) as typeof submissions.exclusively,
    };
    assert.equal(await joinKept(queue, snapshot, records, { submissions: held }), null);
    const left = (await submissions.list()).map(({ submission }) =>
      submission
    );
    assert.ok(left.includes(record.submission));
  }
});

test("of other commits, queues and clones none is the same", async () => {
  const { queue, submissions, records, request } = await keptTwice([null, "main"]);
  const others = [
    { ...place, branch: "other" },
    { ...place, namespace: "refs/else" },
    { ...place, url: "fake://other" },
  ];
  for (const [i, other] of others.entries()) {
    await submissions.record(newRecord(request, other, { submitter: "me", now: i }));
  }
  assert.equal((await sameKept(queue, records[0]!, { submissions })).length, 2);
  // A branch that isn't the origin's HEAD is another than that.
  const elsewhere = { ...queue, isDefault: false };
  const named = records.find(({ branch }) => branch === "main")!;
  assert.equal((await sameKept(elsewhere, named, { submissions })).length, 1);
});
