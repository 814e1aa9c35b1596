/** The file behind a SQLite queue: removed, replaced, not to be opened, lacking a table. Never "complete". */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  linkSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { DatabaseSync } from "node:sqlite";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { AgentqError } from "../../src/errors.ts";
import { sqliteBackend } from "../../src/queuefs/backends/sqlite/backend.ts";
import { waitComplete } from "../../src/queuefs/completion.ts";
import type { QueueBackend } from "../../src/queuefs/contract.ts";
import { openBackend } from "../../src/queuefs/open.ts";
import { workerOwner } from "../../src/queuefs/owner.ts";
import { startWorker } from "../../src/queuefs/worker.ts";
import { tempDir } from "../helpers/git.ts";
import { bytes } from "./helpers/redis.ts";

const LONG = { timeout: 60_000 };
const take = { owner: workerOwner(), leaseMs: 60_000 };

async function fault(work: () => Promise<unknown> | unknown): Promise<AgentqError> {
  try {
    await work();
  } catch (error) {
    assert.ok(error instanceof AgentqError, String(error));
    return error;
  }
  throw new assert.AssertionError({ message: "nothing was thrown" });
}
const code = async (work: () => Promise<unknown> | unknown) => (await fault(work)).code;

const remove = (file: string) => {
  for (const end of ["", "-wal", "-shm"]) rmSync(file + end, { force: true });
};
/** What can become of the file, each leaving the path naming another one, or none. */
const ENDS: Record<string, (file: string) => Promise<void> | void> = {
  removed: remove,
  "removed and made anew": async (file) => {
    remove(file);
    const other = sqliteBackend(file, { create: true });
    await other.create("q");
    await other.enqueue("q", [{ data: bytes("new") }]);
    await other.close();
  },
  "moved away": (file) => renameSync(file, `${file}.old`),
};

describe("a SQLite database whose file", () => {
  for (const [what, end] of Object.entries(ENDS)) {
    test(`was ${what} answers nothing any more`, LONG, async () => {
      const file = join(tempDir(), "q.db");
      const backend = sqliteBackend(file, { create: true });
      await backend.create("q");
      await backend.enqueue("q", [{ data: bytes("a") }]);
      const [a] = await backend.dequeue("q", take);
      await end(file);
      const receipts = [{ id: a!.id, lease: a!.lease }];
      const all: Record<string, (backend: QueueBackend) => Promise<unknown>> = {
        list: () => backend.list(),
        create: () => backend.create("r"),
        status: () => backend.status("q"),
        statuses: () => backend.statuses(),
        complete: () => backend.complete(["q"]),
        peek: () => backend.peek("q"),
        messages: () => backend.messages("q"),
        enqueue: () => backend.enqueue("q", [{ data: bytes("b") }]),
        "enqueue with an id": () => backend.enqueue("q", [{ id: "x", data: bytes("b") }]),
        dequeue: () => backend.dequeue("q", take),
        step: () => backend.settleAndDequeue("q", [], take),
        ack: () => backend.ack("q", receipts),
        renew: () => backend.renew("q", receipts, 1000),
        requeue: () => backend.requeue("q", receipts),
        fail: () => backend.fail("q", receipts, "x"),
        clear: () => backend.clear("q"),
        recover: () => backend.recover("q"),
        remove: () => backend.remove("q"),
        "failed ls": () => backend.failed.list("q"),
      };
      for (const [name, call] of Object.entries(all)) {
        assert.equal(await code(() => call(backend)), "identity-changed", name);
      }
      await backend.close();
      // Closing the old one has done nothing to what stands in its place.
      if (what !== "removed and made anew") return;
      const now = sqliteBackend(file);
      assert.deepEqual(await now.status("q"), { pending: 1, processing: 0 });
      await now.close();
    });

    test(`was ${what} ends waits and workers`, LONG, async () => {
      const file = join(tempDir(), "q.db");
      const backend = sqliteBackend(file, { create: true });
      await backend.create("q");
      const idle = startWorker(backend, "q", () => Promise.resolve(), { idleMs: 20 });
      await backend.create("held");
      await backend.enqueue("held", [{ data: bytes("a") }]);
      await backend.dequeue("held", take);
      const waiting = waitComplete(backend, ["held"]);
      waiting.catch(() => {});
      await end(file);
      assert.equal(await code(() => waiting), "identity-changed");
      assert.equal(await code(() => idle.done), "identity-changed");
      await backend.close();
    });
  }

  test("lacks a table is damaged, and stays as it is", async () => {
    for (const table of ["queue_messages", "queue_metadata", "agentq_failed"]) {
      const file = join(tempDir(), "q.db");
      const backend = sqliteBackend(file, { create: true });
      await backend.create("q");
      await backend.enqueue("q", [{ data: bytes("a") }]);
      const other = new DatabaseSync(file);
      other.exec(`DROP TABLE ${table}`);
      const call = () => table === "agentq_failed" ? backend.failed.list("q") : backend.status("q");
      assert.equal(await code(call), "backend-corrupt", table);
      await backend.close();
      for (const create of [false, true]) {
        const found = await fault(() => sqliteBackend(file, { create }));
        assert.equal(found.code, "backend-corrupt", table);
        assert.match(found.message, new RegExp(table));
      }
      const there = other.prepare("SELECT 1 FROM sqlite_master WHERE name = ?").get(table);
      assert.equal(there, undefined);
      other.close();
    }
  });

  test("was moved while it was open: its log is named, and deleted by nobody", async () => {
    const file = join(tempDir(), "q.db");
    const backend = sqliteBackend(file, { create: true });
    await backend.create("q");
    await backend.enqueue("q", [{ data: bytes("late") }]);
    const other = join(tempDir(), "o.db");
    const another = sqliteBackend(other, { create: true });
    await another.create("o");
    await another.close();
    renameSync(file, `${file}.old`);
    const moved = await fault(() => backend.status("q"));
    assert.match(moved.message, /was removed while it was open; .*q\.db-wal/);
    assert.match(moved.hint, /Move .*q\.db-wal and .*q\.db-shm along/);
    renameSync(other, file);
    assert.match((await fault(() => backend.status("q"))).message, /replaced.*q\.db-wal/);
    await backend.close();
    renameSync(file, other);
    for (const create of [true, false]) {
      for (const empty of [false, true]) {
        if (empty) writeFileSync(file, "");
        const found = await fault(() => sqliteBackend(file, { create }));
        const missing = !create && !empty;
        assert.equal(found.code, missing ? "backend-missing" : "identity-changed");
        assert.match(found.message, /q\.db-wal/);
        assert.match(found.hint, /move it along/);
        rmSync(file, { force: true });
      }
    }
    renameSync(`${file}.old`, file);
    const again = sqliteBackend(file);
    assert.deepEqual(await again.status("q"), { pending: 1, processing: 0 });
    await again.close();
    // The log of the one that is in its place by now isn't the old one's.
    const old = sqliteBackend(file);
    await old.status("q");
    await ENDS["removed and made anew"]!(file);
    const anew = sqliteBackend(file);
    await anew.enqueue("q", [{ data: bytes("x") }]);
    assert.doesNotMatch((await fault(() => old.status("q"))).message, /-wal/);
    await anew.close();
    await old.close();
  });

  test("was cut to nothing has no queue until one is created", async () => {
    const file = join(tempDir(), "q.db");
    const backend = sqliteBackend(file, { create: true });
    await backend.create("q");
    await backend.close();
    truncateSync(file);
    assert.equal(await code(() => sqliteBackend(file)), "backend-missing");
    const again = sqliteBackend(file, { create: true });
    assert.equal(await code(() => again.status("q")), "queue-not-found");
    await again.close();
  });
});

describe("a SQLite database that can't be opened says why:", () => {
  test("a directory, a link to nothing, a way there that is closed", async () => {
    const dir = tempDir();
    for (const create of [false, true]) {
      const directory = await fault(() => sqliteBackend(dir, { create }));
      assert.deepEqual([directory.code, directory.details?.errno], ["io-error", "EISDIR"]);
      assert.match(directory.message, /is a directory/);
    }
    const link = join(dir, "link.db");
    symlinkSync(join(dir, "nowhere.db"), link);
    for (const create of [false, true]) {
      const dangling = await fault(() => sqliteBackend(link, { create }));
      assert.equal(dangling.code, "backend-missing");
      assert.match(dangling.message, /is a link to .*nowhere\.db, which isn't there/);
    }
    assert.ok(!existsSync(join(dir, "nowhere.db")));
    const loop = join(dir, "loop.db");
    symlinkSync(loop, loop);
    assert.equal(await code(() => sqliteBackend(loop)), "io-error");
    const file = join(dir, "file");
    writeFileSync(file, "");
    const below = await code(() => sqliteBackend(join(file, "q.db"), { create: true }));
    assert.equal(below, "io-error");
  });

  test("what is no file", async () => {
    assert.equal(await code(() => openBackend("sqlite::memory:", { create: true })), "usage");
    assert.equal(await code(() => openBackend("sqlite:file:q.db", { create: true })), "usage");
    const device = await fault(() => openBackend("sqlite:/dev/null", { create: true }));
    assert.equal(device.code, "io-error");
    assert.match(device.message, /neither a file nor a directory/);
  });

  test("a limit of open files, and a permission", LONG, () => {
    const dir = tempDir();
    chmodSync(dir, 0o755);
    const file = join(dir, "q.db");
    const module = fileURLToPath(
      new URL("../../src/queuefs/backends/sqlite/backend.ts", import.meta.url),
    );
    const script = join(dir, "open.ts");
    writeFileSync(
      script,
      `import { openSync } from "node:fs";
import process from "node:process";
import { sqliteBackend } from ${JSON.stringify(module)};
const [, , file, left] = process.argv;
sqliteBackend(file, { create: true }).close();
const held = [];
try {
  while (left !== "all") held.push(openSync("/", "r"));
} catch {}
for (let n = 0; n < Number(left); n++) (await import("node:fs")).closeSync(held.pop());
if (left === "all") process.setuid(65534);
try {
  sqliteBackend(file);
  console.log("opened");
} catch (error) {
  console.log(error.code, error.details?.errno ?? "-", error.hint);
}
process.exit();
`,
    );
    const start = process.versions.deno === undefined ? [] : ["run", "-A", "--no-check"];
    const attempt = (left: string) =>
      spawnSync("sh", [
        "-c",
        'ulimit -n 200; exec "$@"',
        "sh",
        process.execPath,
        ...start,
        script,
        file,
        left,
      ], { encoding: "utf8", cwd: fileURLToPath(new URL("../..", import.meta.url)) });
    for (const left of ["0", "1"]) {
      const { stdout, stderr } = attempt(left);
      assert.match(stdout, /^io-error EMFILE Too many open files/, `${left}: ${stdout}${stderr}`);
    }
    if (process.getuid?.() !== 0) return;
    const { stdout, stderr } = attempt("all");
    assert.match(stdout, /^backend-denied EACCES Check who owns the database/, stdout + stderr);
  });
});

describe("a database that this user may not write", () => {
  test("is named with its mode, or its directory or log is", LONG, () => {
    const dir = tempDir();
    const file = join(dir, "q.db");
    const module = fileURLToPath(
      new URL("../../src/queuefs/backends/sqlite/backend.ts", import.meta.url),
    );
    const script = join(dir, "enqueue.ts");
    writeFileSync(
      script,
      `import { chmodSync } from "node:fs";
import process from "node:process";
import { sqliteBackend } from ${JSON.stringify(module)};
const [, , file, uid, ...modes] = process.argv;
const first = sqliteBackend(file, { create: true });
await first.create("q");
await first.enqueue("q", [{ data: new Uint8Array(1) }]);
for (let n = 0; n < modes.length; n += 2) chmodSync(modes[n], parseInt(modes[n + 1], 8));
if (uid !== "0") process.setuid(Number(uid));
try {
  await sqliteBackend(file).enqueue("q", [{ data: new Uint8Array(1) }]);
  console.log("enqueued");
} catch (error) {
  console.log(error.code, error.message, error.hint);
}
process.exit();
`,
    );
    const start = process.versions.deno === undefined ? [] : ["run", "-A", "--no-check"];
    const uid = process.getuid?.() === 0 ? "65534" : "0";
    const attempt = (...modes: string[]) => {
      const all = [dir, "777", file, "666", `${file}-wal`, "666", `${file}-shm`, "666", ...modes];
      const { stdout, stderr } = spawnSync(
        process.execPath,
        [...start, script, file, uid, ...all],
        { encoding: "utf8", cwd: fileURLToPath(new URL("../..", import.meta.url)) },
      );
      chmodSync(dir, 0o755);
      if (existsSync(file)) chmodSync(file, 0o600);
      return stdout + stderr;
    };
    assert.equal(attempt(), "enqueued\n");
    const denied = (path: string, what: string, mode: string) =>
      new RegExp(
        `^backend-denied sqlite:${file}: .*: this user may not ${what} ${path}: ` +
          `it has mode ${mode} and belongs to .*, this is .* Check who owns the database`,
      );
    assert.match(attempt(file, "444"), denied(file, "write", "0444"));
    assert.match(attempt(file, "0"), denied(file, "read", "0000"));
    assert.match(attempt(`${file}-wal`, "444"), denied(`${file}-wal`, "write", "0444"));
  });
});

describe("a database with two names", () => {
  test("is refused under either: each would have a log of its own", async () => {
    const dir = tempDir();
    const [a, b] = [join(dir, "a.db"), join(dir, "b.db")];
    const first = sqliteBackend(a, { create: true });
    await first.create("q");
    linkSync(a, b);
    for (const path of [a, b]) {
      assert.throws(() => sqliteBackend(path), (error: unknown) => {
        assert.ok(error instanceof AgentqError, String(error));
        assert.equal(error.code, "identity-changed");
        assert.match(error.message, /has 2 names/);
        assert.match(error.hint, /-wal/);
        return true;
      });
    }
    // Nothing was written beside the other name, and whoever has it open goes on.
    assert.deepEqual(readdirSync(dir).sort(), ["a.db", "a.db-shm", "a.db-wal", "b.db"]);
    await first.enqueue("q", [{ data: new Uint8Array() }]);
    unlinkSync(b);
    const second = sqliteBackend(a);
    assert.deepEqual(await second.status("q"), { pending: 1, processing: 0 });
    await second.close();
    await first.close();
    // A symbolic link is no name of its own: the log lies beside what it leads to.
    symlinkSync(a, b);
    const third = sqliteBackend(b);
    await third.enqueue("q", [{ data: new Uint8Array() }]);
    assert.deepEqual(readdirSync(dir).sort(), ["a.db", "a.db-shm", "a.db-wal", "b.db"]);
    await third.close();
  });
});
