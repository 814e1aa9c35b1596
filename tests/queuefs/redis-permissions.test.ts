/** Users of Redis who may not run all commands: nothing is done by halves, and no message is in no list. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { readFileSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import { AgentqError, isAgentqError } from "../../src/errors.ts";
import { parseRedisUrl } from "../../src/queuefs/backends/redis/address.ts";
import { redisBackend } from "../../src/queuefs/backends/redis/backend.ts";
import type { LeaseReceipt, QueueBackend } from "../../src/queuefs/contract.ts";
import { callerOwner } from "../../src/queuefs/owner.ts";
import { bytes, type RedisServer, startRedis } from "./helpers/redis.ts";

const LONG = { timeout: 240_000 };
const take = { owner: callerOwner("t"), leaseMs: 60_000 };
const COMMANDS =
  "zadd zrem zscore zrange lpop lpush rpush lrem lindex lpos lrange set get del unlink hset hget hmget hdel hsetnx hexists sadd srem sismember exists smembers zrangebyscore zrevrange"
    .split(" ");

/** What changes a queue that has `one` and `two` pending, `out` in processing and a dead letter `dead`. */
const OPERATIONS: Record<
  string,
  (backend: QueueBackend, out: LeaseReceipt) => Promise<unknown>
> = {
  "create": (backend) => backend.create("other"),
  "remove": (backend) => backend.remove("q"),
  "enqueue": (backend) => backend.enqueue("q", [{ data: bytes("x") }]),
  "enqueue one that is pending": (backend) =>
    backend.enqueue("q", [{ id: "one", data: bytes("x") }]),
  "enqueue one that is out": (backend) => backend.enqueue("q", [{ id: "out", data: bytes("x") }]),
  "dequeue": (backend) => backend.dequeue("q", { ...take, count: 2 }),
  "ack": (backend, out) => backend.ack("q", [out]),
  "requeue": (backend, out) => backend.requeue("q", [out]),
  "release": (backend, out) => backend.requeue("q", [out], { counted: false }),
  "fail": (backend, out) => backend.fail("q", [out], "x"),
  "renew": (backend, out) => backend.renew("q", [out], 60_000),
  "recover": (backend) => backend.recover("q", { staleMs: 0 }),
  "clear": (backend) => backend.clear("q"),
  "step with an ack": (backend, receipt) =>
    backend.settleAndDequeue("q", [{ how: "ack", receipt }], take),
  "step with a release": (backend, receipt) =>
    backend.settleAndDequeue("q", [{ how: "release", receipt }], take),
  "step with a failure": (backend, receipt) =>
    backend.settleAndDequeue("q", [{ how: "fail", receipt, reason: "x" }], take),
  "retry": (backend) => backend.failed.retry("q", ["dead"]),
  "prune": (backend) => backend.failed.prune("q"),
};

describe("a user who may not run a command", () => {
  let server: RedisServer;
  let admin: QueueBackend;
  const url = (user = "") => `redis://${user}127.0.0.1:${server.port}`;
  const open = (user?: string) => redisBackend(parseRedisUrl(url(user), {}));

  before(async () => {
    server = await startRedis({ config: ["enable-debug-command yes", "appendfsync no"] });
    admin = await open();
  });
  after(async () => {
    await admin.close();
    await server.kill();
  });

  const fill = async (): Promise<LeaseReceipt> => {
    server.cli("flushall");
    await admin.create("q");
    const put = (id: string) => admin.enqueue("q", [{ id, data: bytes(id) }]);
    await put("dead");
    const [dead] = await admin.dequeue("q", take);
    await admin.fail("q", [dead!], "x");
    await put("out");
    const [out] = await admin.dequeue("q", take);
    await put("one");
    await put("two");
    return { id: out!.id, lease: out!.lease };
  };
  const allow = (...rules: string[]) =>
    server.cli("acl", "setuser", "u", "reset", "on", ">p", "~*", "&*", "+@all", ...rules);
  const digest = () => server.cli("debug", "digest");

  test("a first call is refused whole, with the command's name", LONG, async () => {
    const needed = new Set<string>();
    for (const [name, operate] of Object.entries(OPERATIONS)) {
      let out = await fill();
      let before = digest();
      for (const command of COMMANDS) {
        allow(`-${command}`);
        const backend = await open("u:p@");
        try {
          await operate(backend, out);
          out = await fill(); // It needs no such command.
          before = digest();
        } catch (error) {
          const what = `${name} without ${command}: ${error}`;
          assert.ok(isAgentqError(error, "backend-denied"), what);
          assert.match(error.message, new RegExp(`\\b${command}\\b`, "i"), what);
          assert.match(error.hint, /docs\/queues.md/, what);
          assert.equal(digest(), before, what);
          needed.add(command);
        } finally {
          await backend.close();
        }
      }
    }
    // Each is some operation's, so that the list in docs/queues.md is no longer than it has to be.
    assert.deepEqual(COMMANDS.filter((command) => !needed.has(command)), []);
  });

  test(
    "the commands that docs/queues.md lists are enough, and none is too many",
    LONG,
    async () => {
      const docs = readFileSync(new URL("../../docs/queues.md", import.meta.url), "utf8");
      const [, rules] = /ACL SETUSER NAME on >PASSWORD (~[^`]+)```/.exec(docs)!;
      const listed = rules!.trim().split(/\s+/);
      const attempt = async (words: string[]) => {
        server.cli("acl", "setuser", "u", "reset", "on", ">p", ...words);
        const failures: unknown[] = [];
        for (const operate of Object.values(OPERATIONS)) {
          const out = await fill();
          const backend = await open("u:p@");
          const all = [
            () => operate(backend, out),
            () => backend.status("q"),
            () => backend.statuses(),
            () => backend.complete(["q"]),
            () => backend.list(),
            () => backend.failed.list("q"),
            () => backend.messages("q"),
            () => backend.peek("q"),
          ];
          for (const one of all) await one().catch((error) => failures.push(error));
          await backend.close();
        }
        return failures.filter((error) => !isAgentqError(error, "queue-not-found"));
      };
      assert.deepEqual(await attempt(listed), []);
      // What a client may do without, or only some have to do.
      const optional = ["+info", "+client|setname", "+select", "+eval"];
      for (const word of listed.filter((each) => each[0] === "+" && !optional.includes(each))) {
        const failures = await attempt(listed.filter((each) => each !== word));
        assert.notEqual(failures.length, 0, `${word} isn't needed`);
      }
    },
  );

  test("keys that it may not touch count too", LONG, async () => {
    const out = await fill();
    const before = digest();
    allow("resetkeys", "~{default}:ov:queue:*", "-@all", "+@all");
    const all = await open("u:p@");
    assert.deepEqual(await all.renew("q", [out], 60_000), ["done"]);
    await all.close();
    await fill();
    allow("resetkeys", "~{default}:ov:queue:names", "~{default}:ov:queue:q:*");
    const backend = await open("u:p@");
    // The owner's heartbeat lies outside.
    await assert.rejects(backend.dequeue("q", take), { code: "backend-denied" });
    assert.equal((await admin.status("q")).pending, 2);
    assert.notEqual(before, "");
    await backend.close();
  });

  test("a permission withdrawn under the connection loses no message", LONG, async () => {
    for (const [name, operate] of Object.entries(OPERATIONS)) {
      if (["create", "remove", "clear", "prune"].includes(name)) continue;
      for (const command of COMMANDS) {
        allow();
        const backend = await open("u:p@");
        await operate(backend, await fill()); // The connection knows that it may.
        const out = await fill();
        allow(`-${command}`);
        const error = await operate(backend, out).then(() => null, (error) => error);
        assert.ok(error === null || error instanceof AgentqError, `${error}`);
        const acks = name === "ack" || name === "step with an ack";
        const left = new Map<string, string>();
        for (const { id, data } of await admin.messages("q")) {
          if (data !== null) left.set(id, Buffer.from(data).toString());
        }
        for (const { id, data } of await admin.failed.list("q")) {
          if (data !== null) left.set(id, Buffer.from(data).toString());
        }
        for (const id of ["one", "two", "dead", ...(acks ? [] : ["out"])]) {
          assert.ok(left.has(id), `${name} without ${command}: ${id} is lost`);
        }
        if (error !== null) {
          // And from then on it is asked again.
          assert.equal(error.code, "backend-denied");
          const state = digest();
          const next = await operate(backend, out).then(() => null, (error) => error);
          if (next !== null && isAgentqError(next, "backend-denied")) {
            assert.equal(digest(), state, `${name} without ${command}`);
          }
        }
        await backend.close();
      }
    }
  });
});
