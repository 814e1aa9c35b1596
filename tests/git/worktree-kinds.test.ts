/** A path that becomes something of another kind: in a merge left in progress, when it is undone, in a checkout. */
import assert from "node:assert/strict";
import { cpSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { checkoutTree } from "../../src/git/checkout.ts";
import { leaveMergeInProgress } from "../../src/git/in-progress.ts";
import { recoverMerge } from "../../src/git/in-progress-journal.ts";
import { openRepository } from "../../src/git/repository.ts";
import { mergeCommits } from "../../src/merge/merge-commits.ts";
import { overlay } from "../../src/merge/overlay.ts";
import { repositoryMergeOptions } from "../../src/merge/repository-options.ts";
import { git, makeRepo, tempDir, tryGit } from "../helpers/git.ts";
import { rawBlob, snapshot } from "./worktree-helpers.ts";

const slow = { timeout: 300_000 };
const SUBMODULES = ["1", "2", "3"].map((digit) => digit.repeat(40));

/** What stands at `lib`, by kind: index entries, with content that says which of three versions it is. */
const KINDS: Record<string, (repo: string, version: number) => string[]> = {
  nothing: () => [],
  file: (repo, n) => [`100644 ${rawBlob(repo, `file ${n}\n`)}\tlib`],
  executable: (repo, n) => [`100755 ${rawBlob(repo, `#!/bin/sh\n: ${n}\n`)}\tlib`],
  link: (repo, n) => [`120000 ${rawBlob(repo, `f-${n}`)}\tlib`],
  submodule: (_, n) => [`160000 ${SUBMODULES[n]}\tlib`],
  directory: (repo, n) => [
    `100644 ${rawBlob(repo, `inner ${n}\n`)}\tlib/inner`,
    `100644 ${rawBlob(repo, `deep ${n}\n`)}\tlib/deep/er`,
  ],
  "directory of submodules": (_, n) => [
    `160000 ${SUBMODULES[n]}\tlib/a`,
    `160000 ${SUBMODULES[n]}\tlib/deep/b`,
  ],
};
const NAMES = Object.keys(KINDS);

/** A commit with `lib` of that kind, and a file `f` in conflict between versions. */
function commitOf(repo: string, kind: string, version: number, parents: string[]): string {
  git(repo, "read-tree", "--empty");
  const entries = [
    ...KINDS[kind]!(repo, parents.length === 0 ? 0 : version),
    `100644 ${rawBlob(repo, `version ${version}\n`)}\tf`,
    `100644 ${rawBlob(repo, "beside\n")}\tlib.txt`,
  ];
  const run = tryGit(repo, ["update-index", "--add", "--index-info"], {
    input: entries.map((line) => line + "\n").join(""),
  });
  assert.equal(run.status, 0, run.stderr);
  const tree = git(repo, "write-tree");
  return git(
    repo,
    "commit-tree",
    "-m",
    `${kind} ${version}`,
    ...parents.flatMap((p) => ["-p", p]),
    tree,
  );
}

/** A clone of which HEAD is one side; the same kind on a side and in the base is the same content. */
function clone(base: string, ours: string, theirs: string): string {
  const repo = makeRepo();
  const root = commitOf(repo, base, 0, []);
  const side = (kind: string, version: number): string => {
    if (kind !== base) return commitOf(repo, kind, version, [root]);
    // Only `f` differs.
    git(repo, "read-tree", root);
    git(repo, "update-index", "--cacheinfo", `100644,${rawBlob(repo, `version ${version}\n`)},f`);
    return git(repo, "commit-tree", "-m", "same", "-p", root, git(repo, "write-tree"));
  };
  git(repo, "update-ref", "refs/heads/other", side(theirs, 2));
  git(repo, "update-ref", "refs/heads/main", side(ours, 1));
  git(repo, "reset", "-q", "--hard");
  return repo;
}

const seen = (repo: string) => ({
  files: snapshot(repo),
  index: git(repo, "ls-files", "-s"),
  status: git(repo, "status", "--porcelain=v2", "-uall"),
});

function mergeOf(repo: string) {
  const repository = openRepository(repo);
  const scratch = overlay(repository.objects);
  const merged = mergeCommits(
    scratch,
    git(repo, "rev-parse", "main"),
    git(repo, "rev-parse", "other"),
    { ...repositoryMergeOptions(repository), labels: { ours: "HEAD", theirs: "other" } },
  );
  return { repository, scratch, merged };
}

function copyOf(repo: string): string {
  const copy = join(tempDir(), "copy");
  cpSync(repo, copy, { recursive: true, verbatimSymlinks: true });
  tryGit(copy, ["update-index", "-q", "--refresh"]);
  return copy;
}

/** As if the writer had been killed before the index was in place, with the files as they are in `repo`. */
function interrupted(repo: string, index: Uint8Array, merge: { tree: string }): string[] {
  for (const name of ["MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "AUTO_MERGE", "ORIG_HEAD"]) {
    rmSync(join(repo, ".git", name), { force: true });
  }
  writeFileSync(join(repo, ".git/index"), index);
  const journal = {
    v: 1,
    nonce: "0123456789abcdef",
    ours: git(repo, "rev-parse", "main"),
    theirs: git(repo, "rev-parse", "other"),
    tree: merge.tree,
    message: "m",
    conflicts: ["f"],
  };
  writeFileSync(join(repo, ".git/agentq-merge"), JSON.stringify(journal));
  const repository = openRepository(repo);
  const { outcome, paths } = recoverMerge(repository);
  repository.close();
  return [outcome, ...paths];
}

/** Both merge `other`: git in a copy, we in the clone. Then it is undone, from two points of progress. */
async function agree(base: string, ours: string, theirs: string): Promise<void> {
  const name = `${base}: ${ours} and ${theirs}`;
  const repo = clone(base, ours, theirs);
  const before = seen(repo);
  const index = readFileSync(join(repo, ".git/index"));
  const byGit = copyOf(repo);
  const run = tryGit(byGit, ["merge", "--no-edit", "other"]);
  assert.equal(run.status, 1, `${name}: ${run.stderr}`);
  const { repository, scratch, merged } = mergeOf(repo);
  const outcome = await leaveMergeInProgress(repository, merged, {
    objects: scratch,
    message: "m",
  });
  repository.close();
  assert.equal(outcome.left, true, `${name}: ${JSON.stringify(outcome)}`);
  assert.deepEqual(seen(repo), seen(byGit), name);
  // All of `lib` changes when only they replaced it: its old files may be gone and no new ones there yet.
  for (const removed of ours === base ? [false, true] : [false]) {
    const copy = copyOf(repo);
    if (removed) rmSync(join(copy, "lib"), { recursive: true, force: true });
    assert.deepEqual(interrupted(copy, index, merged), ["undone"], name);
    assert.deepEqual(seen(copy), before, `${name}, undone${removed ? " halfway" : ""}`);
  }
  git(repo, "merge", "--abort");
  git(byGit, "merge", "--abort");
  assert.deepEqual(seen(repo), seen(byGit), `${name}, aborted`);
}

describe("a path that becomes something else, beside a conflict, is what git merge leaves", () => {
  for (const before of NAMES) {
    test(`${before} replaced by them`, slow, async () => {
      for (const after of NAMES) if (after !== before) await agree(before, before, after);
    });
  }
  test("replaced by both", slow, async () => {
    for (const base of NAMES) {
      const others = NAMES.filter((kind) => kind !== base);
      const at = NAMES.indexOf(base) % others.length;
      const pairs = others.map((ours, i) => [ours, others[(i + at) % others.length]!] as const);
      for (const [ours, theirs] of pairs) await agree(base, ours, theirs);
    }
  });

  test("but a submodule that is checked out is kept whole", slow, async () => {
    for (const after of ["file", "executable", "link"]) {
      const repo = clone("submodule", "submodule", after);
      makeRepo(join(repo, "lib"));
      const all = () => ({ ...snapshot(repo), ...snapshot(join(repo, "lib/.git")) });
      const before = all();
      const { repository, scratch, merged } = mergeOf(repo);
      const outcome = await leaveMergeInProgress(repository, merged, {
        objects: scratch,
        message: "m",
      });
      repository.close();
      assert.equal(outcome.left ? "left" : outcome.reason, "untracked files");
      assert.deepEqual(outcome.left ? [] : outcome.paths, ["lib"]);
      assert.deepEqual(all(), before);
    }
  });
});

describe("a checkout turns each kind into each other", () => {
  for (const before of NAMES) {
    test(`from ${before}`, slow, async () => {
      for (const after of NAMES) {
        const repo = clone("nothing", before, after);
        const byGit = copyOf(repo);
        git(byGit, "reset", "-q", "--hard", "other");
        const repository = openRepository(repo);
        await checkoutTree(repository, git(repo, "rev-parse", "other^{tree}"));
        repository.close();
        git(repo, "reset", "-q", "--soft", "other");
        assert.deepEqual(seen(repo), seen(byGit), `${before} to ${after}`);
      }
    });
  }
});
