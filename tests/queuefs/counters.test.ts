/** Where workers leave their counters: for one queue of one place, however its address is written. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { openMetricsFile, readAllMetrics, removeMetrics } from "../../src/queuefs/metrics-files.ts";
import { emptyMetrics } from "../../src/queuefs/metrics.ts";
import { openBackend } from "../../src/queuefs/open.ts";
import { workerOwner } from "../../src/queuefs/owner.ts";
import { tempDir } from "../helpers/git.ts";
import { runtimeArguments } from "../store/runtime.ts";
import { startRedis } from "./helpers/redis.ts";

const main = fileURLToPath(new URL("../../cli/main.ts", import.meta.url));
const LONG = { timeout: 120_000 };

function commands(cwd: string) {
  const env = { ...process.env, AGENTQ_STATE: tempDir() };
  const queue = (backend: string, ...args: string[]) => {
    const words = [...runtimeArguments(), main, "queue", "--backend", backend, ...args];
    const ran = spawnSync(process.execPath, words, { cwd, env, encoding: "utf8" });
    assert.equal(ran.status, 0, ran.stderr);
    return ran.stdout;
  };
  return {
    queue,
    processed: (backend: string, name: string): number =>
      JSON.parse(queue(backend, "metrics", name)).processed,
    work(backend: string, name: string) {
      queue(backend, "create", name);
      queue(backend, "enqueue", name, "x");
      queue(backend, "work", name, "--until-empty", "--", "true");
    },
  };
}

for (const scheme of ["store", "sqlite"]) {
  test(`${scheme}: counters are those of the place, not of its address`, LONG, () => {
    const place = tempDir();
    const dir = join(place, "dir");
    mkdirSync(dir);
    symlinkSync(dir, join(place, "link"));
    const { queue, processed, work } = commands(dir);
    const backend = `${scheme}:${join(dir, "q")}`;
    work(backend, "jobs");
    work(backend, "jobs/low");
    assert.equal(processed(backend, "jobs"), 1);
    assert.equal(processed(`${scheme}:${join(place, "link", "q")}`, "jobs"), 1);
    assert.equal(processed(`${scheme}:q`, "jobs"), 1);

    queue(backend, "rm", "jobs");
    queue(backend, "create", "jobs/low");
    queue(backend, "create", "jobs");
    assert.equal(processed(backend, "jobs"), 0);
    assert.equal(processed(backend, "jobs/low"), 0);
    work(backend, "jobs");
    assert.equal(processed(backend, "jobs"), 1);

    // A copy is another place, and so is one that is made anew where it was.
    // The last to close a database has emptied its log.
    cpSync(join(dir, "q"), join(dir, "copy"), { recursive: true });
    assert.equal(processed(`${scheme}:${join(dir, "copy")}`, "jobs"), 0);
    rmSync(join(dir, "q"), { recursive: true });
    queue(backend, "create", "jobs");
    assert.equal(processed(backend, "jobs"), 0);
  });
}

test("a database of before is given its name when it is opened, and keeps it", async () => {
  const file = join(tempDir(), "q.db");
  const opened = async () => {
    const backend = await openBackend(`sqlite:${file}`, { create: true });
    const identity = backend.identity();
    await backend.close();
    return identity;
  };
  const first = await opened();
  assert.equal(await opened(), first);
  const db = new DatabaseSync(file);
  db.exec("DROP TABLE agentq_identity");
  db.close();
  const second = await opened();
  assert.notEqual(second, first);
  assert.equal(await opened(), second);
});

test("a Redis is the same one for whoever asks, and however", LONG, async () => {
  const server = await startRedis({ config: ["requirepass secret"] });
  try {
    const { port } = server;
    const identity = async (url: string) => {
      const backend = await openBackend(url, { env: { AGENTQ_REDIS_PASSWORD: "secret" } });
      try {
        return backend.identity();
      } finally {
        await backend.close();
      }
    };
    const plain = await identity(`redis://127.0.0.1:${port}`);
    assert.doesNotMatch(plain, /secret/);
    const same = `redis://:secret@127.0.0.1:${port}/0?timeout=900&prefix=default`;
    assert.equal(await identity(same), plain);
    assert.notEqual(await identity(`redis://127.0.0.1:${port}/1`), plain);
    assert.notEqual(await identity(`redis://127.0.0.1:${port}?prefix=other`), plain);
  } finally {
    await server.kill();
  }
});

test("a worker that outlives its queue counts from nothing in one of that name", () => {
  const directory = join(tempDir(), "counters");
  const counted = { ...emptyMetrics(), processed: 3 };
  const file = openMetricsFile(directory, workerOwner());
  file.save(counted);
  assert.equal(readAllMetrics(directory).processed, 3);
  removeMetrics(directory);
  assert.equal(readAllMetrics(directory).processed, 0);
  counted.processed = 5;
  file.save(counted);
  assert.equal(readAllMetrics(directory).processed, 2);
  counted.processed = 6;
  file.save(counted);
  assert.equal(readAllMetrics(directory).processed, 3);
});
