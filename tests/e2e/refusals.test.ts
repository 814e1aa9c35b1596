/** A ticket that can't land is refused alone: the queue goes on, and the submitter is told why. */
import assert from "node:assert/strict";
import { cpSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { git, tempDir, tryGit } from "../helpers/git.ts";
import { type Agent, agentCommit, makeAgent, run, runJson, toolPath } from "./harness/agent.ts";
import { results } from "./harness/chains.ts";
import { checkLaws } from "./harness/laws.ts";
import {
  chainRef,
  makeOrigin,
  SHARED_FILE,
  type TestOrigin,
  tipOf,
  verifyCommand,
} from "./harness/origin.ts";
import { scenario, until } from "./harness/scenario.ts";
import { overBoth } from "./harness/transports.ts";

const edit = (line: number, text: string) => ({
  "shared.txt": SHARED_FILE.replace(`line ${line}\n`, `${text}\n`),
});

overBoth("six at once with a failure, a timeout and a conflict: the rest land", async (make) => {
  const origin = make();
  const agents = Array.from({ length: 6 }, () => makeAgent(origin));
  agentCommit(agents[0]!, edit(3, "zero"));
  agentCommit(agents[1]!, { "one.txt": "1\n" });
  agentCommit(agents[2]!, edit(10, "two"));
  agentCommit(agents[3]!, edit(10, "three"));
  agentCommit(agents[4]!, { "four.txt": "4\n" });
  agentCommit(agents[5]!, { "five.txt": "5\n" });
  const extra = [
    [verifyCommand(origin)],
    [verifyCommand(origin, "echo this-check-failed; exit 7")],
    [verifyCommand(origin)],
    [verifyCommand(origin)],
    [verifyCommand(origin, "echo about-to-hang; sleep 600"), "--verify-timeout", "1"],
    [verifyCommand(origin)],
  ];
  const runs = await Promise.all(
    agents.map((agent, i) => run(agent, ["submit", "--json", "--verify-cmd", ...extra[i]!])),
  );
  const [zero, one, two, three, four, five] = runs;
  for (const good of [zero!, five!]) assert.equal(good.status, 0, good.stdout + good.stderr);
  assert.deepEqual([one!.status, one!.json.reason], [1, "verify command failed"]);
  assert.match(one!.json.report, /this-check-failed/);
  assert.deepEqual([four!.status, four!.json.reason], [1, "verify timed out"]);
  assert.match(four!.json.report, /about-to-hang/);
  const conflicted = [two!, three!].filter((r) => r.status === 1);
  assert.equal(conflicted.length, 1, "one of the two that clash is refused");
  assert.equal(conflicted[0]!.json.reason, "merge refused");
  assert.deepEqual(conflicted[0]!.json.files, ["shared.txt"]);
  assert.match(conflicted[0]!.json.regions.join(), /^shared\.txt:\d+-\d+$/);
  assert.notEqual(conflicted[0]!.json.report, "");
  assert.deepEqual(results(origin).map((r) => r.reason).sort(), [
    "landed",
    "landed",
    "landed",
    "merge refused",
    "verify command failed",
    "verify timed out",
  ]);
  checkLaws(origin);
});

scenario("a verify command that times out is killed with everything it started", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  agentCommit(a, { "a.txt": "a\n" });
  const pids = join(tempDir(), "pids");
  const command =
    `(trap '' TERM; sleep 600 & echo $! >> ${pids}; echo $$ >> ${pids}; wait) & echo $! >> ${pids}; wait`;
  const result = await runJson(a, ["submit", "--verify-cmd", command, "--verify-timeout", "1"], 1);
  assert.equal(result.reason, "verify timed out");
  for (const pid of readFileSync(pids, "utf8").trim().split("\n")) {
    await until(`process ${pid} to be gone`, () => !running(Number(pid)), 10);
  }
  checkLaws(origin);
});

/** True while the process exists and isn't a zombie. */
function running(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

/** A lands line 10; B, who started from the same commit, changed it too. */
async function conflict(make: () => TestOrigin): Promise<{ origin: TestOrigin; b: Agent }> {
  const origin = make();
  const a = makeAgent(origin);
  const b = makeAgent(origin);
  agentCommit(a, { ...edit(10, "by a"), "a.txt": "a\n" });
  agentCommit(b, { ...edit(10, "by b"), "b.txt": "b\n" });
  assert.equal((await runJson(a, ["submit"])).outcome, "landed");
  return { origin, b };
}

overBoth(
  "a conflict is left in progress as git would, resolved in place and resubmitted",
  async (make) => {
    const { origin, b } = await conflict(make);
    const tip = tipOf(origin);
    const twin = join(tempDir(), "twin");
    cpSync(b.dir, twin, { recursive: true });
    const refused = await runJson(b, ["submit", "--verify-cmd", verifyCommand(origin)], 1);
    assert.deepEqual([refused.outcome, refused.reason, refused.files], [
      "refused",
      "merge refused",
      ["shared.txt"],
    ]);
    // What real git makes of the same merge in a copy of the clone.
    tryGit(twin, ["fetch", "-q", origin.dir, "main"]);
    tryGit(twin, ["merge", "-q", tip]);
    assert.equal(git(b.dir, "ls-files", "-s"), git(twin, "ls-files", "-s"));
    assert.equal(git(b.dir, "status", "--porcelain"), git(twin, "status", "--porcelain"));
    assert.match(git(b.dir, "status", "--porcelain"), /^UU shared\.txt$/m);
    assert.equal(git(b.dir, "rev-parse", "MERGE_HEAD"), tip);
    const marked = readFileSync(join(b.dir, "shared.txt"), "utf8");
    const plain = (text: string) => text.replace(/^(<{7}|>{7}) .*$/gm, "$1");
    assert.equal(plain(marked), plain(readFileSync(join(twin, "shared.txt"), "utf8")));
    const region = /^shared\.txt:(\d+)-(\d+)$/.exec(refused.regions[0])!;
    const lines = marked.split("\n");
    assert.match(lines[Number(region[1]) - 1]!, /^<{7} /);
    assert.match(lines[Number(region[2]) - 1]!, /^>{7} /);
    // Submitting again before it is resolved is refused and changes nothing.
    const unresolved = await run(b, ["submit", "--json"]);
    assert.equal(unresolved.json.schema, "agentq.error/1");
    assert.equal(readFileSync(join(b.dir, "shared.txt"), "utf8"), marked);
    // Resolved as a person would.
    writeFileSync(
      join(b.dir, "shared.txt"),
      SHARED_FILE.replace("line 10\n", "by a and b\n"),
    );
    git(b.dir, "add", "shared.txt");
    git(b.dir, "commit", "-q", "--no-edit");
    const landed = await runJson(b, ["submit", "--verify-cmd", verifyCommand(origin)]);
    assert.equal(landed.outcome, "landed");
    assert.match(git(origin.dir, "show", "main:shared.txt"), /by a and b/);
    assert.equal(git(origin.dir, "show", "main:a.txt"), "a");
    checkLaws(origin);
  },
);

scenario("a conflict never overwrites what isn't committed", async () => {
  const { origin, b } = await conflict(makeOrigin);
  git(b.dir, "branch", "work");
  git(b.dir, "reset", "-q", "--hard", origin.initial);
  writeFileSync(join(b.dir, "shared.txt"), "precious, uncommitted\n");
  writeFileSync(join(b.dir, "a.txt"), "precious, untracked\n");
  const result = await run(b, ["submit", "--candidate", "work", "--json"]);
  assert.notEqual(result.status, 0);
  assert.equal(readFileSync(join(b.dir, "shared.txt"), "utf8"), "precious, uncommitted\n");
  assert.equal(readFileSync(join(b.dir, "a.txt"), "utf8"), "precious, untracked\n");
  assert.equal(existsSync(join(b.dir, ".git/MERGE_HEAD")), false);
});

scenario("an untracked file in the way of the merge is kept", async () => {
  const { origin, b } = await conflict(makeOrigin);
  writeFileSync(join(b.dir, "a.txt"), "precious, untracked\n");
  const result = await run(b, ["submit", "--json"]);
  assert.notEqual(result.status, 0);
  assert.equal(readFileSync(join(b.dir, "a.txt"), "utf8"), "precious, untracked\n");
  // Told by either command: how to make the merge oneself.
  const onward =
    /^to go on, with [0-9a-f]{12} checked out: git fetch origin && git merge origin\/main; /m;
  assert.match(result.stderr, onward);
  assert.match((await run(b, ["wait", String(result.json.ticket)])).stderr, onward);
  checkLaws(origin, { done: results(origin).length });
});

overBoth(
  "a merge on the branch that dropped others' work is refused; --drop declares it",
  async (make) => {
    const origin = make();
    const a = makeAgent(origin);
    const b = makeAgent(origin);
    agentCommit(a, { "a.txt": "a\n", ...edit(5, "by a") });
    assert.equal((await runJson(a, ["submit"])).outcome, "landed");
    agentCommit(b, { "b.txt": "b\n" });
    git(b.dir, "fetch", "-q", origin.dir, "main");
    git(b.dir, "merge", "-q", "-s", "ours", "-m", "merged main, honestly", "FETCH_HEAD");
    const refused = await runJson(b, ["submit", "--verify-cmd", verifyCommand(origin)], 1);
    assert.equal(refused.reason, "a merge on the branch was refused");
    assert.deepEqual([...refused.files].sort(), ["a.txt", "shared.txt"]);
    // One path declared isn't both.
    const half = await runJson(b, ["submit", "--again", "--drop", "a.txt"], 1);
    assert.deepEqual([half.files, half.drops], [["shared.txt"], ["a.txt"]]);
    const meant = await runJson(b, [
      "submit",
      "--again",
      "--drop",
      "*.txt",
      "--verify-cmd",
      verifyCommand(origin),
    ]);
    assert.equal(meant.outcome, "landed");
    assert.equal(git(origin.dir, "ls-tree", "--name-only", "main"), "README\nb.txt\nshared.txt");
    const log = (await run(b, ["log", "--json"])).stdout.trim().split("\n");
    const declared = log.map((line) => JSON.parse(line).drops);
    assert.deepEqual(declared, [["*.txt"], ["a.txt"], [], []]);
    const shown = await runJson(b, ["show", String(meant.ticket)]);
    assert.deepEqual([shown.drops, shown.result.drops], [["*.txt"], ["*.txt"]]);
    checkLaws(origin);
  },
);

scenario("a merge on the branch that took one side of a file both changed is refused", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  const b = makeAgent(origin);
  agentCommit(a, edit(5, "by a"));
  assert.equal((await runJson(a, ["submit"])).outcome, "landed");
  agentCommit(b, edit(50, "by b"));
  git(b.dir, "fetch", "-q", origin.dir, "main");
  git(b.dir, "merge", "-q", "--no-commit", "FETCH_HEAD");
  writeFileSync(join(b.dir, "shared.txt"), SHARED_FILE.replace("line 50\n", "by b\n"));
  git(b.dir, "commit", "-q", "-a", "-m", "evil merge");
  const refused = await runJson(b, ["submit"], 1);
  assert.equal(refused.reason, "a merge on the branch was refused");
  assert.deepEqual(refused.files, ["shared.txt"]);
  checkLaws(origin);
});

scenario("conflict markers committed by mistake don't land", async () => {
  const { origin, b } = await conflict(makeOrigin);
  await runJson(b, ["submit"], 1);
  git(b.dir, "add", "-A");
  git(b.dir, "commit", "-q", "--no-edit");
  const refused = await runJson(b, ["submit"], 1);
  assert.equal(refused.reason, "a merge on the branch was refused");
  assert.deepEqual(refused.files, ["shared.txt"]);
  checkLaws(origin);
});

scenario("agentq.json pins checks at the tip that no ticket weakens", async () => {
  const log = join(tempDir(), "pinned.log");
  const pin = (command: string) => JSON.stringify({ verify: [command], verifyTimeout: 60 });
  const origin = makeOrigin({
    files: {
      "shared.txt": SHARED_FILE,
      "agentq.json": pin(`echo pinned >> ${log}; test ! -e forbidden`),
    },
  });
  const a = makeAgent(origin);
  agentCommit(a, { "forbidden": "", "agentq.json": pin("true") });
  const refused = await runJson(a, ["submit", "--verify-cmd", "true"], 1);
  assert.equal(refused.reason, "verify command failed");
  assert.equal(readFileSync(log, "utf8"), "pinned\n");
  const b = makeAgent(origin);
  agentCommit(b, { "allowed": "" });
  assert.equal((await runJson(b, ["submit"])).outcome, "landed");
  assert.equal(readFileSync(log, "utf8"), "pinned\npinned\n");
  checkLaws(origin, { foreignVerify: true });
});

scenario("a branch that the origin doesn't have is made only when asked for", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  const candidate = agentCommit(a, { "a.txt": "a\n" });
  const before = git(origin.dir, "for-each-ref");
  for (const extra of [[], ["--no-wait"], ["--again"]]) {
    const { error } = await runJson(a, ["submit", "--branch", "mian", ...extra], 2);
    assert.equal(error.code, "branch-unknown");
    assert.match(error.message, /has no branch "mian"$/);
    assert.match(error.hint, /"main".*--create-branch/);
  }
  assert.equal(git(origin.dir, "for-each-ref"), before);
  assert.deepEqual((await runJson(a, ["status"])).submissions, []);
  const none = /the origin has no branch "mian" yet/;
  assert.match((await run(a, ["status", "--branch", "mian"])).stdout, none);
  assert.match((await run(a, ["land", "--branch", "mian"])).stderr, none);

  const made = await runJson(a, ["submit", "--branch", "feat/new", "--create-branch"]);
  assert.equal(made.landed, candidate);
  const next = agentCommit(a, { "b.txt": "b\n" });
  assert.equal((await runJson(a, ["submit", "--branch", "feat/new"])).landed, next);
});

scenario("the first branch of an empty origin needs no asking", async () => {
  const dir = join(tempDir("agentq-empty-"), "origin.git");
  git("/", "init", "-q", "--bare", "-b", "main", dir);
  const a = makeAgent(makeOrigin());
  const candidate = agentCommit(a, { "a.txt": "a\n" });
  const to = (branch: string) => ["submit", "--remote", dir, "--branch", branch];
  assert.equal((await runJson(a, to("trunk"))).landed, candidate);
  assert.equal(git(dir, "rev-parse", "trunk"), candidate);
  assert.equal((await runJson(a, to("main"), 2)).error.code, "branch-unknown");
});

scenario("a commit kept offline is for a branch that the clone has seen", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  agentCommit(a, { "a.txt": "a\n" });
  git(a.dir, "config", "remote.origin.url", "/does/not/exist.git");
  const keep = (branch: string) => ["submit", "--no-wait", "--offline", "--branch", branch];
  assert.equal((await runJson(a, keep("mian"), 2)).error.code, "branch-unknown");
  assert.equal((await runJson(a, keep("main"))).reason, "offline");
});

scenario("a commit submitted again is said to be what it is: waiting, or done", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  const b = makeAgent(origin);
  const candidate = agentCommit(a, { "a.txt": "a\n" });
  const short = candidate.slice(0, 12);
  await runJson(a, ["pause"]);
  const first = await run(a, ["submit", "--no-wait"]);
  assert.equal(first.stdout, `ticket 0: ${short} is queued\n`);
  const again = await run(a, ["submit", "--no-wait"]);
  assert.equal(again.stdout, `ticket 0: ${short} is queued\n`);
  assert.match(again.stderr, /was submitted before, as ticket 0$/m);
  const waiting = await run(a, ["submit", "--wait-timeout", "0.1"]);
  assert.equal(waiting.status, 3);
  assert.match(waiting.stderr, /was submitted before, as ticket 0: waiting for its result$/m);
  assert.doesNotMatch(waiting.stderr, /^queued/m);

  await runJson(b, ["resume"]);
  await runJson(b, ["wait", "0"]);
  const done = await run(a, ["submit", "--no-wait"]);
  assert.equal(done.status, 0);
  assert.match(done.stdout, new RegExp(`^ticket 0: landed ${short} as ${short}`));
  assert.doesNotMatch(done.stdout + done.stderr, /queued|waiting/);
  assert.deepEqual((await runJson(a, ["status"])).submissions, []);
});

scenario(
  "a machine without the branch's sandbox leaves its tickets to one that has it",
  async () => {
    const origin = makeOrigin({
      files: { "agentq.json": '{"sandbox":["box"],"verify":"test \\"$BOXED\\" = yes"}' },
    });
    const bin = tempDir("agentq-box-");
    writeFileSync(join(bin, "box"), '#!/bin/sh\nBOXED=yes exec "$@"\n', { mode: 0o755 });
    const bare = makeAgent(origin);
    const boxed = makeAgent(origin, { env: { PATH: `${bin}:${toolPath()}` } });
    agentCommit(bare, { "a.txt": "a\n" });
    const waited = await runJson(bare, ["submit", "--wait-timeout", "1", "--attempts", "1"], 3);
    assert.equal(waited.outcome, "queued");
    assert.match(waited.report, /left to another lander: .*sandbox .*no program box here/);
    const landing = await run(bare, ["land"]);
    assert.equal(landing.status, 3);
    assert.match(landing.stderr, /ticket 0 is left to another lander/);
    const landed = await runJson(boxed, ["wait", "0"]);
    assert.equal(landed.outcome, "landed");
    checkLaws(origin);
  },
);

scenario("an error that ends the wait names the ticket, which stays queued", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  agentCommit(a, { "a.txt": "a\n" });
  assert.equal((await runJson(a, ["submit"])).outcome, "landed");
  git(origin.dir, "update-ref", "refs/heads/main", origin.initial);
  agentCommit(a, { "b.txt": "b\n" });
  const { error } = await runJson(a, ["submit"], 2);
  assert.equal(error.code, "branch-rewound");
  assert.equal(error.details.ticket, 1);
  assert.match(error.message, /^ticket 1 stays queued; branch "main" is at /);
  assert.match(error.hint, new RegExp(`resume --accept-tip ${origin.initial}`));
});

scenario("a ref that somebody keeps locked is named, not taken for a lost answer", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  agentCommit(a, { "a.txt": "a\n" });
  assert.equal((await runJson(a, ["submit", "--no-wait"])).outcome, "queued");
  await runJson(a, ["pause"]);
  writeFileSync(join(origin.dir, "refs/weave/main/lock.lock"), "");
  const { error } = await runJson(a, ["resume"], 2);
  assert.equal(error.code, "ref-locked");
  assert.match(error.message, /refs\/weave\/main\/lock is locked.*lock\.lock/);
});

scenario("words that go wrong are answered with what to write instead", async () => {
  const a = makeAgent(makeOrigin());
  const stray = (await runJson(a, ["submit", "feat/login"], 64)).error;
  assert.match(stray.hint, /--candidate REV/);
  const branch = (await runJson(a, ["status", "--branch", "bad..name"], 2)).error;
  assert.equal(branch.message, '"bad..name" is not the name of a branch');
});

scenario("a ticket isn't changed by asking for something else, and that is said", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  agentCommit(a, { "a.txt": "a\n" });
  await runJson(a, ["pause", "--reason", "r"]);
  const first = ["submit", "--no-wait", "--verify-cmd", "true", "--drop", "x"];
  assert.deepEqual((await runJson(a, first)).drops, ["x"]);
  const same = await run(a, ["submit", "--no-wait", "--verify-cmd", "true"]);
  assert.doesNotMatch(same.stderr, /--again/);
  const other = await run(a, ["submit", "--no-wait", "--verify-cmd", "false", "--title", "t"]);
  assert.match(other.stderr, /ticket 0 was submitted without this --verify-cmd, --title .*--again/);
  const long = await runJson(a, ["pause", "--reason", "x".repeat(5000)], 64);
  assert.match(long.error.message, /longer than 4096 bytes/);
});

scenario(
  "a merge that only this clone can make is told as that, and not submitted over and over",
  async () => {
    const origin = makeOrigin();
    const a = makeAgent(origin);
    agentCommit(a, { ".gitattributes": "shared.txt merge=mine\n", "shared.txt": "one\n" });
    assert.equal((await runJson(a, ["submit"])).outcome, "landed");
    git(a.dir, "config", "merge.mine.driver", "true");
    const b = makeAgent(origin);
    agentCommit(b, { "shared.txt": "two\n" });
    assert.equal((await runJson(b, ["submit"])).outcome, "landed");
    agentCommit(a, { "shared.txt": "three\n" });
    const refused = await run(a, ["submit", "--json"]);
    assert.equal(refused.status, 1);
    assert.equal(refused.json.ticket, 2, "one ticket, not several");
    assert.match(
      refused.stderr,
      /is clean in this clone.*: git fetch && git merge origin\/main, submit/,
    );
    git(a.dir, "fetch", "-q");
    git(a.dir, "merge", "-q", "--no-edit", "origin/main");
  },
);

scenario("a merge whose files go through a content filter is not left half done", async () => {
  const origin = makeOrigin();
  const [a, b] = [makeAgent(origin), makeAgent(origin)];
  for (const agent of [a, b]) {
    git(agent.dir, "config", "filter.rot.smudge", "tr a-z n-za-m");
    git(agent.dir, "config", "filter.rot.clean", "tr a-z n-za-m");
  }
  agentCommit(a, { ".gitattributes": "*.sec filter=rot\n", "s.sec": "secret\n", "y": "one\n" });
  assert.equal((await runJson(a, ["submit"])).outcome, "landed");
  git(b.dir, "pull", "-q");
  agentCommit(b, { "s.sec": "other\n", "y": "two\n" });
  assert.equal((await runJson(b, ["submit"])).outcome, "landed");
  agentCommit(a, { "y": "three\n" });
  const refused = await run(a, ["submit", "--json"]);
  assert.equal(refused.status, 1);
  assert.match(refused.stderr, /not left in progress here: s\.sec would need a content filter/);
  assert.equal(git(a.dir, "status", "--short"), "");
});

scenario(
  "what the clone's configuration holds of credentials isn't published of a check's output",
  async () => {
    const origin = makeOrigin();
    const a = makeAgent(origin);
    agentCommit(a, { "a.txt": "a\n" });
    git(a.dir, "remote", "add", "up", "https://bob:s3cr%40t-word@host.example/o.git");
    const header = "AUTHORIZATION: basic eC1hY2Nlc3MtdG9rZW4=";
    git(a.dir, "config", "http.https://host.example/.extraheader", header);
    const check = "cat $AGENTQ_REPO/.git/config; printf '%s%s' s3cr @t-word; false";
    const refused = await runJson(a, ["submit", "--verify-cmd", check], 1);
    const published = git(origin.dir, "log", "--format=%B", chainRef(origin, "done"));
    for (const text of [published, JSON.stringify(refused)]) {
      assert.match(text, /url = https:\/\/…@host\.example\/o\.git/);
      assert.match(text, /extraheader = AUTHORIZATION: basic …/i);
      for (const word of ["s3cr%40t-word", "s3cr@t-word", "eC1hY2"]) {
        assert.ok(!text.includes(word));
      }
    }
    checkLaws(origin);
  },
);

scenario(
  "a proxy's password reaches the check, and not what is published of its output",
  async () => {
    const origin = makeOrigin();
    const env = {
      https_proxy: "http://user:s3cr%40t-word@127.0.0.1:1",
      AGENTQ_TOKEN: "t0ken-t0ken",
    };
    const a = makeAgent(origin, { env });
    agentCommit(a, { "a.txt": "a\n" });
    const seen = join(tempDir(), "seen");
    const check =
      `env > '${seen}'; env | grep -i 'proxy\\|t0ken'; printf '%s%s' s3cr @t-word; false`;
    const refused = await runJson(a, ["submit", "--verify-cmd", check], 1);
    assert.equal(refused.outcome, "refused");
    const environment = readFileSync(seen, "utf8");
    assert.ok(environment.includes(env.https_proxy));
    assert.ok(!environment.includes(env.AGENTQ_TOKEN));
    const published = git(origin.dir, "log", "--format=%B", chainRef(origin, "done"));
    for (const text of [published, JSON.stringify(refused)]) {
      assert.match(text, /https_proxy=http:\/\/…@127\.0\.0\.1:1/);
      for (const word of ["s3cr%40t-word", "s3cr@t-word"]) assert.ok(!text.includes(word), text);
    }
    checkLaws(origin);
  },
);
