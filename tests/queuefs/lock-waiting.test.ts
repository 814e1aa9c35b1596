/** Whoever waits for a lock for more than a second says so, and whose it is. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { join } from "node:path";
import process from "node:process";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
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
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  return {
    /** Resolves once it has said that; rejects where it ends without. */
    said: (what: RegExp) =>
      new Promise<void>((resolve, reject) => {
        heard = () => what.test(err) && resolve();
        heard();
        void ended.then(() => reject(new Error(`it never said ${what}: ${err}`)));
      }),
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
