/**
 * Data that another program laid out as OpenViking's queues do is drained here, and what is written
 * here can be read and drained by code that knows only that layout. The other program is played by plain
 * SQL and plain Redis commands that know nothing of agentq's columns and keys.
 */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, test } from "node:test";
import { parseRedisUrl } from "../../src/queuefs/backends/redis/address.ts";
import { redisBackend } from "../../src/queuefs/backends/redis/backend.ts";
import type { AgentqError } from "../../src/errors.ts";
import type { Receipt } from "../../src/queuefs/contract.ts";
import { sqliteBackend } from "../../src/queuefs/backends/sqlite/backend.ts";
import { workerOwner } from "../../src/queuefs/owner.ts";
import { tempDir } from "../helpers/git.ts";
import { bytes, type RedisServer, startRedis } from "./helpers/redis.ts";

const owner = workerOwner();
const take = { owner, leaseMs: 60_000 };
const text = (data: Uint8Array | undefined) => Buffer.from(data ?? []).toString("utf8");

/** The tables as they are made there, in full and as the oldest version had them. */
const METADATA = `CREATE TABLE queue_metadata (queue_name TEXT PRIMARY KEY,
  created_at INTEGER DEFAULT (strftime('%s', 'now')), last_updated INTEGER DEFAULT (strftime('%s', 'now')))`;
const MESSAGES = (columns: string) =>
  `CREATE TABLE queue_messages (id INTEGER PRIMARY KEY AUTOINCREMENT, queue_name TEXT NOT NULL,
  message_id TEXT NOT NULL, data TEXT NOT NULL, timestamp INTEGER NOT NULL, ${columns}
  created_at INTEGER DEFAULT (strftime('%s', 'now')))`;
const STATUS = "status TEXT NOT NULL DEFAULT 'pending', processing_started_at INTEGER,";

function foreignDatabase(columns = STATUS): { file: string; db: DatabaseSync } {
  const file = join(tempDir(), "queue.db");
  const db = new DatabaseSync(file);
  db.exec("PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL;");
  db.exec(METADATA);
  db.exec(MESSAGES(columns));
  return { file, db };
}

const foreign = {
  enqueue: (db: DatabaseSync, queue: string, id: string, data: unknown) =>
    db.prepare(
      "INSERT INTO queue_messages (queue_name, message_id, data, timestamp) VALUES (?, ?, ?, ?)",
    ).run(queue, id, JSON.stringify({ id, data, timestamp: 1_790_000_000 }), 1_790_000_000),
  dequeue: (db: DatabaseSync, queue: string): { id: string; data: Uint8Array } | null => {
    const row = db.prepare(
      "SELECT id, data FROM queue_messages WHERE queue_name = ? AND status = 'pending' ORDER BY id LIMIT 1",
    ).get(queue);
    if (row === undefined) return null;
    db.prepare(
      "UPDATE queue_messages SET status = 'processing', processing_started_at = ? WHERE id = ?",
    ).run(Math.floor(Date.now() / 1000), row.id as number);
    const { id, data } = JSON.parse(String(row.data));
    return { id, data: typeof data === "string" ? Buffer.from(data) : Uint8Array.from(data) };
  },
  ack: (db: DatabaseSync, queue: string, id: string) =>
    Number(
      db.prepare(
        "DELETE FROM queue_messages WHERE queue_name = ? AND message_id = ? AND status = 'processing'",
      ).run(queue, id).changes,
    ),
};

describe("a queue.db of OpenViking", () => {
  test("is drained and refilled, and stays readable by code that knows only its layout", async () => {
    const { file, db } = foreignDatabase();
    db.exec("INSERT INTO queue_metadata (queue_name) VALUES ('Semantic'), ('worker-0/Embedding')");
    foreign.enqueue(db, "Semantic", "a-1", [104, 105, 255, 0]);
    foreign.enqueue(db, "Semantic", "a-2", "as text \u00e9");
    const backend = sqliteBackend(file);
    assert.deepEqual(await backend.list(), ["Semantic", "worker-0/Embedding"]);
    assert.deepEqual(await backend.status("Semantic"), { pending: 2, processing: 0 });
    const [one, two] = await backend.dequeue("Semantic", { ...take, count: 2 });
    assert.deepEqual([...one!.data], [104, 105, 255, 0]);
    assert.equal(text(two!.data), "as text \u00e9");
    await backend.ack("Semantic", [one!, two!].map(({ id, lease }) => ({ id, lease })));

    await backend.enqueue("Semantic", [{ data: bytes("from here \u{1f600}\u0000") }]);
    await backend.enqueue("Semantic", [{ data: Uint8Array.from([255, 1]) }]);
    const first = foreign.dequeue(db, "Semantic")!;
    assert.equal(text(first.data), "from here \u{1f600}\u0000");
    assert.deepEqual(await backend.status("Semantic"), { pending: 1, processing: 1 });
    assert.equal(foreign.ack(db, "Semantic", first.id), 1);
    assert.deepEqual([...foreign.dequeue(db, "Semantic")!.data], [255, 1]);
    await backend.close();
  });

  test("of the oldest version gains what it lacks, and queues known only by messages work", async () => {
    const { file, db } = foreignDatabase("");
    foreign.enqueue(db, "old", "m", "x");
    const backend = sqliteBackend(file);
    assert.deepEqual(await backend.list(), ["old"]);
    const [message] = await backend.dequeue("old", take);
    assert.equal(text(message!.data), "x");
    foreign.enqueue(db, "late", "n", "y");
    assert.equal(text((await backend.dequeue("late", take))[0]!.data), "y");
    await backend.enqueue("late", [{ data: bytes("z") }]);
    foreign.ack(db, "late", "n");
    assert.equal(text((await backend.dequeue("late", take))[0]!.data), "z");
    foreign.enqueue(db, "later", "n", "y");
    await backend.enqueue("later", [{ id: "n", data: bytes("z") }, { data: bytes("zz") }]);
    const later = await backend.dequeue("later", { ...take, count: 5 });
    assert.deepEqual(later.map(({ data }) => text(data)), ["z", "zz"]);
    await assert.rejects(
      backend.enqueue("none", [{ data: bytes("z") }]),
      (error: { code?: string }) => error.code === "queue-not-found",
    );
    await backend.close();
  });

  test("an index that another version made by the same name gives way to the one that is needed", async () => {
    const { file, db } = foreignDatabase();
    db.exec("CREATE INDEX idx_queue_status ON queue_messages(status)");
    foreign.enqueue(db, "Semantic", "a", "one");
    for (let i = 0; i < 2; i++) {
      const backend = sqliteBackend(file);
      const [message] = await backend.dequeue("Semantic", { ...take, count: 1 });
      assert.equal(text(message!.data), "one");
      await backend.requeue("Semantic", [{ id: "a", lease: message!.lease }]);
      await backend.close();
    }
    assert.equal(text(foreign.dequeue(db, "Semantic")!.data), "one");
    db.close();
  });

  test("opening it again changes no row that somebody is processing", async () => {
    const { file, db } = foreignDatabase();
    foreign.enqueue(db, "q", "theirs", "x");
    foreign.enqueue(db, "q", "ours", "y");
    foreign.dequeue(db, "q");
    const first = sqliteBackend(file);
    const [ours] = await first.dequeue("q", take);
    const rows = () =>
      db.prepare(
        "SELECT id, message_id, status, processing_started_at, agentq_owner, agentq_delivery FROM queue_messages",
      ).all();
    const before = rows();
    const second = sqliteBackend(file);
    assert.deepEqual(await second.recover("q"), []);
    assert.deepEqual(rows(), before);
    // What a program without leases took is taken back when it is told to be stale, not before.
    const back = await second.recover("q", { staleMs: 0 });
    assert.deepEqual(back.map(({ id }) => id), ["theirs"]);
    assert.deepEqual(await first.ack("q", [{ id: "ours", lease: ours!.lease }]), ["done"]);
    await first.close();
    await second.close();
  });

  test("a delivery that the other program made ends the lease that was given out here", async () => {
    const { file, db } = foreignDatabase();
    foreign.enqueue(db, "q", "m", "x");
    const backend = sqliteBackend(file);
    const [ours] = await backend.dequeue("q", take);
    // As its start-up does, without knowing of leases.
    db.exec("UPDATE queue_messages SET status = 'pending', processing_started_at = NULL");
    foreign.dequeue(db, "q");
    const receipt = [{ id: "m", lease: ours!.lease }];
    assert.deepEqual(await backend.ack("q", receipt), ["stale"]);
    assert.deepEqual(await backend.fail("q", receipt, "x"), ["stale"]);
    assert.deepEqual(await backend.status("q"), { pending: 0, processing: 1 });
    await backend.close();
  });

  test("rows that can't be read go to the dead letters and block nothing", async () => {
    const { file, db } = foreignDatabase();
    const raw = (id: string, data: string | Uint8Array) =>
      db.prepare(
        "INSERT INTO queue_messages (queue_name, message_id, data, timestamp) VALUES ('q', ?, ?, 1)",
      ).run(id, data);
    raw("json", "{not json");
    raw("shape", '{"id":"shape"}');
    raw("range", '{"id":"range","data":[256]}');
    raw("surrogate", '{"id":"surrogate","data":"\\ud800"}');
    raw("utf8", Uint8Array.from([0x7b, 0xff]));
    raw("empty", "");
    foreign.enqueue(db, "q", "good", "fine");
    const backend = sqliteBackend(file);
    assert.equal((await backend.peek("q"))?.id, "good");
    assert.deepEqual((await backend.dequeue("q", { ...take, count: 2 })).map(({ id }) => id), [
      "good",
    ]);
    const letters = await backend.failed.list("q");
    assert.deepEqual(
      letters.map(({ id, reason }) => `${id}: ${reason}`),
      [
        "json: the payload is not JSON",
        "shape: the payload lacks id or data",
        "range: the payload's data is no array of bytes",
        "surrogate: the payload's data holds a lone surrogate",
        "utf8: the payload is not UTF-8",
        "empty: the payload is not JSON",
      ],
    );
    assert.equal(letters[0]!.raw, "{not json");
    await assert.rejects(
      backend.failed.retry("q", ["json"]),
      (error: { code?: string }) => error.code === "payload-unreadable",
    );
    assert.deepEqual(await backend.status("q"), { pending: 0, processing: 1 });
    await backend.close();
  });
});

describe("a Redis key space of OpenViking", () => {
  const base = "{viking}:ov:queue:";
  const other = {
    enqueue(server: RedisServer, queue: string, id: string, data: unknown) {
      server.cli("sadd", `${base}names`, queue);
      const payload = JSON.stringify({ id, data, timestamp: 1_790_000_000 });
      server.cli("set", `${base}${queue}:msg:${id}`, payload);
      server.cli("rpush", `${base}${queue}:pending`, id);
    },
    dequeue(server: RedisServer, queue: string, instance: string): string {
      const id = server.cli("lpop", `${base}${queue}:pending`);
      const now = String(Math.floor(Date.now() / 1000));
      server.cli("zadd", `${base}${queue}:processing`, now, `${id}|${instance}`);
      return id;
    },
    recovers(server: RedisServer, queue: string): string[] {
      return server.cli("zrange", `${base}${queue}:processing`, "0", "-1").split("\n").filter(
        Boolean,
      )
        .filter((member) =>
          server.cli("exists", `${base}instance:${member.split("|")[1]}:alive`) === "0"
        );
    },
  };
  const start = async () => {
    const server = await startRedis();
    const url = `redis://127.0.0.1:${server.port}?prefix=viking`;
    return { server, backend: await redisBackend(parseRedisUrl(url, {})) };
  };

  test("is drained and refilled, and stays readable by code that knows only its layout", async () => {
    const { server, backend } = await start();
    other.enqueue(server, "Semantic", "a-1", [104, 105, 255]);
    other.enqueue(server, "Semantic", "a-2", "text");
    assert.deepEqual(await backend.list(), ["Semantic"]);
    const out = await backend.dequeue("Semantic", { ...take, count: 2 });
    assert.deepEqual(out.map(({ data }) => [...data]), [[104, 105, 255], [...bytes("text")]]);
    const members = server.cli("zrange", `${base}Semantic:processing`, "0", "-1").split("\n");
    assert.deepEqual(members.sort(), [`a-1|${owner}`, `a-2|${owner}`]);
    // Its recovery leaves alone what a live worker here holds.
    assert.deepEqual(other.recovers(server, "Semantic"), []);
    await backend.ack("Semantic", out.map(({ id, lease }) => ({ id, lease })));

    const [id] = await backend.enqueue("Semantic", [{ data: bytes("from here") }]);
    assert.equal(other.dequeue(server, "Semantic", "instance-1"), id);
    const payload = JSON.parse(server.cli("get", `${base}Semantic:msg:${id}`));
    assert.deepEqual({ ...payload, timestamp: 0 }, { id, data: "from here", timestamp: 0 });
    assert.ok(Number.isInteger(payload.timestamp));
    assert.deepEqual(await backend.status("Semantic"), { pending: 0, processing: 1 });
    const keys = server.cli("keys", "*").split("\n");
    assert.deepEqual(keys.filter((key) => !key.startsWith(base)), []);
    await backend.close();
    await server.kill();
  });

  test("what a live instance holds is left alone; what a dead one held comes back", async () => {
    const { server, backend } = await start();
    other.enqueue(server, "q", "one", "1");
    other.enqueue(server, "q", "two", "2");
    other.enqueue(server, "q", "three", "3");
    other.dequeue(server, "q", "alive");
    other.dequeue(server, "q", "dead");
    server.cli("set", `${base}instance:alive:alive`, "1", "ex", "30");
    const back = await backend.recover("q", { staleMs: 0 });
    assert.deepEqual(back.map(({ id, why }) => `${id} ${why}`), ["two owner-gone"]);
    assert.deepEqual(await backend.status("q"), { pending: 2, processing: 1 });
    assert.deepEqual((await backend.dequeue("q", { ...take, count: 2 })).map(({ id }) => id), [
      "two",
      "three",
    ]);
    // An id that the other program is processing isn't replaced: its ack would take the payload along.
    await assert.rejects(
      backend.enqueue("q", [{ id: "one", data: bytes("new") }]),
      (error: { code?: string }) => error.code === "already-exists",
    );
    // Nor is a dead letter of its id put beside it.
    await backend.enqueue("q", [{ id: "four", data: bytes("old") }]);
    const [four] = await backend.dequeue("q", take);
    await backend.fail("q", [{ id: four!.id, lease: four!.lease }], "no");
    other.enqueue(server, "q", "four", "new");
    assert.equal(other.dequeue(server, "q", "alive"), "four");
    await assert.rejects(backend.failed.retry("q", ["four"]), {
      code: "already-exists",
      message: /being processed in "q"/,
    });
    assert.equal((await backend.failed.list("q")).length, 1);
    await backend.close();
    await server.kill();
  });

  test("what was taken without a name comes back after an hour, or after --stale, and once", async () => {
    const { server, backend } = await start();
    const processing = `${base}q:processing`;
    const now = String(Math.floor(Date.now() / 1000));
    const lately = String(Number(now) - 600);
    for (const [id, since] of [["old", lately], ["again", lately], ["young", now]] as const) {
      other.enqueue(server, "q", id, id);
      server.cli("lpop", `${base}q:pending`);
      server.cli("zadd", processing, since, id);
    }
    // A newer generation of it waits already: it isn't put there twice.
    server.cli("rpush", `${base}q:pending`, "again");
    // Ours, met before it came back: its record is none of the nameless delivery's.
    const [ours] = await backend.enqueue("q", [{ data: bytes("ours") }]);
    const [again, held] = await backend.dequeue("q", { ...take, count: 2 });
    await backend.requeue("q", [again!], { counted: false });
    server.cli("zadd", processing, lately, ours!);
    assert.equal(held!.id, ours);

    assert.deepEqual(await backend.recover("q"), []);
    assert.equal(server.cli("zcard", processing), "5");
    const back = await backend.recover("q", { staleMs: 60_000 });
    assert.deepEqual(back.map(({ id, why, outcome }) => `${id} ${why} ${outcome}`).sort(), [
      "again lease-expired superseded",
      "old lease-expired pending",
    ]);
    assert.deepEqual(server.cli("lrange", `${base}q:pending`, "0", "-1").split("\n"), [
      "old",
      "again",
    ]);
    // While somebody here holds that id, its other place waits.
    const left = server.cli("zrange", processing, "0", "-1").split("\n").sort();
    assert.deepEqual(left, [ours!, `${ours}|${owner}`, "young"].sort());
    await backend.ack("q", [held!]);
    const [taken] = await backend.dequeue("q", take);
    assert.deepEqual([taken?.id, text(taken?.data), taken?.attempts], ["old", "old", 1]);
    server.cli("zadd", processing, String(Number(now) - 3601), "young");
    assert.deepEqual((await backend.recover("q")).map(({ id }) => id), ["young"]);
    await backend.close();
    await server.kill();
  });

  test("a key of another type is named, and keeps no other queue from being counted", async () => {
    const { server, backend } = await start();
    const others: [string, string, string[]][] = [
      ["pending", "a list", ["set", "x"]],
      ["processing", "a sorted set", ["lpush", "x"]],
      ["agentq:deliveries", "a hash", ["set", "x"]],
    ];
    for (const [part] of others) other.enqueue(server, part.replace(":", "-"), "one", "1");
    for (const [part, type, [command, ...words]] of others) {
      const queue = part.replace(":", "-");
      const key = `${base}${queue}:${part}`;
      server.cli("del", key);
      server.cli(command!, key, ...words);
      await assert.rejects(backend.dequeue(queue, take), (error: AgentqError) => {
        assert.deepEqual([error.code, error.details], ["backend-error", { queue, key }]);
        assert.ok(error.message.includes(`the queue "${queue}"`), error.message);
        assert.match(error.message, new RegExp(`, not ${type}$`));
        return true;
      });
    }
    await assert.rejects(backend.complete(["processing"]), {
      message: /the queue "processing": the key /,
    });
    // All of them or none, unless somebody hears of those that can't be counted.
    await assert.rejects(backend.statuses(), { code: "backend-error" });
    const unreadable: string[] = [];
    const counts = await backend.statuses(undefined, (fault) => {
      unreadable.push(String(fault.details?.key));
    });
    assert.deepEqual(unreadable.sort(), [
      `${base}pending:pending`,
      `${base}processing:processing`,
    ]);
    assert.deepEqual([...counts], [
      ["agentq-deliveries", { pending: 1, processing: 0 }],
    ]);
    server.cli("set", `${base}names`, "x");
    await assert.rejects(backend.list(), {
      message: /the names of the queues: the key .* is a string, not a set$/,
    });
    await backend.close();
    await server.kill();
  });

  const ofOtherType = (key: string, type: string) =>
    `the payload can't be read: the key ${JSON.stringify(key)} is a ${type}, not a string`;

  test("a key of another type in a payload's place goes to the dead letters, and stays", async () => {
    const { server, backend } = await start();
    const key = `${base}q:msg:bad`;
    for (const id of ["one", "bad", "two", "three"]) other.enqueue(server, "q", id, id);
    const spoil = () => {
      server.cli("del", key);
      server.cli("rpush", key, "theirs");
    };
    spoil();
    assert.equal((await backend.messages("q"))[1]?.data, null);
    const out = await backend.dequeue("q", { ...take, count: 3 });
    assert.deepEqual(out.map(({ id }) => id), ["one", "two", "three"]);
    assert.deepEqual(await backend.status("q"), { pending: 0, processing: 3 });
    assert.equal(server.cli("lrange", key, "0", "-1"), "theirs");
    const [letter] = await backend.failed.list("q");
    assert.deepEqual([letter?.id, letter?.reason, letter?.data], [
      "bad",
      ofOtherType(key, "list"),
      null,
    ]);
    // In a step: what ends is settled, and the next one behind it is taken.
    server.cli("rpush", `${base}q:pending`, "bad");
    assert.equal(await backend.peek("q"), null);
    other.enqueue(server, "q", "four", "4");
    const [one, two, three] = out.map(({ id, lease }) => ({ id, lease }));
    const step = await backend.settleAndDequeue("q", [{ how: "ack", receipt: one! }], take);
    assert.deepEqual([step.settlements, step.deliveries.map(({ id }) => id)], [["done"], ["four"]]);
    server.cli("rpush", `${base}q:pending`, "bad");
    const endings = [
      { how: "requeue", receipt: two! },
      { how: "fail", receipt: three!, reason: "no" },
    ] as const;
    const second = await backend.settleAndDequeue("q", endings, { ...take, count: 2 });
    assert.deepEqual([second.settlements, second.deliveries.map(({ id }) => id)], [
      ["done", "done"],
      ["two"],
    ]);
    // Of one that is out already.
    const four = step.deliveries[0]!;
    server.cli("del", `${base}q:msg:four`);
    server.cli("sadd", `${base}q:msg:four`, "theirs");
    assert.deepEqual(await backend.fail("q", [four], "no"), ["done"]);
    assert.equal(server.cli("smembers", `${base}q:msg:four`), "theirs");
    // It replaces none: all that are to be enqueued, or none.
    server.cli("rpush", `${base}q:pending`, "bad");
    const before = contents(server);
    await assert.rejects(
      backend.enqueue("q", ["five", "bad"].map((id) => ({ id, data: bytes(id) }))),
      (error: AgentqError) => error.code === "backend-error" && error.details?.key === key,
    );
    assert.deepEqual(contents(server), before);
    await backend.close();
    await server.kill();
  });

  /** All keys, each with a digest of what it holds. */
  const contents = (server: RedisServer) =>
    server.cli(
      "eval",
      `local all = {}
      for _, key in ipairs(redis.call('KEYS', '*')) do
        local held = redis.call('DUMP', key)
        if redis.call('TYPE', key).ok == 'hash' then
          -- In an order that stays.
          local fields = {}
          for _, field in ipairs(redis.call('HKEYS', key)) do
            fields[#fields + 1] = field .. '=' .. redis.call('HGET', key, field)
          end
          table.sort(fields)
          held = table.concat(fields, ' ')
        end
        all[#all + 1] = key .. ' ' .. redis.sha1hex(held)
      end
      table.sort(all)
      return all`,
      "0",
    ).split("\n");

  test("what meets a key of another type changes nothing", { timeout: 120_000 }, async () => {
    const { server, backend } = await start();
    const refused = new Map<string, string[]>();
    type Operation = (queue: string, receipt: Receipt) => Promise<unknown>;
    const step = (how: "ack" | "requeue" | "release"): Operation => (queue, receipt) =>
      backend.settleAndDequeue(queue, [{ how, receipt }], take);
    const operations: Record<string, Operation> = {
      add: (queue) => backend.enqueue(queue, [{ data: bytes("x") }]),
      replace: (queue) => backend.enqueue(queue, [{ id: "c", data: bytes("x") }]),
      dequeue: (queue) => backend.dequeue(queue, { ...take, count: 2 }),
      ack: (queue, receipt) => backend.ack(queue, [receipt]),
      "ack-step": step("ack"),
      "requeue-step": step("requeue"),
      "release-step": step("release"),
      "fail-step": (queue, receipt) =>
        backend.settleAndDequeue(queue, [{ how: "fail", receipt, reason: "no" }], take),
      requeue: (queue, receipt) => backend.requeue(queue, [receipt]),
      release: (queue, receipt) => backend.requeue(queue, [receipt], { counted: false }),
      fail: (queue, receipt) => backend.fail(queue, [receipt], "no"),
      renew: (queue, receipt) => backend.renew(queue, [receipt], 60_000),
      recover: (queue) => backend.recover(queue, { staleMs: 0 }),
      retry: (queue) => backend.failed.retry(queue, ["a"]),
      prune: (queue) => backend.failed.prune(queue),
      clear: (queue) => backend.clear(queue),
      remove: (queue) => backend.remove(queue.split("/")[0]!),
      create: (queue) => backend.create(queue),
    };
    const parts = ["meta", "pending", "processing"];
    for (const part of ["deliveries", "held", "failed", "failed:data", "failed:order"]) {
      parts.push(`agentq:${part}`);
    }
    for (const [name, operation] of Object.entries(operations)) {
      for (const part of parts) {
        const top = `${name}-${part.replaceAll(":", "-")}`;
        const queue = `${top}/below`;
        for (const each of [top, queue]) await backend.create(each);
        await backend.enqueue(top, [{ data: bytes("top") }]);
        await backend.enqueue(queue, ["a", "b", "c"].map((id) => ({ id, data: bytes(id) })));
        const [a, b] = await backend.dequeue(queue, { ...take, count: 2 });
        await backend.fail(queue, [a!], "no");
        const key = `${base}${queue}:${part}`;
        server.cli("set", key, "theirs");
        if (name === "create") server.cli("srem", `${base}names`, queue);
        const before = contents(server);
        try {
          await operation(queue, { id: b!.id, lease: b!.lease });
        } catch (error) {
          assert.deepEqual([(error as AgentqError).code, (error as AgentqError).details?.key], [
            "backend-error",
            key,
          ], `${name}, ${part}: ${error}`);
          assert.deepEqual(contents(server), before, `${name}, ${part}`);
          refused.set(part, [...refused.get(part) ?? [], name]);
        }
        server.cli("flushdb");
      }
    }
    for (const part of parts) assert.ok(refused.has(part), part);
    assert.deepEqual(refused.get("meta"), ["add", "replace", "create"]);
    assert.ok(refused.get("agentq:held")!.includes("ack"));
    await backend.close();
    await server.kill();
  });

  test("a payload that is missing or malformed goes to the dead letters and blocks nothing", async () => {
    const { server, backend } = await start();
    other.enqueue(server, "q", "missing", "x");
    server.cli("del", `${base}q:msg:missing`);
    other.enqueue(server, "q", "bad", "x");
    server.cli("set", `${base}q:msg:bad`, "{");
    other.enqueue(server, "q", "good", "fine");
    assert.equal((await backend.peek("q"))?.id, "good");
    const out = await backend.dequeue("q", { ...take, count: 5 });
    assert.deepEqual(out.map(({ id }) => id), ["good"]);
    const letters = await backend.failed.list("q");
    assert.deepEqual(letters.map(({ id, reason }) => `${id}: ${reason}`).sort(), [
      "bad: the payload is not JSON",
      "missing: the payload is missing",
    ]);
    assert.deepEqual(await backend.status("q"), { pending: 0, processing: 1 });
    await backend.close();
    await server.kill();
  });
});
