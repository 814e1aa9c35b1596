/** One lander at a time against one situation each: what the random lives can't single out. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { AgentqError, isAgentqError } from "../../src/errors.ts";
import type { Oid } from "../../src/git/types.ts";
import { chainCommit } from "../../src/landing/chain-commit.ts";
import { lockCommit, NO_CONTROL, readControl } from "../../src/landing/control.ts";
import { pauseQueue, resumeQueue } from "../../src/landing/operator.ts";
import { landQueue } from "../../src/landing/land-queue.ts";
import { waitForTicket } from "../../src/landing/wait-for-ticket.ts";
import { enqueue } from "../../src/landing/enqueue.ts";
import { MAX_DEATHS } from "../../src/landing/judge.ts";
import { holderOf } from "../../src/landing/held-lock.ts";
import { acquireLock, createLockWatch } from "../../src/landing/lock.ts";
import type { Result } from "../../src/landing/messages.ts";
import { readSnapshot } from "../../src/landing/snapshot.ts";
import { statusOf } from "../../src/landing/status.ts";
import { fakeCommit } from "./fake-origin.ts";
import type { FakeChecks } from "./fake-workshop.ts";
import { BRANCH, DONE, LOCK, reasons, type Scene, scene } from "./scene.ts";

type Forged = Record<"base" | "first" | "second" | "orphan", Oid>;

/** A lock whose holder is dead, the last of `count` that went quiet on ticket 0. */
async function deadHolder({ queue, fake }: Scene, count: number): Promise<void> {
  const entry = lockCommit(null, {
    holder: "dead",
    by: "dead",
    at: 1,
    control: { ...NO_CONTROL, deaths: { ticket: 0, count } },
  });
  const outcome = await fake.as("dead").push(
    [{ ref: LOCK, old: null, new: entry.oid }],
    {
      read: () => ({ type: "commit", data: entry.content }),
      has: (oid) => oid === entry.oid,
      stat: () => ({ type: "commit", size: entry.content.length }),
    },
  );
  assert.equal(outcome.status, "won");
  await queue.chains.remember("lock", entry);
}

describe("a ticket that kills its landers", () => {
  test("is refused after so many deaths, and the next ticket lands", async () => {
    const made = await scene();
    await made.submit("killer");
    await made.submit("innocent");
    await deadHolder(made, MAX_DEATHS - 1);
    const results = await made.land("survivor");
    assert.deepEqual(reasons(results), ["land failed", "landed"]);
    assert.match(results[0]!.message.report!, /8 landers in a row/);
  });

  test("is tried again before that", async () => {
    const made = await scene();
    await made.submit("unlucky");
    await deadHolder(made, MAX_DEATHS - 2);
    assert.deepEqual(reasons(await made.land("survivor")), ["landed"]);
  });
});

describe("a branch that moves each time a ticket is checked", () => {
  /** Checks of ticket 0 that move the branch, and take `ms` to do it. */
  async function overtaken(made: Scene, ms: number) {
    const { fake, world, submit, land } = made;
    await submit("pushes");
    await submit("innocent");
    let moves = 0;
    const clock = world.clock("check");
    const results = await land("lander", {
      step: async () => {
        if (fake.refs.has(DONE) || moves >= 40) return;
        await clock.sleep(ms);
        fake.refs.set(BRANCH, fakeCommit(fake, [fake.refs.get(BRANCH)!], `pushed ${++moves}`));
      },
    });
    return { results, moves };
  }

  test("is enough after a time: the ticket is refused, the next lands", async () => {
    const { results, moves } = await overtaken(await scene(), 60_000);
    assert.deepEqual(reasons(results), ["land failed", "landed"]);
    assert.match(results[0]!.message.report!, /checked again and again.*the branch moved 16 times/);
    assert.equal(moves, 16);
  });

  test("lasts so long at least: a burst of pushes is over by then", async () => {
    const { results, moves } = await overtaken(await scene(), 1000);
    assert.deepEqual(reasons(results), ["landed", "landed"]);
    assert.equal(moves, 40);
  });

  test("was moved to what has the ticket: there is nothing to refuse", async () => {
    const made = await scene();
    const { fake, world, submit, land, base } = made;
    const candidate = await submit("one");
    let moves = 0;
    let before = base;
    const clock = world.clock("check");
    const [result] = await land("lander", {
      step: async () => {
        await clock.sleep(60_000);
        before = fake.refs.get(BRANCH)!;
        const name = `pushed ${++moves}`;
        fake.refs.set(BRANCH, fakeCommit(fake, moves < 16 ? [before] : [before, candidate], name));
      },
    });
    assert.equal(result!.message.landed, null);
    assert.equal(result!.message.reason, "nothing to land");
    assert.equal(moves, 16);
  });
});

describe("landing", () => {
  test("tickets land in order, by one push each, and the lock is free afterwards", async () => {
    const { fake, queue, submit, land } = await scene();
    const first = await submit("one");
    await submit("two");
    const before = fake.moves.length;
    const results = await land("lander");
    assert.deepEqual(reasons(results), ["landed", "landed"]);
    assert.equal(results[0]!.message.landed, first, "a fast-forward makes no merge commit");
    assert.equal(fake.refs.get(BRANCH), results[1]!.message.landed);
    // Acquire, two landings of three refs, release.
    assert.equal(fake.moves.length - before, 1 + 3 + 3 + 1);
    assert.equal(holderOf((await readSnapshot(queue)).lock), null);
  });

  test("a branch that doesn't exist yet begins with the first landing", async () => {
    const { fake, submit, land } = await scene();
    fake.refs.delete(BRANCH);
    const first = await submit("one", []);
    const [result] = await land("lander");
    assert.equal(result!.message.landed, first);
    assert.equal(result!.message.tip, "0".repeat(40));
    assert.equal(fake.refs.get(BRANCH), first);
  });

  test("a candidate to which the branch was moved since it was queued has landed", async () => {
    const { fake, base, submit, land } = await scene();
    let before = base;
    for (const name of ["one", "two"]) {
      const candidate = await submit(name, [before]);
      fake.refs.set(BRANCH, candidate);
      const [result] = await land("lander");
      const { reason, landed, tip, agentq } = result!.message;
      assert.deepEqual([reason, landed, tip], ["landed", candidate, before]);
      assert.equal(agentq!.verify, null);
      before = candidate;
    }
  });

  test("a candidate that was on the branch when it was queued has nothing to land", async () => {
    const { fake, base, submit, land } = await scene();
    fake.refs.set(BRANCH, fakeCommit(fake, [base], "one"));
    await submit("one");
    const [result] = await land("lander");
    assert.deepEqual([result!.message.reason, result!.message.report], ["nothing to land", ""]);
  });

  test("a candidate that landed before is told by which ticket, as far back as is looked", async () => {
    const { fake, queue, world, base, run, submit, land } = await scene();
    const again = async (candidate: Oid) =>
      await run(enqueue(queue, await readSnapshot(queue), {
        candidate,
        submitter: "again",
        verifyCmd: null,
        verifyTimeout: 1,
        submission: `again ${world.clock("again").random()}`,
        submittedAt: 1,
        title: null,
        drops: [],
      }, { clock: world.clock("again"), objects: fake.reader() }));
    const first = await submit("one");
    const second = await submit("two");
    const [, merged] = await land("lander");
    for (const one of [first, second, merged!.message.landed!, base]) await again(one);
    const results = await land("lander");
    assert.deepEqual(reasons(results), Array(4).fill("nothing to land"));
    assert.deepEqual(results.map(({ message }) => message.report), [
      "Ticket 0 landed it.",
      "Ticket 1 landed it.",
      "Ticket 1 landed it.",
      "",
    ]);
    for (let n = 0; n < 95; n++) await again(base);
    await again(first);
    await again(second);
    const last = (await land("lander")).slice(-2);
    assert.deepEqual(last.map(({ message }) => message.report), ["", ""]);
  });

  test("the verdict on a tip counts for that tip only", async () => {
    const { fake, base, submit, land } = await scene();
    await submit("one");
    const verified: (Oid | null)[] = [];
    const outside = fakeCommit(fake, [base], "outside");
    await land("lander", {
      verified: (_commit, tip) => {
        verified.push(tip);
        if (verified.length === 1) fake.refs.set(BRANCH, outside);
      },
    });
    assert.deepEqual(verified, [base, outside]);
  });

  test("a control entry during the landing push doesn't cost a second verification", async () => {
    const { fake, queue, world, submit, run, land } = await scene();
    await submit("one");
    let verifications = 0;
    await land("lander", {
      verified: () => verifications++,
      step: async () => {
        if (verifications > 0) return;
        // Someone says resume with nothing to lift: then pause and resume, two entries.
        const control = { clock: world.clock("op"), by: "op" };
        await pauseQueue(queue, await readSnapshot(queue), "x", control);
        await resumeQueue(queue, await readSnapshot(queue), null, control);
      },
    });
    assert.equal(verifications, 1);
    assert.notEqual(fake.refs.get(BRANCH), undefined);
    await run(Promise.resolve());
  });
});

describe("a result that nobody's publication left", () => {
  async function forged(change: (at: Forged) => Partial<Result>) {
    const made = await scene();
    const { fake, base, submit, land } = made;
    const first = await submit("one");
    await land("lander");
    const second = await submit("two", [first]);
    const at = { base, first, second, orphan: fakeCommit(fake, [], "orphan") };
    const message: Result = {
      kind: "result",
      ticket: 1,
      candidate: second,
      submitter: "two",
      lander: "nobody",
      tip: first,
      landed: second,
      reason: "landed",
      files: [],
      regions: [],
      report: "",
      ...change(at),
    };
    const entry = chainCommit([fake.refs.get(DONE)!, message.landed!], message, 1);
    fake.objects.set(entry.oid, { type: "commit", data: entry.content });
    fake.refs.set(DONE, entry.oid);
    return { ...made, ...at, entry };
  }

  test("but could have is followed", async () => {
    const { fake, second, land } = await forged(() => ({}));
    await land("lander");
    assert.equal(fake.refs.get(BRANCH), second);
  });

  for (
    const [name, change] of [
      ["of a commit that lacks the tip", ({ orphan }) => ({ landed: orphan })],
      ["of the tip's own past", ({ base }) => ({ landed: base })],
      ["of another candidate", ({ orphan }) => ({ candidate: orphan })],
    ] satisfies [string, (at: Forged) => Partial<Result>][]
  ) {
    test(`${name} is corrupt-chain: the branch stays`, async () => {
      const { fake, first, entry, land } = await forged(change);
      await assert.rejects(
        land("lander"),
        (e) => isAgentqError(e, "corrupt-chain") && e.message.includes(entry.oid),
      );
      assert.equal(fake.refs.get(BRANCH), first);
    });
  }
});

describe("checks that can't be run", () => {
  test("are left to others twice, then refused, so that the queue goes on", async () => {
    const { submit, land } = await scene();
    await submit("bad");
    await submit("good");
    let tries = 0;
    const results = await land("lander", {
      fail(ticket) {
        if (ticket.message.submitter !== "bad") return;
        tries++;
        throw new AgentqError("command-not-started", "bwrap could not be started");
      },
    });
    assert.equal(tries, 3);
    assert.deepEqual(reasons(results), ["land failed", "landed"]);
    assert.match(results[0]!.message.report!, /bwrap could not be started/);
  });

  for (
    const [why, program, errno] of [
      ["there is no shell", "sh", "ENOENT"],
      ["no process can be made", "bwrap", "EAGAIN"],
    ] as const
  ) {
    test(`aren't counted where ${why}: the machine's own fault`, async () => {
      const { queue, submit, land } = await scene();
      await submit("good");
      const broken: FakeChecks = {
        fail() {
          throw new AgentqError("command-not-started", `${program} could not be started`, {
            details: { program, errno },
          });
        },
      };
      for (let i = 0; i < 4; i++) {
        await assert.rejects(land("m1", broken), (e) => isAgentqError(e, "command-not-started"));
      }
      const control = await readControl(queue, (await readSnapshot(queue)).lock);
      assert.equal(control.failures, null);
      assert.deepEqual(reasons(await land("m2")), ["landed"]);
    });
  }

  test("count across machines, in the lock chain", async () => {
    const { queue, submit, run, duty } = await scene();
    await submit("bad");
    const broken: FakeChecks = {
      fail() {
        throw new AgentqError("command-not-started", "no bwrap");
      },
    };
    for (const [who, left] of [["m1", 1], ["m2", 2]] as const) {
      const options = duty(who, broken);
      const waited = await run(
        waitForTicket(queue, await readSnapshot(queue), 0, { ...options, timeout: 500 }),
      );
      assert.equal(waited, null);
      const control = await readControl(queue, (await readSnapshot(queue)).lock);
      assert.deepEqual(control.failures, { ticket: 0, count: left });
    }
    const result = await run(
      waitForTicket(queue, await readSnapshot(queue), 0, { ...duty("m3", broken), timeout: 500 }),
    );
    assert.equal(result!.message.reason, "land failed");
  });

  test("for a fault of the machine nothing is said about the ticket", async () => {
    const { queue, fake, submit, land } = await scene();
    await submit("good");
    const full = Object.assign(new Error("no space"), { code: "ENOSPC", syscall: "write" });
    await assert.rejects(
      land("broken", {
        fail() {
          throw full;
        },
      }),
      full,
    );
    assert.equal(holderOf((await readSnapshot(queue)).lock), null, "the lock was given back");
    assert.equal(fake.refs.get("refs/weave/main/done"), undefined);
    assert.deepEqual(reasons(await land("healthy")), ["landed"]);
  });

  test("an unsafe tree is the ticket's own fault, at once", async () => {
    const { submit, land } = await scene();
    await submit("evil");
    const results = await land("lander", {
      fail() {
        throw new AgentqError("unsafe-path", "the tree names .git");
      },
    });
    assert.deepEqual(reasons(results), ["land failed"]);
  });

  test("a ticket that isn't for this lander stops it there", async () => {
    const { queue, run, submit, duty } = await scene();
    await submit("other");
    const end = await run(landQueue(queue, await readSnapshot(queue), {
      ...duty("lander", {}, { admit: async () => ({ verdict: "left", why: "not here" }) }),
      watch: false,
    }));
    assert.deepEqual(end, { why: "left", ticket: 0, because: "not here" });
  });

  test("what is left to others is left: no attempt is spent, and the lock stays theirs", async () => {
    const { queue, fake, run, submit, duty, land } = await scene();
    await submit("other");
    const waits: string[] = [];
    const left = { verdict: "left", why: "no sandbox here" } as const;
    const locks = () => fake.moves.filter(({ ref }) => ref === LOCK).length;
    const result = await run(waitForTicket(queue, await readSnapshot(queue), 0, {
      ...duty("m1", {}, { verify: async () => left }),
      timeout: 60_000,
      onWaiting: (text) => waits.push(text),
    }));
    assert.equal(result, null);
    assert.match(waits.at(-1)!, /left to another lander: no sandbox here/);
    const control = await readControl(queue, (await readSnapshot(queue)).lock);
    assert.equal(control.failures, null);
    // One look in a ttl of three seconds, a minute long, each an acquisition and a release.
    assert.ok(locks() <= 42, `${locks()} lock entries in a minute`);
    assert.deepEqual(reasons(await land("m2")), ["landed"]);
  });
});

test("who finds nothing to land, and a lock whose holder is dead, tidies the origin", async () => {
  const made = await scene();
  const { queue, run, duty } = made;
  const tidied: (readonly string[])[] = [];
  const tidy = (refs: readonly string[]) => Promise.resolve(void tidied.push(refs));
  const its = { ...queue, origin: { ...queue.origin, tidy } };
  const land = async () =>
    await run(landQueue(its, await readSnapshot(its), { ...duty("lander"), watch: false }));
  assert.deepEqual([(await land()).why, tidied], ["idle", []]);
  await deadHolder(made, 1);
  assert.equal((await land()).why, "idle");
  assert.deepEqual(tidied, [[BRANCH, "refs/weave/main/queue", DONE, LOCK]]);
});

describe("a rewound branch", () => {
  test("stops landers and is shown, until its tip is accepted", async () => {
    const { fake, base, queue, world, run, submit, land } = await scene();
    await submit("one");
    await land("lander");
    fake.refs.set(BRANCH, base);
    await submit("two");
    await assert.rejects(land("lander"), (error) => isAgentqError(error, "branch-rewound"));
    const status = async () =>
      await statusOf(queue, await readSnapshot(queue), {
        remote: "origin",
        limit: 10,
        submissions: [],
        contains: async () => false,
      });
    assert.equal((await status()).rewound, true);
    const control = { clock: world.clock("op"), by: "op" };
    const wrong = fakeCommit(fake, [], "elsewhere");
    await assert.rejects(
      run(resumeQueue(queue, await readSnapshot(queue), wrong, control)),
      (error) => isAgentqError(error, "tip-moved"),
    );
    await run(resumeQueue(queue, await readSnapshot(queue), base, control));
    assert.equal((await status()).rewound, false);
    assert.deepEqual(reasons(await land("lander")), ["landed"]);
    assert.equal((await status()).rewound, false);
  });

  test("isn't confused with a landing that was applied by halves", async () => {
    const { fake, base, submit, land } = await scene();
    await submit("one");
    let halves = 0;
    fake.interference = {
      push: (updates) => {
        if (!updates.some(({ ref }) => ref === BRANCH) || halves++ > 0) return "none";
        return { half: updates.flatMap(({ ref }, i) => (ref === BRANCH ? [] : [i])) };
      },
    };
    const [result] = await land("lander");
    assert.equal(halves, 2, "the branch was moved by a second push");
    assert.equal(fake.refs.get(BRANCH), result!.message.landed);
    assert.notEqual(fake.refs.get(BRANCH), base);
  });
});

describe("the lock", () => {
  test("a waiter counts from when it first saw a head, by its own clock", () => {
    let now = 1000;
    const watch = createLockWatch({
      monotonic: () => now,
      wall: () => 0,
      random: () => 0,
      sleep: async () => {},
    });
    assert.equal(watch.unchangedFor("a"), 0);
    now += 500;
    assert.equal(watch.unchangedFor("a"), 500);
    assert.equal(watch.unchangedFor("b"), 0);
    now += 500;
    assert.equal(watch.unchangedFor("a"), 0, "seen again after another: a new beginning");
  });

  test("a holder that was taken over learns it and its signal is aborted", async () => {
    const { queue, world, run } = await scene();
    const old = await acquireLock(queue, await readSnapshot(queue), {
      clock: world.clock("old"),
      me: "old",
      ttl: 3000,
    });
    const taken = await acquireLock(queue, await readSnapshot(queue), {
      clock: world.clock("new"),
      me: "new",
      ttl: 3000,
    });
    assert.ok(old && taken);
    await run(
      new Promise<void>((resolve) => {
        old.signal.addEventListener("abort", () => resolve());
      }),
    );
    assert.ok(isAgentqError(old.signal.reason, "lease-lost"));
    await run(taken.release());
    assert.equal(holderOf((await readSnapshot(queue)).lock), null);
    await old.release();
    assert.equal(holderOf((await readSnapshot(queue)).lock), null, "the loser releases nothing");
  });

  test("a holder of a long lease learns it soon, and writes nothing to learn it", async () => {
    const { fake, queue, world, run } = await scene();
    const options = { me: "old", ttl: 120_000 };
    const old = await acquireLock(queue, await readSnapshot(queue), {
      clock: world.clock("old"),
      ...options,
    });
    const clock = world.clock("other");
    await run(clock.sleep(20_000));
    assert.equal(fake.moves.filter(({ ref }) => ref === LOCK).length, 1);
    const taken = await acquireLock(queue, await readSnapshot(queue), {
      clock,
      me: "new",
      ttl: 3000,
    });
    const begun = clock.monotonic();
    await run(
      new Promise<void>((resolve) => old!.signal.addEventListener("abort", () => resolve())),
    );
    assert.ok(clock.monotonic() - begun <= 6000, `${clock.monotonic() - begun} ms later`);
    await run(taken!.release());
  });

  test("a branch that stays locked is told after a minute, whatever renewals do meanwhile", async () => {
    const { fake, submit, land, world } = await scene();
    await submit("one");
    // Each attempt takes its time, and renewals come between.
    fake.interference.step = (what) =>
      what === "push" ? world.clock("origin").sleep(700) : Promise.resolve();
    fake.interference.push = (updates) =>
      updates.some(({ ref }) => ref === BRANCH) ? { locked: BRANCH } : "none";
    const begun = world.clock("me").monotonic();
    await assert.rejects(land("lander"), { code: "ref-locked" });
    const took = world.clock("me").monotonic() - begun;
    assert.ok(took >= 60_000 && took < 90_000, `${took} ms`);
  });

  test("a lock is given back once the origin is there again", async () => {
    const { fake, queue, world, run } = await scene();
    const clock = world.clock("me");
    const held = await acquireLock(queue, await readSnapshot(queue), {
      clock,
      me: "me",
      ttl: 60_000,
    });
    const back = clock.monotonic() + 4000;
    fake.interference.push = () => clock.monotonic() < back ? "lost-request" : "none";
    await run(held!.release());
    assert.ok(clock.monotonic() >= back);
    assert.equal(holderOf((await readSnapshot(queue)).lock), null);
  });

  test("who waits for a number that has become another's hears it before that one has landed", async () => {
    const { fake, queue, world, run, submit, duty } = await scene();
    const QUEUE = "refs/weave/main/queue";
    const empty = fake.refs.get(QUEUE);
    const candidate = await submit("one");
    const clock = world.clock("me");
    await run(pauseQueue(queue, await readSnapshot(queue), "r", { clock, by: "operator" }));
    const waiting = waitForTicket(queue, await readSnapshot(queue), 0, {
      ...duty("me"),
      candidate,
      timeout: 60_000,
    });
    const swapped = (async () => {
      await clock.sleep(5000);
      // The origin is put back to what it was before, and somebody else submits.
      if (empty === undefined) fake.refs.delete(QUEUE);
      else fake.refs.set(QUEUE, empty);
      await enqueue(queue, await readSnapshot(queue), {
        candidate: fakeCommit(fake, [], "two"),
        submitter: "two",
        verifyCmd: null,
        verifyTimeout: 1,
        submission: "two",
        submittedAt: 1,
        title: null,
        drops: [],
      }, { clock, objects: fake.reader() });
    })();
    const begun = clock.monotonic();
    await assert.rejects(run(Promise.all([waiting, swapped])), { code: "ticket-unknown" });
    assert.ok(clock.monotonic() - begun < 20_000, `${clock.monotonic() - begun} ms`);
  });

  test("renewals stop with the release", async () => {
    const { fake, queue, world, run } = await scene();
    const held = await acquireLock(queue, await readSnapshot(queue), {
      clock: world.clock("me"),
      me: "me",
      ttl: 3000,
    });
    await run(world.clock("other").sleep(10_000));
    const renewed = fake.moves.filter(({ ref }) => ref === LOCK).length;
    assert.ok(renewed >= 10, `${renewed} entries in ten seconds`);
    await run(held!.release());
    await run(world.clock("other").sleep(10_000));
    assert.equal(fake.moves.filter(({ ref }) => ref === LOCK).length, renewed + 1);
  });
});
