import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import {
  errnoOf,
  replaceFileDurable,
  syncDirectory,
  writeFileDurable,
} from "../../src/platform/durable.ts";
import { nodeFiles } from "../../src/platform/files.ts";
import { tempDir } from "../helpers/git.ts";
import { errno, seededRandom, simulatedFiles } from "../crash/simulated-files.ts";

const PATH = "/data/file";

/** A simulated disk with `/data`, and in it `file` with "old" unless it must be new. */
function disk(existing: boolean) {
  const made = simulatedFiles();
  made.files.mkdir("", "/data", 0o700);
  made.files.syncDirectory("", "/");
  if (existing) writeFileDurable(PATH, "old", { files: made.files });
  return made.afterCut("kept");
}

describe("replaceFileDurable()", () => {
  test("replaces a file whole, with the mode asked for, and leaves no other file", () => {
    const path = join(tempDir(), "file");
    replaceFileDurable(path, "one");
    replaceFileDurable(path, new TextEncoder().encode("two"), { mode: 0o640 });
    assert.equal(readFileSync(path, "utf8"), "two");
    assert.equal(statSync(path).mode & 0o777, 0o640);
    assert.deepEqual(readdirSync(join(path, "..")), ["file"]);
  });

  for (const existing of [true, false]) {
    const old = existing ? "old" : null;
    test(`is old or new after a cut anywhere, and new once it has returned (${old})`, () => {
      const whole = disk(existing);
      replaceFileDurable(PATH, "new", { files: whole.files });
      for (let index = 0; index <= whole.steps.length; index++) {
        for (let seed = 0; seed < 30; seed++) {
          const cut = disk(existing);
          cut.crashBefore(index);
          let returned = false;
          try {
            replaceFileDurable(PATH, "new", { files: cut.files });
            returned = true;
          } catch {
            assert.ok(cut.crashed);
          }
          const mode = seed === 0 ? "kept" : seed === 1 ? "dropped" : "torn";
          const found = cut.afterCut(mode, seededRandom(seed)).readText(PATH);
          assert.ok(found === "new" || (found === old && !returned), `${index}: ${found}`);
        }
      }
    });
  }

  test("leaves the old file and no rest when the disk is full", () => {
    for (const index of [0, 1, 2, 3]) {
      const full = disk(true);
      full.failAt(index, "ENOSPC");
      assert.throws(() => replaceFileDurable(PATH, "new", { files: full.files }), (error) => {
        const { code, details } = error as { code: string; details: { errno: string } };
        assert.deepEqual([code, details.errno], ["io-error", "ENOSPC"]);
        return true;
      });
      assert.deepEqual(full.tree(), ["/data", PATH]);
      assert.equal(full.readText(PATH), "old");
    }
  });
});

describe("writeFileDurable()", () => {
  test("creates only, and an unfinished file isn't left to be taken for a finished one", () => {
    const path = join(tempDir(), "file");
    writeFileDurable(path, "one");
    assert.throws(() => writeFileDurable(path, "two"), /EEXIST/);
    assert.equal(readFileSync(path, "utf8"), "one");
    const full = disk(false);
    full.failAt(1, "ENOSPC");
    assert.throws(() => writeFileDurable(PATH, "new", { files: full.files }));
    assert.deepEqual(full.tree(), ["/data"]);
  });
});

describe("syncDirectory()", () => {
  test("says that a directory can't be made to last", () => {
    syncDirectory(tempDir());
    for (const code of ["EINVAL", "ENOTSUP", "EOPNOTSUPP"]) {
      const files = {
        ...nodeFiles,
        syncDirectory: () => {
          throw errno(code, "fsync", "/x");
        },
      };
      assert.throws(() => syncDirectory("/x", files), { code: "durability-unavailable" });
    }
    const gone = join(tempDir(), "gone");
    assert.equal(existsSync(gone), false);
    assert.throws(() => syncDirectory(gone), { code: "io-error" });
  });
});

describe("nodeFiles", () => {
  test("reads at most the limit and one byte, and follows no link", () => {
    const path = join(tempDir(), "file");
    writeFileDurable(path, "x".repeat(1000));
    const fd = nodeFiles.openRead(path);
    assert.equal(nodeFiles.readAll(fd, 1000, 10).length, 11);
    // It has grown since it was looked at.
    assert.equal(nodeFiles.readAll(fd, 3, 5000).length, 1000);
    nodeFiles.close(fd);
    assert.equal(nodeFiles.lstat(`${path}.none`), null);
    assert.equal(errnoOf({ code: "ENOENT" }), "ENOENT");
    assert.equal(errnoOf({ code: "store-locked" }), null);
  });
});
