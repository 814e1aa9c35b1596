/** Places where a scenario can stop the world: gates inside hooks and verify commands, and strace. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
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

/** One call among those a run makes: the `nth` of that name, from 1. */
export interface CallAt {
  readonly call: string;
  readonly nth: number;
}

/**
 * Which calls of the set the run's busiest thread made, in order. Strace counts by thread and by
 * name, so these are the places at which {@link killAtCall} can kill.
 */
export async function countCalls(
  agent: Agent,
  args: readonly string[],
  calls: string,
): Promise<{ run: Run; made: CallAt[] }> {
  const log = join(tempDir("agentq-strace-"), "log");
  const result = await run(agent, args, {
    wrapper: ["/usr/bin/strace", "-f", "--seccomp-bpf", "-qq", "-o", log, "-e", `trace=${calls}`],
  });
  const threads = new Map<string, string[]>();
  for (const line of readFileSync(log, "utf8").split("\n")) {
    const call = /^(\d+) +(\w+)\(/.exec(line);
    if (!call) continue;
    threads.set(call[1]!, [...threads.get(call[1]!) ?? [], call[2]!]);
  }
  const names = [...threads.values()].sort((a, b) => b.length - a.length)[0] ?? [];
  const seen = new Map<string, number>();
  const made = names.map((call) => {
    const nth = (seen.get(call) ?? 0) + 1;
    seen.set(call, nth);
    return { call, nth };
  });
  return { run: result, made };
}

/**
 * Runs the binary and kills it (SIGKILL) as it enters the given call: the call isn't made. Without
 * --seccomp-bpf, with which strace 6.1 silently injects nothing. A wrapper of `options` goes around both.
 */
export function killAtCall(
  agent: Agent,
  args: readonly string[],
  { call, nth }: CallAt,
  options: StartOptions = {},
): Promise<Run> {
  return start(agent, args, {
    ...options,
    wrapper: [
      ...options.wrapper ?? [],
      "/usr/bin/strace",
      "-f",
      "-qq",
      "-o",
      "/dev/null",
      "-e",
      `trace=${call}`,
      "-e",
      `inject=${call}:signal=SIGKILL:when=${nth}`,
    ],
  }).done;
}

/**
 * The places to kill at: all of them in a long run (`AGENTQ_SOAK`), else a spread of about `count`.
 * The spread starts at the first call, and moves when the calls change.
 */
export function spread(made: readonly CallAt[], count: number): CallAt[] {
  const stride = process.env.AGENTQ_SOAK ? 1 : Math.max(1, Math.ceil(made.length / count));
  return made.filter((_, at) => at % stride === 0);
}
