/** Waits for queues whose backend hangs, is away for a while or is busy: the time and signals hold all the same. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import process from "node:process";
import { DatabaseSync } from "node:sqlite";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { AgentqError } from "../../src/errors.ts";
import { parseRedisUrl } from "../../src/queuefs/backends/redis/address.ts";
import { redisBackend } from "../../src/queuefs/backends/redis/backend.ts";
import { memoryBackend } from "../../src/queuefs/backends/memory.ts";
import { sqliteBackend } from "../../src/queuefs/backends/sqlite/backend.ts";
import { waitComplete } from "../../src/queuefs/completion.ts";
import type { QueueBackend } from "../../src/queuefs/contract.ts";
import { callerOwner } from "../../src/queuefs/owner.ts";
import { tempDir } from "../helpers/git.ts";
import { bytes, startRedis, until } from "./helpers/redis.ts";

const main = fileURLToPath(new URL("../../cli/main.ts", import.meta.url));
const start = process.versions.deno === undefined ? [main] : ["run", "-A", "--no-check", main];
const LONG = { timeout: 120_000 };

/** A queue with one message whose backend answers `complete` and `statuses` as told. */
async function instead(answer: (call: string) => Promise<never> | null): Promise<QueueBackend> {
  const backend = memoryBackend();
  await backend.create("q");
  await backend.enqueue("q", [{ data: bytes("a") }]);
  return {
    ...backend,
    complete: (queues) => answer("complete") ?? backend.complete(queues),
    statuses: (queues) => answer("statuses") ?? backend.statuses(queues),
  };
}

const never = () => new Promise<never>(() => {});

function waiting(backend: string, ...flags: string[]) {
  const words = ["queue", "wait", "jobs", "--backend", backend, ...flags];
  const child = spawn(process.execPath, [...start, ...words], {
    env: { ...process.env, AGENTQ_STATE: tempDir() },
  });
  let err = "";
  child.stderr.on("data", (chunk) => err += chunk);
  const done = new Promise<{ how: string; err: string }>((resolve) =>
    // Deno shows an exit status of 143 as the signal.
    child.once("close", (code, signal) => resolve({ how: String(signal ?? code), err }))
  );
  return { child, done, err: () => err };
}

describe("a wait", () => {
  test("ends when its time is over though the backend never answers", async () => {
    for (const silent of ["complete", "statuses"]) {
      const backend = await instead((call) => call === silent ? never() : null);
      await assert.rejects(waitComplete(backend, ["q"], { timeoutMs: 50 }), {
        code: "wait-timeout",
        message: "not complete after 0.05 s (no answer of the backend)",
      });
    }
  });

  test("ends by its signal though the backend never answers", async () => {
    const backend = await instead(never);
    const abort = new AbortController();
    const wait = waitComplete(backend, ["q"], { signal: abort.signal });
    abort.abort(new AgentqError("interrupted", "stopped"));
    await assert.rejects(wait, { message: "stopped" });
    await assert.rejects(waitComplete(backend, ["q"], { signal: abort.signal }), {
      message: "stopped",
    });
  });

  test("goes on through what may pass, and says so; ends by what doesn't", async () => {
    const faults = ["backend-unreachable", "backend-busy", "backend-unreachable"] as const;
    let n = 0;
    const told: string[] = [];
    const backend = await instead(() => {
      const code = faults[n++];
      return code === undefined ? null : Promise.reject(new AgentqError(code, `no ${n}`));
    });
    await backend.clear("q");
    await waitComplete(backend, ["q"], { onFault: ({ code }) => told.push(code) });
    assert.deepEqual(told, faults);
    for (const code of ["backend-denied", "backend-corrupt", "queue-not-found"] as const) {
      const broken = await instead(() => Promise.reject(new AgentqError(code, "no")));
      await assert.rejects(waitComplete(broken, ["q"], { timeoutMs: 10_000 }), { code });
    }
  });

  test("whose time is over while the backend is away tells what is in the way", async () => {
    const fault = new AgentqError("backend-unreachable", "it is away");
    const backend = await instead(() => Promise.reject(fault));
    await assert.rejects(waitComplete(backend, ["q"], { timeoutMs: 10 }), {
      code: "wait-timeout",
      message: "not complete after 0.01 s (it is away)",
    });
  });
});

describe("queue wait", () => {
  test("on a Redis server that hangs: --timeout exits 3, SIGTERM 143", LONG, async () => {
    const server = await startRedis();
    const url = `redis://127.0.0.1:${server.port}`;
    const backend = await redisBackend(parseRedisUrl(url, {}));
    await backend.create("jobs");
    await backend.enqueue("jobs", [{ data: bytes("a") }]);
    // A day: nothing but the time of the wait may end it.
    const hanging = `${url}?timeout=9999999`;
    const [timed, stopped] = [waiting(hanging, "--timeout", "6"), waiting(hanging)];
    await until(() => [timed, stopped].every(({ err }) => err().includes("1 pending")));
    process.kill(server.pid(), "SIGSTOP");
    // Its connection too is waited for no longer.
    const late = waiting(hanging, "--timeout", "1");
    const { how, err } = await timed.done;
    assert.equal(how, "3", err);
    assert.match(err, /not complete after 6 s/);
    assert.equal((await late.done).how, "3");
    stopped.child.kill("SIGTERM");
    assert.match((await stopped.done).how, /^(143|SIGTERM)$/);
    await backend.close().catch(() => {});
    await server.kill();
  });

  test("outlives a server that is away, and ends once it is back", LONG, async () => {
    const server = await startRedis();
    const url = `redis://127.0.0.1:${server.port}?timeout=300`;
    const open = () => redisBackend(parseRedisUrl(url, {}));
    const backend = await open();
    await backend.create("jobs");
    await backend.enqueue("jobs", [{ data: bytes("a") }]);
    const wait = waiting(url);
    await until(() => wait.err().includes("1 pending"));
    await backend.close();
    await server.kill();
    await until(() => wait.err().includes("jobs: still waiting: redis:"));
    await server.start();
    const again = await open();
    const owner = callerOwner("test");
    const [message] = await again.dequeue("jobs", { owner, leaseMs: 60_000 });
    await again.ack("jobs", [{ id: message!.id, lease: message!.lease }]);
    const { how, err } = await wait.done;
    assert.equal(how, "0", err);
    await again.close();
    await server.kill();
  });

  test("on a database that another holds: --timeout exits 3", LONG, async () => {
    const file = join(tempDir(), "q.db");
    const backend = sqliteBackend(file, { create: true });
    await backend.create("jobs");
    await backend.close();
    const other = new DatabaseSync(file);
    other.exec("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE");
    const timed = waiting(`sqlite:${file}`, "--timeout", "1");
    const { how, err } = await timed.done;
    assert.equal(how, "3", err);
    other.exec("ROLLBACK");
    other.close();
    assert.equal((await waiting(`sqlite:${file}`, "--timeout", "60").done).how, "0");
  });
});
