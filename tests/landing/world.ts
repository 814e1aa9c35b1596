/**
 * A world in which time passes only when nobody can do anything else, and whose every interleaving is
 * drawn from a seed: each wait (an origin's answer, a sleep, a check) is a choice of who goes on next.
 * A sleeper may wake arbitrarily late, as after SIGSTOP; a killed actor never goes on.
 */
import type { Clock } from "../../src/platform/clock.ts";
import { abortReason } from "../../src/platform/clock.ts";

interface Waiting {
  readonly who: string;
  /** Virtual time before which it can't go on. */
  readonly at: number;
  readonly go: () => void;
}

export interface World {
  readonly steps: number;
  clock(who: string): Clock;
  /** Waits for its turn. */
  turn(who: string): Promise<void>;
  kill(who: string): void;
  alive(who: string): boolean;
  /** A number in [0, 1) from the seed. */
  random(): number;
  /** Runs until `done` settles; `orderly`: always the one whose time comes first. */
  run<T>(done: Promise<T>, options?: { orderly?: boolean; maxSteps?: number }): Promise<T>;
  /** Called before every step with its number. */
  onStep: (step: number) => void;
}

/** How far time may jump while somebody could go on: nobody is later than this. */
const LATE_MS = 60_000;

/** A small seeded generator (mulberry32). */
export function generator(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

export function createWorld(seed: number): World {
  const random = generator(seed);
  const waiting: Waiting[] = [];
  const dead = new Set<string>();
  let now = 0;
  let steps = 0;

  function wait(who: string, at: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (dead.has(who)) return;
      if (signal?.aborted) return reject(abortReason(signal));
      const entry: Waiting = {
        who,
        at,
        go: () => {
          signal?.removeEventListener("abort", onAbort);
          resolve();
        },
      };
      const onAbort = () => {
        const index = waiting.indexOf(entry);
        if (index >= 0) waiting.splice(index, 1);
        if (!dead.has(who)) reject(abortReason(signal!));
      };
      signal?.addEventListener("abort", onAbort, { once: true });
      waiting.push(entry);
    });
  }

  const world: World = {
    get steps() {
      return steps;
    },
    clock: (who) => ({
      monotonic: () => now,
      wall: () => 1_800_000_000_000 + now,
      random,
      sleep: (ms, signal) => wait(who, now + ms, signal),
    }),
    turn: (who) => wait(who, now),
    kill(who) {
      dead.add(who);
      for (let i = waiting.length - 1; i >= 0; i--) {
        if (waiting[i]!.who === who) waiting.splice(i, 1);
      }
    },
    alive: (who) => !dead.has(who),
    random,
    onStep: () => {},
    async run(done, { orderly = false, maxSteps = Infinity } = {}) {
      let settled = false;
      const mark = () => {
        settled = true;
      };
      done.then(mark, mark);
      for (let step = 0;; step++) {
        // Twice two: what runs now may ask for a turn of its own, and what that brings for another.
        for (let turn = 0; turn < 4; turn++) await new Promise((resolve) => setImmediate(resolve));
        if (settled) return await done;
        if (step >= maxSteps) throw new Error(`no end after ${maxSteps} steps`);
        if (waiting.length === 0) throw new Error("everybody waits for nothing");
        steps++;
        world.onStep(steps);
        if (waiting.length === 0) continue;
        const next = orderly ? earliest() : choose();
        waiting.splice(waiting.indexOf(next), 1);
        now = Math.max(now, next.at);
        next.go();
      }
    },
  };

  function earliest(): Waiting {
    return waiting.reduce((best, one) => (one.at < best.at ? one : best));
  }

  /** Mostly one whose time has come; sometimes anybody, so that the others find themselves late. */
  function choose(): Waiting {
    const ready = waiting.filter((one) => one.at <= now);
    if (ready.length === 0 && random() < 0.8) return earliest();
    const soon = waiting.filter((one) => one.at <= now + LATE_MS);
    const from = ready.length > 0 && random() < 0.9 ? ready : soon;
    if (from.length === 0) return earliest();
    return from[Math.floor(random() * from.length)]!;
  }
  return world;
}
