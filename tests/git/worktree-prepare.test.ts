import { describe, test } from "node:test";
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { spawnSync } from "node:child_process";
import { isAgentqError } from "../../src/errors.ts";
import { openRepository } from "../../src/git/repository.ts";
import { listWorktrees, prepareWorktree, type WorktreeOptions } from "../../src/git/worktree.ts";
import { takeWorktreeLock } from "../../src/git/worktree-lock.ts";
import { contained, scriptRun } from "../helpers/containers.ts";
import { commit, git, makeRepo, tempDir, tryGit, write } from "../helpers/git.ts";
import { checkedOutByGit, rawBlob, rawCommit, rawTree, snapshot } from "./worktree-helpers.ts";

/** The machine may be busy with other tests. */
const slow = { timeout: 120_000 };

/** Prepares, checks that git agrees with what is there, and releases. */
async function prepare(repo: string, dir: string, rev = "HEAD", options: WorktreeOptions = {}) {
  const repository = openRepository(repo);
  try {
    const oid = git(repo, "rev-parse", `${rev}^{commit}`);
    const worktree = await prepareWorktree(repository, dir, "verify", oid, options);
    worktree.release();
    assert.equal(git(worktree.path, "rev-parse", "HEAD"), oid);
    assert.equal(git(worktree.path, "--no-optional-locks", "status", "--porcelain"), "");
    assert.equal(git(worktree.path, "write-tree"), git(repo, "rev-parse", `${oid}^{tree}`));
    assert.equal(tryGit(worktree.path, ["symbolic-ref", "-q", "HEAD"]).status, 1);
    return worktree;
  } finally {
    repository.close();
  }
}

function fixture(): string {
  const repo = makeRepo();
  symlinkSync("a.txt", join(repo, "link"));
  write(repo, "run.sh", "#!/bin/sh\n");
  git(repo, "add", ".");
  git(repo, "update-index", "--chmod=+x", "run.sh");
  commit(repo, "base", {
    ".gitignore": "build/\n*.o\n",
    "a.txt": "a\n",
    "dir/b.txt": "b\n",
    "dir/sub/c.txt": "c\n",
    "empty": "",
  });
  return repo;
}

describe("prepareWorktree()", () => {
  test("makes a worktree that git takes for its own", slow, async () => {
    const repo = fixture();
    const dir = tempDir();
    const { path, checkout } = await prepare(repo, dir);
    assert.deepEqual(snapshot(path), checkedOutByGit(repo, "HEAD", join(tempDir(), "git")));
    assert.equal(checkout.written, 7);
    assert.match(
      git(repo, "worktree", "list", "--porcelain"),
      new RegExp(
        `worktree ${realpathSync(path)}\nHEAD ${git(repo, "rev-parse", "HEAD")}\ndetached`,
      ),
    );
    git(repo, "worktree", "prune", "--expire=now");
    git(path, "fsck", "--strict");
    assert.deepEqual(listWorktrees(openRepository(repo), dir), [path]);
    git(repo, "gc", "-q", "--prune=now");
    await prepare(repo, dir);
    git(repo, "worktree", "remove", path);
    assert.deepEqual(listWorktrees(openRepository(repo), dir), []);
    await prepare(repo, dir);
  });

  test("rewrites only what changed", slow, async () => {
    const repo = fixture();
    const dir = tempDir();
    const { path } = await prepare(repo, dir);
    const before = lstatSync(join(path, "dir/b.txt"), { bigint: true });
    commit(repo, "next", { "a.txt": "changed\n", "new/file": "n" });
    const { checkout } = await prepare(repo, dir);
    const after = lstatSync(join(path, "dir/b.txt"), { bigint: true });
    assert.equal(after.ino, before.ino);
    assert.equal(after.ctimeNs, before.ctimeNs);
    assert.deepEqual([checkout.written, checkout.kept, checkout.removed], [2, 6, 0]);
    assert.equal(readFileSync(join(path, "a.txt"), "utf8"), "changed\n");
  });

  test(
    "follows directories that become files and back, and removes emptied ones",
    slow,
    async () => {
      const repo = fixture();
      const dir = tempDir();
      git(repo, "rm", "-rq", "dir");
      commit(repo, "file for directory", { dir: "now a file\n", "x/y/z": "deep\n" });
      git(repo, "rm", "-rq", "x", "link");
      commit(repo, "directory for link", { "link/inner": "i\n" });
      for (const rev of ["HEAD", "HEAD~2", "HEAD~1", "HEAD~2", "HEAD"]) {
        const { path } = await prepare(repo, dir, rev);
        assert.deepEqual(snapshot(path), checkedOutByGit(repo, rev, join(tempDir(), "git")), rev);
      }
    },
  );

  test(
    "repairs whatever a command did to it, keeps ignored files, removes other debris",
    slow,
    async () => {
      const repo = fixture();
      const dir = tempDir();
      const { path } = await prepare(repo, dir);
      const clean = snapshot(path);
      const outside = tempDir();
      write(outside, "precious", "p");
      write(path, "a.txt", "tampered");
      rmSync(join(path, "dir/sub"), { recursive: true });
      symlinkSync(outside, join(path, "dir/sub"));
      rmSync(join(path, "empty"));
      mkdirSync(join(path, "empty/full"), { recursive: true });
      rmSync(join(path, "link"));
      symlinkSync("elsewhere", join(path, "link"));
      write(path, "debris/deep/file", "x");
      write(path, "debris/kept.o", "ignored");
      mkdirSync(join(path, "void/void"), { recursive: true });
      write(path, "build/cache", "ignored");
      write(path, "dir/debris", "x");
      symlinkSync(outside, join(path, "out"));
      git(makeRepo(join(path, "debris/deep")), "commit", "-q", "--allow-empty", "-m", "nested");
      git(path, "add", "-A", "dir");
      write(path, ".git-not", "x");
      git(path, "checkout", "-q", "-b", "stray");
      const { checkout } = await prepare(repo, dir);
      assert.deepEqual(snapshot(path), {
        ...clean,
        "build/cache": "file ignored",
        "debris/kept.o": "file ignored",
      });
      assert.deepEqual(snapshot(outside), { precious: "file p" });
      assert.deepEqual([...checkout.debris].sort(), [".git-not", "debris/deep", "out"]);
    },
  );

  test("ends a merge or rebase that a command left there", slow, async () => {
    const repo = fixture();
    const dir = tempDir();
    git(repo, "branch", "other");
    commit(repo, "ours", { "a.txt": "ours\n" });
    git(repo, "checkout", "-q", "other");
    commit(repo, "theirs", { "a.txt": "theirs\n" });
    const { path } = await prepare(repo, dir);
    assert.equal(tryGit(path, ["merge", "main"]).status, 1);
    writeFileSync(git(path, "rev-parse", "--git-path", "index.lock"), "");
    await prepare(repo, dir);
    assert.equal(tryGit(path, ["rev-parse", "-q", "--verify", "MERGE_HEAD"]).status, 1);
    assert.equal(tryGit(path, ["rebase", "main"]).status, 1);
    await prepare(repo, dir);
    assert.equal(tryGit(path, ["rebase", "--abort"]).status, 128);
  });

  test("opens a worktree that a command has locked up", slow, async () => {
    const repo = fixture();
    const dir = tempDir();
    const { path } = await prepare(repo, dir);
    for (const mode of [0, 0o500]) {
      chmodSync(path, mode);
      await prepare(repo, dir);
      assert.equal(lstatSync(path).mode & 0o700, 0o700);
    }
  });

  for (const where of ["mnt", "made/by/it"]) {
    test(`leaves alone what a command has mounted at ${where}, and says where`, slow, async () => {
      const repo = fixture();
      const dir = tempDir();
      const { path } = await prepare(repo, dir);
      const precious = tempDir();
      write(precious, "deep/data", "mine\n");
      const child = join(import.meta.dirname!, "worktree-child.ts");
      const [program, ...args] = contained(
        "sh",
        "-c",
        'mkdir -p "$2" && mount --bind "$1" "$2" && shift 2 && exec "$@"',
        "sh",
        precious,
        join(path, where),
        ...scriptRun(child, "prepare", repo, dir, git(repo, "rev-parse", "HEAD")),
      );
      const run = spawnSync(program, args, { encoding: "utf8", timeout: 60_000 });
      assert.match(run.stderr, new RegExp(`can't remove \\S+/${where}: .*EBUSY`));
      assert.equal(readFileSync(join(precious, "deep/data"), "utf8"), "mine\n");
      await prepare(repo, dir);
      assert.ok(!existsSync(join(path, where.split("/")[0]!)));
    });
  }

  test("lets an ignored file give way to a tracked one", slow, async () => {
    const repo = fixture();
    const dir = tempDir();
    const { path } = await prepare(repo, dir);
    write(path, "build/x", "cache");
    write(path, "lib.o/inner", "cache");
    write(repo, "build/x/y", "tracked");
    write(repo, "lib.o", "tracked");
    git(repo, "add", "-f", "build", "lib.o");
    commit(repo, "now tracked");
    await prepare(repo, dir);
    assert.equal(readFileSync(join(path, "build/x/y"), "utf8"), "tracked");
    assert.equal(readFileSync(join(path, "lib.o"), "utf8"), "tracked");
  });

  test("believes no stat after a reboot, and no torn index", slow, async () => {
    const repo = fixture();
    const dir = tempDir();
    const { path } = await prepare(repo, dir);
    const gitDir = git(path, "rev-parse", "--absolute-git-dir");
    // What a power cut can do: content lost while the stat that the index holds is as it was.
    write(path, "a.txt", "Z\n");
    tryGit(path, ["update-index", "--refresh"]);
    const real = git(path, "rev-parse", "HEAD:a.txt");
    git(path, "update-index", "--cacheinfo", `100644,${real},a.txt`);
    const index = readFileSync(join(gitDir, "index"));
    const { readSparseIndex, lockIndex } = await import("../../src/git/index-file.ts");
    const { statData } = await import("../../src/git/file-stat.ts");
    const stat = statData(lstatSync(join(path, "a.txt"), { bigint: true }));
    const entries = readSparseIndex(join(gitDir, "index")).entries.map((entry) =>
      entry.path === "a.txt" ? { ...entry, stat: { ...stat } } : entry
    );
    await new Promise((resolve) => setTimeout(resolve, 20));
    lockIndex(join(gitDir, "index")).commit({ entries, cacheTree: null });
    const repository = openRepository(repo);
    (await prepareWorktree(repository, dir, "verify", git(repo, "rev-parse", "HEAD"))).release();
    assert.equal(readFileSync(join(path, "a.txt"), "utf8"), "Z\n");
    writeFileSync(
      join(gitDir, "agentq"),
      JSON.stringify({
        ...JSON.parse(readFileSync(join(gitDir, "agentq"), "utf8")),
        bootId: "another boot",
      }),
    );
    await prepare(repo, dir);
    assert.equal(readFileSync(join(path, "a.txt"), "utf8"), "a\n");
    for (const torn of [index.subarray(0, 100), Buffer.alloc(index.length), Buffer.alloc(0)]) {
      writeFileSync(join(gitDir, "index"), torn);
      write(path, "a.txt", "torn");
      await prepare(repo, dir);
      assert.equal(readFileSync(join(path, "a.txt"), "utf8"), "a\n");
    }
  });

  test("refuses hostile trees before anything is written", slow, async () => {
    const repo = fixture();
    const dir = tempDir();
    const { path } = await prepare(repo, dir);
    const before = snapshot(path);
    const blob = rawBlob(repo, "evil");
    const inner = rawTree(repo, [{ mode: "100644", name: "config", oid: blob }]);
    const names = [
      ".git",
      ".GIT",
      "..",
      ".",
      "git~1",
      ".git ",
      ".git::$INDEX_ALLOCATION",
      Buffer.from(".g\u200cit").toString("latin1"),
      "a\\.git\\x",
    ];
    for (const name of names) {
      const level = [{ mode: "100644", name: "aaa", oid: blob }, {
        mode: "40000",
        name,
        oid: inner,
      }];
      for (
        const tree of [
          rawTree(repo, level),
          rawTree(repo, [{ mode: "40000", name: "deep", oid: rawTree(repo, level) }]),
        ]
      ) {
        await assert.rejects(
          prepare(repo, dir, rawCommit(repo, tree)),
          (error) => isAgentqError(error, "unsafe-path", "repository-corrupt"),
          name,
        );
        assert.deepEqual(snapshot(path), before);
      }
    }
    const link = rawTree(repo, [{ mode: "120000", name: ".gitmodules", oid: blob }]);
    await assert.rejects(
      prepare(repo, dir, rawCommit(repo, link)),
      (error) => isAgentqError(error, "unsafe-path"),
    );
    for (
      const odd of [
        [{ mode: "100644", name: "a", oid: blob }, { mode: "40000", name: "a", oid: inner }],
        [{ mode: "120000", name: "a", oid: blob }, { mode: "40000", name: "a", oid: inner }],
        [{ mode: "100644", name: "b", oid: blob }, { mode: "100644", name: "a", oid: blob }],
      ]
    ) {
      await assert.rejects(
        prepare(repo, dir, rawCommit(repo, rawTree(repo, odd))),
        (error) => isAgentqError(error, "repository-corrupt"),
      );
    }
    assert.deepEqual(snapshot(path), before);
    await prepare(repo, dir);
  });

  test("never writes through a link that an earlier commit brought", slow, async () => {
    const repo = makeRepo();
    const outside = tempDir();
    write(outside, "file", "precious");
    symlinkSync(outside, join(repo, "link"));
    commit(repo, "a link out");
    rmSync(join(repo, "link"));
    commit(repo, "a directory there", { "link/file": "from the tree", "link/new": "n" });
    const dir = tempDir();
    for (const rev of ["HEAD~1", "HEAD", "HEAD~1"]) {
      await prepare(repo, dir, rev);
      assert.deepEqual(snapshot(outside), { file: "file precious" });
    }
  });

  test(
    "refuses names that one file can't hold both of, where case doesn't count",
    slow,
    async () => {
      const repo = makeRepo();
      commit(repo, "case", { "README": "1", "readme": "2", "Dir/x": "3", "dir/y": "4" });
      const dir = tempDir();
      await assert.rejects(
        prepare(repo, dir, "HEAD", { ignoreCase: true }),
        (error: Error) => isAgentqError(error, "unsafe-path") && /Dir|README/.test(error.message),
      );
      await prepare(repo, dir);
    },
  );

  test(
    "works for bare, shallow and shared clones, linked worktrees, and submodules",
    slow,
    async () => {
      const repo = fixture();
      commit(repo, "second", { "a.txt": "2\n" });
      const top = tempDir();
      git(top, "clone", "-q", "--bare", repo, "bare.git");
      git(top, "clone", "-q", "--depth=1", `file://${repo}`, "shallow");
      git(top, "clone", "-q", "--shared", repo, "shared");
      git(repo, "worktree", "add", "-q", "--detach", join(top, "linked"));
      const outer = makeRepo();
      commit(outer, "outer", { f: "1" });
      git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", repo, "sub");
      for (
        const clone of [
          join(top, "bare.git"),
          join(top, "shallow"),
          join(top, "shared"),
          join(top, "linked"),
          join(outer, "sub"),
        ]
      ) {
        const dir = tempDir();
        const { path } = await prepare(clone, dir);
        assert.equal(readFileSync(join(path, "a.txt"), "utf8"), "2\n");
        assert.match(git(clone, "worktree", "list"), new RegExp(path));
        await prepare(clone, dir);
      }
      assert.equal(git(repo, "status", "--porcelain"), "");
    },
  );

  test("leaves submodules as empty directories and says so", slow, async () => {
    const inner = fixture();
    const repo = makeRepo();
    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner, "sub");
    commit(repo, "outer", { f: "1" });
    const dir = tempDir();
    const { path, checkout } = await prepare(repo, dir);
    assert.deepEqual(checkout.submodules, ["sub"]);
    assert.equal(snapshot(path).sub, "empty directory");
    git(path, "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init");
    assert.ok(existsSync(join(path, "sub/a.txt")));
    await prepare(repo, dir);
    assert.equal(snapshot(path).sub, "empty directory");
    git(repo, "rm", "-qf", "sub");
    git(repo, "commit", "-qm", "without");
    await prepare(repo, dir);
    assert.equal(existsSync(join(path, "sub")), false);
  });

  test("is sparse where the clone is", slow, async () => {
    for (const set of [["--cone", "dir/sub"], ["--no-cone", "/*.txt", "dir/", "!dir/sub"]]) {
      for (const worktreeConfig of [true, false]) {
        const repo = fixture();
        commit(repo, "outside", { "other/x": "x\n" });
        git(repo, "sparse-checkout", "set", ...set);
        if (!worktreeConfig) {
          git(repo, "config", "--unset", "extensions.worktreeConfig");
          git(repo, "config", "core.sparseCheckout", "true");
          git(repo, "config", "core.sparseCheckoutCone", String(set[0] === "--cone"));
        }
        const dir = tempDir();
        const { path, checkout } = await prepare(repo, dir);
        assert.deepEqual(snapshot(path), snapshot(repo));
        assert.ok(checkout.outsideSparse > 0);
        write(path, "dir/b.txt", "present though it should not be");
        write(path, "run.sh", "the same");
        commit(repo, "more", { "dir/more": "m\n" });
        await prepare(repo, dir);
        assert.deepEqual(snapshot(path), snapshot(repo));
        git(repo, "sparse-checkout", "disable");
        await prepare(repo, dir);
        assert.deepEqual(snapshot(path), snapshot(repo));
      }
    }
  });

  test("converts as git does and names what a filter was not run on", slow, async () => {
    const repo = makeRepo();
    git(repo, "config", "core.autocrlf", "true");
    commit(repo, "base", {
      ".gitattributes":
        "*.crlf text eol=crlf\n*.lf text eol=lf\n*.u working-tree-encoding=UTF-16LE eol=crlf\n*.id ident\n*.bin binary\n*.lfs filter=lfs -text\nsub/* -text\n",
      "a.crlf": "1\n2\n",
      "a.lf": "1\n2\n",
      "a.id": "$Id$\n",
      "a.bin": "1\n",
      "auto": "1\n2\n",
      "a.lfs": "pointer\n",
      "sub/x": "1\n",
    });
    write(repo, "a.u", Buffer.from("hi\r\n", "utf16le"));
    git(repo, "add", "a.u");
    git(repo, "commit", "-qm", "u");
    const dir = tempDir();
    const { path, checkout } = await prepare(repo, dir);
    assert.deepEqual(snapshot(path), checkedOutByGit(repo, "HEAD", join(tempDir(), "git")));
    assert.deepEqual(checkout.unfiltered, ["a.lfs"]);
    assert.equal((await prepare(repo, dir)).checkout.written, 0);
    commit(repo, "attributes", { ".gitattributes": "*.crlf text eol=lf\n" });
    git(repo, "config", "core.symlinks", "false");
    symlinkSync("auto", join(repo, "link"));
    git(repo, "update-index", "--add", "--cacheinfo", `120000,${rawBlob(repo, "auto")},link`);
    git(repo, "commit", "-qm", "link");
    await prepare(repo, dir);
    assert.equal(snapshot(path).link, "file auto");
  });

  test("keeps file names that aren't UTF-8, where the runtime can", slow, async () => {
    const repo = makeRepo();
    const tree = rawTree(repo, [{ mode: "100644", name: "\xff!", oid: rawBlob(repo, "x") }, {
      mode: "100644",
      name: "\xffother",
      oid: rawBlob(repo, "y"),
    }]);
    const rev = rawCommit(repo, tree);
    const dir = tempDir();
    if ("Deno" in globalThis) {
      await assert.rejects(
        prepare(repo, dir, rev),
        (error) => isAgentqError(error, "path-not-representable"),
      );
      return;
    }
    const { path } = await prepare(repo, dir, rev);
    assert.equal(tryGit(path, ["ls-files", "-z"]).status, 0);
    writeFileSync(Buffer.concat([Buffer.from(path + "/"), Buffer.from([0x61, 0xff])]), "debris");
    await prepare(repo, dir, rev);
    const empty = rawCommit(repo, "4b825dc642cb6eb9a060e54bf8d69288fbee4904");
    await prepare(repo, dir, empty);
    assert.deepEqual(snapshot(path), {});
  });

  test("stops when it is told to, and the next run finishes the work", slow, async () => {
    const repo = makeRepo();
    const files: Record<string, string> = {};
    for (let i = 0; i < 3000; i++) files[`d${i % 50}/f${i}`] = `content ${i}\n`;
    commit(repo, "many", files);
    const dir = tempDir();
    const stop = new AbortController();
    const timer = setTimeout(() => stop.abort(new Error("told to stop")), 1);
    await assert.rejects(prepare(repo, dir, "HEAD", { signal: stop.signal }), /told to stop/);
    clearTimeout(timer);
    const { path } = await prepare(repo, dir);
    assert.equal(Object.keys(snapshot(path)).length, 3000);
  });
});

/** Sleeping takes no time at all, and moves the clock. */
function instantClock(onSleep: (now: number) => void = () => {}) {
  let now = 0;
  return {
    monotonic: () => now,
    wall: () => now,
    random: () => 0,
    sleep: async (ms: number) => {
      now += ms;
      onSleep(now);
    },
  };
}

describe("the pool of worktrees", () => {
  const head = (repo: string) => git(repo, "rev-parse", "HEAD");

  test("gives two users two worktrees, and the first again when it is free", slow, async () => {
    const repo = fixture();
    const dir = tempDir();
    const repository = openRepository(repo);
    const first = await prepareWorktree(repository, dir, "verify", head(repo));
    const second = await prepareWorktree(repository, dir, "verify", head(repo));
    assert.deepEqual([first.name, second.name], ["verify", "verify-2"]);
    first.release();
    first.release();
    const third = await prepareWorktree(repository, dir, "verify", head(repo));
    assert.equal(third.name, "verify");
    await assert.rejects(
      prepareWorktree(repository, dir, "verify", head(repo), { max: 2, clock: instantClock() }),
      (error) => isAgentqError(error, "worktree-busy"),
    );
    second.release();
    third.release();
  });

  test(
    "takes over from owners that nobody can prove gone only when they have been silent",
    slow,
    async () => {
      const repo = fixture();
      const dir = tempDir();
      const repository = openRepository(repo);
      const owner = {
        agentq: "lock",
        nonce: "0123456789abcdef",
        pid: 1,
        startTime: "1",
        pidNamespace: "pid:[1]",
        bootId: "elsewhere",
        host: "elsewhere",
      };
      symlinkSync(JSON.stringify(owner), join(dir, "verify.lock"));
      let beats = 3;
      const clock = instantClock((now) => {
        // It lives for some seconds more, then no longer.
        if (beats-- <= 0) return;
        const beat = join(dir, "verify.beat");
        writeFileSync(beat, String(now));
        // Here seconds pass in no time: each beat's time must differ from the last all the same.
        utimesSync(beat, beats + 1, beats + 1);
      });
      const worktree = await prepareWorktree(repository, dir, "verify", head(repo), {
        max: 1,
        clock,
        silenceMs: 10_000,
      });
      assert.equal(worktree.name, "verify");
      assert.ok(clock.monotonic() >= 13_000, String(clock.monotonic()));
      worktree.release();
    },
  );

  test("never touches what isn't its own", slow, async () => {
    const repo = fixture();
    const dir = tempDir();
    write(dir, "verify/precious", "p");
    git(repo, "worktree", "add", "-q", "--detach", join(dir, "verify-2"));
    write(dir, "verify-2/precious", "p");
    const repository = openRepository(repo);
    const worktree = await prepareWorktree(repository, dir, "verify", head(repo));
    assert.equal(worktree.name, "verify-3");
    worktree.release();
    await assert.rejects(
      prepareWorktree(repository, dir, "verify", head(repo), { max: 2 }),
      (error) => isAgentqError(error, "worktree-foreign"),
    );
    assert.equal(readFileSync(join(dir, "verify/precious"), "utf8"), "p");
    assert.equal(readFileSync(join(dir, "verify-2/precious"), "utf8"), "p");
    const other = fixture();
    await assert.rejects(
      prepareWorktree(openRepository(other), dir, "verify", head(other), { max: 3 }),
      (error) => isAgentqError(error, "worktree-foreign"),
    );
    assert.ok(takeWorktreeLock(dir, "verify") !== null, "nothing stays locked after a refusal");
  });

  test("recovers a worktree whose administration was pruned or never finished", slow, async () => {
    const repo = fixture();
    const dir = tempDir();
    const { path } = await prepare(repo, dir);
    rmSync(join(repo, ".git/worktrees"), { recursive: true });
    write(path, "debris", "x");
    await prepare(repo, dir);
    rmSync(join(path, ".git"));
    rmSync(path, { recursive: true });
    await prepare(repo, dir);
    assert.equal(git(repo, "worktree", "list").split("\n").length, 2);
  });
});
