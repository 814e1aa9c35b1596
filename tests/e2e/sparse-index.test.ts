/** Clones whose index git keeps sparse or in two files: submitting, a merge left in progress, and git going on from there. */
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { git, tryGit, write } from "../helpers/git.ts";
import { type Agent, agentCommit, makeAgent, run, runJson } from "./harness/agent.ts";
import { checkLaws } from "./harness/laws.ts";
import {
  makeOrigin,
  pushOutside,
  SHARED_FILE,
  type TestOrigin,
  tipOf,
  verifyCommand,
} from "./harness/origin.ts";
import { scenario } from "./harness/scenario.ts";

const FILES = {
  "in/shared": SHARED_FILE,
  "out/deep/x": "x\n",
  "out/y": "y\n",
  "more/z": "z\n",
};
const SERVING = { "uploadpack.allowFilter": "true", "uploadpack.allowAnySHA1InWant": "true" };
const edited = (text: string) => SHARED_FILE.replace("line 4\n", `${text}\n`);

function sparse(origin: TestOrigin, ...clone: string[]): Agent {
  const agent = makeAgent(origin, { clone });
  git(agent.dir, "sparse-checkout", "set", "--cone", "--sparse-index", "in");
  assert.match(git(agent.dir, "ls-files", "--sparse"), /^out\/$/m);
  return agent;
}

function split(origin: TestOrigin): Agent {
  const agent = makeAgent(origin);
  git(agent.dir, "config", "core.splitIndex", "true");
  git(agent.dir, "update-index", "--split-index");
  assert.equal(
    readdirSync(join(agent.dir, ".git")).some((name) => name.startsWith("sharedindex.")),
    true,
  );
  return agent;
}

const KINDS: [string, (origin: TestOrigin) => Agent][] = [
  ["a sparse index", (origin) => sparse(origin)],
  [
    "a sparse index in a partial clone",
    (origin) => sparse(origin, "--filter=blob:none", "--sparse"),
  ],
  ["a split index", split],
];

for (const [kind, make] of KINDS) {
  scenario(`${kind}: submitted from, also offline, and never with changes`, async () => {
    const origin = makeOrigin({ files: FILES, config: SERVING });
    const a = make(origin);
    agentCommit(a, { "in/a": "a\n" });
    const result = await runJson(a, ["submit", "--verify-cmd", verifyCommand(origin)]);
    assert.equal(result.outcome, "landed", result.report);
    agentCommit(a, { "in/b": "b\n" });
    write(a.dir, "in/shared", "changed\n");
    assert.match((await run(a, ["submit"])).stderr, /uncommitted changes .*in\/shared/);
    git(a.dir, "checkout", "-q", "--", "in/shared");
    write(a.dir, "out/y", "there and changed\n");
    assert.match((await run(a, ["submit"])).stderr, /uncommitted changes .*out\/y/);
    git(a.dir, "-c", "advice.updateSparsePath=false", "checkout", "-q", "HEAD", "--", "out/y");
    write(a.dir, "out/y", "y\n");
    const offline = await runJson(a, ["submit", "--offline"]);
    assert.equal(offline.outcome, "landed", JSON.stringify(offline));
    checkLaws(origin);
  });

  scenario(`${kind}: a conflict is left in progress, taken back, and settled`, async () => {
    const origin = makeOrigin({ files: FILES, config: SERVING });
    const a = make(origin);
    agentCommit(a, { "in/shared": edited("mine") });
    const outside = pushOutside(origin, {
      "in/shared": edited("theirs"),
      "out/deep/x": "changed\n",
      "out/new": "new\n",
    });
    const head = git(a.dir, "rev-parse", "HEAD");
    const listed = git(a.dir, "ls-files", "-s", "-t");
    for (let time = 0; time < 2; time++) {
      const refused = await runJson(a, time === 0 ? ["submit"] : ["submit", "--again"], 1);
      assert.equal(refused.reason, "merge refused");
      assert.equal(git(a.dir, "rev-parse", "MERGE_HEAD"), tipOf(origin));
      assert.match(git(a.dir, "status", "--porcelain"), /^UU in\/shared$/m);
      assert.equal(existsSync(join(a.dir, "out/new")), kind === "a split index");
      if (time > 0) break;
      git(a.dir, "merge", "--abort");
      assert.equal(git(a.dir, "rev-parse", "HEAD"), head);
      assert.equal(git(a.dir, "ls-files", "-s", "-t"), listed);
      assert.equal(git(a.dir, "status", "--porcelain"), "");
    }
    write(a.dir, "in/shared", edited("mine\ntheirs"));
    git(a.dir, "add", "in/shared");
    git(a.dir, "commit", "-q", "--no-edit");
    assert.equal(git(a.dir, "status", "--porcelain"), "");
    assert.equal((await runJson(a, ["submit"])).outcome, "landed");
    if (kind !== "a split index") {
      assert.match(git(a.dir, "ls-files", "--sparse"), /^out\/$/m);
      git(a.dir, "sparse-checkout", "disable");
    }
    assert.equal(readFileSync(join(a.dir, "out/deep/x"), "utf8"), "changed\n");
    assert.equal(git(a.dir, "status", "--porcelain"), "");
    assert.equal(tryGit(a.dir, ["fsck", "--no-dangling"]).status, 0);
    checkLaws(origin, { outside: [outside] });
  });
}

scenario("a split index without its other half is told, with a way out", async () => {
  const origin = makeOrigin({ files: FILES });
  const a = split(origin);
  agentCommit(a, { "in/a": "a\n" });
  for (const name of readdirSync(join(a.dir, ".git"))) {
    if (name.startsWith("sharedindex.")) rmSync(join(a.dir, ".git", name));
  }
  const refused = await run(a, ["submit"]);
  assert.equal(refused.status, 2);
  assert.match(refused.stderr, /sharedindex\.[0-9a-f]{40}, which is not there/);
  assert.match(refused.stderr, /git reset/);
  rmSync(join(a.dir, ".git/index"));
  git(a.dir, "reset", "-q");
  assert.equal((await runJson(a, ["submit"])).outcome, "landed");
});
