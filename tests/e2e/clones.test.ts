/** Submitting from every kind of clone, and from clones that aren't in a state to submit. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chownSync, existsSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { commit, git, tempDir, tryGit } from "../helpers/git.ts";
import { type Agent, agentCommit, makeAgent, run, runJson, toolPath } from "./harness/agent.ts";
import { results } from "./harness/chains.ts";
import { checkLaws } from "./harness/laws.ts";
import {
  allRefs,
  makeOrigin,
  pushOutside,
  SHARED_FILE,
  tipOf,
  verifyCommand,
} from "./harness/origin.ts";
import { scenario } from "./harness/scenario.ts";
import { overBoth } from "./harness/transports.ts";

/** The same agent, working in another directory. */
const at = (agent: Agent, dir: string): Agent => ({ ...agent, dir });

overBoth("from a linked worktree", async (make) => {
  const origin = make();
  const outside = pushOutside(origin, { "o.txt": "o\n" });
  const a = makeAgent(origin);
  const linked = join(tempDir(), "linked tree");
  git(a.dir, "worktree", "add", "-q", "-b", "work", linked, origin.initial);
  const candidate = commit(linked, "work", { "a.txt": "a\n" });
  const result = await runJson(at(a, linked), ["submit", "--verify-cmd", verifyCommand(origin)]);
  assert.deepEqual([result.outcome, result.candidate], ["landed", candidate]);
  assert.equal(git(linked, "status", "--porcelain"), "");
  checkLaws(origin, { outside: [outside] });
});

scenario("a conflict from a linked worktree is left in progress there", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  const linked = join(tempDir(), "linked");
  git(a.dir, "worktree", "add", "-q", "-b", "work", linked);
  commit(linked, "work", { "shared.txt": SHARED_FILE.replace("line 4\n", "mine\n") });
  pushOutside(origin, { "shared.txt": SHARED_FILE.replace("line 4\n", "theirs\n") });
  const refused = await runJson(at(a, linked), ["submit"], 1);
  assert.equal(refused.reason, "merge refused");
  assert.equal(git(linked, "status", "--porcelain"), "UU shared.txt");
  assert.equal(git(linked, "rev-parse", "MERGE_HEAD"), tipOf(origin));
  assert.equal(git(a.dir, "status", "--porcelain"), "");
});

overBoth("from a shallow clone", async (make) => {
  const origin = make();
  const history = [1, 2, 3].map((n) => pushOutside(origin, { [`h${n}`]: `${n}\n` }));
  const a = makeAgent(origin, { clone: ["--depth", "1"] });
  assert.equal(git(a.dir, "rev-parse", "--is-shallow-repository"), "true");
  agentCommit(a, { "a.txt": "a\n" });
  const result = await runJson(a, ["submit", "--verify-cmd", verifyCommand(origin)]);
  assert.equal(result.outcome, "landed");
  // And behind others' work, where the merge base may lie below the shallow cut.
  const b = makeAgent(origin, { clone: ["--depth", "1"] });
  agentCommit(b, { "b.txt": "b\n" });
  const more = pushOutside(origin, { "h4": "4\n" });
  assert.equal(
    (await runJson(b, ["submit", "--verify-cmd", verifyCommand(origin)])).outcome,
    "landed",
  );
  checkLaws(origin, { outside: [...history, more] });
});

scenario("a lander in a shallow clone lands a full clone's old work", async () => {
  const origin = makeOrigin();
  const old = makeAgent(origin);
  agentCommit(old, { "old.txt": "o\n" });
  const history = [1, 2, 3].map((n) => pushOutside(origin, { [`h${n}`]: `${n}\n` }));
  await runJson(old, ["submit", "--no-wait", "--verify-cmd", verifyCommand(origin)]);
  const shallow = makeAgent(origin, { clone: ["--depth", "1"] });
  assert.equal((await run(shallow, ["land"])).status, 0);
  assert.equal(results(origin)[0]!.reason, "landed", results(origin)[0]!.report);
  assert.equal(tryGit(shallow.dir, ["fsck", "--no-dangling"]).status, 0);
  checkLaws(origin, { outside: history });
});

overBoth("from a clone --shared, whose objects are elsewhere", async (make) => {
  const origin = make();
  const a = makeAgent(origin, { clone: ["--shared"] });
  agentCommit(a, { "a.txt": "a\n" });
  assert.equal(
    (await runJson(a, ["submit", "--verify-cmd", verifyCommand(origin)])).outcome,
    "landed",
  );
  checkLaws(origin);
});

scenario(
  "from a detached HEAD, a subdirectory, --repo and $GIT_DIR's kind of separate git directory",
  async () => {
    const origin = makeOrigin();
    const a = makeAgent(origin);
    git(a.dir, "checkout", "-q", "--detach");
    const first = agentCommit(a, { "sub/a.txt": "a\n" });
    assert.equal((await runJson(a, ["submit"], 0, { cwd: join(a.dir, "sub") })).landed, first);
    const second = agentCommit(a, { "sub/b.txt": "b\n" });
    const elsewhere = { cwd: tempDir() };
    assert.equal((await runJson(a, ["submit", "--repo", a.dir], 0, elsewhere)).landed, second);
    const separate = makeAgent(origin, {
      clone: ["--separate-git-dir", join(tempDir(), "meta.git")],
    });
    const third = agentCommit(separate, { "c.txt": "c\n" });
    assert.equal((await runJson(separate, ["submit"])).landed, third);
    const link = join(tempDir(), "link");
    symlinkSync(a.dir, link);
    git(a.dir, "fetch", "-q", origin.dir, "main");
    git(a.dir, "reset", "-q", "--hard", "FETCH_HEAD");
    const fourth = agentCommit(a, { "d.txt": "d\n" });
    assert.equal((await runJson(at(a, link), ["submit"])).landed, fourth);
    checkLaws(origin);
  },
);

scenario("from a submodule's checkout", async () => {
  const origin = makeOrigin();
  const outer = tempDir();
  git(outer, "init", "-q", "-b", "main");
  git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", origin.dir, "mod");
  const a = at(makeAgent(origin), join(outer, "mod"));
  const candidate = commit(a.dir, "in the submodule", { "a.txt": "a\n" });
  assert.equal(
    (await runJson(a, ["submit", "--verify-cmd", verifyCommand(origin)])).landed,
    candidate,
  );
  checkLaws(origin);
});

scenario(
  "a candidate in packed objects, packed refs and a tag; a branch by name; an abbreviated id",
  async () => {
    const origin = makeOrigin();
    const a = makeAgent(origin);
    for (const n of [1, 2, 3, 4]) {
      agentCommit(a, { [`f${n}`]: `${n}\n` });
      git(a.dir, "tag", ...(n === 2 ? ["-a", "-m", "annotated"] : []), `v${n}`);
    }
    git(a.dir, "branch", "feat/three", "v3");
    git(a.dir, "gc", "-q");
    git(origin.dir, "gc", "-q");
    const want = (rev: string) => git(a.dir, "rev-parse", `${rev}^{commit}`);
    for (const [rev, oid] of [["v1", "v1"], ["v2", "v2"], ["feat/three", "v3"]] as const) {
      assert.equal((await runJson(a, ["submit", "--candidate", rev])).landed, want(oid));
    }
    assert.equal(
      (await runJson(a, ["submit", "--candidate", want("v4").slice(0, 10)])).landed,
      want("v4"),
    );
    checkLaws(origin);
  },
);

scenario(
  "another user's clone is refused as git refuses it, unless it is named or safe",
  async () => {
    const origin = makeOrigin();
    const a = makeAgent(origin);
    agentCommit(a, { "a.txt": "a\n" });
    const elsewhere = makeAgent(origin);
    // What its owner would have us run.
    git(elsewhere.dir, "config", "core.sshCommand", `touch ${elsewhere.dir}/ran; false`);
    git(elsewhere.dir, "config", "remote.origin.url", "ssh://host.invalid/x");
    git(elsewhere.dir, "config", "safe.directory", "*");
    // Only root can give something away; for anybody else it stays their own clone.
    const root = process.getuid?.() === 0;
    if (root) chownSync(elsewhere.dir, 12345, 12345);
    const env = (entry?: string): { env: Record<string, string> } => {
      writeFileSync(
        join(elsewhere.env.HOME!, ".gitconfig"),
        entry === undefined ? "" : `[safe]\n\tdirectory = ${entry}\n`,
      );
      return { env: { PATH: `${toolPath()}:/usr/bin` } };
    };
    const outcome = async (args: string[], entry?: string) => {
      const settings = env(entry);
      const ours = (await runJson(elsewhere, ["status", ...args], 2, settings)).error.code;
      const theirs = spawnSync("git", ["status"], {
        cwd: elsewhere.dir,
        env: { PATH: "/usr/bin", HOME: elsewhere.env.HOME!, GIT_CONFIG_NOSYSTEM: "1" },
        encoding: "utf8",
      });
      if (args.length === 0) {
        const doubted = /dubious ownership/.test(theirs.stderr);
        assert.equal(ours === "repository-foreign", doubted, `safe.directory=${entry}`);
      }
      return ours;
    };
    assert.equal(await outcome([]) === "repository-foreign", root);
    assert.equal(await outcome([], "/other") === "repository-foreign", root);
    assert.equal(existsSync(join(elsewhere.dir, "ran")), !root);
    assert.notEqual(await outcome(["--repo", elsewhere.dir]), "repository-foreign");
    assert.equal(existsSync(join(elsewhere.dir, "ran")), true, "named, it is taken as it is");
    for (const entry of ["*", elsewhere.dir]) {
      assert.notEqual(await outcome([], entry), "repository-foreign", entry);
    }
  },
);

scenario("a dirty tree is refused and left untouched", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  agentCommit(a, { "a.txt": "a\n" });
  const dirts: [string, () => void][] = [
    ["modified", () => writeFileSync(join(a.dir, "README"), "changed\n")],
    [
      "staged",
      () => (writeFileSync(join(a.dir, "staged"), "s\n"), void git(a.dir, "add", "staged")),
    ],
    ["deleted", () => void git(a.dir, "rm", "-q", "--cached", "README")],
  ];
  for (const [name, make] of dirts) {
    make();
    const before = git(a.dir, "status", "--porcelain");
    const refs = allRefs(origin);
    const result = await run(a, ["submit", "--json"]);
    assert.notEqual(result.status, 0, name);
    assert.equal(result.json.schema, "agentq.error/1", name);
    assert.notEqual(result.json.error.code, "internal", name);
    assert.equal(git(a.dir, "status", "--porcelain"), before, name);
    assert.equal(allRefs(origin), refs, name);
    git(a.dir, "reset", "-q", "--hard");
  }
  assert.equal((await runJson(a, ["submit"])).outcome, "landed");
  checkLaws(origin);
});

scenario("untracked and ignored files are no dirt", async () => {
  const origin = makeOrigin({ files: { "shared.txt": SHARED_FILE, ".gitignore": "*.log\n" } });
  const a = makeAgent(origin);
  agentCommit(a, { "a.txt": "a\n" });
  writeFileSync(join(a.dir, "notes"), "untracked\n");
  writeFileSync(join(a.dir, "x.log"), "ignored\n");
  assert.equal((await runJson(a, ["submit"])).outcome, "landed");
  assert.equal(readFileSync(join(a.dir, "notes"), "utf8"), "untracked\n");
  checkLaws(origin);
});

scenario("during a rebase, a merge, a cherry-pick: refused and left untouched", async () => {
  for (const command of ["rebase", "merge", "cherry-pick"]) {
    const origin = makeOrigin();
    const a = makeAgent(origin);
    git(a.dir, "checkout", "-q", "-b", "other");
    agentCommit(a, { "shared.txt": SHARED_FILE.replace("line 3\n", "other\n") });
    git(a.dir, "checkout", "-q", "main");
    agentCommit(a, { "shared.txt": SHARED_FILE.replace("line 3\n", "main\n") });
    assert.notEqual(tryGit(a.dir, [command, "other"]).status, 0);
    const before = git(a.dir, "status", "--porcelain=v2", "--branch");
    const refs = allRefs(origin);
    const result = await run(a, ["submit", "--json"]);
    assert.notEqual(result.status, 0, command);
    assert.equal(result.json.schema, "agentq.error/1", command);
    assert.notEqual(result.json.error.code, "internal", command);
    assert.match(result.json.error.message, new RegExp(command), "says what is in progress");
    assert.equal(git(a.dir, "status", "--porcelain=v2", "--branch"), before);
    assert.equal(allRefs(origin), refs);
  }
});

scenario(
  "not in a repository, no remote, no such revision, no branch yet: named, exit 2 or 64",
  async () => {
    const origin = makeOrigin();
    const a = makeAgent(origin);
    agentCommit(a, { "a.txt": "a\n" });
    const fails = async (args: string[], cwd = a.dir) => {
      const result = await run(a, [...args, "--json"], { cwd });
      assert.ok([2, 64].includes(result.status!), `${args}: ${result.status} ${result.stdout}`);
      assert.notEqual(result.json.error.code, "internal", args.join(" "));
      return result.json.error.code as string;
    };
    assert.equal(await fails(["submit"], tempDir()), "not-a-repository");
    assert.equal(await fails(["submit", "--candidate", "nope"]), "revision-unknown");
    await fails(["submit", "--candidate", "HEAD:README"]);
    await fails(["submit", "--remote", "nowhere"]);
    await fails(["submit", "--remote", "/does/not/exist.git"]);
    await fails(["submit", "--branch", "nope"]);
    await fails(["wait", "99"]);
    assert.equal(await fails(["submit", "--lease-ttl", "soon"]), "usage");
  },
);

scenario(
  "sha256 and reftable repositories and unknown extensions are refused by name",
  async () => {
    const origin = makeOrigin();
    const a = makeAgent(origin);
    agentCommit(a, { "a.txt": "a\n" });
    const sha256 = tempDir();
    git(sha256, "init", "-q", "--object-format=sha256", "-b", "main");
    commit(sha256, "x", { "x": "x\n" });
    git(sha256, "remote", "add", "origin", origin.dir);
    const refused = await runJson(at(a, sha256), ["submit"], 2);
    assert.equal(refused.error.code, "repository-unsupported");
    assert.match(JSON.stringify(refused.error), /sha256/i);
    for (
      const [key, value] of [["extensions.refStorage", "reftable"], [
        "extensions.frobnicate",
        "true",
      ]] as const
    ) {
      for (const dir of [a.dir, origin.dir]) {
        git(dir, "config", "core.repositoryFormatVersion", "1");
        git(dir, "config", key, value);
        const error = await runJson(a, ["submit"], 2);
        assert.equal(error.error.code, "repository-unsupported", `${key} in ${dir}`);
        assert.match(error.error.message, /reftable|refstorage|frobnicate/i);
        removeConfig(dir, key);
      }
    }
    assert.equal((await runJson(a, ["submit"])).outcome, "landed");
    checkLaws(origin);
  },
);

/** Git itself refuses to touch a repository with an extension that it doesn't know. */
function removeConfig(dir: string, key: string): void {
  const bare = dir.endsWith(".git");
  const path = join(dir, bare ? "config" : ".git/config");
  const name = key.split(".")[1]!;
  const lines = readFileSync(path, "utf8").split("\n").filter((line) =>
    !line.toLowerCase().includes(name.toLowerCase()) && !/repositoryformatversion/i.test(line) &&
    !/\[extensions\]/i.test(line)
  );
  writeFileSync(path, lines.join("\n"));
}

scenario("outside of a clone, a remote's name is answered with the way into one", async () => {
  const agent = makeAgent(makeOrigin());
  const said = await run(agent, ["status", "--json"], { cwd: tempDir("agentq-outside-") });
  assert.equal(said.status, 2);
  assert.equal(said.json.error.code, "not-a-repository");
  assert.match(said.json.error.hint, /--repo DIR.*--remote URL/);
});
