import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, test } from "node:test";
import { isAgentqError } from "../../src/errors.ts";
import { openRepository } from "../../src/git/repository.ts";
import { resolveCommit, resolveRevision } from "../../src/git/revision.ts";
import { commit, git, makeRepo, tempDir, tryGit } from "../helpers/git.ts";

function fixture(): string {
  const origin = makeRepo();
  commit(origin, "one", { a: "1" });
  git(origin, "branch", "side");
  const base = tempDir();
  git(base, "clone", "-q", origin, "clone");
  const dir = join(base, "clone");
  git(dir, "checkout", "-q", "side");
  commit(dir, "side", { b: "1" });
  git(dir, "checkout", "-q", "main");
  commit(dir, "main", { a: "2" });
  git(dir, "merge", "-q", "--no-ff", "-m", "merge", "side");
  git(dir, "tag", "-a", "-m", "tag", "v1");
  git(dir, "tag", "-a", "-m", "tag of a tag", "v2", "v1");
  git(dir, "tag", "tree-tag", "HEAD^{tree}");
  git(dir, "tag", "light", "HEAD~1");
  // A tag and a branch of one name: git takes the tag.
  git(dir, "branch", "both", "HEAD~1");
  git(dir, "tag", "both", "HEAD");
  git(dir, "branch", "deadbeef", "HEAD~1");
  return dir;
}

describe("revisions, compared with git rev-parse", () => {
  const dir = fixture();
  const repository = openRepository(dir);
  const head = git(dir, "rev-parse", "HEAD");
  const known = [
    "HEAD",
    "@",
    "main",
    "heads/main",
    "refs/heads/main",
    "origin/main",
    "origin",
    "remotes/origin/main",
    "side",
    "v1",
    "v2",
    "tags/v1",
    "light",
    "both",
    "deadbeef",
    head,
    head.toUpperCase(),
    head.slice(0, 7),
    head.slice(0, 12),
    "HEAD^",
    "HEAD^1",
    "HEAD^2",
    "HEAD^0",
    "HEAD~",
    "HEAD~1",
    "HEAD~2",
    "HEAD~0",
    "HEAD^^",
    "HEAD^2~1",
    "HEAD~1^",
    "v1^{}",
    "v2^{}",
    "v2^{tag}",
    "v2^{commit}",
    "v2^{tree}",
    "v1^",
    "v2~1",
    "HEAD^{tree}",
    "HEAD^{commit}",
    "HEAD^{object}",
    "v1^0",
    "tree-tag",
    "tree-tag^{tree}",
    "@{u}",
    "@{upstream}",
    "@{UPSTREAM}",
    "main@{u}",
    "side@{upstream}",
    "main@{u}^{tree}",
    "@~1",
    "@^2",
    "HEAD@{u}",
    `v1-0-g${head.slice(0, 8)}`,
  ];
  for (const rev of known) {
    test(
      rev,
      () => assert.equal(resolveRevision(repository, rev), git(dir, "rev-parse", "--verify", rev)),
    );
  }

  const unknown = [
    "",
    "none",
    "HEAD^3",
    "HEAD~9",
    "refs/heads/none",
    "v1^{blob}",
    "tree-tag^{commit}",
    "tree-tag^",
    "both@{u}",
    "0000000",
    "f".repeat(39),
    "^HEAD",
    "~1",
    "HEAD^{nonsense}",
    "a..b",
    "HEAD:a",
    "-n",
    "--all",
    "../config",
    "config",
    "HEAD\0",
    "main@{none}",
  ];
  for (const rev of unknown) {
    test(`${JSON.stringify(rev)} is unknown`, () => {
      assert.throws(
        () => resolveRevision(repository, rev),
        (error) => isAgentqError(error, "revision-unknown"),
      );
    });
  }

  test("a full id need not exist to be an id, but must for a commit", () => {
    const oid = "a".repeat(40);
    assert.equal(resolveRevision(repository, oid), oid);
    assert.throws(
      () => resolveCommit(repository, oid),
      (error) => isAgentqError(error, "object-missing"),
    );
  });

  test("resolveCommit() takes tags off and refuses what is no commit", () => {
    assert.equal(resolveCommit(repository, "v2"), head);
    for (const rev of ["tree-tag", "HEAD^{tree}"]) {
      assert.throws(
        () => resolveCommit(repository, rev),
        (error) => isAgentqError(error, "revision-unknown"),
      );
    }
  });
});

test("a detached HEAD has no upstream; an unborn one has no commit", () => {
  const dir = makeRepo();
  const unborn = (error: unknown) => {
    assert.ok(isAgentqError(error, "revision-unknown"));
    assert.match(error.message, /without commits/);
    return true;
  };
  assert.throws(() => resolveCommit(openRepository(dir), "HEAD"), unborn);
  commit(dir, "one");
  git(dir, "checkout", "-q", "--detach");
  assert.throws(
    () => resolveRevision(openRepository(dir), "@{u}"),
    (error) => isAgentqError(error, "revision-unknown"),
  );
});

test("an upstream in the same repository", () => {
  const dir = makeRepo();
  const one = commit(dir, "one");
  git(dir, "checkout", "-q", "-b", "topic", "--track", "main");
  commit(dir, "two");
  assert.equal(resolveRevision(openRepository(dir), "@{u}"), one);
});

test("abbreviations: ambiguous ones name the candidates, a commit wins over other objects", () => {
  const dir = makeRepo();
  // Blobs whose ids share four digits; with a commit among them, the commit is meant.
  const blobs: string[] = [];
  for (let i = 0; blobs.length < 3000; i++) {
    blobs.push(`blob\nmark :${i + 1}\ndata ${String(i).length}\n${i}\n`);
  }
  assert.equal(tryGit(dir, ["fast-import", "--quiet"], { input: blobs.join("") }).status, 0);
  const oids = git(dir, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split(
    "\n",
  );
  const repository = openRepository(dir);
  const seen = new Map<string, string[]>();
  for (const oid of oids) seen.set(oid.slice(0, 4), [...(seen.get(oid.slice(0, 4)) ?? []), oid]);
  const shared = [...seen].find(([, list]) => list.length > 1)!;
  assert.throws(() => resolveRevision(repository, shared[0]), (error) => {
    assert.ok(isAgentqError(error, "revision-ambiguous"));
    assert.deepEqual(error.details?.candidates, shared[1].sort());
    return true;
  });
  let oid = "";
  for (let i = 0; !seen.has(oid.slice(0, 4)); i++) oid = commit(dir, `attempt ${i}`);
  assert.equal(resolveRevision(openRepository(dir), oid.slice(0, 4)), oid);
});
