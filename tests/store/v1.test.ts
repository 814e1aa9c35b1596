import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { describe, test } from "node:test";
import * as fsSafe from "@openclaw/fs-safe/store";
import { initStore, openStore } from "../../src/store/mod.ts";
import { openV1Queue } from "../../src/store/v1.ts";
import { requireV1Place } from "../../src/store/v1-probe.ts";
import { nodeFiles } from "../../src/platform/files.ts";
import { tempDir } from "../helpers/git.ts";
import { runtimeArguments } from "./runtime.ts";

const WORKER = new URL("./v1-worker.ts", import.meta.url).pathname;

async function fsSafeEnqueue(queueDir: string, id: string, entry: unknown): Promise<void> {
  const { jsonPath } = fsSafe.resolveJsonDurableQueueEntryPaths(queueDir, id);
  await fsSafe.writeJsonDurableQueueEntry({ filePath: jsonPath, entry, tempPrefix: "other" });
}

describe("a v1 directory", () => {
  test("filled by fs-safe is claimed, acknowledged and failed here", async () => {
    const directory = join(tempDir(), "q");
    await fsSafe.ensureJsonDurableQueueDirs({
      queueDir: directory,
      failedDir: join(directory, "failed"),
    });
    for (const id of ["one", "Two", "three"]) await fsSafeEnqueue(directory, id, { id });

    const queue = await openV1Queue(directory);
    assert.deepEqual(queue.counts(), { pending: 3, processing: 0 });
    const claims = await queue.claim({ count: 10 });
    assert.deepEqual(claims.map(({ id }) => id), ["one", "Two", "three"], "oldest first");
    assert.deepEqual(claims[1]!.payload, { id: "Two" });
    assert.ok(readdirSync(directory).includes("Two.processing"));
    await queue.ack("one");
    await queue.fail("Two");
    assert.deepEqual(queue.failed(), ["Two"]);
    assert.deepEqual(queue.counts(), { pending: 0, processing: 1 });
    assert.deepEqual(queue.processing(), ["three"]);
    // At least once: what is claimed and not acknowledged comes again when asked for.
    assert.deepEqual((await queue.claim({ id: "three" }))[0]!.payload, { id: "three" });
    await assert.rejects(queue.ack("one"), { code: "stale-generation" });
    await assert.rejects(queue.fail("nothing"), { code: "not-found" });
  });

  test("filled here is drained by fs-safe", async () => {
    const directory = join(tempDir(), "q");
    const queue = await openV1Queue(directory);
    await queue.enqueue("a", { from: "here" });
    await queue.enqueue("b", null);
    const entries = await fsSafe.loadPendingJsonDurableQueueEntries({
      queueDir: directory,
      tempPrefix: "other",
    });
    assert.deepEqual(
      new Set(entries.map((entry) => JSON.stringify(entry))),
      new Set(['{"from":"here"}', "null"]),
    );
    await fsSafe.ackJsonDurableQueueEntry(fsSafe.resolveJsonDurableQueueEntryPaths(directory, "a"));
    assert.deepEqual(await queue.claim({ id: "b" }), [{
      id: "b",
      payload: null,
      unreadable: null,
    }]);
    assert.deepEqual(queue.counts(), { pending: 0, processing: 1 });
  });

  test("keeps a newer enqueue when the older claim is acknowledged", async () => {
    const queue = await openV1Queue(join(tempDir(), "q"));
    await queue.enqueue("a", 1);
    await queue.claim();
    await queue.enqueue("a", 2);
    await queue.ack("a");
    assert.deepEqual((await queue.claim()).map(({ payload }) => payload), [2]);
  });

  test("quarantines create-only: a dead letter of the same name is never replaced", async () => {
    const directory = join(tempDir(), "q");
    const queue = await openV1Queue(directory);
    await queue.enqueue("a", 1);
    await queue.fail("a");
    await queue.enqueue("a", 2);
    await assert.rejects(queue.fail("a"), { code: "already-exists" });
    assert.equal(JSON.parse(readFileSync(join(directory, "failed", "a.json"), "utf8")), 1);
  });

  test("says which payload can't be read, and keeps it claimed", async () => {
    const directory = join(tempDir(), "q");
    const queue = await openV1Queue(directory);
    writeFileSync(join(directory, "bad.json"), "{", { mode: 0o600 });
    const [claim] = await queue.claim();
    assert.equal(claim!.unreadable?.code, "payload-unreadable");
    await queue.fail("bad");
    assert.equal(readFileSync(join(directory, "failed", "bad.json"), "utf8"), "{");
  });

  test("is never opened as v2, nor v2 as v1", async () => {
    const v1 = join(tempDir(), "q");
    await (await openV1Queue(v1)).enqueue("a", 1);
    const before = readdirSync(v1);
    await assert.rejects(openStore(v1), { code: "v1-directory" });
    await assert.rejects(initStore(v1), { code: "v1-directory" });
    assert.deepEqual(readdirSync(v1), before);

    const v2 = tempDir();
    await initStore(v2);
    await assert.rejects(openV1Queue(v2), { code: "v2-directory" });
    assert.deepEqual(readdirSync(v2), [".fs-safe-queue-v2"]);
  });

  test("isn't made where permissions aren't kept", () => {
    const root = tempDir();
    const open = {
      ...nodeFiles,
      lstat: (path: string) => ({ ...nodeFiles.lstat(path)!, mode: 0o777 }),
    };
    const directory = join(root, "q");
    assert.throws(() => requireV1Place(directory, open), { code: "mode-unsupported" });
    requireV1Place(directory, { ...open, hasModes: false });
    requireV1Place(directory);
    assert.deepEqual(readdirSync(root), []);
  });

  test("refuses IDs that would leave it", async () => {
    const directory = join(tempDir(), "q");
    const queue = await openV1Queue(directory);
    for (const id of ["../x", "a/b", "", ".."]) {
      await assert.rejects(queue.enqueue(id, 1), { code: "name-invalid" });
    }
    mkdirSync(join(directory, "sub"));
    assert.deepEqual(queue.pending(), []);
  });

  test("serves this adapter and fs-safe in another process at once, nothing lost or doubled", async () => {
    const directory = join(tempDir(), "q");
    const queue = await openV1Queue(directory);
    const total = 40;
    const other = spawn(
      process.execPath,
      [...runtimeArguments(), WORKER, directory, String(total)],
      {
        stdio: ["ignore", "pipe", "inherit"],
      },
    );
    let output = "";
    other.stdout.on("data", (chunk) => output += chunk);
    const done = once(other, "close");
    for (let i = 0; i < total; i++) await queue.enqueue(`ours-${i}`, { from: "ours", i });
    const mine: string[] = [];
    let ended = false;
    void done.then(() => ended = true);
    while (!ended || queue.counts().pending > 0) {
      for (const claim of await queue.claim({ count: 3 })) {
        // A claim that fs-safe took in between is the same claim: only one acknowledgement counts.
        await queue.ack(claim.id).then(() => mine.push(claim.id), (error) => {
          assert.equal(error.code, "stale-generation");
        });
      }
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    await done;
    assert.equal(other.exitCode, 0);
    const theirs = output.trim().split("\n").filter((line) => line !== "");
    const all = new Set([...mine, ...theirs]);
    assert.equal(all.size, 2 * total);
    assert.deepEqual(queue.counts(), { pending: 0, processing: 0 });
  });
});
