/** An origin that refuses a publication, and refs that somebody keeps locked. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { AgentqError, isAgentqError } from "../../src/errors.ts";
import { isAncestor } from "../../src/git/history.ts";
import type { ObjectReader, Oid, RefUpdate } from "../../src/git/types.ts";
import { type Control, readControl } from "../../src/landing/control.ts";
import { cancelTicket, pauseQueue } from "../../src/landing/operator.ts";
import { landQueue } from "../../src/landing/land-queue.ts";
import { createRetry, PATIENCE_MS, type PushedNot, pushOnce } from "../../src/landing/push.ts";
import { readSnapshot } from "../../src/landing/snapshot.ts";
import { statusOf } from "../../src/landing/status.ts";
import { fakeCommit, type PushFault } from "./fake-origin.ts";
import { BRANCH, DONE, LOCK, reasons, type Scene, scene } from "./scene.ts";

const controlOf = async ({ queue }: Scene): Promise<Control> =>
  await readControl(queue, (await readSnapshot(queue)).lock);

const movesBranch = (updates: readonly RefUpdate[]) => updates.find(({ ref }) => ref === BRANCH);

const isRefused = (ticket: number, count: number) => (error: unknown) => {
  assert.ok(isAgentqError(error, "push-refused"), String(error));
  const { refused } = error.details as { refused: { ticket: number; count: number } };
  assert.deepEqual([refused.ticket, refused.count], [ticket, count]);
  assert.match(error.hint, new RegExp(`stays queued.*agentq cancel ${ticket} `));
  return true;
};

describe("an origin that refuses every landing", () => {
  test("is asked once a run at first; no ticket is lost however long it lasts", async () => {
    const made = await scene();
    const { fake, submit, land } = made;
    for (const name of ["one", "two", "three"]) await submit(name);
    let asked = 0;
    fake.interference = {
      push(updates) {
        if (!movesBranch(updates)) return "none";
        asked++;
        return { refuse: "code freeze until noon" };
      },
    };
    for (const [i, who] of ["a", "b"].entries()) {
      await assert.rejects(land(who), isRefused(0, i + 1));
    }
    assert.equal(asked, 2);
    for (let i = 3; i < 10; i++) await assert.rejects(land(`l${i}`), isRefused(0, i));
    assert.equal(fake.refs.has(DONE), false);
    const control = await controlOf(made);
    assert.equal(control.refusals?.count, 9);
    assert.match(control.refusals!.why, /code freeze until noon/);
    assert.equal(control.failures, null);

    fake.interference = {};
    assert.deepEqual(reasons(await land("z")), ["landed", "landed", "landed"]);
    assert.equal((await controlOf(made)).refusals, null);
  });

  test("until a moment before: the ticket lands, and isn't passed over", async () => {
    const { fake, submit, land } = await scene();
    for (const name of ["one", "two"]) await submit(name);
    let asked = 0;
    fake.interference = {
      // Two runs, and the first try of the third; what comes after the second ticket's checks is let through.
      push: (updates) => (movesBranch(updates) && ++asked <= 3 ? { refuse: "freeze" } : "none"),
    };
    await assert.rejects(land("a"));
    await assert.rejects(land("b"));
    assert.deepEqual(reasons(await land("c")), ["landed", "landed"]);
  });
});

/** A hook that looks into what a push brings to the branch. */
function contentHook({ fake }: Scene, bad: readonly Oid[]) {
  const hook = (updates: readonly RefUpdate[], _who: string, objects: ObjectReader): PushFault => {
    const update = movesBranch(updates);
    return update && bad.some((oid) => isAncestor(objects, oid, update.new))
      ? { refuse: "no binaries here" }
      : "none";
  };
  fake.interference = { push: hook };
  return hook;
}

describe("a ticket that the origin never takes", () => {
  test("is refused in the push that lands the next one, after so many tries", async () => {
    const made = await scene();
    const { submit, land, fake } = made;
    const bad = await submit("bad");
    await submit("good");
    await submit("better");
    contentHook(made, [bad]);
    await assert.rejects(land("a"), isRefused(0, 1));
    await assert.rejects(land("b"), isRefused(0, 2));
    const before = fake.moves.length;
    const results = await land("c");
    assert.deepEqual(reasons(results), ["land failed", "landed", "landed"]);
    assert.match(results[0]!.message.report!, /^It passed, .*no binaries here/);
    assert.match(results[0]!.message.report!, /Ticket 1, behind it, was let through/);
    assert.equal(results[1]!.message.landed, results[1]!.parents[1]);
    const moves = fake.moves.slice(before).map(({ ref }) => ref);
    const at = moves.indexOf(BRANCH);
    assert.deepEqual(moves.slice(at, at + 3), [BRANCH, DONE, LOCK], "one push for both");
    assert.equal(isAncestor(fake.reader(), bad, fake.refs.get(BRANCH)!), false);
  });

  test("is tried once a run, though the branch moves all the time", async () => {
    const made = await scene();
    const { submit, land, fake } = made;
    const bad = await submit("bad");
    await submit("good");
    contentHook(made, [bad]);
    for (const who of ["a", "b"]) await assert.rejects(land(who));
    const { push } = fake.interference;
    let tried = 0;
    fake.interference.push = (updates, who, objects) => {
      const fault = push!(updates, who, objects);
      if (typeof fault === "object" && "refuse" in fault) tried++;
      return fault;
    };
    let moves = 0;
    const results = await land("c", {
      step: async () => {
        if (moves++ >= 10) return;
        fake.refs.set(BRANCH, fakeCommit(fake, [fake.refs.get(BRANCH)!], `outside ${moves}`));
      },
    });
    assert.deepEqual(reasons(results), ["land failed", "landed"]);
    assert.ok(moves > 10);
    // Once when its turn came, and once more right before it is passed over.
    assert.equal(tried, 2);
  });

  test("status says no more that the origin refuses it once it is cancelled", async () => {
    const made = await scene();
    const { submit, land, queue, run, world } = made;
    contentHook(made, [await submit("bad")]);
    await assert.rejects(land("a"), isRefused(0, 1));
    const refused = async () =>
      (await statusOf(queue, await readSnapshot(queue), {
        remote: "origin",
        limit: 10,
        submissions: [],
        contains: async () => true,
      })).refused;
    assert.equal((await refused())?.count, 1);
    const by = { clock: world.clock("op"), by: "op" };
    await run(cancelTicket(queue, await readSnapshot(queue), 0, by));
    assert.equal(await refused(), null);
  });

  test("alone stays, and goes when something is behind it", async () => {
    const made = await scene();
    const { submit, land } = made;
    contentHook(made, [await submit("bad")]);
    for (let i = 1; i <= 5; i++) await assert.rejects(land(`l${i}`), isRefused(0, i));
    await submit("good");
    assert.deepEqual(reasons(await land("m")), ["land failed", "landed"]);
  });

  test("and more of its kind behind it, some of them refused by their checks or cancelled", async () => {
    const made = await scene();
    const { submit, land } = made;
    const bad = await submit("bad");
    await submit("red");
    const worse = await submit("worse");
    await submit("good");
    contentHook(made, [bad, worse]);
    const checks = {
      exit: ({ message }: { message: { ticket: number } }) => Number(message.ticket === 1),
    };
    for (const who of ["a", "b"]) await assert.rejects(land(who, checks));
    assert.deepEqual(reasons(await land("c", checks)), [
      "land failed",
      "verify command failed",
      "land failed",
      "landed",
    ]);
  });

  for (
    const [name, half] of [
      ["the branch", [0]],
      ["the branch and done", [0, 1]],
      ["the branch and the lock", [0, 2]],
      ["done", [1]],
      ["done and the lock", [1, 2]],
      ["the lock", [2]],
    ] as const
  ) {
    test(`and an origin that dies with only ${name} moved: the next lander makes it whole`, async () => {
      const made = await scene();
      const { submit, land, fake, queue } = made;
      const bad = await submit("bad");
      const good = await submit("good");
      const hook = contentHook(made, [bad]);
      for (const who of ["a", "b"]) await assert.rejects(land(who));
      let died = false;
      fake.interference = {
        push(updates, who, objects) {
          if (died) throw new AgentqError("internal", "the lander is gone too");
          const verdict = hook(updates, who, objects);
          if (verdict !== "none" || !movesBranch(updates)) return verdict;
          died = true;
          return { half };
        },
      };
      await land("c").catch(() => {});
      assert.ok(died);
      fake.interference = { push: hook };
      await made.run(
        landQueue(queue, await readSnapshot(queue), { ...made.duty("d"), watch: false }),
      ).catch((error) => assert.ok(isAgentqError(error, "push-refused"), String(error)));
      // Where nothing but the lock had moved, the count began anew.
      for (const who of ["e", "f"]) await land(who).catch(() => {});
      const { done, next } = await readSnapshot(queue);
      assert.equal(next, 2);
      const first = await queue.chains.find("done", done!, 0);
      assert.equal(first.message.reason, "land failed");
      assert.equal(done!.message.reason, "landed");
      assert.equal(done!.message.candidate, good);
      assert.equal(done!.message.landed, fake.refs.get(BRANCH));
    });
  }
});

describe("a ref that stays locked", () => {
  for (const ref of [LOCK, BRANCH]) {
    test(`${ref}: land ends with that error after a minute`, async () => {
      const { fake, submit, land, world } = await scene();
      await submit("one");
      fake.interference = {
        push: (updates) => updates.some((one) => one.ref === ref) ? { locked: ref } : "none",
      };
      const clock = world.clock("me");
      const began = clock.monotonic();
      await assert.rejects(land("me"), (error) => isAgentqError(error, "ref-locked"));
      const took = clock.monotonic() - began;
      assert.ok(took >= 60_000 && took < 90_000, `${took} ms`);
    });
  }

  test("for half a minute is waited for by land, and for longer by nobody who asked for one push", async () => {
    const { fake, submit, land, world, queue, run } = await scene();
    await submit("one");
    const clock = world.clock("me");
    const until = clock.monotonic() + 40_000;
    fake.interference = {
      push: () => clock.monotonic() < until ? { locked: LOCK } : "none",
    };
    const control = { clock, by: "op" };
    await assert.rejects(
      run(pauseQueue(queue, await readSnapshot(queue), null, control)),
      (error) => isAgentqError(error, "ref-locked") && clock.monotonic() < until,
    );
    assert.deepEqual(reasons(await land("me")), ["landed"]);
  });

  test("is no error while others get past it, and one as soon as nobody does", async () => {
    const { fake, world, queue, run } = await scene();
    fake.interference = { push: () => ({ locked: BRANCH }) };
    const clock = world.clock("me");
    const retry = createRetry(clock, { what: "t", start: "0", patience: PATIENCE_MS });
    const tip = fake.refs.get(BRANCH)!;
    const once = async (place: string) => {
      const outcome = await pushOnce(queue, {
        updates: [{ ref: BRANCH, old: tip, new: tip }],
        commits: [],
      });
      assert.equal(outcome.status, "unknown");
      await retry.again(place, outcome as PushedNot);
    };
    const began = clock.monotonic();
    for (let i = 1; clock.monotonic() - began < 4 * PATIENCE_MS; i++) await run(once(String(i)));
    const stopped = clock.monotonic();
    await assert.rejects(
      (async () => {
        for (;;) await run(once("still"));
      })(),
      (error) => isAgentqError(error, "ref-locked"),
    );
    const took = clock.monotonic() - stopped;
    assert.ok(took >= PATIENCE_MS && took < PATIENCE_MS + 5000, `${took} ms`);
  });
});
