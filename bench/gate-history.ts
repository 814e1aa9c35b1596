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
import { openObjectStore } from "../src/git/odb.ts";
import { commitTree, inspectMerge } from "../src/merge/gate-merge.ts";
import { commitGraph } from "../src/merge/graph.ts";
import { mergeCommits } from "../src/merge/merge-commits.ts";
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
const lines = git("rev-list", "--merges", "--parents", "--all").split("\n");
for (const line of limit ? lines.slice(0, Number(limit)) : lines) {
  const [merge, ...parents] = line.split(" ");
  if (!merge || parents.length < 2) continue;
  const tree = commitTree(db, merge);
  let kind = "octopus";
  if (parents.length === 2) {
    const merged = mergeCommits(overlay(db), parents[0]!, parents[1]!, {
      graph,
      allowUnrelated: true,
    });
    kind = merged.clean
      ? (merged.tree === tree ? "as git merges" : "clean but edited")
      : "resolved";
  }
  const losses = inspectMerge(db, graph, parents, tree);
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
