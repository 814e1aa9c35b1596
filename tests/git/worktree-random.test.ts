import { describe, test } from "node:test";
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import fc from "fast-check";
import { openRepository } from "../../src/git/repository.ts";
import { prepareWorktree } from "../../src/git/worktree.ts";
import { commit, git, gitEnv, makeRepo, tempDir, write } from "../helpers/git.ts";
import { checkedOutByGit, snapshot } from "./worktree-helpers.ts";

const slow = { timeout: 600_000 };
const runs = Number(process.env.AGENTQ_RUNS ?? 15);

interface Edit {
  kind: string;
  path: string;
  text: string;
}

const path = fc.constantFrom(
  "a",
  "b",
  "d",
  "d/a",
  "d/b",
  "d/e",
  "d/e/f",
  "x.txt",
  "y.txt",
  "sub/x.txt",
  ".gitattributes",
  "sub/.gitattributes",
  "kept.o",
);
const text = fc.constantFrom(
  "",
  "1\n",
  "2\n",
  "a\r\nb\r\n",
  "a\nb\n",
  "*.txt eol=crlf\n",
  "*.txt -text\n",
  "x.txt text=auto\n",
  "a",
);
const edit = fc.record({
  kind: fc.constantFrom("write", "write", "write", "remove", "exec", "link", "move", "mkdir"),
  path,
  text,
});

function apply(root: string, edits: readonly Edit[]): void {
  for (const { kind, path, text } of edits) {
    const full = join(root, path);
    try {
      if (kind === "write") write(root, path, text);
      if (kind === "remove") rmSync(full, { recursive: true });
      if (kind === "exec") chmodSync(full, 0o755);
      if (kind === "move") renameSync(full, join(root, "moved"));
      if (kind === "mkdir") mkdirSync(full, { recursive: true });
      if (kind === "link") {
        rmSync(full, { recursive: true, force: true });
        symlinkSync(path.startsWith("d") ? "../a" : "d", full);
      }
    } catch {
      // The path, or one above it, is of another kind by now.
    }
  }
}

describe("prepareWorktree() on random histories", () => {
  test("gives what git checks out, whatever was done to the worktree before", slow, async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.record({
            commit: fc.array(edit, { minLength: 1, maxLength: 8 }),
            damage: fc.array(edit, { maxLength: 6 }),
          }),
          { minLength: 2, maxLength: 5 },
        ),
        async (steps) => {
          const repo = makeRepo();
          const dir = tempDir();
          const revisions: string[] = [];
          for (const step of steps) {
            apply(repo, step.commit);
            revisions.push(commit(repo, "step", { ".gitignore": "*.o\n" }));
          }
          // Forth and back, so that every kind of change is met in both directions.
          const walk = [...revisions, ...revisions.toReversed()];
          for (let i = 0; i < walk.length; i++) {
            const revision = walk[i]!;
            const repository = openRepository(repo);
            const worktree = await prepareWorktree(repository, dir, "verify", revision);
            const actual = snapshot(worktree.path);
            const expected = checkedOutByGit(repo, revision, join(tempDir(), "git"));
            // What is ignored stays, unless the commit has something else there.
            for (const left of Object.keys(actual)) {
              if (left.endsWith(".o") && expected[left] === undefined) delete actual[left];
            }
            assert.deepEqual(actual, expected);
            assert.equal(
              git(worktree.path, "write-tree"),
              git(repo, "rev-parse", `${revision}^{tree}`),
            );
            apply(worktree.path, steps[i % steps.length]!.damage);
            worktree.release();
            repository.close();
          }
        },
      ),
      { numRuns: runs },
    );
  });
});

describe("prepareWorktree() against SIGKILL", () => {
  const script = join(import.meta.dirname!, "worktree-child.ts");
  const flags = "Deno" in globalThis ? ["run", "-A", "--no-check"] : ["run"];

  /** Starts a process that prepares and holds a worktree; `kill` ends it and waits. */
  function start(args: string[]) {
    const child = spawn(process.execPath, [...flags, script, "prepare", ...args], {
      stdio: ["ignore", "pipe", "inherit"],
      env: gitEnv(),
    });
    const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
    const prepared = new Promise<void>((resolve) => {
      child.stdout.on("data", (chunk) => {
        if (String(chunk).includes("prepared")) resolve();
      });
    });
    return { prepared, exited, kill: () => child.kill("SIGKILL") };
  }

  test(
    "frees the worktree of a killed process and repairs what it left half done",
    slow,
    async () => {
      const files: Record<string, string> = {};
      for (let i = 0; i < 800; i++) files[`d${i % 30}/f${i}`] = `content ${i}\n`;
      const repo = makeRepo();
      const first = commit(repo, "many", files);
      for (let i = 0; i < 800; i += 2) files[`d${i % 30}/f${i}`] = `other ${i}\n`;
      const second = commit(repo, "half of them changed", files);
      const dir = tempDir();
      const expected = new Map([[first, checkedOutByGit(repo, first, join(tempDir(), "git"))], [
        second,
        checkedOutByGit(repo, second, join(tempDir(), "git")),
      ]]);
      for (let i = 0; i < 6; i++) {
        const revision = i % 2 === 0 ? first : second;
        const child = start([repo, dir, revision]);
        const path = join(dir, "verify");
        // Killed with some files written and some not, at another point each time.
        const watch = setInterval(() => {
          if (!existsSync(join(path, `d${i * 4}`)) && i < 2) return;
          clearInterval(watch);
          setTimeout(child.kill, i * 15);
        }, 1);
        await child.exited;
        clearInterval(watch);
        const repository = openRepository(repo);
        const worktree = await prepareWorktree(repository, dir, "verify", revision);
        assert.equal(worktree.name, "verify");
        assert.deepEqual(snapshot(worktree.path), expected.get(revision));
        assert.equal(git(worktree.path, "--no-optional-locks", "status", "--porcelain"), "");
        worktree.release();
        repository.close();
      }
    },
  );

  test("leaves a worktree to the living process that holds it", slow, async () => {
    const repo = makeRepo();
    const head = commit(repo, "one", { f: "1\n" });
    const dir = tempDir();
    const child = start([repo, dir, head]);
    await child.prepared;
    const repository = openRepository(repo);
    const second = await prepareWorktree(repository, dir, "verify", head);
    assert.equal(second.name, "verify-2");
    second.release();
    child.kill();
    await child.exited;
    const third = await prepareWorktree(repository, dir, "verify", head);
    assert.equal(third.name, "verify");
    third.release();
  });
});
