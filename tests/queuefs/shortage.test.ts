/** A worker whose system is short of something, or whose directory is gone: no message pays for it. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { closeSync, mkdirSync, openSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import process from "node:process";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { AgentqError } from "../../src/errors.ts";
import { runCommand } from "../../src/platform/process.ts";
import { memoryBackend } from "../../src/queuefs/backends/memory.ts";
import { commandHandler } from "../../src/queuefs/command-handler.ts";
import { startWorker, type WorkerEvent } from "../../src/queuefs/worker.ts";
import { tempDir } from "../helpers/git.ts";
import { bytes, until } from "./helpers/redis.ts";

const self = fileURLToPath(import.meta.url);

async function filled(...texts: string[]) {
  const backend = memoryBackend();
  await backend.create("q");
  await backend.enqueue("q", texts.map((each) => ({ data: bytes(each) })));
  return backend;
}

/** Opens files until there are no more, but for `left`. */
async function withDescriptors<T>(left: number, work: () => Promise<T>): Promise<T> {
  const open: number[] = [];
  try {
    for (;;) open.push(openSync("/", "r"));
  } catch {
    for (const fd of open.splice(0, left)) closeSync(fd);
  }
  try {
    return await work();
  } finally {
    for (const fd of open) closeSync(fd);
  }
}

/** In a process that may have few files open: prints what became of a command, and of a worker's messages. */
async function shortOfDescriptors() {
  const options = { cwd: "/", timeoutMs: 60_000, input: bytes("x") };
  for (let left = 0; left < 8; left++) {
    const error = await withDescriptors(left, () => runCommand("true", options).catch((e) => e));
    if (!(error instanceof Error)) continue; // Enough for one.
    assert.ok(error instanceof AgentqError, `${left}: ${error.stack}`);
    assert.equal(error.code, "command-not-started");
    assert.equal(error.details?.errno, "EMFILE");
    assert.match(error.hint, /ulimit/);
  }
  const backend = await filled("a", "b", "c");
  const handler = commandHandler("q", ["true"], { cwd: "/" });
  const events: WorkerEvent[] = [];
  const worker = await withDescriptors(0, async () => {
    const started = startWorker(backend, "q", handler, {
      concurrency: 3,
      maxAttempts: 1,
      untilEmpty: true,
      onEvent: (event) => events.push(event),
    });
    await until(() => events.filter(({ type }) => type === "released").length >= 6);
    return started;
  });
  await worker.done;
  const { processed, failed_count, requeue_count } = worker.metrics;
  assert.deepEqual([processed, failed_count, requeue_count], [3, 0, 0]);
  assert.deepEqual(await backend.failed.list("q"), []);
}

if (process.env.AGENTQ_TEST_SHORT === "1") {
  await shortOfDescriptors();
  console.log("all is well");
  process.exit(0);
}

describe("a worker", () => {
  test("without file descriptors gives messages back untried, and goes on later", {
    timeout: 120_000,
  }, () => {
    const run = process.versions.deno === undefined ? [self] : ["run", "-A", "--no-check", self];
    const script = 'ulimit -n 200; exec "$@"';
    const ran = spawnSync("sh", ["-c", script, "sh", process.execPath, ...run], {
      env: { ...process.env, AGENTQ_TEST_SHORT: "1" },
      encoding: "utf8",
    });
    assert.equal(ran.stdout.trim(), "all is well", ran.stderr);
    assert.equal(ran.stderr, "");
  });

  test("whose shell can't make a process has tried nothing", async () => {
    // As a shell ends that can't fork: before the command, with a status of its own.
    const bin = tempDir();
    writeFileSync(join(bin, "sh"), "#!/bin/bash\necho Cannot fork >&2\nexit 2\n", { mode: 0o755 });
    const path = process.env.PATH;
    process.env.PATH = `${bin}${delimiter}${path}`;
    try {
      await assert.rejects(runCommand("true", { cwd: "/", timeoutMs: 60_000 }), (error) => {
        assert.ok(error instanceof AgentqError, `${error}`);
        assert.equal(error.code, "command-not-started");
        assert.equal(error.details?.errno, "EAGAIN");
        return true;
      });
    } finally {
      process.env.PATH = path;
    }
    // A command's own status 2 is its own.
    for (let i = 0; i < 20; i++) {
      const { exit } = await runCommand("exit 2", { cwd: "/", timeoutMs: 60_000 });
      assert.equal(exit, 2);
    }
  });

  test("waits while its handler's program can't be started, longer each time", async () => {
    const backend = await filled("a");
    let left = 3;
    const times: number[] = [];
    const events: WorkerEvent[] = [];
    const worker = startWorker(backend, "q", (_, { attempt }) => {
      assert.equal(attempt, 1);
      times.push(performance.now());
      if (left-- > 0) {
        throw new AgentqError("command-not-started", "x", { details: { errno: "EAGAIN" } });
      }
    }, { maxAttempts: 1, idleMs: 5, untilEmpty: true, onEvent: (event) => events.push(event) });
    await worker.done;
    assert.deepEqual(worker.metrics, {
      processed: 1,
      requeue_count: 0,
      error_count: 3,
      failed_count: 0,
      recovered_count: 0,
      stale_count: 0,
    });
    const pauses = times.slice(1).map((time, i) => time - times[i]!);
    // At least that long, whatever the machine does otherwise.
    assert.ok(pauses[0]! >= 99 && pauses[1]! >= 199 && pauses[2]! >= 399, String(pauses));
    assert.equal(events.filter(({ type }) => type === "released").length, 3);
  });

  test("whose directory goes gives its message back and ends", async () => {
    const cwd = join(tempDir(), "d");
    mkdirSync(cwd);
    const backend = await filled("a", "b");
    const gate = join(tempDir(), "gate");
    const handler = commandHandler("q", ["sh", "-c", `cat >${gate}`], { cwd });
    const events: WorkerEvent[] = [];
    const worker = startWorker(backend, "q", async (message, context) => {
      await handler(message, context);
      rmSync(cwd, { recursive: true });
    }, { onEvent: (event) => events.push(event) });
    await assert.rejects(worker.done, (error) => {
      assert.ok(error instanceof AgentqError, `${error}`);
      assert.equal(error.code, "current-directory-gone");
      assert.ok(error.message.includes(cwd));
      return true;
    });
    assert.deepEqual(await backend.status("q"), { pending: 1, processing: 0 });
    assert.equal(events.at(-1)!.type, "released");
    assert.deepEqual(await backend.failed.list("q"), []);
    renameSync(gate, `${gate}.done`); // It ran once.
  });
});
