/** Large checkouts: two threads write, and what a kill in the middle leaves is made good by the next. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, lstatSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { describe, test } from "node:test";
import { ENOUGH_TO_SHARE, startHelper } from "../../src/git/checkout-share.ts";
import { openRepository } from "../../src/git/repository.ts";
import { expandTree } from "../../src/git/tree-leaves.ts";
import { openWorkTree } from "../../src/git/work-tree.ts";
import { prepareWorktree } from "../../src/git/worktree.ts";
import { git, makeRepo, tempDir, tryGit, write } from "../helpers/git.ts";
import { checkedOutByGit, snapshot } from "./worktree-helpers.ts";

const slow = { timeout: 240_000 };
const FILES = ENOUGH_TO_SHARE + 1000;

/** A commit of many files, some of which are no plain ones, and one after it that changes all of them. */
function manyFiles(): { repo: string; first: string; second: string } {
  const repo = makeRepo();
  let stream = "";
  const commit = (message: string, text: (i: number) => string) => {
    stream +=
      `commit refs/heads/main\ncommitter A <a@b> 1700000000 +0000\ndata ${message.length}\n` +
      `${message}\n`;
    const put = (mode: string, path: string, content: string) => {
      stream += `M ${mode} inline ${path}\ndata ${content.length}\n${content}\n`;
    };
    for (let i = 0; i < FILES; i++) {
      put(i % 50 === 7 ? "100755" : "100644", `d${i % 30}/e${i % 7}/f${i}`, text(i));
    }
    put("100644", ".gitattributes", "*.crlf text eol=crlf\n*.id ident\n");
    put("100644", "d1/lines.crlf", "one\ntwo\n");
    put("100644", "d2/named.id", "$Id$\n");
    put("120000", "d3/link", "e3/f3");
    put("100644", ".gitignore", "ignored*\n");
  };
  commit("first", (i) => `content ${i}\n`.repeat(i % 40));
  commit("second", (i) => `content ${i}, changed\n`.repeat(i % 40));
  const run = tryGit(repo, ["fast-import", "--quiet", "--force"], { input: stream });
  assert.equal(run.status, 0, run.stderr);
  return { repo, first: git(repo, "rev-parse", "main~1"), second: git(repo, "rev-parse", "main") };
}

const fixture = manyFiles();

async function prepare(directory: string, commit: string) {
  const repository = openRepository(fixture.repo);
  const worktree = await prepareWorktree(repository, directory, "verify", commit);
  worktree.release();
  repository.close();
  assert.equal(git(worktree.path, "--no-optional-locks", "status", "--porcelain"), "");
  return worktree;
}

describe("a checkout of many files", () => {
  const expected = [fixture.first, fixture.second].map((commit) =>
    checkedOutByGit(fixture.repo, commit, join(tempDir(), "theirs"))
  );

  test("is what git makes of it, the first time and when all has changed", slow, async () => {
    const directory = tempDir();
    const { path, checkout } = await prepare(directory, fixture.first);
    assert.equal(checkout.written, FILES + 5);
    assert.deepEqual(snapshot(path), expected[0]);
    await prepare(directory, fixture.second);
    assert.deepEqual(snapshot(path), expected[1]);
  });

  test("removes what stands in the way, ignored or not", slow, async () => {
    const directory = tempDir();
    const { path } = await prepare(directory, fixture.first);
    for (const name of readdirSync(path)) {
      if (/^d/.test(name)) git(path, "rm", "-r", "-q", "--cached", name);
    }
    // An ignored file in place of a directory, and a directory in place of a file.
    git(path, "clean", "-q", "-ffdx");
    write(fixture.repo, ".git/info/exclude", "d4\nf5\n");
    writeFileSync(join(path, "d4"), "in the way\n");
    write(path, "d5/e5/f5/deeper/file", "in the way\n");
    const again = await prepare(directory, fixture.second);
    write(fixture.repo, ".git/info/exclude", "");
    assert.deepEqual(snapshot(again.path), expected[1]);
  });

  test(
    "the other thread does a share of its own, and nothing where something stands",
    slow,
    async () => {
      const repository = openRepository(fixture.repo);
      const { leaves } = expandTree(
        repository.objects,
        git(fixture.repo, "rev-parse", "main^{tree}"),
      );
      const plain = leaves.filter(({ path }) => /f\d+$/.test(path));
      const root = tempDir();
      write(root, "d0/e0/f0", "somebody's\n");
      const helper = startHelper(root, repository.objects.directories(), plain);
      assert.ok(helper, "this machine has one processor");
      // This thread takes nothing: the other gets to the end by itself.
      const files = openWorkTree(root);
      while (existsSync(root) && countFiles(root) < plain.length) {
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
      const stats = await helper.finish();
      assert.equal(stats.size, plain.length - 1);
      for (const [place, stat] of stats) {
        const { ino, size } = files.lstat(plain[place]!.path)!;
        assert.deepEqual([stat.ino, stat.size], [Number(ino & 0xffffffffn), Number(size)]);
      }
      assert.equal(lstatSync(join(root, "d0/e0/f0")).size, 11);
      assert.equal(helper.take(), null);
      repository.close();
    },
  );

  test("where the other thread finds no objects, this one writes everything", slow, async () => {
    const repository = openRepository(fixture.repo);
    const { leaves } = expandTree(
      repository.objects,
      git(fixture.repo, "rev-parse", "main^{tree}"),
    );
    const root = tempDir();
    const helper = startHelper(root, [join(root, "nowhere")], leaves);
    assert.ok(helper, "this machine has one processor");
    const stats = await helper.finish();
    assert.deepEqual([stats.size, readdirSync(root)], [0, []]);
    repository.close();
  });

  test("a kill in the middle is made good by the next run", slow, async () => {
    const directory = tempDir();
    let interrupted = 0;
    for (const [round, part] of [0.02, 0.3, 0.6, 0.9].entries()) {
      const commit = round % 2 ? fixture.second : fixture.first;
      const child = startChild(directory, commit);
      let ended = false;
      const exit = new Promise<void>((resolve) =>
        child.once("exit", () => {
          ended = true;
          resolve();
        })
      );
      while (!ended && countWritten(directory, commit) < FILES * part) {
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
      child.kill("SIGKILL");
      await exit;
      const left = snapshot(join(directory, "verify"));
      const whole = expected[round % 2]!;
      if (Object.keys(whole).some((path) => left[path] !== whole[path])) interrupted++;
    }
    assert.ok(interrupted > 0, "no run was killed in the middle");
    const { path } = await prepare(directory, fixture.first);
    assert.deepEqual(snapshot(path), expected[0]);
    assert.deepEqual(readdirSync(directory).filter((name) => name !== "verify.beat"), ["verify"]);
    const { gitDir } = openRepository(path);
    assert.deepEqual(readdirSync(gitDir).filter((name) => /lock|agentq-/.test(name)), []);
  });
});

function countFiles(root: string): number {
  return readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile()).length;
}

/** How many files of `commit` there are, judged by the sizes of a sample. */
function countWritten(directory: string, commit: string): number {
  const root = join(directory, "verify");
  const size = (i: number) =>
    `content ${i}${commit === fixture.second ? ", changed" : ""}\n`.length * (i % 40);
  let seen = 0;
  let looked = 0;
  for (let i = 1; i < FILES; i += 37) {
    if (i % 40 === 0) continue;
    looked++;
    const stat = lstatSync(join(root, `d${i % 30}/e${i % 7}/f${i}`), { throwIfNoEntry: false });
    if (stat?.size === size(i)) seen++;
  }
  return (seen / looked) * FILES;
}

function startChild(directory: string, commit: string) {
  const script = join(import.meta.dirname!, "worktree-child.ts");
  const run = "deno" in process.versions ? ["run", "-A", "--no-check", script] : [script];
  return spawn(process.execPath, [...run, "prepare", fixture.repo, directory, commit], {
    stdio: "ignore",
  });
}
