/** Every flag can be set in the environment and in git config too, but those that must not be. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { commandHelp } from "../../cli/help.ts";
import { environmentName } from "../../cli/settings.ts";
import { COMMANDS } from "../../cli/table.ts";
import { RUN_SETTINGS } from "../../src/platform/run-settings.ts";
import { commit, git, gitEnv, makeRepo, tempDir } from "../helpers/git.ts";

const main = fileURLToPath(new URL("../../cli/main.ts", import.meta.url));
const start = process.versions.deno === undefined ? [main] : ["run", "-A", "--no-check", main];
const LONG = { timeout: 120_000 };

/** agentq in a directory; `env` for one run. */
function runner(cwd: string) {
  const state = tempDir();
  return (args: readonly string[], env: Record<string, string> = {}, input = "") => {
    const ran = spawnSync(process.execPath, [...start, ...args], {
      cwd,
      env: { ...process.env, ...gitEnv(), AGENTQ_STATE: state, ...env },
      input,
      encoding: "utf8",
    });
    return { code: ran.status, out: ran.stdout.trimEnd(), err: ran.stderr };
  };
}

test("the command line alone sets what names one thing, or is a word for one occasion", () => {
  const only = COMMANDS.flatMap(({ path, flags = [] }) =>
    flags.filter((flag) => flag.argvOnly).map(({ name }) => `${path.join(" ")} --${name}`)
  );
  assert.deepEqual(only.sort(), [
    "flush --drop",
    "merge-tree --stdin",
    "queue ack --lease",
    "queue enqueue --id",
    "queue fail --lease",
    "queue failed retry --all",
    "queue requeue --lease",
    "resume --accept-tip",
    "store init --resume-after-inspection",
    "store unlock --i-have-checked",
    "store unlock --owner-token",
  ]);
  const enqueue = COMMANDS.find(({ path }) => path.join(" ") === "queue enqueue")!;
  assert.match(commandHelp(enqueue), /only on the command line: --id\.\n/);
});

test("settings of one run are flags that the environment can set", () => {
  const settable = new Set(
    COMMANDS.flatMap(({ flags = [] }) => flags.filter((flag) => !flag.argvOnly))
      .map(({ name }) => environmentName(name)),
  );
  assert.deepEqual(RUN_SETTINGS.filter((name) => !settable.has(name)), []);
});

test("queue commands take their flags from the environment", LONG, () => {
  const run = runner(tempDir());
  run(["queue", "create", "jobs"]);
  const lines = run(["queue", "enqueue", "jobs"], { AGENTQ_LINES: "1" }, "a\nb\nc\n").out;
  assert.equal(lines.split("\n").length, 3);
  const taken = run(["queue", "dequeue", "jobs"], { AGENTQ_COUNT: "2", AGENTQ_RECEIPT: "yes" }).out;
  const messages = taken.split("\n").map((line) => JSON.parse(line));
  assert.equal(messages.length, 2);
  assert.equal(typeof messages[0].lease, "string");
  assert.equal(run(["queue", "recover", "jobs"], { AGENTQ_STALE: "" }).out, "0");
  assert.equal(run(["queue", "recover", "jobs"], { AGENTQ_STALE: "0" }).out, "2");
  assert.equal(run(["queue", "wait", "jobs"], { AGENTQ_TIMEOUT: "0.1" }).code, 3);
  assert.equal(run(["queue", "status"], { AGENTQ_ALL: "1" }).code, 0);
  const { id } = JSON.parse(run(["queue", "dequeue", "jobs"]).out);
  run(["queue", "fail", "jobs", id], { AGENTQ_REASON: "because" });
  const failed = run(["queue", "failed", "show", "jobs", id]).out;
  assert.equal(JSON.parse(failed).reason, "because");
  const prometheus = run(["queue", "metrics"], { AGENTQ_PROMETHEUS: "on" }).out;
  assert.match(prometheus, /^# /m);
  // Never what names a message, or a delivery.
  run(["queue", "clear", "jobs"]);
  assert.notEqual(run(["queue", "enqueue", "jobs", "d"], { AGENTQ_ID: "x1" }).out, "x1");
  const one = JSON.parse(run(["queue", "dequeue", "jobs"], { AGENTQ_LEASE: "60" }).out);
  assert.equal(run(["queue", "ack", "jobs", one.id], { AGENTQ_LEASE: "60" }).code, 0);
  const bad = run(["queue", "dequeue", "jobs"], { AGENTQ_COUNT: "none" });
  assert.equal(bad.code, 64);
  assert.match(bad.err, /AGENTQ_COUNT: "none" is not a whole number/);
});

test("a worker keeps the settings of its own run from the programs it runs", LONG, () => {
  const run = runner(tempDir());
  run(["queue", "create", "jobs"]);
  run(["queue", "enqueue", "jobs", "x"]);
  const { code, out, err } = run(["queue", "work", "jobs", "--quiet", "--", "env"], {
    AGENTQ_UNTIL_EMPTY: "1",
    AGENTQ_LEASE: "20",
    AGENTQ_MAX_ATTEMPTS: "2",
    AGENTQ_COUNT: "7",
  });
  assert.equal(code, 0, err);
  const told = out.split("\n").map((line) => line.replace(/=.*/, ""))
    .filter((name) => /^AGENTQ_(?!TEST_)/.test(name)).sort();
  assert.deepEqual(told, [
    "AGENTQ_ATTEMPT",
    "AGENTQ_MAX_ATTEMPTS",
    "AGENTQ_MESSAGE_ID",
    "AGENTQ_QUEUE",
    "AGENTQ_STATE",
  ]);
});

test("landing commands take their flags from environment and config", LONG, () => {
  const origin = tempDir();
  git(origin, "init", "-q", "--bare", "-b", "main", ".");
  const seed = makeRepo();
  commit(seed, "base", { "a.txt": "a\n", "b c.txt": "b\n", "é.txt": "e\n" });
  git(seed, "push", "-q", origin, "main");
  const clone = join(tempDir(), "clone");
  git(seed, "clone", "-q", origin, clone);
  const run = runner(clone);
  const queued = () => git(origin, "log", "-1", "--format=%B", "refs/weave/main/queue");

  commit(clone, "one", { "one.txt": "1\n" });
  const submit = ["submit", "--no-wait", "--json"];
  assert.equal(JSON.parse(run(submit, { AGENTQ_DROP: "a.txt\nb c.txt\n" }).out).ticket, 0);
  assert.match(queued(), /"a\.txt"/);
  assert.match(queued(), /"b c\.txt"/);
  assert.equal(JSON.parse(run(submit).out).ticket, 0);
  git(clone, "config", "--add", "agentq.drop", "é.txt");
  git(clone, "config", "--add", "agentq.drop", "b c.txt");
  assert.equal(JSON.parse(run(submit, { AGENTQ_AGAIN: "1" }).out).ticket, 1);
  assert.match(queued(), /"é\.txt"/);
  assert.match(queued(), /"b c\.txt"/);
  git(clone, "config", "agentq.max", "1");
  assert.equal(run(["land", "--json"]).out.split("\n").length, 1);
  assert.equal(run(["log", "--json"], { AGENTQ_NUMBER: "0" }).out, "");

  git(clone, "config", "agentq.reason", "by config");
  assert.equal(JSON.parse(run(["pause", "--json"]).out).paused.reason, "by config");
  const by = JSON.parse(run(["pause", "--json"], { AGENTQ_REASON: "by environment" }).out);
  assert.equal(by.paused.reason, "by environment");
  const refused = run(["resume", "--json"], { AGENTQ_ACCEPT_TIP: "nonsense" });
  assert.equal(refused.code, 0, refused.out);
  git(clone, "config", "--unset-all", "agentq.drop");
  git(clone, "config", "agentq.create-branch", "true");
  commit(clone, "two", { "two.txt": "2\n" });
  assert.equal(run([...submit, "--branch", "new"]).code, 0);
  git(clone, "config", "agentq.create-branch", "perhaps");
  const bad = run([...submit, "--branch", "newer"]);
  assert.equal(bad.code, 64);
  assert.match(bad.out, /git config agentq\.create-branch: \\"perhaps\\"/);
});

test("a check isn't told the settings of its lander's run", LONG, () => {
  const origin = tempDir();
  git(origin, "init", "-q", "--bare", "-b", "main", ".");
  const seed = makeRepo();
  commit(seed, "base", { "a.txt": "a\n" });
  git(seed, "push", "-q", origin, "main");
  const clone = join(tempDir(), "clone");
  git(seed, "clone", "-q", origin, clone);
  commit(clone, "one", { "one.txt": "1\n" });
  const seen = join(tempDir(), "seen");
  const { code, err } = runner(clone)(["submit", "--verify-cmd", `env >${seen}`], {
    AGENTQ_DROP: "x",
    AGENTQ_AGAIN: "1",
    AGENTQ_MAX: "3",
  });
  assert.equal(code, 0, err);
  const names = spawnSync("sed", ["s/=.*//", seen], { encoding: "utf8" }).stdout.split("\n");
  assert.ok(names.includes("AGENTQ_TICKET"));
  assert.deepEqual(names.filter((name) => RUN_SETTINGS.includes(name)), []);
});

test("the demo shows the same, whatever is set for other runs", LONG, () => {
  const { code, out } = runner(tempDir())(["demo", "--json"], {
    AGENTQ_NO_WAIT: "1",
    AGENTQ_CANDIDATE: "nothing",
    AGENTQ_BRANCH: "none",
    AGENTQ_MAX: "1",
  });
  assert.equal(code, 0, out);
  assert.equal(JSON.parse(out).good, true);
});

test("--recover-stale is taken by every command", () => {
  const run = runner(makeRepo());
  // Nothing to do for most of them: what they say isn't about the flag.
  for (const { path } of COMMANDS) {
    if (path[0] === "demo") continue;
    assert.match(
      commandHelp(COMMANDS.find((one) => one.path === path)!),
      /^ {2}--recover-stale /m,
    );
  }
  assert.doesNotMatch(run(["submit", "--recover-stale"]).err, /unknown option/);
});

test("the version is a document with --json, wherever that is said", () => {
  const run = runner(tempDir());
  const plain = run(["--version"]).out;
  const document = run(["--version", "--json"]).out;
  assert.deepEqual(JSON.parse(document), {
    schema: "agentq.version/1",
    version: plain.replace("agentq ", ""),
  });
  assert.equal(run(["--json", "--version"]).out, document);
  assert.equal(run(["-V", "--json"]).out, document);
  assert.equal(run(["--version"], { AGENTQ_JSON: "1" }).out, document);
  assert.equal(run(["--version"], { AGENTQ_JSON: "0" }).out, plain);
});

test("the person's own git config counts outside of clones, and a key alone is on", LONG, () => {
  const dir = tempDir();
  const run = runner(dir);
  const file = join(dir, "config");
  const with_ = (text: string) => {
    writeFileSync(file, text);
    return { GIT_CONFIG_GLOBAL: file, GIT_CONFIG_NOSYSTEM: "1" };
  };
  const backend = `[agentq]\n\tbackend = sqlite:${join(dir, "q.db")}\n`;
  assert.equal(run(["queue", "create", "jobs"], with_(backend)).code, 0);
  assert.ok(existsSync(join(dir, "q.db")));
  const isJson = (text: string) =>
    run(["queue", "ls"], with_(`${backend}\t${text}\n`)).out.startsWith("{");
  assert.deepEqual(["json", "json = true", "json =", "json = off"].map(isJson), [
    true,
    true,
    false,
    false,
  ]);
});
