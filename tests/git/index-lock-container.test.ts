/** The lock of a clone's index, held by a process in another container that is stopped or killed. */
import assert from "node:assert/strict";
import fs from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { isAgentqError } from "../../src/errors.ts";
import { type IndexHome, lockIndex } from "../../src/git/index-file.ts";
import { openRepository } from "../../src/git/repository.ts";
import { holder } from "../helpers/containers.ts";
import { commit, git, makeRepo, tempDir } from "../helpers/git.ts";

const script = fileURLToPath(new URL("./index-lock-child.ts", import.meta.url));

const held = (directory: string, ...how: string[]) => holder(script, directory, ...how);

const left = (gitDir: string) =>
  fs.readdirSync(gitDir).filter((name) => /^agentq-|\.lock$|^\.agentq/.test(name)).sort();

function locked(repository: IndexHome, words: RegExp): void {
  assert.throws(
    () => lockIndex(join(repository.gitDir, "index"), repository),
    (error) => isAgentqError(error, "index-locked") && words.test(error.message),
  );
}

function clones(): string[] {
  const repo = makeRepo();
  commit(repo, "one", { f: "1" });
  const linked = join(tempDir(), "linked");
  git(repo, "worktree", "add", "-q", linked);
  return [repo, linked];
}

test("killed: the next takes it, and nothing stays; stopped: it isn't robbed", async () => {
  for (const directory of clones()) {
    const repository = openRepository(directory);
    const { gitDir } = repository;
    const owner = await held(directory);
    process.kill(owner.pid, "SIGSTOP");
    for (let i = 0; i < 50; i++) locked(repository, /holds it/);
    assert.equal(left(gitDir).length, 2, "its lock and its sign of life alone");
    await owner.kill();
    const lock = lockIndex(join(gitDir, "index"), repository);
    assert.equal(left(gitDir).length, 2, "those of this process");
    locked(repository, /holds it/);
    lock.release();
    assert.deepEqual(left(gitDir), []);
  }
});

test("one without a sign of life proves nothing, nor does a lock without its sign", async () => {
  const [directory] = clones() as [string];
  const repository = openRepository(directory);
  await (await held(directory, "bare")).kill();
  locked(repository, /nobody can tell/);
  fs.rmSync(join(repository.gitDir, "index.lock"));
  await (await held(directory)).kill();
  for (const name of left(repository.gitDir)) {
    if (name.startsWith("agentq-life-")) fs.rmSync(join(repository.gitDir, name));
  }
  locked(repository, /nobody can tell/);
  assert.deepEqual(left(repository.gitDir), ["index.lock"]);
});
