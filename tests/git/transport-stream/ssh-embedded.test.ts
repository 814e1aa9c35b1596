/** The embedded ssh client where servers and agents are not as one would like them. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmodSync, copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import type net from "node:net";
import { join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import ssh2 from "ssh2";
import { AgentqError, type ErrorCode, isAgentqError } from "../../../src/errors.ts";
import { openOrigin, type OriginOptions } from "../../../src/git/origin.ts";
import { urlDecoded } from "../../../src/git/url-decode.ts";
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

const urlOf = ({ user, port }: SshServer) => `ssh://${user}@127.0.0.1:${port}${bare}`;

async function fails(url: string, code: ErrorCode, options: OriginOptions): Promise<AgentqError> {
  let origin;
  try {
    origin = await openOrigin(url, options);
    await origin.refs(["refs/"]);
  } catch (error) {
    assert.ok(isAgentqError(error, code), `${error} is no ${code}`);
    return error;
  } finally {
    origin?.close();
  }
  throw new Error("it worked");
}

/**
 * A server whose first bytes come in one packet with its yes to the command, as they do now and then
 * from every server that is quick.
 */
async function startHasty(): Promise<{ port: number; home: string; stop(): void }> {
  const home = tempDir();
  mkdirSync(join(home, ".ssh"));
  makeKey(join(home, "host"), "ed25519");
  makeKey(join(home, ".ssh", "id_ed25519"), "ed25519");
  const children = new Set<ChildProcess>();
  // deno-lint-ignore no-explicit-any -- the package comes without types
  const hasty = new (ssh2 as any).Server(
    { hostKeys: [readFileSync(join(home, "host"))] },
    // deno-lint-ignore no-explicit-any
    (client: any) => {
      client.on("error", () => {});
      // deno-lint-ignore no-explicit-any
      client.on("authentication", (way: any) => way.accept());
      // deno-lint-ignore no-explicit-any
      client.on("session", (accept: any) => {
        const session = accept();
        // deno-lint-ignore no-explicit-any
        session.on("exec", (agree: any, _refuse: unknown, { command }: { command: string }) => {
          const child = spawn("sh", ["-c", command], { stdio: ["pipe", "pipe", "ignore"] });
          children.add(child);
          child.stdout.once("data", (advertised) => {
            child.stdout.pause();
            const socket: net.Socket = client._sock;
            socket.cork();
            const channel = agree();
            channel.write(advertised);
            socket.uncork();
            channel.on("error", () => {});
            channel.pipe(child.stdin);
            child.stdin.on("error", () => {});
            child.stdout.on("data", (data) => channel.write(data)).resume();
            child.on("close", (code) => {
              children.delete(child);
              channel.exit(code ?? 1);
              channel.end();
            });
          });
        });
      });
    },
  );
  await new Promise<void>((resolve) => hasty.listen(0, "127.0.0.1", resolve));
  const { port } = hasty.address();
  const hostKey = readFileSync(join(home, "host.pub"), "utf8");
  writeFileSync(join(home, ".ssh", "known_hosts"), `[127.0.0.1]:${port} ${hostKey}`);
  return {
    port,
    home,
    stop() {
      for (const child of children) child.kill("SIGKILL");
      hasty.close();
    },
  };
}

test("a server's first bytes are read, however early they come", async () => {
  const hasty = await startHasty();
  try {
    for (let i = 0; i < 5; i++) {
      const origin = await openOrigin(`ssh://someone@127.0.0.1:${hasty.port}${bare}`, {
        env: { PATH: "", HOME: hasty.home, LOGNAME: "someone" },
        timeouts: { idle: 5000, total: 10_000 },
      });
      const { refs } = await origin.refs(["refs/heads/"]);
      assert.equal(refs.get("refs/heads/main"), first);
      origin.close();
    }
  } finally {
    hasty.stop();
  }
});

test("an agent that is gone leaves the keys in files", async () => {
  const sshd = await server();
  const SSH_AUTH_SOCK = join(tempDir(), "gone");
  const origin = await openOrigin(urlOf(sshd), {
    env: { PATH: "", HOME: sshd.home, SSH_AUTH_SOCK },
  });
  assert.equal((await origin.refs(["refs/heads/"])).refs.size, 1);
  origin.close();

  const home = tempDir();
  mkdirSync(join(home, ".ssh"));
  copyFileSync(sshd.knownHosts, join(home, ".ssh", "known_hosts"));
  const error = await fails(urlOf(sshd), "auth-required", {
    env: { PATH: "", HOME: home, SSH_AUTH_SOCK },
  });
  assert.match(error.message, /The ssh agent could not be asked: "/);
});

test("an agent with more keys than a server wants to see is no server that can't be reached", async () => {
  const sshd = await server();
  const home = tempDir();
  mkdirSync(join(home, ".ssh"));
  copyFileSync(sshd.knownHosts, join(home, ".ssh", "known_hosts"));
  const agent = spawnSync("ssh-agent", ["-s"], { encoding: "utf8" });
  const SSH_AUTH_SOCK = /SSH_AUTH_SOCK=([^;]+);/.exec(agent.stdout)![1]!;
  const pid = Number(/SSH_AGENT_PID=(\d+);/.exec(agent.stdout)![1]);
  try {
    for (let i = 0; i < 7; i++) {
      makeKey(join(home, `key${i}`), "ed25519");
      const added = spawnSync("ssh-add", ["-q", join(home, `key${i}`)], {
        env: { PATH, SSH_AUTH_SOCK },
      });
      assert.equal(added.status, 0);
    }
    const error = await fails(urlOf(sshd), "auth-required", {
      env: { PATH: "", HOME: home, SSH_AUTH_SOCK },
    });
    assert.match(error.hint, /IdentitiesOnly/);

    // The last of them is the right one, and is named: it is offered first, as ssh does.
    copyFileSync(sshd.key, join(home, "right"));
    chmodSync(join(home, "right"), 0o600);
    const added = spawnSync("ssh-add", ["-q", join(home, "right")], {
      env: { PATH, SSH_AUTH_SOCK },
    });
    assert.equal(added.status, 0);
    const publicKey = spawnSync("ssh-keygen", ["-y", "-f", join(home, "right")]).stdout;
    writeFileSync(join(home, "right.pub"), publicKey);
    rmSync(join(home, "right"));
    writeFileSync(join(home, ".ssh", "config"), "IdentityFile ~/right\n");
    const origin = await openOrigin(urlOf(sshd), {
      env: { PATH: "", HOME: home, SSH_AUTH_SOCK },
    });
    assert.equal((await origin.refs(["refs/heads/"])).refs.size, 1);
    origin.close();
  } finally {
    process.kill(pid);
  }
});

test("an agent that hangs is told as one, and leaves the keys in files", async () => {
  const sshd = await server();
  const SSH_AUTH_SOCK = join(tempDir(), "hung");
  const hung = createServer(() => {}).listen(SSH_AUTH_SOCK);
  try {
    await once(hung, "listening");
    const timeouts = { connect: 1000 };
    const origin = await openOrigin(urlOf(sshd), {
      env: { PATH: "", HOME: sshd.home, SSH_AUTH_SOCK },
      timeouts,
    });
    assert.equal((await origin.refs(["refs/heads/"])).refs.size, 1);
    origin.close();

    const home = tempDir();
    mkdirSync(join(home, ".ssh"));
    copyFileSync(sshd.knownHosts, join(home, ".ssh", "known_hosts"));
    const error = await fails(urlOf(sshd), "auth-required", {
      env: { PATH: "", HOME: home, SSH_AUTH_SOCK },
      timeouts,
    });
    assert.match(error.message, /The ssh agent could not be asked: "it listed no keys in 0.5 s"/);
  } finally {
    hung.close();
  }
});

test("a host that is known without its port is known at its port", async () => {
  const sshd = await server();
  const home = tempDir();
  mkdirSync(join(home, ".ssh"));
  copyFileSync(sshd.key, join(home, ".ssh", "id_ed25519"));
  chmodSync(join(home, ".ssh", "id_ed25519"), 0o600);
  const [, ...key] = readFileSync(sshd.knownHosts, "utf8").trim().split(" ");
  writeFileSync(join(home, ".ssh", "known_hosts"), `127.0.0.1 ${key.join(" ")}\n`);
  const origin = await openOrigin(urlOf(sshd), { env: { PATH: "", HOME: home } });
  assert.equal((await origin.refs(["refs/heads/"])).refs.size, 1);
  origin.close();
});

test("an ssh program that dies without a word is told as that", async () => {
  const sshd = await server();
  const error = await fails(urlOf(sshd), "origin-unreachable", {
    env: { PATH, GIT_SSH_COMMAND: "sh -c 'exit 255'", GIT_SSH_VARIANT: "ssh" },
  });
  assert.match(error.message, /: ssh exited 255 without a word\.$/);
});

test("a revoked host key is told as one, by ssh and by the embedded client", async () => {
  const sshd = await server();
  const home = tempDir();
  mkdirSync(join(home, ".ssh"));
  const known = readFileSync(sshd.knownHosts, "utf8");
  writeFileSync(join(home, ".ssh", "known_hosts"), `${known}\n@revoked ${known}`);
  const ssh = sshd.ssh.replace(sshd.knownHosts, join(home, ".ssh", "known_hosts"));
  for (const env of [{ PATH: "", HOME: home }, { PATH, GIT_SSH_COMMAND: ssh }]) {
    const error = await fails(urlOf(sshd), "host-key-changed", { env });
    assert.match(error.message, /revoked/);
    assert.match(error.hint, /^Don't connect, and remove no line/);
  }
});

test("escapes in a url are undone as git undoes them", async () => {
  assert.equal(urlDecoded("a%20b%zz%4"), "a b%zz%4");
  assert.equal(urlDecoded("%C3%BC ü %"), "ü ü %");
  assert.equal(urlDecoded("%ff"), null);
  const env = { PATH: "", HOME: tempDir() };
  for (
    const url of ["ssh://127.0.0.1:1/%zz", "ssh://u%zz@127.0.0.1:1/x", "git://127.0.0.1:1/%zz"]
  ) {
    await fails(url, "origin-unreachable", { env });
  }
  for (
    const url of ["ssh://127.0.0.1:1/%ff", "ssh://u%ff@127.0.0.1:1/x", "git://127.0.0.1:1/%ff"]
  ) {
    await fails(url, "url-unsupported", { env });
  }
});
