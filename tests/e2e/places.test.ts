/** Where state and stores lie: no home, names that aren't UTF-8, names with newlines, an origin that is away. */
import assert from "node:assert/strict";
import { mkdirSync, readdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../helpers/git.ts";
import { type Agent, agentCommit, makeAgent, run, runJson } from "./harness/agent.ts";
import { makeOrigin } from "./harness/origin.ts";
import { scenario } from "./harness/scenario.ts";

const shell = (script: string) => ["sh", "-c", `${script}; exec "$@"`, "sh"];

/** The error that a run ends with; its exit is 2. */
async function failure(agent: Agent, args: string[], wrapper: string[]) {
  const { status, json, stdout, stderr } = await run(agent, [...args, "--json"], { wrapper });
  assert.equal(status, 2, stdout + stderr);
  return json.error;
}

scenario("without a home what needs none works; the rest says what to name", async () => {
  const agent = makeAgent(makeOrigin());
  const commit = agentCommit(agent, { "a.txt": "a\n" });
  const elsewhere = `store:${join(tempDir(), "store")}`;
  const none = "unset AGENTQ_STATE XDG_STATE_HOME";
  // Who has an entry in passwd has a home by that; only root can be somebody who hasn't.
  const nobody = ["unset HOME", "export HOME="].map((no) => [
    ...shell(`${none}; ${no}; cd /`),
    ...["/usr/bin/setpriv", "--reuid=54321", "--regid=54321", "--clear-groups"],
  ]);
  const relative = shell(`${none}; export HOME=here`);
  for (const homeless of process.geteuid!() === 0 ? [...nobody, relative] : [relative]) {
    for (
      const args of [["queue", "ls"], ["queue", "create", "jobs"], ["store", "init"], ["flush"]]
    ) {
      const { code, message, hint } = await failure(agent, args, homeless);
      assert.equal(code, "state-unavailable", args.join(" "));
      assert.match(message, /HOME/);
      assert.match(hint, /--state DIR or AGENTQ_STATE/);
    }
    const { json } = await run(agent, ["doctor", "--json"], { wrapper: homeless });
    const state = json.checks.find(({ name }: { name: string }) => name === "state");
    assert.equal(state.status, "fail");
  }
  for (
    const args of [
      ["queue", "create", "jobs", "--backend", elsewhere],
      ["queue", "work", "jobs", "--until-empty", "--backend", elsewhere, "--", "true"],
      ["queue", "metrics", "--backend", elsewhere],
      ["status"],
      ["merge-tree", commit, commit],
    ]
  ) {
    const { status, stderr } = await run(agent, args, { wrapper: relative });
    assert.equal(status, 0, `${args.join(" ")}: ${stderr}`);
  }
  assert.deepEqual(readdirSync(agent.dir).filter((name) => name.startsWith("here")), []);
});

scenario(
  "a state directory that can't be made is named as that, by all who would make it",
  async () => {
    const agent = makeAgent(makeOrigin());
    agentCommit(agent, { "a.txt": "a\n" });
    const file = join(tempDir(), "file");
    writeFileSync(file, "");
    const homeless = shell(`unset AGENTQ_STATE XDG_STATE_HOME; export HOME='${file}'`);
    for (const args of [["queue", "create", "jobs"], ["store", "init"], ["submit", "--no-wait"]]) {
      const { code, message } = await failure(agent, args, homeless);
      assert.equal(code, "state-unavailable", args.join(" "));
      assert.ok(
        message.includes(`the state directory ${file}/.local/state/agentq can't be`),
        message,
      );
    }
  },
);

scenario("a path whose bytes aren't UTF-8 is refused, never another directory", async () => {
  const agent = makeAgent(makeOrigin());
  const at = tempDir();
  const odd = `d="$(printf '${at}/d\\377')"; mkdir -p "$d"`;
  const create = (backend: string) => ["queue", "create", "jobs", "--backend", backend];
  const ways: [string, string[]][] = [
    [`${odd}; cd "$d"`, create("store:s")],
    [`${odd}; cd "$d"`, create("v1:.")],
    [`${odd}; cd "$d"`, ["store", "init", "--store", "s"]],
    [`${odd}; cd "$d"`, ["status"]],
    [`${odd}; export HOME="$d"; unset AGENTQ_STATE XDG_STATE_HOME`, ["queue", "create", "jobs"]],
    [`${odd}; export AGENTQ_STATE="$d"`, ["queue", "create", "jobs"]],
    [`${odd}; export AGENTQ_BACKEND="store:$d/s"`, ["queue", "create", "jobs"]],
    [`${odd}; export AGENTQ_BACKEND="v1:$d"`, ["queue", "ls"]],
    [`${odd}; set -- "$@" --store "$d/s"`, ["store", "init"]],
  ];
  for (const [script, args] of ways) {
    const { code, message } = await failure(agent, args, shell(script));
    assert.equal(code, "path-not-representable", `${script}: ${args.join(" ")}: ${message}`);
    assert.match(message, /"d<ff>"/);
  }
  // As text, the runtime reads any byte that fits nowhere as U+FFFD.
  assert.deepEqual(readdirSync(at, { encoding: "buffer" }).map((name) => name.toString("hex")), [
    "64ff",
  ]);
  // A directory that is really called so is a directory like any other.
  mkdirSync(join(at, "\ufffd"));
  await runJson(agent, create(`store:${join(at, "\ufffd", "s")}`));
  await runJson(agent, ["queue", "ls", "--backend", `store:${join(at, "\ufffd", "s")}`]);
});

scenario("newlines in a name make no lines of their own", async () => {
  const agent = makeAgent(makeOrigin());
  const root = join(tempDir(), "a\nagentq: all is well");
  const shown = /a\\nagentq: all is well/;
  for (const command of ["check", "init", "check", "init", "unlock", "gc"]) {
    const { stdout, stderr } = await run(agent, ["store", command, "--store", root]);
    assert.doesNotMatch(stdout + stderr, /^agentq: all/m, command);
    if (stderr !== "" || command === "check") assert.match(stdout + stderr, shown);
  }
  const { stderr } = await run(agent, ["queue", "ls", "--backend", `store:${root}/none`]);
  assert.match(stderr, shown);
  assert.doesNotMatch(stderr, /^agentq: all/m);
});

scenario("while the origin is away status tells what this machine keeps for it", async () => {
  const origin = makeOrigin();
  const agent = makeAgent(origin);
  const first = agentCommit(agent, { "a.txt": "a\n" });
  await runJson(agent, ["submit", "--no-wait"]);
  renameSync(origin.dir, `${origin.dir}.away`);
  const second = agentCommit(agent, { "b.txt": "b\n" });
  await runJson(agent, ["submit", "--no-wait", "--offline"]);
  const { status, json } = await run(agent, ["status", "--json"]);
  assert.equal(status, 2);
  assert.equal(json.error.code, "origin-not-found");
  const seen = json.error.details.submissions.map((one: Record<string, unknown>) => [
    one.candidate,
    one.ticket,
    one.state,
  ]);
  assert.deepEqual(seen, [[first, 0, "unknown"], [second, null, "offline"]]);
  const human = await run(agent, ["status"]);
  assert.equal(human.status, 2);
  assert.match(
    human.stdout,
    new RegExp(`^from this machine:\n.*\n  no ticket yet ${second.slice(0, 7)}`),
  );
});

scenario("a damaged store of submissions is told by all alike", async () => {
  const agent = makeAgent(makeOrigin());
  agentCommit(agent, { "a.txt": "a\n" });
  await runJson(agent, ["submit", "--no-wait"]);
  const state = join(agent.state, "submissions", ".fs-safe-queue-v2", "state.json");
  writeFileSync(state, "{", { mode: 0o600 });
  agentCommit(agent, { "b.txt": "b\n" });
  const told = await Promise.all([["flush"], ["submit", "--no-wait"]].map(async (args) => {
    const { code, message, hint } = await failure(agent, args, shell(":"));
    return { code, message, hint };
  }));
  assert.equal(told[0]!.code, "store-invalid");
  assert.match(told[0]!.hint, /Restore that file from a copy/);
  assert.deepEqual(told[1], told[0]);
});

scenario("a file system without inodes is told from a full one", async () => {
  const agent = makeAgent(makeOrigin());
  const at = tempDir();
  const filled = `/bin/mount -t tmpfs -o size=4m,nr_inodes=64,mode=700 none '${at}'; i=0; ` +
    `while /usr/bin/touch '${at}'/$i 2>/dev/null; do i=$((i+1)); done`;
  const wrapper = ["/usr/bin/unshare", "-U", "-r", "-m", ...shell(filled)];
  const args = ["queue", "create", "jobs", "--backend", `store:${at}/s`];
  const { code, hint, details } = await failure(agent, args, wrapper);
  assert.equal(code, "io-error");
  assert.equal(details.errno, "ENOSPC");
  assert.match(hint, /no inodes are free/);
});
