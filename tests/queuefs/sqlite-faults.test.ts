/** A full disk, a locked database, a corrupt one, one of something else: typed, bounded, nothing lost. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";
import { DatabaseSync } from "node:sqlite";
import { describe, test } from "node:test";
import { AgentqError } from "../../src/errors.ts";
import { sqliteBackend } from "../../src/queuefs/backends/sqlite/backend.ts";
import { workerOwner } from "../../src/queuefs/owner.ts";
import { tempDir } from "../helpers/git.ts";
import { bytes } from "./helpers/redis.ts";

const take = { owner: workerOwner(), leaseMs: 60_000 };

async function code(work: () => Promise<unknown> | unknown): Promise<string> {
  try {
    await work();
  } catch (error) {
    assert.ok(error instanceof AgentqError, String(error));
    return error.code;
  }
  return "none";
}

describe("SQLite", () => {
  test("a database on a disk that is full to the last byte says that it is", async () => {
    const dir = join(tempDir(), "small");
    mkdirSync(dir);
    const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=256k", "tmpfs", dir]);
    assert.equal(mounted.status, 0, `this test mounts a small disk: ${mounted.stderr}`);
    try {
      const file = join(dir, "q.db");
      const backend = sqliteBackend(file, { create: true });
      await backend.create("q");
      await backend.close();
      const { bavail, bsize } = statfsSync(dir);
      writeFileSync(join(dir, "fill"), new Uint8Array(bavail * bsize));
      for (const create of [true, false]) {
        const refused = await code(async () => {
          await (await sqliteBackend(file, { create })).status("q");
        });
        assert.equal(refused, "backend-full");
      }
      rmSync(join(dir, "fill"));
      const again = sqliteBackend(file);
      assert.deepEqual(await again.status("q"), { pending: 0, processing: 0 });
      await again.close();
    } finally {
      spawnSync("umount", [dir]);
    }
  });

  test("a disk that has room for no further file is full too", async () => {
    const dir = join(tempDir(), "mount");
    mkdirSync(dir);
    // The directory, the database, its log: none is left for the log's shared memory.
    const small = ["-t", "tmpfs", "-o", "size=4m,nr_inodes=5", "tmpfs", dir];
    const mounted = spawnSync("mount", small);
    assert.equal(mounted.status, 0, `this test mounts a small disk: ${mounted.stderr}`);
    try {
      const file = join(dir, "q.db");
      const backend = sqliteBackend(file, { create: true });
      await backend.create("q");
      await backend.close();
      let n = 0;
      try {
        for (;; n++) writeFileSync(join(dir, String(n)), "");
      } catch {
        // No more names.
      }
      assert.equal(await code(() => sqliteBackend(file)), "backend-full");
      rmSync(join(dir, "0"));
      assert.equal(await code(() => sqliteBackend(file)), "backend-full"); // Two are needed.
      for (let i = 1; i < n; i++) rmSync(join(dir, String(i)));
      const again = sqliteBackend(file);
      assert.deepEqual(await again.status("q"), { pending: 0, processing: 0 });
      await again.close();
      assert.deepEqual(readdirSync(dir), ["q.db"]);
    } finally {
      spawnSync("umount", [dir]);
    }
  });

  test("a full disk refuses what it can't keep, keeps what it confirmed, and drains", async () => {
    const dir = join(tempDir(), "small");
    mkdirSync(dir);
    const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=2m", "tmpfs", dir]);
    assert.equal(mounted.status, 0, `this test mounts a small disk: ${mounted.stderr}`);
    try {
      const backend = sqliteBackend(join(dir, "q.db"), { create: true });
      await backend.create("q");
      const data = Buffer.alloc(10_000, "x");
      const accepted: string[] = [];
      let refused = "none";
      while (refused === "none") {
        refused = await code(async () => accepted.push(...await backend.enqueue("q", [{ data }])));
      }
      assert.equal(refused, "backend-full");
      assert.ok(accepted.length > 10);
      assert.deepEqual((await backend.messages("q")).map(({ id }) => id), accepted);
      await backend.close();
      // Nothing is left to write with; another disk has room.
      const copy = join(tempDir(), "q.db");
      for (const end of ["", "-wal"]) {
        try {
          writeFileSync(copy + end, readFileSync(join(dir, `q.db${end}`)));
        } catch {
          assert.equal(end, "-wal"); // Closing may have emptied it.
        }
      }
      const again = sqliteBackend(copy);
      const out = await again.dequeue("q", { ...take, count: 1000 });
      assert.deepEqual(out.map(({ id }) => id), accepted);
      const receipts = out.map(({ id, lease }) => ({ id, lease }));
      assert.ok((await again.ack("q", receipts)).every((each) => each === "done"));
      await again.close();
    } finally {
      spawnSync("umount", ["-l", dir]);
    }
  });

  test("a database that another holds is backend-busy after the wait, and works afterwards", async () => {
    const file = join(tempDir(), "q.db");
    const backend = sqliteBackend(file, { create: true, busyTimeoutMs: 100 });
    await backend.create("q");
    const [id] = await backend.enqueue("q", [{ data: bytes("a") }]);
    const other = new DatabaseSync(file);
    other.exec("BEGIN IMMEDIATE");
    assert.equal(await code(() => backend.enqueue("q", [{ data: bytes("b") }])), "backend-busy");
    assert.equal(
      await code(() => backend.enqueue("q", [{ id: "x", data: bytes("b") }])),
      "backend-busy",
    );
    assert.equal(await code(() => backend.dequeue("q", take)), "backend-busy");
    assert.equal(
      await code(() => backend.requeue("q", [{ id: id!, lease: "1.1.x" }])),
      "backend-busy",
    );
    assert.equal(await code(() => backend.settleAndDequeue("q", [], take)), "backend-busy");
    // Readers don't wait for a writer, and it needn't be asked to open.
    assert.deepEqual(await backend.status("q"), { pending: 1, processing: 0 });
    const reader = sqliteBackend(file, { busyTimeoutMs: 100 });
    assert.deepEqual(await reader.list(), ["q"]);
    await reader.close();
    other.exec("COMMIT");
    other.close();
    assert.deepEqual((await backend.dequeue("q", take)).map((each) => each.id), [id]);
    await backend.close();
  });

  test("a step that fails in either half does neither", async () => {
    const file = join(tempDir(), "q.db");
    const backend = sqliteBackend(file, { create: true });
    await backend.create("q");
    await backend.enqueue("q", ["a", "b", "c"].map((each) => ({ data: bytes(each) })));
    const [a] = await backend.dequeue("q", take);
    const other = new DatabaseSync(file);
    for (const half of ["UPDATE", "DELETE"]) {
      other.exec(`CREATE TRIGGER broken BEFORE ${half} ON queue_messages
        BEGIN SELECT RAISE(ABORT, 'broken'); END`);
      const step = () => backend.settleAndDequeue("q", [{ how: "ack", receipt: a! }], take);
      assert.equal(await code(step), "backend-error", half);
      assert.deepEqual(await backend.status("q"), { pending: 2, processing: 1 }, half);
      other.exec("DROP TRIGGER broken");
    }
    other.close();
    const turn = await backend.settleAndDequeue("q", [{ how: "ack", receipt: a! }], take);
    assert.deepEqual(turn.settlements, ["done"]);
    assert.equal(Buffer.from(turn.deliveries[0]!.data).toString(), "b");
    await backend.close();
  });

  test("a transaction that reads first still waits for other writers", async () => {
    // Deferred ones, which ignore the busy timeout on their way to the write, would fail at once.
    const file = join(tempDir(), "q.db");
    const [a, b] = [sqliteBackend(file, { create: true }), sqliteBackend(file)];
    await a.create("q");
    const all = Array.from({ length: 20 }, (_, i) => [
      a.enqueue("q", [{ id: `a${i}`, data: bytes("x") }]),
      b.enqueue("q", [{ id: `b${i}`, data: bytes("x") }]),
    ]).flat();
    await Promise.all(all);
    assert.deepEqual(await a.status("q"), { pending: 40, processing: 0 });
    await a.close();
    await b.close();
  });

  test("a file that is no database, and one that is damaged, are backend-corrupt", async () => {
    const garbage = join(tempDir(), "garbage.db");
    writeFileSync(garbage, "this is no database at all, ".repeat(100));
    const before = readFileSync(garbage);
    assert.equal(await code(() => sqliteBackend(garbage, { create: true })), "backend-corrupt");
    assert.deepEqual(readFileSync(garbage), before);

    const file = join(tempDir(), "q.db");
    const backend = sqliteBackend(file, { create: true });
    await backend.create("q");
    await backend.enqueue(
      "q",
      Array.from({ length: 500 }, () => ({ data: Buffer.alloc(500, "x") })),
    );
    await backend.close();
    const fd = openSync(file, "r+");
    const size = statSync(file).size;
    for (let at = 4096 * 3; at < size; at += 4096) {
      writeSync(fd, Buffer.alloc(2048, 0xaa), 0, 2048, at);
    }
    closeSync(fd);
    const found = await code(async () => {
      const damaged = sqliteBackend(file);
      try {
        await damaged.messages("q");
        await damaged.dequeue("q", { ...take, count: 500 });
      } finally {
        await damaged.close();
      }
    });
    assert.equal(found, "backend-corrupt");
  });

  test("what isn't there, isn't a file or is another program's database is said plainly", async () => {
    const dir = tempDir();
    assert.equal(await code(() => sqliteBackend(join(dir, "none.db"))), "backend-missing");
    assert.equal(await code(() => sqliteBackend(dir)), "io-error");
    const file = join(dir, "other.db");
    const other = new DatabaseSync(file);
    other.exec("CREATE TABLE customers (name)");
    other.close();
    assert.equal(await code(() => sqliteBackend(file, { create: true })), "backend-unsupported");
    const empty = join(dir, "empty.db");
    writeFileSync(empty, "");
    assert.equal(await code(() => sqliteBackend(empty)), "backend-missing");
  });

  test("a new database is in a directory of its own making, synced, write-ahead, FULL", async () => {
    const file = join(tempDir(), "deep", "er", "q.db");
    const backend = sqliteBackend(file, { create: true });
    await backend.create("q");
    const other = new DatabaseSync(file);
    assert.equal(other.prepare("PRAGMA journal_mode").get()?.journal_mode, "wal");
    other.close();
    await backend.close();
  });

  test("a new database, its log and its shared memory are for their owner alone", async () => {
    const file = join(tempDir(), "deep", "q.db");
    const before = process.umask(0o022);
    try {
      const backend = sqliteBackend(file, { create: true });
      await backend.create("q");
      for (const each of [file, `${file}-wal`, `${file}-shm`]) {
        assert.equal((statSync(each).mode & 0o777).toString(8), "600", each);
      }
      assert.equal((statSync(dirname(file)).mode & 0o777).toString(8), "700");
      await backend.close();
      // What somebody else made keeps the mode that it was given.
      chmodSync(file, 0o640);
      const again = sqliteBackend(file);
      await again.create("r");
      assert.equal((statSync(file).mode & 0o777).toString(8), "640");
      await again.close();
    } finally {
      process.umask(before);
    }
  });
});
