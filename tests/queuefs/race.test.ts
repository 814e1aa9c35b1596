/**
 * The race that completion by one snapshot is there to close: eight processes move messages between
 * pending and processing while others ask whether the queue is complete. A message is put in before its
 * predecessor is acked, so the queue never is, and every "complete" is a fault.
 *
 * AGENTQ_RACE_OBSERVATIONS=1000000 runs it at length.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, test } from "node:test";
import { openBackend } from "../../src/queuefs/open.ts";
import { tempDir } from "../helpers/git.ts";
import { setting, startAgent } from "./helpers/agents.ts";
import { bytes, startRedis } from "./helpers/redis.ts";

const OBSERVATIONS = setting("AGENTQ_RACE_OBSERVATIONS", 8_000);
const WORKERS = 8;
const OBSERVERS = 2;
/** As often as the wrong reader may get away with it. */
const ROUNDS = 30;

async function provoke(url: string) {
  const queue = "race";
  const backend = await openBackend(url, { create: true });
  if (await backend.create(queue)) {
    await backend.enqueue(queue, [{ data: bytes("one") }, { data: bytes("two") }]);
  }
  const workers = Array.from(
    { length: WORKERS },
    () => startAgent({ role: "circulate", url, queue }),
  );
  const observers = Array.from(
    { length: OBSERVERS },
    () =>
      startAgent({
        role: "observe",
        url,
        queue,
        observations: Math.ceil(OBSERVATIONS / OBSERVERS),
      }),
  );
  const seen = await Promise.all(observers.map((each) => each.finish()));
  const worked = await Promise.all(workers.map((each) => each.stop()));
  const turns = worked.reduce((sum, each) => sum + each.turns!, 0);
  assert.deepEqual(await backend.status(queue), { pending: 2, processing: 0 });
  await backend.close();
  const total = (name: string) => seen.reduce((sum, each) => sum + each[name]!, 0);
  return { turns, seen: total("seen"), complete: total("complete"), wrong: total("wrong") };
}

describe("a queue that always holds something is never reported complete", () => {
  const cases: [string, () => Promise<{ url: string; close: () => Promise<void> }>][] = [
    ["sqlite", async () => ({ url: `sqlite:${join(tempDir(), "q.db")}`, close: async () => {} })],
    ["store", async () => ({ url: `store:${join(tempDir(), "store")}`, close: async () => {} })],
    ["redis", async () => {
      // Syncing every write would spend the time on the disk.
      const server = await startRedis({ config: ["appendfsync everysec"] });
      return { url: `redis://127.0.0.1:${server.port}`, close: () => server.kill() };
    }],
  ];
  for (const [name, start] of cases) {
    test(name, { timeout: 3_600_000 }, async () => {
      const { url, close } = await start();
      // Which process runs when is the machine's: looked at again until the fault was there to be found.
      const found = { turns: 0, seen: 0, complete: 0, wrong: 0 };
      for (let round = 0; round < ROUNDS && found.wrong === 0; round++) {
        const { turns, seen, complete, wrong } = await provoke(url);
        assert.ok(turns > 0, "nothing moved, so nothing was tried");
        assert.ok(seen >= OBSERVATIONS);
        assert.equal(complete, 0, `of ${seen} observations`);
        found.turns += turns;
        found.seen += seen;
        found.wrong += wrong;
      }
      await close();
      if (OBSERVATIONS > 100_000) console.log(JSON.stringify(found));
      // The same run finds the fault in a reader that combines size with its own counter.
      assert.ok(found.wrong > 0, "the wrong reader wasn't caught: the test provokes nothing");
    });
  }
});
