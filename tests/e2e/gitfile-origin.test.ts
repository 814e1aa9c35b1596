/** Origins on disk that lie behind a `.git` file: landed on as any other, their own rules kept. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { git, tempDir } from "../helpers/git.ts";
import { agentCommit, makeAgent, run, runJson } from "./harness/agent.ts";
import { doctor } from "./harness/doctor.ts";
import { checkLaws } from "./harness/laws.ts";
import { logLines, makeOrigin, tipOf } from "./harness/origin.ts";
import { scenario } from "./harness/scenario.ts";

scenario("a linked worktree of the origin is the same queue, hooks and lock included", async () => {
  const origin = makeOrigin();
  const linked = join(tempDir(), "linked");
  git(origin.dir, "worktree", "add", "-q", "--detach", linked);
  const byPath = makeAgent(origin);
  const byTree = makeAgent(origin);
  git(byTree.dir, "config", "remote.origin.url", linked);
  const landed: string[] = [];
  for (const [i, agent] of [byPath, byTree, byPath, byTree].entries()) {
    git(agent.dir, "pull", "-q", "--ff-only", origin.dir, origin.branch);
    const commit = agentCommit(agent, { [`f${i}`]: `${i}\n` });
    assert.equal((await runJson(agent, ["submit"])).landed, commit);
    landed.push(commit);
    assert.equal(tipOf(origin), commit);
    for (const url of [linked, `file://${linked}`, `${linked}/.git`]) {
      const status = await runJson(byTree, ["status", "--remote", url]);
      assert.equal(status.snapshot.tip, commit, url);
    }
  }
  assert.equal(logLines(origin.movesLog).length, landed.length);
  assert.ok((await doctor(byTree)).ok);
  checkLaws(origin);
});

scenario(
  "the branch that a work tree behind a `.git` file has checked out is refused",
  async () => {
    const origin = makeOrigin();
    const a = makeAgent(origin);
    const at = tempDir();
    git(at, "clone", "-q", "--separate-git-dir", join(at, "apart"), origin.dir, "tree");
    git(a.dir, "config", "remote.origin.url", join(at, "tree"));
    const commit = agentCommit(a, { "a.txt": "a\n" });
    const { error } = await runJson(a, ["submit"], 2);
    assert.equal(error.code, "push-refused");
    assert.match(error.message, /denyCurrentBranch/);
    git(join(at, "tree"), "checkout", "-q", "--detach");
    assert.equal((await runJson(a, ["land"])).landed, commit);
    assert.equal(git(join(at, "tree"), "rev-parse", origin.branch), commit);
  },
);

scenario("a `.git` file that leads nowhere is named, by doctor too", async () => {
  const a = makeAgent(makeOrigin());
  const at = tempDir();
  writeFileSync(join(at, ".git"), "gitdir: nowhere\n");
  agentCommit(a, { "a.txt": "a\n" });
  for (const args of [["status"], ["submit", "--no-wait"]]) {
    const { error } = await runJson(a, [...args, "--remote", at], 2);
    assert.equal(error.code, "origin-not-found");
    assert.ok(error.message.includes(`${at}/.git points to ${at}/nowhere`), error.message);
  }
  const { of } = await doctor(a, ["--remote", at]);
  assert.match(of("origin").message, /\.git points to/);
  const named = await run(a, ["status", "--repo", join(at, ".git"), "--json"], { cwd: "/" });
  assert.equal(named.json.error.code, "not-a-repository");
});
