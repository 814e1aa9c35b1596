import { describe, test } from "node:test";
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { isAgentqError } from "../../src/errors.ts";
import { lockIndex, readSparseIndex } from "../../src/git/index-file.ts";
import { type IndexEntry, parseIndex } from "../../src/git/index-format.ts";
import { serializeIndex } from "../../src/git/index-write.ts";
import { UNKNOWN_STAT } from "../../src/git/file-stat.ts";
import { commit, git, makeRepo, tempDir, tryGit, write } from "../helpers/git.ts";

/** Entries in the words of `git ls-files --stage -v`. */
function describeEntries(entries: readonly IndexEntry[]): string {
  return entries.map((entry) => {
    const tag = entry.stage > 0 ? "M" : entry.skipWorktree ? "S" : "H";
    return `${entry.assumeValid ? tag.toLowerCase() : tag} ${
      entry.mode.toString(8)
    } ${entry.oid} ${entry.stage}\t${entry.path}`;
  }).join("\n");
}

function repoWithEverything(): string {
  const repo = makeRepo();
  commit(repo, "base", {
    "a.txt": "a\n",
    "dir/b.txt": "b\n",
    "dir/deep/er/c.txt": "c\n",
    "dir/deep/d.txt": "d\n",
    "skip.txt": "s\n",
    "valid.txt": "v\n",
    [`long/${"n".repeat(200)}/${"m".repeat(250)}`]: "x",
    "ünïcode": "u\n",
  });
  write(repo, "later.txt", "later\n");
  git(repo, "add", "-N", "later.txt");
  git(repo, "update-index", "--skip-worktree", "skip.txt");
  git(repo, "update-index", "--assume-unchanged", "valid.txt");
  return repo;
}

describe("readSparseIndex()", () => {
  test("reads versions 2, 3 and 4 as git ls-files does", () => {
    for (const version of ["2", "3", "4"]) {
      const repo = repoWithEverything();
      git(repo, "update-index", "--index-version", version);
      const index = readSparseIndex(join(repo, ".git/index"));
      assert.equal(
        describeEntries(index.entries),
        Buffer.from(git(repo, "-c", "core.quotePath=false", "ls-files", "--stage", "-v")).toString(
          "latin1",
        ),
      );
      assert.deepEqual(
        index.entries.filter((entry) => entry.intentToAdd).map((entry) => entry.path),
        ["later.txt"],
      );
    }
  });

  test("reads the stat data that git wrote", () => {
    const repo = makeRepo();
    commit(repo, "one", { "f": "content\n" });
    const { stat } = readSparseIndex(join(repo, ".git/index")).entries[0]!;
    const real = statSync(join(repo, "f"), { bigint: true });
    assert.equal(stat.size, 8);
    assert.equal(stat.mtimeSec, Number(real.mtimeNs / 1_000_000_000n));
    assert.equal(BigInt(stat.ino), real.ino & 0xffffffffn);
    assert.equal(stat.uid, Number(real.uid));
    const debug = git(repo, "ls-files", "--debug");
    assert.match(debug, new RegExp(`mtime: ${stat.mtimeSec}:${stat.mtimeNsec}\\b`));
    assert.match(debug, new RegExp(`ctime: ${stat.ctimeSec}:${stat.ctimeNsec}\\b`));
  });

  test("reads conflict stages", () => {
    const repo = makeRepo();
    commit(repo, "base", { f: "1\n", gone: "1\n" });
    git(repo, "checkout", "-qb", "other");
    commit(repo, "theirs", { f: "2\n", gone: "2\n" });
    git(repo, "checkout", "-q", "main");
    git(repo, "rm", "-q", "gone");
    commit(repo, "ours", { f: "3\n" });
    assert.equal(tryGit(repo, ["merge", "other"]).status, 1);
    const index = readSparseIndex(join(repo, ".git/index"));
    assert.equal(
      index.entries.map((e) => `${e.path}:${e.stage}`).join(" "),
      "f:1 f:2 f:3 gone:1 gone:3",
    );
  });

  test("passes over extensions that only make git faster", () => {
    const repo = repoWithEverything();
    git(repo, "config", "core.untrackedCache", "true");
    git(repo, "config", "index.threads", "4");
    git(repo, "update-index", "--untracked-cache", "--force-write-index");
    git(repo, "status");
    assert.match(readFileSync(join(repo, ".git/index"), "latin1"), /UNTR/);
    assert.equal(readSparseIndex(join(repo, ".git/index")).entries.length, 9);
  });

  test("knows the trees that the TREE extension tells", () => {
    const repo = makeRepo();
    commit(repo, "one", { "a/b/c": "1", "a/d": "2", "e": "3" });
    const { cacheTree } = readSparseIndex(join(repo, ".git/index"));
    assert.equal(cacheTree?.oid, git(repo, "rev-parse", "HEAD^{tree}"));
    assert.equal(cacheTree?.entryCount, 3);
    assert.equal(cacheTree?.children[0]?.children[0]?.oid, git(repo, "rev-parse", "HEAD:a/b"));
  });

  test("is empty where there is no index", () => {
    assert.deepEqual(readSparseIndex(join(tempDir(), "index")).entries, []);
  });

  test("refuses a changed byte anywhere, and accepts an index without checksum", () => {
    const repo = makeRepo();
    commit(repo, "one", { a: "1", b: "2" });
    const good = readFileSync(join(repo, ".git/index"));
    for (let at = 0; at < good.length; at++) {
      const bad = Buffer.from(good);
      bad[at]! ^= 0x41;
      assert.throws(
        () => parseIndex(bad, "index"),
        (error) => isAgentqError(error, "index-corrupt", "index-unsupported"),
      );
    }
    const unsigned = Buffer.from(good);
    unsigned.fill(0, good.length - 20);
    assert.equal(parseIndex(unsigned, "index").entries.length, 2);
  });

  test("never hangs or crashes on bytes with a valid checksum", () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ minLength: 20, maxLength: 400 }),
        fc.integer({ min: 2, max: 4 }),
        (tail, version) => {
          const head = Buffer.from([
            0x44,
            0x49,
            0x52,
            0x43,
            0,
            0,
            0,
            version,
            0,
            0,
            0,
            tail[0]! % 5,
          ]);
          const body = Buffer.concat([head, tail]);
          const data = Buffer.concat([body, createHash("sha1").update(body).digest()]);
          try {
            parseIndex(data, "index");
          } catch (error) {
            if (!isAgentqError(error, "index-corrupt", "index-unsupported")) throw error;
          }
        },
      ),
    );
  });
});

describe("lockIndex()", () => {
  test("writes what git reads back as the same, with its trees", () => {
    const repo = repoWithEverything();
    const before = git(repo, "ls-files", "--stage", "-v", "--debug");
    const index = readSparseIndex(join(repo, ".git/index"));
    const lock = lockIndex(join(repo, ".git/index"));
    lock.commit(index);
    assert.equal(git(repo, "ls-files", "--stage", "-v", "--debug"), before);
    assert.deepEqual(readSparseIndex(join(repo, ".git/index")).cacheTree, index.cacheTree);
    git(repo, "fsck", "--strict");
  });

  test("writes version 2, byte for byte what git wrote", () => {
    const repo = makeRepo();
    commit(repo, "one", { "a/b/c": "1", "a/d": "2", "e": "3", "dir/x": "y", "z/long/path/x": "" });
    const good = readFileSync(join(repo, ".git/index"));
    assert.deepEqual(serializeIndex(parseIndex(good, "index")), good);
  });

  test("round-trips any entries through git", () => {
    const entry = fc.record({
      path: fc.array(fc.stringMatching(/^[a-z]{1,6}$/), { minLength: 1, maxLength: 4 }).map((
        names,
      ) => names.join("/")),
      skipWorktree: fc.boolean(),
      assumeValid: fc.boolean(),
    });
    fc.assert(
      fc.property(
        fc.uniqueArray(entry, { selector: ({ path }) => path.split("/")[0], maxLength: 30 }),
        (drafts) => {
          const repo = makeRepo();
          const oid = git(repo, "hash-object", "-w", "-t", "blob", "/dev/null");
          const entries: IndexEntry[] = drafts.map((draft) => ({
            ...draft,
            stage: 0,
            mode: 0o100644,
            oid,
            stat: UNKNOWN_STAT,
            intentToAdd: false,
          }));
          lockIndex(join(repo, ".git/index")).commit({ entries, cacheTree: null });
          const read = readSparseIndex(join(repo, ".git/index"));
          assert.equal(describeEntries(read.entries), git(repo, "ls-files", "--stage", "-v"));
          assert.equal(read.entries.length, drafts.length);
        },
      ),
      { numRuns: 15 },
    );
  });

  test("excludes git and is excluded by git", () => {
    const repo = makeRepo();
    commit(repo, "one", { f: "1" });
    write(repo, "g", "2");
    const lock = lockIndex(join(repo, ".git/index"));
    assert.notEqual(tryGit(repo, ["add", "g"]).status, 0);
    assert.throws(
      () => lockIndex(join(repo, ".git/index")),
      (error: Error) =>
        isAgentqError(error, "index-locked") && error.retryable &&
        error.message.includes("index.lock"),
    );
    lock.release();
    lock.release();
    assert.equal(existsSync(join(repo, ".git/index.lock")), false);
    git(repo, "add", "g");
  });

  test("leaves the old index and no lock when writing fails", () => {
    const dir = tempDir();
    writeFileSync(join(dir, "index"), "");
    const lock = lockIndex(join(dir, "index"));
    const bad = {
      path: "x",
      stage: 0,
      mode: 0o100644,
      oid: "0".repeat(40),
      stat: { ...UNKNOWN_STAT, size: 2 ** 40 },
      assumeValid: false,
      skipWorktree: false,
      intentToAdd: false,
    } as const;
    assert.throws(
      () => lock.commit({ entries: [bad], cacheTree: null }),
      (error) => isAgentqError(error),
    );
    assert.equal(readFileSync(join(dir, "index"), "utf8"), "");
    assert.equal(existsSync(join(dir, "index.lock")), false);
  });
});
