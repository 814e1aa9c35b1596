/** Whoever waits for a lock for more than a second says so, and whose it is. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { openBackend } from "../../src/queuefs/open.ts";
import { startWorker } from "../../src/queuefs/worker.ts";
import { releaseOrKeep, tryExclusive } from "../../src/store/exclusive.ts";
import { storePaths } from "../../src/store/layout.ts";
import { storePlatform } from "../../src/store/platform.ts";
import { commit, git, gitEnv, makeRepo, tempDir } from "../helpers/git.ts";
import { runtimeArguments } from "../store/runtime.ts";

const main = fileURLToPath(new URL("../../cli/main.ts", import.meta.url));
const holder = fileURLToPath(new URL("../store/lock-holder.ts", import.meta.url));
const LONG = { timeout: 120_000 };

function agentq(cwd = tempDir()) {
  const env = { ...process.env, ...gitEnv(), AGENTQ_STATE: tempDir() };
  const words = (args: readonly string[]) => [...runtimeArguments(), main, ...args];
  return {
    state: env.AGENTQ_STATE,
    run(...args: string[]): string {
      const ran = spawnSync(process.execPath, words(args), { cwd, env, encoding: "utf8" });
      assert.equal(ran.status, 0, ran.stderr);
      return ran.stdout;
    },
    start: (...args: string[]) => watched(spawn(process.execPath, words(args), { cwd, env })),
  };
}

function watched(child: ChildProcess) {
  let err = "";
  let heard = () => {};
  child.stderr!.on("data", (chunk) => {
    err += chunk;
    heard();
  });
  // Deno shows an exit status of 143 as the signal.
  const ended = new Promise<number | null>((resolve) =>
    child.once("close", (code, signal) => resolve(signal === "SIGTERM" ? 143 : code))
  );
  return {
    /** Resolves once it has said that; rejects where it ends without. */
    said: (what: RegExp) =>
      new Promise<void>((resolve, reject) => {
        heard = () => what.test(err) && resolve();
        heard();
        void ended.then(() => reject(new Error(`it never said ${what}: ${err}`)));
      }),
    kill: (signal: NodeJS.Signals) => child.kill(signal),
    async end() {
      const code = await ended;
      return { code, err };
    },
  };
}

/** A process that has the lock of a store until it is killed. */
async function hold(root: string): Promise<{ pid: number; kill(): Promise<unknown> }> {
  const child = spawn(process.execPath, [...runtimeArguments(), holder, root]);
  const ended = new Promise((resolve) => child.once("close", resolve));
  await new Promise((resolve) => child.stdout.once("data", resolve));
  return {
    pid: child.pid!,
    kill: () => {
      process.kill(child.pid!, "SIGKILL");
      return ended;
    },
  };
}

test("commands and workers say that they wait for a store's lock, unless quiet", LONG, async () => {
  const { run, start, state } = agentq();
  run("queue", "create", "jobs");
  const lock = await hold(join(state, "store"));
  const what = new RegExp(`^waiting for the store's lock, held by process ${lock.pid} on `, "m");
  const enqueue = ["queue", "enqueue", "jobs", "x", "--recover-stale"];
  const quiet = start(...enqueue, "--quiet");
  const loud = start(...enqueue);
  await loud.said(what);
  const worker = start("queue", "work", "jobs", "--recover-stale", "--until-empty", "--", "true");
  const gc = start("store", "gc", "--recover-stale");
  await Promise.all([worker.said(what), gc.said(what)]);
  await lock.kill();
  for (const each of [loud, quiet, worker, gc]) assert.equal((await each.end()).code, 0);
  assert.equal((await quiet.end()).err, "");
});

test(
  "a worker that waits for a store's lock with nothing at work ends at a signal",
  LONG,
  async () => {
    const { run, start, state } = agentq();
    run("queue", "create", "jobs");
    run("queue", "enqueue", "jobs", "x");
    const lock = await hold(join(state, "store"));
    const worker = start("queue", "work", "jobs", "--", "true");
    await worker.said(/^waiting for the store's lock, held by process /m);
    worker.kill("SIGTERM");
    const { code, err } = await worker.end();
    assert.equal(code, 143, err);
    // That is what it says once it has waited for as long as it may.
    assert.doesNotMatch(err, /trying again/);
    assert.equal(err.match(/^waiting /gm)?.length, 1, err);
    await lock.kill();
    assert.equal(run("queue", "size", "jobs", "--recover-stale"), "1\n");
  },
);

test("a command that waits for a store to be made ends at a signal", LONG, async () => {
  const { run, start, state } = agentq();
  const root = join(state, "store");
  run("queue", "create", "jobs");
  rmSync(join(root, ".fs-safe-queue-v2", "state.json"));
  rmSync(join(root, ".fs-safe-queue-v2", "format.json"));
  const lock = await hold(root);
  for (const words of [["work", "jobs", "--", "true"], ["size", "jobs"]]) {
    const command = start("queue", ...words);
    await command.said(/^waiting for the store in /m);
    command.kill("SIGTERM");
    const { code, err } = await command.end();
    assert.equal(code, 143, err);
    assert.match(err, /stopped by SIGTERM/);
  }
  await lock.kill();
});

test(
  "a worker that has something to settle waits for the lock when it is stopped",
  LONG,
  async () => {
    const root = tempDir();
    const backend = await openBackend(`store:${root}`, { create: true });
    await backend.create("jobs");
    await backend.enqueue("jobs", [{ id: "a", data: new Uint8Array() }]);
    const platform = storePlatform({});
    let [begun, end] = [() => {}, () => {}];
    const running = new Promise<void>((resolve) => begun = resolve);
    const worker = startWorker(backend, "jobs", () => {
      begun();
      return new Promise<void>((resolve) => end = resolve);
    });
    await running;
    const lock = tryExclusive(platform, storePaths(root).lock)!;
    const stopped = worker.stop();
    end();
    // It waits by now.
    await new Promise((resolve) => setTimeout(resolve, 100));
    releaseOrKeep(platform, lock);
    await stopped;
    assert.equal(worker.metrics.processed, 1);
    assert.deepEqual(await backend.status("jobs"), { pending: 0, processing: 0 });
  },
);

test("submit says that it waits for the lock of this machine's submissions", LONG, async () => {
  const origin = tempDir();
  git(origin, "init", "-q", "--bare", "-b", "main", ".");
  const clone = makeRepo();
  git(clone, "remote", "add", "origin", origin);
  commit(clone, "base", { "a.txt": "a\n" });
  git(clone, "push", "-q", "origin", "main");
  const { run, start, state } = agentq(clone);
  commit(clone, "one", { "b.txt": "b\n" });
  run("submit", "--no-wait");
  commit(clone, "two", { "c.txt": "c\n" });
  const lock = await hold(join(state, "submissions"));
  const submit = start("submit", "--no-wait");
  await submit.said(/^waiting for the store's lock, held by process /m);
  await lock.kill();
  const { code, err } = await submit.end();
  assert.equal(code, 0, err);
});

test("a command says that it waits for a database's lock", LONG, async () => {
  const { run, start } = agentq();
  const file = join(tempDir(), "q.db");
  const backend = ["--backend", `sqlite:${file}`];
  run("queue", "create", "jobs", ...backend);
  const db = new DatabaseSync(file);
  db.exec("BEGIN IMMEDIATE");
  const enqueue = start("queue", "enqueue", "jobs", "x", ...backend);
  await enqueue.said(new RegExp(`^waiting for the lock of sqlite:${file}$`, "m"));
  db.exec("ROLLBACK");
  db.close();
  const { code, err } = await enqueue.end();
  assert.equal(code, 0, err);
  assert.equal(run("queue", "size", "jobs", ...backend), "1\n");
});
