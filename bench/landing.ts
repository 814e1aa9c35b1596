/**
 * The landing queue beside a script that does the same protocol steps with system git's plumbing
 * (landing-git.sh), on one machine, in one run, in pairs that take turns:
 *
 *   submit --no-wait     at most 0.8×     status --json    at most 1.0×
 *   land 100 tickets     at most 0.25×    --version        at most 2× a compiled empty program
 *
 * `submit` and `status` run once with another agent submitting in between, as in a fleet: the queue's
 * head is then new to the clone, and system git has to fetch it; and once with nobody else there.
 *
 * Usage: bun bench/landing.ts [PAIRS]. Needs ./dist/agentq and git. Prints medians of the times, and the
 * median of the pairs' ratios, which a change of the machine's speed between pairs doesn't move.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { agentq, ms, plainEnv, ratioOf, root, script } from "./lib/beside.ts";

const pairs = Number(process.argv[2] ?? 15);
const work = mkdtempSync(join(tmpdir(), "agentq-bench-"));

const env = plainEnv(work);

function git(cwd: string, ...args: string[]): string {
  return execFileSync("git", args, { cwd, env, encoding: "utf8" }).trim();
}

/** Milliseconds that a command took; it must succeed. */
function time(cwd: string, command: string, args: readonly string[]): number {
  const began = performance.now();
  const run = spawnSync(command, args, {
    cwd,
    // Each clone stands for a machine of its own.
    env: { ...env, AGENTQ_STATE: `${cwd}-state` },
    encoding: "utf8",
  });
  const took = performance.now() - began;
  if (run.status !== 0) {
    throw new Error(`${command} ${args.join(" ")}: exit ${run.status}\n${run.stdout}${run.stderr}`);
  }
  return took;
}

/** A bare origin with 200 files and a clone of it. */
function makePair(name: string): { origin: string; clone: string } {
  const seed = join(work, `${name}-seed`);
  mkdirSync(seed);
  git(seed, "init", "-q", "-b", "main");
  for (let i = 0; i < 200; i++) {
    mkdirSync(join(seed, `d${i % 10}`), { recursive: true });
    writeFileSync(join(seed, `d${i % 10}`, `f${i}`), `${i}\n`.repeat(20));
  }
  git(seed, "add", "-A");
  git(seed, "commit", "-q", "-m", "first");
  const origin = join(work, `${name}.git`);
  git(work, "clone", "-q", "--bare", seed, origin);
  git(origin, "config", "gc.auto", "0");
  const clone = join(work, name);
  git(work, "clone", "-q", origin, clone);
  git(clone, "config", "gc.auto", "0");
  return { origin, clone };
}

let commits = 0;

/** A new commit on top of the clone's origin/main: one file changed. */
function newCommit(clone: string): void {
  git(clone, "reset", "-q", "--hard", "origin/main");
  writeFileSync(join(clone, `new-${++commits}`), `${commits}\n`);
  git(clone, "add", "-A");
  git(clone, "commit", "-q", "-m", `work ${commits}`);
}

interface Figure {
  name: string;
  ours: number[];
  theirs: number[];
  limit: number;
}

/** Runs both sides in turns, the first of a pair changing each time. */
function compare(
  name: string,
  limit: number,
  count: number,
  ours: () => number,
  theirs: () => number,
): Figure {
  const figure: Figure = { name, ours: [], theirs: [], limit };
  for (let i = 0; i < count; i++) {
    if (i % 2 === 0) {
      figure.ours.push(ours());
      figure.theirs.push(theirs());
    } else {
      figure.theirs.push(theirs());
      figure.ours.push(ours());
    }
  }
  return figure;
}

function print({ name, ours, theirs, limit }: Figure): boolean {
  const ratio = ratioOf(ours, theirs);
  const good = ratio <= limit;
  console.log(
    `${name.padEnd(22)} agentq ${ms(ours).padStart(10)}   other ${
      ms(theirs).padStart(10)
    }   ratio ${ratio.toFixed(2)}   at most ${limit}   ${
      good ? "ok" : "OVER"
    }   (${ours.length} pairs)`,
  );
  return good;
}

/** One side of a comparison: two agents' clones of one origin. */
interface Side {
  readonly clone: string;
  /** Somebody else's ticket, untimed: the queue's head is then new to `clone`. */
  someoneElse(): void;
}

function makeSide(name: string, program: string, submit: readonly string[]): Side {
  const { origin, clone } = makePair(name);
  const other = join(work, `${name}-other`);
  git(work, "clone", "-q", origin, other);
  git(other, "config", "gc.auto", "0");
  const someoneElse = () => {
    newCommit(other);
    time(other, program, submit);
  };
  // A few tickets, this clone's among them; then the program is in the page cache too.
  someoneElse();
  newCommit(clone);
  time(clone, program, submit);
  someoneElse();
  return { clone, someoneElse };
}

function enqueueAndStatus(): Figure[] {
  const submit = ["submit", "--no-wait", "--json"];
  const timed = (side: Side, program: string, args: readonly string[], shared: boolean) => {
    if (shared) side.someoneElse();
    if (args !== STATUS.ours && args !== STATUS.theirs) newCommit(side.clone);
    return time(side.clone, program, args);
  };
  let sides = 0;
  // Each on an origin and clones of its own, so that no figure pays for the tickets of another.
  const pair = (name: string, limit: number, words: Words, shared: boolean) => {
    const number = ++sides;
    const ours = makeSide(`ours-${number}`, agentq, submit);
    const theirs = makeSide(`theirs-${number}`, script, ["enqueue"]);
    return compare(
      name,
      limit,
      pairs,
      () => timed(ours, agentq, words.ours, shared),
      () => timed(theirs, script, words.theirs, shared),
    );
  };
  const SUBMIT = { ours: submit, theirs: ["enqueue"] };
  return [
    pair("submit --no-wait", 0.8, SUBMIT, true),
    pair("  nobody else there", 0.8, SUBMIT, false),
    pair("status --json", 1.0, STATUS, true),
    pair("  nothing new", 1.0, STATUS, false),
  ];
}

interface Words {
  readonly ours: readonly string[];
  readonly theirs: readonly string[];
}

const STATUS: Words = { ours: ["status", "--json"], theirs: ["status"] };

/** 100 candidates made from one commit: every landing but the first is a merge. */
function landHundred(): Figure {
  const { origin, clone } = makePair("hundred");
  for (let i = 0; i < 100; i++) {
    newCommit(clone);
    time(clone, script, ["enqueue"]);
  }
  const queued = join(work, "queued.git");
  cpSync(origin, queued, { recursive: true });
  let runs = 0;
  const fresh = (): { dir: string; check: () => void } => {
    const bare = join(work, `land-${++runs}.git`);
    const dir = join(work, `land-${runs}`);
    cpSync(queued, bare, { recursive: true });
    git(work, "clone", "-q", bare, dir);
    return {
      dir,
      check() {
        const done = git(bare, "rev-list", "--first-parent", "--count", "refs/weave/main/done");
        if (done !== "101") throw new Error(`${done} entries in done instead of 101`);
        const files = git(bare, "ls-tree", "--name-only", "main").split("\n");
        const landed = files.filter((name) => name.startsWith("new-")).length;
        if (landed !== 100) throw new Error(`${landed} files landed instead of 100`);
        rmSync(bare, { recursive: true });
        rmSync(dir, { recursive: true });
      },
    };
  };
  const run = (command: string, args: string[]): number => {
    const { dir, check } = fresh();
    const took = time(dir, command, args);
    check();
    return took;
  };
  return compare(
    "land 100 tickets",
    0.25,
    Math.max(3, Math.ceil(pairs / 5)),
    () => run(agentq, ["land"]),
    () => run(script, ["land"]),
  );
}

/** `--version` beside a program that does nothing, compiled by the same compiler. */
function startUp(): Figure {
  const source = join(work, "empty.ts");
  const empty = join(work, "empty");
  writeFileSync(source, "");
  execFileSync(join(root, "node_modules/.bin/bun"), [
    "build",
    "--compile",
    "--minify",
    "--bytecode",
    "--format=esm",
    source,
    "--outfile",
    empty,
  ], { stdio: "pipe" });
  time(work, empty, []);
  time(work, agentq, ["--version"]);
  return compare(
    "--version",
    2,
    pairs * 2,
    () => time(work, agentq, ["--version"]),
    () => time(work, empty, []),
  );
}

try {
  if (!existsSync(agentq)) throw new Error(`${agentq} does not exist: run ./compile.sh first`);
  const good = [...enqueueAndStatus(), landHundred(), startUp()].map(print);
  if (good.includes(false)) console.log("some ratios are over what they are held to");
} finally {
  rmSync(work, { recursive: true, force: true });
}
