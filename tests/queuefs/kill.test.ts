/**
 * `kill -9` of workers at random: every message is handled at least once, none is lost, none stays
 * stuck, and a worker that lives never loses one, whoever opens the database and recovers.
 *
 * AGENTQ_KILL_SECONDS=300 runs it at length; AGENTQ_SEED repeats a run.
 */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { waitComplete } from "../../src/queuefs/completion.ts";
import { openBackend } from "../../src/queuefs/open.ts";
import { tempDir } from "../helpers/git.ts";
import { type Agent, setting, startAgent } from "./helpers/agents.ts";
import { bytes, startRedis } from "./helpers/redis.ts";

const SECONDS = setting("AGENTQ_KILL_SECONDS", 3);
const SEED = setting("AGENTQ_SEED", Date.now() % 1_000_000);
const LEASE_MS = 3000;

async function massacre(url: string) {
  const random = generator(SEED);
  const queue = "kill";
  const backend = await openBackend(url, { create: true, recoverStale: true });
  await backend.create(queue);
  const directory = tempDir();
  let logs = 0;
  const start = (workMs: number, concurrency: number) =>
    startAgent({
      role: "work",
      url,
      queue,
      log: join(directory, `${logs++}`),
      workMs,
      leaseMs: LEASE_MS,
      concurrency,
    });
  const sent: string[] = [];
  const send = async (count: number) => {
    const batch = Array.from({ length: count }, (_, i) => `m${sent.length + i}`);
    await backend.enqueue(queue, batch.map((each) => ({ data: bytes(each) })));
    sent.push(...batch);
  };
  await send(50);
  const steady = [start(400, 4), start(400, 4)]; // Never killed; slow, so that they hold something.
  const recoverer = startAgent({ role: "recover", url, queue });
  const victims: Agent[] = [start(5, 4), start(5, 4), start(5, 4)];
  let kills = 0;
  const end = performance.now() + SECONDS * 1000;
  while (performance.now() < end) {
    await new Promise((resolve) => setTimeout(resolve, 100 + random() * 300));
    await send(1 + Math.floor(random() * 10));
    const at = Math.floor(random() * victims.length);
    await victims[at]!.kill();
    victims[at] = start(5, 4);
    kills++;
  }
  await waitComplete(backend, [queue]);
  const live = await Promise.all(steady.map((each) => each.stop()));
  await Promise.all(victims.map((each) => each.stop()));
  await recoverer.stop();
  const handled = new Set<string>();
  let lines = 0;
  for (let i = 0; i < logs; i++) {
    const file = join(directory, `${i}`);
    if (!existsSync(file)) continue;
    for (const line of readFileSync(file, "utf8").split("\n").filter(Boolean)) {
      handled.add(line);
      lines++;
    }
  }
  assert.deepEqual(sent.filter((each) => !handled.has(each)), [], `seed ${SEED}: lost`);
  assert.deepEqual(await backend.status(queue), { pending: 0, processing: 0 });
  assert.deepEqual(await backend.failed.list(queue), []);
  for (const each of live) assert.equal(each.robbed, 0, `seed ${SEED}: a live worker was robbed`);
  assert.ok(live.some((each) => each.processed! > 0));
  assert.ok(kills > 0);
  if (SECONDS > 60) {
    const late = live.reduce((sum, each) => sum + each.late!, 0);
    const twice = lines - handled.size;
    console.log(`${kills} kills, ${sent.length} messages, ${twice} handled again, ${late} late`);
  }
  await backend.close();
}

describe("workers killed at random lose no message", () => {
  const cases: [string, () => Promise<{ url: string; close: () => Promise<void> }>][] = [
    ["sqlite", async () => ({ url: `sqlite:${join(tempDir(), "q.db")}`, close: async () => {} })],
    ["store", async () => ({ url: `store:${join(tempDir(), "store")}`, close: async () => {} })],
    ["redis", async () => {
      const server = await startRedis();
      return { url: `redis://127.0.0.1:${server.port}`, close: () => server.kill() };
    }],
  ];
  for (const [name, prepare] of cases) {
    test(`${name} (seed ${SEED})`, { timeout: 3_600_000 }, async () => {
      const { url, close } = await prepare();
      await massacre(url);
      await close();
    });
  }
});

/** Small and repeatable. */
function generator(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}
