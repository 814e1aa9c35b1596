/**
 * Queues beside the plainest correct loop on the same engine, and beside other queues from npm: in one
 * run, on one disk, in rounds in which all take turns, with an A/A control for every comparison.
 *
 *   enqueue+dequeue+ack, one message     at most 1.25× the plainest correct loop's time
 *   batches of 100                       at least 5× one at a time, per message
 *   dequeue+ack with 100, 10,000 and 1,000,000 pending     flat
 *   beside plainjob, liteque (SQLite), bullmq (Redis)      ahead, step by step and as workers
 *
 * "Step by step" calls enqueue, dequeue and ack one after the other. A worker is what programs run: each
 * side's own, one message at a time, messages put in one by one before it starts. Both record what became
 * of a message durably before the next one's handler begins; agentq's and bullmq's take the next in the
 * same step.
 *
 * A plain loop is correct when a worker that lost its message can't ack another's. On Redis that takes a
 * token; what a loop without one takes is shown beside it. On SQLite the loop has none, and is held to
 * all the same.
 *
 * Same durability on both sides, and looked at before the clock starts: SQLite in WAL mode with
 * synchronous=FULL; Redis once with appendfsync always and once with everysec. Needs redis-server, and
 * for the others `npm ci --prefix bench/rivals --ignore-scripts`; without them those lines are left out,
 * with a word.
 *
 * Usage: bun bench/queuefs.ts [ROUNDS [WORD]]. WORD: only comparisons with that in their titles. Set TMPDIR
 * to choose the disk.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import fs from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { DatabaseSync } from "node:sqlite";
import { Redis } from "ioredis";
import type { QueueBackend } from "../src/queuefs/contract.ts";
import { openBackend } from "../src/queuefs/open.ts";
import { workerOwner } from "../src/queuefs/owner.ts";
import { startWorker } from "../src/queuefs/worker.ts";
import { BATCH, bullmq, liteque, PAYLOAD, plainjob, type Subject, TEXT } from "./queuefs-rivals.ts";

const rounds = Number(process.argv[2] ?? 31);
const only = process.argv[3] ?? "";
const work = fs.mkdtempSync(join(tmpdir(), "agentq-bench-"));
const CYCLES = 50;
const owner = workerOwner();
const children: ChildProcess[] = [];

function agentq(backend: QueueBackend, queue: string): Subject {
  return async (count) => {
    for (let i = 0; i < count; i++) {
      await backend.enqueue(queue, [{ data: PAYLOAD }]);
      const [message] = await backend.dequeue(queue, { owner, leaseMs: 30_000 });
      await backend.ack(queue, [message!]);
    }
  };
}

function agentqBatch(backend: QueueBackend, queue: string): Subject {
  return async (count) => {
    for (let i = 0; i < count; i += BATCH) {
      await backend.enqueue(queue, Array.from({ length: BATCH }, () => ({ data: PAYLOAD })));
      const all = await backend.dequeue(queue, { owner, leaseMs: 30_000, count: BATCH });
      await backend.ack(queue, all);
    }
  };
}

/** The worker, started for each round and ended by the empty queue. */
function agentqWorker(backend: QueueBackend, queue: string): Subject {
  return async (count) => {
    for (let i = 0; i < count; i++) await backend.enqueue(queue, [{ data: PAYLOAD }]);
    const worker = startWorker(backend, queue, async () => {}, { untilEmpty: true });
    await worker.done;
    if (worker.metrics.processed !== count) throw new Error("not all were handled");
  };
}

/** The same tables, one prepared statement a step, nothing else. */
function plainSqlite(): Subject {
  const db = new DatabaseSync(join(work, "plain.db"));
  db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000");
  db.exec(`CREATE TABLE m (id INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT NOT NULL,
    message TEXT NOT NULL, data TEXT NOT NULL, status TEXT NOT NULL, started INTEGER);
    CREATE INDEX s ON m (queue, status, id); CREATE INDEX i ON m (queue, message)`);
  const insert = db.prepare(
    "INSERT INTO m (queue, message, data, status) VALUES (?, ?, ?, 'pending')",
  );
  const take = db.prepare(`UPDATE m SET status = 'processing', started = ? WHERE id =
    (SELECT id FROM m WHERE queue = ? AND status = 'pending' ORDER BY id LIMIT 1) RETURNING id, message, data`);
  const remove = db.prepare("DELETE FROM m WHERE id = ?");
  return (count) => {
    for (let i = 0; i < count; i++) {
      insert.run("q", randomUUID(), TEXT);
      const row = take.get(Date.now(), "q")!;
      remove.run(row.id as number);
    }
  };
}

/** What a correct queue can't do without: only a queue that is there, and acks by the delivery. */
async function plainRedis(client: Redis, prefix: string): Promise<Subject> {
  const load = async (source: string) => await client.script("LOAD", source) as string;
  const enqueue = await load(`if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 then return 0 end
    redis.call('SET', KEYS[3] .. ARGV[2], ARGV[3]) return redis.call('RPUSH', KEYS[2], ARGV[2])`);
  const dequeue = await load(`local id = redis.call('LPOP', KEYS[1]) if not id then return nil end
    local n = redis.call('HINCRBY', KEYS[4], '#', 1)
    redis.call('ZADD', KEYS[3], redis.call('TIME')[1] + ARGV[1], id)
    redis.call('HSET', KEYS[4], id, n .. '.' .. ARGV[2])
    return {id, redis.call('GET', KEYS[2] .. id), n}`);
  const ack = await load(`if redis.call('HGET', KEYS[3], ARGV[1]) ~= ARGV[2] then return 0 end
    redis.call('HDEL', KEYS[3], ARGV[1]) redis.call('DEL', KEYS[1] .. ARGV[1])
    return redis.call('ZREM', KEYS[2], ARGV[1])`);
  const [names, pending, messages, out, leases] = ["names", "pending", "msg:", "out", "leases"]
    .map((name) => `${prefix}:${name}`) as [string, string, string, string, string];
  await client.sadd(names, "q");
  return async (count) => {
    for (let i = 0; i < count; i++) {
      await client.evalsha(enqueue, 3, names, pending, messages, "q", randomUUID(), TEXT);
      const taken = await client.evalsha(dequeue, 4, pending, messages, out, leases, 30, owner);
      const [id, _, n] = taken as string[];
      const token = `${n}.${owner}`;
      if (await client.evalsha(ack, 3, messages, out, leases, id!, token) !== 1) throw "not acked";
    }
  };
}

/** The same without tokens: whoever knows the id acks. */
async function bareRedis(client: Redis, prefix: string): Promise<Subject> {
  const load = async (source: string) => await client.script("LOAD", source) as string;
  const enqueue = await load(
    "redis.call('SET', KEYS[2] .. ARGV[1], ARGV[2]) redis.call('RPUSH', KEYS[1], ARGV[1])",
  );
  const dequeue = await load(`local id = redis.call('LPOP', KEYS[1]) if not id then return nil end
    redis.call('ZADD', KEYS[3], ARGV[1], id) return {id, redis.call('GET', KEYS[2] .. id)}`);
  const ack = await load(
    "redis.call('DEL', KEYS[2] .. ARGV[1]) return redis.call('ZREM', KEYS[3], ARGV[1])",
  );
  const keys = [`${prefix}:pending`, `${prefix}:msg:`, `${prefix}:processing`];
  return async (count) => {
    for (let i = 0; i < count; i++) {
      await client.evalsha(enqueue, 3, ...keys, randomUUID(), TEXT);
      const [id] = await client.evalsha(dequeue, 3, ...keys, Date.now()) as string[];
      await client.evalsha(ack, 3, ...keys, id!);
    }
  };
}

async function time(subject: Subject, count: number): Promise<number> {
  const started = performance.now();
  await subject(count);
  return (performance.now() - started) * 1000 / count;
}

const median = (values: number[]) => values.sort((a, b) => a - b)[values.length >> 1]!;

/**
 * Lets all take turns and prints medians and ratios. What a disk does changes within a second: so in each
 * round all have `turns` short turns, where what is measured can be cut, and a turn is compared with the one
 * beside it.
 */
async function compare(
  title: string,
  subjects: Record<string, [Subject, count: number]>,
  target: string,
  turns = 10,
): Promise<void> {
  if (!title.includes(only)) return;
  const names = Object.keys(subjects);
  const times = new Map<string, number[]>(names.map((name) => [name, []]));
  for (const name of names) await time(subjects[name]![0], subjects[name]![1]); // Warm.
  for (let turn = 0; turn < rounds * turns; turn++) {
    for (let i = 0; i < names.length; i++) {
      const name = names[(i + turn) % names.length]!;
      const [subject, count] = subjects[name]!;
      times.get(name)!.push(await time(subject, count / turns));
    }
  }
  const [first] = names;
  const line = names.map((name) => {
    const ratios = times.get(name)!.map((value, i) => value / times.get(first!)![i]!);
    const middle = median(ratios); // Sorts them.
    const [low, high] = [ratios[ratios.length >> 2]!, ratios[(ratios.length * 3) >> 2]!];
    const spread = `${low.toFixed(2)} to ${high.toFixed(2)}`;
    const ratio = name === first ? "" : ` (${middle.toFixed(2)}×, half of them ${spread})`;
    return `${name} ${median([...times.get(name)!]).toFixed(1)} µs${ratio}`;
  });
  const load = loadavg()[0]!.toFixed(1);
  console.log(`${title} (load average ${load})\n  ${line.join(" · ")}\n  held to: ${target}`);
}

const SIZES = [100, 10_000, 1_000_000];

/**
 * Fills a queue to each size, in a place of its own, waits until nothing of that is still being
 * written, and lets them take turns: a dequeue and an ack for each enqueue, so that the size stays.
 */
async function flat(
  name: string,
  open: (size: number) => Promise<QueueBackend>,
  settle: () => Promise<void>,
): Promise<void> {
  const title = `${name} by messages pending: enqueue+dequeue+ack`;
  if (!title.includes(only)) return;
  const subjects: Record<string, [Subject, number]> = {};
  const backends: QueueBackend[] = [];
  for (const size of SIZES) {
    const backend = await open(size);
    backends.push(backend);
    await backend.create("q");
    for (let pending = 0; pending < size;) {
      const count = Math.min(1000, size - pending);
      await backend.enqueue("q", Array.from({ length: count }, () => ({ data: PAYLOAD })));
      pending += count;
    }
    subjects[size.toLocaleString("en")] = [agentq(backend, "q"), CYCLES];
  }
  await settle();
  await compare(title, subjects, "flat");
  for (const backend of backends) await backend.close();
}

async function startRedis(sync: string): Promise<number> {
  const port = 20_000 + Math.floor(Math.random() * 20_000);
  const dir = fs.mkdtempSync(join(work, `redis-${sync}-`));
  const options = ["--port", String(port), "--bind", "127.0.0.1", "--dir", dir, "--save", ""];
  options.push("--appendonly", "yes", "--appendfsync", sync);
  // A rewrite in the middle would be measured with whoever has its turn.
  options.push("--auto-aof-rewrite-percentage", "0");
  const child = spawn("redis-server", options, { stdio: "ignore" });
  children.push(child);
  const client = new Redis({ port, lazyConnect: true, retryStrategy: () => 50 });
  client.on("error", () => {});
  await client.connect().catch(() => {});
  while (client.status !== "ready") await new Promise((resolve) => setTimeout(resolve, 50));
  await client.quit();
  return port;
}

try {
  const sqlite = await openBackend(`sqlite:${join(work, "agentq.db")}`, { create: true });
  await sqlite.create("q");
  const [one, plain] = [agentq(sqlite, "q"), plainSqlite()];
  await compare("sqlite: enqueue+dequeue+ack", {
    "plain loop": [plain, CYCLES],
    "agentq": [one, CYCLES],
    "plain loop again": [plain, CYCLES],
  }, "agentq at most 1.25×");
  await compare(
    `sqlite: ${BATCH} at a time, per message`,
    {
      "batches": [agentqBatch(sqlite, "q"), BATCH * 5],
      "one at a time": [one, CYCLES],
      "batches again": [agentqBatch(sqlite, "q"), BATCH * 5],
    },
    "one at a time at least 5×",
    5,
  );
  await sqlite.create("w");
  for (
    const [name, rival] of [
      ["plainjob", await plainjob(work)],
      ["liteque", await liteque(work)],
    ] as const
  ) {
    if (rival === null) continue;
    await compare(`sqlite: beside ${name}, same syncs, same steps`, {
      "agentq": [one, CYCLES],
      [name]: [rival.one, CYCLES],
      "agentq again": [one, CYCLES],
    }, `${name} more than 1×`);
    const worker = agentqWorker(sqlite, "w");
    await compare(
      `sqlite: worker beside ${name}'s, same syncs`,
      {
        "agentq": [worker, CYCLES],
        [name]: [rival.worker, CYCLES],
        "agentq again": [worker, CYCLES],
      },
      `${name} more than 1×`,
      1,
    );
    if (rival.batch === undefined) continue;
    const batch = agentqBatch(sqlite, "q");
    await compare(
      `sqlite: beside ${name}, ${BATCH} at a time, per message`,
      {
        "agentq": [batch, BATCH * 5],
        [name]: [rival.batch, BATCH],
        "agentq again": [batch, BATCH * 5],
      },
      `${name} more than 1×`,
      1,
    );
  }
  await sqlite.close();
  await flat(
    "sqlite",
    (size) => openBackend(`sqlite:${join(work, `deep-${size}.db`)}`, { create: true }),
    async () => void spawnSync("sync", ["-f", work]),
  );

  for (const sync of ["always", "everysec"]) {
    const port = await startRedis(sync);
    const redis = await openBackend(`redis://127.0.0.1:${port}?timeout=60000`);
    await redis.create("q");
    const client = new Redis({ port });
    const ours = agentq(redis, "q");
    const [plain, bare] = [await plainRedis(client, "{plain}"), await bareRedis(client, "{bare}")];
    const title = `redis (appendfsync ${sync})`;
    await compare(`${title}: enqueue+dequeue+ack`, {
      "plain scripts": [plain, CYCLES * 2],
      "agentq": [ours, CYCLES * 2],
      "plain scripts again": [plain, CYCLES * 2],
      "without tokens": [bare, CYCLES * 2],
    }, "agentq at most 1.25×");
    await compare(
      `${title}: ${BATCH} at a time, per message`,
      {
        "batches": [agentqBatch(redis, "q"), BATCH * 5],
        "one at a time": [ours, CYCLES * 2],
        "batches again": [agentqBatch(redis, "q"), BATCH * 5],
      },
      "one at a time at least 5×",
      5,
    );
    const bull = await bullmq(port);
    if (bull) {
      await compare(`${title}: beside bullmq`, {
        "agentq": [ours, CYCLES * 2],
        "bullmq": [bull.one, CYCLES * 2],
        "agentq again": [ours, CYCLES * 2],
      }, "bullmq more than 1×");
      await redis.create("w");
      const worker = agentqWorker(redis, "w");
      await compare(
        `${title}: worker beside bullmq's`,
        {
          "agentq": [worker, CYCLES * 2],
          "bullmq": [bull.worker, CYCLES * 2],
          "agentq again": [worker, CYCLES * 2],
        },
        "bullmq more than 1×",
        1,
      );
      await compare(
        `${title}: beside bullmq, ${BATCH} at a time, per message`,
        {
          "agentq": [agentqBatch(redis, "q"), BATCH * 5],
          "bullmq": [bull.batch!, BATCH],
          "agentq again": [agentqBatch(redis, "q"), BATCH * 5],
        },
        "bullmq more than 1×",
        1,
      );
    }
    await redis.close();
    client.disconnect();
  }
  await flat(
    "redis",
    async () => openBackend(`redis://127.0.0.1:${await startRedis("everysec")}?timeout=60000`),
    () => new Promise((resolve) => setTimeout(resolve, 5000)),
  );
} finally {
  for (const child of children) child.kill("SIGKILL");
  fs.rmSync(work, { recursive: true, force: true });
}
process.exit(0);
