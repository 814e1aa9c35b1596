/**
 * Replays the merge commits of a repository and compares each merge with what git makes of it.
 *
 *     bun bench/merge-parity.ts REPO [N] [--skip M] [--show]
 *
 * N merges (all by default), newest first, with two parents. For each: same verdict, same tree, same
 * unmerged index entries. Prints counts by class, and with --show each disagreement.
 */
import { spawnSync } from "node:child_process";
import process from "node:process";
import { openObjectStore } from "../src/git/odb.ts";
import { commitGraph } from "../src/merge/graph.ts";
import { mergeCommits } from "../src/merge/merge-commits.ts";
import { overlay } from "../src/merge/overlay.ts";

const args = process.argv.slice(2);
const flag = (name: string): string | undefined => {
  const at = args.indexOf(name);
  return at < 0 ? undefined : args.splice(at, 2)[1];
};
const show = args.includes("--show") && args.splice(args.indexOf("--show"), 1).length > 0;
const skip = Number(flag("--skip") ?? 0);
const only = flag("--only");
const [repo, limit] = args;
if (repo === undefined) {
  console.error(
    "usage: bun bench/merge-parity.ts REPO [N] [--skip M] [--only OURS,THEIRS] [--show]",
  );
  process.exit(64);
}

function git(
  argv: string[],
  input?: string,
): { status: number | null; stdout: Buffer; stderr: Buffer } {
  const run = spawnSync("git", ["-C", repo!, ...argv], {
    input,
    maxBuffer: 1 << 30,
    env: { ...process.env, GIT_CONFIG_NOSYSTEM: "1", GIT_CONFIG_GLOBAL: "/dev/null", LC_ALL: "C" },
  });
  if (run.error) throw run.error;
  return run;
}

interface Answer {
  clean: boolean;
  tree: string;
  /** Lines `mode oid stage\tpath`. */
  stages: string[];
}

/** Git's answers, one a pair; null where git itself gave up. */
function gitAnswers(pairs: [string, string][]): (Answer | null)[] {
  const answers: (Answer | null)[] = [];
  while (answers.length < pairs.length) {
    const rest = pairs.slice(answers.length);
    const run = git(
      ["merge-tree", "--write-tree", "--stdin", "-z", "--no-messages"],
      rest.map((pair) => pair.join(" ")).join("\n") + "\n",
    );
    const fields = run.stdout.toString("latin1").split("\0");
    let at = 0;
    while (at + 2 < fields.length) {
      const clean = fields[at] === "1";
      const tree = fields[at + 1]!;
      at += 2;
      const stages: string[] = [];
      while (fields[at] !== "") stages.push(fields[at++]!);
      at++;
      answers.push({ clean, tree, stages });
    }
    if (run.status !== 0) answers.push(null);
  }
  return answers;
}

const pairs: [string, string][] = [];
if (only) pairs.push(only.split(",") as [string, string]);
else {
  const list = git(["rev-list", "--merges", "--parents", "--all"]).stdout.toString().trim().split(
    "\n",
  );
  for (const line of list) {
    const [, ours, theirs, ...more] = line.split(" ");
    if (ours && theirs && more.length === 0) pairs.push([ours, theirs]);
  }
  pairs.splice(0, skip);
  if (limit) pairs.length = Math.min(pairs.length, Number(limit));
}

const gitDir = git(["rev-parse", "--absolute-git-dir"]).stdout.toString().trim();
const db = openObjectStore(`${gitDir}/objects`);
const graph = commitGraph(db);
const counts: Record<string, number> = {};
const count = (name: string): void => {
  counts[name] = (counts[name] ?? 0) + 1;
};
let gitMs = 0;
let ownMs = 0;
const BATCH = 200;
for (let from = 0; from < pairs.length; from += BATCH) {
  const batch = pairs.slice(from, from + BATCH);
  const t0 = performance.now();
  const expected = gitAnswers(batch);
  gitMs += performance.now() - t0;
  batch.forEach(([ours, theirs], i) => {
    const answer = expected[i] ?? null;
    const t1 = performance.now();
    let mine: Answer | null = null;
    let failure = "";
    let several = false;
    try {
      const merged = mergeCommits(overlay(db), ours, theirs, { graph, labels: { ours, theirs } });
      several = merged.bases.length > 1;
      mine = {
        clean: merged.clean,
        tree: merged.tree,
        stages: merged.stages.map((s) =>
          `${s.mode.toString(8).padStart(6, "0")} ${s.oid} ${s.stage}\t${s.path}`
        ),
      };
    } catch (error) {
      failure = String((error as Error).stack ?? error);
    }
    ownMs += performance.now() - t1;
    count("merges");
    if (several) count("with several bases");
    let verdict = "same";
    if (!answer) verdict = mine ? "git failed, we merged" : "both refused";
    else if (!mine) verdict = "we failed";
    else if (answer.clean !== mine.clean) {
      verdict = mine.clean ? "CLEAN WHERE GIT CONFLICTS" : "conflict where git is clean";
    } else if (answer.clean) {
      verdict = answer.tree === mine.tree ? "clean, same tree" : "clean, OTHER TREE";
    } else if (answer.stages.join("\0") !== mine.stages.join("\0")) {
      const paths = (a: Answer) =>
        [...new Set(a.stages.map((s) => s.slice(s.indexOf("\t"))))].join("\0");
      verdict = paths(answer) === paths(mine) ? "conflict, other stages" : "conflict, OTHER PATHS";
    } else {verdict = answer.tree === mine.tree
        ? "conflict, same stages and tree"
        : "conflict, other tree";}
    count(verdict);
    if (show && !/same/.test(verdict)) {
      console.log(`${verdict}: ${ours} ${theirs}`);
      if (failure) console.log(failure);
      else if (answer && mine) {
        console.log("  git", answer.clean, answer.tree, answer.stages.slice(0, 12));
        console.log("  own", mine.clean, mine.tree, mine.stages.slice(0, 12));
      }
    }
  });
}
console.log(
  JSON.stringify({ repo, ...counts, gitMs: Math.round(gitMs), ownMs: Math.round(ownMs) }, null, 1),
);
