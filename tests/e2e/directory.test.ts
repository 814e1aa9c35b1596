/** A current directory that was deleted: an agent's worktree removed under its shell. */
import assert from "node:assert/strict";
import { tempDir } from "../helpers/git.ts";
import { type Agent, agentCommit, makeAgent, type Run, run } from "./harness/agent.ts";
import { makeOrigin } from "./harness/origin.ts";
import { scenario } from "./harness/scenario.ts";

/** Runs the binary in a directory that is gone by the time it starts. */
function runNowhere(agent: Agent, args: readonly string[], env = {}): Promise<Run> {
  return run(agent, args, {
    cwd: tempDir("agentq-gone-"),
    env: { PATH: "/usr/bin:/bin", ...env },
    wrapper: ["/bin/sh", "-c", 'mkdir gone && cd gone && rmdir ../gone && exec "$0" "$@"'],
  });
}

scenario("what needs a deleted current directory says so, on stdout with --json", async () => {
  const agent = makeAgent(makeOrigin());
  for (
    const args of [
      ["submit"],
      ["status"],
      ["log"],
      ["wait", "0"],
      ["land"],
      ["cancel", "0"],
      ["merge-tree", "HEAD", "HEAD"],
      ["status", "--repo", "clone"],
      ["status", "--remote", "../origin.git"],
      ["status", "--state", "state", "--repo", agent.dir],
      ["store", "check", "--store", "store"],
      ["queue", "ls", "--backend", "sqlite:file"],
    ]
  ) {
    const said = await runNowhere(agent, [...args, "--json"]);
    assert.equal(said.status, 2, `${args.join(" ")}: ${said.stderr}`);
    assert.equal(said.json.error.code, "current-directory-gone", args.join(" "));
    assert.match(said.json.error.message, /^the current directory was deleted: \/.*\/gone$/);
  }
  const prose = await runNowhere(agent, ["submit"]);
  assert.equal(prose.status, 2);
  assert.equal(prose.stdout, "");
  assert.match(prose.stderr, /^agentq: the current directory was deleted.*\nhint: /);
});

scenario("what needs none works there", async () => {
  const origin = makeOrigin();
  const agent = makeAgent(origin);
  const candidate = agentCommit(agent, { "new.txt": "new\n" });
  const version = await runNowhere(agent, ["--version"]);
  assert.match(version.stdout, /^agentq \d/);
  const repo = ["--repo", agent.dir, "--json"];
  const submitted = await runNowhere(agent, ["submit", "--verify-cmd", "test -f new.txt", ...repo]);
  assert.equal(submitted.status, 0, submitted.stderr + submitted.stdout);
  assert.equal(submitted.json.landed, candidate);
  const status = await runNowhere(agent, ["status", "--remote", origin.url, "--json"]);
  assert.equal(status.json.snapshot.tip, candidate);
  const set = await runNowhere(agent, ["show", "0", "--json"], { AGENTQ_REPO: agent.dir });
  assert.equal(set.status, 0, set.stderr + set.stdout);
});

scenario("outside of a clone, a remote's name is answered with the way into one", async () => {
  const agent = makeAgent(makeOrigin());
  const said = await run(agent, ["status", "--json"], { cwd: tempDir("agentq-outside-") });
  assert.equal(said.status, 2);
  assert.equal(said.json.error.code, "not-a-repository");
  assert.match(said.json.error.hint, /--repo DIR.*--remote URL/);
});
