/**
 * The ssh program and its arguments, chosen as git chooses them: GIT_SSH_COMMAND, core.sshCommand
 * (both for a shell), GIT_SSH (a program), else `ssh`; and which kind of program that is.
 */
import { accessSync, constants, statSync } from "node:fs";
import { delimiter, isAbsolute, join } from "node:path";
import { AgentqError } from "../../errors.ts";
import { nodeChildProcess } from "../../platform/builtins.ts";
import type { GitConfig } from "../config.ts";

type Env = Readonly<Record<string, string | undefined>>;

/** `simple` takes a host and a command, nothing else. */
export type Variant = "ssh" | "plink" | "putty" | "tortoiseplink" | "simple";

export interface SshProgram {
  /** A command line for the shell, or the path of a program. */
  readonly text: string;
  readonly shell: boolean;
}

export interface SshTarget {
  readonly host: string;
  readonly user: string | null;
  readonly port: number | null;
}

/** The program to use; null when none is named and there is no `ssh` on PATH. */
export function sshProgram(config: GitConfig, env: Env): SshProgram | null {
  const line = env.GIT_SSH_COMMAND || config.get("core.sshCommand");
  if (line) return { text: line, shell: true };
  if (env.GIT_SSH) return { text: env.GIT_SSH, shell: false };
  const found = findProgram("ssh", env);
  return found === null ? null : { text: found, shell: false };
}

/** The path of a program on the PATH of `env`. */
export function findProgram(name: string, env: Env): string | null {
  const names = process.platform === "win32" ? [`${name}.exe`, name] : [name];
  const places = name.includes("/") ? [""] : (env.PATH ?? "").split(delimiter).filter(isAbsolute);
  for (const path of places.flatMap((place) => names.map((one) => join(place, one)))) {
    try {
      accessSync(path, constants.X_OK);
      if (statSync(path).isFile()) return path;
    } catch {
      // Not here.
    }
  }
  return null;
}

/** The first word of a command line, as far as it can be told without a shell. */
export function firstWord({ text, shell }: SshProgram): string {
  if (!shell) return text;
  const match = /^\s*(?:"([^"$`\\]*)"|'([^']*)'|([^\s"'$`;&|<>()]+))/.exec(text);
  return match?.[1] ?? match?.[2] ?? match?.[3] ?? "";
}

/**
 * The kind of program: told by GIT_SSH_VARIANT or ssh.variant, known by its name, else found out by
 * asking it for its configuration (`-G`), which only OpenSSH gives.
 */
export async function sshVariant(
  program: SshProgram,
  target: SshTarget,
  config: GitConfig,
  env: Env,
): Promise<Variant> {
  const told = (env.GIT_SSH_VARIANT || config.get("ssh.variant") || "").toLowerCase();
  if (["ssh", "plink", "putty", "tortoiseplink", "simple"].includes(told)) return told as Variant;
  const name = firstWord(program).replace(/^.*[/\\]/s, "").toLowerCase().replace(/\.exe$/, "");
  if (told !== "auto") {
    if (name === "ssh" || name === "plink" || name === "putty" || name === "tortoiseplink") {
      return name;
    }
  }
  const probe = commandLine(program, ["-G", ...sshOptions("ssh", target, {}), address(target)]);
  return await answers(probe, env) ? "ssh" : "simple";
}

function answers([file, args]: readonly [string, readonly string[]], env: Env): Promise<boolean> {
  return new Promise((resolve) => {
    const child = nodeChildProcess().spawn(file, [...args], {
      env: env as NodeJS.ProcessEnv,
      stdio: "ignore",
      timeout: 10_000,
      killSignal: "SIGKILL",
    });
    child.once("error", () => resolve(false));
    child.once("exit", (code) => resolve(code === 0));
  });
}

export interface OptionWishes {
  /** Ask nobody anything. */
  readonly batch?: boolean;
  /** Let GIT_PROTOCOL through. */
  readonly protocol?: boolean;
  /** Seconds for a connection to stand. */
  readonly connectSeconds?: number;
}

/** What goes between the program and the host. @throws `config-invalid` for what a variant can't do */
export function sshOptions(variant: Variant, target: SshTarget, wishes: OptionWishes): string[] {
  const { port } = target;
  if (variant === "simple") {
    if (port === null) return [];
    throw new AgentqError("config-invalid", "This ssh program can't be told a port.", {
      hint: "Set ssh.variant (or GIT_SSH_VARIANT) to the kind of program it is.",
    });
  }
  if (variant === "ssh") {
    return [
      // The first value of an option counts, so those in GIT_SSH_COMMAND win over these.
      ...(wishes.batch ? ["-o", "BatchMode=yes"] : []),
      ...(wishes.connectSeconds ? ["-o", `ConnectTimeout=${wishes.connectSeconds}`] : []),
      ...(wishes.protocol ? ["-o", "SendEnv=GIT_PROTOCOL"] : []),
      ...(port === null ? [] : ["-p", String(port)]),
    ];
  }
  return [
    ...(variant === "tortoiseplink" || (variant === "plink" && wishes.batch) ? ["-batch"] : []),
    ...(port === null ? [] : ["-P", String(port)]),
  ];
}

export function address({ host, user }: SshTarget): string {
  return user === null ? host : `${user}@${host}`;
}

/** What to start for a program with these arguments. */
export function commandLine(
  { text, shell }: SshProgram,
  args: readonly string[],
): readonly [string, readonly string[]] {
  return shell ? ["sh", ["-c", `${text} "$@"`, text, ...args]] : [text, args];
}

/** Quotes a path for the shell at the other end; `!` too, for those that read it as history. */
export function remoteQuote(text: string): string {
  return `'${text.replace(/['!]/g, (char) => `'\\${char}'`)}'`;
}
