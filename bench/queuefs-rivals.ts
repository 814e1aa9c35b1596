/**
 * Other queues from npm, each doing with one message, or a hundred, what agentq does, with syncs set alike.
 * Installed by `npm ci --prefix bench/rivals --ignore-scripts`; one that isn't there is left out, with a word.
 */
import { Buffer } from "node:buffer";
import { join } from "node:path";

/** Makes `count` messages go all the way. */
export type Subject = (count: number) => Promise<void> | void;

export const PAYLOAD = Buffer.from(
  JSON.stringify({ job: "resize", image: "a.png", filler: "x".repeat(200) }),
);
export const TEXT = PAYLOAD.toString();
export const BATCH = 100;

const MODULES = new URL("./rivals/node_modules/", import.meta.url);

/** Another queue: step by step, a hundred put in at once, and its worker. */
export interface Rival {
  readonly one: Subject;
  /** Where it has such a call. */
  readonly batch?: Subject;
  readonly worker: Subject;
}

/**
 * plainjob: add, mark as processing, read, mark as done; the others' syncs. It leaves what is done to a
 * sweep that runs from time to time: one each round here, so that in the end both have removed all.
 */
export async function plainjob(work: string): Promise<Rival | null> {
  const engine = "bun:sqlite";
  const library = new URL("plainjob/dist/plainjob.js", MODULES).href;
  try {
    const [{ Database }, { bun, defineQueue, defineWorker }] = [
      await import(engine),
      await import(library),
    ];
    const database = new Database(join(work, "plainjob.db"), { strict: true });
    const silent = { error() {}, warn() {}, info() {}, debug() {} };
    const queue = defineQueue({ connection: bun(database), logger: silent });
    database.exec("PRAGMA synchronous = FULL"); // Its own choice is NORMAL: no sync at a commit.
    checkSyncs(database);
    const finish = () => {
      const { id } = queue.getAndMarkJobAsProcessing("q");
      queue.getJobById(id);
      queue.markJobAsDone(id);
    };
    return {
      one: (count) => {
        for (let i = 0; i < count; i++) {
          queue.add("q", TEXT);
          finish();
        }
        queue.removeDoneJobs(-1000);
      },
      batch: (count) => {
        for (let i = 0; i < count; i += BATCH) {
          queue.addMany("q", Array<string>(BATCH).fill(TEXT));
          for (let j = 0; j < BATCH; j++) finish();
        }
        queue.removeDoneJobs(-1000);
      },
      worker: async (count) => {
        for (let i = 0; i < count; i++) queue.add("w", TEXT);
        let done = 0;
        const worker = defineWorker("w", async () => {}, {
          queue,
          logger: silent,
          onCompleted: () => {
            if (++done === count) void worker.stop();
          },
        });
        await worker.start();
        queue.removeDoneJobs(-1000);
      },
    };
  } catch (error) {
    return missing("plainjob", error);
  }
}

/**
 * liteque: enqueue, take, finish; the others' syncs and otherwise its own settings. On the engine that all have
 * here: its own, better-sqlite3, is built for Node.
 */
export async function liteque(work: string): Promise<Rival | null> {
  const engine = "bun:sqlite";
  const library = (path: string) => import(new URL(path, MODULES).href);
  try {
    const [{ Database }, { Runner, SqliteQueue }, { drizzle }, { migrate }] = [
      await import(engine),
      await library("liteque/dist/index.js"),
      await library("drizzle-orm/bun-sqlite/index.js"),
      await library("drizzle-orm/bun-sqlite/migrator.js"),
    ];
    const database = new Database(join(work, "liteque.db"), { create: true });
    database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON");
    database.exec("PRAGMA cache_size = -65536; PRAGMA temp_store = MEMORY");
    checkSyncs(database);
    const db = drizzle(database);
    migrate(db, { migrationsFolder: new URL("liteque/dist/drizzle", MODULES).pathname });
    const options = { defaultJobArgs: { numRetries: 5 }, keepFailedJobs: false };
    const [queue, queueOfWorker] = ["q", "w"].map((name) => new SqliteQueue(name, db, options));
    return {
      one: async (count) => {
        for (let i = 0; i < count; i++) {
          await queue.enqueue(TEXT);
          const job = await queue.attemptDequeue({ timeoutSecs: 30 });
          await queue.finalize(job.id, job.allocationId, "completed");
        }
      },
      worker: async (count) => {
        for (let i = 0; i < count; i++) await queueOfWorker.enqueue(TEXT);
        let done = 0;
        const functions = { run: async () => {}, onComplete: async () => void done++ };
        const runner = { concurrency: 1, timeoutSecs: 30, pollIntervalMs: 0 };
        await new Runner(queueOfWorker, functions, runner).runUntilEmpty();
        if (done !== count) throw new Error("not all were handled");
      },
    };
  } catch (error) {
    return missing("liteque", error);
  }
}

/** bullmq: add, get the next job, complete it; nothing is kept. */
export async function bullmq(port: number): Promise<Rival | null> {
  const library = new URL("bullmq/dist/esm/index.js", MODULES).href;
  try {
    const { Queue, Worker } = await import(library);
    const connection = { host: "127.0.0.1", port, maxRetriesPerRequest: null };
    const queue = new Queue("q", { connection, defaultJobOptions: { removeOnComplete: true } });
    const worker = new Worker("q", null, { connection, autorun: false });
    await Promise.all([queue.waitUntilReady(), worker.waitUntilReady()]);
    const finish = async (count: number) => {
      for (let i = 0; i < count; i++) {
        const job = await worker.getNextJob("token");
        await job.moveToCompleted(null, "token", false);
      }
    };
    return {
      one: async (count) => {
        for (let i = 0; i < count; i++) {
          await queue.add("job", TEXT);
          await finish(1);
        }
      },
      batch: async (count) => {
        for (let i = 0; i < count; i += BATCH) {
          await queue.addBulk(Array.from({ length: BATCH }, () => ({ name: "job", data: TEXT })));
          await finish(BATCH);
        }
      },
      worker: async (count) => {
        const all = new Queue("w", { connection, defaultJobOptions: { removeOnComplete: true } });
        for (let i = 0; i < count; i++) await all.add("job", TEXT);
        const handling = new Worker("w", async () => {}, { connection, autorun: false });
        await handling.waitUntilReady();
        await new Promise<void>((resolve) => {
          let done = 0;
          handling.on("completed", () => ++done === count ? resolve() : undefined);
          void handling.run();
        });
        await handling.close();
        await all.close();
      },
    };
  } catch (error) {
    return missing("bullmq", error);
  }
}

/** Both of what makes a commit durable, as the database itself says. */
function checkSyncs(database: { query(sql: string): { get(): Record<string, unknown> } }): void {
  const pragma = (name: string) => Object.values(database.query(`PRAGMA ${name}`).get())[0];
  if (pragma("synchronous") !== 2 || pragma("journal_mode") !== "wal") throw "other syncs";
}

function missing(name: string, error: unknown): null {
  console.log(`  (${name} left out: ${String(error).split("\n")[0]})`);
  return null;
}
