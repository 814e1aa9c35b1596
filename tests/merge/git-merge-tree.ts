/** Real git's answer to many merges at once, and ours in the same form. */
import { spawnSync } from "node:child_process";
import { gitEnv } from "../helpers/git.ts";
import type { MergeResult } from "../../src/merge/types.ts";

export interface Answer {
  readonly clean: boolean;
  readonly tree: string;
  /** `mode oid stage\tpath`, paths as byte strings. */
  readonly stages: readonly string[];
}

/**
 * What `git merge-tree --write-tree` says to each pair; null where it gives up (unrelated histories, or one
 * of its own assertions: then what it had answered before is lost, and asked for again in halves).
 */
export function gitAnswers(
  repo: string,
  pairs: readonly (readonly [string, string])[],
  config: readonly string[] = [],
): (Answer | null)[] {
  const run = spawnSync("git", [
    ...config.flatMap((setting) => ["-c", setting]),
    "merge-tree",
    "--write-tree",
    "--stdin",
    "-z",
    "--no-messages",
  ], {
    cwd: repo,
    env: gitEnv(),
    input: pairs.map((pair) => pair.join(" ") + "\n").join(""),
    maxBuffer: 1 << 30,
  });
  if (run.status !== 0) {
    if (pairs.length <= 1) return pairs.map(() => null);
    const half = pairs.length >> 1;
    return [
      ...gitAnswers(repo, pairs.slice(0, half), config),
      ...gitAnswers(repo, pairs.slice(half), config),
    ];
  }
  const answers: Answer[] = [];
  const fields = run.stdout.toString("latin1").split("\0");
  for (let at = 0; at + 2 < fields.length; at++) {
    const clean = fields[at++] === "1";
    const tree = fields[at++]!;
    const stages: string[] = [];
    while (fields[at] !== "") stages.push(fields[at++]!);
    answers.push({ clean, tree, stages });
  }
  return answers;
}

export function ownAnswer(result: MergeResult): Answer {
  return {
    clean: result.clean,
    tree: result.tree,
    stages: result.stages.map(({ mode, oid, stage, path }) =>
      `${mode.toString(8).padStart(6, "0")} ${oid} ${stage}\t${path}`
    ),
  };
}
