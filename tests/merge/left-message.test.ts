/** The message of a merge that is left in progress, beside the one that git writes in a copy. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { cpSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { mergeMessage } from "../../src/git/merge-state.ts";
import { openRepository } from "../../src/git/repository.ts";
import type { Origin } from "../../src/git/types.ts";
import { leaveRefusedMerge } from "../../src/landing/leave-merge.ts";
import { commit, git, makeRepo, tempDir, tryGit } from "../helpers/git.ts";
import { rawBlob, rawTree } from "../git/worktree-helpers.ts";

const slow = { timeout: 300_000 };

/** Nothing has to be fetched. */
const origin = { fetch: () => assert.fail("nothing is missing") } as unknown as Origin;

/** A clone on `branch` (null: detached) whose merge with origin/main has a conflict in each of `names`. */
function clone(branch: string | null, names: readonly string[] = ["f"]): string {
  const dir = makeRepo();
  const at = (content: string): string =>
    rawTree(
      dir,
      [...names].sort().map((name) => ({ mode: "100644", name, oid: rawBlob(dir, content) })),
    );
  const made = (content: string, ...parents: string[]): string =>
    git(dir, "commit-tree", "-m", content, ...parents.flatMap((p) => ["-p", p]), at(content));
  const base = made("base\n");
  git(dir, "update-ref", "refs/remotes/origin/main", made("theirs\n", base));
  const ours = made("ours\n", base);
  git(dir, "update-ref", "--no-deref", "HEAD", ours);
  if (branch === null) git(dir, "checkout", "-q", "--detach", ours);
  else {
    git(dir, "update-ref", branch, ours);
    git(dir, "symbolic-ref", "HEAD", branch);
  }
  git(dir, "reset", "-q", "--hard");
  return dir;
}

/** Git's message; ours must be the same, byte by byte. */
async function agree(dir: string): Promise<string> {
  const byGit = join(tempDir(), "by-git");
  cpSync(dir, byGit, { recursive: true });
  git(byGit, "reset", "-q", "--hard");
  const run = tryGit(byGit, ["merge", "--no-edit", "origin/main"]);
  assert.equal(run.status, 1, run.stderr);
  const repository = openRepository(dir);
  const left = await leaveRefusedMerge(origin, repository, {
    candidate: git(dir, "rev-parse", "HEAD"),
    tip: git(dir, "rev-parse", "origin/main"),
    label: "origin/main",
  });
  repository.close();
  assert.equal(left.left, true, JSON.stringify(left));
  const [own, expected] = [dir, byGit].map((d) =>
    readFileSync(join(d, ".git/MERGE_MSG"), "latin1")
  );
  assert.equal(own, expected);
  return own!;
}

describe("MERGE_MSG is what git writes", () => {
  test("names the branch that is merged into", slow, async () => {
    for (const branch of ["main", "master", "work", "a/b", "Ünï"]) {
      await agree(clone(`refs/heads/${branch}`));
    }
    assert.match(await agree(clone("refs/heads/work")), / into work\n/);
    assert.match(await agree(clone(null)), / into HEAD\n/);
    assert.match(await agree(clone("refs/outside/heads")), / into refs\/outside\/heads\n/);
  });

  test("leaves out the branches of merge.suppressDest", slow, async () => {
    for (
      const [branch, ...patterns] of [
        ["work", "work"],
        ["work", "*"],
        ["work", "WORK"],
        ["work", "w[aeo]rk"],
        ["work", "work", ""],
        ["work", "", "other", "wo*"],
        ["a/b", "*"],
        ["a/b", "a/*"],
        ["a/b", "**"],
        ["master", ""],
        ["master", "other"],
        ["main", ""],
        ["main", "other"],
        ["Ünï", "?nï"],
        ["Ünï", "*nï"],
      ]
    ) {
      const dir = clone(`refs/heads/${branch}`);
      for (const pattern of patterns) git(dir, "config", "--add", "merge.suppressDest", pattern);
      await agree(dir);
    }
    const dir = clone(null);
    git(dir, "config", "merge.suppressDest", "HEAD");
    assert.doesNotMatch(await agree(dir), / into /);
  });

  test("comments out every line of a file's name", slow, async () => {
    const names = ["a\nReviewed-by: boss", "b\n\n\ttab\n end", "c\rSigned-off-by: boss", "d\\n"];
    for (const char of ["#", ";"]) {
      const dir = clone("refs/heads/work", names);
      git(dir, "config", "core.commentChar", char);
      const message = await agree(dir);
      for (const line of message.trimEnd().split("\n").slice(2)) assert.equal(line[0], char);
    }
    const dir = clone("refs/heads/work", names);
    await agree(dir);
    git(dir, "add", "-A");
    // Without an editor git leaves the comments in, and they must be that.
    git(dir, "commit", "-q", "--no-edit");
    assert.equal(git(dir, "log", "-1", "--format=%(trailers)"), "");
  });

  test("has names that are UTF-8 as they are", slow, async () => {
    await agree(clone("refs/heads/work", [Buffer.from("Ünï ✓").toString("latin1")]));
  });
});

test("mergeMessage() has the bytes of names that are no UTF-8", () => {
  const dir = makeRepo();
  commit(dir, "base");
  const repository = openRepository(dir);
  const message = mergeMessage(repository.config, {
    message: "Merge ü",
    conflicts: ["\xff\xfe", "\xc3\xbf\xc3\xbe"],
  });
  repository.close();
  assert.equal(
    message.toString("latin1"),
    "Merge \xc3\xbc\n\n# Conflicts:\n#\t\xff\xfe\n#\t\xc3\xbf\xc3\xbe\n",
  );
});
