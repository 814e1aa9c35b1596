/** The queue over ssh, by the system's program and by the embedded client, and over git://. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, symlinkSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { after } from "node:test";
import { startDaemon, startSshd } from "../helpers/git-servers.ts";
import { git, tempDir } from "../helpers/git.ts";
import { type Agent, agentCommit, makeAgent, run, runJson, toolPath } from "./harness/agent.ts";
import { isAncestor, readCommit } from "./harness/chains.ts";
import { checkLaws } from "./harness/laws.ts";
import {
  makeOrigin,
  SHARED_FILE,
  type TestOrigin,
  tipOf,
  verifyCommand,
} from "./harness/origin.ts";
import { scenario } from "./harness/scenario.ts";

const stops: (() => Promise<void>)[] = [];
after(() => Promise.all(stops.map((stop) => stop())));

/** A PATH with ssh and no git. */
function pathWithSsh(): string {
  const dir = tempDir("agentq-ssh-tools-");
  symlinkSync("/usr/bin/ssh", join(dir, "ssh"));
  return `${dir}:${toolPath()}`;
}

interface Way {
  origin: TestOrigin;
  env: Record<string, string>;
}

const ways: Record<string, () => Promise<Way>> = {
  "ssh://": async () => {
    const origin = makeOrigin();
    const sshd = await startSshd();
    stops.push(sshd.stop);
    origin.url = `ssh://${sshd.user}@127.0.0.1:${sshd.port}${origin.dir}`;
    origin.cloneConfig["core.sshCommand"] = sshd.ssh;
    return { origin, env: { PATH: pathWithSsh() } };
  },
  "user@host:path, a server that offers protocol 0": async () => {
    const origin = makeOrigin();
    const sshd = await startSshd({ acceptProtocol: false, restricted: true });
    stops.push(sshd.stop);
    origin.url = `${sshd.user}@127.0.0.1:${origin.dir}`;
    // One login for all of it, as docs/origins.md advises; the way above has one for each connection.
    const path = `${tempDir("aq-")}/c`;
    const shared = `-o ControlMaster=auto -o ControlPath=${path} -o ControlPersist=30`;
    stops.unshift(async () => {
      spawnSync("ssh", ["-o", `ControlPath=${path}`, "-O", "exit", "h"]);
    });
    const ssh = `${sshd.ssh} -p ${sshd.port} ${shared}`;
    return { origin, env: { PATH: pathWithSsh(), GIT_SSH_COMMAND: ssh } };
  },
  "ssh without a program": async () => {
    const origin = makeOrigin();
    const sshd = await startSshd({ hashed: true });
    stops.push(sshd.stop);
    origin.url = `ssh://${sshd.user}@127.0.0.1:${sshd.port}${origin.dir}`;
    return { origin, env: { HOME: sshd.home } };
  },
  "ssh without a program, one session a login": async () => {
    const origin = makeOrigin();
    const sshd = await startSshd({ config: "MaxSessions 1" });
    stops.push(sshd.stop);
    origin.url = `ssh://${sshd.user}@127.0.0.1:${sshd.port}${origin.dir}`;
    return { origin, env: { HOME: sshd.home } };
  },
  "git://": async () => {
    const origin = makeOrigin();
    const daemon = await startDaemon(dirname(origin.dir));
    stops.push(daemon.stop);
    origin.url = `git://127.0.0.1:${daemon.port}/${basename(origin.dir)}`;
    return { origin, env: {} };
  },
};

const noGit = (agent: Agent) => {
  for (const dir of agent.env.PATH!.split(":")) assert.ok(!existsSync(join(dir, "git")), dir);
};

for (const [name, make] of Object.entries(ways)) {
  scenario(`submit, wait, land, status and log over ${name}`, async () => {
    const { origin, env } = await make();
    const verify = ["--verify-cmd", verifyCommand(origin)];
    const a = makeAgent(origin, { env });
    const b = makeAgent(origin, { env });
    const c = makeAgent(origin, { env });
    noGit(a);
    const first = agentCommit(a, { "shared.txt": SHARED_FILE.replace("line 1\n", "A\n") });
    const one = await runJson(a, ["submit", ...verify]);
    assert.deepEqual([one.ticket, one.outcome, one.landed], [0, "landed", first]);

    const second = agentCommit(b, { "shared.txt": SHARED_FILE.replace("line 50\n", "B\n") });
    const queued = await runJson(b, ["submit", "--no-wait", ...verify]);
    assert.equal(queued.ticket, 1);
    const status = await runJson(c, ["status"]);
    assert.equal(JSON.stringify(status).includes(second), true);
    const landing = await run(c, ["land"]);
    assert.equal(landing.status, 0, landing.stderr);
    const two = await runJson(b, ["wait", "1"]);
    assert.equal(two.outcome, "landed");
    const merge = readCommit(origin.dir, two.landed);
    assert.deepEqual(merge.parents, [first, second]);
    assert.equal(tipOf(origin), two.landed);
    assert.ok(isAncestor(origin.dir, second, tipOf(origin)));

    // Two at once: each waits for its turn.
    const tickets = [a, c].map((agent, i) => {
      git(agent.dir, "checkout", "-q", "--detach", origin.initial);
      agentCommit(agent, { [`file${i}`]: `${i}\n` });
      return runJson(agent, ["submit", ...verify]);
    });
    for (const result of await Promise.all(tickets)) assert.equal(result.outcome, "landed");
    assert.match((await run(a, ["log"])).stdout, /landed/);
    checkLaws(origin);
    assert.equal(git(origin.dir, "fsck", "--strict", "--no-dangling"), "");
  });
}

scenario("an ssh that fails is an error with its reason, not a hang or a prompt", async () => {
  const { origin, env } = await ways["ssh://"]!();
  const a = makeAgent(origin, { env });
  git(a.dir, "config", "core.sshCommand", "ssh -F /dev/null -o UserKnownHostsFile=/dev/null");
  const unknown = await runJson(a, ["status"], 2);
  assert.equal(unknown.error.code, "host-key-unknown");
  const home = join(tempDir(), "home");
  mkdirSync(home);
  const without = await runJson(a, ["status"], 2, {
    env: { PATH: toolPath(), HOME: home, GIT_SSH_COMMAND: "" },
  });
  assert.equal(without.error.code, "command-not-started");
  git(a.dir, "config", "--unset", "core.sshCommand");
  const embedded = await runJson(a, ["status"], 2, { env: { PATH: toolPath(), HOME: home } });
  assert.equal(embedded.error.code, "host-key-unknown");
});
