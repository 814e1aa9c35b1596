/** Small files of our own, where something else has taken their place: nobody waits and nothing is followed. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { openEntryCache } from "../../src/landing/entry-cache.ts";
import { ticketNotes } from "../../src/landing/ticket-notes.ts";
import { nodeFiles } from "../../src/platform/files.ts";
import { readInputs } from "../../src/platform/inputs.ts";
import { readPlainFile } from "../../src/platform/plain-file.ts";
import { emptyMetrics } from "../../src/queuefs/metrics.ts";
import { openMetricsFile, readAllMetrics } from "../../src/queuefs/metrics-files.ts";
import { workerOwner } from "../../src/queuefs/owner.ts";
import { tempDir } from "../helpers/git.ts";

function fifo(path: string): string {
  assert.equal(spawnSync("mkfifo", ["-m", "600", path]).status, 0);
  return path;
}

describe("a plain file", () => {
  test("is read whole; anything else in its place is none", () => {
    const directory = tempDir();
    const at = (name: string) => join(directory, name);
    const limit = 4;
    writeFileSync(at("file"), "four");
    assert.equal(new TextDecoder().decode(readPlainFile(at("file"), { limit })!), "four");
    writeFileSync(at("long"), "five!");
    mkdirSync(at("directory"));
    symlinkSync("file", at("link"));
    symlinkSync("nothing", at("dangling"));
    for (const name of ["long", "directory", "link", "dangling", "missing", "file/below"]) {
      assert.equal(readPlainFile(at(name), { limit }), null, name);
    }
    assert.equal(readPlainFile(fifo(at("fifo")), { limit }), null);
    linkSync(at("file"), at("second"));
    assert.equal(readPlainFile(at("file"), { limit }), null);
    assert.equal(readPlainFile(at("file"), { limit, alias: at("long") }), null);
    assert.ok(readPlainFile(at("file"), { limit, alias: at("second") }));
    linkSync(at("file"), at("third"));
    assert.equal(readPlainFile(at("file"), { limit, alias: at("second") }), null);
  });

  test("that can't be read now is an error, not none", () => {
    const path = join(tempDir(), "file");
    writeFileSync(path, "x");
    chmodSync(path, 0);
    const reads = () => readPlainFile(path, { limit: 1 });
    if (process.geteuid!() === 0) assert.ok(reads());
    else assert.throws(reads, { code: "io-error" });
  });
});

describe("a FIFO is waited for by none of", () => {
  test("the store's files", () => {
    const fd = nodeFiles.openRead(fifo(join(tempDir(), "fifo")));
    assert.equal(nodeFiles.fstat(fd).kind, "other");
    nodeFiles.close(fd);
  });

  test("workers' counters, which are written through no link either", () => {
    const directory = tempDir();
    const counted = { ...emptyMetrics(), processed: 3 };
    const owner = workerOwner();
    const elsewhere = join(directory, "elsewhere");
    writeFileSync(elsewhere, "mine");
    const file = openMetricsFile(directory, owner);
    for (const put of [fifo, (path: string) => symlinkSync(elsewhere, path)]) {
      put(join(directory, `${owner}.json.tmp`));
      file.save(counted);
      assert.equal(readAllMetrics(directory).processed, 3);
    }
    assert.equal(readFileSync(elsewhere, "utf8"), "mine");
    fifo(join(directory, `${workerOwner()}.json`));
    assert.equal(readAllMetrics(directory).processed, 3);
  });

  test("notes of tickets and entries that are kept", () => {
    const state = tempDir();
    const notes = ticketNotes(state);
    notes.write("a", 1);
    const [name] = readdirSync(join(state, "tickets"));
    rmSync(join(state, "tickets", name!));
    fifo(join(state, "tickets", name!));
    assert.throws(() => notes.write("a", 1), { code: "io-error" });
    assert.equal(openEntryCache(fifo(join(state, "entries"))).get("0".repeat(40)), undefined);
  });

  test("what an answer is made from", () => {
    const [value] = readInputs([["text", fifo(join(tempDir(), "fifo"))]]);
    assert.match(value!, /^=$|^!EAGAIN$/);
  });
});
