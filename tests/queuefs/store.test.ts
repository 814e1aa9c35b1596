/** What queues on the store promise beyond what every backend does. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { Buffer } from "node:buffer";
import {
  chmodSync,
  linkSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { storeBackend } from "../../src/queuefs/backends/store/backend.ts";
import { queueFs } from "../../src/queuefs/control.ts";
import { callerOwner } from "../../src/queuefs/owner.ts";
import { nodeFiles } from "../../src/platform/files.ts";
import { openStore } from "../../src/store/mod.ts";
import type { StoreOptions } from "../../src/store/mod.ts";
import { tempDir } from "../helpers/git.ts";

const main = fileURLToPath(new URL("../../cli/main.ts", import.meta.url));
const start = process.versions.deno === undefined ? [main] : ["run", "-A", "--no-check", main];
const owner = callerOwner("test");
const lease = { owner, leaseMs: 60_000 };
const bytes = (text: string) => Buffer.from(text);
const texts = (all: { data: Uint8Array | null }[]) =>
  all.map(({ data }) => data === null ? null : Buffer.from(data).toString());

async function opened(options: StoreOptions = {}) {
  const root = join(tempDir(), "store");
  const backend = await storeBackend(root, { create: true, ...options });
  const store = await openStore(root);
  await backend.create("jobs");
  const put = (id: string, queue = "jobs") =>
    backend.enqueue(queue, [{ id, data: bytes(`of ${id}`) }]);
  const state = join(root, ".fs-safe-queue-v2", "state.json");
  const payloadOf = async (id: string) => {
    const found = (await store.messages()).find((each) => each.id === id);
    return join(root, ".fs-safe-queue-v2", "objects", found!.reference.object, "payload.json");
  };
  /** How many transactions `work` commits. */
  const commits = async (work: () => Promise<unknown>) => {
    const before = BigInt((await store.snapshot()).revision);
    await work();
    return Number(BigInt((await store.snapshot()).revision) - before);
  };
  return { root, backend, store, put, state, payloadOf, commits };
}

describe("queues on the store", () => {
  test("make one commit of each call, whatever it is about", async () => {
    const { backend, put, payloadOf, commits, root } = await opened();
    await backend.create("jobs/more");
    for (const id of ["a", "b", "c", "torn", "d"]) await put(id);
    await put("n", "jobs/more");
    writeFileSync(await payloadOf("torn"), "{", { mode: 0o600 });
    // What can't be used is a dead letter by the same commit.
    assert.equal(
      await commits(async () => {
        const got = await backend.dequeue("jobs", { ...lease, count: 4 });
        assert.deepEqual(got.map(({ id }) => id), ["a", "b", "c", "d"]);
      }),
      1,
    );
    const receipts = ["a", "b", "c"].map((id) => ({ id, owner }));
    assert.equal(
      await commits(async () => {
        const all = [...receipts, { id: "gone", owner }];
        assert.deepEqual(await backend.fail("jobs", all, "no"), ["done", "done", "done", "stale"]);
      }),
      1,
    );
    assert.equal(
      await commits(async () => {
        assert.deepEqual(await backend.failed.retry("jobs", ["b", "a"]), ["b", "a"]);
      }),
      1,
    );
    assert.deepEqual((await backend.failed.list("jobs")).map(({ id }) => id), ["torn", "c"]);
    const [n] = await backend.dequeue("jobs/more", lease);
    await backend.fail("jobs/more", [n!], "no");
    assert.equal(
      await commits(async () => {
        assert.deepEqual(await backend.remove("jobs"), ["jobs", "jobs/more"]);
      }),
      1,
    );
    assert.deepEqual(readdirSync(join(root, ".fs-safe-queue-v2", "objects")), []);
  });

  test("that were removed aren't made anew by who enqueues", async () => {
    const { backend, root, put } = await opened();
    await put("a");
    const other = await storeBackend(root);
    await other.remove("jobs");
    await assert.rejects(put("b"), { code: "queue-not-found" });
    assert.deepEqual(await backend.list(), []);
  });

  test("show and prune what an interrupted removal of an older version left", async () => {
    const { backend, put, state, root } = await opened();
    await put("a");
    const [a] = await backend.dequeue("jobs", lease);
    await backend.fail("jobs", [a!], "broken");
    await backend.create("other");
    const document = JSON.parse(readFileSync(state, "utf8"));
    delete document.queues.jobs;
    writeFileSync(state, JSON.stringify(document), { mode: 0o600 });

    const later = await storeBackend(root);
    assert.deepEqual(await later.failed.left!(), ["jobs"]);
    assert.deepEqual(texts(await later.failed.list("jobs")), ["of a"]);
    assert.equal((await later.failed.show("jobs", "a")).reason, "broken");
    await assert.rejects(later.failed.retry("jobs", ["a"]), { code: "queue-not-found" });
    await assert.rejects(later.failed.list("never"), { code: "queue-not-found" });
    await assert.rejects(later.failed.prune("never"), { code: "queue-not-found" });
    const words = ["queue", "failed", "ls", "--backend", `store:${root}`];
    const { stdout } = spawnSync(process.execPath, [...start, ...words], { encoding: "utf8" });
    assert.equal(stdout, "jobs\ta\t1x\tbroken\n");
    assert.equal(await later.failed.prune("jobs"), 1);
    assert.deepEqual(await later.failed.left!(), []);
    await assert.rejects(later.failed.list("jobs"), { code: "queue-not-found" });
  });

  const swaps: [string, (path: string, elsewhere: string) => void, string | null][] = [
    ["a FIFO", (path) => void spawnSync("mkfifo", ["-m", "600", path]), null],
    ["a link", (path, elsewhere) => symlinkSync(elsewhere, path), null],
    ["a second name of another file", (path, elsewhere) => linkSync(elsewhere, path), null],
    ["a file of other permissions", (path, elsewhere) => {
      renameSync(elsewhere, path);
      chmodSync(path, 0o644);
    }, "mode-unsupported"],
  ];
  for (const [what, swap, code] of swaps) {
    test(`list no payload that ${what} has taken the place of`, async () => {
      const { backend, put, payloadOf } = await opened();
      await put("a");
      await put("b");
      const path = await payloadOf("a");
      const elsewhere = join(tempDir(), "secret");
      writeFileSync(elsewhere, '"secret"', { mode: 0o600 });
      rmSync(path);
      swap(path, elsewhere);
      const fs = queueFs(backend, { owner });
      if (code === null) {
        assert.deepEqual(texts(await backend.messages("jobs")), [null, "of b"]);
        assert.doesNotMatch(Buffer.from(await fs.read("/jobs/messages")).toString(), /secret/);
      } else {
        await assert.rejects(backend.messages("jobs"), { code });
        await assert.rejects(fs.read("/jobs/messages"), { code });
      }
    });
  }

  function withFaulty() {
    const faulty = new Set<string>();
    const files = {
      ...nodeFiles,
      openRead(path: string) {
        if (!faulty.has(path)) return nodeFiles.openRead(path);
        throw Object.assign(new Error("EIO: i/o error, open"), { code: "EIO", syscall: "open" });
      },
    };
    return { faulty, files };
  }

  test("pass over sixteen that the disk can't read, and no more", async () => {
    const { faulty, files } = withFaulty();
    const { backend, put, payloadOf } = await opened({ platform: { files } });
    for (let n = 0; n < 18; n++) await put(`m${n}`);
    for (let n = 0; n < 16; n++) faulty.add(await payloadOf(`m${n}`));
    assert.deepEqual((await backend.dequeue("jobs", lease)).map(({ id }) => id), ["m16"]);
    faulty.add(await payloadOf("m17"));
    await put("m18");
    await assert.rejects(backend.dequeue("jobs", lease), { code: "io-error" });
  });

  test("pass over what the disk can't read just now and leave it as it is", async () => {
    const { faulty, files } = withFaulty();
    const { backend, put, payloadOf, store, commits } = await opened({ platform: { files } });
    for (const id of ["a", "b", "c"]) await put(id);
    faulty.add(await payloadOf("a"));
    const fault = { code: "io-error" };
    assert.deepEqual(texts(await backend.messages("jobs")), [null, "of b", "of c"]);
    assert.deepEqual(texts([(await backend.peek("jobs"))!]), ["of b"]);
    const [b] = await backend.dequeue("jobs", { ...lease, count: 1 });
    assert.equal(b!.id, "b");
    // A worker's step settles what it is done with, whatever the next is like.
    const ack = { how: "ack", receipt: { id: b!.id, lease: b!.lease } } as const;
    assert.equal((await backend.settleAndDequeue("jobs", [ack], lease)).deliveries[0]!.id, "c");
    const c = { how: "ack", receipt: { id: "c", owner } } as const;
    assert.deepEqual(await backend.settleAndDequeue("jobs", [c], lease), {
      settlements: ["done"],
      deliveries: [],
    });
    assert.equal(
      await commits(async () => {
        await assert.rejects(backend.dequeue("jobs", lease), fault);
        await assert.rejects(backend.settleAndDequeue("jobs", [], lease), fault);
      }),
      0,
    );
    assert.deepEqual(await backend.failed.list("jobs"), []);
    assert.ok((await store.check()).sound);
    faulty.clear();
    const [a] = await backend.dequeue("jobs", lease);
    assert.deepEqual([a!.id, a!.attempts], ["a", 0]);
  });
});
