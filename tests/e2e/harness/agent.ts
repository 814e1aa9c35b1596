/**
 * An agent: a clone, a home and a state directory of its own, and the compiled binary run with a PATH
 * that holds a shell and coreutils and no git.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdirSync, symlinkSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { commit, git, tempDir } from "../../helpers/git.ts";
import type { TestOrigin } from "./origin.ts";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "../../..");

/** The binary under test: `AGENTQ_BIN`, else what ./compile.sh built. */
export function binary(): string {
  const path = process.env.AGENTQ_BIN ?? join(root, "dist", "agentq");
  if (!existsSync(path)) throw new Error(`${path} does not exist: run ./compile.sh first`);
  return path;
}

/** Seconds of the lease in the tests, short so that a takeover needs no patience. */
export const TTL = 2;

let tools: string | undefined;

/** A directory of symlinks: all that an agent's PATH holds. */
export function toolPath(): string {
  if (tools !== undefined) return tools;
  tools = tempDir("agentq-tools-");
  for (
    const tool
      of "sh cat sleep echo printf ls rm mkdir cp mv touch true false test kill head tail wc sort grep sed env sha1sum date ps mkfifo"
        .split(" ")
  ) {
    const target = ["/usr/bin/", "/bin/"].map((dir) => dir + tool).find((path) => existsSync(path));
    if (target) symlinkSync(target, join(tools, tool));
  }
  return tools;
}

/** A finished run of the binary. */
export interface Run {
  readonly status: number | null;
  readonly signal: string | null;
  readonly stdout: string;
  readonly stderr: string;
  /** The one JSON document on standard output; throws when it isn't exactly one. */
  // deno-lint-ignore no-explicit-any -- documents are asserted field by field
  readonly json: any;
}

/** A run that is still going. */
export interface Running {
  readonly pid: number;
  readonly child: ChildProcess;
  readonly done: Promise<Run>;
  kill(signal: "SIGKILL" | "SIGTERM" | "SIGINT" | "SIGSTOP" | "SIGCONT"): void;
  stderr(): string;
}

export interface Agent {
  readonly name: string;
  /** The clone. */
  readonly dir: string;
  readonly state: string;
  env: Record<string, string>;
}

export interface AgentOptions {
  name?: string;
  /** Extra arguments of git clone (`--depth 1`, `--shared`). */
  clone?: string[];
  env?: Record<string, string>;
}

let count = 0;

/** Clones the origin with real git and gives the clone the url under test. */
export function makeAgent(origin: TestOrigin, options: AgentOptions = {}): Agent {
  const name = options.name ?? `a${++count}`;
  const base = tempDir(`agentq-${name}-`);
  const dir = join(base, "clone");
  const cut = options.clone?.some((flag) => /^--(depth|filter)/.test(flag));
  const source = cut ? `file://${origin.dir}` : origin.dir;
  git(base, "clone", "-q", ...(options.clone ?? []), source, dir);
  git(dir, "config", "remote.origin.url", origin.url);
  git(dir, "config", "user.name", name);
  git(dir, "config", "user.email", `${name}@example.com`);
  for (const [key, value] of Object.entries(origin.cloneConfig)) git(dir, "config", key, value);
  mkdirSync(join(base, "home"));
  const state = join(base, "state");
  return {
    name,
    dir,
    state,
    env: {
      PATH: toolPath(),
      HOME: join(base, "home"),
      AGENTQ_STATE: state,
      AGENTQ_POLL: "0.1",
      AGENTQ_LEASE_TTL: String(TTL),
      TMPDIR: process.env.TMPDIR ?? "/tmp",
      ...options.env,
    },
  };
}

/** Commits in the agent's clone with real git; gives the commit. */
export function agentCommit(
  agent: Agent,
  files: Record<string, string | Uint8Array>,
  message = `work of ${agent.name}`,
): string {
  return commit(agent.dir, message, files);
}

const alive = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of alive) child.kill("SIGKILL");
});

export interface StartOptions {
  cwd?: string;
  env?: Record<string, string>;
  /** Program and arguments in front of the binary (strace). */
  wrapper?: readonly string[];
  input?: string;
}

/** Starts the binary. */
export function start(agent: Agent, args: readonly string[], options: StartOptions = {}): Running {
  const [program, ...rest] = [...(options.wrapper ?? []), binary(), ...args] as [
    string,
    ...string[],
  ];
  const child = spawn(program, rest, {
    cwd: options.cwd ?? agent.dir,
    env: { ...agent.env, ...options.env },
    stdio: [options.input === undefined ? "ignore" : "pipe", "pipe", "pipe"],
  });
  alive.add(child);
  if (options.input !== undefined) child.stdin!.end(options.input);
  let out = "";
  let err = "";
  child.stdout!.setEncoding("utf8").on("data", (chunk: string) => out += chunk);
  child.stderr!.setEncoding("utf8").on("data", (chunk: string) => err += chunk);
  const done = new Promise<Run>((resolve, reject) => {
    child.on("error", reject);
    // "close" waits for the pipes: an orphan that keeps them open would hold a killed agent's run
    // back for its own life time, so after "exit" they get a moment and no more.
    let ended = false;
    const end = (status: number | null, signal: string | null) => {
      if (ended) return;
      ended = true;
      alive.delete(child);
      resolve(finished(args, status, signal, out, err));
    };
    child.on("close", end);
    child.on("exit", (status, signal) => setTimeout(() => end(status, signal), 1000));
  });
  return {
    pid: child.pid!,
    child,
    done,
    kill: (signal) => {
      try {
        process.kill(child.pid!, signal);
      } catch (error) {
        // It has ended by itself, a moment before.
        if ((error as { code?: string }).code !== "ESRCH") throw error;
      }
    },
    stderr: () => err,
  };
}

function finished(
  args: readonly string[],
  status: number | null,
  signal: string | null,
  stdout: string,
  stderr: string,
): Run {
  return {
    status,
    signal,
    stdout,
    stderr,
    get json() {
      try {
        return JSON.parse(stdout);
      } catch {
        throw new Error(
          `agentq ${
            args.join(" ")
          } printed no single JSON document (exit ${status}, ${signal}):\n` +
            `stdout: ${stdout}\nstderr: ${stderr}`,
        );
      }
    },
  };
}

/** Runs the binary to its end. */
export function run(
  agent: Agent,
  args: readonly string[],
  options: StartOptions = {},
): Promise<Run> {
  return start(agent, args, options).done;
}

/** Runs with `--json`, demands the exit code, and gives the document. */
export async function runJson(
  agent: Agent,
  args: readonly string[],
  status = 0,
  options: StartOptions = {},
  // deno-lint-ignore no-explicit-any -- documents are asserted field by field
): Promise<any> {
  const result = await run(agent, [...args, "--json"], options);
  if (result.status !== status) {
    throw new Error(
      `agentq ${args.join(" ")} exited ${result.status} (${result.signal}) instead of ${status}\n` +
        `stdout: ${result.stdout}\nstderr: ${result.stderr}`,
    );
  }
  return result.json;
}
