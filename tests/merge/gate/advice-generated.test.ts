/** Made-up merges that lose work in many ways: their advice is followed, and every word has to be there then. */
import assert from "node:assert/strict";
import { existsSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import fc from "fast-check";
import { git, makeRepo, tempDir, tryGit, write } from "../../helpers/git.ts";
import { follow } from "./follow.ts";
import { judge, step } from "./repo.ts";

type Op =
  | { readonly kind: "edit" | "insert" | "delete"; readonly file: number; readonly at: number }
  | { readonly kind: "remove" | "mode" | "rewrite"; readonly file: number }
  | { readonly kind: "move" | "moveDirectory"; readonly file: number; readonly to: number }
  | { readonly kind: "add"; readonly to: number };

/** What is made of a path of the merge. */
interface Loss {
  readonly file: number;
  readonly how: "ours" | "theirs" | "base" | "remove" | "oldName";
}

const NAMES = ["src/a", "src/b", "src/sub/c", "lib/d", "e"];
const NEW = ["src/n", "app/n", "lib/sub/n", "src", "n n"];
const op: fc.Arbitrary<Op> = fc.oneof(
  { weight: 5, arbitrary: line("edit") },
  { weight: 3, arbitrary: line("insert") },
  { weight: 2, arbitrary: line("delete") },
  fc.record({ kind: fc.constantFrom("remove", "mode"), file: fc.nat(9) }),
  fc.record({
    kind: fc.constantFrom("move", "move", "moveDirectory"),
    file: fc.nat(9),
    to: fc.nat(2),
  }),
  fc.record({ kind: fc.constant("add" as const), to: fc.nat(4) }),
) as fc.Arbitrary<Op>;
function line(kind: "edit" | "insert" | "delete"): fc.Arbitrary<Op> {
  return fc.record({ kind: fc.constant(kind), file: fc.nat(9), at: fc.nat(19) });
}
const loss: fc.Arbitrary<Loss> = fc.record({
  file: fc.nat(9),
  how: fc.constantFrom("ours", "theirs", "base", "remove", "oldName"),
});
const scene = fc.record({
  hers: fc.array(op, { minLength: 1, maxLength: 4 }),
  his: fc.array(op, { maxLength: 3 }),
  isOurs: fc.boolean(),
  losses: fc.array(loss, { maxLength: 3 }),
  later: fc.array(fc.oneof(line("edit"), line("insert")), { maxLength: 2 }),
  more: fc.array(fc.oneof(line("edit"), line("insert")), { maxLength: 2 }),
});

let words = 0;
/** A line of words that stand nowhere else; no numbers, which may be others. */
function fresh(who: string): string {
  const name = String(++words).replace(/\d/g, (digit) => "bdfgklmnpr"[Number(digit)]!);
  return `${who}x${name} of${name}, and${name}\n`;
}

const filesOf = (dir: string): string[] =>
  git(dir, "ls-files", "-z").split("\0").filter((path) => path !== "" && path !== ".gitkeep");
const pick = <T>(all: readonly T[], n: number): T => all[n % all.length]!;

function apply(dir: string, ops: readonly Op[], who: string): void {
  for (const one of ops) {
    const files = filesOf(dir);
    if (one.kind === "add") {
      const path = NEW[one.to]!;
      if (
        existsSync(join(dir, path)) ||
        path.startsWith("src") && existsSync(join(dir, "src")) &&
          !statSync(join(dir, "src")).isDirectory()
      ) continue;
      write(dir, path, Array.from({ length: 6 }, () => fresh(who)).join(""));
      git(dir, "add", "-A");
      continue;
    }
    if (files.length === 0) continue;
    const path = pick(files, one.file);
    if (one.kind === "remove") git(dir, "rm", "-qf", "--", path);
    else if (one.kind === "mode") git(dir, "update-index", `--chmod=+x`, "--", path);
    else if (one.kind === "move" || one.kind === "moveDirectory") {
      const from = one.kind === "move" ? path : path.split("/")[0]!;
      const to = `${["moved", "other/place", "src"][one.to]}_${who}/${from.split("/").pop()}`;
      if (existsSync(join(dir, to)) || to.startsWith(`${from}/`)) continue;
      write(dir, `${to.slice(0, to.lastIndexOf("/"))}/.tmp`, "");
      git(dir, "mv", from, to);
      rmSync(join(dir, to.slice(0, to.lastIndexOf("/")), ".tmp"));
    } else if ("at" in one) {
      const lines = readFileSync(join(dir, path), "utf8").split(/(?<=\n)/);
      const at = one.at % Math.max(1, lines.length);
      if (one.kind === "edit") lines[at] = fresh(who);
      else if (one.kind === "insert") lines.splice(at, 0, fresh(who));
      else lines.splice(at, 1);
      write(dir, path, lines.join(""));
    }
    git(dir, "add", "-u");
    if (one.kind === "mode") git(dir, "checkout-index", "-f", "--", path);
  }
  git(dir, "commit", "-q", "--allow-empty", "-m", who);
}

/** Words by which lines are known, in the files of a commit. */
function wordsIn(dir: string, commit: string): Set<string> {
  const { stdout } = tryGit(dir, ["grep", "-hoE", "(base|hers|his|later|more)x[a-z]+ ", commit]);
  return new Set(stdout.split("\n").map((line) => line.trim()).filter((line) => line !== ""));
}

/** Merges `main`, with both sides' lines where they are in conflict. */
function mergeMain(dir: string): void {
  tryGit(dir, ["merge", "-q", "--no-commit", "--no-ff", "main"]);
  const stages = new Map<string, Map<string, string>>();
  for (const line of git(dir, "ls-files", "-u", "-z").split("\0").filter((one) => one !== "")) {
    const [, oid, stage, path] = /^\d+ (\w+) (\d)\t(.*)$/s.exec(line)!;
    if (!stages.has(path!)) stages.set(path!, new Map());
    stages.get(path!)!.set(stage!, oid!);
  }
  for (const [path, of] of stages) {
    const [ours, theirs] = [of.get("2"), of.get("3")];
    if (ours === undefined && theirs === undefined) {
      tryGit(dir, ["rm", "-q", "--cached", "--", path]);
      rmSync(join(dir, path), { force: true });
    } else if (ours !== undefined && theirs !== undefined) {
      const temp = tempDir();
      for (const stage of ["1", "2", "3"]) {
        write(
          temp,
          stage,
          of.has(stage) ? git(dir, "cat-file", "blob", of.get(stage)!) + "\n" : "",
        );
      }
      write(dir, path, tryGit(temp, ["merge-file", "-p", "--union", "2", "1", "3"]).stdout);
    }
  }
  git(dir, "add", "-A");
}

function lose(dir: string, losses: readonly Loss[], base: string): void {
  const trees = { ours: "HEAD", theirs: "main", base };
  for (const { file, how } of losses) {
    const files = filesOf(dir);
    if (files.length === 0) return;
    const path = pick(files, file);
    if (how === "remove") git(dir, "rm", "-qf", "--", path);
    else if (how === "oldName") {
      const old = NAMES.find((name) => name.endsWith(`/${path.split("/").pop()}`));
      if (
        old === undefined || existsSync(join(dir, old)) ||
        existsSync(join(dir, old.split("/")[0]!)) &&
          !statSync(join(dir, old.split("/")[0]!)).isDirectory()
      ) continue;
      const data = readFileSync(join(dir, path), "utf8");
      git(dir, "rm", "-qf", "--", path);
      write(dir, old, data);
    } else if (tryGit(dir, ["checkout", trees[how], "--", path]).status !== 0) continue;
    git(dir, "add", "-A");
  }
}

/** Puts in what a parent's version has more than the base, and takes out what it took out. */
function edit(dir: string, file: string, advice: string): void {
  const shown = /; git show (.*) has it\.$/.exec(advice)?.[1];
  const diff = /\(git diff (\S+) (\S+) -- (.*?)\) is changed/.exec(advice);
  const data = (ref: string): string[] =>
    git(dir, "show", ref.replaceAll("'", "")).split("\n").map((one) => `${one}\n`);
  const path = join(dir, file);
  let lines = readFileSync(path, "utf8").split(/(?<=\n)/);
  let put: string[] = [];
  if (diff) {
    const changes = git(dir, "diff", "-U0", "-M", diff[1]!, diff[2]!, "--", ...filesIn(diff[3]!));
    const gone = new Set([...changes.matchAll(/^-(?!--)(.*)$/mg)].map(([, one]) => `${one}\n`));
    lines = lines.filter((one) => !gone.has(one));
    put = [...changes.matchAll(/^\+(?!\+\+)(.*)$/mg)].map(([, one]) => `${one}\n`);
  } else if (shown !== undefined) put = data(shown);
  const all = shown === undefined ? [] : data(shown);
  for (const one of put.filter((one) => !lines.includes(one))) {
    const before = all.slice(0, all.indexOf(one)).reverse().find((other) => lines.includes(other));
    lines.splice(before === undefined ? 0 : lines.indexOf(before) + 1, 0, one);
  }
  write(dir, file, lines.join(""));
}
const filesIn = (words: string): string[] =>
  [...words.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain!);

const counts = { cases: 0, refused: 0, edits: 0, mended: 0 };

function check(
  { hers, his, isOurs, losses, later, more }: typeof scene extends fc.Arbitrary<infer T> ? T
    : never,
): void {
  counts.cases++;
  const dir = makeRepo(tempDir());
  try {
    step(
      dir,
      Object.fromEntries([
        [".gitkeep", ""],
        ...NAMES.map((name) => [name, Array.from({ length: 14 }, () => fresh("base")).join("")]),
      ]),
      "base",
    );
    const base = git(dir, "rev-parse", "HEAD");
    git(dir, "checkout", "-q", "-b", "feat");
    apply(dir, his, "his");
    const before = git(dir, "rev-parse", "HEAD");
    git(dir, "checkout", "-q", "main");
    apply(dir, hers, "hers");
    const tip = git(dir, "rev-parse", "HEAD");
    git(dir, "checkout", "-q", "feat");
    if (isOurs) tryGit(dir, ["merge", "-q", "--no-commit", "--no-ff", "-s", "ours", "main"]);
    else mergeMain(dir);
    lose(dir, losses, base);
    git(dir, "commit", "-q", "--allow-empty", "-m", "merge");
    apply(dir, later, "later");
    if (more.length > 0) {
      git(dir, "checkout", "-q", "main");
      apply(dir, more, "more");
      git(dir, "checkout", "-q", "feat");
      mergeMain(dir);
      git(dir, "commit", "-q", "--allow-empty", "-m", "merge again");
    }
    const verdict = judge(dir);
    if (verdict.ok || verdict.reason === "merge refused") return;
    counts.refused++;
    const had = wordsIn(dir, "HEAD");
    const [own, landed] = [before, tip].map((commit) => wordsIn(dir, commit));
    const dead = takenOut(dir);
    const { report } = verdict;
    let drops: readonly string[] = [];
    let edits = 0;
    let told = report;
    for (let round = 0;; round++) {
      const followed = follow(dir, told, (file, line) => edit(dir, file, line), "keep");
      drops = [...drops, ...followed.drops];
      edits += followed.edits.length;
      const then = judge(dir, drops);
      if (then.ok) break;
      // What is edited may be judged by what else is missing: once more, by the next report.
      assert.ok(
        edits > 0 && round < 3,
        `after ${followed.commands.join("\n")}:\n${then.report}\nbefore:\n${report}`,
      );
      told = then.report;
    }
    if (edits > 0) counts.edits++;
    counts.mended++;
    const has = wordsIn(dir, "HEAD");
    const missing = [...had].filter((word) => !has.has(word) && !dead.has(word));
    assert.deepEqual(missing, [], `the candidate's work is gone after\n${report}`);
    if (drops.length === 0) {
      const lost = [...landed!, ...own!].filter((word) => !has.has(word) && !dead.has(word));
      assert.deepEqual(lost, [], `landed work is gone after\n${report}`);
    }
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
/** Words that a commit which is no merge took out, on purpose. */
function takenOut(dir: string): Set<string> {
  const { stdout } = tryGit(dir, ["log", "-p", "-M", "--no-merges", "--format=%x00", "--all"]);
  return new Set(
    stdout.split("\0").flatMap((commit) => {
      const words = (sign: string): string[] =>
        [...commit.matchAll(new RegExp(`^\\${sign}(\\w+x[a-z]+) `, "mg"))].map(([, word]) => word!);
      const put = new Set(words("+"));
      return words("-").filter((word) => !put.has(word));
    }),
  );
}

test("advice of made-up merges, followed, loses no word and leads to a landing", {
  timeout: 280_000,
}, () => {
  const runs = Number(process.env.AGENTQ_ADVICE_RUNS ?? 30);
  fc.assert(fc.property(scene, check), {
    numRuns: runs,
    endOnFailure: true,
    seed: Number(process.env.AGENTQ_TEST_SEED ?? 20261130),
  });
  if (process.env.AGENTQ_ADVICE_RUNS) console.log(JSON.stringify(counts));
  assert.ok(counts.refused * 4 > runs, "next to nothing was refused");
});
