/** So many messages in one call that they can't be the arguments of one. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseRedisUrl } from "../../src/queuefs/backends/redis/address.ts";
import { redisBackend } from "../../src/queuefs/backends/redis/backend.ts";
import { callHead } from "../../src/queuefs/backends/redis/call.ts";
import { connectRedis, type Reply } from "../../src/queuefs/backends/redis/connection.ts";
import { redisKeys } from "../../src/queuefs/backends/redis/keys.ts";
import { recoverQueue } from "../../src/queuefs/backends/redis/recover.ts";
import { serverRole } from "../../src/queuefs/backends/redis/role.ts";
import { callerOwner } from "../../src/queuefs/owner.ts";
import { startRedis } from "./helpers/redis.ts";

const MANY = 150_000;
const MORE = 250_000;

test("Redis takes, recovers and settles many messages at once", { timeout: 240_000 }, async () => {
  const server = await startRedis({ config: ["appendfsync no"] });
  const url = `redis://127.0.0.1:${server.port}?timeout=60000`;
  const backend = await redisBackend(parseRedisUrl(url, {}));
  const take = { owner: callerOwner("t"), leaseMs: 1, count: MANY };
  await backend.create("q");
  const data = new Uint8Array();
  const all = await backend.enqueue("q", Array.from({ length: MORE }, () => ({ data })));
  assert.equal(all.length, MORE);
  const ids = all.slice(0, MANY);
  assert.equal((await backend.dequeue("q", take)).length, MANY);
  // The leases have run out; nobody renews them, so that nothing is watched.
  const recovered = await backend.recover("q");
  assert.equal(recovered.length, MANY);
  assert.deepEqual(recovered.map(({ id }) => id), ids);
  assert.deepEqual(await backend.status("q"), { pending: MORE, processing: 0 });
  // All are where they were.
  const again = await backend.dequeue("q", take);
  assert.deepEqual(again.map(({ id }) => id), ids);
  const settled = await backend.ack("q", again.map(({ id, lease }) => ({ id, lease })));
  assert.equal(settled.filter((each) => each === "done").length, MANY);
  assert.deepEqual(await backend.status("q"), { pending: MORE - MANY, processing: 0 });
  await backend.close();
  await server.kill();
});

test(
  "Redis looks at those in processing in bounded parts, and misses none when others go meanwhile",
  {
    timeout: 120_000,
  },
  async () => {
    const server = await startRedis({ config: ["appendfsync no"] });
    const address = parseRedisUrl(`redis://127.0.0.1:${server.port}`, {});
    const backend = await redisBackend(address);
    const connection = await connectRedis(address);
    await backend.create("q");
    const data = new Uint8Array();
    const ids = await backend.enqueue("q", Array.from({ length: 5_500 }, () => ({ data })));
    const take = { owner: callerOwner("t"), leaseMs: 1, count: ids.length };
    const taken = await backend.dequeue("q", take);
    const acked = new Set<string>();
    const keys = redisKeys(address.prefix, "q");
    const longest = { survey: 0, "take-back": 0 };
    const recovered = await recoverQueue(
      async (script, args) => {
        const head = callHead(script, script.keys.map((key) => keys[key]), ["q"]);
        const reply = await connection.run(head, "q", args) as Reply[];
        const rows = script.name === "survey" ? (reply.length - 3) / 5 : reply.length;
        longest[script.name as keyof typeof longest] = Math.max(
          longest[script.name as keyof typeof longest],
          rows,
        );
        if (script.name === "survey") {
          // Some that were seen and some that weren't are acked before the next part.
          const some = taken.filter(({ id }) => !acked.has(id)).filter((_, i) => i % 10 === 0);
          some.forEach(({ id }) => acked.add(id));
          await backend.ack("q", some.map(({ id, lease }) => ({ id, lease })));
        }
        return reply;
      },
      serverRole(address, connection),
      "q",
      {},
    );
    assert.deepEqual(longest, { survey: 1000, "take-back": 1000 });
    assert.ok(acked.size > 1000);
    const left = ids.filter((id) => !acked.has(id));
    assert.deepEqual(recovered.map(({ id }) => id), left);
    assert.deepEqual(await backend.status("q"), { pending: left.length, processing: 0 });
    assert.deepEqual((await backend.dequeue("q", take)).map(({ id }) => id), left);
    // One that is told to end does so after a part.
    const end = AbortSignal.abort();
    assert.equal((await backend.recover("q", { signal: end })).length, 1000);
    await connection.close();
    await backend.close();
    await server.kill();
  },
);
