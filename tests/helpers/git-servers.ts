/** A real sshd and a real git daemon on loopback, each with a configuration of its own. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import net from "node:net";
import { join } from "node:path";
import process from "node:process";
import { gitEnv, tempDir } from "./git.ts";

const running = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

/** Starts a server on a free port, again on another one when somebody was faster. */
async function startOn(
  command: (port: number) => readonly [string, readonly string[]],
): Promise<{ port: number; stop(): Promise<void> }> {
  for (let tries = 0; tries < 10; tries++) {
    const port = await freePort();
    const [program, args] = command(port);
    const child = spawn(program, [...args], { env: gitEnv(), stdio: "ignore" });
    running.add(child);
    let ended = false;
    const exited = new Promise<void>((resolve) =>
      child.once("exit", () => {
        ended = true;
        running.delete(child);
        resolve();
      })
    );
    child.once("error", () => ended = true);
    while (!ended && !await accepts(port)) await new Promise((resolve) => setTimeout(resolve, 20));
    if (ended) continue;
    return {
      port,
      stop() {
        child.kill("SIGTERM");
        return exited;
      },
    };
  }
  throw new Error("the server does not start");
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const probe = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address() as net.AddressInfo;
      probe.close(() => resolve(port));
    });
  });
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net.connect(port, "127.0.0.1");
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}

export interface SshServer {
  readonly port: number;
  readonly user: string;
  /** A home with a key that is admitted and known_hosts that vouch for the server. */
  readonly home: string;
  readonly key: string;
  readonly knownHosts: string;
  /** The ssh command line that uses these, and no configuration of this machine. */
  readonly ssh: string;
  /** The commands that were run here, oldest first. */
  commands(): string[];
  /** Connections that were admitted. */
  logins(): number;
  stop(): Promise<void>;
}

export interface SshServerOptions {
  /** Lets clients offer protocol 2, which sshd drops unless told otherwise. */
  readonly acceptProtocol?: boolean;
  /** Runs git's commands alone, as hosting services do. */
  readonly restricted?: boolean;
  readonly hostKey?: "ed25519" | "rsa" | "ecdsa";
  readonly userKey?: "ed25519" | "rsa" | "ecdsa";
  /** Names in known_hosts are hashed. */
  readonly hashed?: boolean;
  /** Lines for sshd_config. */
  readonly config?: string;
}

export async function startSshd(options: SshServerOptions = {}): Promise<SshServer> {
  const dir = tempDir("agentq-sshd-");
  const home = join(dir, "home");
  mkdirSync(join(home, ".ssh"), { recursive: true, mode: 0o700 });
  const hostKey = join(dir, "host");
  const userKey = options.userKey ?? "ed25519";
  const key = join(home, ".ssh", `id_${userKey}`);
  makeKey(hostKey, options.hostKey ?? "ed25519");
  makeKey(key, userKey);
  const gate = options.restricted
    ? `restrict,command="git-shell -c \\"$SSH_ORIGINAL_COMMAND\\"" `
    : "";
  writeFileSync(join(dir, "authorized"), gate + readFileSync(`${key}.pub`, "utf8"), {
    mode: 0o600,
  });
  const log = join(dir, "log");
  writeFileSync(
    join(dir, "config"),
    `HostKey ${hostKey}
AuthorizedKeysFile ${join(dir, "authorized")}
StrictModes no
UsePAM no
UseDNS no
PidFile none
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
LogLevel VERBOSE
SetEnv GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
${options.acceptProtocol === false ? "" : "AcceptEnv GIT_PROTOCOL"}
${options.config ?? ""}
`,
  );
  if (process.getuid?.() === 0) mkdirSync("/run/sshd", { recursive: true, mode: 0o755 });
  const sshd = existsSync("/usr/sbin/sshd") ? "/usr/sbin/sshd" : "sshd";
  const { port, stop } = await startOn((port) => [sshd, [
    ...["-D", "-E", log, "-f", join(dir, "config")],
    ...["-o", `ListenAddress=127.0.0.1:${port}`],
  ]]);
  const knownHosts = join(home, ".ssh", "known_hosts");
  writeFileSync(knownHosts, `[127.0.0.1]:${port} ${readFileSync(`${hostKey}.pub`, "utf8")}`);
  if (options.hashed) {
    spawnSync("ssh-keygen", ["-q", "-H", "-f", knownHosts]);
    if (readFileSync(knownHosts, "utf8").includes("127.0.0.1")) throw new Error("not hashed");
  }
  const lines = (pattern: RegExp) =>
    [...readFileSync(log, "utf8").matchAll(pattern)].map((match) => match[1]!);
  return {
    port,
    user: spawnSync("id", ["-un"], { encoding: "utf8" }).stdout.trim(),
    home,
    key,
    knownHosts,
    ssh: `ssh -F /dev/null -i ${key} -o IdentitiesOnly=yes -o UserKnownHostsFile=${knownHosts}` +
      ` -o GlobalKnownHostsFile=/dev/null`,
    // The command itself is logged by git's own trace only; sshd tells that one was run.
    commands: () => lines(/Starting session: (.*?) for /g),
    logins: () => lines(/(Accepted publickey) for/g).length,
    stop,
  };
}

export function makeKey(path: string, type: string, passphrase = ""): void {
  const size = type === "rsa" ? ["-b", "2048"] : [];
  const args = ["-q", "-t", type, ...size, "-N", passphrase, "-C", "test", "-f", path];
  const run = spawnSync("ssh-keygen", args, { encoding: "utf8" });
  if (run.status !== 0) throw new Error(`ssh-keygen: ${run.stderr}`);
  chmodSync(path, 0o600);
}

/** `git daemon` for the repositories below `root`. */
export function startDaemon(
  root: string,
  options: { push?: boolean } = {},
): Promise<{ port: number; stop(): Promise<void> }> {
  return startOn((port) => ["git", [
    "daemon",
    "--listen=127.0.0.1",
    `--port=${port}`,
    `--base-path=${root}`,
    "--export-all",
    "--reuseaddr",
    ...(options.push === false ? [] : ["--enable=receive-pack"]),
    root,
  ]]);
}
