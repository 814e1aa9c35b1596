/** Where nothing can land, doctor says so, in the words of the commands that fail there. */
import assert from "node:assert/strict";
import { mkdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { git } from "../helpers/git.ts";
import { type Agent, agentCommit, makeAgent, run, runJson } from "./harness/agent.ts";
import { type Check, doctor } from "./harness/doctor.ts";
import { allRefs, chainRef, makeOrigin, pushOutside, refOf } from "./harness/origin.ts";
import { scenario } from "./harness/scenario.ts";
import { overBoth } from "./harness/transports.ts";

/** The check fails with what the command's error says, which may say first whom it is about. */
async function saysTheSame(agent: Agent, found: Check, command: readonly string[]): Promise<void> {
  assert.equal(found.status, "fail");
  const { error } = (await run(agent, [...command, "--json"])).json;
  assert.ok(error.message.endsWith(found.message), `${found.message} / ${error.message}`);
  assert.equal(found.hint, error.hint);
}

overBoth("doctor sees a branch that lost what the queue landed", async (make) => {
  const origin = make();
  const a = makeAgent(origin);
  assert.equal((await doctor(a)).of("rewound").status, "ok");
  agentCommit(a, { "a.txt": "a\n" });
  assert.equal((await runJson(a, ["submit"])).outcome, "landed");
  // Ahead of what was landed is fine, and found out without the clone's help.
  pushOutside(origin, { "b.txt": "b\n" });
  assert.equal((await doctor(a)).of("rewound").status, "ok");
  git(origin.dir, "update-ref", `refs/heads/${origin.branch}`, origin.initial);
  const found = await doctor(a, ["--read-only"]);
  assert.equal(found.of("branch").status, "ok");
  agentCommit(a, { "c.txt": "c\n" });
  await runJson(a, ["submit", "--no-wait"]);
  await saysTheSame(a, found.of("rewound"), ["land"]);
  await runJson(a, ["resume", "--accept-tip", origin.initial]);
  assert.equal((await doctor(a)).of("rewound").status, "ok");
  git(origin.dir, "update-ref", "-d", `refs/heads/${origin.branch}`);
  assert.match((await doctor(a)).of("rewound").message, /is gone/);
});

overBoth(
  "doctor reads the branch's agentq.json, and looks for the sandbox it names",
  async (make) => {
    const origin = make();
    const a = makeAgent(origin);
    assert.match((await doctor(a)).of("pins").message, /no checks/);
    pushOutside(origin, { "agentq.json": '{"verify":["true"],"sandbox":["nosuchprogram","--"]}' });
    const without = await doctor(a);
    assert.equal(without.of("pins").status, "ok");
    assert.match(without.of("pins").message, /one check/);
    assert.equal(without.of("sandbox").status, "fail");
    assert.match(without.of("sandbox").message, /no program nosuchprogram here/);
    assert.ok(without.of("sandbox").hint);
    pushOutside(origin, { "agentq.json": '{"sandbox":["nosuchprogram"]}' });
    assert.equal((await doctor(a)).of("sandbox").status, "warn");
    pushOutside(origin, { "agentq.json": '{"verify":["true"],"sandbox":["env"]}' });
    assert.equal((await doctor(a)).of("sandbox").status, "ok");
    pushOutside(origin, { "agentq.json": '{"reviewers":2,"\\u001b[2J":1,"__proto__":{}}' });
    const unknown = (await doctor(a)).of("pins");
    assert.equal(unknown.status, "warn");
    assert.match(
      unknown.message,
      /nothing is done for "reviewers", "\\u001b\[2J", "__proto__" in its agentq\.json/,
    );
    pushOutside(origin, { "agentq.json": '{"verify":' });
    const broken = await doctor(a);
    agentCommit(a, { "a.txt": "a\n" });
    await runJson(a, ["submit", "--no-wait"]);
    await saysTheSame(a, broken.of("pins"), ["land"]);
  },
);

scenario(
  "an origin whose HEAD names a branch that isn't there: submit's words, and no queue",
  async () => {
    const origin = makeOrigin();
    git(origin.dir, "symbolic-ref", "HEAD", "refs/heads/master");
    const a = makeAgent(origin);
    git(a.dir, "checkout", "-q", "-B", "main", "origin/main");
    agentCommit(a, { "a.txt": "a\n" });
    const before = allRefs(origin);
    const found = await doctor(a);
    assert.equal(found.of("push").status, "skip");
    assert.equal(allRefs(origin), before);
    await saysTheSame(a, found.of("branch"), ["submit", "--no-wait"]);
    assert.equal((await doctor(a, ["--branch", "main"])).ok, true);
  },
);

scenario("lock files left in an origin on disk are named, and none is touched", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  assert.equal((await doctor(a, ["--read-only"])).of("origin-locks").status, "ok");
  const leave = (name: string): string => {
    const path = join(origin.dir, `${name}.lock`);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, "");
    utimesSync(path, 1000, 1000);
    return path;
  };
  for (const chain of ["queue", "done"] as const) {
    const path = leave(chainRef(origin, chain));
    const found = await doctor(a);
    assert.equal(found.of("origin-locks").status, "fail");
    assert.ok(found.of("origin-locks").message.startsWith(`${path}: a git process`));
    assert.match(found.of("origin-locks").hint!, /remove the lock file/);
    assert.equal(found.of("push").status, "ok");
    rmSync(path);
  }
  const before = refOf(origin, chainRef(origin, "lock"));
  const path = leave(chainRef(origin, "lock"));
  const found = await doctor(a);
  assert.equal(found.of("origin-locks").status, "fail");
  assert.equal(found.of("push").status, "skip");
  assert.equal(refOf(origin, chainRef(origin, "lock")), before);
  rmSync(path);
  rmSync(leave("packed-refs"));
  assert.equal((await doctor(a)).ok, true);
});
