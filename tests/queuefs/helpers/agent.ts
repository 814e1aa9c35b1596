/**
 * One process of a test with many, run as `RUNTIME agent.ts '{"role":…}'`. It works until its standard
 * input ends (or it is killed) and then prints what it saw as one JSON line.
 */
import { Buffer } from "node:buffer";
import { appendFileSync } from "node:fs";
import process from "node:process";
import { isAgentqError } from "../../../src/errors.ts";
import type { QueueBackend, Receipt } from "../../../src/queuefs/contract.ts";
import { openBackend } from "../../../src/queuefs/open.ts";
import { workerOwner } from "../../../src/queuefs/owner.ts";
import { startWorker } from "../../../src/queuefs/worker.ts";

export type Role =
  /** Takes a message, puts its successor in, then acks it: there is always something unacknowledged. */
  | { role: "circulate" }
  /** Asks for snapshots, and for the answer that a wrong reader would give. */
  | { role: "observe"; observations: number }
  /** Handles messages, writing them to a file, each after `workMs`; to another as soon as it has begun. */
  | {
    role: "work";
    log: string;
    begun?: string;
    workMs: number;
    leaseMs: number;
    concurrency: number;
  }
  /** Opens the backend again and again, and takes back whatever it may. */
  | { role: "recover" };

export type Task = Role & { url: string; queue: string };

const task = JSON.parse(process.argv[2]!) as Task;
let stopped = false;
process.stdin.on("end", () => stopped = true);
process.stdin.resume();
const open = () => openBackend(task.url, { recoverStale: true });
const result = await run(task);
process.stdout.write(`${JSON.stringify(result)}\n`, () => process.exit(0));

async function run(task: Task): Promise<Record<string, unknown>> {
  switch (task.role) {
    case "circulate":
      return await circulate(await open());
    case "observe":
      return await observe(await open(), task.observations);
    case "work":
      return await work(await open(), task);
    case "recover":
      return await recover();
  }
}

/** A disk shared with others may hold a transaction for longer than anybody waits: nothing was done then. */
async function patiently<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!isAgentqError(error, "backend-busy", "store-locked")) throw error;
    }
  }
}

async function circulate(backend: QueueBackend) {
  const owner = workerOwner();
  let turns = 0;
  while (!stopped) {
    const [message] = await patiently(() =>
      backend.dequeue(task.queue, { owner, leaseMs: 600_000 })
    );
    if (message === undefined) {
      await pause(1);
      continue;
    }
    await patiently(() => backend.enqueue(task.queue, [{ data: message.data }]));
    const { id, lease } = message;
    const [outcome] = await patiently(() => backend.ack(task.queue, [{ id, lease }]));
    if (outcome !== "done") throw new Error(`ack of a held message: ${outcome}`);
    turns++;
    // The event loop must turn for standard input to be seen.
    if (turns % 20 === 0) await pause(0);
  }
  return { turns };
}

async function observe(backend: QueueBackend, observations: number) {
  let [complete, wrong, seen, emptyPending] = [0, 0, 0, 0];
  // What the queues of the source document did: count what this process has in work.
  const inProgress = 0;
  while (seen < observations) {
    const counts = await backend.status(task.queue);
    if (counts.pending === 0 && counts.processing === 0) complete++;
    if (counts.pending === 0) emptyPending++;
    if (counts.pending === 0 && inProgress === 0) wrong++;
    if (await backend.complete([task.queue])) complete++;
    seen += 2;
    if (seen % 200 === 0) await pause(0);
  }
  return { seen, complete, wrong, emptyPending };
}

/**
 * Sees whether a delivery was taken away before its lease had run out: `robbed`. One that wasn't renewed
 * in time, on a machine that is too busy for that, is the next one's by right: only `late`.
 */
function watched(backend: QueueBackend, leaseMs: number) {
  const granted = new Map<string, number>();
  const settling = new Set<string>();
  const found = { robbed: 0, late: 0 };
  const stale = (lease: string) => {
    const at = granted.get(lease);
    if (at === undefined) return;
    granted.delete(lease);
    // Leases are counted in hundredths of a second.
    found[performance.now() - at < leaseMs - 50 ? "robbed" : "late"]++;
  };
  const leases = (receipts: readonly Receipt[]) =>
    receipts.map((receipt) => "lease" in receipt ? receipt.lease : "");
  const watching: QueueBackend = {
    ...backend,
    renew: async (queue, receipts, leaseMs) => {
      const at = performance.now();
      const outcomes = await backend.renew(queue, receipts, leaseMs);
      leases(receipts).forEach((lease, i) => {
        if (settling.has(lease)) return;
        if (outcomes[i] === "stale") stale(lease);
        else if (granted.has(lease)) granted.set(lease, at);
      });
      return outcomes;
    },
    settleAndDequeue: async (queue, endings, options) => {
      const at = performance.now();
      const ended = leases(endings.map(({ receipt }) => receipt));
      for (const lease of ended) settling.add(lease);
      try {
        const turn = await backend.settleAndDequeue(queue, endings, options);
        ended.forEach((lease, i) => turn.settlements[i] === "stale" ? stale(lease) : 0);
        for (const { lease } of turn.deliveries) granted.set(lease, at);
        return turn;
      } catch (error) {
        // Perhaps it was executed: what the next attempt hears says nothing.
        for (const lease of ended) granted.delete(lease);
        throw error;
      }
    },
  };
  return { watching, found };
}

async function work(backend: QueueBackend, task: Task & { role: "work" }) {
  const { watching, found } = watched(backend, task.leaseMs);
  const worker = startWorker(watching, task.queue, async ({ data }, { signal }) => {
    if (task.begun) appendFileSync(task.begun, `${Buffer.from(data).toString()}\n`);
    const aborted = new Promise((resolve) => signal.addEventListener("abort", resolve));
    await Promise.race([pause(Math.random() * 2 * task.workMs), aborted]);
    if (signal.aborted) return;
    appendFileSync(task.log, `${Buffer.from(data).toString()}\n`);
  }, {
    leaseMs: task.leaseMs,
    concurrency: task.concurrency,
    maxAttempts: 1_000_000,
    idleMs: 50,
  });
  while (!stopped) await pause(20);
  await worker.stop();
  await backend.close();
  return { ...worker.metrics, ...found };
}

async function recover() {
  let [opened, recovered] = [0, 0];
  while (!stopped) {
    const backend = await open();
    recovered += (await backend.recover(task.queue)).length;
    await backend.close();
    opened++;
    await pause(20);
  }
  return { opened, recovered };
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
