/** What the operator said, when an origin applies the push that settles it by halves: every subset of its refs. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { AgentqError, isAgentqError } from "../../src/errors.ts";
import type { RefUpdate } from "../../src/git/types.ts";
import { readControl } from "../../src/landing/control.ts";
import { cancelTicket, pauseQueue, resumeQueue } from "../../src/landing/operator.ts";
import { landQueue } from "../../src/landing/land-queue.ts";
import { readSnapshot } from "../../src/landing/snapshot.ts";
import { statusOf } from "../../src/landing/status.ts";
import { fakeCommit } from "./fake-origin.ts";
import { BRANCH, DONE, LOCK, reasons, type Scene, scene } from "./scene.ts";

const operator = ({ world }: Scene) => ({ clock: world.clock("op"), by: "op" });

/** The first push that moves `done` is applied to `refs` alone; then its lander dies, or goes on. */
async function halfLanding(made: Scene, refs: readonly string[], dies: boolean): Promise<void> {
  const { fake, queue, run, duty, world } = made;
  let halves = 0;
  fake.interference = {
    push: (updates: readonly RefUpdate[]) => {
      if (!updates.some(({ ref }) => ref === DONE) || halves++ > 0) return "none";
      return { half: updates.flatMap(({ ref }, i) => (refs.includes(ref) ? [i] : [])) };
    },
    // One that is dead hears of nothing any more.
    step: async (_operation, who) => {
      if (dies && halves > 0 && who === "first") await new Promise(() => {});
    },
  };
  const its = { ...queue, origin: fake.as("first") };
  const first = landQueue(its, await readSnapshot(queue), { ...duty("first"), watch: false });
  await run(dies ? Promise.race([first, world.clock("op").sleep(60_000)]) : first);
  assert.ok(halves > 0);
  fake.interference = {};
}

const subsets = (refs: readonly string[]) =>
  Array.from({ length: 2 ** refs.length - 1 }, (_, bits) => refs.filter((_, i) => bits & (1 << i)));

for (const dies of [false, true]) {
  const then = dies ? "and its lander dies" : "and its lander goes on";

  describe(`a cancellation whose result is applied by halves, ${then}`, () => {
    for (const refs of subsets([DONE, LOCK])) {
      test(`[${refs.join(", ")}]: the ticket never lands`, async () => {
        const made = await scene();
        const { queue, submit, land, run, fake } = made;
        const candidate = await submit("one");
        await submit("two");
        await run(cancelTicket(queue, await readSnapshot(queue), 0, operator(made)));
        await halfLanding(made, refs, dies);
        await land("second");
        const { done } = await readSnapshot(queue);
        const result = await queue.chains.find("done", done!, 0);
        assert.equal(result.message.reason, "cancelled");
        assert.ok(fake.moves.every(({ ref, new: next }) => ref !== BRANCH || next !== candidate));
        assert.equal((await queue.chains.find("done", done!, 1)).message.reason, "landed");
      });
    }
  });

  describe(`a landing on an accepted tip that is applied by halves, ${then}`, () => {
    for (const refs of subsets([BRANCH, DONE, LOCK])) {
      test(`[${refs.join(", ")}]: is finished or made again, and nobody is asked twice`, async () => {
        const made = await scene();
        const { queue, submit, land, run, fake, base } = made;
        await submit("one");
        await land("before");
        fake.refs.set(BRANCH, base);
        await run(resumeQueue(queue, await readSnapshot(queue), base, operator(made)));
        const candidate = await submit("two");
        await halfLanding(made, refs, dies);
        await land("second");
        const now = await readSnapshot(queue);
        const { message } = now.done!;
        assert.deepEqual([message.ticket, message.reason], [1, "landed"]);
        assert.equal(now.tip, candidate, "what is told as landed is on the branch");
        // From here on it is that landing which the branch must contain.
        fake.refs.set(BRANCH, fakeCommit(fake, [base], "elsewhere"));
        const { rewound } = await statusOf(queue, await readSnapshot(queue), {
          remote: "origin",
          limit: 1,
          submissions: [],
          contains: async (_commit, ancestor) => ancestor === base,
        });
        assert.equal(rewound, true, "a rewind after it is seen");
      });
    }
  });
}

test("a branch rewound to the same tip twice is accepted twice", async () => {
  const made = await scene();
  const { queue, submit, land, run, fake, base } = made;
  await submit("one");
  await land("lander");
  for (const name of ["two", "three"]) {
    fake.refs.set(BRANCH, base);
    await run(resumeQueue(queue, await readSnapshot(queue), base, operator(made)));
    await submit(name);
    assert.deepEqual(reasons(await land("lander")), ["landed"]);
  }
});

test("a pause whose origin goes away before its answer may have been made, and says so", async () => {
  for (const fault of ["lost-answer", "lost-request"] as const) {
    const made = await scene();
    const { fake, queue, run } = made;
    const snapshot = await readSnapshot(queue);
    let away = false;
    fake.interference = {
      push: () => {
        away = true;
        return fault;
      },
      step: async (operation) => {
        if (!away || operation !== "refs") return;
        throw new AgentqError("origin-unreachable", "it is away");
      },
    };
    await assert.rejects(
      run(pauseQueue(queue, snapshot, "now", operator(made))),
      (error) => isAgentqError(error, "push-unknown") && /it is away/.test(error.message),
    );
    fake.interference = {};
    const { lock } = await readSnapshot(queue);
    assert.equal((await readControl(queue, lock)).paused !== null, fault === "lost-answer");
  }
});

test("a pause that comes while a landing is finished keeps the branch where it is", async () => {
  const made = await scene();
  const { queue, submit, land, run, fake, base, duty } = made;
  await submit("one");
  let halves = 0;
  let pushes = 0;
  fake.interference = {
    push: (updates) => {
      if (updates.some(({ ref }) => ref === DONE) && halves++ === 0) {
        return { half: updates.flatMap(({ ref }, i) => (ref === DONE ? [i] : [])) };
      }
      return "none";
    },
    step: async (operation, who) => {
      // After the lander's last look at the queue, before the push that moves the branch.
      if (operation !== "push" || who !== "lander" || halves !== 1 || ++pushes < 2) return;
      halves++;
      await pauseQueue(queue, await readSnapshot(queue), null, operator(made));
    },
  };
  const its = { ...queue, origin: fake.as("lander") };
  await run(landQueue(its, await readSnapshot(queue), { ...duty("lander"), watch: false }));
  assert.equal(fake.refs.get(BRANCH), base);
  fake.interference = {};
  const before = await readSnapshot(queue);
  assert.ok((await readControl(queue, before.lock)).paused);
  await run(resumeQueue(queue, before, null, operator(made)));
  await land("lander");
  assert.equal(fake.refs.get(BRANCH), before.done!.message.landed);
});

describe("a landing of which the branch alone was moved, and that others have pushed on top of", () => {
  for (const cancelled of [false, true]) {
    test(`is recorded as that, and what follows lands${cancelled ? ", though cancelled by then" : ""}`, async () => {
      const made = await scene();
      const { fake, queue, submit, land } = made;
      await submit("one");
      assert.deepEqual(reasons(await land("zero")), ["landed"]);
      const tip = fake.refs.get(BRANCH)!;
      await submit("two");
      await halfLanding(made, [BRANCH], true);
      const moved = fake.refs.get(BRANCH)!;
      assert.notEqual(moved, tip);
      let top = moved;
      for (let i = 0; i < 5; i++) top = fakeCommit(fake, [top], `by hand ${i}`);
      fake.refs.set(BRANCH, top);
      if (cancelled) {
        await made.run(cancelTicket(queue, await readSnapshot(queue), 1, operator(made)));
      }
      const { message } = (await land("second"))[0]!;
      assert.deepEqual([message.reason, message.landed, message.tip], ["landed", moved, tip]);
      assert.equal(fake.refs.get(BRANCH), top);
      assert.equal((await readSnapshot(queue)).unacked, 0);
      await submit("three");
      assert.deepEqual(reasons(await land("third")), ["landed"]);
    });
  }

  test("a merge of the same candidate that somebody made by hand is none", async () => {
    const made = await scene();
    const { fake, submit, land } = made;
    const candidate = await submit("two");
    const other = fakeCommit(fake, [made.base], "other");
    const merged = fakeCommit(fake, [other, candidate], "merged by hand");
    fake.refs.set(BRANCH, fakeCommit(fake, [merged], "on top"));
    assert.deepEqual(reasons(await land("second")), ["nothing to land"]);
  });
});
