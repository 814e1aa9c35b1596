/** Starting and ending the processes of `agent.ts` under the runtime that runs the test. */
import { type ChildProcess, spawn } from "node:child_process";
import process from "node:process";
import { fileURLToPath } from "node:url";
import type { Task } from "./agent.ts";

const script = fileURLToPath(new URL("./agent.ts", import.meta.url));
const running = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of running) process.kill(child.pid!, "SIGKILL");
});

export interface Agent {
  readonly pid: number;
  /** Lets it end what it does and returns what it saw. Throws what it died of. */
  stop(): Promise<Record<string, number>>;
  /** Waits until it ends by itself. */
  finish(): Promise<Record<string, number>>;
  /** `kill -9`; resolves when it is gone. */
  kill(): Promise<void>;
  signal(name: NodeJS.Signals): void;
}

export function startAgent(task: Task): Agent {
  const arguments_ = process.versions.deno === undefined
    ? [script]
    : ["run", "-A", "--no-check", script];
  const child = spawn(process.execPath, [...arguments_, JSON.stringify(task)], {
    stdio: ["pipe", "pipe", "pipe"],
  });
  running.add(child);
  let [output, errors] = ["", ""];
  child.stdout!.on("data", (chunk) => output += chunk);
  child.stderr!.on("data", (chunk) => errors += chunk);
  child.stdin!.on("error", () => {});
  const gone = new Promise<number | null>((resolve) =>
    child.once("close", (code) => {
      running.delete(child);
      resolve(code);
    })
  );
  const finish = async () => {
    const code = await gone;
    if (code !== 0) throw new Error(`${task.role} ended with ${code}: ${errors}`);
    return JSON.parse(output) as Record<string, number>;
  };
  // By its number: Deno's child processes take one signal only.
  const signal = (name: NodeJS.Signals) => void process.kill(child.pid!, name);
  return {
    pid: child.pid!,
    finish,
    stop: () => {
      child.stdin!.end();
      return finish();
    },
    kill: async () => {
      if (running.has(child)) signal("SIGKILL");
      await gone;
    },
    signal,
  };
}

/** The long run's value from the environment, or the one for every day. */
export function setting(name: string, everyDay: number): number {
  const text = process.env[name];
  return text === undefined || text === "" ? everyDay : Number(text);
}
