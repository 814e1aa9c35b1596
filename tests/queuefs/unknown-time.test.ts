/** What other programs took without leaving a time: it begins when it is seen here first. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { sqliteBackend } from "../../src/queuefs/backends/sqlite/backend.ts";
import { storeBackend } from "../../src/queuefs/backends/store/backend.ts";
import type { LeaseClock } from "../../src/queuefs/clock.ts";
import type { QueueBackend } from "../../src/queuefs/contract.ts";
import { FOREIGN_LEASE_MS } from "../../src/queuefs/lease.ts";
import { openStore } from "../../src/store/mod.ts";
import { tempDir } from "../helpers/git.ts";

const HOUR = FOREIGN_LEASE_MS;
const message = (id: string) => ({ id, data: Buffer.from(id) });

interface Place {
  readonly backend: QueueBackend;
  /** Takes a message as another program does. */
  take(id: string): Promise<unknown>;
  /** Ends it as that program does. */
  settle(id: string): Promise<unknown>;
}

const places: Record<string, (clock: LeaseClock) => Promise<Place>> = {
  async store(clock) {
    const root = join(tempDir(), "store");
    const backend = await storeBackend(root, { create: true, clock });
    const store = await openStore(root);
    const receipts = new Map<string, Parameters<typeof store.ack>[0]>();
    return {
      backend,
      async take(id) {
        const [claim] = await store.claim("jobs", { id });
        receipts.set(id, claim!.receipt);
      },
      settle: (id) => store.ack(receipts.get(id)!),
    };
  },
  async sqlite(clock) {
    const file = join(tempDir(), "q.db");
    const backend = sqliteBackend(file, { create: true, clock });
    const db = new DatabaseSync(file);
    return {
      backend,
      take: async (id) =>
        db.prepare("UPDATE queue_messages SET status = 'processing' WHERE message_id = ?").run(id),
      settle: async (id) =>
        db.prepare("DELETE FROM queue_messages WHERE message_id = ? AND status = 'processing'")
          .run(id),
    };
  },
};

for (const [name, open] of Object.entries(places)) {
  const scene = async () => {
    const time = { wall: 1_790_000_000_000, boot: 1000 };
    const clock = () => ({ ...time, bootId: "here" });
    const place = await open(clock);
    const { backend } = place;
    await backend.create("jobs");
    await backend.enqueue("jobs", ["a", "b"].map(message));
    const pass = (ms: number) => {
      time.wall += ms;
      time.boot += ms;
    };
    const recover = async (staleMs?: number) =>
      (await backend.recover("jobs", staleMs === undefined ? {} : { staleMs }))
        .map(({ id, why }) => `${id} ${why}`);
    return { ...place, pass, recover };
  };

  test(`${name}: it comes back an hour after it was seen first`, async () => {
    const { backend, take, pass, recover } = await scene();
    await take("a");
    pass(3 * HOUR); // Nobody looked.
    assert.deepEqual(await recover(), []);
    pass(HOUR / 2);
    await take("b");
    assert.deepEqual(await recover(), []);
    pass(HOUR / 2 + 1000);
    assert.deepEqual(await recover(), ["a lease-expired"]);
    assert.deepEqual(await backend.status("jobs"), { pending: 1, processing: 1 });
    pass(HOUR / 2);
    assert.deepEqual(await recover(), ["b lease-expired"]);
    const [again] = await backend.dequeue("jobs", { owner: "x", leaseMs: 1000 });
    assert.equal(again!.id, "a");
    assert.equal(again!.attempts, 1);
    await backend.close();
  });

  test(`${name}: it comes back after --stale, counted from then, and at once with 0`, async () => {
    const { backend, take, pass, recover } = await scene();
    await take("a");
    await take("b");
    pass(1000_000);
    assert.deepEqual(await recover(60_000), []);
    pass(59_000);
    assert.deepEqual(await recover(60_000), []);
    pass(2000);
    assert.deepEqual(await recover(60_000), ["a lease-expired", "b lease-expired"]);
    await take("a");
    assert.deepEqual(await recover(0), ["a lease-expired"]);
    // Taken again later, by whoever it was: the time of before is not its time.
    await take("b");
    pass(HOUR - 1000);
    assert.deepEqual(await recover(), []);
    await backend.close();
  });

  test(`${name}: that it was seen takes nothing from whoever has it`, async () => {
    const { backend, take, settle, recover } = await scene();
    await take("a");
    assert.deepEqual(await recover(), []);
    await settle("a");
    assert.deepEqual(await backend.status("jobs"), { pending: 1, processing: 0 });
    await backend.close();
  });
}

test("store: a claim with another program's note is its affair", async () => {
  const root = join(tempDir(), "store");
  const time = { wall: 1_790_000_000_000, boot: 1000, bootId: "here" };
  const backend = await storeBackend(root, { create: true, clock: () => time });
  await backend.create("jobs");
  await backend.enqueue("jobs", ["a", "b"].map(message));
  const store = await openStore(root);
  await store.claim("jobs", { id: "a", owner: { ticket: 7 } });
  await store.claim("jobs", { id: "b", owner: null });
  assert.deepEqual(await backend.recover("jobs"), []);
  time.wall += 2 * HOUR;
  assert.deepEqual((await backend.recover("jobs", { staleMs: 1 })).map(({ id }) => id), []);
  const notes = (await store.messages({ queue: "jobs" })).map(({ reference }) => reference.owner);
  assert.deepEqual(notes, [{ ticket: 7 }, null]);
  assert.deepEqual(
    (await backend.recover("jobs", { staleMs: 0 })).map(({ id }) => id),
    ["a", "b"],
  );
});

test("store: seeing claims is one commit, once", async () => {
  const root = join(tempDir(), "store");
  const backend = await storeBackend(root, { create: true });
  await backend.create("jobs");
  await backend.enqueue("jobs", ["a", "b", "c"].map(message));
  const store = await openStore(root);
  await store.claim("jobs", { count: 3 });
  const revision = async () => Number((await store.snapshot()).revision);
  const before = await revision();
  await backend.recover("jobs");
  assert.equal(await revision(), before + 1);
  await backend.recover("jobs");
  assert.equal(await revision(), before + 1);
});
