/** Real Redis servers for tests: alone, as a cluster of three masters, and watched by sentinels. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { Buffer } from "node:buffer";
import { mkdirSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import process from "node:process";
import { tempDir } from "../../helpers/git.ts";

const running = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

export interface RedisServer {
  readonly port: number;
  readonly dir: string;
  /** Runs a command with redis-cli and returns what it prints. */
  cli(...args: string[]): string;
  /** Ends it as a crash would. */
  kill(): Promise<void>;
  /** Starts it again on the same port with the same data. */
  start(): Promise<void>;
  pid(): number;
}

/** A port that was free a moment ago, with the one 10,000 above it (a cluster's bus). */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = await tryPort(20_000 + Math.floor(Math.random() * 30_000));
    if (port !== null && await tryPort(port + 10_000) !== null) return port;
  }
}

function tryPort(port: number): Promise<number | null> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(null));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(port)));
  });
}

export interface ServerOptions {
  /** More lines of redis.conf. Everything is kept and synced at every write unless they say otherwise. */
  config?: string[];
  sentinel?: boolean;
  port?: number;
  /** For redis-cli: password, TLS. */
  cliArgs?: string[];
  cliPort?: number;
}

/** Starts a server on the loopback interface and waits until it answers. */
export async function startRedis(options: ServerOptions = {}): Promise<RedisServer> {
  const port = options.port ?? await freePort();
  const dir = join(tempDir("agentq-redis-"), String(port));
  mkdirSync(dir, { recursive: true });
  const file = join(dir, "redis.conf");
  writeFileSync(
    file,
    [
      `port ${port}`,
      "bind 127.0.0.1",
      `dir ${dir}`,
      ...(options.sentinel ? [] : ["appendonly yes", "appendfsync always", 'save ""']),
      ...(options.config ?? []),
    ].join("\n") + "\n",
  );
  let child: ChildProcess;
  const cli = (...args: string[]) => {
    const all = [
      "-h",
      "127.0.0.1",
      "-p",
      String(options.cliPort ?? port),
      ...(options.cliArgs ?? []),
      ...args,
    ];
    const run = spawnSync("redis-cli", all, { encoding: "utf8" });
    return run.stdout.trim();
  };
  const start = async () => {
    const args = options.sentinel ? [file, "--sentinel"] : [file];
    child = spawn("redis-server", args, { stdio: "ignore" });
    running.add(child);
    const started = child;
    child.once("exit", () => running.delete(started));
    await until(() => answers(options.cliPort ?? port));
    if (!options.config?.some((line) => line.startsWith("tls-port"))) {
      await until(async () => !cli("ping").startsWith("LOADING"));
    }
  };
  await start();
  return {
    port,
    dir,
    cli,
    start,
    pid: () => child.pid!,
    kill: () =>
      new Promise((resolve) => {
        if (!running.has(child)) return resolve();
        child.once("exit", () => resolve());
        child.kill("SIGKILL");
      }),
  };
}

/** Three masters that share the slots. */
export async function startCluster(): Promise<RedisServer[]> {
  const servers: RedisServer[] = [];
  for (let i = 0; i < 3; i++) {
    servers.push(
      await startRedis({
        config: ["cluster-enabled yes", "cluster-node-timeout 2000", "appendfsync everysec"],
      }),
    );
  }
  const nodes = servers.map(({ port }) => `127.0.0.1:${port}`);
  const run = spawnSync("redis-cli", ["--cluster", "create", ...nodes, "--cluster-yes"], {
    encoding: "utf8",
  });
  if (run.status !== 0) throw new Error(run.stdout + run.stderr);
  for (const server of servers) {
    await until(async () => server.cli("cluster", "info").includes("cluster_state:ok"));
  }
  return servers;
}

export interface SentinelSetup {
  /** host:port of each, joined by commas. */
  readonly sentinels: string;
  readonly servers: RedisServer[];
  /** Makes the replica the master and waits until the sentinels say so. */
  failover(): Promise<void>;
  master(): string;
  stop(): Promise<void>;
}

/** A master, its replica and three sentinels that call the master `mymaster`. */
export async function startSentinels(): Promise<SentinelSetup> {
  const master = await startRedis();
  const replica = await startRedis({ config: [`replicaof 127.0.0.1 ${master.port}`] });
  await until(async () => replica.cli("info", "replication").includes("master_link_status:up"));
  const watchers: RedisServer[] = [];
  for (let i = 0; i < 3; i++) {
    watchers.push(
      await startRedis({
        sentinel: true,
        config: [
          `sentinel monitor mymaster 127.0.0.1 ${master.port} 2`,
          "sentinel down-after-milliseconds mymaster 1000",
          "sentinel failover-timeout mymaster 10000",
        ],
      }),
    );
  }
  for (const watcher of watchers) {
    await until(async () => {
      const lines = watcher.cli("sentinel", "master", "mymaster").split("\n");
      const value = (name: string) => lines[lines.indexOf(name) + 1];
      return value("num-slaves") === "1" && value("num-other-sentinels") === "2";
    });
  }
  const current = (watcher: RedisServer) =>
    watcher.cli("sentinel", "get-master-addr-by-name", "mymaster").split("\n")[1] ?? "";
  return {
    sentinels: watchers.map(({ port }) => `127.0.0.1:${port}`).join(","),
    servers: [master, replica, ...watchers],
    master: () => current(watchers[0]!),
    failover: async () => {
      const before = current(watchers[0]!);
      // Replication is asynchronous; what a failover may lose is another test's subject.
      const old = [master, replica].find(({ port }) => String(port) === before)!;
      await until(() => {
        const offsets = /offset=(\d+)[^]*master_repl_offset:(\d+)/.exec(
          old.cli("info", "replication"),
        );
        return offsets !== null && offsets[1] === offsets[2];
      });
      await until(async () => watchers[0]!.cli("sentinel", "failover", "mymaster") === "OK");
      for (const watcher of watchers) await until(async () => current(watcher) !== before);
    },
    stop: async () => {
      for (const server of [...watchers, replica, master]) await server.kill();
    },
  };
}

/** Waits for a condition; a test that waits in vain is ended by its runner. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!await condition()) await new Promise((resolve) => setTimeout(resolve, 20));
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("error", () => resolve(false));
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
  });
}

/** The bytes of a text. */
export function bytes(text: string): Uint8Array {
  return Buffer.from(text, "utf8");
}
