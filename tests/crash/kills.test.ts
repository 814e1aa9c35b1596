import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
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
const CHECK_EVERY = 20;

const WORKER = new URL("./kill-worker.ts", import.meta.url).pathname;

interface Worker {
  readonly child: ChildProcess;
  /** At work, or ended. */
  readonly ready: Promise<unknown>;
  readonly ended: Promise<unknown[]>;
  errors: string;
}

function startWorker(root: string, journals: string, seed: number): Worker {
  const child = spawn(process.execPath, [
    ...runtimeArguments(),
    WORKER,
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
    else if (events.has("failing")) assert.ok(where !== undefined, label);
    else if (!events.has("acking")) assert.ok(where === "pending" || where === "claimed", label);
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
  let started = 0;
  const next = () => startWorker(root, journals, SEED + started++);
  const workers = Array.from({ length: WORKERS }, next);
  const kill = async (worker: Worker) => {
    const { child, ready } = worker;
    await ready;
    await new Promise((resolve) => setTimeout(resolve, random() * 20));
    assert.equal(child.exitCode, null, `a worker ended by itself:\n${worker.errors}`);
    child.kill("SIGKILL");
    await worker.ended;
    assert.equal(child.signalCode, "SIGKILL", worker.errors);
  };
  try {
    for (let kills = 1; kills <= KILLS; kills++) {
      const index = Math.floor(random() * WORKERS);
      if (kills % CHECK_EVERY === 0 || kills === KILLS) {
        await Promise.all(workers.map(kill));
        await audit(root, journals);
        for (let i = 0; i < WORKERS; i++) workers[i] = next();
      } else {
        await kill(workers[index]!);
        workers[index] = next();
      }
    }
  } finally {
    for (const { child } of workers) child.kill("SIGKILL");
    await Promise.all(workers.map(({ ended }) => ended));
  }
  const events = [...readJournals(journals).values()];
  const count = (event: string) => events.filter((set) => set.has(event)).length;
  console.log(
    `${started} processes, ${count("enqueued")} enqueued, ${count("acked")} acked, ` +
      `${count("failed")} failed`,
  );
  assert.ok(count("enqueued") > KILLS / 4 && count("acked") > 0, "the workers worked");
});
