/** A clone that can't be read, and a state that can't be used: failed checks beside all the others. */
import assert from "node:assert/strict";
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { git, tempDir } from "../helpers/git.ts";
import { type Agent, agentCommit, makeAgent, run, runJson } from "./harness/agent.ts";
import { doctor } from "./harness/doctor.ts";
import { makeOrigin, pushOutside } from "./harness/origin.ts";
import { scenario } from "./harness/scenario.ts";
import { overBoth } from "./harness/transports.ts";

/** What a submission would have ended with. */
async function submitError(agent: Agent): Promise<{ message: string; hint: string }> {
  return (await run(agent, ["submit", "--no-wait", "--json"])).json.error;
}

scenario("a clone of another object format: its origin is found by its config", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  const dir = tempDir();
  git(dir, "init", "-q", "--object-format=sha256");
  git(dir, "config", "agentq.remote", "there");
  const at = { cwd: dir };
  const unnamed = await doctor(a, [], at);
  assert.equal(unnamed.of("clone").status, "fail");
  assert.match(unnamed.of("clone").message, /objectformat=sha256/);
  assert.match(unnamed.of("origin").message, /no remote "there"/);
  git(dir, "remote", "add", "there", origin.url);
  const found = await doctor(a, [], at);
  assert.equal(found.of("clone").status, "fail");
  assert.deepEqual([found.of("origin").status, found.of("push").status], ["ok", "ok"]);
  assert.equal((await doctor({ ...a, dir: "/" }, ["--repo", dir])).of("origin").status, "ok");
});

overBoth("a clone with a broken HEAD, or a commit that is missing", async (make) => {
  const origin = make();
  const a = makeAgent(origin);
  agentCommit(a, { "a.txt": "a\n" });
  assert.equal((await runJson(a, ["submit"])).outcome, "landed");
  pushOutside(origin, { "b.txt": "b\n" });
  const head = readFileSync(join(a.dir, ".git/HEAD"));
  for (const broken of ["x\n", `${"1".repeat(40)}\n`]) {
    writeFileSync(join(a.dir, ".git/HEAD"), broken);
    const found = await doctor(a);
    const { message, hint } = await submitError(a);
    const { status, ...clone } = found.of("clone");
    assert.deepEqual([status, clone.message, clone.hint], ["fail", message, hint]);
    for (const name of ["origin", "rewound", "push"]) assert.equal(found.of(name).status, "ok");
  }
  writeFileSync(join(a.dir, ".git/HEAD"), head);
  assert.equal((await doctor(a)).ok, true);
});

scenario("a clone whose config is broken: the origin is asked when its url is given", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  appendFileSync(join(a.dir, ".git/config"), "[broken\n");
  const byName = await doctor(a);
  const { message, hint } = await submitError(a);
  assert.deepEqual([byName.of("clone").message, byName.of("clone").hint], [message, hint]);
  assert.equal(byName.of("origin").status, "skip");
  assert.match(byName.of("origin").hint!, /--remote URL/);
  const byUrl = await doctor(a, ["--remote", origin.url]);
  assert.equal(byUrl.of("clone").status, "fail");
  assert.deepEqual([byUrl.of("origin").status, byUrl.of("push").status], ["ok", "ok"]);
});

scenario("a config of the person's own that is broken fails both", async () => {
  const a = makeAgent(makeOrigin());
  writeFileSync(join(a.env.HOME!, ".gitconfig"), "[broken\n");
  const { of } = await doctor(a);
  assert.match(of("clone").message, /\.gitconfig/);
  assert.equal(of("origin").status, "skip");
});

scenario("a named directory that is no clone fails; none at all is skipped", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  const dir = tempDir();
  const named = await doctor(a, ["--repo", dir, "--remote", origin.url]);
  assert.deepEqual([named.of("clone").status, named.of("origin").status], ["fail", "ok"]);
  const none = await doctor(a, ["--remote", origin.url], { cwd: dir });
  assert.deepEqual([none.of("clone").status, none.of("origin").status], ["skip", "ok"]);
});

scenario("uncommitted changes and a merge in progress are told, and fail nothing", async () => {
  const a = makeAgent(makeOrigin());
  assert.equal((await doctor(a)).of("work-tree").status, "ok");
  writeFileSync(join(a.dir, "shared.txt"), "changed\n");
  const dirty = await doctor(a);
  assert.deepEqual([dirty.ok, dirty.of("work-tree").status], [true, "warn"]);
  assert.match(dirty.of("work-tree").message, /shared\.txt/);
  assert.equal(dirty.of("work-tree").hint, (await submitError(a)).hint);
  git(a.dir, "checkout", "-q", "shared.txt");
  writeFileSync(join(a.dir, ".git/MERGE_HEAD"), `${git(a.dir, "rev-parse", "HEAD")}\n`);
  assert.match((await doctor(a)).of("work-tree").message, /merge is in progress/);
});

scenario(
  "a lock on the submissions that nobody can prove stale: told with the way out",
  async () => {
    const a = makeAgent(makeOrigin());
    agentCommit(a, { "a.txt": "a\n" });
    await runJson(a, ["submit", "--no-wait"]);
    const store = join(a.state, "submissions");
    const lock = join(store, ".fs-safe-queue-v2/.state-transfer.lock");
    const owner = {
      token: "b98660841ddadd00a1bf919a341f878e",
      pid: 55,
      startTime: "1253542",
      pidNamespace: "pid:[1]",
      bootId: "0f8de1f2-9892-448c-9388-000000000000",
      host: "other",
      createdAt: "2026-11-30T19:05:54.635Z",
    };
    writeFileSync(lock, JSON.stringify(owner), { mode: 0o600 });
    const { of } = await doctor(a);
    assert.equal(of("state").status, "fail");
    assert.match(of("state").message, /process 55 on "other"/);
    const command = /agentq (store unlock --store \S+ --owner-token \S+ --i-have-checked)/
      .exec(of("state").hint!)![1]!;
    assert.equal((await run(a, command.split(" "))).status, 0);
    assert.equal((await doctor(a)).of("state").status, "ok");
  },
);

scenario("submissions that can't be used: told in submit's words", async () => {
  const a = makeAgent(makeOrigin());
  agentCommit(a, { "a.txt": "a\n" });
  mkdirSync(a.state);
  writeFileSync(join(a.state, "submissions"), "no directory");
  const { of } = await doctor(a);
  const { message, hint } = await submitError(a);
  assert.deepEqual([of("state").status, of("state").message, of("state").hint], [
    "fail",
    message,
    hint,
  ]);
});
