/** So many messages in one call that they can't be the arguments of one. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseRedisUrl } from "../../src/queuefs/backends/redis/address.ts";
import { redisBackend } from "../../src/queuefs/backends/redis/backend.ts";
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
