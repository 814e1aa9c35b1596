import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { initStore, openStore } from "../../src/store/mod.ts";
import { tempDir } from "../helpers/git.ts";
import { runtimeArguments } from "../store/runtime.ts";
import { seededRandom } from "./simulated-files.ts";

/** The long run: AGENTQ_KILLS=10000. */
const KILLS = Number(process.env.AGENTQ_KILLS ?? 60);
const SEED = Number(process.env.AGENTQ_KILL_SEED ?? Math.floor(Math.random() * 2 ** 31));
const WORKERS = 4;
const CHECK_EVERY = KILLS > 1000 ? 200 : 20;

/** Bundled where the runtime can: a process that is to be killed soon should start soon. */
function workerScript(): string {
  const source = new URL("./kill-worker.ts", import.meta.url).pathname;
  if ("Deno" in globalThis) return source;
  const bundle = join(tempDir(), "kill-worker.js");
  const build = spawnSync(process.execPath, [
    ...["build", source, "--target=bun", "--outfile", bundle],
  ], { encoding: "utf8" });
  assert.equal(build.status, 0, build.stderr);
  return bundle;
}

interface Worker {
  readonly child: ChildProcess;
  /** At work, or ended. */
  readonly ready: Promise<unknown>;
  readonly ended: Promise<unknown[]>;
  errors: string;
}

function startWorker(script: string, root: string, journals: string, seed: number): Worker {
  const child = spawn(process.execPath, [
    ...runtimeArguments(),
    script,
    root,
    join(journals, `${seed}.log`),
    String(seed),
  ], { stdio: ["ignore", "pipe", "pipe"] });
  const ended = once(child, "exit");
  const ready = Promise.race([once(child.stdout!, "data"), ended]);
  const worker: Worker = { child, ready, ended, errors: "" };
  child.stderr!.on("data", (chunk) => worker.errors += chunk);
  return worker;
}

/** What the journals say of each generation, over all processes that ever ran. */
function readJournals(directory: string): Map<string, Set<string>> {
  const events = new Map<string, Set<string>>();
  for (const name of readdirSync(directory)) {
    for (const line of readFileSync(join(directory, name), "utf8").split("\n")) {
      const [event, generation] = line.split(" ");
      if (event === undefined || generation === undefined) continue;
      const set = events.get(generation) ?? new Set();
      events.set(generation, set.add(event));
    }
  }
  return events;
}

/** While every worker stands still or is dead: nothing lost, nothing doubled, nothing back. */
async function audit(root: string, journals: string): Promise<void> {
  const store = await openStore(root, { recoverStale: true });
  const report = await store.check();
  assert.deepEqual(report.findings.filter(({ level }) => level === "error"), []);
  const places = new Map<string, string[]>();
  for (const { receipt, state } of await store.messages()) {
    places.set(receipt.generation, [...places.get(receipt.generation) ?? [], state]);
  }
  for (const { generation } of await store.failed.list()) {
    places.set(generation, [...places.get(generation) ?? [], "failed"]);
  }
  for (const [generation, where] of places) {
    assert.equal(where.length, 1, `${generation} is ${where.join(" and ")}`);
  }
  for (const [generation, events] of readJournals(journals)) {
    const where = places.get(generation)?.[0];
    const label = `${generation}: ${[...events].join(", ")}, found ${where}`;
    if (events.has("acked")) assert.equal(where, undefined, label);
    else if (events.has("failed")) assert.equal(where, "failed", label);
    // Killed in the middle of it: it may have happened or not. What wasn't tried can't have.
    else if (!events.has("acking")) {
      assert.ok(where !== undefined, label);
      if (!events.has("failing")) assert.notEqual(where, "failed", label);
    } else if (!events.has("failing")) assert.notEqual(where, "failed", label);
  }
}

test(`${KILLS} kills of ${WORKERS} processes on one store lose nothing and bring nothing back`, {
  timeout: 60_000 + KILLS * 1000,
}, async () => {
  console.log(`seed ${SEED} (AGENTQ_KILL_SEED=${SEED} AGENTQ_KILLS=${KILLS})`);
  const random = seededRandom(SEED);
  const root = tempDir("agentq-kills-");
  const journals = tempDir("agentq-journals-");
  await initStore(root);
  const script = workerScript();
  let started = 0;
  let kills = 0;
  const workers = new Set<Worker>();
  /** One process after another, each killed somewhere in its work, until so many were killed. */
  const killInTurn = async (until: number) => {
    while (kills < until) {
      kills++;
      const worker = startWorker(script, root, journals, SEED + started++);
      const { child, ready, ended } = worker;
      workers.add(worker);
      await ready;
      await new Promise((resolve) => setTimeout(resolve, random() ** 2 * 100));
      assert.equal(child.exitCode, null, `a worker ended by itself:\n${worker.errors}`);
      child.kill("SIGKILL");
      await ended;
      workers.delete(worker);
      assert.equal(child.signalCode, "SIGKILL", worker.errors);
    }
  };
  try {
    while (kills < KILLS) {
      const until = Math.min(kills + CHECK_EVERY, KILLS);
      await Promise.all(Array.from({ length: WORKERS }, () => killInTurn(until)));
      await audit(root, journals);
    }
  } finally {
    for (const { child } of workers) child.kill("SIGKILL");
    await Promise.all([...workers].map(({ ended }) => ended));
  }
  const events = [...readJournals(journals).values()];
  const count = (event: string) => events.filter((set) => set.has(event)).length;
  console.log(
    `${started} processes, ${count("enqueued")} enqueued, ${count("acked")} acked, ` +
      `${count("failed")} failed`,
  );
  assert.ok(count("enqueued") > KILLS / 10, "the workers worked");
});
