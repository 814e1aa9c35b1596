/** Advice is followed later, and from anywhere: it gives way to what was made since, and loses nothing of it. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { isAsGiven } from "../../../src/merge/gate/fitting.ts";
import type { Scene } from "../../../src/merge/gate/merge.ts";
import { overlay } from "../../../src/merge/overlay.ts";
import { git, gitEnv, write } from "../../helpers/git.ts";
import { adviceOf, follow, runShell } from "./follow.ts";
import { merge, merged, passes, refused, step } from "./repo.ts";

const plan = (change: Record<number, string> = {}): string =>
  Array.from({ length: 30 }, (_, i) => `${change[i] ?? `step ${i} of the plan`}\n`).join("");
const [HERS, HIS] = [{ 5: "check permissions first" }, { 25: "audit everything afterwards" }];
const text = (dir: string, path: string): string => readFileSync(join(dir, path), "utf8");
const commands = (dir: string): string[] =>
  adviceOf(refused(dir).report).map((line) => line.slice(line.indexOf(": ") + 2));
const runs = (dir: string, command: string): number | null =>
  spawnSync("sh", ["-c", command], { cwd: dir, env: gitEnv() }).status;

describe("in a directory of the work tree", () => {
  const paths = { "package.json": plan(), "web/package.json": plan({ 1: "of web" }) };
  const hers = { "package.json": plan(HERS), "web/gone": "hers\n" };

  test("commands are about the root's paths", () => {
    const dir = merged(paths, hers, { "web/package.json": plan(HIS) }, (dir) => {
      git(dir, "checkout", "HEAD", "--", "package.json");
      git(dir, "rm", "-qf", "web/gone");
    });
    mkdirSync(join(dir, "web"), { recursive: true });
    follow(join(dir, "web"), refused(dir).report);
    passes(dir);
    assert.equal(text(dir, "package.json"), plan(HERS));
    assert.equal(text(dir, "web/package.json"), plan(HIS));
    assert.equal(text(dir, "web/gone"), "hers\n");
  });
  test("changes are shown of the root's paths", () => {
    const dir = merged(
      paths,
      hers,
      { "package.json": plan({ 5: "his own words" }) },
      (dir) => void git(dir, "checkout", "HEAD", "--", "package.json", "web"),
    );
    const diff = /\((git diff [^)]*)\)/.exec(refused(dir).report)![1]!;
    const { stdout } = spawnSync("sh", ["-c", diff], {
      cwd: join(dir, "web"),
      env: gitEnv(),
      encoding: "utf8",
    });
    assert.match(stdout, /^\+check permissions first$/m);
  });
});

describe("what was made since the candidate", () => {
  const lossy = (): string =>
    merged({ f: plan() }, { f: plan(HERS), n: "hers\n" }, { k: "k\n" }, (dir) => {
      git(dir, "checkout", "HEAD", "--", "f");
      git(dir, "rm", "-qf", "n");
    });

  test("isn't overwritten, committed or not, and advised on anew", () => {
    for (const isCommitted of [false, true]) {
      const dir = lossy();
      const advised = commands(dir);
      assert.match(
        refused(dir).report,
        /stops at `git diff --quiet` or `test ! -e` would overwrite what was made of the path/,
      );
      const made = { f: plan(HIS), n: "other\n" };
      if (isCommitted) step(dir, made);
      else for (const [path, data] of Object.entries(made)) write(dir, path, data);
      for (const command of advised) assert.notEqual(runs(dir, command), 0, command);
      assert.deepEqual([text(dir, "f"), text(dir, "n")], [made.f, made.n]);
      if (!isCommitted) step(dir, made);
      follow(dir, refused(dir).report);
      passes(dir);
      assert.equal(text(dir, "f"), plan({ ...HERS, ...HIS }));
      assert.equal(text(dir, "n"), "other\n");
    }
  });
  test("isn't deleted", () => {
    const dir = merged(
      { f: plan(), o: "o\n" },
      (dir) => void git(dir, "rm", "-q", "f"),
      { k: "k\n" },
      { f: plan() },
    );
    const [command] = commands(dir);
    step(dir, { f: plan(HIS) });
    assert.notEqual(runs(dir, command!), 0);
    assert.equal(text(dir, "f"), plan(HIS));
  });

  /** Makes the refused merge again, and goes on from there as the report says. */
  const again = (dir: string, report: string, on: RegExp): number | null => {
    runShell(dir, /see what merging gives: (.*)$/m.exec(report)![1]!);
    return runs(dir, on.exec(report)![1]!.replaceAll("BRANCH", "feat"));
  };
  const [REBASE, ON_TOP] = [/that too, then: (.*)$/m, /on top: (.*)$/m];

  test("stays on the branch when the merge is made again", () => {
    const dir = merged({ f: plan() }, { f: plan(HERS) }, { k: "k\n" }, { f: plan() });
    const { report } = refused(dir);
    step(dir, { next: "the next piece of work\n" });
    assert.equal(again(dir, report, REBASE), 0);
    passes(dir);
    assert.deepEqual([text(dir, "f"), text(dir, "next")], [
      plan(HERS),
      "the next piece of work\n",
    ]);
  });
  test("stays as it is where it is a merge", () => {
    const dir = merged({ f: plan() }, { f: plan(HERS) }, { k: "k\n" }, { f: plan() });
    const { report } = refused(dir);
    git(dir, "checkout", "-q", "main");
    step(dir, { n: "of main\n" });
    git(dir, "checkout", "-q", "feat");
    merge(dir, [], { k: "k, adapted in the merge\n" });
    const before = git(dir, "rev-parse", "feat");
    assert.notEqual(again(dir, report, REBASE), 0);
    assert.equal(git(dir, "rev-parse", "feat"), before);
    assert.equal(runs(dir, ON_TOP.exec(report)![1]!.replaceAll("BRANCH", "feat")), 0);
    passes(dir);
    assert.deepEqual([text(dir, "f"), text(dir, "k")], [
      plan(HERS),
      "k, adapted in the merge\n",
    ]);
  });
  test("what a later merge of the candidate adapted isn't made again", () => {
    const dir = merged(
      { f: plan(), "db.ts": "export function load(name) {}\n" },
      { f: plan(HERS) },
      { "report.ts": "import { load } from './db';\nload('report');\n" },
      { f: plan() },
    );
    git(dir, "checkout", "-q", "main");
    step(dir, { "db.ts": "export function loadConfig(name) {}\n" });
    git(dir, "checkout", "-q", "feat");
    const adapted = "import { loadConfig } from './db';\nloadConfig('report');\n";
    merge(dir, [], { "report.ts": adapted });
    const { report } = refused(dir);
    assert.doesNotMatch(report, /git rebase/);
    assert.equal(again(dir, report, ON_TOP), 0);
    passes(dir);
    assert.deepEqual([text(dir, "f"), text(dir, "report.ts")], [plan(HERS), adapted]);
  });
});

test("what git's commands for files would put elsewhere is taken from the merge", () => {
  const services = (names: string, timeout: (name: string) => string = () => "thirty") =>
    "services:\n" +
    names.split(" ").map((name) =>
      `  ${name}:\n    image: registry/app\n    replicas: 2\n    restart: always\n` +
      `    timeout: ${timeout(name)}\n    logging: json\n\n`
    ).join("");
  const sixty = (name: string) => name === "search" ? "sixty" : "thirty";
  const [old, now] = [
    "auth billing cart mail orders search users web",
    "auth billing cart mail search users web metrics",
  ];
  const dir = merged(
    { f: services(old) },
    { f: services(now) },
    { f: services(old, sixty) },
    (dir) => void git(dir, "checkout", "main", "--", "f"),
  );
  const [command] = commands(dir);
  assert.match(command!, /git merge-tree --write-tree/);
  follow(dir, refused(dir).report);
  passes(dir);
  assert.equal(text(dir, "f"), services(now, sixty));
});

test("a change put in twice, or not at all, isn't what merging gives", () => {
  const missing = (oid: string): never => assert.fail(`${oid} is missing`);
  const db = overlay({ read: missing, has: () => false, stat: missing });
  const version = (data: string) => ({
    mode: 0o100644,
    oid: db.write("blob", new TextEncoder().encode(data)),
  });
  const isGiven = (made: string, conflicted = false): boolean =>
    isAsGiven(
      { db, expected: version("a\nb\nc\n"), conflicted } as unknown as Scene,
      new TextEncoder().encode(made),
      version("a\nb\nlater\n"),
    );
  assert.equal(isGiven("a\nb\nc\nlater\n"), true);
  assert.equal(isGiven("a\nb\nc\nc\nlater\n"), false);
  assert.equal(isGiven("a\nc\nlater\n"), false);
  assert.equal(isGiven("a\nc\nlater\n", true), true);
  assert.equal(isGiven("a\nb\nb\nc\n", true), false);
});
