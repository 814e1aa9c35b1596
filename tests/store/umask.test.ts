/** A umask that withholds the owner's own rights: said before anything is made, and nothing is. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { lstatSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { v1Backend } from "../../src/queuefs/backends/v1.ts";
import { initStore, openStore } from "../../src/store/mod.ts";
import { tempDir } from "../helpers/git.ts";
import { runtimeArguments } from "./runtime.ts";

const WORKER = fileURLToPath(new URL("./umask-worker.ts", import.meta.url));

function under(umask: string, what: string, place: string): Record<string, string> {
  const args = [...runtimeArguments(), WORKER, umask, what, place];
  const run = spawnSync(process.execPath, args, { encoding: "utf8" });
  return JSON.parse(run.stdout || JSON.stringify({ code: run.stderr }));
}

/** Names, modes and contents of everything in a directory. */
function fingerprint(directory: string): string[] {
  return readdirSync(directory, { recursive: true, encoding: "utf8" }).sort().map((name) => {
    const path = join(directory, name);
    const { mode, nlink } = lstatSync(path);
    const content = lstatSync(path).isFile() ? readFileSync(path, "utf8") : "";
    return `${name} ${mode.toString(8)} ${nlink} ${content}`;
  });
}

function assertRefused(answer: Record<string, string>, umask: string, what: string): void {
  assert.equal(answer.code, "mode-unsupported", `${what}: ${answer.message}`);
  assert.match(answer.message!, new RegExp(`the umask ${umask} `));
  assert.match(answer.hint!, /umask 077/);
}

describe("under a umask that withholds the owner's rights", () => {
  test("nothing is created", () => {
    for (const what of ["init", "sqlite create", "v1 open"]) {
      const place = tempDir();
      assertRefused(under("0777", what, join(place, "deep", "new")), "0777", what);
      assert.deepEqual(readdirSync(place), [], what);
    }
  });

  test("a worker's counters are no reason to fail, nor to make a directory", () => {
    const place = tempDir();
    assert.equal(under("0777", "metrics", join(place, "state", "queue-metrics")).code, "none");
    assert.deepEqual(readdirSync(place), []);
    assert.equal(under("0077", "metrics", join(place, "state", "queue-metrics")).code, "none");
    assert.deepEqual(readdirSync(join(place, "state", "queue-metrics")), ["worker.json"]);
  });

  test("a store is left as it was, and can be looked at", async () => {
    const root = join(tempDir(), "store");
    await initStore(root);
    await (await openStore(root)).enqueue("jobs", "a", 1);
    const before = fingerprint(root);
    for (const umask of ["0777", "0100", "0200"]) {
      for (const what of ["enqueue", "claim"]) {
        assertRefused(under(umask, what, root), umask, what);
        assert.deepEqual(fingerprint(root), before);
      }
    }
    assert.equal(under("0777", "snapshot", root).code, "none");
    assert.equal(under("0077", "enqueue", root).code, "none");
  });

  test("a v1 queue is left as it was, and can be looked at", async () => {
    const root = tempDir();
    const backend = v1Backend(root);
    await backend.create("jobs");
    for (const id of ["t", "p"]) {
      await backend.enqueue("jobs", [{ id, data: new TextEncoder().encode(id) }]);
      if (id === "t") await backend.dequeue("jobs", { owner: "cli", leaseMs: 1000 });
    }
    const before = fingerprint(root);
    for (const what of ["create", "enqueue", "dequeue", "fail", "ack"]) {
      assertRefused(under("0777", `v1 ${what}`, root), "0777", what);
      assert.deepEqual(fingerprint(root), before, what);
    }
    assert.equal(under("0777", "v1 status", root).code, "none");
    assert.equal(under("0077", "v1 ack", root).code, "none");
  });
});
