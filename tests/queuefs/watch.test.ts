/**
 * A lease can run out though its worker lives: the machine slept, its processes were frozen, another held
 * the lock for long. Such a worker keeps its messages when it renews as soon as it can; one that is wedged
 * doesn't, and loses them.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { memoryBackend } from "../../src/queuefs/backends/memory.ts";
import { sqliteBackend } from "../../src/queuefs/backends/sqlite/backend.ts";
import { storeBackend } from "../../src/queuefs/backends/store/backend.ts";
import { type LeaseClock, systemClock } from "../../src/queuefs/clock.ts";
import type { QueueBackend } from "../../src/queuefs/contract.ts";
import { openBackend } from "../../src/queuefs/open.ts";
import { callerOwner, workerOwner } from "../../src/queuefs/owner.ts";
import { startWorker } from "../../src/queuefs/worker.ts";
import { tempDir } from "../helpers/git.ts";
import { startAgent } from "./helpers/agents.ts";
import { bytes, until } from "./helpers/redis.ts";

const LEASE_MS = 2000;
const HOUR = 3_600_000;

const kinds: Record<string, (clock: LeaseClock) => Promise<QueueBackend>> = {
  memory: async (clock) => memoryBackend({ clock }),
  sqlite: async (clock) => sqliteBackend(join(tempDir(), "q.db"), { create: true, clock }),
  store: (clock) => storeBackend(join(tempDir(), "store"), { create: true, clock }),
};

for (const [kind, open] of Object.entries(kinds)) {
  describe(`after the machine slept (${kind})`, () => {
    const asleep = async () => {
      let slept = 0;
      let asked = 0;
      const backend = await open(() => {
        asked++;
        const now = systemClock();
        return { ...now, boot: now.boot + slept, wall: now.wall + slept };
      });
      await backend.create("q");
      await backend.enqueue("q", [{ data: bytes("a") }, { data: bytes("b") }]);
      const take = (owner: string) => backend.dequeue("q", { owner, leaseMs: LEASE_MS });
      const [message] = await take(workerOwner());
      return {
        backend,
        message: message!,
        take,
        wake: () => slept += HOUR,
        /** Recovers, and returns when it has seen the leases as they are. */
        recover: async (signal?: AbortSignal) => {
          const before = asked;
          const recovery = backend.recover("q", signal ? { signal } : {});
          await until(() => asked > before);
          return { recovery };
        },
      };
    };

    test("a worker that renews keeps its message", async () => {
      const { backend, message, wake, recover } = await asleep();
      wake();
      const { recovery } = await recover();
      assert.deepEqual(await backend.renew("q", [message], LEASE_MS), ["done"]);
      assert.deepEqual(await recovery, []);
      assert.deepEqual(await backend.ack("q", [message]), ["done"]);
      await backend.close();
    });

    test("one that settles its message and takes the next loses neither", async () => {
      const { backend, message, take, wake, recover } = await asleep();
      wake();
      const { recovery } = await recover();
      assert.deepEqual(await backend.requeue("q", [message], { counted: false }), ["done"]);
      const [again] = await take(workerOwner());
      assert.equal(again!.id, message.id);
      assert.deepEqual(await recovery, []);
      assert.deepEqual(await backend.ack("q", [again!]), ["done"]);
      await backend.close();
    });

    test("one that doesn't loses it; what nobody renews is taken at once", async () => {
      const { backend, message, take, wake } = await asleep();
      const [called] = await take(callerOwner());
      wake();
      const back = await backend.recover("q");
      assert.deepEqual(back.map(({ id, why }) => [id, why]), [
        [called!.id, "lease-expired"],
        [message.id, "lease-expired"],
      ]);
      assert.deepEqual(await backend.ack("q", [message, called!]), ["stale", "stale"]);
      assert.deepEqual(await backend.status("q"), { pending: 2, processing: 0 });
      await backend.close();
    });

    test("a recovery that is told to end watches no longer, and keeps what it took", async () => {
      const { backend, take, wake, recover } = await asleep();
      const [called] = await take(callerOwner());
      wake();
      const end = new AbortController();
      const { recovery } = await recover(end.signal);
      end.abort();
      assert.deepEqual((await recovery).map(({ id }) => id), [called!.id]);
      assert.deepEqual(await backend.status("q"), { pending: 1, processing: 1 });
      await backend.close();
    });
  });
}

test("a worker that waits for the store's lock past its lease keeps its message", {
  timeout: 60_000,
}, async () => {
  const root = join(mkdtempSync(join(tempDir(), "s")), "store");
  const options = { create: true, recoverStale: true };
  const ours = await storeBackend(root, options);
  const another = await storeBackend(root, options);
  await ours.create("q");
  for (let round = 0; round < 3; round++) {
    await ours.enqueue("q", [{ data: bytes("a") }]);
    let [finish, lost] = [() => {}, false];
    const worker = startWorker(ours, "q", (_, { signal }) => {
      signal.addEventListener("abort", () => lost = true);
      return new Promise((resolve) => finish = resolve);
    }, { leaseMs: LEASE_MS, idleMs: 10 });
    await until(() => worker.held() === 1);
    const holder = spawn(process.execPath, [
      ...(process.versions.deno === undefined ? [] : ["run", "-A", "--no-check"]),
      fileURLToPath(new URL("../store/lock-holder.ts", import.meta.url)),
      root,
    ], { stdio: ["ignore", "pipe", "inherit"] });
    await new Promise((resolve) => holder.stdout.once("data", resolve));
    const recoveries = Array.from({ length: 3 }, () => another.recover("q"));
    await new Promise((resolve) => setTimeout(resolve, LEASE_MS + 200));
    holder.kill("SIGKILL");
    assert.deepEqual((await Promise.all(recoveries)).flat(), []);
    finish();
    await until(() => worker.metrics.processed === 1);
    assert.equal(lost, false);
    await worker.stop();
    assert.deepEqual(await ours.status("q"), { pending: 0, processing: 0 });
  }
});

/** A worker of its own process that holds a message and is stopped as if by a debugger. */
async function stopped(kind: string, leaseMs: number) {
  const url = `${kind}:${join(tempDir(), "queues")}`;
  const backend = await openBackend(url, { create: true, recoverStale: true });
  await backend.create("q");
  await backend.enqueue("q", [{ data: bytes("a") }]);
  const [log, begun] = [join(tempDir(), "log"), join(tempDir(), "begun")];
  // So slow that it is never done.
  const work = { role: "work", log, begun, workMs: 1e9, leaseMs, concurrency: 1 } as const;
  const agent = startAgent({ ...work, url, queue: "q" });
  // Not as soon as others see that it has the message: it has the lock then still.
  await until(async () => existsSync(begun));
  agent.signal("SIGSTOP");
  return { backend, agent };
}

for (const kind of ["sqlite", "store"]) {
  test(
    `a worker that is stopped past its lease loses its message, and settles nothing when it wakes (${kind})`,
    {
      timeout: 60_000,
    },
    async () => {
      const { backend, agent } = await stopped(kind, 3000);
      const recovered = [];
      while (recovered.length === 0) recovered.push(...await backend.recover("q"));
      assert.deepEqual(recovered.map(({ why }) => why), ["lease-expired"]);
      const [message] = await backend.dequeue("q", { owner: workerOwner(), leaseMs: 60_000 });
      assert.equal(message!.attempts, 1);
      agent.signal("SIGCONT");
      const { processed, stale_count, robbed, late } = await agent.stop();
      assert.deepEqual({ processed, stale_count, robbed, late }, {
        processed: 0,
        stale_count: 1,
        robbed: 0,
        late: 1,
      });
      assert.deepEqual(await backend.ack("q", [message!]), ["done"]);
      await backend.close();
    },
  );

  test(`one that wakes while its lease is watched keeps it (${kind})`, {
    timeout: 60_000,
  }, async () => {
    const leaseMs = 5000;
    const { backend, agent } = await stopped(kind, leaseMs);
    await new Promise((resolve) => setTimeout(resolve, leaseMs + 50));
    const recovery = backend.recover("q");
    await new Promise((resolve) => setTimeout(resolve, 50));
    agent.signal("SIGCONT");
    assert.deepEqual(await recovery, []);
    assert.deepEqual(await backend.status("q"), { pending: 0, processing: 1 });
    await agent.kill();
    assert.deepEqual((await backend.recover("q")).map(({ why }) => why), ["owner-gone"]);
    await backend.close();
  });
}
