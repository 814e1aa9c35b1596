/** Indexes that git keeps in two files, or with whole directories as entries: read as git reads them. */
import { describe, test } from "node:test";
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import process from "node:process";
import fc from "fast-check";
import { AgentqError, isAgentqError } from "../../src/errors.ts";
import { serializeCacheTree } from "../../src/git/cache-tree.ts";
import { readIndex, readSparseIndex } from "../../src/git/index-file.ts";
import { parseIndex } from "../../src/git/index-format.ts";
import type { IndexContent, IndexEntry } from "../../src/git/index-format.ts";
import { serializeIndex } from "../../src/git/index-write.ts";
import { openRepository } from "../../src/git/repository.ts";
import { expandIndex, isDirectoryEntry } from "../../src/git/sparse-index.ts";
import { readBitmap } from "../../src/git/split-index.ts";
import { uncommittedChanges } from "../../src/git/status.ts";
import { expandTree } from "../../src/git/tree-leaves.ts";
import { commit, git, makeRepo, tempDir, tryGit, write } from "../helpers/git.ts";

/** Entries in the words of `git ls-files --stage -v`. */
function describeEntries(entries: readonly IndexEntry[]): string {
  return entries.map((entry) => {
    const tag = entry.stage > 0 ? "M" : entry.skipWorktree ? "S" : "H";
    return `${entry.assumeValid ? tag.toLowerCase() : tag} ${
      entry.mode.toString(8).padStart(6, "0")
    } ${entry.oid} ${entry.stage}\t${entry.path}`;
  }).join("\n");
}

/** Git's listing, without git writing to the index. */
function listed(repo: string, ...flags: string[]): string {
  return tryGit(repo, ["--no-optional-locks", "ls-files", "--stage", "-v", ...flags]).stdout
    .trimEnd();
}

function using<T>(repo: string, work: (repository: ReturnType<typeof openRepository>) => T): T {
  const repository = openRepository(repo);
  try {
    return work(repository);
  } finally {
    repository.close();
  }
}

const indexOf = (repo: string) => join(repo, ".git/index");
const readWhole = (repo: string) => using(repo, ({ objects }) => readIndex(indexOf(repo), objects));
const changed = (repo: string) =>
  using(
    repo,
    (repository) => [...new Set(uncommittedChanges(repository).map(({ path }) => path))].sort(),
  );

function gitsChanged(repo: string): string[] {
  return tryGit(repo, [
    "--no-optional-locks",
    "status",
    "--porcelain",
    "-z",
    "-uno",
    "--no-renames",
  ]).stdout.split("\0").filter(Boolean).map((line) => line.slice(3)).sort();
}

const FILES = {
  "in/f": "f\n",
  "in/deep/g": "g\n",
  "out/a/x": "x\n",
  "out/a/y": "y\n",
  "out/b": "b\n",
  "out-side/c": "c\n",
  "other/d": "d\n",
  "root": "r\n",
};

function sparse(files: Record<string, string> = FILES): string {
  const repo = makeRepo();
  commit(repo, "base", files);
  git(repo, "sparse-checkout", "set", "--cone", "--sparse-index", "in");
  assert.match(listed(repo, "--sparse"), /\tout\/$/m);
  return repo;
}

/** Takes a directory's tree out of the object store, as a partial clone may lack it. */
function loseTree(repo: string, revision: string): string {
  const oid = git(repo, "rev-parse", revision);
  rmSync(join(repo, ".git/objects", oid.slice(0, 2), oid.slice(2)));
  return oid;
}

describe("a sparse index", () => {
  test("is read as it stands, and expanded as git expands it", () => {
    const repo = sparse();
    assert.equal(describeEntries(readSparseIndex(indexOf(repo)).entries), listed(repo, "--sparse"));
    const { entries, cacheTree, sparse: left } = readWhole(repo);
    assert.equal(describeEntries(entries), listed(repo));
    assert.equal(left, false);
    const tree = git(repo, "rev-parse", "HEAD^{tree}");
    // Written, both have the order that git has.
    const expected = using(repo, ({ objects }) => expandTree(objects, tree).cacheTree);
    assert.deepEqual(serializeCacheTree(cacheTree!), serializeCacheTree(expected));
  });

  test("expanded in part has entries and trees that fit together", () => {
    const repo = sparse();
    using(repo, ({ objects }) => {
      const whole = readSparseIndex(indexOf(repo));
      const part = expandIndex(objects, whole, ({ path }) => path === "out/");
      assert.equal(part.sparse, true);
      assert.deepEqual(part.entries.filter(({ mode }) => mode === 0o40000).map((e) => e.path), [
        "other/",
        "out-side/",
      ]);
      assert.equal(part.cacheTree?.entryCount, part.entries.length);
      assert.deepEqual(expandIndex(objects, part), readIndex(indexOf(repo), objects));
    });
  });

  test("can't be written before it is expanded; what is written is the same to git", () => {
    const repo = sparse();
    assert.throws(
      () => serializeIndex(readSparseIndex(indexOf(repo))),
      (error) => isAgentqError(error, "internal"),
    );
    const before = listed(repo);
    writeFileSync(indexOf(repo), serializeIndex(readWhole(repo)));
    assert.doesNotMatch(readFileSync(indexOf(repo), "latin1"), /sdir/);
    assert.equal(listed(repo), before);
    assert.equal(git(repo, "status", "--porcelain"), "");
    git(repo, "fsck");
    git(repo, "sparse-checkout", "reapply");
    assert.ok(readSparseIndex(indexOf(repo)).entries.some(({ path }) => path === "out/"));
    assert.equal(listed(repo), before);
  });

  test("is compared with HEAD and with the files without its directories' trees", () => {
    const repo = sparse();
    const lost = loseTree(repo, "HEAD:out");
    assert.deepEqual(changed(repo), []);
    write(repo, "in/f", "changed\n");
    assert.deepEqual(changed(repo), ["in/f"]);
    git(
      repo,
      "--no-optional-locks",
      "update-index",
      "--cacheinfo",
      `100644,${"1".repeat(40)},in/f`,
    );
    assert.deepEqual(changed(repo), ["in/f"]);
    const { entries, cacheTree } = readSparseIndex(indexOf(repo));
    assert.equal(cacheTree?.entryCount ?? -1, -1);
    assert.ok(entries.some(({ path }) => path === "out/"));
    assert.throws(
      () => readWhole(repo),
      (error) =>
        isAgentqError(error, "object-missing") && (error as AgentqError).details?.oid === lost &&
        /out\//.test(error.message) && /git ls-tree -r/.test((error as AgentqError).hint ?? ""),
    );
  });

  test("what HEAD has otherwise in a directory that is one entry is told file by file", () => {
    const repo = sparse();
    const base = git(repo, "rev-parse", "HEAD");
    git(repo, "sparse-checkout", "disable");
    write(repo, "out/a/x", "changed\n");
    write(repo, "out/a/new", "new\n");
    rmSync(join(repo, "other"), { recursive: true });
    const next = commit(repo, "next");
    for (const [from, to] of [[base, next], [next, base]] as const) {
      git(repo, "reset", "-q", "--hard", from);
      git(repo, "sparse-checkout", "set", "--cone", "--sparse-index", "in");
      git(repo, "reset", "-q", "--soft", to);
      assert.match(listed(repo, "--sparse"), /\tout\/$/m);
      assert.deepEqual(changed(repo), ["other/d", "out/a/new", "out/a/x"]);
      assert.deepEqual(gitsChanged(repo), ["other/d", "out/a/new", "out/a/x"]);
      git(repo, "sparse-checkout", "disable");
    }
  });

  test("files outside the cone that are there all the same are looked at, the others aren't", () => {
    const repo = sparse();
    write(repo, "out/a/x", "x\n");
    assert.deepEqual(changed(repo), []);
    write(repo, "out/b", "other b\n");
    write(repo, "out/untracked", "u\n");
    write(repo, "other", "a file where a directory would be\n");
    assert.deepEqual(changed(repo), ["out/b"]);
    assert.deepEqual(gitsChanged(repo), ["out/b"]);
    mkdirSync(join(repo, "out-side"));
    assert.deepEqual(changed(repo), ["out/b"]);
  });

  test("a conversion that a directory's own .gitattributes asks for counts there", () => {
    const repo = sparse({ ...FILES, "out/.gitattributes": "*.txt text\n", "out/t.txt": "1\n2\n" });
    write(repo, "out/t.txt", "1\r\n2\r\n");
    // git reads no attributes outside the cone and calls the file changed, until it is inside.
    assert.deepEqual(changed(repo), []);
    git(repo, "sparse-checkout", "add", "out");
    assert.deepEqual(changed(repo), []);
    assert.deepEqual(gitsChanged(repo), []);
  });

  test("agrees with git status after generated edits", { timeout: 600_000 }, () => {
    const repo = sparse();
    const base = git(repo, "rev-parse", "HEAD");
    const path = fc.constantFrom(...Object.keys(FILES), "out/new", "other", "in/new");
    const command = fc.record({
      kind: fc.constantFrom("write", "write", "remove", "add", "rm", "commit", "soft", "chmod"),
      path,
      text: fc.constantFrom("x\n", "b\n", "other\n"),
    });
    let collapsed = 0;
    fc.assert(
      fc.property(fc.array(command, { minLength: 1, maxLength: 6 }), (commands) => {
        git(repo, "reset", "-q", "--hard", base);
        git(repo, "clean", "-qfdx");
        tryGit(repo, ["sparse-checkout", "reapply"]);
        for (const { kind, path, text } of commands) {
          try {
            if (kind === "write") write(repo, path, text);
            if (kind === "remove") rmSync(join(repo, path), { recursive: true });
            if (kind === "chmod") chmodSync(join(repo, path), 0o755);
          } catch {
            // The path is of another kind by now; the other commands still count.
          }
          if (kind === "add") tryGit(repo, ["add", "--sparse", "--", path]);
          if (kind === "rm") tryGit(repo, ["rm", "-rq", "--sparse", "--cached", "--", path]);
          if (kind === "commit") git(repo, "commit", "-qm", "c", "--allow-empty");
          if (kind === "soft") git(repo, "reset", "-q", "--soft", base);
        }
        if (readSparseIndex(indexOf(repo)).entries.some(isDirectoryEntry)) collapsed++;
        assert.deepEqual(changed(repo), gitsChanged(repo));
        assert.equal(
          readWhole(repo).entries.map(({ oid, path }) => oid + path).join("\n"),
          tryGit(repo, ["--no-optional-locks", "ls-files", "--stage"]).stdout.trimEnd()
            .split("\n").filter(Boolean).map((line) => line.slice(7, 47) + line.slice(50)).join(
              "\n",
            ),
        );
      }),
      { numRuns: Number(process.env.AGENTQ_RUNS ?? 25) },
    );
    assert.ok(collapsed > 10, `${collapsed} of them sparse`);
  });

  test("entries for directories where none may be are refused", () => {
    const good = readSparseIndex(indexOf(sparse()));
    const at = good.entries.findIndex(({ path }) => path === "out/");
    const file = good.entries.findIndex(({ path }) => path === "in/f");
    const refused: [string, (entries: IndexEntry[]) => void, boolean?][] = [
      ["no sdir extension", () => {}, false],
      ["no slash", (e) => (e[at] = { ...e[at]!, path: "out" })],
      ["a file with a slash", (e) => (e[file] = { ...e[file]!, path: "in/f/" })],
      ["an empty name", (e) => (e[at] = { ...e[at]!, path: "out//" })],
      ["a stage", (e) => (e[at] = { ...e[at]!, stage: 2 })],
      ["entries below", (e) => e.splice(at + 1, 0, { ...e[file]!, path: "out/z" })],
    ];
    assert.equal(parseIndex(bytesOf(good), "index").entries.length, good.entries.length);
    for (const [name, change, sdir] of refused) {
      const entries = [...good.entries];
      change(entries);
      assert.throws(
        () => parseIndex(bytesOf({ entries, cacheTree: null }, sdir), "index"),
        (error) => isAgentqError(error, "index-corrupt"),
        name,
      );
    }
  });

  test("a tree with names that must not be written is refused", () => {
    const repo = sparse();
    using(repo, ({ objects }) => {
      const blob = objects.write("blob", Buffer.from("x"));
      for (const name of ["..", ".git", "a/b"]) {
        const tree = objects.write(
          "tree",
          Buffer.concat([Buffer.from(`100644 ${name}\0`), Buffer.from(blob, "hex")]),
        );
        const index = readSparseIndex(indexOf(repo));
        const entries = index.entries.map((entry) =>
          entry.path === "out/" ? { ...entry, oid: tree } : entry
        );
        assert.throws(
          () => expandIndex(objects, { ...index, entries }),
          (error) => isAgentqError(error, "index-corrupt", "repository-corrupt"),
          name,
        );
      }
    });
  });
});

/** An index with directories' entries, which nothing else here writes. */
function bytesOf({ entries }: IndexContent, sdir = true): Buffer {
  const files = entries.map((entry) => ({ ...entry, mode: 0o100644 }));
  const data = serializeIndex({ entries: files, cacheTree: null });
  let at = 12;
  for (const { mode, path, skipWorktree } of entries) {
    data.writeUInt32BE(mode, at + 24);
    at += (62 + (skipWorktree ? 2 : 0) + path.length + 8) & ~7;
  }
  return signed(Buffer.concat([data.subarray(0, -20), sdir ? extension("sdir") : Buffer.alloc(0)]));
}

function extension(name: string, body: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.from(name + "\0\0\0\0", "latin1");
  head.writeUInt32BE(body.length, 4);
  return Buffer.concat([head, body]);
}

function signed(body: Buffer): Buffer {
  return Buffer.concat([body, createHash("sha1").update(body).digest()]);
}

/** A repository whose shared index has 300 entries, some of which are replaced, gone and new. */
function split(version = "2"): string {
  const repo = makeRepo();
  const files: Record<string, string> = {};
  for (let i = 0; i < 300; i++) files[`d${i % 7}/f${i}`] = `${i}\n`;
  commit(repo, "base", files);
  git(repo, "update-index", "--index-version", version);
  git(repo, "config", "splitIndex.maxPercentChange", "100");
  git(repo, "update-index", "--split-index");
  return repo;
}

const sharedOf = (repo: string) =>
  readdirSync(join(repo, ".git")).filter((name) => name.startsWith("sharedindex."));

describe("a split index", () => {
  test("is read as git reads it: replaced, deleted, added, unmerged", () => {
    for (const version of ["2", "4"]) {
      const repo = split(version);
      assert.equal(sharedOf(repo).length, 1);
      assert.equal(describeEntries(readWhole(repo).entries), listed(repo));
      for (let i = 0; i < 300; i += 11) write(repo, `d${i % 7}/f${i}`, "changed\n");
      git(repo, "add", "-u");
      for (let i = 1; i < 300; i += 13) rmSync(join(repo, `d${i % 7}/f${i}`));
      git(repo, "add", "-u");
      write(repo, "a", "a\n");
      write(repo, "d3/f3x", "x\n");
      write(repo, "z", "z\n");
      git(repo, "add", ".");
      git(repo, "update-index", "--skip-worktree", "d2/f2");
      git(repo, "update-index", "--assume-unchanged", "d4/f4");
      const empty = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";
      tryGit(repo, ["update-index", "--index-info"], {
        input: `0 ${"0".repeat(40)}\td5/f5\n100644 ${empty} 1\td5/f5\n100644 ${empty} 3\td5/f5\n`,
      });
      assert.equal(sharedOf(repo).length, 1, "still the same shared index");
      assert.match(readFileSync(indexOf(repo), "latin1"), /link/);
      assert.equal(describeEntries(readWhole(repo).entries), listed(repo));
    }
  });

  test("has trees, and is clean, like any other", () => {
    const repo = split();
    git(repo, "read-tree", "HEAD");
    git(repo, "update-index", "--split-index");
    const { cacheTree, entries } = readSparseIndex(indexOf(repo));
    assert.equal(cacheTree?.oid, git(repo, "rev-parse", "HEAD^{tree}"));
    assert.equal(cacheTree?.entryCount, entries.length);
    assert.deepEqual(changed(repo), []);
    write(repo, "d1/f1", "other\n");
    assert.deepEqual(changed(repo), ["d1/f1"]);
    git(repo, "add", "d1/f1");
    assert.deepEqual(changed(repo), ["d1/f1"]);
    git(repo, "commit", "-qm", "next");
    assert.deepEqual(changed(repo), []);
  });

  test("sees a change of the same size in the same instant as an index", () => {
    const repo = makeRepo();
    git(repo, "config", "core.splitIndex", "true");
    commit(repo, "base", { f: "1\n", g: "1\n" });
    for (let i = 0; i < 10; i++) {
      write(repo, "f", "1\n");
      git(repo, "add", "f");
      write(repo, "f", "2\n");
      git(repo, "add", "-N", "g");
      write(repo, "g", `${i}\n`);
      git(repo, "update-index", "--add", "g");
      assert.deepEqual(changed(repo).includes("f"), true);
      assert.deepEqual(changed(repo), gitsChanged(repo));
    }
  });

  test("agrees with git after generated edits", { timeout: 600_000 }, () => {
    const repo = split();
    const command = fc.record({
      kind: fc.constantFrom("write", "remove", "new", "touch", "add", "commit", "split"),
      n: fc.integer({ min: 0, max: 299 }),
    });
    fc.assert(
      fc.property(fc.array(command, { minLength: 1, maxLength: 12 }), (commands) => {
        for (const { kind, n } of commands) {
          const path = `d${n % 7}/f${n}`;
          if (kind === "write") write(repo, path, `new ${n}\n`);
          if (kind === "remove") rmSync(join(repo, path), { force: true });
          if (kind === "new") write(repo, `${path}-new`, "new\n");
          if (kind === "touch" && existsSync(join(repo, path))) utimesSync(join(repo, path), 7, n);
          if (kind === "add") git(repo, "add", "-A");
          if (kind === "commit") git(repo, "commit", "-qm", "c", "--allow-empty");
          if (kind === "split") git(repo, "update-index", "--split-index");
        }
        assert.equal(describeEntries(readWhole(repo).entries), listed(repo));
        assert.deepEqual(changed(repo), gitsChanged(repo));
      }),
      { numRuns: Number(process.env.AGENTQ_RUNS ?? 15) },
    );
  });

  test("written whole by us it is the same to git, which splits it again when told", () => {
    const repo = split();
    write(repo, "d1/f1", "other\n");
    git(repo, "add", "d1/f1");
    const before = listed(repo);
    writeFileSync(indexOf(repo), serializeIndex(readWhole(repo)));
    assert.equal(listed(repo), before);
    git(repo, "config", "core.splitIndex", "true");
    git(repo, "update-index", "--refresh");
    git(repo, "commit", "-qm", "next");
    assert.match(readFileSync(indexOf(repo), "latin1"), /link/);
    assert.equal(describeEntries(readWhole(repo).entries), listed(repo));
    git(repo, "fsck");
  });

  test("without its shared index, or with another in its place, it is corrupt", () => {
    const repo = split();
    const corrupt = (error: unknown) =>
      isAgentqError(error, "index-corrupt") && /sharedindex\.[0-9a-f]{40}/.test(String(error));
    const shared = join(repo, ".git", sharedOf(repo)[0]!);
    const bytes = readFileSync(shared);
    rmSync(shared);
    assert.throws(() => readWhole(repo), corrupt);
    for (const other of [Buffer.alloc(0), bytes.subarray(0, -1), readFileSync(indexOf(repo))]) {
      writeFileSync(shared, other);
      assert.throws(() => readWhole(repo), corrupt);
    }
    const torn = Buffer.from(bytes);
    torn[100]! ^= 1;
    writeFileSync(shared, torn);
    assert.throws(() => readWhole(repo), corrupt);
    writeFileSync(shared, bytes);
    assert.equal(readWhole(repo).entries.length, 300);
  });

  test("lies in the link extension are refused, whatever they are", () => {
    const repo = split();
    for (let i = 0; i < 300; i += 3) write(repo, `d${i % 7}/f${i}`, "changed\n");
    git(repo, "add", "-u");
    const own = readFileSync(indexOf(repo));
    const base = readFileSync(join(repo, ".git", sharedOf(repo)[0]!));
    const link = own.indexOf("link", 0, "latin1");
    const size = own.readUInt32BE(link + 4);
    const parsed = parseIndex(own, "index", () => base);
    assert.equal(parsed.entries.length, 300);
    let refused = 0;
    fc.assert(
      fc.property(
        fc.integer({ min: 28, max: 8 + size - 1 }),
        fc.integer({ min: 1, max: 255 }),
        (at, bits) => {
          const body = Buffer.from(own.subarray(0, -20));
          body[link + at]! ^= bits;
          try {
            const { entries } = parseIndex(signed(body), "index", () => base);
            assert.ok(entries.length <= 300 + 100);
          } catch (error) {
            if (!isAgentqError(error, "index-corrupt")) throw error;
            refused++;
          }
        },
      ),
      { numRuns: 500 },
    );
    assert.ok(refused > 100, `${refused} refused`);
    for (const short of [4, 19, 21, 30]) {
      const cut = Buffer.concat([
        own.subarray(0, link),
        extension("link", own.subarray(link + 8, link + 8 + short)),
      ]);
      assert.throws(
        () => parseIndex(signed(cut), "index", () => base),
        (error) => isAgentqError(error, "index-corrupt"),
      );
    }
  });

  test("a shared index that is split itself is refused", () => {
    const repo = split();
    const own = readFileSync(indexOf(repo));
    const link = own.indexOf("link", 0, "latin1");
    const self = Buffer.concat([
      own.subarray(0, 12),
      extension("link", own.subarray(link + 8, -20)),
    ]);
    self.writeUInt32BE(0, 8);
    const inner = signed(self);
    const outer = Buffer.concat([
      own.subarray(0, 12),
      extension("link", inner.subarray(-20)),
    ]);
    outer.writeUInt32BE(0, 8);
    assert.throws(
      () => parseIndex(signed(outer), "index", () => inner),
      (error) => isAgentqError(error, "index-corrupt") && /split itself/.test(error.message),
    );
  });
});

describe("readBitmap()", () => {
  const corrupt = (what: string) => new AgentqError("index-corrupt", what);

  /** Marker words and literals, as the format has them: highest half first. */
  function encode(words: readonly (readonly [high: number, low: number])[]): Buffer {
    const data = Buffer.alloc(8 + words.length * 8 + 4);
    data.writeUInt32BE(words.length, 4);
    words.forEach(([high, low], i) => {
      data.writeUInt32BE(high >>> 0, 8 + i * 8);
      data.writeUInt32BE(low >>> 0, 12 + i * 8);
    });
    return data;
  }

  test("decodes runs and literals", () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.record({
            bit: fc.boolean(),
            run: fc.integer({ min: 0, max: 4 }),
            literals: fc.array(fc.tuple(fc.nat(0xffffffff), fc.nat(0xffffffff)), { maxLength: 3 }),
          }),
          { maxLength: 5 },
        ),
        (stretches) => {
          const words: [number, number][] = [];
          const expected: number[] = [];
          let at = 0;
          for (const { bit, run, literals } of stretches) {
            words.push([literals.length << 1, run << 1 | Number(bit)], ...literals);
            for (let i = 0; bit && i < run * 64; i++) expected.push(at + i);
            at += run * 64;
            for (const [high, low] of literals) {
              const value = BigInt(high) << 32n | BigInt(low);
              for (let i = 0; i < 64; i++) if (value >> BigInt(i) & 1n) expected.push(at + i);
              at += 64;
            }
          }
          const data = encode(words);
          const read = readBitmap(data, 0, at, corrupt);
          assert.deepEqual(read, { positions: expected, end: data.length });
          const last = expected.at(-1);
          if (last !== undefined) assert.throws(() => readBitmap(data, 0, last, corrupt));
        },
      ),
    );
  });

  test("a run that claims billions of words ends at the first bit that can't be", () => {
    const endless = encode([[1, 0xffffffff]]);
    assert.throws(() => readBitmap(endless, 0, 1000, corrupt), /shared index/);
    const zeros = encode([[1, 0xfffffffe], [1, 0xfffffffe]]);
    assert.deepEqual(readBitmap(zeros, 0, 10, corrupt).positions, []);
  });

  test("never reads outside of what it was given", () => {
    fc.assert(fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
      try {
        const data = Buffer.from(bytes);
        const { positions, end } = readBitmap(data, 0, 100, corrupt);
        assert.ok(end <= data.length && positions.every((n) => n < 100));
      } catch (error) {
        if (!isAgentqError(error, "index-corrupt")) throw error;
      }
    }));
  });
});

test("an index in a worktree of its own is found there, with its shared part", () => {
  const repo = split();
  const linked = join(tempDir(), "linked");
  git(repo, "worktree", "add", "-q", "--detach", linked);
  git(linked, "update-index", "--split-index");
  assert.deepEqual(changed(linked), []);
  appendFileSync(join(linked, "d1/f1"), "more\n");
  assert.deepEqual(changed(linked), ["d1/f1"]);
});
