/** `GIT_NAMESPACE` leads git to other refs of a repository on disk. It is never passed over in silence. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { isAgentqError } from "../../../src/errors.ts";
import { openOrigin } from "../../../src/git/origin.ts";
import { commit, git, makeRepo, tempDir } from "../../helpers/git.ts";

test("an origin on disk isn't opened while GIT_NAMESPACE is set; an empty one is none", async () => {
  const work = makeRepo();
  const first = commit(work, "first", { "a.txt": "a\n" });
  const root = tempDir();
  git(root, "clone", "-q", "--bare", work, "repo.git");
  const path = join(root, "repo.git");
  for (const url of [path, `file://${path}`]) {
    await assert.rejects(openOrigin(url, { env: { GIT_NAMESPACE: "foo" } }), (error) => {
      assert.ok(isAgentqError(error, "config-invalid"), String(error));
      assert.match(error.message, /GIT_NAMESPACE .*"foo"/);
      return true;
    });
    const origin = await openOrigin(url, { env: { GIT_NAMESPACE: "" } });
    assert.equal((await origin.refs(["refs/heads/"])).refs.get("refs/heads/main"), first);
    origin.close();
  }
  // A server's namespace is its own affair.
  (await openOrigin("git://127.0.0.1:9/repo.git", { env: { GIT_NAMESPACE: "foo" } })).close();
});
