/** What a server says is told as it says it, and nothing of the inside of the client that hears it. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { test } from "node:test";
import { AgentqError } from "../../src/errors.ts";
import { parseRedisUrl } from "../../src/queuefs/backends/redis/address.ts";
import { redisBackend } from "../../src/queuefs/backends/redis/backend.ts";
import { callWords, plainly } from "../../src/queuefs/backends/redis/client-words.ts";
import { bytes, startRedis, until } from "./helpers/redis.ts";

const LONG = { timeout: 120_000 };
const open = (url: string) => redisBackend(parseRedisUrl(url, {}));
const INSIDE = /max ?retries|offlineQueue|Connection is closed|option|slots cache/i;

test("a server that takes no more clients is told with what to do", LONG, async () => {
  const server = await startRedis();
  const idle = spawn("redis-cli", ["-p", String(server.port), "blpop", "none", "0"]);
  await until(() => server.cli("client", "list").includes("cmd=blpop"));
  server.cli("config", "set", "maxclients", "1");
  for (const more of ["", "?cluster=1", "?sentinel=m"]) {
    for (let i = 0; i < 5; i++) {
      await assert.rejects(open(`redis://127.0.0.1:${server.port}${more}`), {
        code: "backend-unreachable",
        message: /: ERR max number of clients reached$/,
        hint: /maxclients/,
        retryable: true,
      });
    }
  }
  idle.kill("SIGKILL");
  await server.kill();
});

test("a connection that breaks under a call is told by its own end", LONG, async () => {
  const server = await startRedis();
  const backend = await open(`redis://127.0.0.1:${server.port}?timeout=1000`);
  await backend.create("q");
  server.cli("client", "pause", "60000");
  const calls = [1, 2, 3].map(() => backend.enqueue("q", [{ data: bytes("x") }]));
  setTimeout(() => void server.kill(), 100);
  for (const { reason } of await Promise.allSettled(calls) as PromiseRejectedResult[]) {
    assert.ok(reason instanceof AgentqError && reason.code === "backend-outcome-unknown");
    assert.match(reason.message, /lost before the answer: (the server closed|read E)/);
    assert.doesNotMatch(reason.message, INSIDE);
  }
  await assert.rejects(backend.status("q"), { message: /ECONNREFUSED/ });
  await backend.close();
});

test("no text of the client's inside is passed on", () => {
  for (
    const text of [
      'Reached the max retries per request limit (which is 0). Refer to "maxRetriesPerRequest" option for details.',
      "Stream isn't writeable and enableOfflineQueue options is false",
      "Cluster isn't ready and enableOfflineQueue options is false",
      "Connection is closed.",
      "Failed to refresh slots cache.",
      "Command timed out",
      "All sentinels are unreachable. Retrying from scratch after 100ms. Last error: Connection is closed.",
      "Too many Cluster redirections. Last error: ReplyError: MOVED 1 h:2",
      "Command queue state error. If you can reproduce this, please report it. Last error: DENIED x",
    ]
  ) {
    assert.doesNotMatch(plainly(new Error(text), 5).message, INSIDE, text);
    assert.doesNotMatch(callWords(new Error(text), new Error(text), 5), INSIDE, text);
  }
  const refused = new Error("connect ECONNREFUSED 127.0.0.1:1");
  assert.equal(plainly(refused, 5), refused);
  assert.match(callWords(new Error("Connection is closed."), refused, 5), /ECONNREFUSED/);
});
