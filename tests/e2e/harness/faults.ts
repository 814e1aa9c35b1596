/** Places where a scenario can stop the world: gates inside hooks and verify commands, and strace. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../../helpers/git.ts";
import { type Agent, type Run, run, start, type StartOptions } from "./agent.ts";
import { until } from "./scenario.ts";

/** A point in a shell script that blocks the first who comes until it is opened. */
export interface Gate {
  /** Shell code for the hook or verify command. */
  readonly shell: string;
  /** Resolves when somebody is blocked at the gate. */
  reached(): Promise<unknown>;
  open(): void;
}

/** A closed gate. Whoever comes after the first passes freely. */
export function makeGate(): Gate {
  const dir = tempDir("agentq-gate-");
  const at = join(dir, "reached");
  const go = join(dir, "go");
  return {
    // mkdir decides who is first, so that two at the same moment can't both be blocked.
    shell: `if /bin/mkdir ${dir}/first 2>/dev/null; then : > ${at}; ` +
      `while [ ! -e ${go} ]; do /bin/sleep 0.02; done; fi`,
    reached: () => until("the gate to be reached", () => existsSync(at)),
    open: () => writeFileSync(go, ""),
  };
}

/** Restricts shell code of a pre-receive (which sees $ref) to updates of one ref. */
export function onRef(ref: string, shell: string): string {
  return `if [ "$ref" = '${ref}' ]; then ${shell}; fi`;
}

/** The calls by which a process changes what others see, or makes it last. */
export const DURABLE_CALLS =
  "rename,renameat,renameat2,link,linkat,unlink,unlinkat,fsync,fdatasync,mkdir,mkdirat,rmdir";

/** Which calls of the set the run made, in order, by name; the run must succeed. */
export async function countCalls(
  agent: Agent,
  args: readonly string[],
  calls: string,
): Promise<{ run: Run; made: string[] }> {
  const log = join(tempDir("agentq-strace-"), "log");
  const result = await run(agent, args, {
    wrapper: ["/usr/bin/strace", "-f", "--seccomp-bpf", "-qq", "-o", log, "-e", `trace=${calls}`],
  });
  const made = readFileSync(log, "utf8").split("\n")
    .map((line) => /^\d+ +(\w+)\(/.exec(line)?.[1])
    .filter((name) => name !== undefined);
  return { run: result, made };
}

/**
 * Runs the binary and kills it (SIGKILL) as it enters its n-th call of the set: the call isn't made.
 * Without --seccomp-bpf, with which strace 6.1 silently injects nothing.
 */
export function killAtCall(
  agent: Agent,
  args: readonly string[],
  calls: string,
  n: number,
  options: StartOptions = {},
): Promise<Run> {
  return start(agent, args, {
    ...options,
    wrapper: [
      "/usr/bin/strace",
      "-f",
      "-qq",
      "-o",
      "/dev/null",
      "-e",
      `trace=${calls}`,
      "-e",
      `inject=${calls}:signal=SIGKILL:when=${n}`,
    ],
  }).done;
}
