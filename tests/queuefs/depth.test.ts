/** However many messages wait, a step of one of them is as much work as before. Counted, not timed. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { networkFileSystem } from "../../src/platform/probe.ts";
import { BLOCKED, PENDING } from "../../src/queuefs/backends/sqlite/look.ts";
import type { QueueBackend } from "../../src/queuefs/contract.ts";
import { openBackend } from "../../src/queuefs/open.ts";
import { workerOwner } from "../../src/queuefs/owner.ts";
import { tempDir } from "../helpers/git.ts";
import { bytes, startRedis } from "./helpers/redis.ts";

const owner = workerOwner();

async function fill(backend: QueueBackend, queue: string, count: number) {
  for (let left = count; left > 0; left -= 1000) {
    const size = Math.min(1000, left);
    await backend.enqueue(queue, Array.from({ length: size }, () => ({ data: bytes("x") })));
  }
}

test("SQLite finds the next message by its index, at any depth", async () => {
  const file = join(tempDir(), "q.db");
  const backend = await openBackend(`sqlite:${file}`, { create: true });
  await backend.create("q");
  for (const depth of [0, 20_000]) {
    await fill(backend, "q", depth);
    const db = new DatabaseSync(file);
    if (depth > 0) db.exec("ANALYZE"); // With what it knows of the sizes, too.
    const statements = [
      [PENDING, ["q", 5, 1], "idx_queue_status (queue_name=? AND status=? AND id>?)"],
      [BLOCKED, ["q", "id"], "idx_queue_message_id (queue_name=? AND message_id=?)"],
    ] as const;
    for (const [statement, values, index] of statements) {
      const plan = db.prepare(`EXPLAIN QUERY PLAN ${statement}`).all(...values)
        .map((row) => String(row.detail));
      assert.ok(plan.some((line) => line.includes(index)), `${depth}: ${plan.join("; ")}`);
      assert.deepEqual(plan.filter((line) => /SCAN|TEMP B-TREE/.test(line)), [], plan.join("; "));
    }
    db.close();
  }
  await backend.close();
});

test("Redis makes the same calls for a message, at any depth", { timeout: 60_000 }, async () => {
  const server = await startRedis({ config: ["appendfsync no"] });
  const backend = await openBackend(`redis://127.0.0.1:${server.port}`);
  await backend.create("q");
  const step = async () => {
    const [message] = await backend.dequeue("q", { owner, leaseMs: 60_000 });
    assert.deepEqual(await backend.ack("q", [message!]), ["done"]);
  };
  const calls = async () => {
    server.cli("config", "resetstat");
    for (let i = 0; i < 10; i++) await step();
    const lines = server.cli("info", "commandstats").split("\n");
    return lines.flatMap((line) =>
      /cmdstat_([^:]+):calls=(\d+)/.exec(line)?.slice(1).join(" ") ?? []
    )
      .filter((line) => !/^(config|info|eval) /.test(line)).sort();
  };
  await fill(backend, "q", 100);
  await step();
  const shallow = await calls();
  assert.ok(shallow.includes("lpop 10"), shallow.join(", "));
  await fill(backend, "q", 100_000);
  assert.deepEqual(await calls(), shallow);
  await backend.close();
  await server.kill();
});

test("a network file system, where SQLite's log doesn't work, is known by its mount", () => {
  const mounts = [
    "/dev/vda / ext4 rw 0 0",
    "server:/home /home nfs4 rw 0 0",
    "tmpfs /home/me/tmp tmpfs rw 0 0",
    "//server/share /mnt/a\\040b cifs rw 0 0",
  ].join("\n");
  const types = ["/home/me/.agentq", "/home", "/mnt/a b/c", "/home/me/tmp/x", "/homes", "/srv"].map(
    (dir) => networkFileSystem(dir, mounts),
  );
  assert.deepEqual(types, ["nfs4", "nfs4", "cifs", null, null, null]);
  assert.equal(networkFileSystem("/anywhere", ""), null);
});
