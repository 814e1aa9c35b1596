/** The four backends, Redis alone, as a cluster, and behind sentinels with a failover in the middle. */
import { join } from "node:path";
import { memoryBackend } from "../../src/queuefs/backends/memory.ts";
import { parseRedisUrl } from "../../src/queuefs/backends/redis/address.ts";
import { redisBackend } from "../../src/queuefs/backends/redis/backend.ts";
import { sqliteBackend } from "../../src/queuefs/backends/sqlite/backend.ts";
import { storeBackend } from "../../src/queuefs/backends/store/backend.ts";
import { tempDir } from "../helpers/git.ts";
import { conformance } from "./helpers/conformance.ts";
import { startCluster, startRedis, startSentinels } from "./helpers/redis.ts";

conformance("memory", async () => ({ backend: memoryBackend(), close: async () => {} }));

conformance("sqlite", async () => ({
  backend: sqliteBackend(join(tempDir(), "queue.db"), { create: true }),
  close: async () => {},
}));

conformance("store", async () => ({
  backend: await storeBackend(join(tempDir(), "store"), { create: true }),
  close: async () => {},
}));

conformance("redis", async () => {
  const server = await startRedis();
  const url = `redis://127.0.0.1:${server.port}/3?prefix=conformance`;
  return { backend: await redisBackend(parseRedisUrl(url, {})), close: () => server.kill() };
});

conformance("redis cluster", async () => {
  const servers = await startCluster();
  const hosts = servers.map(({ port }) => `127.0.0.1:${port}`).join(",");
  return {
    backend: await redisBackend(parseRedisUrl(`redis://${hosts}?cluster=1`, {})),
    // The script cache of another node is empty, and so is this one's now.
    upheaval: async () => {
      for (const server of servers) server.cli("script", "flush");
    },
    close: async () => {
      for (const server of servers) await server.kill();
    },
  };
});

conformance("redis behind sentinels", async () => {
  const setup = await startSentinels();
  const url = `redis://${setup.sentinels}?sentinel=mymaster&timeout=15000`;
  return {
    backend: await redisBackend(parseRedisUrl(url, {})),
    upheaval: setup.failover,
    close: setup.stop,
  };
});
