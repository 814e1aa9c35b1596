/** Trees that want out of the worktree: nothing is written outside it or into `.git`, and the queue goes on. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { git, tempDir, tryGit } from "../helpers/git.ts";
import { agentCommit, makeAgent, run, runJson } from "./harness/agent.ts";
import { results } from "./harness/chains.ts";
import { checkLaws } from "./harness/laws.ts";
import {
  chainRef,
  makeOrigin,
  SHARED_FILE,
  shellQuote,
  type TestOrigin,
  verifyCommand,
} from "./harness/origin.ts";
import { scenario } from "./harness/scenario.ts";
import { chainCommit } from "./harness/weave.ts";

type TreeEntry = { mode: string; name: string; content: string | TreeEntry[] };

/** Writes a tree with any names at all (git mktree would refuse some). */
function writeTree(dir: string, entries: readonly TreeEntry[]): string {
  const parts: Buffer[] = [];
  const key = (e: TreeEntry) => Buffer.from(e.name + (e.mode === "40000" ? "/" : ""), "utf8");
  for (const entry of [...entries].sort((a, b) => Buffer.compare(key(a), key(b)))) {
    const oid = typeof entry.content === "string"
      ? tryGit(dir, ["hash-object", "-w", "--stdin"], { input: entry.content }).stdout.trim()
      : writeTree(dir, entry.content);
    parts.push(Buffer.from(`${entry.mode} ${entry.name}\0`, "utf8"), Buffer.from(oid, "hex"));
  }
  const run = tryGit(dir, ["hash-object", "-t", "tree", "-w", "--stdin", "--literally"], {
    input: Buffer.concat(parts),
  });
  if (run.status !== 0) throw new Error(run.stderr);
  return run.stdout.trim();
}

const file = (name: string, content = "evil\n"): TreeEntry => ({ mode: "100644", name, content });
const link = (name: string, target: string): TreeEntry => ({
  mode: "120000",
  name,
  content: target,
});
const dir = (name: string, ...content: TreeEntry[]): TreeEntry => ({
  mode: "40000",
  name,
  content,
});

/** An origin that takes anything, so that only agentq stands between the tree and the disk. */
function lenientOrigin(): TestOrigin {
  return makeOrigin({ config: { "receive.fsckObjects": "false", "fsck.skipList": "/dev/null" } });
}

/** A commit of a hand-made tree (beside the first commit's files) on top of the first commit. */
function hostileCommit(origin: TestOrigin, repo: string, entries: readonly TreeEntry[]): string {
  const base = [file("shared.txt", SHARED_FILE), file("README", "hello\n")];
  const tree = writeTree(repo, [...base, ...entries]);
  const run = tryGit(repo, ["commit-tree", "-p", origin.initial, "-m", "hostile", tree]);
  return run.stdout.trim();
}

/** Puts ticket 0 for such a commit into the origin itself, as a broken or lenient server would have it. */
function plantTicket(origin: TestOrigin, entries: readonly TreeEntry[]): void {
  const candidate = hostileCommit(origin, origin.dir, entries);
  const genesis = chainCommit(origin.dir, [], { kind: "genesis", chain: "queue" });
  const ticket = chainCommit(origin.dir, [genesis, candidate], {
    kind: "ticket",
    ticket: 0,
    candidate,
    submitter: "evil-1-x",
    verify_cmd: "true",
    verify_timeout: 60,
    check: null,
    checkers: null,
  });
  git(origin.dir, "update-ref", chainRef(origin, "queue"), ticket);
}

const OUTSIDE = "/tmp/agentq-e2e-escaped";

const TREES: [string, TreeEntry[]][] = [
  [".git as a directory", [
    dir(".git", file("config", "[core]\n\tfsmonitor = touch /tmp/agentq-e2e-escaped\n")),
  ]],
  [".git as a file", [file(".git", "gitdir: /tmp\n")]],
  [".GIT", [dir(".GIT", file("config"))]],
  ["git~1", [dir("git~1", file("config"))]],
  [".git with a zero-width joiner", [dir(".g\u200cit", file("config"))]],
  [".git with a trailing dot and space", [dir(".git. .", file("config"))]],
  [".git as an NTFS stream", [dir(".git::$INDEX_ALLOCATION", file("config"))]],
  ["..", [dir("..", file("escaped"))]],
  [".", [dir(".", file("escaped"))]],
  ["a name with a slash", [file("../../../../../../tmp/agentq-e2e-escaped")]],
  ["an absolute name", [file("/tmp/agentq-e2e-escaped")]],
  ["an empty name", [file("")]],
  [".git below a directory", [dir("sub", dir(".git", dir("hooks", file("post-checkout"))))]],
  ["a file and a directory of one name", [link("d", "/tmp"), dir("d", file("agentq-e2e-escaped"))]],
  [".gitmodules as a symlink", [link(".gitmodules", "/etc/passwd")]],
];

for (const [name, entries] of TREES) {
  scenario(`a candidate with ${name}: nothing escapes, the queue goes on`, async () => {
    const origin = lenientOrigin();
    const evil = makeAgent(origin);
    const good = makeAgent(origin);
    const candidate = hostileCommit(origin, evil.dir, entries);
    git(evil.dir, "update-ref", "refs/heads/evil", candidate);
    agentCommit(good, { "good.txt": "good\n" });
    const direct = await run(evil, ["submit", "--candidate", candidate, "--no-wait", "--json"]);
    assert.ok([0, 2].includes(direct.status!), direct.stdout + direct.stderr);
    // Another client enqueues it anyway, past every check of a push.
    if (direct.status !== 0) plantTicket(origin, entries);
    const head = readFileSync(join(good.dir, ".git/HEAD"), "utf8");
    const config = readFileSync(join(good.dir, ".git/config"), "utf8");
    const result = await runJson(good, ["submit", "--verify-cmd", "test -f good.txt"]);
    assert.equal(result.outcome, "landed");
    const verdict = results(origin)[0]!;
    if (name !== ".gitmodules as a symlink") {
      assert.equal(verdict.landed, null, `landed a tree with ${name}`);
      assert.notEqual(verdict.report, "");
    }
    assert.equal(existsSync(OUTSIDE), false, "escaped");
    assert.equal(readFileSync(join(good.dir, ".git/HEAD"), "utf8"), head);
    assert.equal(readFileSync(join(good.dir, ".git/config"), "utf8"), config);
    assert.equal(results(origin).length, 2);
  });
}

scenario(
  "a symlink out of the worktree lands, and nothing is ever written through it",
  async () => {
    const origin = makeOrigin();
    const outside = tempDir("agentq-outside-");
    writeFileSync(join(outside, "file"), "precious\n");
    const lander = makeAgent(origin);
    const a = makeAgent(origin);
    const first = hostileCommit(origin, a.dir, [link("d", outside)]);
    git(a.dir, "reset", "-q", "--hard", first);
    await runJson(a, ["submit", "--no-wait", "--verify-cmd", verifyCommand(origin, "test -L d")]);
    git(a.dir, "rm", "-q", "d");
    agentCommit(a, { "d/file": "written through?\n", "d/new": "x\n" });
    await runJson(a, [
      "submit",
      "--no-wait",
      "--verify-cmd",
      verifyCommand(origin, "test ! -L d && test -f d/new"),
    ]);
    git(a.dir, "rm", "-q", "-r", "d");
    git(a.dir, "commit", "-q", "-m", "gone");
    await runJson(a, ["submit", "--no-wait", "--verify-cmd", verifyCommand(origin, "test ! -e d")]);
    assert.equal((await run(lander, ["land"])).status, 0);
    assert.deepEqual(
      results(origin).map((r) => [r.reason, r.report]).map((r) => r[0]),
      Array(3).fill("landed"),
    );
    assert.equal(readFileSync(join(outside, "file"), "utf8"), "precious\n");
    assert.deepEqual(readdirSync(outside), ["file"]);
    checkLaws(origin);
  },
);

scenario(
  "a verify command that plants symlinks and litter doesn't lead the next checkout astray",
  async () => {
    const origin = makeOrigin({
      files: {
        "shared.txt": SHARED_FILE,
        "dir/file": "one\n",
        "dir/sub/other": "1\n",
        "gone": "g\n",
      },
    });
    const outside = tempDir("agentq-outside-");
    mkdirSync(join(outside, "sub"));
    writeFileSync(join(outside, "file"), "precious\n");
    writeFileSync(join(outside, "sub/other"), "precious\n");
    const lander = makeAgent(origin);
    const tricks = [
      `rm -rf dir && ln -s ${outside} dir`,
      `rm -f gone shared.txt && mkdir -p gone/x litter && : > gone/x/y && : > litter/z`,
      `: > .git/index.lock 2>/dev/null; rm -f .git; mkdir .git; : > .git/HEAD`,
      `cd /; rm -rf "$OLDPWD"`,
      `chmod 0 dir/file; chmod 500 dir`,
      `/usr/bin/git rm -q --cached shared.txt; /usr/bin/git commit -q --allow-empty -m trick; true`,
    ];
    for (const [i, trick] of tricks.entries()) {
      const agent = makeAgent(origin);
      agentCommit(agent, { "dir/file": `${i}\n`, "dir/sub/other": `${i}\n` });
      // The trick runs after the worktree was seen to be clean; `ok` is logged by a shell that stays outside.
      const command = verifyCommand(origin, `(PATH=/usr/bin:/bin; ${trick}) || true; cd /`);
      const landed = await runJson(agent, ["submit", "--no-wait", "--verify-cmd", command]);
      assert.equal(landed.ticket, i);
      const result = await run(lander, ["land"]);
      assert.equal(result.status, 0, `after trick ${i}: ${result.stderr}`);
      const done = results(origin)[i]!;
      assert.equal(
        done.reason,
        "landed",
        `trick ${i - 1} (${tricks[i - 1]}) spoiled the next: ${done.report}`,
      );
    }
    assert.equal(readFileSync(join(outside, "file"), "utf8"), "precious\n");
    assert.equal(readFileSync(join(outside, "sub/other"), "utf8"), "precious\n");
    assert.deepEqual(readdirSync(outside).sort(), ["file", "sub"]);
    checkLaws(origin);
  },
);

scenario("case and Unicode variants of one name are kept apart where the disk can", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  const names = ["Readme", "README2", "readme2", "caf\u00e9", "cafe\u0301", "\u212a", "K", "k"];
  agentCommit(a, Object.fromEntries(names.map((n) => [n, n])));
  const check = names.map((n) => `[ "$(cat ${shellQuote(n)})" = ${shellQuote(n)} ]`).join(" && ");
  const result = await runJson(a, ["submit", "--verify-cmd", verifyCommand(origin, check)]);
  assert.equal(result.outcome, "landed", result.report);
  checkLaws(origin);
});
