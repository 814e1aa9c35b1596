/**
 * The same merges by agentq in one process and by a run of `git merge-tree` each.
 *
 *     bun bench/merge.ts REPO [N]
 *
 * N (500) merge commits spread over the repository's history. Prints both times, their ratio, and peak
 * memory; then the cost of inputs that are hard to merge, against their size.
 */
import { spawnSync } from "node:child_process";
import { Buffer } from "node:buffer";
import process from "node:process";
import { openRepository } from "../src/git/repository.ts";
import { pairMerger } from "../src/merge/merge-pair.ts";
import { mergeTexts } from "../src/merge/text/merge3.ts";

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

const labels = { ours: "ours", base: "base", theirs: "theirs" };
const lines = (n: number, make: (i: number) => string): string =>
  Array.from({ length: n }, (_, i) => make(i)).join("");
for (const n of [25_000, 50_000, 100_000, 200_000]) {
  const row: string[] = [];
  for (
    const [name, base, a, b] of [
      ["equal lines", lines(n, () => "same\n"), "first\n", "last\n"],
      [
        "numbered lines",
        lines(n, (i) => `line ${i} of text that is as long as text is\n`),
        "first\n",
        "last\n",
      ],
      ["few kinds", lines(n, (i) => `${(i * 7919) % 50}\n`), "first\n", "last\n"],
    ] as const
  ) {
    const t = performance.now();
    mergeTexts(Buffer.from(base), Buffer.from(a + base), Buffer.from(base + b), { labels });
    row.push(`${name} ${(performance.now() - t).toFixed(0)} ms`);
  }
  console.log(`${n} lines: ${row.join(", ")}`);
}
