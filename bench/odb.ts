/**
 * What reading a repository costs when it is large: a 500 MB pack and 80,000 commits beside a tiny clone.
 *
 * Each figure is the median of runs in processes of their own; memory is the peak resident set of the
 * whole process, of which an empty one is shown first. Set AGENTQ_BENCH_SMALL=1 for a quick run.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { bigRepository } from "./fixtures/big-repository.ts";
import { parseCommit } from "../src/git/commit.ts";
import { countBetween, isAncestor, mergeBases } from "../src/git/history.ts";
import { openRepository, type Repository } from "../src/git/repository.ts";
import { resolveCommit } from "../src/git/revision.ts";
import { isTreeMode, parseTree } from "../src/git/tree.ts";

/** What is measured, each in a fresh process on an opened repository. */
const MEASURES: Record<string, (repository: Repository) => unknown> = {
  nothing: () => 0,
  "head and its commit": (repository) =>
    parseCommit(repository.objects.read(repository.head().oid!).data).tree,
  "merge base, 50 commits apart": (repository) => {
    const head = repository.head().oid!;
    return mergeBases(repository.objects, head, resolveCommit(repository, "HEAD~50"));
  },
  "isAncestor, 50 commits apart": (repository) =>
    isAncestor(repository.objects, resolveCommit(repository, "HEAD~50"), repository.head().oid!),
  "the whole tree": (repository) => {
    let entries = 0;
    const walk = (oid: string) => {
      for (const entry of parseTree(repository.objects.read(oid).data)) {
        entries++;
        if (isTreeMode(entry.mode)) walk(entry.oid);
      }
    };
    walk(parseCommit(repository.objects.read(repository.head().oid!).data).tree);
    return entries;
  },
  "every commit": (repository) => countBetween(repository.objects, null, repository.head().oid!),
};

function measureHere(name: string, dir: string): void {
  const before = performance.now();
  const repository = openRepository(dir);
  MEASURES[name]!(repository);
  const ms = performance.now() - before;
  console.log(JSON.stringify({ ms, rss: process.resourceUsage().maxRSS * 1024 }));
}

function measure(name: string, dir: string, runs: number): { ms: number; rss: number } {
  const found = Array.from({ length: runs }, () => {
    const run = spawnSync(process.execPath, [
      fileURLToPath(import.meta.url),
      "--measure",
      name,
      dir,
    ], {
      encoding: "utf8",
    });
    if (run.status !== 0) throw new Error(run.stderr);
    return JSON.parse(run.stdout) as { ms: number; rss: number };
  });
  const median = (values: number[]) => values.sort((a, b) => a - b)[values.length >> 1]!;
  return { ms: median(found.map(({ ms }) => ms)), rss: median(found.map(({ rss }) => rss)) };
}

async function main(): Promise<void> {
  const small = Boolean(process.env.AGENTQ_BENCH_SMALL);
  const big = await bigRepository(
    small ? { commits: 4000, bytes: 20 * 2 ** 20 } : { commits: 80_000, bytes: 500 * 2 ** 20 },
  );
  const tiny = mkdtempSync(join(tmpdir(), "agentq-bench-tiny-"));
  try {
    for (
      const args of [["init", "-q", "-b", "main", "."], [
        "-c",
        "user.name=A",
        "-c",
        "user.email=a@example.com",
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "one",
      ]]
    ) spawnSync("git", args, { cwd: tiny });
    const mb = (bytes: number) => `${(bytes / 2 ** 20).toFixed(0)} MiB`;
    for (const name of Object.keys(MEASURES)) {
      const { ms, rss } = measure(name, big, name === "every commit" ? 3 : 9);
      let line = `${name.padEnd(30)} ${ms.toFixed(1).padStart(8)} ms  ${mb(rss).padStart(8)}`;
      if (name === "head and its commit") {
        line += `  ${(ms / measure(name, tiny, 9).ms).toFixed(2)}× a tiny clone's time`;
      }
      console.log(line);
    }
    for (const args of [["rev-list", "--count", "HEAD"], ["rev-parse", "HEAD"]]) {
      const before = performance.now();
      spawnSync("git", ["-c", "core.commitGraph=false", ...args], { cwd: big });
      console.log(
        `git ${args[0]}`.padEnd(30),
        (performance.now() - before).toFixed(1).padStart(8),
        "ms",
      );
    }
  } finally {
    rmSync(tiny, { recursive: true, force: true });
  }
}

if (process.argv[2] === "--measure") measureHere(process.argv[3]!, process.argv[4]!);
else await main();
