/** A replica that is behind its master: what it has may be shown, that something isn't there may not be said. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { AgentqError, isAgentqError } from "../../src/errors.ts";
import { parseRedisUrl } from "../../src/queuefs/backends/redis/address.ts";
import { redisBackend } from "../../src/queuefs/backends/redis/backend.ts";
import { waitComplete } from "../../src/queuefs/completion.ts";
import { workerOwner } from "../../src/queuefs/owner.ts";
import { startWorker, type WorkerEvent } from "../../src/queuefs/worker.ts";
import { bytes, startRedis, until } from "./helpers/redis.ts";

const take = { owner: workerOwner(), leaseMs: 60_000 };
const open = (port: number) => redisBackend(parseRedisUrl(`redis://127.0.0.1:${port}`, {}));
const LONG = { timeout: 120_000 };

/** A master, and a replica that has heard nothing since `a` and `b` were made and `b` had one message. */
async function cutOff() {
  const master = await startRedis({ config: ["repl-diskless-sync-delay 0"] });
  const replica = await startRedis({ config: [`replicaof 127.0.0.1 ${master.port}`] });
  await until(() => replica.cli("info", "replication").includes("master_link_status:up"));
  const first = await open(master.port);
  for (const queue of ["a", "b"]) await first.create(queue);
  await first.enqueue("b", [{ id: "x", data: bytes("x") }]);
  await until(() => replica.cli("llen", "{default}:ov:queue:b:pending") === "1");
  replica.cli("replicaof", "127.0.0.1", "1");
  await first.create("new");
  await first.enqueue("a", [{ data: bytes("1") }, { data: bytes("2") }]);
  const stop = async () => {
    await first.close();
    await replica.kill();
    await master.kill();
  };
  return { replica, stop };
}

describe("a replica that is behind", () => {
  test("says of nothing that it isn't there", LONG, async () => {
    const { replica, stop } = await cutOff();
    const backend = await open(replica.port);
    const lease = { id: "y", lease: "1.x" };
    const asked: Record<string, () => Promise<unknown>> = {
      "status": () => backend.status("a"),
      "status of all": () => backend.statuses(),
      "status of some": () => backend.statuses(["b", "a"]),
      "complete": () => backend.complete(["a"]),
      "complete, where something is there": () => backend.complete(["b"]),
      "wait": () => waitComplete(backend, ["b"]),
      "peek": () => backend.peek("a"),
      "messages": () => backend.messages("a"),
      "queues below one": () => backend.list("new"),
      "a queue that it hasn't heard of": () => backend.status("new"),
      "several, one of which it hasn't heard of": () => backend.statuses(["b", "new"]),
      "complete, of which it hasn't heard": () => backend.complete(["b", "new"]),
      "dead letters": () => backend.failed.list("b"),
      "a dead letter": () => backend.failed.show("b", "x"),
      "retry": () => backend.failed.retry("b", ["x"]),
      "prune": () => backend.failed.prune("b"),
      "recover": () => backend.recover("b"),
      "recover all": () => backend.recover(null),
      "dequeue": () => backend.dequeue("a", take),
      "step": () => backend.settleAndDequeue("a", [], take),
      "step with an ack": () =>
        backend.settleAndDequeue("a", [{ how: "ack", receipt: lease }], take),
      "ack": () => backend.ack("a", [lease]),
      "requeue": () => backend.requeue("a", [lease]),
      "fail": () => backend.fail("a", [lease], "x"),
      "renew": () => backend.renew("a", [lease], 1000),
      "clear": () => backend.clear("a"),
      "remove": () => backend.remove("new"),
    };
    for (const [what, ask] of Object.entries(asked)) {
      await assert.rejects(ask, (error) => {
        assert.ok(error instanceof AgentqError, `${what}: ${error}`);
        assert.equal(error.code, "backend-denied", `${what}: ${error.message}`);
        assert.match(error.message, /replica/);
        assert.equal(error.retryable, true);
        return true;
      }, what);
    }
    // What is there it shows.
    assert.deepEqual(await backend.status("b"), { pending: 1, processing: 0 });
    assert.equal((await backend.statuses(["b"])).get("b")!.pending, 1);
    assert.equal((await backend.peek("b"))!.id, "x");
    assert.equal((await backend.messages("b")).length, 1);
    assert.deepEqual(await backend.list(), ["a", "b"]);
    // Once it is the master its word counts.
    replica.cli("replicaof", "no", "one");
    assert.deepEqual(await backend.status("a"), { pending: 0, processing: 0 });
    assert.equal((await backend.statuses()).size, 2);
    assert.equal(await backend.complete(["a"]), true);
    assert.equal(await backend.peek("a"), null);
    assert.deepEqual(await backend.messages("a"), []);
    assert.deepEqual(await backend.list("new"), []);
    assert.deepEqual(await backend.failed.list("b"), []);
    assert.deepEqual(await backend.recover(null), []);
    assert.deepEqual(await backend.dequeue("a", take), []);
    assert.deepEqual(await backend.ack("a", [lease]), ["stale"]);
    await assert.rejects(backend.status("new"), { code: "queue-not-found" });
    await backend.close();
    await stop();
  });

  test("a worker waits there, and works once it is the master", LONG, async () => {
    const { replica, stop } = await cutOff();
    const backend = await open(replica.port);
    for (const queue of ["a", "b"]) {
      replica.cli("replicaof", "127.0.0.1", "1");
      const events: WorkerEvent[] = [];
      const worker = startWorker(backend, queue, () => {}, {
        untilEmpty: true,
        onEvent: (event) => events.push(event),
      });
      // Told once, and counted each time.
      await until(() => worker.metrics.error_count > 2);
      const [away, ...more] = events;
      assert.deepEqual(more, []);
      assert.ok(away?.type === "away" && isAgentqError(away.error, "backend-denied"));
      replica.cli("replicaof", "no", "one");
      await worker.done;
      assert.equal(worker.metrics.processed, queue === "b" ? 1 : 0);
    }
    await backend.close();
    await stop();
  });
});
