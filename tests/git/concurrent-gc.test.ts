import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { spawn } from "node:child_process";
import { test } from "node:test";
import process from "node:process";
import { mergeBases } from "../../src/git/history.ts";
import { openRepository } from "../../src/git/repository.ts";
import { updateRef } from "../../src/git/ref-update.ts";
import { commit, git, gitEnv, makeRepo } from "../helpers/git.ts";

/** Runs a shell script beside the test; `ended` settles when it has ended. */
function beside(
  dir: string,
  script: string,
): { done: () => boolean; ended: Promise<void> } {
  const child = spawn("sh", ["-c", script], {
    cwd: dir,
    env: gitEnv(),
    stdio: ["ignore", "ignore", "ignore"],
  });
  let over = false;
  const ended = new Promise<void>((resolve) =>
    child.on("close", () => {
      over = true;
      resolve();
    })
  );
  return { done: () => over, ended };
}

const rounds = Number(process.env.AGENTQ_TEST_RUNS ?? 4);

test("reading, walking, writing and moving refs while another git repacks, packs refs and prunes", async () => {
  const dir = makeRepo();
  for (let i = 0; i < 12; i++) {
    commit(dir, `c${i}`, { [`f${i % 3}`]: `content ${i}\n`.repeat(100) });
  }
  git(dir, "branch", "old", "HEAD~8");
  const oids = git(dir, "rev-list", "--objects", "--all").split("\n").map((line) =>
    line.slice(0, 40)
  );
  const head = git(dir, "rev-parse", "HEAD");
  const old = git(dir, "rev-parse", "old");
  // A git whose listed packs were put together by us meanwhile gives that repack up: no status to check.
  const other = beside(
    dir,
    `for i in $(seq ${rounds}); do
       git repack -Adfq --depth=$i; git pack-refs --all --prune; git commit -q --allow-empty -m "beside $i"
       git repack -dq; git commit-graph write --reachable; git prune --expire=1.hour.ago; git gc -q --prune=1.hour.ago
     done`,
  );
  const repository = openRepository(dir);
  const written: string[] = [];
  let turns = 0;
  let last: string | null = null;
  for (; !other.done(); turns++) {
    for (const oid of oids) assert.ok(repository.objects.read(oid).data.length >= 0);
    repository.objects.refresh();
    assert.deepEqual(mergeBases(repository.objects, head, old), [old]);
    written.push(repository.objects.write("blob", Buffer.from(`written ${turns}`)));
    repository.objects.batch(() => {
      for (const part of ["a", "b", "c"]) {
        written.push(repository.objects.write("blob", Buffer.from(`batch ${turns} ${part}`)));
      }
    });
    const next: string = turns % 2 === 0 ? head : old;
    updateRef(repository, {
      ref: "refs/remotes/origin/main",
      new: next,
      old: last,
      message: "test",
    });
    last = next;
    assert.equal(repository.refs.get("refs/remotes/origin/main"), next);
    assert.equal(repository.refs.get("refs/heads/old"), old);
    assert.ok(repository.refs.list("refs/heads/").length === 2);
    // Lets the child's end be noticed.
    await new Promise((resolve) => setImmediate(resolve));
  }
  await other.ended;
  assert.ok(turns > 1, String(turns));
  for (const oid of written) assert.equal(repository.objects.read(oid).type, "blob");
  assert.equal(git(dir, "rev-parse", "origin/main"), last);
  git(dir, "fsck", "--full", "--strict");
});
