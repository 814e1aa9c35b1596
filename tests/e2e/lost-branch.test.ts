/** A branch that lost what was landed on it: the advice is run as it is printed, in clones that know nothing. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { after } from "node:test";
import { startSshd } from "../helpers/git-servers.ts";
import { git, gitEnv, tempDir } from "../helpers/git.ts";
import { type Agent, agentCommit, makeAgent, run, runJson } from "./harness/agent.ts";
import { doctor } from "./harness/doctor.ts";
import { checkLaws } from "./harness/laws.ts";
import { makeOrigin, pushOutside, refOf, type TestOrigin, tipOf } from "./harness/origin.ts";
import { scenario } from "./harness/scenario.ts";
import { overBoth } from "./harness/transports.ts";

const stops: (() => Promise<void>)[] = [];
after(() => Promise.all(stops.map((stop) => stop())));

/** The commands of a hint, from `git fetch` to the end of its sentence. */
function commandsOf(hint: string | null): string {
  const found = /in any clone: (git fetch .*? && git push .*?)\. (?:Until|If) /.exec(hint ?? "");
  assert.ok(found, String(hint));
  return found[1]!;
}

/** Pasted into a shell. */
function paste(agent: Agent, commands: string): void {
  // The clone's own settings count, not those of this machine, which Deno hands on whatever `env` says.
  const shell = spawnSync("sh", ["-c", `unset GIT_SSL_CAINFO; ${commands}`], {
    cwd: agent.dir,
    env: gitEnv({ GIT_TERMINAL_PROMPT: "0" }),
    encoding: "utf8",
  });
  assert.equal(shell.status, 0, `${commands}\n${shell.stderr}`);
}

/** Deletes the branch and has it restored by what doctor says, in `clone`. */
async function deleteAndRestore(origin: TestOrigin, clone: Agent): Promise<void> {
  const tip = tipOf(origin);
  git(origin.dir, "update-ref", "-d", `refs/heads/${origin.branch}`);
  const args = ["--branch", origin.branch];
  const { of } = await doctor(clone, args);
  assert.match(of("rewound").message, /is gone, and with it/);
  const status = await run(clone, ["status", ...args]);
  assert.match(status.stdout, /the branch is gone, .*agentq doctor says how/);
  paste(clone, commandsOf(of("rewound").hint));
  assert.equal(tipOf(origin), tip);
  assert.equal((await doctor(clone, args)).of("rewound").status, "ok");
}

/** An origin on which a merge was landed that no clone has, and clones of it from before that. */
async function landed(origin: TestOrigin): Promise<{ lander: Agent; clones: Agent[] }> {
  const lander = makeAgent(origin);
  const other = makeAgent(origin);
  const shallow = makeAgent(origin, { clone: ["--depth", "1"] });
  const partial = makeAgent(origin, { clone: ["--filter=blob:none"] });
  agentCommit(lander, { "a.txt": "a\n" });
  agentCommit(other, { "b.txt": "b\n" });
  const branch = ["--branch", origin.branch];
  await runJson(other, ["submit", "--no-wait", ...branch]);
  const { landed, candidate } = await runJson(lander, ["submit", ...branch]);
  assert.notEqual(landed, candidate, "it is a merge");
  return { lander, clones: [lander, other, shallow, partial] };
}

overBoth("a deleted branch is restored by what doctor says, in any clone", async (make) => {
  const origin = make({ config: { "uploadpack.allowFilter": "true" } });
  const { lander, clones } = await landed(origin);
  for (const clone of clones) await deleteAndRestore(origin, clone);
  const { error } = await (async () => {
    git(origin.dir, "update-ref", "-d", `refs/heads/${origin.branch}`);
    agentCommit(lander, { "c.txt": "c\n" });
    return await runJson(lander, ["submit"], 2);
  })();
  assert.equal(error.code, "branch-rewound");
  paste(clones[1]!, commandsOf(error.hint));
  assert.equal((await runJson(lander, ["wait", String(error.details.ticket)])).outcome, "landed");
  checkLaws(origin, { rewound: true });
});

scenario(
  "where a clone fetches from elsewhere than it pushes to, the queue's place is named",
  async () => {
    const origin = makeOrigin();
    const mirror = join(tempDir(), "mirror.git");
    git(tempDir(), "clone", "-q", "--mirror", origin.dir, mirror);
    const { lander } = await landed(origin);
    git(lander.dir, "remote", "set-url", "origin", mirror);
    git(lander.dir, "config", "remote.origin.pushurl", origin.dir);
    await deleteAndRestore(origin, lander);
  },
);

scenario("the same over ssh, and where names need quotes and the remote is a url", async () => {
  const sshd = await startSshd();
  stops.push(sshd.stop);
  const origin = makeOrigin({ branch: "it's;$(touch)&" });
  const at = origin.dir;
  origin.url = `ssh://${sshd.user}@127.0.0.1:${sshd.port}${at}`;
  origin.cloneConfig["core.sshCommand"] = sshd.ssh;
  const byRemote = makeOrigin({ name: "it's here.git" });
  const { clones } = await landed({ ...origin, url: at, cloneConfig: {} });
  const clone = makeAgent(origin);
  clone.env.PATH = `${process.env.PATH}`;
  for (const one of [clone, clones[1]!]) await deleteAndRestore(origin, one);
  const { clones: others } = await landed(byRemote);
  const foreign = others[1]!;
  git(foreign.dir, "remote", "remove", "origin");
  foreign.env.AGENTQ_REMOTE = byRemote.url;
  await deleteAndRestore(byRemote, foreign);
});

scenario(
  "a branch that went elsewhere is restored as it is advised, unless it moved again",
  async () => {
    const origin = makeOrigin({ config: { "receive.denyNonFastForwards": "false" } });
    const { clones } = await landed(origin);
    const tip = tipOf(origin);
    const advice = async () => commandsOf((await doctor(clones[1]!)).of("rewound").hint);
    git(origin.dir, "update-ref", `refs/heads/${origin.branch}`, origin.initial);
    paste(clones[1]!, await advice());
    assert.equal(tipOf(origin), tip);
    git(origin.dir, "update-ref", `refs/heads/${origin.branch}`, origin.initial);
    pushOutside(origin, { "z.txt": "z\n" });
    const before = await advice();
    const status = await run(clones[1]!, ["status"]);
    assert.ok(status.stdout.includes(`agentq resume --accept-tip ${tipOf(origin)}`), status.stdout);
    const moved = pushOutside(origin, { "y.txt": "y\n" });
    assert.throws(() => paste(clones[1]!, before), /stale info/);
    assert.equal(tipOf(origin), moved);
    paste(clones[1]!, await advice());
    assert.equal(tipOf(origin), tip);
  },
);

scenario(
  "a deletion that was meant: push the branch anew, accept that commit, and land on it",
  async () => {
    const origin = makeOrigin();
    const { lander } = await landed(origin);
    const ref = `refs/heads/${origin.branch}`;
    git(lander.dir, "checkout", "-q", "-b", "next", origin.initial);
    const next = agentCommit(lander, { "next.txt": "next\n" });
    await runJson(lander, ["submit", "--no-wait"]);
    git(origin.dir, "update-ref", "-d", ref);
    const { error } = await runJson(lander, ["land"], 2);
    assert.match(error.hint, /If it was deleted on purpose, push it anew at any commit/);
    assert.equal(refOf(origin, ref), null, "landing doesn't make it anew");
    const early = await runJson(lander, ["resume", "--accept-tip", origin.initial], 2);
    assert.equal(early.error.code, "tip-moved");
    assert.match(early.error.hint, /Push the branch first/);
    git(lander.dir, "push", "-q", "origin", `${origin.initial}:${ref}`);
    assert.equal((await runJson(lander, ["land"], 2)).error.code, "branch-rewound");
    await runJson(lander, ["resume", "--accept-tip", origin.initial]);
    assert.equal((await runJson(lander, ["land"])).landed, next);
    assert.equal(tipOf(origin), next);
    assert.equal((await runJson(lander, ["status"])).rewound, false);
  },
);

scenario("a tip that was accepted and then deleted is fetched by its id", async () => {
  const origin = makeOrigin();
  const { clones } = await landed(origin);
  git(origin.dir, "update-ref", `refs/heads/${origin.branch}`, origin.initial);
  const accepted = pushOutside(origin, { "z.txt": "z\n" });
  await runJson(clones[0]!, ["resume", "--accept-tip", accepted]);
  const dir = join(tempDir(), "x");
  git("/", "clone", "-q", origin.dir, dir);
  git(origin.dir, "update-ref", "-d", `refs/heads/${origin.branch}`);
  const { of } = await doctor(clones[1]!);
  assert.match(of("rewound").message, /which was accepted as its tip/);
  paste(clones[1]!, commandsOf(of("rewound").hint));
  assert.equal(tipOf(origin), accepted);
});
