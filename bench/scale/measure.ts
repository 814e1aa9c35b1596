/** What the parts of bench/scale share: running programs, timing them in turns, printing ratios. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { agentq, median, plainEnv, ratioOf, script } from "../lib/beside.ts";

export { agentq, median, ms, ratioOf, script } from "../lib/beside.ts";

/** GNU time, which alone tells the peak of one program's memory. */
const gnuTime = "/usr/bin/time";

/** Bun tells a child's processor time, which node:child_process doesn't. */
const bun = (globalThis as unknown as {
  Bun: {
    spawn(command: readonly string[], options: object): {
      readonly stdout: ReadableStream;
      readonly stderr: ReadableStream;
      readonly exited: Promise<number>;
      resourceUsage(): { cpuTime: { total: number | bigint } };
    };
  };
}).Bun;

export interface Bench {
  /** A directory of this run, removed at its end. */
  readonly work: string;
  readonly env: Record<string, string>;
  /** Pairs that are measured of each. */
  readonly rounds: number;
}

export function openBench(rounds: number): Bench & { close(): void } {
  for (const needed of [agentq, gnuTime]) {
    if (!existsSync(needed)) throw new Error(`${needed} does not exist`);
  }
  const work = mkdtempSync(join(tmpdir(), "agentq-bench-scale-"));
  return {
    work,
    rounds,
    env: { ...plainEnv(work), AGENTQ_STATE: join(work, "state") },
    close: () => rmSync(work, { recursive: true, force: true }),
  };
}

export function git(bench: Bench, cwd: string, ...args: string[]): string {
  return execFileSync("git", args, {
    cwd,
    env: bench.env,
    encoding: "utf8",
    maxBuffer: 1 << 30,
    stdio: ["ignore", "pipe", "pipe"],
  }).trim();
}

/** A bare copy with every ref of it; packs are shared by hardlinks, so it costs no space. */
export function mirror(bench: Bench, from: string, name: string): string {
  const dir = join(bench.work, name);
  git(bench, bench.work, "clone", "-q", "--mirror", from, dir);
  git(bench, dir, "config", "gc.auto", "0");
  git(bench, dir, "config", "--unset", "remote.origin.mirror");
  return dir;
}

export function clone(bench: Bench, from: string, name: string, ...args: string[]): string {
  const dir = join(bench.work, name);
  git(bench, bench.work, "clone", "-q", ...args, from, dir);
  git(bench, dir, "config", "gc.auto", "0");
  return dir;
}

export interface Took {
  /** Milliseconds on the clock. */
  readonly ms: number;
  /** Milliseconds of processor time, with all children: what other work on the machine moves least. */
  readonly cpu: number;
  /** Bytes: the peak of resident memory. Of a script, that of its largest process. */
  readonly rss: number;
  readonly stdout: string;
}

/** Runs a program that must succeed; this process serves others meanwhile. */
export async function take(
  bench: Bench,
  cwd: string,
  command: string,
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<Took> {
  const memory = join(bench.work, "rss");
  const began = performance.now();
  const child = bun.spawn([gnuTime, "-f", "%M", "-o", memory, command, ...args], {
    cwd,
    env: { ...bench.env, ...env },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const [stdout, stderr] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  const status = await child.exited;
  const ms = performance.now() - began;
  const cpu = Number(child.resourceUsage().cpuTime.total) / 1000;
  if (status !== 0) {
    throw new Error(`${command} ${args.join(" ")}: exit ${status}\n${stdout}${stderr}`);
  }
  const kilobytes = Number(readFileSync(memory, "utf8").trim().split("\n").at(-1));
  return { ms, cpu, rss: kilobytes * 1024, stdout };
}

export const fastest = (values: readonly number[]): number => Math.min(...values);

/** Runs all in turns, another one first in each round; gives what each measured. */
export async function inTurns<T>(
  rounds: number,
  sides: readonly ((round: number) => T | Promise<T>)[],
): Promise<T[][]> {
  const found: T[][] = sides.map(() => []);
  for (let round = 0; round < rounds; round++) {
    for (let i = 0; i < sides.length; i++) {
      const at = (i + round) % sides.length;
      found[at]!.push(await sides[at]!(round));
    }
  }
  return found;
}

/** Two sides' times, and their processor times with the median of the rounds' ratios. */
export function timesOf(ours: readonly Took[], theirs: readonly Took[]): string {
  const [a, b] = [ours, theirs].map((runs) => runs.map((run) => run.cpu)) as [number[], number[]];
  const wall = [ours, theirs].map((runs) => median(runs.map((run) => run.ms)).toFixed(0));
  return `${wall.join(" and ")} ms; cpu ${median(a).toFixed(0)} and ${median(b).toFixed(0)} ms, ${
    ratioOf(a, b).toFixed(2)
  }×`;
}

/** The median of the rounds' ratios of times. */
export function slower(ours: readonly Took[], theirs: readonly Took[]): number {
  return ratioOf(ours.map((run) => run.ms), theirs.map((run) => run.ms));
}

/** A clone in which one commit after the other is made to be submitted. */
export interface Site {
  readonly dir: string;
  commit(): void;
}

/** Submits of ours beside the script's, in turns, held to its time; gives ours. */
export async function submitBeside(
  bench: Bench,
  sites: { readonly ours: Site; readonly theirs: Site },
  rounds: number,
  what: string,
): Promise<readonly Took[]> {
  const { ours, theirs } = sites;
  const [submit, enqueue] = await inTurns(rounds, [async () => {
    ours.commit();
    return await take(bench, ours.dir, agentq, ["submit", "--no-wait", "--json"]);
  }, async () => {
    theirs.commit();
    return await take(bench, theirs.dir, script, ["enqueue"]);
  }]);
  say(what, timesOf(submit!, enqueue!), slower(submit!, enqueue!), 1.0);
  return submit!;
}

let over = 0;

/** How many figures were over what they are held to. */
export const figuresOver = (): number => over;

export const mib = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(1)} MiB`;

/** One line: what was measured, the figure, and what it is held to. */
export function say(what: string, detail: string, figure: number, limit: number, unit = "×"): void {
  const good = figure <= limit;
  if (!good) over++;
  console.log(
    `${what.padEnd(38)} ${detail.padEnd(44)} ${
      figure.toFixed(2).padStart(7)
    }${unit}   at most ${limit}${unit}   ${good ? "ok" : "OVER"}`,
  );
}

/** A line that nothing is held to. */
export function tell(what: string, detail: string): void {
  console.log(`${what.padEnd(38)} ${detail}`);
}
