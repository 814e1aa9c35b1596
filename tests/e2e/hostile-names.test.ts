/** Names that would hurt if they ever reached a shell, an option parser or a terminal unquoted. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { git, tryGit } from "../helpers/git.ts";
import { agentCommit, makeAgent, run, runJson } from "./harness/agent.ts";
import { results } from "./harness/chains.ts";
import { checkLaws } from "./harness/laws.ts";
import { allRefs, installHooks, makeOrigin, pushOutside, verifyCommand } from "./harness/origin.ts";
import { scenario } from "./harness/scenario.ts";
import { overBoth } from "./harness/transports.ts";

const FILES = [
  "with space",
  "quote'single",
  'quote"double',
  "new\nline",
  "tab\there",
  "back\\slash",
  "$(touch escaped)",
  "`touch escaped`",
  "-rf",
  "--help",
  "a;b|c&d",
  "*?[glob]",
  "#hash",
  "%41%n",
  "\x1b[31mred",
  "d/e e/p\n/x",
  "é/ñ",
  "x".repeat(255),
];

overBoth(
  "files with spaces, quotes, newlines, dashes and escapes land and are verified",
  async (make) => {
    const origin = make();
    const a = makeAgent(origin);
    const b = makeAgent(origin);
    agentCommit(b, { "b.txt": "b\n" });
    agentCommit(a, Object.fromEntries(FILES.map((name, i) => [name, `${i}\n`])));
    assert.equal((await runJson(b, ["submit"])).outcome, "landed");
    const result = await runJson(a, [
      "submit",
      "--verify-cmd",
      verifyCommand(origin, "test -f ./-rf && test ! -e escaped"),
    ]);
    assert.equal(result.outcome, "landed", result.report);
    for (const [i, name] of FILES.entries()) {
      assert.equal(git(origin.dir, "cat-file", "blob", `main:${name}`), `${i}`);
    }
    checkLaws(origin);
  },
);

scenario("names that aren't UTF-8 land byte for byte", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  const name = Buffer.from([0x62, 0xff, 0xfe, 0x80]);
  writeFileSync(Buffer.concat([Buffer.from(a.dir + "/"), name]), "bytes\n");
  git(a.dir, "add", "-A");
  git(a.dir, "commit", "-q", "-m", "bytes");
  pushOutside(origin, { "o.txt": "o\n" }); // so that the landing is a merge
  const outside = git(origin.dir, "rev-parse", "main");
  const result = await runJson(a, ["submit", "--verify-cmd", verifyCommand(origin)]);
  assert.equal(result.outcome, "landed", result.report);
  assert.match(git(origin.dir, "ls-tree", "main"), /"b\\377\\376\\200"/);
  checkLaws(origin, { outside: [outside] });
});

scenario(
  "a conflict in a file with a hostile name is reported escaped and left in progress",
  async () => {
    const name = "-new\nline \x1b[31m'\".txt";
    const origin = makeOrigin({ files: { [name]: "one\n" } });
    const a = makeAgent(origin);
    const b = makeAgent(origin);
    agentCommit(a, { [name]: "by a\n" });
    agentCommit(b, { [name]: "by b\n" });
    assert.equal((await runJson(a, ["submit"])).outcome, "landed");
    const refused = await run(b, ["submit"]);
    assert.equal(refused.status, 1);
    // deno-lint-ignore no-control-regex -- control characters are the point
    assert.doesNotMatch(refused.stdout + refused.stderr, /\x1b/);
    assert.deepEqual(results(origin)[1]!.files, [name]);
    assert.match(git(b.dir, "status", "--porcelain"), /^UU /m);
    checkLaws(origin);
  },
);

const BRANCHES = [
  "rel/it's",
  'we"ird',
  "$(id)",
  "a;b&c|d",
  "ünï/çødé",
  "a/b/c/d",
  "x'y\"z`w",
];

for (const branch of BRANCHES) {
  scenario(`the branch ${JSON.stringify(branch)} has its own queue`, async () => {
    const origin = makeOrigin();
    git(origin.dir, "update-ref", `refs/heads/${branch}`, origin.initial);
    git(origin.dir, "symbolic-ref", "HEAD", `refs/heads/${branch}`);
    const served = { ...origin, branch };
    installHooks(served);
    const a = makeAgent(served);
    agentCommit(a, { "a.txt": "a\n" });
    const result = await runJson(a, ["submit", "--verify-cmd", verifyCommand(served)]);
    assert.equal(result.outcome, "landed");
    assert.equal((await runJson(a, ["status"])).branch, branch, "the remote's HEAD names it");
    assert.equal((await runJson(a, ["status", `--branch=${branch}`])).complete, true);
    checkLaws(served);
    assert.equal(git(origin.dir, "rev-parse", "refs/heads/main"), origin.initial);
  });
}

scenario("branch and namespace names that git wouldn't take are refused by name", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  agentCommit(a, { "a.txt": "a\n" });
  const before = allRefs(origin);
  for (
    const branch of [
      "-dash",
      "--force",
      "a b",
      "a\nb",
      "a..b",
      "x.lock",
      "/x",
      "x/",
      "a~1",
      "a^",
      "a:b",
      "@{x",
      "\x1b[2J",
      "..",
      "",
    ]
  ) {
    const result = await run(a, ["submit", `--branch=${branch}`, "--json"]);
    // An empty flag is a flag that isn't set.
    if (branch === "" && result.status === 0) throw new Error("landed on a branch without a name");
    assert.notEqual(result.status, 0, JSON.stringify(branch));
    assert.equal(result.json.schema, "agentq.error/1");
    assert.notEqual(result.json.error.code, "internal", JSON.stringify(branch));
  }
  for (const namespace of ["refs/heads", "refs/heads/x", "weave", "refs/../x", "refs/we ave"]) {
    const result = await run(a, ["submit", `--namespace=${namespace}`, "--json"]);
    assert.notEqual(result.status, 0, namespace);
    assert.notEqual(result.json.error.code, "internal", namespace);
  }
  assert.equal(allRefs(origin), before);
  assert.equal((await runJson(a, ["submit"])).outcome, "landed");
  checkLaws(origin);
});

scenario("branches whose queues would collide are refused with a clear error", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  agentCommit(a, { "a.txt": "a\n" });
  assert.equal((await runJson(a, ["submit"])).outcome, "landed");
  const before = allRefs(origin);
  // `refs/weave/main/queue` is a ref, so the branch main/queue can have no chains below it.
  const result = await run(a, ["submit", "--branch", "main/queue", "--json"]);
  assert.ok([2, 64].includes(result.status!), result.stdout);
  assert.notEqual(result.json.error.code, "internal");
  assert.match(result.json.error.message, /main\/queue/);
  assert.equal(allRefs(origin), before);
});

scenario(
  "titles, verify commands and paths with anything in them go through unharmed",
  async () => {
    const origin = makeOrigin();
    const a = makeAgent(origin, { name: 'o\'brien "x" $(y)' });
    const b = makeAgent(origin);
    mkdirSync(join(a.dir, "sub dir"));
    agentCommit(b, { "b.txt": "b\n" });
    agentCommit(a, { "a.txt": "a\n" });
    assert.equal((await runJson(b, ["submit"])).outcome, "landed");
    const title = 'it\'s "quoted" $(touch escaped) `x` \\ ünï 🎉';
    const result = await runJson(a, [
      "submit",
      "--title",
      title,
      "--verify-cmd",
      verifyCommand(origin, `[ "$(printf '%s' "it's")" = "it's" ]`),
    ]);
    assert.equal(result.outcome, "landed", result.report);
    assert.ok(git(origin.dir, "log", "-1", "--format=%B", "main").includes(title));
    assert.equal(existsSync(join(a.dir, "escaped")), false);
    assert.equal(tryGit(a.dir, ["status", "--porcelain"]).stdout, "");
    checkLaws(origin);
  },
);
