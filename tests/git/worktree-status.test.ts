import { describe, test } from "node:test";
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import process from "node:process";
import fc from "fast-check";
import { operationInProgress } from "../../src/git/operation.ts";
import { openRepository } from "../../src/git/repository.ts";
import { uncommittedChanges } from "../../src/git/status.ts";
import { commit, git, makeRepo, tempDir, tryGit, write } from "../helpers/git.ts";

function ours(repo: string): Record<string, string> {
  const repository = openRepository(repo);
  try {
    const found: Record<string, string> = {};
    for (const { path, kind } of uncommittedChanges(repository)) found[path] ??= kind;
    return found;
  } finally {
    repository.close();
  }
}

/** The tracked paths that git calls changed, without writing to the index as `git status` would. */
function gits(repo: string): string[] {
  const out = tryGit(repo, [
    "--no-optional-locks",
    "status",
    "--porcelain",
    "-z",
    "-uno",
    "--no-renames",
    "--ignore-submodules=all",
  ]).stdout;
  return out.split("\0").filter(Boolean).map((line) =>
    Buffer.from(line.slice(3)).toString("latin1")
  ).sort();
}

function agree(repo: string): void {
  assert.deepEqual(Object.keys(ours(repo)).sort(), gits(repo));
}

function fixture(): string {
  const repo = makeRepo();
  commit(repo, "base", {
    "a.txt": "a\n",
    "dir/b.txt": "b\n",
    "dir/sub/c.txt": "c\n",
    "empty": "",
    "run.sh": "#!/bin/sh\n",
  });
  return repo;
}

describe("uncommittedChanges()", () => {
  test("finds nothing in a fresh clone, and doesn't count untracked files", () => {
    const repo = fixture();
    write(repo, "untracked", "x");
    assert.deepEqual(ours(repo), {});
    const clone = join(tempDir(), "clone");
    git(repo, "clone", "-q", repo, clone);
    assert.deepEqual(ours(clone), {});
  });

  test("tells each kind of change", () => {
    const repo = fixture();
    appendFileSync(join(repo, "a.txt"), "more");
    rmSync(join(repo, "dir/b.txt"));
    rmSync(join(repo, "dir/sub/c.txt"));
    symlinkSync("x", join(repo, "dir/sub/c.txt"));
    write(repo, "staged", "s");
    git(repo, "add", "staged");
    chmodSync(join(repo, "run.sh"), 0o755);
    assert.deepEqual(ours(repo), {
      "a.txt": "modified",
      "dir/b.txt": "deleted",
      "dir/sub/c.txt": "type changed",
      "run.sh": "modified",
      "staged": "staged",
    });
    agree(repo);
  });

  test("looks through a directory that became a link for nothing", () => {
    const repo = fixture();
    renameSync(join(repo, "dir"), join(repo, "moved"));
    symlinkSync("moved", join(repo, "dir"));
    assert.deepEqual(ours(repo), { "dir/b.txt": "deleted", "dir/sub/c.txt": "deleted" });
    agree(repo);
  });

  test("sees a change of the same size in the same instant as the index", () => {
    const repo = fixture();
    for (let i = 0; i < 20; i++) {
      write(repo, "a.txt", "1\n");
      git(repo, "add", "a.txt");
      write(repo, "a.txt", "2\n");
      assert.deepEqual(Object.keys(ours(repo)), ["a.txt"]);
      git(repo, "commit", "-qm", "one", "--allow-empty");
      assert.deepEqual(ours(repo), { "a.txt": "modified" });
    }
  });

  test("sees a same-size change with the old time set back", () => {
    const repo = fixture();
    const { atime, mtime } = statSync(join(repo, "a.txt"));
    writeFileSync(join(repo, "a.txt"), "z\n");
    utimesSync(join(repo, "a.txt"), atime, mtime);
    assert.deepEqual(ours(repo), { "a.txt": "modified" });
  });

  test("reads touched files and finds them unchanged", () => {
    const repo = fixture();
    utimesSync(join(repo, "a.txt"), 1, 1);
    assert.deepEqual(ours(repo), {});
  });

  test("honours core.fileMode, assume-unchanged, skip-worktree and intent-to-add", () => {
    const repo = fixture();
    git(repo, "config", "core.fileMode", "false");
    chmodSync(join(repo, "run.sh"), 0o755);
    assert.deepEqual(ours(repo), {});
    git(repo, "update-index", "--assume-unchanged", "a.txt");
    git(repo, "update-index", "--skip-worktree", "dir/b.txt");
    write(repo, "a.txt", "changed");
    rmSync(join(repo, "dir/b.txt"));
    assert.deepEqual(ours(repo), {});
    agree(repo);
    write(repo, "new", "");
    git(repo, "add", "-N", "new");
    assert.deepEqual(ours(repo), { new: "staged" });
    agree(repo);
  });

  test("honours a sparse checkout, and sees files that are there all the same", () => {
    const repo = fixture();
    git(repo, "sparse-checkout", "set", "--cone", "dir/sub");
    assert.deepEqual(ours(repo), {});
    git(repo, "sparse-checkout", "set", "--no-cone", "/a.txt");
    assert.deepEqual(ours(repo), {});
    write(repo, "dir/b.txt", "not b\n");
    assert.deepEqual(ours(repo), { "dir/b.txt": "modified" });
    agree(repo);
  });

  test("compares as git add would convert", () => {
    const repo = makeRepo();
    commit(repo, "base", {
      ".gitattributes": "*.txt text eol=crlf\n*.u working-tree-encoding=UTF-16\n*.id ident\n",
      "a.txt": "1\n2\n",
      "i.id": "$Id$\n",
    });
    writeFileSync(join(repo, "w.u"), Buffer.from("\ufeffhi\n", "utf16le"));
    git(repo, "add", "w.u");
    git(repo, "commit", "-qm", "u");
    for (const name of ["a.txt", "i.id", "w.u"]) rmSync(join(repo, name));
    git(repo, "checkout", "--", ".");
    for (const name of ["a.txt", "i.id", "w.u"]) utimesSync(join(repo, name), 1, 1);
    assert.deepEqual(ours(repo), {});
    write(repo, "a.txt", "1\r\n2\r\n3\r\n");
    assert.deepEqual(ours(repo), { "a.txt": "modified" });
    agree(repo);
  });

  test("can't vouch for what a filter would have to clean, except an LFS file that matches its pointer", () => {
    const repo = makeRepo();
    const real = "the real content\n";
    const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${
      createHash("sha256").update(real).digest("hex")
    }\nsize ${real.length}\n`;
    commit(repo, "base", {
      ".gitattributes": "*.bin filter=lfs -text\n",
      "a.bin": pointer,
      "b.bin": pointer,
    });
    write(repo, "a.bin", real);
    write(repo, "b.bin", "something else!!\n");
    assert.deepEqual(ours(repo), { "b.bin": "filtered" });
  });

  test("knows symbolic links, also where the system has none", () => {
    const repo = makeRepo();
    symlinkSync("target", join(repo, "link"));
    commit(repo, "base");
    assert.deepEqual(ours(repo), {});
    rmSync(join(repo, "link"));
    symlinkSync("tarGet", join(repo, "link"));
    assert.deepEqual(ours(repo), { link: "modified" });
    git(repo, "config", "core.symlinks", "false");
    rmSync(join(repo, "link"));
    write(repo, "link", "target");
    assert.deepEqual(ours(repo), {});
    agree(repo);
  });

  test("leaves submodules alone", () => {
    const inner = makeRepo();
    commit(inner, "inner", { x: "1" });
    const repo = makeRepo();
    commit(repo, "base", { f: "1" });
    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner, "sub");
    git(repo, "commit", "-qm", "sub");
    write(repo, "sub/x", "changed");
    assert.deepEqual(ours(repo), {});
    rmSync(join(repo, "sub"), { recursive: true });
    assert.deepEqual(ours(repo), {});
    mkdirSync(join(repo, "sub"));
    assert.deepEqual(ours(repo), {});
  });

  test("works on an unborn branch, in a linked worktree, with names that aren't UTF-8", () => {
    const repo = makeRepo();
    assert.deepEqual(ours(repo), {});
    write(repo, "f", "1");
    git(repo, "add", "f");
    assert.deepEqual(ours(repo), { f: "staged" });
    commit(repo, "base");
    git(repo, "worktree", "add", "-q", "--detach", "linked");
    assert.deepEqual(ours(join(repo, "linked")), {});
    write(repo, "linked/f", "2");
    assert.deepEqual(ours(join(repo, "linked")), { f: "modified" });
    assert.deepEqual(ours(repo), {});
  });

  test("counts every unmerged path once and stops at the limit", () => {
    const repo = fixture();
    git(repo, "checkout", "-qb", "other");
    commit(repo, "theirs", { "a.txt": "x\n", "dir/b.txt": "x\n" });
    git(repo, "checkout", "-q", "main");
    commit(repo, "ours", { "a.txt": "y\n", "dir/b.txt": "y\n" });
    assert.equal(tryGit(repo, ["merge", "-q", "other"]).status, 1);
    assert.deepEqual(ours(repo), { "a.txt": "unmerged", "dir/b.txt": "unmerged" });
    assert.equal(uncommittedChanges(openRepository(repo), { limit: 1 }).length, 1);
  });

  test("agrees with git status after generated edits", { timeout: 600_000 }, () => {
    const repo = fixture();
    const path = fc.constantFrom(
      "a.txt",
      "dir/b.txt",
      "dir/sub/c.txt",
      "empty",
      "run.sh",
      "new",
      "dir/new",
      "dir",
      "dir/sub",
      "other/x",
    );
    const command = fc.record({
      kind: fc.constantFrom(
        "write",
        "write",
        "append",
        "remove",
        "chmod",
        "link",
        "add",
        "add",
        "rm",
        "mkdir",
        "touch",
      ),
      path,
      text: fc.constantFrom("", "a\n", "b\n", "c\n", "other\n"),
    });
    fc.assert(
      fc.property(fc.array(command, { minLength: 1, maxLength: 8 }), (commands) => {
        rmSync(join(repo, "dir"), { recursive: true, force: true });
        rmSync(join(repo, "other"), { recursive: true, force: true });
        git(repo, "reset", "-q", "--hard");
        git(repo, "clean", "-qfdx");
        for (const { kind, path, text } of commands) {
          const full = join(repo, path);
          try {
            if (kind === "write") write(repo, path, text);
            if (kind === "append") appendFileSync(full, text);
            if (kind === "remove") rmSync(full, { recursive: true });
            if (kind === "chmod") chmodSync(full, 0o755);
            if (kind === "link") symlinkSync("a.txt", full);
            if (kind === "mkdir") mkdirSync(full, { recursive: true });
            if (kind === "touch") utimesSync(full, 7, 7);
          } catch {
            // The path is of another kind by now; the other commands still count.
          }
          if (kind === "add") tryGit(repo, ["add", "--", path]);
          if (kind === "rm") tryGit(repo, ["rm", "-rq", "--cached", "--", path]);
        }
        agree(repo);
      }),
      { numRuns: Number(process.env.AGENTQ_RUNS ?? 60) },
    );
  });
});

describe("operationInProgress()", () => {
  const operation = (repo: string) => operationInProgress(openRepository(repo))?.operation ?? null;

  test("names what git is in the middle of", () => {
    const repo = fixture();
    git(repo, "checkout", "-qb", "other");
    commit(repo, "theirs", { "a.txt": "x\n" });
    commit(repo, "theirs 2", { "a.txt": "xx\n" });
    const patch = git(repo, "format-patch", "-2", "--stdout");
    git(repo, "checkout", "-q", "main");
    commit(repo, "ours", { "a.txt": "y\n" });
    assert.equal(operation(repo), null);
    const cases: [string, string[], string[]][] = [
      ["merge", ["merge", "other"], ["merge", "--abort"]],
      ["cherry-pick", ["cherry-pick", "other~2..other"], ["cherry-pick", "--abort"]],
      ["revert", ["revert", "--no-edit", "other"], ["revert", "--abort"]],
      ["rebase", ["rebase", "other"], ["rebase", "--abort"]],
      ["rebase", ["rebase", "--apply", "other"], ["rebase", "--abort"]],
    ];
    for (const [expected, start, abort] of cases) {
      assert.notEqual(tryGit(repo, start).status, 0, start.join(" "));
      assert.equal(operation(repo), expected, start.join(" "));
      git(repo, ...abort);
      assert.equal(operation(repo), null);
    }
    assert.notEqual(tryGit(repo, ["am"], { input: patch }).status, 0);
    assert.equal(operation(repo), "am");
    git(repo, "am", "--abort");
    git(repo, "bisect", "start");
    assert.equal(operation(repo), "bisect");
    git(repo, "bisect", "reset");
    assert.equal(operation(repo), null);
  });

  test("sees a sequence that waits between two picks", () => {
    const repo = fixture();
    git(repo, "checkout", "-qb", "other");
    commit(repo, "one", { "a.txt": "x\n" });
    commit(repo, "two", { "n": "x\n" });
    git(repo, "checkout", "-q", "main");
    commit(repo, "ours", { "a.txt": "y\n" });
    assert.notEqual(tryGit(repo, ["cherry-pick", "other~2..other"]).status, 0);
    git(repo, "checkout", "--theirs", "a.txt");
    git(repo, "add", "a.txt");
    git(repo, "commit", "-qm", "resolved");
    assert.ok(readFileSync(join(repo, ".git/sequencer/todo"), "utf8").length > 0);
    assert.equal(operation(repo), "cherry-pick");
  });

  test("is this worktree's own affair", () => {
    const repo = fixture();
    git(repo, "branch", "other");
    git(repo, "worktree", "add", "-q", "linked", "other");
    write(join(repo, ".git/worktrees/linked"), "MERGE_HEAD", git(repo, "rev-parse", "HEAD") + "\n");
    assert.equal(operation(join(repo, "linked")), "merge");
    assert.equal(operation(repo), null);
  });
});
