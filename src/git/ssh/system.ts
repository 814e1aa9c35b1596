/**
 * ssh by the system's own program: its configuration, agent, known hosts and jump hosts hold because
 * it is itself. One process for each connection, in a process group of its own unless somebody sits at
 * the terminal whom ssh may ask.
 */
import { nodeChildProcess } from "../../platform/builtins.ts";
import { throwIfAborted } from "../../platform/clock.ts";
import { notStarted } from "../../platform/process.ts";
import type { GitConfig } from "../config.ts";
import {
  type Channel,
  type Dial,
  EXPLAIN_MS,
  keepTail,
  type Service,
  type Version2,
} from "../stream/channel.ts";
import {
  address,
  commandLine,
  findProgram,
  firstWord,
  sshOptions,
  type SshProgram,
  type SshTarget,
  sshVariant,
  type Variant,
} from "./command.ts";
import { sshFault } from "./faults.ts";

export interface SystemSshOptions {
  readonly config: GitConfig;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly connectMs: number;
  /** Somebody sits at the terminal: ssh may ask for a passphrase or about a host key. */
  readonly interactive: boolean;
  /** The words to run at the server for a service. */
  readonly remoteCommand: (service: Service, version2: Version2) => string;
}

/** How long ssh may take to end by itself after the last word, in milliseconds. */
const GRACE_MS = 1_000;

export function systemSshDial(
  program: SshProgram,
  target: SshTarget,
  name: string,
  options: SystemSshOptions,
): Dial {
  const { config, env, interactive } = options;
  let variant: Promise<Variant> | null = null;
  return {
    kind: "ssh",
    name,
    insists: true,
    async open(service, version2, signal) {
      const kind = await (variant ??= sshVariant(program, target, config, env));
      throwIfAborted(signal);
      const command = options.remoteCommand(service, version2);
      const batch = !interactive && !asksElsewhere(env);
      const args = [
        ...sshOptions(kind, target, {
          batch,
          protocol: version2 === "offer",
          connectSeconds: Math.max(1, Math.ceil(options.connectMs / 1000)),
        }),
        address(target),
        command,
      ];
      const [file, words] = commandLine(program, args);
      const child = nodeChildProcess().spawn(file, [...words], {
        // Without the environment's own offer, which would be passed on to receive-pack too.
        env: withProtocol(env, version2 === "offer"),
        stdio: ["pipe", "pipe", "pipe"],
        // A session of its own has no terminal to ask on.
        detached: !interactive,
        windowsHide: true,
      });
      return childChannel(child, program, name, command, { env, interactive });
    },
    close() {},
  };
}

/** SSH_ASKPASS that is told to be used: it asks without a terminal, and that is meant. */
function asksElsewhere(env: Readonly<Record<string, string | undefined>>): boolean {
  return !!env.SSH_ASKPASS && /^(force|prefer)$/.test(env.SSH_ASKPASS_REQUIRE ?? "");
}

function withProtocol(
  env: Readonly<Record<string, string | undefined>>,
  offer: boolean,
): NodeJS.ProcessEnv {
  const entries = Object.entries(env).filter(([key]) => key !== "GIT_PROTOCOL");
  return Object.fromEntries(offer ? [...entries, ["GIT_PROTOCOL", "version=2"]] : entries);
}

type Child = ReturnType<ReturnType<typeof nodeChildProcess>["spawn"]>;

function childChannel(
  child: Child,
  program: SshProgram,
  name: string,
  command: string,
  { env, interactive }: Pick<SystemSshOptions, "env" | "interactive">,
): Channel {
  const stdin = child.stdin!;
  const stdout = child.stdout!;
  const said = keepTail(child.stderr!);
  stdout.on("error", () => {});
  stdin.on("error", () => {});
  let failure: Error | null = null;
  let end: { exit: number | null; killedBy: string | null } | null = null;
  const ended = new Promise<void>((resolve) => {
    child.once("error", (cause) => {
      failure = cause;
      stdout.destroy();
      resolve();
    });
    child.once("exit", (exit, killedBy) => {
      end = { exit, killedBy };
      // What it said last is still in the pipe; a process that it left behind may hold that open.
      const timer = setTimeout(resolve, GRACE_MS);
      child.once("close", () => {
        clearTimeout(timer);
        resolve();
      });
    });
  });
  const kill = (signal: "SIGTERM" | "SIGKILL") => {
    if (child.pid === undefined || end !== null) return;
    try {
      // Someone at the terminal needs it restored by ssh itself.
      if (interactive) child.kill("SIGTERM");
      else if (process.platform === "win32") child.kill("SIGKILL");
      else process.kill(-child.pid, signal);
    } catch {
      // Already gone.
    }
  };
  return {
    readable: stdout,
    writable: stdin,
    async explain(opened) {
      const timer = setTimeout(() => kill("SIGKILL"), EXPLAIN_MS);
      await ended;
      clearTimeout(timer);
      const word = firstWord(program);
      if (failure !== null || (!opened && end?.exit === 127 && absent(word, env))) {
        return notStarted(word || "ssh", failure ?? { code: "ENOENT" });
      }
      const { exit = null, killedBy = null } = end ?? {};
      return sshFault({ exit, killedBy, stderr: said(), name, command, opened });
    },
    said,
    finish() {
      stdin.end();
      stdout.resume();
      // ssh ends by itself now; should we end before it, its closed input tells it to.
      child.unref();
      for (const stream of [stdin, stdout, child.stderr!]) {
        (stream as { unref?: () => void }).unref?.();
      }
      const timer = setTimeout(() => {
        kill("SIGKILL");
        stdout.destroy();
        child.stderr!.destroy();
      }, GRACE_MS);
      timer.unref?.();
      child.once("close", () => clearTimeout(timer));
    },
    destroy() {
      kill("SIGKILL");
      stdin.destroy();
      stdout.destroy();
    },
  };
}

function absent(word: string, env: Readonly<Record<string, string | undefined>>): boolean {
  return word !== "" && findProgram(word, env) === null;
}
