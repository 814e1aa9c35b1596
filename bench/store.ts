/**
 * The v2 store beside v1 and beside a bare loop that makes the same syncs, on one disk, in one run,
 * in rounds in which all take turns:
 *
 *   enqueue+claim+ack, one message      at least 2× v1's speed, at most 1.3× the bare loop's time
 *   the same, 100 at a time             at least 15× v1's speed per message
 *   the same beside 10, 1,000 and 10,000 live messages: printed
 *
 * A call has returned before the system has freed what it removed; the next turn waits for that, and the ratio
 * with that time counted is printed too.
 *
 * Each comparison has an A/A control: the same thing measured against itself, which shows what the
 * machine's noise is. Usage: bun bench/store.ts [ROUNDS]. Set TMPDIR to choose the disk. Prints medians
 * of the times and the median of the rounds' ratios.
 */
import fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { freed } from "../src/platform/held.ts";
import { initStore, openStore, type Store } from "../src/store/mod.ts";
import { openV1Queue, type V1Queue } from "../src/store/v1.ts";

const rounds = Number(process.argv[2] ?? 25);
const work = fs.mkdtempSync(join(tmpdir(), "agentq-bench-"));
const PAYLOAD = { filler: "x".repeat(300) };
const CYCLES = 10;
const BATCH = 100;

type Subject = () => Promise<void> | void;

async function newStore(name: string, live = 0): Promise<Store> {
  const root = join(work, name);
  await initStore(root);
  const store = await openStore(root);
  for (let made = 0; made < live; made += 1000) {
    const count = Math.min(1000, live - made);
    const entries = Array.from({ length: count }, (_, i) => ({ id: `l${made + i}`, payload: i }));
    await store.enqueueMany("live", entries);
  }
  return store;
}

function storeCycles(store: Store): Subject {
  return async () => {
    for (let i = 0; i < CYCLES; i++) {
      await store.enqueue("jobs", `m${i}`, PAYLOAD);
      const [claim] = await store.claim("jobs");
      await store.ack(claim!.receipt);
    }
  };
}

function storeBatch(store: Store): Subject {
  const entries = Array.from({ length: BATCH }, (_, i) => ({ id: `m${i}`, payload: PAYLOAD }));
  return async () => {
    await store.enqueueMany("jobs", entries);
    const claims = await store.claim("jobs", { count: BATCH });
    await store.ack(...claims.map(({ receipt }) => receipt));
  };
}

function v1Cycles(queue: V1Queue): Subject {
  return async () => {
    for (let i = 0; i < CYCLES; i++) {
      await queue.enqueue(`m${i}`, PAYLOAD);
      await queue.claim({ id: `m${i}` });
      await queue.ack(`m${i}`);
    }
  };
}

/** The same files and the same syncs in the same order, with nothing checked, locked or counted. */
function bareCycles(name: string, stateText: string): Subject {
  const namespace = join(work, name);
  const objects = join(namespace, "objects");
  fs.mkdirSync(objects, { recursive: true });
  const payload = JSON.stringify(PAYLOAD);
  const syncDirectory = (path: string) => {
    const fd = fs.openSync(path, "r");
    fs.fsyncSync(fd);
    fs.closeSync(fd);
  };
  const writeSynced = (path: string, text: string) => {
    const fd = fs.openSync(path, "wx", 0o600);
    fs.writeSync(fd, text);
    fs.fsyncSync(fd);
    fs.closeSync(fd);
  };
  let serial = 0;
  const commit = () => {
    const temp = join(namespace, `.state.${serial}`);
    writeSynced(temp, stateText);
    fs.renameSync(temp, join(namespace, "state.json"));
    syncDirectory(namespace);
  };
  return () => {
    for (let i = 0; i < CYCLES; i++) {
      const object = join(objects, String(serial++));
      fs.mkdirSync(object);
      writeSynced(join(object, "payload.json"), payload);
      syncDirectory(object);
      syncDirectory(objects);
      commit();
      commit();
      commit();
      fs.unlinkSync(join(object, "payload.json"));
      fs.rmdirSync(object);
    }
  };
}

/** What a message took until the calls had returned, and until everything was freed. */
interface Took {
  readonly returned: number;
  readonly freed: number;
}

async function milliseconds(subject: Subject, messages: number): Promise<Took> {
  const began = performance.now();
  await subject();
  const returned = (performance.now() - began) / messages;
  await freed();
  return { returned, freed: (performance.now() - began) / messages };
}

function shuffled<T>(list: readonly T[]): T[] {
  return list.map((item) => ({ item, key: Math.random() })).sort((a, b) => a.key - b.key)
    .map(({ item }) => item);
}

function median(values: number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1]!;
}

const subjects: Record<string, { run: Subject; messages: number }> = {
  "v2": { run: storeCycles(await newStore("v2")), messages: CYCLES },
  "v2 again": { run: storeCycles(await newStore("v2-again")), messages: CYCLES },
  "bare": { run: bareCycles("bare", "x".repeat(400)), messages: CYCLES },
  "bare again": { run: bareCycles("bare-again", "x".repeat(400)), messages: CYCLES },
  "v2 ×100": { run: storeBatch(await newStore("v2-batch")), messages: BATCH },
  "v2 ×100 again": { run: storeBatch(await newStore("v2-batch-again")), messages: BATCH },
  "v1": { run: v1Cycles(await openV1Queue(join(work, "v1"))), messages: CYCLES },
  "v1 again": { run: v1Cycles(await openV1Queue(join(work, "v1-again"))), messages: CYCLES },
  "10 live": { run: storeCycles(await newStore("live-10", 10)), messages: CYCLES },
  "1,000 live": { run: storeCycles(await newStore("live-1000", 1000)), messages: CYCLES },
  "1,000 live again": {
    run: storeCycles(await newStore("live-1000-again", 1000)),
    messages: CYCLES,
  },
  "10,000 live": { run: storeCycles(await newStore("live-10000", 9900)), messages: CYCLES },
};

const times: Record<string, Took[]> = {};

async function takeTurns(names: readonly string[]): Promise<void> {
  for (let round = -1; round < rounds; round++) {
    // In another order each time: what one leaves behind (a full journal, freed inodes) others pay for.
    for (const name of shuffled(names)) {
      const { run, messages } = subjects[name]!;
      const took = await milliseconds(run, messages);
      // The first round warms up.
      if (round >= 0) (times[name] ??= []).push(took);
    }
  }
}

try {
  // States of megabytes, written thirty times a round, keep the disk busy long after: by themselves.
  const [small, large] = [false, true].map((live) =>
    Object.keys(subjects).filter((name) => name.includes("live") === live)
  );
  await takeTurns(small!);
  await takeTurns(large!);
} finally {
  fs.rmSync(work, { recursive: true, force: true });
}

function ratio(a: string, b: string, until: keyof Took = "returned"): number {
  return median(times[a]!.map((time, round) => time[until] / times[b]![round]![until]));
}

console.log(`${rounds} rounds on ${tmpdir()}, milliseconds a message (median)\n`);
for (const name of Object.keys(subjects)) {
  console.log(
    `  ${name.padEnd(18)} ${
      median(times[name]!.map(({ returned }) => returned)).toFixed(2).padStart(8)
    }`,
  );
}
const line = (what: string, value: number, held = "") =>
  console.log(`  ${what.padEnd(44)} ${value.toFixed(2).padStart(6)}  ${held}`);
console.log("\nratios");
line("one message: v1 / v2", ratio("v1", "v2"), "held to ≥ 2");
line("  … freed too", ratio("v1", "v2", "freed"));
line("one message: v2 / bare loop, same syncs", ratio("v2", "bare"), "held to ≤ 1.3");
line("100 at a time: v1 / v2, per message", ratio("v1", "v2 ×100"), "held to ≥ 15");
line("  … freed too", ratio("v1", "v2 ×100", "freed"));
line("1,000 live / 10 live", ratio("1,000 live", "10 live"));
line("10,000 live / 10 live", ratio("10,000 live", "10 live"));
console.log("\ncontrols (the same against itself)");
line("v1 / v1", ratio("v1", "v1 again"));
line("v2 / v2", ratio("v2", "v2 again"));
line("bare / bare", ratio("bare", "bare again"));
line("v2 ×100 / v2 ×100", ratio("v2 ×100", "v2 ×100 again"));
line("1,000 live / 1,000 live", ratio("1,000 live", "1,000 live again"));
