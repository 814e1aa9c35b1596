/** What every benchmark of the program beside a script of system git needs: both sides, their surroundings, middles. */
import { join, resolve } from "node:path";
import process from "node:process";

export const root = resolve(import.meta.dirname!, "../..");
/** The program under test: `AGENTQ_BIN`, else what ./compile.sh built. */
export const agentq = process.env.AGENTQ_BIN ?? join(root, "dist", "agentq");
/** The same protocol steps with git's plumbing. */
export const script = join(root, "bench", "landing-git.sh");

/** Surroundings without any configuration of this machine's. */
export function plainEnv(home: string): Record<string, string> {
  return {
    PATH: "/usr/bin:/bin",
    HOME: home,
    LC_ALL: "C",
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_CONFIG_GLOBAL: "/dev/null",
    GIT_AUTHOR_NAME: "bench",
    GIT_AUTHOR_EMAIL: "bench@example.com",
    GIT_COMMITTER_NAME: "bench",
    GIT_COMMITTER_EMAIL: "bench@example.com",
  };
}

export const median = (values: readonly number[]): number => {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
};

/** The median of the pairs' ratios. */
export function ratioOf(ours: readonly number[], theirs: readonly number[]): number {
  return median(ours.map((value, i) => value / theirs[i]!));
}

export const ms = (values: readonly number[]): string => `${median(values).toFixed(1)} ms`;
