/**
 * The protocol against random interleavings of submitters, landers, cancels, pauses, pushes from
 * outside, deaths, lost answers and half-applied pushes: whatever happens, the queue's laws hold.
 */
import assert from "node:assert/strict";
import process from "node:process";
import { test } from "node:test";
import fc from "fast-check";
import { AgentqError } from "../../src/errors.ts";
import { isAncestor } from "../../src/git/history.ts";
import type { Oid } from "../../src/git/types.ts";
import { createChainReader, type ResultEntry, type TicketEntry } from "../../src/landing/chain.ts";
import { cancelTicket, pauseQueue, resumeQueue } from "../../src/landing/operator.ts";
import type { DutyOptions } from "../../src/landing/duty.ts";
import { landQueue } from "../../src/landing/land-queue.ts";
import { waitForTicket } from "../../src/landing/wait-for-ticket.ts";
import { enqueue } from "../../src/landing/enqueue.ts";
import type { Lock } from "../../src/landing/messages.ts";
import { openQueue, readSnapshot } from "../../src/landing/snapshot.ts";
import { createFakeOrigin, fakeCommit, type FakeOrigin, type PushFault } from "./fake-origin.ts";
import { createFakeWorkshop } from "./fake-workshop.ts";
import { createWorld, type World } from "./world.ts";

const BRANCH = "refs/heads/main";
const QUEUE = "refs/weave/main/queue";
const DONE = "refs/weave/main/done";
const LOCK = "refs/weave/main/lock";

interface Plan {
  seed: number;
  submitters: number;
  landers: number;
  cancels: number;
  pauses: number;
  outside: number;
  kills: number;
  /** Chances in a thousand, a push. */
  lostAnswer: number;
  lostRequest: number;
  half: number;
  /** Of those that move the branch. */
  refuse: number;
}

const plans: fc.Arbitrary<Plan> = fc.record({
  seed: fc.integer({ min: 0, max: 0xffffffff }),
  submitters: fc.integer({ min: 1, max: 5 }),
  landers: fc.integer({ min: 0, max: 2 }),
  cancels: fc.integer({ min: 0, max: 2 }),
  pauses: fc.integer({ min: 0, max: 1 }),
  outside: fc.integer({ min: 0, max: 2 }),
  kills: fc.integer({ min: 0, max: 3 }),
  lostAnswer: fc.constantFrom(0, 0, 60),
  lostRequest: fc.constantFrom(0, 0, 60),
  half: fc.constantFrom(0, 0, 60, 200),
  refuse: fc.constantFrom(0, 0, 300, 700),
});

interface Observed {
  readonly fake: FakeOrigin;
  readonly base: Oid;
  readonly verified: Set<string>;
  readonly outside: Set<Oid>;
  /** Ticket → how many moves there were when its cancellation was acknowledged. */
  readonly cancelled: Map<number, number>;
  readonly pausedBetween: [number, number][];
  readonly answers: { ticket: TicketEntry; result: ResultEntry }[];
  readonly submissions: string[];
  halves: boolean;
  /** A push from outside came on top of a half-applied landing: an operator had to decide. */
  rewound: boolean;
}

async function live(plan: Plan): Promise<Observed> {
  const world = createWorld(plan.seed);
  const fake = createFakeOrigin();
  const base = fakeCommit(fake, [], "base");
  fake.refs.set(BRANCH, base);
  const seen: Observed = {
    fake,
    base,
    verified: new Set(),
    outside: new Set(),
    cancelled: new Map(),
    pausedBetween: [],
    answers: [],
    submissions: [],
    halves: false,
    rewound: false,
  };
  fake.interference = {
    step: (_operation, who) => world.turn(who),
    push(updates, who) {
      if (updates.some(({ ref }) => ref === BRANCH)) {
        assertHolder(fake, who);
        if (world.random() * 1000 < plan.refuse) return { refuse: "not now" };
      }
      return faultFor(plan, world, updates.length, seen);
    },
  };
  const actors = startActors(plan, world, seen);
  // A pauser that dies leaves the queue paused, as it should: nobody would ever come back.
  const victims = [...actors.keys()].filter((who) => /^[slc]/.test(who));
  let kills = plan.kills;
  world.onStep = () => {
    if (kills > 0 && world.random() < 0.01 && victims.length > 0) {
      kills--;
      const [victim] = victims.splice(Math.floor(world.random() * victims.length), 1);
      world.kill(victim!);
      actors.get(victim!)!.end();
    }
  };
  await world.run(Promise.all([...actors.values()].map((actor) => actor.done)), {
    maxSteps: 60_000,
  });
  // Afterwards the weather is fine and one lander goes on: nothing may be stuck.
  world.onStep = () => {};
  fake.interference = { step: (_operation, who) => world.turn(who) };
  await world.run(settle(world, seen), { orderly: true, maxSteps: 20_000 });
  return seen;
}

/** The branch moves only by the hand of the lock's holder. */
function assertHolder(fake: FakeOrigin, who: string): void {
  const { data } = fake.objects.get(fake.refs.get(LOCK)!)!;
  const text = new TextDecoder().decode(data);
  const lock = JSON.parse(text.slice(text.indexOf("\n\n") + 2)) as Lock;
  assert.equal(lock.holder, who, "the branch was pushed by one who doesn't hold the lock");
}

function faultFor(plan: Plan, world: World, updates: number, seen: Observed): PushFault {
  const roll = world.random() * 1000;
  if (roll < plan.lostAnswer) return "lost-answer";
  if (roll < plan.lostAnswer + plan.lostRequest) return "lost-request";
  if (updates > 1 && roll < plan.lostAnswer + plan.lostRequest + plan.half) {
    seen.halves = true;
    return {
      half: Array.from({ length: updates }, (_, i) => i).filter(() => world.random() < 0.5),
    };
  }
  return "none";
}

interface Actor {
  readonly done: Promise<void>;
  readonly end: () => void;
}

function startActors(plan: Plan, world: World, seen: Observed): Map<string, Actor> {
  const actors = new Map<string, Actor>();
  const start = (who: string, live: () => Promise<void>) => {
    let end = () => {};
    const killed = new Promise<void>((resolve) => end = resolve);
    const lived = world.turn(who).then(live).catch((error) => {
      // The only ways to give up that bad weather allows.
      const allowed = ["push-unknown", "origin-stuck", "push-refused"];
      if (error instanceof AgentqError && allowed.includes(error.code)) return;
      if (isBuried(error, seen)) return;
      throw error;
    });
    actors.set(who, { done: Promise.race([lived, killed]), end });
  };
  for (let i = 0; i < plan.submitters; i++) start(`s${i}`, () => submit(world, seen, `s${i}`, i));
  for (let i = 0; i < plan.landers; i++) start(`l${i}`, () => land(world, seen, `l${i}`));
  for (let i = 0; i < plan.cancels; i++) start(`c${i}`, () => cancel(world, seen, `c${i}`, plan));
  for (let i = 0; i < plan.pauses; i++) start(`p${i}`, () => pause(world, seen, `p${i}`));
  for (let i = 0; i < plan.outside; i++) start(`outsider${i}`, () => outside(world, seen, i));
  return actors;
}

/**
 * `done` says landed X on T, the branch is not there yet, and somebody pushes to T: the branch lacks X
 * for good, which landers rightly don't decide by themselves.
 */
function isBuried(error: unknown, seen: Observed): boolean {
  if (!(error instanceof AgentqError && error.code === "branch-rewound")) return false;
  if (!seen.halves || seen.outside.size === 0) return false;
  seen.rewound = true;
  return true;
}

function duty(world: World, seen: Observed, who: string): DutyOptions {
  const workshop = createFakeWorkshop(seen.fake, {
    step: () => world.turn(who),
    exit: (ticket) => Number.parseInt(ticket.message.candidate.slice(0, 2), 16) % 5 === 0 ? 1 : 0,
    verified: (commit, tip) => seen.verified.add(`${commit} ${tip}`),
  });
  return {
    clock: world.clock(who),
    me: who,
    ttl: 3000,
    poll: 1000,
    attempts: 3,
    workshop: async () => workshop,
    signal: new AbortController().signal,
  };
}

async function open(seen: Observed, who: string) {
  return await openQueue(seen.fake.as(who), { namespace: "refs/weave", branch: "main" });
}

async function submit(world: World, seen: Observed, who: string, n: number): Promise<void> {
  const options = duty(world, seen, who);
  const { queue, snapshot } = await open(seen, who);
  const candidate = fakeCommit(seen.fake, [snapshot.tip!], `work ${n} of ${who}`);
  seen.submissions.push(`sub-${who}`);
  const ticket = await enqueue(queue, snapshot, {
    candidate,
    submitter: who,
    verifyCmd: null,
    verifyTimeout: 1,
    submission: `sub-${who}`,
    submittedAt: 1,
    title: null,
    drops: [],
  }, { clock: options.clock, objects: seen.fake.reader() });
  const now = await readSnapshot(queue);
  const result = await waitForTicket(queue, now, ticket.message.ticket, {
    ...options,
    timeout: 1e12,
  });
  assert.ok(result, "a submitter that waits for ever gets its result");
  seen.answers.push({ ticket, result });
}

async function land(world: World, seen: Observed, who: string): Promise<void> {
  const { queue, snapshot } = await open(seen, who);
  await landQueue(queue, snapshot, { ...duty(world, seen, who), watch: false });
}

async function cancel(world: World, seen: Observed, who: string, plan: Plan): Promise<void> {
  const { queue, snapshot } = await open(seen, who);
  const ticket = Math.floor(world.random() * plan.submitters);
  try {
    const result = await cancelTicket(queue, snapshot, ticket, {
      clock: world.clock(who),
      by: who,
    });
    if (result === null) seen.cancelled.set(ticket, seen.fake.moves.length);
  } catch (error) {
    if (!(error instanceof AgentqError && error.code === "ticket-unknown")) throw error;
  }
}

async function pause(world: World, seen: Observed, who: string): Promise<void> {
  const clock = world.clock(who);
  const { queue, snapshot } = await open(seen, who);
  await pauseQueue(queue, snapshot, "because", { clock, by: who });
  const from = seen.fake.moves.length;
  await clock.sleep(20_000);
  const to = seen.fake.moves.length;
  seen.pausedBetween.push([from, to]);
  await resumeQueue(queue, await readSnapshot(queue), null, { clock, by: who });
}

async function outside(world: World, seen: Observed, n: number): Promise<void> {
  await world.clock(`outsider${n}`).sleep(world.random() * 20_000);
  const { fake } = seen;
  const old = fake.refs.get(BRANCH)!;
  const made = fakeCommit(fake, [old], `outside ${n} on ${old}`);
  seen.outside.add(made);
  fake.refs.set(BRANCH, made);
  fake.moves.push({ ref: BRANCH, old, new: made, who: "outside" });
}

async function settle(world: World, seen: Observed): Promise<void> {
  const who = "settler";
  const { queue, snapshot } = await open(seen, who);
  const control = { clock: world.clock(who), by: who };
  await resumeQueue(queue, snapshot, null, control);
  const options = { ...duty(world, seen, who), watch: false };
  const end = await landQueue(queue, await readSnapshot(queue), options).catch(async (error) => {
    if (!isBuried(error, seen)) throw error;
    const now = await readSnapshot(queue);
    await resumeQueue(queue, now, now.tip, control);
    return await landQueue(queue, await readSnapshot(queue), options);
  });
  assert.equal(end.why, "idle");
}

async function checkLaws(seen: Observed): Promise<void> {
  const { fake } = seen;
  const chains = createChainReader(fake.as("law"));
  fake.interference = {};
  const walk = async <C extends "queue" | "done">(chain: C, ref: string) => {
    const entries = [];
    const head = fake.refs.get(ref);
    let at = head ? (await chains.read(chain, [head]))[0]! : null;
    for (; at; at = await chains.before(chain, at)) entries.unshift(at);
    return entries;
  };
  const tickets = await walk("queue", QUEUE);
  const results = await walk("done", DONE);
  assert.deepEqual(tickets.map((t) => t.message.ticket), tickets.map((_, i) => i));
  assert.deepEqual(results.map((r) => r.message.ticket), tickets.map((_, i) => i));
  const submissions = tickets.map((t) => t.message.agentq!.submission);
  assert.equal(new Set(submissions).size, submissions.length, "a submission was enqueued twice");

  const reader = fake.reader();
  const landed = results.filter((r) => r.message.landed);
  for (const { message } of landed) {
    assert.equal(message.candidate, tickets[message.ticket]!.message.candidate);
    assert.ok(
      seen.verified.has(`${message.landed} ${message.tip}`),
      "landed without being verified",
    );
    assert.ok(isAncestor(reader, message.tip, message.landed!), "not a fast-forward");
    assert.ok(
      seen.rewound || (seen.halves && seen.outside.size > 0) ||
        isAncestor(reader, message.landed!, fake.refs.get(BRANCH)!),
      "a landed commit isn't on the branch",
    );
  }
  const moves = fake.moves.filter(({ ref }) => ref === BRANCH);
  for (const { old, new: next, who } of moves) {
    assert.ok(isAncestor(reader, old!, next), "the branch was moved back");
    if (who === "outside") continue;
    const known = landed.some((r) => r.message.landed === next && r.message.tip === old);
    assert.ok(known, "the branch moved to something that is no landed result");
  }
  const heads = new Set(fake.moves.filter(({ ref }) => ref === DONE).map((move) => move.new));
  for (const { oid, message } of results) {
    if (!message.report?.startsWith("It passed, and could not be published")) continue;
    assert.ok(!heads.has(oid), "a ticket was given up with none landed in its place");
  }
  for (const [ticket, at] of seen.cancelled) {
    const { message } = results[ticket]!;
    const later = fake.moves.slice(at).some(({ ref, new: next }) =>
      ref === BRANCH && next === message.landed
    );
    assert.ok(!later, "a cancelled ticket landed afterwards");
    if (!seen.halves) assert.equal(message.reason, "cancelled");
  }
  for (const [from, to] of seen.pausedBetween) {
    const moved = fake.moves.slice(from, to).filter(({ ref, who }) =>
      ref === BRANCH && who !== "outside"
    );
    assert.deepEqual(moved, [], "landed while paused");
  }
  for (const { ticket, result } of seen.answers) {
    assert.equal(result.oid, results[ticket.message.ticket]!.oid, "a submitter was told otherwise");
  }
}

const RUNS = Number(process.env.AGENTQ_PROPERTY_RUNS ?? 1000);

test(`the queue's laws hold in ${RUNS} random lives`, { timeout: 600_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(plans, async (plan) => {
      await checkLaws(await live(plan));
    }),
    {
      numRuns: RUNS,
      ...(process.env.AGENTQ_PROPERTY_SEED && { seed: Number(process.env.AGENTQ_PROPERTY_SEED) }),
    },
  );
});
