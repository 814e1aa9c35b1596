import { test } from "node:test";
import assert from "node:assert/strict";
import { initRepository } from "../../src/git/init.ts";
import { isAgentqError } from "../../src/errors.ts";
import { commit, git, tempDir } from "../helpers/git.ts";

test("initRepository() makes what git takes for a repository of its own", () => {
  const dir = tempDir();
  initRepository(dir, { bare: false, branch: "trunk" });
  commit(dir, "one", { a: "1" });
  assert.equal(git(dir, "symbolic-ref", "HEAD"), "refs/heads/trunk");
  git(dir, "fsck", "--strict");
});

test("initRepository() makes bare ones, and never touches an existing repository", () => {
  const dir = tempDir();
  initRepository(dir, { bare: true, branch: "main", config: "[receive]\n\tdenyDeletes = true\n" });
  assert.equal(git(dir, "rev-parse", "--is-bare-repository"), "true");
  assert.equal(git(dir, "config", "receive.denyDeletes"), "true");
  assert.throws(
    () => initRepository(dir, { bare: true, branch: "other" }),
    (error) => isAgentqError(error, "io-error"),
  );
  assert.equal(git(dir, "symbolic-ref", "HEAD"), "refs/heads/main");
});
