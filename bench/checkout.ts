/**
 * Checking 20,000 files out, against system git doing the same in the same run.
 *
 *   first   a new worktree                       `git worktree add --detach`
 *   next    another commit, 100 files changed    `git checkout -f --detach` and `git clean -ffd`
 *   same    the same commit again                the same
 *
 * Run with: bun bench/checkout.ts [files]
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { openRepository } from "../src/git/repository.ts";
import { uncommittedChanges } from "../src/git/status.ts";
import { prepareWorktree } from "../src/git/worktree.ts";

const FILES = Number(process.argv[2] ?? 20_000);
const CHANGED = 100;
const ROUNDS = 5;

const top = mkdtempSync(join(tmpdir(), "agentq-bench-checkout-"));
process.on("exit", () => rmSync(top, { recursive: true, force: true }));

function git(cwd: string, args: string[], input?: string): string {
  const run = spawnSync("git", args, { cwd, input, encoding: "utf8", maxBuffer: 1 << 30 });
  if (run.status !== 0) throw new Error(`git ${args[0]} exited ${run.status}: ${run.stderr}`);
  return run.stdout.trim();
}

/** Two commits: FILES files of source-like sizes in directories of 25, and CHANGED of them changed. */
function makeRepository(): { repo: string; first: string; second: string } {
  const repo = join(top, "repo");
  git(top, ["init", "-q", "-b", "main", repo]);
  let seed = 1;
  const random = () => (seed = (seed * 1103515245 + 12345) % 2147483648) / 2147483648;
  const file = (i: number, text: string) =>
    `M 100644 inline d${i % 40}/e${
      Math.floor(i / 40) % 20
    }/f${i}.txt\ndata ${text.length}\n${text}\n`;
  const content = (i: number) => {
    const lines = 5 + Math.floor(random() * 120);
    return Array.from(
      { length: lines },
      () =>
        `${i} ${Math.floor(random() * 1e9).toString(36)} ${
          Math.floor(random() * 1e9).toString(36)
        }\n`,
    ).join("");
  };
  const head = (message: string) =>
    `commit refs/heads/main\ncommitter A <a@b> 1700000000 +0000\ndata ${message.length}\n${message}\n`;
  let stream = head("first");
  for (let i = 0; i < FILES; i++) stream += file(i, content(i));
  stream += head("second");
  for (let i = 0; i < CHANGED; i++) stream += file(Math.floor((i * FILES) / CHANGED), content(-i));
  git(repo, ["fast-import", "--quiet"], stream);
  git(repo, ["gc", "-q"]);
  return {
    repo,
    first: git(repo, ["rev-parse", "main~1"]),
    second: git(repo, ["rev-parse", "main"]),
  };
}

/** Milliseconds on the clock, and of processor time with all children. */
interface Took {
  readonly ms: number;
  readonly cpu: number;
}

async function timed(work: () => unknown): Promise<Took> {
  const [start, before] = [performance.now(), processorTime()];
  await work();
  return { ms: performance.now() - start, cpu: processorTime() - before };
}

/** Of this process with its threads, and of the children that have ended, which are counted in 10 ms. */
function processorTime(): number {
  const { user, system } = process.cpuUsage();
  const fields = readFileSync("/proc/self/stat", "utf8").split(") ")[1]!.split(" ");
  return (user + system) / 1000 + (Number(fields[13]) + Number(fields[14])) * 10;
}

const median = (values: number[]) =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;

const { repo, first, second } = makeRepository();
const times: Record<string, { ours: Took[]; git: Took[] }> = {
  first: { ours: [], git: [] },
  next: { ours: [], git: [] },
  same: { ours: [], git: [] },
};
// In turns, so that what else the machine does falls on both.
for (let round = 0; round < ROUNDS; round++) {
  const theirs = join(top, `git-${round}`);
  const add = async () =>
    times.first!.git.push(
      await timed(() => git(repo, ["worktree", "add", "-q", "--detach", theirs, first])),
    );
  if (round % 2 === 0) await add();
  const repository = openRepository(repo);
  const dir = join(top, `ours-${round}`);
  const prepare = async (commit: string) =>
    (await prepareWorktree(repository, dir, "verify", commit)).release();
  times.first!.ours.push(await timed(() => prepare(first)));
  if (round % 2 === 1) await add();
  const move = (commit: string) => {
    git(theirs, ["checkout", "-q", "-f", "--detach", commit]);
    git(theirs, ["clean", "-q", "-ffd"]);
  };
  for (const name of ["next", "same"] as const) {
    times[name]!.git.push(await timed(() => move(second)));
    times[name]!.ours.push(await timed(() => prepare(second)));
  }
  const linked = openRepository(join(dir, "verify"));
  if (uncommittedChanges(linked).length > 0) throw new Error("not clean");
  // Nothing is removed before the end: file systems take long to make files after many were removed.
  repository.close();
}
console.log(`${FILES} files, ${CHANGED} changed, median of ${ROUNDS}`);
for (const [name, { ours, git }] of Object.entries(times)) {
  const of = (which: "ms" | "cpu") => {
    const [a, b] = [ours, git].map((runs) => median(runs.map((run) => run[which]))) as [
      number,
      number,
    ];
    const ratio = median(ours.map((run, i) => run[which] / git[i]![which]));
    return `${a.toFixed(0).padStart(6)} and ${b.toFixed(0).padStart(6)} ms ${ratio.toFixed(2)}×`;
  };
  console.log(`${name.padEnd(6)} agentq and git ${of("ms")}   processor time ${of("cpu")}`);
}
