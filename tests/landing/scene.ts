/** One origin in memory, one queue, a clock that waits for nobody: what tests of single situations share. */
import type { Oid } from "../../src/git/types.ts";
import type { ResultEntry } from "../../src/landing/chain.ts";
import type { DutyOptions } from "../../src/landing/duty.ts";
import { landQueue } from "../../src/landing/land-queue.ts";
import { enqueue } from "../../src/landing/enqueue.ts";
import { openQueue, type Queue, readSnapshot } from "../../src/landing/snapshot.ts";
import type { Workshop } from "../../src/landing/workshop.ts";
import { createFakeOrigin, fakeCommit, type FakeOrigin } from "./fake-origin.ts";
import { createFakeWorkshop, type FakeChecks } from "./fake-workshop.ts";
import { createWorld, type World } from "./world.ts";

export const BRANCH = "refs/heads/main";
export const LOCK = "refs/weave/main/lock";
export const DONE = "refs/weave/main/done";

export const reasons = (results: ResultEntry[]) => results.map(({ message }) => message.reason);

export interface Scene {
  world: World;
  fake: FakeOrigin;
  base: Oid;
  queue: Queue;
  duty(who: string, checks?: FakeChecks, change?: Partial<Workshop>): DutyOptions;
  submit(name: string, parents?: Oid[]): Promise<Oid>;
  /** Lands everything as `who`. */
  land(who: string, checks?: FakeChecks, change?: Partial<Workshop>): Promise<ResultEntry[]>;
  run<T>(work: Promise<T>): Promise<T>;
}

export async function scene(): Promise<Scene> {
  const world = createWorld(7);
  const fake = createFakeOrigin();
  const base = fakeCommit(fake, [], "base");
  fake.refs.set(BRANCH, base);
  const { queue } = await openQueue(fake.as("me"), { namespace: "refs/weave", branch: "main" });
  const run = <T>(work: Promise<T>) => world.run(work, { orderly: true, maxSteps: 20_000 });
  const made: Scene = {
    world,
    fake,
    base,
    queue,
    run,
    duty: (who, checks = {}, change = {}) => ({
      clock: world.clock(who),
      me: who,
      ttl: 3000,
      poll: 1000,
      attempts: 3,
      workshop: async () => ({ ...createFakeWorkshop(fake, checks), ...change }),
      signal: new AbortController().signal,
    }),
    async submit(name, parents = [base]) {
      const candidate = fakeCommit(fake, parents, name);
      await run(enqueue(queue, await readSnapshot(queue), {
        candidate,
        submitter: name,
        verifyCmd: null,
        verifyTimeout: 1,
        submission: name,
        submittedAt: 1,
        title: null,
        drops: [],
      }, { clock: world.clock(name), objects: fake.reader() }));
      return candidate;
    },
    async land(who, checks, change) {
      const results: ResultEntry[] = [];
      await run(landQueue(queue, await readSnapshot(queue), {
        ...made.duty(who, checks, change),
        watch: false,
        onResult: (entry) => results.push(entry),
      }));
      return results;
    },
  };
  return made;
}
