/** Messages whose payload nobody can read: a worker says and counts that they went to the dead letters. */
import assert from "node:assert/strict";
import { readdirSync, truncateSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { join } from "node:path";
import { test } from "node:test";
import type { QueueBackend } from "../../src/queuefs/contract.ts";
import { openBackend } from "../../src/queuefs/open.ts";
import { startWorker } from "../../src/queuefs/worker.ts";
import { tempDir } from "../helpers/git.ts";
import { bytes, startRedis } from "./helpers/redis.ts";

/** Puts messages in, spoils the one called `bad`, and works. */
async function works(backend: QueueBackend, spoil: () => void): Promise<void> {
  await backend.create("q");
  await backend.enqueue("q", [{ id: "bad", data: bytes("spoiled") }]);
  spoil();
  await backend.enqueue("q", [{ id: "good", data: bytes("x") }]);
  const told: string[] = [];
  const worker = startWorker(backend, "q", () => {}, {
    untilEmpty: true,
    leaseMs: 10_000,
    onEvent: (event) => {
      if (event.type === "failed") told.push(`${event.id}: ${event.reason}`);
    },
  });
  await worker.done;
  const [letter, ...more] = await backend.failed.list("q");
  assert.deepEqual([letter!.id, more.length], ["bad", 0]);
  assert.deepEqual(told, [`bad: ${letter!.reason}`]);
  assert.deepEqual([worker.metrics.processed, worker.metrics.failed_count], [1, 1]);
  // One at a time, for whoever takes without a worker.
  await backend.enqueue("q", [{ id: "bad", data: bytes("spoiled") }]);
  spoil();
  const seen: string[] = [];
  assert.deepEqual(
    await backend.dequeue("q", {
      owner: worker.owner,
      leaseMs: 1000,
      onUnreadable: (id) => seen.push(id),
    }),
    [],
  );
  assert.deepEqual(seen, ["bad"]);
  await backend.close();
}

test("on SQLite", async () => {
  const file = join(tempDir(), "q.db");
  const backend = await openBackend(`sqlite:${file}`, { create: true });
  await works(backend, () => {
    const db = new DatabaseSync(file);
    db.exec("UPDATE queue_messages SET data = 'no JSON' WHERE message_id = 'bad'");
    db.close();
  });
});

test("on a store", async () => {
  const root = join(tempDir(), "store");
  const backend = await openBackend(`store:${root}`, { create: true });
  await works(backend, () => {
    const objects = join(root, ".fs-safe-queue-v2/objects");
    for (const name of readdirSync(objects)) truncateSync(join(objects, name, "payload.json"), 3);
  });
});

test("on Redis", { timeout: 120_000 }, async () => {
  const server = await startRedis();
  const backend = await openBackend(`redis://127.0.0.1:${server.port}`);
  await works(backend, () => {
    const key = server.cli("keys", "*:msg:bad").trim();
    assert.equal(server.cli("set", key, "no JSON").trim(), "OK");
  });
  await server.kill();
});
