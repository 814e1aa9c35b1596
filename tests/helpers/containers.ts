/** Processes in pid, mount and network namespaces of their own, as containers have them. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import process from "node:process";

/** What makes `command` run in a container: its first process is the namespace's init. */
export function contained(...command: string[]): [string, ...string[]] {
  // Whoever isn't root becomes it in a user namespace: there the rest is his to make.
  const user = process.getuid?.() === 0 ? [] : ["--user", "--map-root-user"];
  const spaces = ["--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--net"];
  return ["unshare", ...user, ...spaces, ...command];
}

/** The runtime that the tests run under, with a script. */
export function scriptRun(script: string, ...args: string[]): [string, ...string[]] {
  const flags = "Deno" in globalThis ? ["run", "-A", "--no-check", "--quiet"] : [];
  return [process.execPath, ...flags, script, ...args];
}

export interface Spoken {
  readonly child: ChildProcess;
  /** The next line of its standard output; null when there is none any more. */
  line(): Promise<string | null>;
  readonly ended: Promise<{ code: number | null; signal: string | null; stderr: string }>;
}

/** Starts a process and reads its lines. */
export function speak(command: readonly string[], options: { cwd?: string } = {}): Spoken {
  const child = spawn(command[0]!, command.slice(1), {
    ...options,
    stdio: ["pipe", "pipe", "pipe"],
  });
  const lines: string[] = [];
  const waiting: ((line: string | null) => void)[] = [];
  let rest = "";
  let over = false;
  let stderr = "";
  child.stdout.on("data", (chunk) => {
    const parts = (rest + chunk).split("\n");
    rest = parts.pop()!;
    for (const part of parts) (waiting.shift() ?? ((line) => lines.push(line!)))(part);
  });
  child.stdout.on("end", () => {
    over = true;
    for (const wake of waiting.splice(0)) wake(null);
  });
  child.stderr.on("data", (chunk) => stderr += chunk);
  child.stdin.on("error", () => {});
  return {
    child,
    line: () =>
      lines.length > 0 || over
        ? Promise.resolve(lines.shift() ?? null)
        : new Promise((resolve) => waiting.push(resolve)),
    ended: new Promise((resolve, reject) => {
      child.on("error", reject);
      child.on("exit", (code, signal) => resolve({ code, signal, stderr }));
    }),
  };
}

/** A script in a container that says "held" once it holds something; `pid` as it is here. */
export async function holder(script: string, ...args: string[]) {
  const spoken = speak(contained(...scriptRun(script, ...args)));
  const line = await spoken.line();
  assert.equal(line, "held", line ?? (await spoken.ended).stderr);
  const outer = spoken.child.pid;
  const pid = Number(readFileSync(`/proc/${outer}/task/${outer}/children`, "utf8"));
  return {
    pid,
    async kill() {
      process.kill(pid, "SIGKILL");
      await spoken.ended;
    },
  };
}
