import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import net from "node:net";
import { join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import fc from "fast-check";
import { AgentqError, type ErrorCode, isAgentqError } from "../../../src/errors.ts";
import { openConfig } from "../../../src/git/config.ts";
import { openOrigin, type OriginOptions } from "../../../src/git/origin.ts";
import { openRepository } from "../../../src/git/repository.ts";
import { remoteQuote, sshOptions, sshVariant } from "../../../src/git/ssh/command.ts";
import { judgeHostKey, knownHostKeys } from "../../../src/git/ssh/known-hosts.ts";
import { commit, git, makeRepo, tempDir } from "../../helpers/git.ts";
import { makeKey, type SshServer, startSshd } from "../../helpers/git-servers.ts";

const PATH = process.env.PATH ?? "/usr/bin:/bin";
let started: Promise<SshServer> | undefined;
const server = () => started ??= startSshd();
after(async () => {
  await (await started)?.stop();
});

const work = makeRepo();
const first = commit(work, "first", { "a.txt": "a\n" });
const bare = join(tempDir(), "repo.git");
git("/", "clone", "-q", "--bare", work, bare);

const urlOf = ({ user, port }: SshServer, path = bare) => `ssh://${user}@127.0.0.1:${port}${path}`;

async function fails(url: string, code: ErrorCode, options: OriginOptions): Promise<AgentqError> {
  const origin = await openOrigin(url, options);
  try {
    await origin.refs(["refs/"]);
  } catch (error) {
    assert.ok(isAgentqError(error, code), `${error} is no ${code}`);
    return error;
  } finally {
    origin.close();
  }
  throw new Error("it worked");
}

/** A program that notes its arguments and environment, and exits. */
function recorder(name = "ssh", then = "exit 3"): { path: string; seen(): string[] } {
  const dir = tempDir();
  const path = join(dir, name);
  writeFileSync(
    path,
    `#!/bin/sh\nfor a; do printf '%s\\n' "$a"; done > ${dir}/seen\n` +
      `echo "protocol=$GIT_PROTOCOL" >> ${dir}/seen\n${then}\n`,
  );
  chmodSync(path, 0o755);
  return { path, seen: () => readFileSync(join(dir, "seen"), "utf8").trimEnd().split("\n") };
}

test("one login for a list and the commits behind it, one for a push", async () => {
  const sshd = await server();
  const origin = await openOrigin(urlOf(sshd), { env: { PATH, GIT_SSH_COMMAND: sshd.ssh } });
  const before = sshd.logins();
  const { refs } = await origin.refs(["refs/heads/"]);
  await origin.readCommits([...refs.values()]);
  await origin.readCommits([...refs.values()]);
  assert.equal(sshd.logins() - before, 1);
  await origin.refs(["refs/heads/"]);
  assert.equal(sshd.logins() - before, 2, "git reads its refs once per process");
  const { objects } = openRepository(work);
  const ref = "refs/heads/one-login";
  assert.deepEqual(await origin.push([{ ref, old: null, new: first }], objects), { status: "won" });
  assert.equal(sshd.logins() - before, 4, "what was made is looked for");
  const second = commit(work, "one more");
  assert.deepEqual(await origin.push([{ ref, old: first, new: second }], objects), {
    status: "won",
  });
  assert.equal(sshd.logins() - before, 5);
  origin.close();
});

test("a server that greets and then cuts the connection is told as that, in its words", async () => {
  const dir = tempDir();
  writeFileSync(join(dir, "banner"), "WELCOME to our server\n");
  const sshd = await startSshd({
    config: `Banner ${join(dir, "banner")}\nForceCommand sleep 0.2; kill -9 $PPID`,
  });
  try {
    const env = { PATH, GIT_SSH_COMMAND: sshd.ssh };
    const error = await fails(urlOf(sshd), "origin-unreachable", { env });
    assert.match(error.message, / closed the connection\. It had said: "WELCOME to our server"\.$/);
  } finally {
    await sshd.stop();
  }
});

test("with ControlPersist in ssh's settings, one login serves everything", async () => {
  const sshd = await server();
  const path = join(tempDir("aq-"), "c");
  const ssh = `${sshd.ssh} -o ControlMaster=auto -o ControlPath=${path} -o ControlPersist=60`;
  const before = sshd.logins();
  for (let round = 0; round < 3; round++) {
    const origin = await openOrigin(urlOf(sshd), { env: { PATH, GIT_SSH_COMMAND: ssh } });
    await origin.refs(["refs/heads/"]);
    const update = { ref: `refs/heads/shared${round}`, old: null, new: first };
    const outcome = await origin.push([update], openRepository(work).objects);
    assert.deepEqual(outcome, { status: "won" });
    origin.close();
  }
  const end = spawnSync("ssh", ["-o", `ControlPath=${path}`, "-O", "exit", "h"], {
    encoding: "utf8",
  });
  assert.equal(end.status, 0, end.stderr);
  assert.equal(sshd.logins() - before, 1);
});

test("the embedded client logs in once for everything", async () => {
  const sshd = await server();
  const origin = await openOrigin(urlOf(sshd), { env: { HOME: sshd.home, PATH: "" } });
  const before = sshd.logins();
  await origin.refs(["refs/heads/"]);
  await origin.refs(["refs/heads/"]);
  const update = { ref: "refs/heads/embedded", old: null, new: first };
  const outcome = await origin.push([update], openRepository(work).objects);
  assert.deepEqual(outcome, { status: "won" });
  assert.equal(sshd.logins() - before, 1);
  origin.close();
});

test("a host key that nobody vouched for, or that changed, ends the connection", async () => {
  const sshd = await server();
  const empty = join(tempDir(), "known_hosts");
  writeFileSync(empty, "");
  const withKnown = (file: string) => sshd.ssh.replace(sshd.knownHosts, file);
  await fails(urlOf(sshd), "host-key-unknown", {
    env: { PATH, GIT_SSH_COMMAND: withKnown(empty) },
  });
  const other = join(tempDir(), "other");
  makeKey(other, "ed25519");
  const changed = `${empty}2`;
  writeFileSync(changed, `[127.0.0.1]:${sshd.port} ${readFileSync(`${other}.pub`, "utf8")}`);
  const env = { PATH, GIT_SSH_COMMAND: withKnown(changed) };
  await fails(urlOf(sshd), "host-key-changed", { env });

  const home = tempDir();
  mkdirSync(join(home, ".ssh"));
  copyFileSync(sshd.key, join(home, ".ssh", "id_ed25519"));
  const before = sshd.logins();
  await fails(urlOf(sshd), "host-key-unknown", { env: { PATH: "", HOME: home } });
  copyFileSync(changed, join(home, ".ssh", "known_hosts"));
  await fails(urlOf(sshd), "host-key-changed", { env: { PATH: "", HOME: home } });
  const revoked = readFileSync(sshd.knownHosts, "utf8");
  writeFileSync(join(home, ".ssh", "known_hosts"), `${revoked}\n@revoked ${revoked}`);
  await fails(urlOf(sshd), "host-key-changed", { env: { PATH: "", HOME: home } });
  assert.equal(sshd.logins(), before);
});

test("a key that is not admitted, and none that can be used", async () => {
  const sshd = await server();
  const stranger = join(tempDir(), "stranger");
  makeKey(stranger, "ed25519");
  const ssh = sshd.ssh.replace(sshd.key, stranger);
  const error = await fails(urlOf(sshd), "auth-required", { env: { PATH, GIT_SSH_COMMAND: ssh } });
  assert.match(error.hint, /ssh-agent/);

  const home = tempDir();
  mkdirSync(join(home, ".ssh"));
  copyFileSync(sshd.knownHosts, join(home, ".ssh", "known_hosts"));
  copyFileSync(stranger, join(home, ".ssh", "id_ed25519"));
  makeKey(join(home, ".ssh", "id_ecdsa"), "ecdsa", "a passphrase");
  makeKey(join(home, ".ssh", "id_rsa"), "rsa");
  chmodSync(join(home, ".ssh", "id_rsa"), 0o644);
  const refused = await fails(urlOf(sshd), "auth-required", { env: { PATH: "", HOME: home } });
  assert.equal(refused.details?.offered, 1);
  assert.deepEqual(refused.details?.passedOver, [
    `${home}/.ssh/id_rsa: others may read it`,
    `${home}/.ssh/id_ecdsa: encrypted, or of an unknown kind`,
  ]);
});

test("the agent's keys are used, by ssh and by the embedded client", async () => {
  const sshd = await server();
  const home = tempDir();
  mkdirSync(join(home, ".ssh"));
  copyFileSync(sshd.knownHosts, join(home, ".ssh", "known_hosts"));
  const agent = spawnSync("ssh-agent", ["-s"], { encoding: "utf8" });
  const socket = /SSH_AUTH_SOCK=([^;]+);/.exec(agent.stdout)![1]!;
  const pid = Number(/SSH_AGENT_PID=(\d+);/.exec(agent.stdout)![1]);
  try {
    const env = { PATH, SSH_AUTH_SOCK: socket };
    assert.equal(spawnSync("ssh-add", ["-q", sshd.key], { env }).status, 0);
    const ssh = sshd.ssh.replace(`-i ${sshd.key} -o IdentitiesOnly=yes`, "");
    for (
      const way of [{ ...env, GIT_SSH_COMMAND: ssh }, {
        PATH: "",
        HOME: home,
        SSH_AUTH_SOCK: socket,
      }]
    ) {
      const origin = await openOrigin(urlOf(sshd), { env: way });
      assert.equal((await origin.refs(["refs/heads/main"])).refs.get("refs/heads/main"), first);
      origin.close();
    }
  } finally {
    process.kill(pid);
  }
});

test("nobody there, no such name, nothing but silence", async () => {
  const sshd = await server();
  const dead = net.createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => dead.once("listening", resolve));
  const { port } = dead.address() as net.AddressInfo;
  await new Promise((resolve) => dead.close(resolve));
  const mute = net.createServer(() => {}).listen(0, "127.0.0.1");
  await new Promise((resolve) => mute.once("listening", resolve));
  const mutePort = (mute.address() as net.AddressInfo).port;
  for (const env of [{ PATH, GIT_SSH_COMMAND: sshd.ssh }, { PATH: "", HOME: sshd.home }]) {
    await fails(`ssh://127.0.0.1:${port}/x`, "origin-unreachable", { env });
    await fails("ssh://no-such-host.invalid/x", "origin-unreachable", { env });
    const timeouts = { connect: 1000, idle: 60_000 };
    await fails(`ssh://127.0.0.1:${mutePort}/x`, "origin-timeout", { env, timeouts });
  }
  await fails(`git://127.0.0.1:${port}/x`, "origin-unreachable", { env: {} });
  await fails(`git://127.0.0.1:${mutePort}/x`, "origin-timeout", {
    env: {},
    timeouts: { idle: 500 },
  });
  mute.close();
});

test("a program that is missing: here, and there", async () => {
  const sshd = await server();
  for (const env of [{ GIT_SSH_COMMAND: "no-such-ssh -v" }, { GIT_SSH: "/nowhere/ssh" }]) {
    await fails(urlOf(sshd), "command-not-started", {
      env: { PATH, GIT_SSH_VARIANT: "ssh", ...env },
    });
  }
  const clone = makeRepo();
  git(clone, "remote", "add", "origin", urlOf(sshd));
  git(clone, "config", "remote.origin.uploadpack", "no-such-upload-pack");
  const repository = openRepository(clone);
  for (const env of [{ PATH, GIT_SSH_COMMAND: sshd.ssh }, { PATH: "", HOME: sshd.home }]) {
    // A repository's config is read with its own environment; the remote's programs come from there.
    const error = await fails("origin", "ssh-command-missing", { repository, env });
    assert.match(error.message, /can't run no-such-upload-pack/);
    assert.match(String(error.details?.remoteOutput), /not found/);
  }
});

test("ssh is told what git tells it, and to ask nobody", async () => {
  const { path, seen } = recorder();
  await fails("ssh://me@host.example:2222/srv/it's.git", "origin-not-found", {
    env: { PATH, GIT_SSH: path },
  });
  assert.deepEqual(seen(), [
    ..."-o BatchMode=yes -o ConnectTimeout=30 -o SendEnv=GIT_PROTOCOL -p 2222 me@host.example"
      .split(" "),
    `git-upload-pack '/srv/it'\\''s.git'`,
    "protocol=version=2",
  ]);
  await fails("host.example:~/x y", "origin-not-found", {
    env: { PATH, GIT_SSH_COMMAND: `${path} -v "a b"` },
  });
  assert.deepEqual(seen().slice(0, 2), ["-v", "a b"]);
  assert.deepEqual(seen().slice(-3), [
    "host.example",
    "git-upload-pack '~/x y'",
    "protocol=version=2",
  ]);
});

test("core.sshCommand is used, GIT_SSH_COMMAND before it; ssh on PATH without either", async () => {
  const clone = makeRepo();
  const configured = recorder();
  git(clone, "config", "core.sshCommand", configured.path);
  git(clone, "remote", "add", "origin", "h:x");
  const repository = openRepository(clone);
  await fails("origin", "origin-not-found", { repository, env: { PATH } });
  assert.ok(configured.seen().includes("h"));
  const named = recorder();
  await fails("origin", "origin-not-found", {
    repository,
    env: { PATH, GIT_SSH_COMMAND: named.path },
  });
  assert.ok(named.seen().includes("h"));
  const found = recorder();
  await fails("h:y", "origin-not-found", { env: { PATH: `${join(found.path, "..")}:${PATH}` } });
  assert.ok(found.seen().includes("git-upload-pack 'y'"));
});

test("variants: by name, by setting, by asking; and what each is told", async () => {
  const target = { host: "h", user: null, port: 7 };
  const config = openConfig({ repository: null, env: {} });
  const of = (text: string, env: Record<string, string> = {}) =>
    sshVariant({ text, shell: true }, target, config, { PATH, ...env });
  assert.equal(await of("/usr/bin/ssh -v"), "ssh");
  assert.equal(await of("'/opt/my tools/plink.exe' -x"), "plink");
  assert.equal(await of("TortoisePlink.exe"), "tortoiseplink");
  assert.equal(await of("ssh", { GIT_SSH_VARIANT: "simple" }), "simple");
  assert.equal(await of(recorder("wrapper", `[ "$1" = -G ] && exit 0; exit 1`).path), "ssh");
  assert.equal(await of(recorder("wrapper", "exit 1").path), "simple");
  assert.deepEqual(sshOptions("plink", target, { batch: true }), ["-batch", "-P", "7"]);
  assert.deepEqual(sshOptions("tortoiseplink", target, {}), ["-batch", "-P", "7"]);
  assert.throws(
    () => sshOptions("simple", target, {}),
    (error) => isAgentqError(error, "config-invalid"),
  );
  assert.deepEqual(sshOptions("simple", { ...target, port: null }, { batch: true }), []);
});

test("aborting and closing end ssh and all it started", async () => {
  const dir = tempDir();
  const pids = () =>
    existsSync(join(dir, "pids"))
      ? readFileSync(join(dir, "pids"), "utf8").trim().split("\n").map(Number)
      : [];
  // Says its pids and hangs, deaf to a closed input.
  const ssh = join(dir, "ssh");
  writeFileSync(
    ssh,
    `#!/bin/sh\nsleep 1000 &\necho $! >> ${dir}/pids\necho $$ >> ${dir}/pids\nwait\n`,
  );
  chmodSync(ssh, 0o755);
  const origin = await openOrigin("h:x", { env: { PATH, GIT_SSH: ssh } });
  const controller = new AbortController();
  const reading = origin.refs(["refs/"], controller.signal);
  while (pids().length < 2) await new Promise((resolve) => setTimeout(resolve, 10));
  const reason = new AgentqError("interrupted", "enough");
  controller.abort(reason);
  await assert.rejects(reading, (error) => error === reason);
  for (const pid of pids()) {
    // Its parent takes a moment to learn of it; a process that lives on hangs here.
    while (existsSync(`/proc/${pid}`) && !/\) Z/.test(statOf(pid))) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }
  origin.close();
});

function statOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8");
  } catch {
    return ") Z";
  }
}

test("words on standard output in front of the protocol are told as such", async () => {
  const ssh = recorder("ssh", "echo Welcome to the machine; cat").path;
  const error = await fails("h:x", "protocol-error", { env: { PATH, GIT_SSH: ssh } });
  assert.match(error.hint, /login script/);
});

test("known_hosts: names, ports, patterns, hashes and marks as ssh-keygen reads them", () => {
  const dir = tempDir();
  const key = join(dir, "key");
  makeKey(key, "ed25519");
  const material = readFileSync(`${key}.pub`, "utf8").trim().split(" ").slice(0, 2).join(" ");
  const file = join(dir, "known_hosts");
  const oracle = (name: string) =>
    // ssh itself looks names up in lower case.
    spawnSync("ssh-keygen", ["-F", name.toLowerCase(), "-f", file], { encoding: "utf8" }).status ===
      0;
  const names = [
    "h.example",
    "[h.example]:22",
    "[h.example]:2222",
    "x.h.example",
    "H.Example",
    "[::1]:7",
  ];
  const check = (lines: string[]) => {
    writeFileSync(file, lines.map((line) => `${line}\n`).join(""));
    const text = readFileSync(file, "utf8");
    for (const name of names.concat("other", "h-example", "abc")) {
      if (name.endsWith(":22")) continue;
      const found = knownHostKeys(text, name.toLowerCase()).length > 0;
      assert.equal(found, oracle(name), `${name} in ${text}`);
    }
  };
  const pattern = fc.array(
    fc.constantFrom(
      ...names,
      "*",
      "*.example",
      "?.example",
      "!x.h.example",
      "!*",
      "h*e",
      "a?c",
      "[h.example]:*",
    ),
    { minLength: 1, maxLength: 3 },
  ).map((patterns) => `${patterns.join(",")} ${material}`);
  fc.assert(fc.property(fc.array(pattern, { minLength: 1, maxLength: 2 }), check), { numRuns: 15 });
  writeFileSync(file, names.map((name) => `${name.toLowerCase()} ${material}\n`).join(""));
  assert.equal(spawnSync("ssh-keygen", ["-q", "-H", "-f", file]).status, 0);
  const hashed = readFileSync(file, "utf8");
  assert.ok(!hashed.includes("example"));
  check(hashed.trimEnd().split("\n"));

  const shown = Buffer.from(material.split(" ")[1]!, "base64");
  const judge = (text: string) => judgeHostKey(knownHostKeys(text, "h"), shown);
  assert.equal(judge(`h ${material}`), "known");
  assert.equal(judge(`@cert-authority h ${material}`), "unknown");
  assert.equal(judge(`h ${material}\n@revoked * ${material}`), "revoked");
  assert.equal(judge("h ssh-ed25519 AAAA\n# h\n\nh\n"), "unknown");

  // At another port: what is known of the host itself vouches, but doesn't accuse.
  const other = material.replace(/.{8}$/, "AAAAAAAA");
  const atPort = (text: string) =>
    judgeHostKey(knownHostKeys(text, "[h]:2222"), shown, knownHostKeys(text, "h"));
  assert.equal(atPort(`h ${material}`), "known");
  assert.equal(atPort(`h ${other}`), "unknown");
  assert.equal(atPort(`@revoked h ${material}`), "revoked");
  assert.equal(atPort(`h ${material}\n[h]:2222 ${other}`), "changed");
});

test("a path is one word to the shell there, whatever is in it", () => {
  fc.assert(
    fc.property(fc.string({ unit: "grapheme" }).filter((text) => !text.includes("\0")), (text) => {
      const run = spawnSync("sh", ["-c", `printf %s ${remoteQuote(text)}`], { encoding: "utf8" });
      assert.equal(run.stdout, text);
    }),
    { numRuns: 30, examples: [["it's ! $(x) `y`\n"]] },
  );
});
