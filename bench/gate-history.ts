/**
 * Shows the gate every merge commit of a repository: what it would refuse of real history.
 *
 *     bun bench/gate-history.ts REPO [N] [--show]
 *
 * Prints how many merges git makes cleanly (none of those may be refused), how many were resolved by
 * hand, and how many of either the gate calls a loss.
 */
import { spawnSync } from "node:child_process";
import process from "node:process";
import { isAgentqError } from "../src/errors.ts";
import { openObjectStore } from "../src/git/odb.ts";
import { commitTree, inspectMerge } from "../src/merge/gate/merge.ts";
import type { Loss } from "../src/merge/gate/loss.ts";
import { commitGraph } from "../src/merge/graph.ts";
import { mergeCommits } from "../src/merge/merge-commits.ts";
import { atOnce } from "../src/merge/steps.ts";
import { overlay } from "../src/merge/overlay.ts";

const args = process.argv.slice(2);
const show = args.includes("--show") && args.splice(args.indexOf("--show"), 1).length > 0;
const [repo, limit] = args;
if (repo === undefined) {
  console.error("usage: bun bench/gate-history.ts REPO [N] [--show]");
  process.exit(64);
}
const git = (...argv: string[]): string =>
  spawnSync("git", ["-C", repo, ...argv], { maxBuffer: 1 << 30, encoding: "utf8" }).stdout.trim();

const db = openObjectStore(`${git("rev-parse", "--absolute-git-dir")}/objects`);
const graph = commitGraph(db);
const counts: Record<string, number> = {};
const count = (name: string): void => {
  counts[name] = (counts[name] ?? 0) + 1;
};
/** What the merge commit is, and what the gate misses in it. */
function inspect(merge: string, parents: readonly string[]): [kind: string, losses: Loss[]] {
  const tree = commitTree(db, merge);
  const losses = atOnce(inspectMerge(db, graph, parents, tree));
  if (parents.length !== 2) return ["octopus", losses];
  const merged = mergeCommits(overlay(db), parents[0]!, parents[1]!, {
    graph,
    allowUnrelated: true,
  });
  if (!merged.clean) return ["resolved", losses];
  return [merged.tree === tree ? "as git merges" : "clean but edited", losses];
}

const lines = git("rev-list", "--merges", "--parents", "--all").split("\n");
for (const line of limit ? lines.slice(0, Number(limit)) : lines) {
  const [merge, ...parents] = line.split(" ");
  if (!merge || parents.length < 2) continue;
  let kind: string;
  let losses: Loss[];
  try {
    [kind, losses] = inspect(merge, parents);
  } catch (error) {
    if (!isAgentqError(error, "object-missing")) throw error;
    count("objects missing in this copy");
    continue;
  }
  count(kind);
  if (losses.length === 0) continue;
  count(`${kind}: refused`);
  if (show) {
    console.log(`${kind}: ${merge}`);
    for (const loss of losses.slice(0, 5)) {
      console.log(`  ${loss.path}: ${loss.what} [${loss.parent}]`);
    }
    if (losses.length > 5) console.log(`  … ${losses.length} paths`);
  }
}
console.log(JSON.stringify({ repo, ...counts }, null, 1));
