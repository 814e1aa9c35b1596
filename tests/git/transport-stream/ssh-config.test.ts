/** ~/.ssh/config as the embedded client reads it: OpenSSH's `ssh -G` is the witness. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import fc from "fast-check";
import { isAgentqError } from "../../../src/errors.ts";
import { openOrigin } from "../../../src/git/origin.ts";
import { hostName, sshWords } from "../../../src/git/ssh/client-config.ts";
import { sshSettings } from "../../../src/git/ssh/client-settings.ts";
import { commit, git, makeRepo, tempDir } from "../../helpers/git.ts";
import { makeKey, type SshServer, startSshd } from "../../helpers/git-servers.ts";

const me = spawnSync("id", ["-un"], { encoding: "utf8" }).stdout.trim();
let started: Promise<SshServer> | undefined;
const server = () => started ??= startSshd();
after(async () => {
  await (await started)?.stop();
});

interface Answer {
  hostname: string;
  port: string;
  user: string;
  identityfile: string[];
  hostkeyalias: string | null;
  identitiesonly: boolean;
  proxyjump: string | null;
}

/** What ssh itself makes of a file; null where it refuses the file. */
function bySsh(file: string, host: string): Answer | null {
  const run = spawnSync("ssh", ["-G", "-F", file, host], { encoding: "utf8" });
  if (run.status !== 0) return null;
  const all = (word: string) =>
    [...run.stdout.matchAll(new RegExp(`^${word} (.*)$`, "gm"))].map((match) => match[1]!);
  const usual = all("identityfile").includes("~/.ssh/id_rsa");
  return {
    hostname: all("hostname")[0]!,
    port: all("port")[0]!,
    user: all("user")[0]!,
    identityfile: usual ? [] : all("identityfile"),
    hostkeyalias: all("hostkeyalias")[0] ?? null,
    identitiesonly: all("identitiesonly")[0] === "yes",
    proxyjump: all("proxyjump")[0] ?? null,
  };
}

function byUs(file: string, host: string): Answer {
  const words = sshWords([file], { host, user: null, port: null, localUser: me });
  const one = (word: string) => words.get(word)?.[0] ?? null;
  return {
    // ssh looks names up in lower case.
    hostname: hostName(words, host).toLowerCase(),
    port: one("port") ?? "22",
    user: one("user") ?? me,
    identityfile: [...words.get("identityfile") ?? []],
    hostkeyalias: one("hostkeyalias"),
    identitiesonly: one("identitiesonly") === "yes",
    proxyjump: one("proxyjump") === "none" ? null : one("proxyjump"),
  };
}

const HOSTS = ["a", "ab", "git.example", "x.git.example", "b"];

function agree(text: string): void {
  const dir = tempDir();
  const file = join(dir, "config");
  writeFileSync(file, text);
  for (const host of HOSTS) {
    const theirs = bySsh(file, host);
    assert.ok(theirs, `ssh refuses ${text}`);
    assert.deepEqual(byUs(file, host), theirs, `${host} in\n${text}`);
  }
}

test("words, patterns, quotes and Match as ssh reads them", () => {
  agree("Host a\n  HostName = real.example\n  Port 2222\nHost *\n Port 23\n User someone\n");
  agree(
    'host "a"\n\thostname REAL\n  IdentityFile "/with blank/key"\n  identityfile=/second # why\n',
  );
  agree(
    "# Host *\nUser first\nHost * !a !*.example\n  User second\n  Port 7\nIdentitiesOnly yes\n",
  );
  agree("Host git.* x.*\n HostName %h.internal\n HostKeyAlias alias\n\nHost a?\n ProxyJump b\n");
  agree(
    "Match host real\n Port 1\nHost a\n HostName real\nMatch host real\n Port 2\nMatch all\n Port 3\n",
  );
  agree(`Match originalhost a,git.* !host ab user "${me}"\n Port 9\nMatch !user ${me}\n Port 8\n`);
  agree(`Match localuser ${me} host a\n User x\nMatch user x\n Port 5\n`);
  agree("IdentityFile /1\nHost a\nIdentityFile /2\nIdentityFile /1\nHost *\nIdentityFile /3\n");
});

test("generated files", { timeout: 120_000 }, () => {
  const pattern = fc.constantFrom(
    "a",
    "ab",
    "*",
    "a*",
    "?",
    "*.example",
    "!b",
    "!a",
    "git.*",
    "x.*",
  );
  const head = fc.oneof(
    fc.array(pattern, { minLength: 1, maxLength: 3 }).map((all) => `Host ${all.join(" ")}`),
    fc.tuple(fc.constantFrom("host", "originalhost", "!host"), pattern).map(([key, one]) =>
      `Match ${key} ${one.replace("!", "")}`
    ),
    fc.constant("Match all"),
  );
  const setting = fc.constantFrom(
    "HostName one",
    "HostName %h.two",
    "Port 1",
    "Port=22",
    "User u",
    'User "v"',
    "IdentityFile /k1",
    "IdentityFile ~/k2",
    "HostKeyAlias h",
    "IdentitiesOnly yes",
    "ProxyJump none",
    "ProxyJump j",
    "# nothing",
    "",
  );
  const block = fc.tuple(head, fc.array(setting, { maxLength: 4 }))
    .map(([first, rest]) => [first, ...rest].join("\n  "));
  fc.assert(
    fc.property(fc.array(block, { minLength: 1, maxLength: 5 }), (blocks) => {
      agree(blocks.join("\n") + "\n");
    }),
    { numRuns: Number(process.env.AGENTQ_TEST_RUNS ?? 4) * 8 },
  );
});

test("Include: relative, by pattern, within a block; one that is not there is nothing", () => {
  const dir = tempDir();
  const file = join(dir, "config");
  mkdirSync(join(dir, "more.d"));
  writeFileSync(join(dir, "more.d", "1.conf"), "Host a\n Port 1\n");
  writeFileSync(join(dir, "more.d", "2.conf"), "Port 2\nUser u\n");
  writeFileSync(join(dir, "more.d", ".3.conf"), "User hidden\n");
  for (
    const text of [
      `Include ${dir}/more.d/*.conf\nPort 9\n`,
      `Host b\n Include ${dir}/more.d/2.conf\nHost *\n Port 8\n`,
      `Include ${dir}/none ${dir}/more.d/?.conf\n`,
    ]
  ) {
    writeFileSync(file, text);
    for (const host of HOSTS) assert.deepEqual(byUs(file, host), bySsh(file, host), text);
  }
  writeFileSync(file, "Include more.d/2.conf\n");
  assert.equal(byUs(file, "a").port, "2", "beside the file");
  writeFileSync(file, `Include ${file}\n`);
  assert.throws(() => byUs(file, "a"), (error) => isAgentqError(error, "config-invalid"));
});

test("what only the program can follow is refused by name; url and tokens have their say", () => {
  const home = tempDir();
  const file = join(home, "config");
  const settings = (text: string, target = {}, env: Record<string, string> = {}) => {
    writeFileSync(file, text);
    return sshSettings(
      { host: "a", user: null, port: null, ...target },
      { env, home, localUser: me, connectMs: 30_000, files: [file] },
    );
  };
  for (
    const [line, named] of [
      ["ProxyJump bastion", /proxyjump/],
      ["ProxyCommand nc %h %p", /proxycommand/],
      ["CanonicalizeHostname always", /canonicalizehostname/],
      ["RevokedHostKeys /x", /revokedhostkeys/],
      ["Match exec true\nPort 1", /Match exec/],
      ["IdentityFile %C", /%C/],
      ["IdentityFile ${NONE}/x", /\$\{NONE\}/],
      ["Port x", /Port x/],
      ["Port", /no value/i],
    ] as const
  ) {
    assert.throws(() => settings(`${line}\n`), (error) => {
      assert.ok(isAgentqError(error, "config-invalid"), String(error));
      assert.match(error.message, named);
      return true;
    });
  }
  assert.equal(settings("ProxyJump none\nProxyCommand none\n").port, 22);
  const text = "HostName real.example\nPort 7\nUser u\nIdentityFile ~/%r@%h-%n:%p\n" +
    "UserKnownHostsFile ~/k1 ${K}/k2\nGlobalKnownHostsFile none\nIdentityAgent $SOCK\nConnectTimeout 3\n";
  const named = settings(text, { user: "me", port: 8 }, {
    K: "/k",
    SOCK: "/s",
    SSH_AUTH_SOCK: "/no",
  });
  assert.deepEqual(named, {
    host: "real.example",
    port: 8,
    user: "me",
    identityFiles: [`${home}/me@real.example-a:8`],
    identitiesOnly: false,
    agent: "/s",
    knownAs: "[real.example]:8",
    alsoKnownAs: "real.example",
    knownHosts: [`${home}/k1`, "/k/k2"],
    connectMs: 3000,
  });
  assert.equal(settings("HostKeyAlias Alias\nPort 9\n").knownAs, "alias");
  assert.equal(settings("HostKeyAlias Alias\nPort 9\n").alsoKnownAs, null);
  assert.equal(settings("IdentityAgent none\n", {}, { SSH_AUTH_SOCK: "/s" }).agent, null);
  assert.deepEqual(settings("IdentityFile none\n").identityFiles, []);
});

test("the embedded client goes where ~/.ssh/config says, with its keys and host keys", async () => {
  const sshd = await server();
  const work = makeRepo();
  const first = commit(work, "first");
  const bare = join(tempDir(), "repo.git");
  git("/", "clone", "-q", "--bare", work, bare);
  const home = tempDir();
  mkdirSync(join(home, ".ssh"), { mode: 0o700 });
  mkdirSync(join(home, "keys"));
  copyFileSync(sshd.key, join(home, "keys", "mine"));
  chmodSync(join(home, "keys", "mine"), 0o600);
  const [, ...key] = readFileSync(sshd.knownHosts, "utf8").trim().split(" ");
  writeFileSync(join(home, "hosts"), `forge ${key.join(" ")}\n`);
  const config = (more = "") =>
    writeFileSync(
      join(home, ".ssh", "config"),
      `Host forge\n HostName 127.0.0.1\n Port ${sshd.port}\n User ${sshd.user}\n HostKeyAlias forge\n` +
        ` IdentityFile ~/keys/%n-mine\n IdentityFile ~/keys/mine\n UserKnownHostsFile ~/hosts\n${more}`,
    );
  const read = async (env: Record<string, string> = {}) => {
    const origin = await openOrigin(`forge:${bare}`, { env: { PATH: "", HOME: home, ...env } });
    try {
      return (await origin.refs(["refs/heads/"])).refs.get("refs/heads/main");
    } finally {
      origin.close();
    }
  };
  config();
  assert.equal(await read(), first);
  config(" ProxyJump elsewhere\n");
  await assert.rejects(
    read(),
    (error) => isAgentqError(error, "config-invalid") && /proxyjump/.test(error.message),
  );

  // The key is in the agent alone, its file is encrypted; a stranger's is there too.
  const agent = spawnSync("ssh-agent", ["-s"], { encoding: "utf8" });
  const socket = /SSH_AUTH_SOCK=([^;]+);/.exec(agent.stdout)![1]!;
  const pid = Number(/SSH_AGENT_PID=(\d+);/.exec(agent.stdout)![1]);
  try {
    const env = { PATH: process.env.PATH ?? "", SSH_AUTH_SOCK: socket };
    makeKey(join(home, "keys", "stranger"), "ed25519");
    for (const file of [join(home, "keys", "stranger"), sshd.key]) {
      assert.equal(spawnSync("ssh-add", ["-q", file], { env }).status, 0);
    }
    copyFileSync(`${sshd.key}.pub`, join(home, "keys", "mine.pub"));
    spawnSync("ssh-keygen", ["-p", "-q", "-N", "secret", "-f", join(home, "keys", "mine")]);
    config(` IdentitiesOnly yes\n IdentityAgent ${socket}\n`);
    assert.equal(await read(), first);
    copyFileSync(join(home, "keys", "stranger.pub"), join(home, "keys", "mine.pub"));
    await assert.rejects(read(), (error) => isAgentqError(error, "auth-required"));
  } finally {
    process.kill(pid);
  }
});
