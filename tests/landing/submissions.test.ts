/** Submissions survive whatever happens between the intent and the result, and are delivered once. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { mkdirSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { describe, test } from "node:test";
import { AgentqError, isAgentqError } from "../../src/errors.ts";
import { openOrigin } from "../../src/git/origin.ts";
import { openRepository } from "../../src/git/repository.ts";
import type { Origin } from "../../src/git/types.ts";
import type { TicketEntry } from "../../src/landing/chain.ts";
import { openQueue, readSnapshot } from "../../src/landing/snapshot.ts";
import { deliver, staysAsItIs } from "../../src/landing/resume.ts";
import { keep } from "../../src/landing/keep.ts";
import { submit } from "../../src/landing/submit.ts";
import { newRecord } from "../../src/landing/submit-request.ts";
import {
  createSubmissions,
  isBeingSent,
  openSubmissions,
  type Submissions,
  submissionsDirectory,
} from "../../src/landing/submissions.ts";
import { isFree, nameOf, owner } from "../../src/landing/submission-record.ts";
import { ticketNotesDirectory } from "../../src/landing/ticket-notes.ts";
import { type Json, openStore } from "../../src/store/mod.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { commit, git, makeRepo, tempDir } from "../helpers/git.ts";
import { place, setting } from "./submission-setting.ts";

test("the intent is there before the push, the ticket after it, and nothing once it is forgotten", async () => {
  const { fake, queue, request, options, submissions, candidate } = await setting();
  let seen: unknown;
  fake.interference = {
    step: async (operation) => {
      if (operation === "push") seen ??= (await submissions.list())[0];
    },
  };
  const { record, ticket } = await submit(
    queue,
    await readSnapshot(queue),
    request,
    place,
    options,
  );
  assert.deepEqual(
    [(seen as typeof record).submission, (seen as typeof record).ticket],
    [record.submission, null],
  );
  assert.equal(ticket.message.verify_timeout, 2, "whole seconds, rounded up");
  assert.deepEqual((await submissions.list()).map((one) => [one.candidate, one.ticket]), [
    [candidate, 0],
  ]);
  assert.deepEqual(await submissions.list({ undelivered: true }), []);
  await submissions.forget([record]);
  assert.deepEqual(await submissions.list(), []);
  assert.equal((await submissions.list()).length, 0);
});

for (const fault of ["lost-answer", "lost-request"] as const) {
  test(`a run that died with its push's ${fault} is continued by the next: one ticket`, async () => {
    const { fake, queue, request, options, tickets } = await setting();
    const before = await readSnapshot(queue);
    fake.interference = {
      push: () => fault,
      step: async (operation) => {
        // The process never gets to read the refs again.
        if (operation === "refs") throw new Error("killed");
      },
    };
    await assert.rejects(submit(queue, before, request, place, options), /killed/);
    fake.interference = {};
    const again = await submit(queue, await readSnapshot(queue), request, place, options);
    assert.equal(again.fresh, false);
    assert.equal(again.ticket.message.ticket, 0);
    assert.equal(await tickets(), 0);
    const third = await submit(queue, await readSnapshot(queue), request, place, options);
    assert.equal(third.ticket.oid, again.ticket.oid);
  });
}

for (const count of [2, 3]) {
  test(`${count} runs that submit one commit at the same moment make one ticket`, async () => {
    const { state, queue, request, options, tickets } = await setting();
    let looking = count;
    let go = () => {};
    const all = new Promise<void>((resolve) => go = resolve);
    const run = async () => {
      const submissions = await createSubmissions(state);
      let looked = false;
      return await submit(queue, await readSnapshot(queue), request, place, {
        ...options,
        submissions: {
          ...submissions,
          // Nobody records before all have seen that there is nothing.
          async list(filter) {
            const found = await submissions.list(filter);
            if (looked) return found;
            looked = true;
            if (--looking === 0) go();
            await all;
            return found;
          },
        },
      });
    };
    const made = await Promise.all(Array.from({ length: count }, run));
    assert.deepEqual(made.map(({ ticket }) => ticket.message.ticket), Array(count).fill(0));
    assert.equal(new Set(made.map(({ record }) => record.submission)).size, 1);
    assert.equal(await tickets(), 0);
    assert.equal((await options.submissions.list()).length, 1);
  });
}

test("a submission that another process holds is waited for, and not for ever", async () => {
  const { queue, request, options, submissions, tickets } = await setting();
  const { record } = await keep(request, place, options);
  let slept = 0;
  let gotTicket = false;
  const notes: string[] = [];
  const busy = {
    ...options,
    onNote: (text: string) => notes.push(text),
    clock: {
      ...systemClock,
      monotonic: () => slept,
      sleep: async (ms: number) => {
        slept += ms;
        if (gotTicket) await deliver(queue, await readSnapshot(queue), record, options);
      },
    },
    submissions: { ...submissions, exclusively: () => Promise.resolve(null) },
  };
  const again = async () => await submit(queue, await readSnapshot(queue), request, place, busy);
  await assert.rejects(again(), (error) => isAgentqError(error, "submission-busy"));
  assert.ok(slept >= 30_000);
  assert.equal(notes.length, 1);
  assert.match(notes[0]!, /^another process is submitting .* from here: waiting for its ticket$/);
  assert.equal(await tickets(), -1);
  slept = 0;
  gotTicket = true;
  const shared = await again();
  assert.equal(shared.fresh, false);
  assert.equal(shared.record.submission, record.submission);
  assert.equal(await tickets(), 0);
});

test("--again makes a second ticket; another clone's submission of the same commit is its own", async () => {
  const { fake, candidate, queue, request, options, tickets } = await setting();
  // Clones that have the commit: one without it would be taken for one that was moved.
  const clone = () => {
    const repository = openRepository(makeRepo());
    repository.objects.write("commit", fake.reader().read(candidate).data);
    repository.close();
    return { ...place, repository: repository.commonDir };
  };
  const here = clone();
  await submit(queue, await readSnapshot(queue), request, here, options);
  await submit(queue, await readSnapshot(queue), request, here, { ...options, again: true });
  assert.equal(await tickets(), 1);
  await submit(queue, await readSnapshot(queue), request, clone(), options);
  assert.equal(await tickets(), 2);
});

test("a submission the origin refuses for good leaves nothing behind", async () => {
  const { fake, queue, request, options, submissions } = await setting();
  fake.interference = { push: () => ({ refuse: "no" }) };
  await assert.rejects(
    submit(queue, await readSnapshot(queue), request, place, options),
    (error) => isAgentqError(error, "push-refused"),
  );
  assert.deepEqual(await submissions.list(), []);
});

test("a push that an HTTP status refused, and that took effect later, is found again: one ticket", async () => {
  const { queue, request, options, tickets } = await setting();
  let later: () => Promise<unknown> = () => Promise.reject(new Error("nothing was pushed"));
  const push: Origin["push"] = (updates, objects, given) => {
    later = () => queue.origin.push(updates, objects, given);
    const refs = updates.map(({ ref }) => ({ ref, reason: "HTTP 403" }));
    const said = { message: "forbidden", remoteOutput: "", refs, httpStatus: 403 };
    return Promise.resolve({ status: "refused", ...said });
  };
  const filtered = { ...queue, origin: { ...queue.origin, push } };
  await assert.rejects(
    submit(filtered, await readSnapshot(queue), request, place, options),
    (error) => isAgentqError(error, "push-refused") && error.details?.status === 403,
  );
  await later();
  const { ticket, fresh } = await submit(
    queue,
    await readSnapshot(queue),
    request,
    place,
    options,
  );
  assert.deepEqual([ticket.message.ticket, fresh, await tickets()], [0, false, 0]);
});

test("a ticket of a queue that was made anew is not waited for", async () => {
  const { fake, queue, request, options } = await setting();
  await submit(queue, await readSnapshot(queue), request, place, options);
  fake.refs.delete("refs/weave/main/queue");
  const fresh = await submit(queue, await readSnapshot(queue), request, place, options);
  assert.equal(fresh.fresh, true);
});

for (
  const [held, at] of [["is left alone", () => Date.now()], ["is overtaken", () => 0]] as const
) {
  test(`one kept offline is delivered once; another process that has it ${held}`, async () => {
    const { fake, queue, request, options, submissions, state, tickets } = await setting();
    const record = newRecord(request, place, { submitter: "me", now: 1 });
    await submissions.record(record);
    const other = (await openSubmissions(state))!;
    let nested: unknown = "not run";
    fake.interference = {
      step: async (operation) => {
        if (operation !== "push" || nested !== "not run") return;
        nested = undefined;
        // The store believes the claim to be this process's own.
        const store = await openStore(submissionsDirectory(state));
        const [info] = await store.messages({ state: "claimed" });
        await store.renew([info!.receipt], {
          pid: 1,
          startTime: "another",
          pidNamespace: null,
          bootId: null,
          host: "elsewhere",
          at: at(),
        });
        nested = await deliver(queue, await readSnapshot(queue), record, {
          ...options,
          submissions: other,
        });
      },
    };
    const ticket = await deliver(queue, await readSnapshot(queue), record, options);
    assert.equal(ticket?.message.ticket, 0);
    assert.equal(
      (nested as TicketEntry | null)?.oid,
      held === "is left alone" ? undefined : ticket!.oid,
    );
    fake.interference = {};
    const later = await deliver(queue, await readSnapshot(queue), record, options);
    assert.equal(later?.oid, ticket!.oid);
    assert.equal(await tickets(), 0);
  });
}

test("a commit kept offline is kept once, and submitting it later finds the ticket it got", async () => {
  const { queue, request, options, submissions, tickets } = await setting();
  const first = await keep(request, place, options);
  const second = await keep(request, place, options);
  assert.deepEqual([first.fresh, second.fresh], [true, false]);
  assert.equal(second.record.submission, first.record.submission);
  assert.equal((await submissions.list()).length, 1);
  // As `agentq submit` does it: what was kept is delivered after the snapshot was read.
  const before = await readSnapshot(queue);
  const delivered = await deliver(queue, before, first.record, options);
  const submitted = await submit(queue, before, request, place, options);
  assert.deepEqual([submitted.fresh, submitted.ticket.oid], [false, delivered!.oid]);
  assert.equal(await tickets(), 0);
  // One that has a ticket, as far as is known here, is not kept beside it unless that is asked for.
  const known = await keep(request, place, options);
  assert.deepEqual([known.fresh, known.record.ticket], [false, 0]);
  assert.equal((await keep(request, place, { ...options, again: true })).fresh, true);
});

test("a delivery that died is taken over only from a process that is proved gone", async () => {
  const { queue, request, options, submissions, state, tickets } = await setting();
  const record = newRecord(request, place, { submitter: "me", now: 1 });
  await submissions.record(record);
  const store = await openStore(submissionsDirectory(state));
  const { processIdentity } = await import("../../src/platform/host.ts");
  const [info] = await store.messages({ state: "pending" });
  const [claim] = await store.claim("submissions", {
    id: info!.id,
    owner: { ...processIdentity(), startTime: "1" },
  });
  assert.ok(claim);
  const ticket = await deliver(queue, await readSnapshot(queue), record, options);
  assert.equal(ticket?.message.ticket, 0);
  assert.equal(await tickets(), 0);
});

test("an initialisation that was killed is begun anew; there is nothing to open before", async () => {
  const state = tempDir();
  assert.equal(await openSubmissions(state), null);
  const namespace = join(submissionsDirectory(state), ".fs-safe-queue-v2");
  mkdirSync(namespace, { recursive: true, mode: 0o700 });
  writeFileSync(join(namespace, "format.json"), "", { mode: 0o600 });
  assert.equal(await openSubmissions(state), null);
  const submissions = await createSubmissions(state);
  assert.deepEqual(await submissions.list(), []);
});

test("a state directory that can't be used is named", async () => {
  const file = join(tempDir(), "file");
  writeFileSync(file, "");
  await assert.rejects(createSubmissions(file), (error) => {
    assert.ok(isAgentqError(error, "state-unavailable"));
    assert.match(error.message, /file/);
    return true;
  });
});

/** A queue in a bare repository on disk, whose pushes prepare what they can. */
async function settingOnDisk() {
  const bare = tempDir();
  const work = makeRepo();
  commit(work, "first", { "a.txt": "a\n" });
  git(bare, "clone", "-q", "--bare", work, ".");
  const candidate = commit(work, "work", { "b.txt": "b\n" });
  const origin = await openOrigin(bare);
  const names = { namespace: "refs/weave", branch: "main" };
  const { queue, snapshot } = await openQueue(origin, names);
  const submissions = await createSubmissions(tempDir());
  return {
    queue,
    snapshot,
    submissions,
    request: { candidate, verifyCmd: null, verifyTimeout: 1.5, title: null, drops: [] },
    options: {
      clock: systemClock,
      me: "me",
      objects: openRepository(work).objects,
      submissions,
      again: false,
    },
    refs: () => git(bare, "for-each-ref", "refs/weave"),
  };
}

test("on disk too no ticket can be seen before its intent is durable", async () => {
  const { queue, snapshot, submissions, request, options, refs } = await settingOnDisk();
  let ended = false;
  const slow: Submissions = {
    ...submissions,
    async record(record) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      assert.equal(refs(), "");
      await submissions.record(record);
      assert.equal(refs(), "");
      ended = true;
    },
  };
  const { ticket } = await submit(queue, snapshot, request, place, {
    ...options,
    submissions: slow,
  });
  assert.equal(ended, true);
  assert.match(refs(), new RegExp(`^${ticket.oid} `));
  assert.deepEqual((await submissions.list()).map((record) => record.ticket), [0]);
});

test("an intent that can't be recorded is never a ticket", async () => {
  const { queue, snapshot, submissions, request, options, refs } = await settingOnDisk();
  const full = new AgentqError("io-error", "the disk is full");
  const failing = { ...submissions, record: () => Promise.reject(full) };
  await assert.rejects(
    submit(queue, snapshot, request, place, { ...options, submissions: failing }),
    (error) => error === full,
  );
  assert.equal(refs(), "");
  assert.deepEqual(await submissions.list(), []);
});

for (const count of [2, 5]) {
  test(`on disk too ${count} runs that submit one commit at the same moment make one ticket`, async () => {
    const { queue, snapshot, submissions, request, options } = await settingOnDisk();
    const all = await Promise.all(
      Array.from({ length: count }, () => submit(queue, snapshot, request, place, options)),
    );
    assert.deepEqual(all.map(({ ticket }) => ticket.message.ticket), Array(count).fill(0));
    assert.equal((await readSnapshot(queue)).queue!.message.ticket, 0);
    assert.equal((await submissions.list()).length, 1);
  });
}

test("a ticket that was noted and lost is found again, and many are forgotten at once", async () => {
  const { state, queue, request, options, submissions, candidate } = await setting();
  const { record } = await submit(queue, await readSnapshot(queue), request, place, options);
  const [note] = readdirSync(ticketNotesDirectory(state));
  assert.equal(note, `${candidate.slice(0, 16)}.${record.submission}.0`);
  assert.deepEqual((await submissions.list()).map(({ ticket }) => ticket), [0]);
  assert.deepEqual(await submissions.list({ undelivered: true }), []);
  assert.equal((await submissions.list({ before: 1 })).length, 1);
  // As a power cut leaves it: the note never lasted, or isn't one.
  rmSync(ticketNotesDirectory(state), { recursive: true });
  mkdirSync(ticketNotesDirectory(state));
  writeFileSync(join(ticketNotesDirectory(state), `${nameOf(record)}.x`), "");
  assert.deepEqual((await submissions.list()).map(({ ticket }) => ticket), [null]);
  const again = await submit(queue, await readSnapshot(queue), request, place, options);
  assert.equal(again.fresh, false);
  assert.equal(again.ticket.message.ticket, 0);
  for (let n = 0; n < 3; n++) {
    await submit(queue, await readSnapshot(queue), request, place, { ...options, again: true });
  }
  const all = await submissions.list();
  assert.deepEqual(all.map(({ ticket }) => ticket), [0, 1, 2, 3]);
  await submissions.forget(all);
  assert.deepEqual(await submissions.list(), []);
  assert.deepEqual(readdirSync(ticketNotesDirectory(state)), [`${nameOf(record)}.x`]);
});

/** A run whose push fails before anything is sent; what it recorded stays behind. */
async function failedRun({ fake, queue, request, options }: Awaited<ReturnType<typeof setting>>) {
  fake.interference = {
    step: (operation) => {
      if (operation === "push") throw new AgentqError("io-error", "the cable is cut");
      return Promise.resolve();
    },
  };
  const run = submit(queue, await readSnapshot(queue), request, place, options);
  await assert.rejects(run, /the cable is cut/);
  fake.interference = {};
}

for (const again of [false, true]) {
  const how = again ? "--again" : "the next submission";
  test(`what never came through takes the flags of ${how}, and there is one ticket`, async () => {
    const all = await setting();
    const { queue, request, options, submissions, tickets } = all;
    await failedRun(all);
    await failedRun({ ...all, options: { ...options, again } });
    const [left, ...others] = await submissions.list();
    assert.deepEqual([left?.verifyCmd, left?.ticket, others.length], [null, null, 0]);
    const strict = { ...request, verifyCmd: "false", title: "strict", drops: ["x"] };
    const one = { ...options, me: "later", again };
    const { ticket } = await submit(queue, await readSnapshot(queue), strict, place, one);
    const { verify_cmd, submitter, agentq } = ticket.message;
    assert.deepEqual([verify_cmd, submitter, agentq?.title, agentq?.drops], [
      "false",
      "later",
      "strict",
      ["x"],
    ]);
    assert.deepEqual(await submissions.list({ undelivered: true }), []);
    assert.equal(await tickets(), 0);
  });
}

for (const again of [false, true]) {
  test(`one that came through unseen stays as it is${again ? "; --again makes another" : ""}`, async () => {
    const { fake, queue, request, options, tickets } = await setting();
    const before = await readSnapshot(queue);
    fake.interference = {
      push: () => "lost-answer",
      step: (operation) => {
        if (operation === "refs") throw new Error("killed");
        return Promise.resolve();
      },
    };
    await assert.rejects(submit(queue, before, request, place, options), /killed/);
    fake.interference = {};
    const strict = { ...request, verifyCmd: "false" };
    const later = { ...options, me: "later", again };
    const { ticket } = await submit(queue, await readSnapshot(queue), strict, place, later);
    assert.equal(ticket.message.verify_cmd, again ? "false" : null);
    assert.equal(staysAsItIs(ticket, strict).length, again ? 0 : 1);
    assert.equal(await tickets(), again ? 1 : 0);
  });
}

test("a commit kept twice is kept as it was asked for last, and stays kept after a failed delivery", async () => {
  const { fake, queue, request, options, submissions } = await setting();
  await keep(request, place, options);
  const strict = { ...request, verifyCmd: "false" };
  const { record } = await keep(strict, place, options);
  fake.interference = { push: () => ({ refuse: "not today" }) };
  const attempt = async () => await deliver(queue, await readSnapshot(queue), record, options);
  await assert.rejects(attempt(), (error) => isAgentqError(error, "push-refused"));
  fake.interference = {};
  const [left, ...others] = await submissions.list({ undelivered: true });
  assert.deepEqual([left?.kept, left?.verifyCmd, others.length], [true, "false", 0]);
  assert.equal((await attempt())?.message.verify_cmd, "false");
});

test("a run that is stopped before its push leaves nothing; one stopped in it says which it is", async () => {
  const { fake, queue, request, options, submissions, tickets } = await setting();
  const before = await readSnapshot(queue);
  const early = new AbortController();
  const recording: Submissions = {
    ...submissions,
    async record(record) {
      await submissions.record(record);
      early.abort(new AgentqError("interrupted", "stopped"));
    },
  };
  const stopped = { ...options, submissions: recording, signal: early.signal };
  await assert.rejects(
    submit(queue, before, request, place, stopped),
    (error) => isAgentqError(error, "interrupted"),
  );
  assert.deepEqual(await submissions.list(), []);

  const late = new AbortController();
  fake.interference = {
    step: (operation) => {
      if (operation === "push") {
        late.abort(new AgentqError("interrupted", "stopped"));
        throw late.signal.reason;
      }
      return Promise.resolve();
    },
  };
  const running = submit(queue, before, request, place, { ...options, signal: late.signal });
  const error = await running.catch((thrown) => thrown);
  assert.ok(isAgentqError(error, "push-unknown"));
  const [record] = await submissions.list();
  assert.equal(error.details?.submission, record!.submission);
  assert.equal(error.retryable, true);
  assert.equal(await tickets(), -1);
});

test("records that can't be used are named and passed over", async () => {
  const { state, queue, request, options, submissions, candidate } = await setting();
  const store = await openStore(submissionsDirectory(state));
  const torn = newRecord(request, place, { submitter: "me", now: 1 });
  const newer = newRecord(request, place, { submitter: "me", now: 1 });
  await submissions.record(torn);
  await store.enqueue("submissions", nameOf(newer), { v: 2 });
  const objects = join(submissionsDirectory(state), ".fs-safe-queue-v2", "objects");
  for (const object of readdirSync(objects)) {
    const payload = join(objects, object, "payload.json");
    const text = readFileSync(payload, "utf8");
    if (text.includes(torn.submission)) truncateSync(payload, 50);
  }
  const { ticket } = await submit(queue, await readSnapshot(queue), request, place, options);
  assert.equal(ticket.message.candidate, candidate);
  assert.equal((await submissions.list()).length, 1);
  const [first, second, ...others] = [...submissions.damaged()].sort((a) =>
    a.includes(torn.submission) ? -1 : 1
  );
  assert.match(first ?? "", new RegExp(torn.submission));
  assert.match(second ?? "", /a newer agentq wrote it/);
  assert.doesNotMatch(second ?? "", /--drop/);
  assert.deepEqual(others, []);

  // The advice of the one that is damaged holds, by either name; a good one is not touched.
  const [, advised] = /agentq flush --drop (\S+) /.exec(first ?? "")!;
  assert.equal(advised, nameOf(torn));
  assert.equal(await submissions.setAside(torn.submission), nameOf(torn));
  assert.equal(await submissions.setAside(torn.submission), null);
  const [good] = await submissions.list();
  assert.equal(await submissions.setAside(good!.submission), null);
  assert.equal(await submissions.setAside("nobody's"), null);
  // One that a queue command has is there all the same.
  const lease = { owner: "c~me~boot", boot: 1, wall: Date.now(), ms: 60_000 };
  const [taken] = await store.claim("submissions", { id: nameOf(newer), owner: lease });
  await assert.rejects(submissions.setAside(newer.submission), { code: "submission-busy" });
  await store.release([taken!.receipt]);
  const reader = await createSubmissions(state);
  assert.equal((await reader.list()).length, 1);
  assert.deepEqual(reader.damaged(), [second]);
  const [letter] = await store.failed.list();
  assert.equal(letter?.failedId, nameOf(torn));
});

test("what nobody here can tell the holder of is taken over after a while, and the holder learns it", async () => {
  const { state, submissions, request } = await setting();
  const record = newRecord(request, place, { submitter: "me", now: 1 });
  await submissions.record(record);
  const store = await openStore(submissionsDirectory(state));
  const elsewhere = (at: number) => ({ ...owner(at) as object, pidNamespace: "pid:[1]" });
  const [claim] = await store.claim("submissions", { owner: elsewhere(Date.now()) });
  const deliver = () =>
    submissions.exclusively(record, async (_record, learn) => {
      await learn.since("main", null);
      return "delivered";
    });
  assert.equal(await deliver(), null, "for a while it is its");
  await store.renew([claim!.receipt], elsewhere(Date.now() - 61_000));
  // Two find it so at the same moment.
  const found = await Promise.allSettled([deliver(), deliver()]);
  const delivered = found.filter((one) => one.status === "fulfilled" && one.value === "delivered");
  assert.ok(delivered.length >= 1);
  await assert.rejects(
    store.migrate(claim!, () => ({ v: 1 })),
    (error) => isAgentqError(error, "stale-generation"),
  );
});

test("a process that can be seen, or any in the first minute, keeps what it holds", () => {
  const now = 10_000_000;
  const unseen = { ...owner(now) as object, pidNamespace: "pid:[1]" };
  assert.equal(isFree(owner(now - 100_000), now), false, "this process lives");
  assert.equal(isFree({ ...owner(now) as object, pid: 2 ** 30 }, now), true, "proved gone");
  assert.equal(isFree(unseen, now + 59_000), false);
  assert.equal(isFree(unseen, now + 61_000), true);
  assert.equal(isFree(unseen, now - 61_000), true, "a clock that was set back");
  assert.equal(isFree({ ...unseen, at: undefined } as never, now), true, "of an older agentq");
  assert.equal(isFree({ ticket: 1 }, now), false);
});

test("what a queue command took is free once its lease has run out, a worker's never", () => {
  const now = 10_000_000;
  const lease = { owner: "c~cli~boot", boot: 1, wall: now, ms: 5000 };
  assert.equal(isFree(lease, now + 4999), false);
  assert.equal(isFree(lease, now + 5000), true);
  assert.equal(isFree(lease, now - 5000), true, "a clock that was set back");
  const worker = { ...lease, owner: "w~1~2~3~4~5" };
  for (const note of [worker, null, { seen: 1 }, "x"]) assert.equal(isFree(note, now * 2), false);
});

test("what a queue command took is delivered once its lease has run out", async () => {
  const { queue, request, options, submissions, state } = await setting();
  const record = newRecord(request, place, { submitter: "me", now: 1 });
  await submissions.record(record);
  assert.equal(await submissions.takenAway(record), null);
  const store = await openStore(submissionsDirectory(state));
  const lease = { owner: "c~me~boot", boot: 1, wall: Date.now(), ms: 60_000 };
  const [claim] = await store.claim("submissions", { owner: lease });
  const now = await readSnapshot(queue);
  assert.equal(await deliver(queue, now, record, options), null);
  const held = await submissions.takenAway(record);
  assert.ok(isAgentqError(held, "submission-busy"));
  assert.match(
    held.hint,
    /^Give it back: agentq queue requeue submissions .* --owner me .* in \d+ s/,
  );
  const [listed] = await submissions.list();
  assert.equal(isBeingSent(listed!), false, "nobody delivers it");
  for (
    const [note, hint] of [
      [{ ...lease, owner: "w~1~2~3~4~5" }, /^End that worker, .* recover submissions --backend/],
      [{ other: 1 }, /^Make sure .* recover submissions --stale 0 --backend/],
    ] as const
  ) {
    await store.renew([claim!.receipt], note);
    assert.match((await submissions.takenAway(record))!.hint, hint);
  }
  await store.renew([claim!.receipt], owner());
  assert.equal(await submissions.takenAway(record), null, "a delivery");
  await store.renew([claim!.receipt], { ...lease, wall: Date.now() - 60_000 });
  assert.equal((await deliver(queue, now, record, options))?.message.ticket, 0);
});

describe("a submission that a queue command has taken", () => {
  const lease = (ms: number) => ({ owner: "c~me~boot", boot: 1, wall: Date.now(), ms });

  /** Recorded and taken, with a clock that only waiting moves; `onSleep` is called after each pause. */
  async function taken(note: Json, onSleep: (waited: number, renew: Renew) => Promise<void>) {
    const all = await setting();
    const { submissions, request, options, queue, state } = all;
    await submissions.record(newRecord(request, place, { submitter: "me", now: 1 }));
    const store = await openStore(submissionsDirectory(state));
    const [claim] = await store.claim("submissions", { owner: note });
    const renew: Renew = async (owner) => void await store.renew([claim!.receipt], owner);
    let waited = 0;
    const notes: string[] = [];
    const patient = {
      ...options,
      clock: {
        ...systemClock,
        monotonic: () => waited,
        sleep: async (ms: number) => {
          // The first note comes before the first pause.
          if (waited === 0) assert.equal(notes.length, 1);
          await onSleep(waited += ms, renew);
        },
      },
      onNote: (text: string) => notes.push(text),
    };
    return {
      candidate: request.candidate,
      notes,
      waited: () => waited,
      ways: [
        async () => await submit(queue, await readSnapshot(queue), request, place, patient),
        async () => await keep(request, place, patient),
      ],
    };
  }
  type Renew = (owner: Json) => Promise<void>;
  const busy = (candidate: string, who: string) => (error: unknown) => {
    assert.ok(isAgentqError(error, "submission-busy"), String(error));
    assert.ok(
      error.message.startsWith(`${who} has taken the submission of commit ${candidate} out of`),
    );
    return true;
  };

  test("is refused at once where its lease lasts longer than anybody waits", async () => {
    for (const way of [0, 1]) {
      const { candidate, notes, ways, waited } = await taken(lease(60_000), async () => {});
      await assert.rejects(ways[way]!(), busy(candidate, "a command (queue dequeue)"));
      assert.equal(waited(), 0);
      assert.deepEqual(notes, []);
    }
  });

  test("is waited for, which is said at once, where its lease ends in time", async () => {
    for (const way of [0, 1]) {
      const { candidate, notes, ways, waited } = await taken(lease(20_000), async (at, renew) => {
        if (at === 5000) await renew({ ...lease(20_000), wall: Date.now() - 20_000 });
      });
      const { record, fresh } = await ways[way]!();
      assert.deepEqual([record.candidate, fresh, waited()], [candidate, false, 5000]);
      assert.match(
        notes[0]!,
        new RegExp(`${candidate} .*; waiting until its lease runs out, in \\d+ s$`),
      );
      assert.equal(notes.length, 1);
    }
  });

  test("is waited for, which is said once, where nobody knows for how long it is taken", async () => {
    for (const way of [0, 1]) {
      const worker = { ...lease(300_000), owner: "w~1~2~3~4~5" };
      const { candidate, notes, ways, waited } = await taken(worker, async () => {});
      await assert.rejects(ways[way]!(), busy(candidate, "a worker"));
      assert.ok(waited() >= 30_000);
      assert.deepEqual(notes.map((note) => note.replace(/^.*; /, "")), [
        "waiting 30 s for it to come back",
      ]);
      assert.ok(notes[0]!.includes(candidate));
    }
  });

  test("while it is waited for is refused once a command has it for longer", async () => {
    const { candidate, ways, waited } = await taken(lease(10_000), async (at, renew) => {
      if (at === 2000) await renew(lease(60_000));
    });
    await assert.rejects(ways[0]!(), busy(candidate, "a command (queue dequeue)"));
    assert.equal(waited(), 2000);
  });
});

test("kept while the origin's HEAD isn't known, a commit that was recorded for it is the same submission", async () => {
  const all = await setting();
  const { submissions, request, options } = all;
  const known = { ...place, isDefault: true };
  await submissions.record(newRecord(request, known, { submitter: "me", now: 1, since: null }));
  const named = { ...place, branch: "other" };
  await submissions.record(newRecord(request, named, { submitter: "me", now: 1, since: null }));
  const { record, fresh } = await keep(request, { ...known, branch: null }, options);
  assert.deepEqual([record.branch, record.kept, fresh], ["main", true, false]);
  assert.equal((await submissions.list()).length, 2);
});

for (const fault of ["lost-answer", "lost-request"] as const) {
  for (const again of [false, true]) {
    const how = `${fault}${again ? ", with --again" : ""}`;
    test(`kept after a push whose fate nobody knows, a commit gets one ticket: ${how}`, async () => {
      const { fake, queue, request, options: usual, submissions, tickets } = await setting();
      const options = { ...usual, again };
      const before = await readSnapshot(queue);
      fake.interference = {
        push: () => fault,
        step: (operation) => {
          if (operation === "refs") throw new AgentqError("origin-unreachable", "the cable is cut");
          return Promise.resolve();
        },
      };
      const error = await submit(queue, before, request, place, options).catch((thrown) => thrown);
      assert.ok(isAgentqError(error, "origin-unreachable"));
      const [recorded] = await submissions.list();
      assert.equal(error.details?.submission, recorded!.submission);
      assert.match(error.hint, /is recorded on this machine: agentq submit .* agentq flush/);
      assert.deepEqual([recorded!.kept, recorded!.since], [undefined, before.queueHead]);
      const { record } = await keep(request, place, options);
      fake.interference = {};
      const [kept, ...others] = await submissions.list();
      assert.deepEqual([kept!.submission, others.length], [recorded!.submission, 0]);
      assert.deepEqual([kept!.kept, kept!.since], [true, before.queueHead]);
      // Meanwhile another's ticket comes.
      const theirs = { ...usual, me: "other", submissions: await createSubmissions(tempDir()) };
      await submit(queue, await readSnapshot(queue), request, place, theirs);
      const ticket = await deliver(queue, await readSnapshot(queue), record, usual);
      assert.equal(ticket!.message.agentq?.submission, recorded!.submission);
      assert.equal(ticket!.message.ticket, fault === "lost-answer" ? 0 : 1);
      assert.equal(await tickets(), 1);
    });
  }
}

test("a commit that another process is delivering isn't kept a second time", async () => {
  const { submissions, request, options } = await setting();
  const { record } = await keep(request, place, options);
  let kept: ReturnType<typeof keep> | undefined;
  await submissions.exclusively(record, async (_record, learn) => {
    // Of this process, as of another, it is claimed: the listing says so.
    const held = { ...submissions, exclusively: () => Promise.resolve(null) };
    kept = keep(request, place, { ...options, submissions: held });
    await new Promise((resolve) => setTimeout(resolve, 150));
    await learn.ticket(7);
  });
  const after = await kept!;
  assert.deepEqual([after.record.submission, after.record.ticket], [record.submission, 7]);
  assert.equal((await submissions.list()).length, 1);
});
