/** `v1:DIR`: what v1 can do, and a plain no for what it can't. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import filePromises from "node:fs/promises";
import { basename, join } from "node:path";
import { describe, test } from "node:test";
import { AgentqError } from "../../src/errors.ts";
import type { Ending, QueueBackend } from "../../src/queuefs/contract.ts";
import { openBackend } from "../../src/queuefs/open.ts";
import { callerOwner } from "../../src/queuefs/owner.ts";
import { initStore, openStore, unlockStore } from "../../src/store/mod.ts";
import { openV1Queue, type V1Queue } from "../../src/store/v1.ts";
import { tempDir } from "../helpers/git.ts";
import { bytes } from "./helpers/redis.ts";

const take = { owner: callerOwner(), leaseMs: 1000 };
const text = (data: Uint8Array | null | undefined) => Buffer.from(data ?? []).toString();

const refused = (code: string) => (error: unknown) =>
  error instanceof AgentqError && error.code === code;

describe("the v1 backend", () => {
  test("shares a directory with v1 itself, both ways", async () => {
    const root = tempDir();
    const other = await openV1Queue(join(root, "jobs"));
    await other.enqueue("a", { n: 1 });
    const backend = await openBackend(`v1:${root}`);
    assert.deepEqual(await backend.list(), ["jobs"]);
    assert.equal(text((await backend.peek("jobs"))?.data), '{"n":1}');
    const [a] = await backend.dequeue("jobs", take);
    assert.equal(text(a!.data), '{"n":1}');
    assert.deepEqual(await backend.status("jobs"), { pending: 0, processing: 1 });
    assert.equal(await backend.complete(["jobs"]), false);
    assert.deepEqual(await backend.ack("jobs", [{ id: "a", owner: take.owner }]), ["done"]);
    assert.deepEqual(await backend.ack("jobs", [{ id: "a", owner: take.owner }]), ["stale"]);

    await backend.enqueue("jobs", [{ id: "b", data: bytes('{"m":[2]}') }]);
    await backend.enqueue("jobs", [{ id: "c", data: bytes("plain text") }]);
    assert.deepEqual((await other.claim({ id: "b" })).map(({ payload }) => payload), [{ m: [2] }]);
    await other.ack("b");
    const [c] = await backend.dequeue("jobs", take);
    assert.equal(text(c!.data), "plain text");
    assert.deepEqual(await backend.fail("jobs", [c!], "no"), ["done"]);
    assert.deepEqual((await backend.failed.list("jobs")).map(({ failedId }) => failedId), ["c"]);
    assert.equal(text((await backend.failed.show("jobs", "c")).data), "plain text");
    assert.equal(await backend.complete(["jobs"]), true);
  });

  test("has accepted what a consumer took before fs-safe had looked again", async () => {
    const root = tempDir();
    const backend = await openBackend(`v1:${root}`, { create: true });
    await backend.create("jobs");
    const { rename } = filePromises;
    const path = (name: string) => join(root, "jobs", name);
    const enqueue = async (id: string, consumer: (message: string) => void) => {
      filePromises.rename = async (from, to) => {
        await rename(from, to);
        consumer(String(to));
      };
      try {
        return await backend.enqueue("jobs", [{ id, data: bytes("1") }]);
      } finally {
        filePromises.rename = rename;
      }
    };
    assert.deepEqual(await enqueue("gone", (message) => rmSync(message)), ["gone"]);
    const claim = (message: string) => linkSync(message, path("claimed.processing"));
    assert.deepEqual(await enqueue("claimed", claim), ["claimed"]);
    // It may have been a newer one of the id, or another program's: nothing tells.
    await assert.rejects(
      enqueue("other", (message) => {
        writeFileSync(path("x"), "2", { mode: 0o600 });
        renameSync(path("x"), message);
      }),
      refused("commit-uncertain"),
    );
    // What never got there is an error as before.
    filePromises.rename = () =>
      Promise.reject(Object.assign(new Error("ENOSPC: full"), { code: "ENOSPC" }));
    try {
      await assert.rejects(
        backend.enqueue("jobs", [{ id: "full", data: bytes("1") }]),
        refused("io-error"),
      );
    } finally {
      filePromises.rename = rename;
    }
    assert.ok(!existsSync(path("full.json")));
  });

  test("gives a message to one consumer, though all look at the same moment", async () => {
    const root = tempDir();
    const backend = await openBackend(`v1:${root}`, { create: true });
    await backend.create("jobs");
    const sent = await backend.enqueue(
      "jobs",
      Array.from({ length: 24 }, () => ({ data: bytes("1") })),
    );
    const consumers = await Promise.all(
      Array.from({ length: 4 }, () => openBackend(`v1:${root}`)),
    );
    const got = await Promise.all(
      consumers.flatMap((each) =>
        [1, 2, 3].map((count) => each.dequeue("jobs", { ...take, count }))
      ),
    );
    const ids = got.flat().map(({ id }) => id);
    assert.equal(new Set(ids).size, ids.length);
    assert.deepEqual(ids.sort(), sent.sort());
  });

  test("hands out what it has claimed whatever the next is like, which holds up nothing", async () => {
    const root = tempDir();
    const backend = await openBackend(`v1:${root}`, { create: true });
    await backend.create("jobs");
    const path = (name: string) => join(root, "jobs", name);
    const put = async (id: string, at: number) => {
      await backend.enqueue("jobs", [{ id, data: bytes(id) }]);
      utimesSync(path(`${id}.json`), at, at);
    };
    const ids = async (count: number) =>
      (await backend.dequeue("jobs", { ...take, count })).map(({ id }) => id);
    await put("a", 1);
    // fs-safe doesn't take it for a message: it has a second name.
    await put("linked", 2);
    linkSync(path("linked.json"), join(root, "second"));
    await put("b", 3);
    assert.deepEqual(await ids(2), ["a", "b"]);
    await assert.rejects(ids(1), refused("identity-changed"));
    await put("c", 4);
    // The dead letter of this name is there already, so that it can't become one.
    await put("torn", 5);
    writeFileSync(path("torn.json"), "{", { mode: 0o600 });
    utimesSync(path("torn.json"), 5, 5);
    writeFileSync(path("failed/torn.json"), "1", { mode: 0o600 });
    assert.deepEqual(await ids(3), ["c"]);
    rmSync(join(root, "second"));
    assert.deepEqual(await ids(3), ["linked"]);
  });

  test("tells which of several messages are enqueued where it fails midway", async () => {
    const backend = await openBackend(`v1:${tempDir()}`, { create: true });
    await backend.create("jobs");
    const { rename } = filePromises;
    let left = 2;
    filePromises.rename = async (from, to) => {
      if (left-- > 0) return await rename(from, to);
      throw Object.assign(new Error("ENOSPC: full, rename"), { code: "ENOSPC", syscall: "rename" });
    };
    try {
      const all = ["a", "b", "c", "d"].map((id) => ({ id, data: bytes("1") }));
      await assert.rejects(backend.enqueue("jobs", all), (error: AgentqError) => {
        assert.equal(error.code, "io-error");
        assert.match(error.message, /^2 of 4 messages are enqueued: /);
        assert.deepEqual(error.details?.enqueued, ["a", "b"]);
        assert.match(error.hint, /enqueue only from message 3 on/);
        return true;
      });
    } finally {
      filePromises.rename = rename;
    }
    assert.deepEqual(await backend.status("jobs"), { pending: 2, processing: 0 });
  });

  test("an ack that another consumer was faster with is stale", async () => {
    const root = tempDir();
    const backend = await openBackend(`v1:${root}`, { create: true });
    await backend.create("jobs");
    const other = join(root, "jobs", "a.processing");
    const { rename } = filePromises;
    filePromises.rename = async (from, to) => {
      rmSync(other, { force: true });
      return await rename(from, to);
    };
    try {
      writeFileSync(other, "1", { mode: 0o600 });
      assert.deepEqual(await backend.ack("jobs", [{ id: "a", owner: take.owner }]), ["stale"]);
    } finally {
      filePromises.rename = rename;
    }
    assert.ok(!existsSync(other));
  });

  test("lists no payload that something else has taken the place of", async () => {
    const root = tempDir();
    const backend = await openBackend(`v1:${root}`, { create: true });
    await backend.create("jobs");
    const path = (name: string) => join(root, "jobs", name);
    const secret = join(root, "secret");
    writeFileSync(secret, '"secret"', { mode: 0o600 });
    for (const id of ["fifo.processing", "pipe.json", "failed/pipe.json"]) {
      spawnSync("mkfifo", ["-m", "600", path(id)]);
    }
    symlinkSync(secret, path("link.json"));
    linkSync(secret, path("second.json"));
    linkSync(secret, path("failed/second.json"));
    await backend.enqueue("jobs", [{ id: "mine", data: bytes("1") }]);
    // As it is for a moment while another claims it.
    writeFileSync(path("both.json"), "2", { mode: 0o600 });
    linkSync(path("both.json"), path("both.processing"));
    const all = new Map((await backend.messages("jobs")).map(({ id, data }) => [id, data]));
    const seen = [...all].map(([id, data]) => [id, data && text(data)]).sort();
    assert.deepEqual(seen, [
      ["both", "2"],
      ["fifo", null],
      ["link", null],
      ["mine", "1"],
      ["pipe", null],
      ["second", null],
    ]);
    const peeked = await backend.peek("jobs");
    assert.equal(text(peeked?.data), "1");
    const letters = await backend.failed.list("jobs");
    assert.deepEqual(letters.map(({ failedId, data, raw }) => [failedId, data, raw]).sort(), [
      ["pipe", null, null],
      ["second", null, null],
    ]);
  });

  test("lists a message that waits behind an older one of its id, as other backends do", async () => {
    const root = tempDir();
    const seen: unknown[] = [];
    for (const url of [`v1:${root}/v1`, `sqlite:${root}/q.db`]) {
      const backend = await openBackend(url, { create: true });
      await backend.create("jobs");
      await backend.enqueue("jobs", [{ id: "a", data: bytes("old") }]);
      await backend.dequeue("jobs", take);
      await backend.enqueue("jobs", [{ id: "a", data: bytes("new") }]);
      await backend.enqueue("jobs", [{ id: "b", data: bytes("other") }]);
      const look = async () => {
        const all = await backend.messages("jobs");
        const counts = await backend.status("jobs");
        assert.equal(all.length, counts.pending + counts.processing, url);
        return all.map(({ id, state, data }) => `${id} ${state} ${text(data)}`);
      };
      const steps = [await look(), text((await backend.peek("jobs"))?.data)];
      await backend.ack("jobs", [{ id: "a", owner: take.owner }]);
      steps.push(await look(), text((await backend.peek("jobs"))?.data));
      seen.push(steps);
      await backend.close();
    }
    assert.deepEqual(seen[0], [
      ["a processing old", "a pending new", "b pending other"],
      "other",
      ["a pending new", "b pending other"],
      "new",
    ]);
    assert.deepEqual(seen[0], seen[1]);
  });

  test("shows nothing of the older message where the one behind it can't be read", async () => {
    const root = tempDir();
    const backend = await openBackend(`v1:${root}`, { create: true });
    await backend.create("jobs");
    await backend.enqueue("jobs", [{ id: "a", data: bytes("old") }]);
    await backend.dequeue("jobs", take);
    writeFileSync(join(root, "jobs", "a.json"), "{", { mode: 0o600 });
    const all = await backend.messages("jobs");
    assert.deepEqual(all.map(({ state, data }) => [state, data && text(data)]), [
      ["processing", "old"],
      ["pending", null],
    ]);
    // One file by both names, as it is in the midst of a claim, is one message.
    rmSync(join(root, "jobs", "a.json"));
    linkSync(join(root, "jobs", "a.processing"), join(root, "jobs", "a.json"));
    assert.deepEqual(await backend.status("jobs"), { pending: 0, processing: 1 });
    assert.equal((await backend.messages("jobs")).length, 1);
  });

  test("takes a directory that is a v1 queue itself as the queue of its own name alone", async () => {
    for (const [name, queue] of [["mail", "mail"], ["a mail", "queue"], [".mail", "queue"]]) {
      const root = join(tempDir(), name!);
      await (await openV1Queue(root)).enqueue("a", "x");
      const backend = await openBackend(`v1:${root}`);
      assert.deepEqual(await backend.list(), [queue]);
      assert.equal(await backend.create(queue!), false);
      for (const other of ["mial", "mail/mail", "failed/x"].filter((one) => one !== queue)) {
        const code = other.startsWith("failed") ? "queue-name-invalid" : "queue-not-found";
        await assert.rejects(backend.status(other), refused(code));
        await assert.rejects(backend.enqueue(other, [{ data: bytes("1") }]), refused(code));
        await assert.rejects(backend.dequeue(other, take), refused(code));
      }
      // A queue of another name, and one of the same name, are directories of their own.
      assert.equal(await backend.create("brandnew"), true);
      assert.deepEqual(await backend.status("brandnew"), { pending: 0, processing: 0 });
      assert.equal(text((await backend.dequeue(queue!, take))[0]!.data), "x");
      const states = (await backend.messages(queue!)).map(({ state }) => state);
      assert.deepEqual(states, ["processing"]);
      await openV1Queue(join(root, queue!));
      assert.deepEqual(await backend.status(queue!), { pending: 0, processing: 0 });
      assert.deepEqual(await backend.list(), ["brandnew", queue!].sort());
    }
  });

  test("makes no queue of a directory that was never one", async () => {
    const root = tempDir();
    mkdirSync(join(root, "src", "deep"), { recursive: true });
    writeFileSync(join(root, "src", "main.ts"), "");
    mkdirSync(join(root, "emptied", ".fs-safe-retirements"), { recursive: true });
    const backend = await openBackend(`v1:${root}`);
    for (const name of ["src", "nothing"]) {
      await assert.rejects(backend.status(name), refused("queue-not-found"));
    }
    assert.deepEqual(readdirSync(join(root, "src")).sort(), ["deep", "main.ts"]);
    assert.deepEqual(await backend.status("emptied"), { pending: 0, processing: 0 });
  });

  /** Names, modes and contents of all that is in a directory, and the directory's own mode. */
  function snapshot(root: string): string[] {
    return ["", ...readdirSync(root, { recursive: true, encoding: "utf8" }).sort()].map((name) => {
      const stat = lstatSync(join(root, name));
      const content = stat.isFile() ? readFileSync(join(root, name), "utf8") : "";
      return `${name} ${stat.mode.toString(8)} ${content}`;
    });
  }

  test("changes nothing by looking, whatever the queue's permissions are", async () => {
    const root = tempDir();
    const failedDirectory = join(tempDir(), "failed");
    const other = await openV1Queue(join(root, "jobs"), { failedDirectory });
    await other.enqueue("a", 1);
    await other.enqueue("b", 2);
    await other.claim();
    chmodSync(join(root, "jobs"), 0o755);
    const before = snapshot(root);
    const backend = await openBackend(`v1:${root}`);
    assert.deepEqual(await backend.list(), ["jobs"]);
    assert.equal((await backend.messages("jobs")).length, 2);
    assert.equal((await backend.peek("jobs"))?.id, "b");
    assert.deepEqual(await backend.status("jobs"), { pending: 1, processing: 1 });
    assert.equal((await backend.statuses()).size, 1);
    assert.equal(await backend.complete(["jobs"]), false);
    assert.deepEqual(await backend.failed.list("jobs"), []);
    await assert.rejects(backend.failed.show("jobs", "a"), refused("message-not-found"));
    assert.deepEqual(snapshot(root), before);
    // The first change makes what v1 needs.
    assert.equal((await backend.dequeue("jobs", take)).length, 1);
    assert.equal(lstatSync(join(root, "jobs")).mode & 0o777, 0o700);
    await backend.fail("jobs", [{ id: "b", owner: take.owner }], "no");
    assert.equal((await backend.failed.list("jobs")).length, 1);
  });

  test("takes nothing of what other programs keep for messages", async () => {
    const trees: Record<string, Record<string, number>> = {
      "a package": { "package.json": 0o644, "README.md": 0o644, "src/a.js": 0o644 },
      "a private package": { "package.json": 0o600, "data.json": 0o600 },
      "fixtures": { "a.json": 0o644, "b.json": 0o644 },
      "results": { "failed/a.json": 0o644, "all.html": 0o644 },
      "sketches": { "film.processing": 0o640, "notes": 0o600 },
    };
    for (const [what, files] of Object.entries(trees)) {
      const root = join(tempDir(), "place");
      for (const [path, mode] of Object.entries(files)) {
        mkdirSync(join(root, path, ".."), { recursive: true, mode: 0o755 });
        writeFileSync(join(root, path), '{"name":"x"}\n');
        chmodSync(join(root, path), mode);
      }
      if (existsSync(join(root, "failed"))) chmodSync(join(root, "failed"), 0o755);
      chmodSync(root, 0o755);
      const before = snapshot(root);
      for (const at of [root, join(root, "..")]) {
        const backend = await openBackend(`v1:${at}`);
        assert.deepEqual(await backend.list(), [], what);
        for (
          const call of [
            () => backend.messages("place"),
            () => backend.dequeue("place", take),
            () => backend.enqueue("place", [{ data: bytes("1") }]),
            () => backend.ack("place", [{ id: "film", owner: take.owner }]),
          ]
        ) {
          await assert.rejects(call(), { code: "queue-not-found", message: /place holds "/ }, what);
        }
      }
      const above = await openBackend(`v1:${join(root, "..")}`);
      await assert.rejects(above.create("place"), refused("identity-changed"));
      assert.deepEqual(snapshot(root), before);
    }
  });

  test("hands out only v1's own messages where other files lie beside them", async () => {
    const root = join(tempDir(), "place");
    await (await openV1Queue(root)).enqueue("mine", 1);
    writeFileSync(join(root, "package.json"), "{}");
    writeFileSync(join(root, "data.json"), "{}\n", { mode: 0o600 });
    writeFileSync(join(root, "README"), "");
    const backend = await openBackend(`v1:${root}`);
    assert.deepEqual((await backend.messages("place")).map(({ id }) => id), ["mine"]);
    const all = await backend.dequeue("place", { ...take, count: 9 });
    assert.deepEqual(all.map(({ id }) => id), ["mine"]);
    assert.deepEqual(await backend.ack("place", all), ["done"]);
    assert.deepEqual(await backend.status("place"), { pending: 0, processing: 0 });
    assert.ok(["package.json", "data.json"].every((name) => existsSync(join(root, name))));
  });

  test("is never opened in, on or above what a v2 store keeps to itself", async () => {
    const root = join(tempDir(), "store");
    const store = await openBackend(`store:${root}`, { create: true });
    await store.create("jobs");
    await store.enqueue("jobs", [{ id: "a", data: bytes("1") }]);
    const namespace = join(root, ".fs-safe-queue-v2");
    const object = join(namespace, "objects", readdirSync(join(namespace, "objects"))[0]!);
    const link = join(tempDir(), "link");
    symlinkSync(object, link);
    const before = readdirSync(root, { recursive: true }).sort();
    for (const place of [root, namespace, object, link, join(namespace, "new", "deep")]) {
      for (const create of [true, false]) {
        await assert.rejects(openBackend(`v1:${place}`, { create }), refused("v2-directory"));
      }
      await assert.rejects(openV1Queue(place), refused("v2-directory"));
      const failedDirectory = place;
      const queue = join(tempDir(), "queue");
      await assert.rejects(openV1Queue(queue, { failedDirectory }), refused("v2-directory"));
    }
    // Below a directory that is none, on the way to the queue.
    const above = await openBackend(`v1:${join(root, "..")}`);
    for (const name of [basename(root), `${basename(root)}/jobs`]) {
      await assert.rejects(above.create(name), refused("v2-directory"));
      await assert.rejects(above.dequeue(name, take), refused("v2-directory"));
    }
    assert.deepEqual((await above.list()).filter((name) => name.startsWith(basename(root))), []);
    assert.deepEqual(readdirSync(root, { recursive: true }).sort(), before);
    assert.deepEqual(await store.status("jobs"), { pending: 1, processing: 0 });
  });

  test("what a v2 store keeps to itself is answered with the store's name", async () => {
    const root = join(tempDir(), "store");
    await initStore(root);
    for (const place of [".fs-safe-queue-v2", ".fs-safe-queue-v2/objects"]) {
      for (const scheme of ["store", "v1"]) {
        for (const create of [true, false]) {
          await assert.rejects(openBackend(`${scheme}:${join(root, place)}`, { create }), {
            code: "v2-directory",
            hint: `The store is ${root}: use store:${root}, or another directory.`,
          });
        }
      }
    }
  });

  test("is told from a v2 store's directory by whatever its queues hold", async () => {
    const contents: Record<string, (backend: QueueBackend, name: string) => Promise<unknown>> = {
      nothing: async () => {},
      pending: (backend, name) => backend.enqueue(name, [{ id: "a", data: bytes("1") }]),
      claimed: async (backend, name) => {
        await backend.enqueue(name, [{ id: "a", data: bytes("1") }]);
        await backend.dequeue(name, take);
      },
      failed: async (backend, name) => {
        await backend.enqueue(name, [{ id: "a", data: bytes("1") }]);
        await backend.fail(name, await backend.dequeue(name, take), "no");
      },
    };
    for (const [what, fill] of Object.entries(contents)) {
      for (const name of ["jobs", "team/jobs", "a/b/c/d/e/f/g/h"]) {
        const root = tempDir();
        const backend = await openBackend(`v1:${root}`, { create: true });
        await backend.create(name);
        await fill(backend, name);
        const before = readdirSync(root, { recursive: true }).sort();
        for (const place of [root, join(root, name)]) {
          await assert.rejects(initStore(place), refused("v1-directory"), `${what} in ${name}`);
          await assert.rejects(openStore(place), refused("v1-directory"));
          await assert.rejects(unlockStore(place), refused("v1-directory"));
          const store = openBackend(`store:${place}`, { create: true });
          await assert.rejects(store, refused("v1-directory"));
        }
        assert.deepEqual(readdirSync(root, { recursive: true }).sort(), before);
      }
    }
  });

  test("leaves other directories to v2 stores", async () => {
    const trees: Record<string, string[]> = {
      "a project": ["src/package.json", "test-results/failed/report.html", "README"],
      "JSON of others": ["data/a.json", "data/more/b.json"],
      "another kind of failures": ["runs/failed/a.json", "runs/index.html"],
      "this program's own": ["queue-metrics/jobs/w1.json", "submissions/notes/1.json"],
      "something hidden": [".cache/a.processing", ".cache/failed/a.json"],
    };
    for (const [what, paths] of Object.entries(trees)) {
      const root = tempDir();
      for (const path of paths) {
        mkdirSync(join(root, path, ".."), { recursive: true, mode: 0o700 });
        writeFileSync(join(root, path), "{}", { mode: 0o600 });
      }
      await assert.rejects(openStore(root), refused("store-missing"), what);
      await initStore(root);
      await openStore(root);
    }
  });

  test("leaves projects to v2 stores, whatever their files are called", async () => {
    const trees: Record<string, string[]> = {
      "a new package": ["package.json"],
      "a package": ["package.json", "package-lock.json", "src/index.ts", "README.md"],
      "a package with nothing beside but directories": [
        "package.json",
        "data.json",
        "src/index.ts",
      ],
      "a clone": [".git/HEAD", "settings.json"],
      "sketches and films": ["notes", "film.processing", "draft.delivered"],
      "the same below": ["README.md", "films/a.processing", "failed/report.json"],
    };
    for (const [what, paths] of Object.entries(trees)) {
      // As they are made under the usual umask, and under a strict one.
      for (const mode of [0o644, 0o600]) {
        const root = tempDir();
        for (const path of paths) {
          mkdirSync(join(root, path, ".."), { recursive: true });
          writeFileSync(join(root, path), '{"name":"x"}\n', { mode });
        }
        await assert.rejects(openStore(root), refused("store-missing"), what);
        await initStore(root);
        await openStore(root);
      }
    }
  });

  test("is told from a v2 store's directory though other files lie in it", async () => {
    const steps: Record<string, (queue: V1Queue) => Promise<unknown>> = {
      pending: (queue) => queue.enqueue("package", { name: "x" }),
      claimed: async (queue) => {
        await queue.enqueue("a", "text");
        await queue.claim();
      },
      failed: async (queue) => {
        await queue.enqueue("a", 1);
        await queue.fail("a");
      },
    };
    for (const [what, step] of Object.entries(steps)) {
      const root = tempDir();
      // Dead letters of other programs' queues may lie elsewhere.
      const failedDirectory = join(tempDir(), "failed");
      await step(await openV1Queue(root, what === "failed" ? {} : { failedDirectory }));
      for (const name of ["README.md", "package.json"]) {
        writeFileSync(join(root, name), "{}\n", { flag: "wx" });
        await assert.rejects(initStore(root), refused("v1-directory"), `${what} beside ${name}`);
        if (what === "pending") break;
      }
    }
  });

  test("is reached through links above it, and follows none below", async () => {
    const place = tempDir();
    mkdirSync(join(place, "real"));
    symlinkSync("real", join(place, "link"));
    for (const root of [join(place, "link", "deep", "queues"), join(place, "link")]) {
      const backend = await openBackend(`v1:${root}`, { create: true });
      assert.equal(await backend.create("jobs"), true);
      await backend.enqueue("jobs", [{ id: "a", data: bytes("1") }]);
      assert.deepEqual(await backend.dequeue("jobs", take).then((all) => all.length), 1);
      await backend.fail("jobs", [{ id: "a", owner: take.owner }], "no");
      assert.equal((await backend.failed.list("jobs")).length, 1);
      assert.ok((await backend.list()).includes("jobs"));
      await (await openV1Queue(join(root, "direct"))).enqueue("b", 1);
      assert.deepEqual(await backend.status("direct"), { pending: 1, processing: 0 });
    }
    assert.deepEqual(readdirSync(join(place, "real")).sort(), ["deep", "direct", "jobs"]);
    const elsewhere = tempDir();
    symlinkSync(elsewhere, join(place, "real", "away"));
    const backend = await openBackend(`v1:${join(place, "real")}`);
    for (const name of ["away", "away/deep"]) {
      await assert.rejects(backend.create(name), refused("identity-changed"));
      await assert.rejects(backend.dequeue(name, take), refused("identity-changed"));
    }
    assert.deepEqual(readdirSync(elsewhere), []);
  });

  test("a path that can be no directory of queues is named for what it is", async () => {
    const place = tempDir();
    writeFileSync(join(place, "file"), "x");
    symlinkSync("nowhere", join(place, "link"));
    const open = (name: string, create: boolean) =>
      openBackend(`v1:${join(place, name)}`, { create });
    for (const create of [true, false]) {
      await assert.rejects(open("file", create), {
        code: "io-error",
        message: /is not a directory/,
      });
      await assert.rejects(open("file/sub", create), { code: "io-error", hint: /is a file/ });
    }
    for (const name of ["link", "link/sub"]) {
      await assert.rejects(open(name, true), { message: /link is a link to nowhere/ });
      await assert.rejects(open(name, false), { code: "backend-missing" });
    }
    assert.deepEqual(readdirSync(place).sort(), ["file", "link"]);
  });

  test("of those who create a queue at once, one is told that it did", async () => {
    const root = tempDir();
    for (const name of ["jobs", "team/jobs"]) {
      const created = await Promise.all(
        Array.from({ length: 16 }, async () => (await openBackend(`v1:${root}`)).create(name)),
      );
      assert.equal(created.filter((made) => made).length, 1, name);
    }
  });

  test("a queue is found whatever lies beside it, above it or is called like an operation", async () => {
    const root = tempDir();
    const backend = await openBackend(`v1:${root}`);
    for (const name of ["jobs", "jobs/ack/x"]) {
      await backend.create(name);
      await backend.enqueue(name, [{ id: "a", data: bytes(name) }]);
    }
    assert.deepEqual(await backend.list(), ["jobs", "jobs/ack/x"]);
    assert.deepEqual([...(await backend.statuses()).values()].map(({ pending }) => pending), [
      1,
      1,
    ]);
    // A file in the directory itself makes it a queue too; those below stay what they are.
    await (await openV1Queue(root)).enqueue("stray", "s");
    assert.equal((await backend.list()).length, 3);
    assert.equal(await backend.complete(["jobs"]), false);
    assert.equal(text((await backend.dequeue("jobs", take))[0]!.data), "jobs");
  });

  test("a step acks or fails, then takes; where it can't give back it does nothing", async () => {
    const backend = await openBackend(`v1:${tempDir()}`);
    await backend.create("jobs");
    await backend.enqueue("jobs", ["a", "b", "c"].map((id) => ({ id, data: bytes(`"${id}"`) })));
    const step = async (...endings: Ending[]) => {
      const { settlements, deliveries } = await backend.settleAndDequeue("jobs", endings, take);
      return [settlements, deliveries.map(({ id }) => id)];
    };
    const receipt = (id: string) => ({ id, owner: take.owner });
    assert.deepEqual(await step(), [[], ["a"]]);
    for (const how of ["requeue", "release"] as const) {
      const call = step({ how: "ack", receipt: receipt("a") }, { how, receipt: receipt("a") });
      await assert.rejects(call, refused("backend-unsupported"));
    }
    assert.deepEqual(await backend.status("jobs"), { pending: 2, processing: 1 });
    const ack: Ending = { how: "ack", receipt: receipt("a") };
    assert.deepEqual(await step(ack, ack), [["done", "stale"], ["b"]]);
    const fail: Ending = { how: "fail", receipt: receipt("b"), reason: "no" };
    assert.deepEqual(await step(fail), [["done"], ["c"]]);
    assert.deepEqual((await backend.failed.list("jobs")).map(({ failedId }) => failedId), ["b"]);
  });

  test("no queue is called like the directory of dead letters", async () => {
    const root = tempDir();
    const backend = await openBackend(`v1:${root}`);
    await backend.create("jobs");
    for (const name of ["failed", "jobs/failed", "failed/jobs"]) {
      for (
        const call of [backend.create(name), backend.dequeue(name, take), backend.status(name)]
      ) {
        await assert.rejects(
          call,
          (error) => error instanceof AgentqError && error.code === "queue-name-invalid",
        );
      }
    }
    assert.deepEqual(await backend.list(), ["jobs"]);
  });

  test("refuses what couldn't be read back, or would come back as another value", async () => {
    const backend = await openBackend(`v1:${tempDir()}`);
    await backend.create("jobs");
    const enqueue = (payload: string) =>
      backend.enqueue("jobs", [{ id: "a", data: bytes(payload) }]);
    for (
      const payload of [
        "1e400",
        "[12345678901234567890]",
        '{"a\\"1e400":0.12345678901234567891}',
        "-0",
        "[-0.00e5]",
        '{"a":1,"a":2}',
        '[{"b":{"\\u0061":1,"a":":"}}]',
      ]
    ) {
      await assert.rejects(enqueue(payload), refused("payload-invalid"));
    }
    await assert.rejects(enqueue("a".repeat(16 << 20)), refused("limit-exceeded"));
    // Short, but indented by v1 to more than it reads.
    const nested = "[".repeat(4000) + "]".repeat(4000);
    await assert.rejects(enqueue(nested), refused("limit-exceeded"));
    assert.deepEqual(await backend.status("jobs"), { pending: 0, processing: 0 });
    const kept = [
      "1.50",
      '{"":1,":":":","2":"\\"","1":{"2":0.0}}',
      "1E3",
      "1e21",
      "0.1",
      '{"1e400":"12345678901234567890\\""}',
      "1e400x",
    ];
    for (const payload of [...kept, "a".repeat((16 << 20) - 2)]) {
      await enqueue(payload);
      const [message] = await backend.dequeue("jobs", take);
      const value = (json: string) => {
        try {
          return JSON.parse(json);
        } catch {
          return json;
        }
      };
      assert.deepEqual(value(text(message!.data)), value(payload));
      await backend.ack("jobs", [message!]);
    }
  });

  test("says plainly what v1 can't do, and changes nothing", async () => {
    const backend = await openBackend(`v1:${join(tempDir(), "new")}`, { create: true });
    assert.equal(await backend.create("jobs"), true);
    assert.equal(await backend.create("jobs"), false);
    await backend.enqueue("jobs", [{ id: "a", data: bytes("1") }]);
    const [a] = await backend.dequeue("jobs", take);
    const calls = [
      () => backend.requeue("jobs", [a!]),
      () => backend.renew("jobs", [a!], 1),
      () => backend.recover("jobs"),
      () => backend.clear("jobs"),
      () => backend.remove("jobs"),
      () => backend.failed.retry("jobs", ["a"]),
      () => backend.failed.prune("jobs"),
    ];
    const refused = (code: string) => (error: unknown) =>
      error instanceof AgentqError && error.code === code;
    for (const call of calls) await assert.rejects(call, refused("backend-unsupported"));
    await assert.rejects(
      backend.enqueue("jobs", [{ data: Uint8Array.from([255]) }]),
      refused("payload-invalid"),
    );
    await assert.rejects(backend.status("nothing"), refused("queue-not-found"));
    assert.deepEqual(await backend.status("jobs"), { pending: 0, processing: 1 });
    await assert.rejects(openBackend(`v1:${join(tempDir(), "none")}`), refused("backend-missing"));
  });
});
