/**
 * The same merges by agentq in one process and by a run of `git merge-tree` each.
 *
 *     bun bench/merge.ts REPO [N]
 *
 * N (500) merge commits spread over the repository's history. Prints both times, their ratio, and peak
 * memory. For inputs that are hard to merge see merge-shapes.ts.
 */
import { spawnSync } from "node:child_process";
import process from "node:process";
import { openRepository } from "../src/git/repository.ts";
import { pairMerger } from "../src/merge/merge-pair.ts";

const [repo, limit = "500"] = process.argv.slice(2);
if (repo === undefined) {
  console.error("usage: bun bench/merge.ts REPO [N]");
  process.exit(64);
}
const git = (...argv: string[]): string =>
  spawnSync("git", ["-C", repo, ...argv], { maxBuffer: 1 << 30, encoding: "utf8" }).stdout.trim();

const all = git("rev-list", "--merges", "--min-parents=2", "--max-parents=2", "--parents", "HEAD")
  .split("\n");
const every = Math.max(1, Math.floor(all.length / Number(limit)));
const pairs = all.filter((_, i) => i % every === 0).slice(0, Number(limit))
  .map((line) => line.split(" ").slice(1) as [string, string]);

const started = performance.now();
const merge = pairMerger(openRepository(repo));
const trees = pairs.map(([ours, theirs]) => {
  try {
    return merge(ours, theirs).tree;
  } catch {
    return null;
  }
});
const own = performance.now() - started;
const rss = process.resourceUsage().maxRSS;

const before = performance.now();
let same = 0;
pairs.forEach(([ours, theirs], i) => {
  const run = spawnSync("git", ["-C", repo, "merge-tree", "--write-tree", ours, theirs], {
    encoding: "utf8",
  });
  if (run.stdout.slice(0, 40) === (trees[i] ?? "")) same++;
});
const theirs = performance.now() - before;
console.log(
  `${pairs.length} merges: agentq ${own.toFixed(0)} ms, git ${theirs.toFixed(0)} ms, ratio ${
    (own / theirs).toFixed(2)
  }; ${same} same trees; peak memory ${(rss / 1024).toFixed(0)} MiB`,
);
