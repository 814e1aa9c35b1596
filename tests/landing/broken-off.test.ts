/** An origin that breaks off, or turns pushes down with an error status: borne for a while, then told. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { describe, test } from "node:test";
import { AgentqError, isAgentqError } from "../../src/errors.ts";
import type { Origin, PushOutcome } from "../../src/git/types.ts";
import { examineOrigin } from "../../src/landing/doctor.ts";
import type { DutyOptions } from "../../src/landing/duty.ts";
import { landQueue } from "../../src/landing/land-queue.ts";
import { waitForTicket } from "../../src/landing/wait-for-ticket.ts";
import { enqueue } from "../../src/landing/enqueue.ts";
import { holderOf } from "../../src/landing/held-lock.ts";
import { openQueue, type Queue, readSnapshot } from "../../src/landing/snapshot.ts";
import { createFakeOrigin, fakeCommit } from "./fake-origin.ts";
import { createFakeWorkshop } from "./fake-workshop.ts";
import { createWorld } from "./world.ts";

async function scene() {
  const world = createWorld(11);
  const fake = createFakeOrigin();
  const base = fakeCommit(fake, [], "base");
  fake.refs.set("refs/heads/main", base);
  const origin = fake.as("me");
  const { queue } = await openQueue(origin, { namespace: "refs/weave", branch: "main" });
  const run = <T>(work: Promise<T>) => world.run(work, { orderly: true, maxSteps: 20_000 });
  const clock = world.clock("me");
  const submit = async (to: Queue = queue) =>
    await run(enqueue(to, await readSnapshot(queue), {
      candidate: fakeCommit(fake, [base], "work"),
      submitter: "me",
      verifyCmd: null,
      verifyTimeout: 1,
      submission: "one",
      submittedAt: 1,
      title: null,
      drops: [],
    }, { clock, objects: fake.reader() }));
  const said: string[] = [];
  const duty: DutyOptions = {
    clock,
    me: "me",
    ttl: 3000,
    poll: 1000,
    attempts: 3,
    workshop: () => Promise.resolve(createFakeWorkshop(fake, {})),
    signal: new AbortController().signal,
    onProgress: (text) => said.push(text),
  };
  return { fake, origin, queue, run, submit, duty, clock, said };
}

const broken = (
  code: "origin-unreachable" | "origin-timeout" | "server-error" | "protocol-error",
) => new AgentqError(code, "it broke off", { retryable: true });

describe("a turn that ends in the middle because of the origin", () => {
  for (
    const code of [
      "origin-unreachable",
      "origin-timeout",
      "server-error",
      "protocol-error",
    ] as const
  ) {
    for (const operation of ["refs", "read", "push"] as const) {
      test(`${code} at ${operation}: wait and land go on`, async () => {
        for (const waiting of [true, false]) {
          const { fake, queue, run, submit, duty, said } = await scene();
          await submit();
          const snapshot = await readSnapshot(queue);
          let calls = 0;
          fake.interference = {
            // The first calls of a turn go well, so that it breaks off at different places of it.
            step: (what) =>
              what === operation && ++calls % 3 === 0 && calls < 12
                ? Promise.reject(broken(code))
                : Promise.resolve(),
          };
          if (waiting) {
            const result = await run(
              waitForTicket(queue, snapshot, 0, { ...duty, timeout: 300_000 }),
            );
            assert.equal(result?.message.reason, "landed", said.join("\n"));
          } else {
            assert.deepEqual(await run(landQueue(queue, snapshot, { ...duty, watch: false })), {
              why: "idle",
            });
          }
          fake.interference = {};
          assert.equal(holderOf((await readSnapshot(queue)).lock), null);
        }
      });
    }
  }

  test("an outage right behind the ticket's push is waited through", async () => {
    const { fake, queue, run, submit, duty } = await scene();
    await submit();
    let failing = 20;
    fake.interference = {
      step: (what) =>
        what === "refs" && failing-- > 0
          ? Promise.reject(broken("origin-unreachable"))
          : Promise.resolve(),
    };
    const result = await run(waitForTicket(queue, null, 0, { ...duty, timeout: 300_000 }));
    assert.equal(result?.message.reason, "landed");
    assert.equal(await run(waitForTicket(queue, null, 0, { ...duty, timeout: 1000 })), result);
    await assert.rejects(
      run(waitForTicket(queue, null, 1, { ...duty, timeout: 1000 })),
      (error) => isAgentqError(error, "ticket-unknown"),
    );
    failing = Infinity;
    assert.equal(await run(waitForTicket(queue, null, 0, { ...duty, timeout: 5000 })), null);
  });

  test("a lander whose lock couldn't be given back goes on with it at once", async () => {
    for (const waiting of [true, false]) {
      for (const answered of [true, false]) {
        const { fake, queue, run, submit, duty, clock } = await scene();
        await submit();
        const snapshot = await readSnapshot(queue);
        // The origin is gone right behind the push of the lock, answered or not, for a few seconds.
        let until = Infinity;
        let out = false;
        let answers = answered ? 1 : 0;
        const step = () =>
          out && clock.monotonic() < until && answers-- <= 0
            ? Promise.reject(broken("origin-unreachable"))
            : Promise.resolve();
        fake.interference = {
          step,
          push: () => {
            if (out) return "none";
            out = true;
            until = clock.monotonic() + 6000;
            return "none";
          },
        };
        const ours = { ...duty, ttl: 600_000 };
        const began = clock.monotonic();
        if (waiting) {
          const result = await run(
            waitForTicket(queue, snapshot, 0, { ...ours, timeout: 3_600_000 }),
          );
          assert.equal(result?.message.reason, "landed");
        } else {
          const ended = await run(landQueue(queue, snapshot, { ...ours, watch: false }));
          assert.deepEqual(ended, { why: "idle" });
        }
        assert.ok(clock.monotonic() - began < 60_000, "not the ttl of its own lock");
        fake.interference = {};
        assert.equal(holderOf((await readSnapshot(queue)).lock), null);
        for (const move of fake.moves.filter(({ ref }) => ref === queue.names.lock)) {
          const entry = Buffer.from(fake.objects.get(move.new)!.data).toString();
          assert.doesNotMatch(entry, /"deaths":\s*\{/, "nobody died of the ticket");
        }
      }
    }
  });

  test("what never gets better is an error in the end", async () => {
    const { fake, queue, run, submit, duty, clock } = await scene();
    await submit();
    const snapshot = await readSnapshot(queue);
    fake.interference = {
      step: (what) =>
        what === "refs" ? Promise.reject(broken("protocol-error")) : Promise.resolve(),
    };
    const began = clock.monotonic();
    await assert.rejects(
      run(waitForTicket(queue, snapshot, 0, { ...duty, timeout: 3_600_000 })),
      (error) => isAgentqError(error, "protocol-error"),
    );
    assert.ok(clock.monotonic() - began < 200_000);
  });

  test("an answer that is wrong ends it at once", async () => {
    const { fake, queue, run, submit, duty } = await scene();
    await submit();
    const snapshot = await readSnapshot(queue);
    let asked = 0;
    const wrong = new AgentqError("protocol-error", "no git server");
    fake.interference = {
      step: (what) => what === "refs" && ++asked > 0 ? Promise.reject(wrong) : Promise.resolve(),
    };
    await assert.rejects(
      run(landQueue(queue, snapshot, { ...duty, watch: true })),
      (error) => error === wrong,
    );
    assert.equal(asked, 1);
  });
});

describe("a server that answers pushes with an error status", () => {
  const said = (status: number, retryable: boolean, more = {}) =>
    new AgentqError("server-error", `x answered the push with HTTP ${status}.`, {
      retryable,
      details: { status, remoteOutput: "down until noon", ...more },
    });
  const turning = (queue: Queue, fault: AgentqError) => {
    const pushes: number[] = [];
    const push = (): Promise<PushOutcome> => {
      pushes.push(1);
      return Promise.resolve({ status: "unknown", message: "no report", cause: fault });
    };
    const origin: Origin = { ...queue.origin, push };
    return { pushes, origin, queue: { ...queue, origin } };
  };
  const inItsWords = (status: number) => (error: unknown) =>
    isAgentqError(error, "server-error") && error.message.includes(`HTTP ${status}`) &&
    error.message.includes("down until noon") && error.details?.status === status;

  test("is told with its status and words after a few tries", async () => {
    const { queue, submit } = await scene();
    const down = turning(queue, said(500, true));
    await assert.rejects(submit(down.queue), inItsWords(500));
    assert.equal(down.pushes.length, 6);
  });

  for (const status of [502, 503, 504]) {
    test(`${status} again and again says nothing of what may be done later`, async () => {
      const { queue, submit } = await scene();
      const down = turning(queue, said(status, true));
      await assert.rejects(
        submit(down.queue),
        (error) =>
          isAgentqError(error, "push-unknown") && error.retryable &&
          error.message.includes(`HTTP ${status}`) && error.message.includes("down until noon"),
      );
      assert.equal(down.pushes.length, 6);
    });
  }

  for (const status of [400, 403, 504]) {
    test(`a push that took effect and was answered with ${status} makes one ticket`, async () => {
      const { fake, queue, submit } = await scene();
      let first = true;
      const push: Origin["push"] = async (updates, objects, options) => {
        const outcome = await queue.origin.push(updates, objects, options);
        if (!first) return outcome;
        first = false;
        // And somebody else's ticket comes right behind it.
        await enqueue(queue, await readSnapshot(queue), {
          candidate: fakeCommit(fake, [], "other"),
          submitter: "other",
          verifyCmd: null,
          verifyTimeout: 1,
          submission: "two",
          submittedAt: 1,
          title: null,
          drops: [],
        }, { clock: createWorld(1).clock("other"), objects: fake.reader() });
        return { status: "unknown", message: "no report", cause: said(status, status >= 500) };
      };
      const ticket = await submit({ ...queue, origin: { ...queue.origin, push } });
      assert.equal(ticket.message.ticket, 0);
      assert.equal((await readSnapshot(queue)).queue?.message.ticket, 1);
    });
  }

  test("is told at once where trying again can't help", async () => {
    const { queue, submit } = await scene();
    const down = turning(queue, said(405, false));
    await assert.rejects(submit(down.queue), inItsWords(405));
    assert.equal(down.pushes.length, 1);
  });

  test("is left alone for as long as it says", async () => {
    const { queue, submit, clock } = await scene();
    const down = turning(queue, said(500, true, { retryAfter: 4 }));
    const began = clock.monotonic();
    await assert.rejects(submit(down.queue), inItsWords(500));
    assert.ok(clock.monotonic() - began >= 20_000);
  });

  test("is no faster lander: landing ends with its words", async () => {
    const { queue, run, submit, duty } = await scene();
    await submit();
    const down = turning(queue, said(503, true));
    const snapshot = await readSnapshot(queue);
    await assert.rejects(
      run(landQueue(down.queue, snapshot, { ...duty, watch: false })),
      inItsWords(503),
    );
  });

  test("fails doctor's check", async () => {
    const { queue } = await scene();
    const { origin } = turning(queue, said(503, true));
    const examine = (opened: Origin) =>
      examineOrigin(() => Promise.resolve(opened), {
        namespace: "refs/weave",
        branch: "main",
        by: "doctor",
        push: true,
        clone: null,
        contains: () => Promise.reject(new Error("nothing was landed")),
      });
    const push = (await examine(origin)).find(({ name }) => name === "push")!;
    assert.equal(push.status, "fail");
    assert.match(push.message, /HTTP 503[^]*down until noon/);
    const remark = { message: "not its owner's", hint: "share it" };
    const owner = (await examine({ ...queue.origin, remark: () => remark }))
      .find(({ name }) => name === "origin-owner");
    assert.deepEqual(owner, { name: "origin-owner", status: "warn", ...remark });
  });
});
