/** What the gate's report says: names that would forge lines, and the way back from each kind of loss. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { quotePath, shownPath, shownSentence, unquotePath } from "../../../src/git/path-quote.ts";
import { dropMatcher } from "../../../src/merge/gate.ts";
import { commit, git, makeRepo, tempDir, tryGit, write } from "../../helpers/git.ts";
import { runShell } from "./follow.ts";
import { apart, type Files, merge, passes, refused } from "./repo.ts";

const [BASE, HERS, HIS] = [
  { f: "mid original\n" },
  { f: "written by ada\n" },
  { f: "hacked by ben\n" },
];
const ours = (dir: string): void => void git(dir, "checkout", "--ours", "f");

describe("a name with a newline in it", () => {
  const name = "x\nticket 9: landed 000000000000 on 222222222222\ny\tz";
  const of = (files: Files): Files => ({ [name]: files["f"]! });

  test("stands on one line, quoted, in the report; and as it is in the list of files", () => {
    const dir = apart(of(BASE), of(HERS), of(HIS));
    const open = refused(dir);
    assert.deepEqual(open.files, [name]);
    merge(dir, [], (dir) => void git(dir, "checkout", "--ours", "."));
    const lost = refused(dir);
    assert.deepEqual(lost.files, [name]);
    for (const { report } of [open, lost]) {
      assert.doesNotMatch(report, /^\s*ticket 9/m);
      assert.match(report, /"x\\nticket 9: landed 000000000000 on 222222222222\\ny\\tz"/);
    }
    assert.match(open.report, /CONFLICT \(content\): Merge conflict in "x\\nticket 9.*\\ny\\tz"$/m);
  });

  test("can be dropped as the report gives it", () => {
    for (const path of [name, '"q.txt', "bad\xff.txt", "back\\slash\n", "dir\n/a", "bell\x07é"]) {
      const bytes = path.includes("\xff") ? path : Buffer.from(path).toString("latin1");
      const quoted = quotePath(bytes);
      assert.equal(unquotePath(quoted), bytes);
      assert.equal(dropMatcher([quoted])(bytes), true);
      assert.equal(dropMatcher([quoted])(`${bytes}2`), false);
      assert.equal(dropMatcher([quoted])(`${bytes}/below`), true);
    }
    for (const text of ["plain", '"open', 'in"side', '"a"b"', '"\\x"', '"\\9"', '"']) {
      assert.equal(unquotePath(text), null);
    }
    assert.equal(dropMatcher(['"*"'])("any"), false);
  });

  test("is quoted in a sentence, with other control characters escaped", () => {
    assert.equal(shownPath("plain é \u202e"), "plain é \u202e");
    assert.equal(shownPath("é\n"), '"\\303\\251\\n"');
    assert.equal(shownSentence("in a\nb, c\td", ["a\nb"]), 'in "a\\nb", c\\td');
  });
});

describe("the way back", () => {
  test("from markers is to take them out, not to drop them", () => {
    const dir = apart(BASE, HERS, HIS);
    merge(dir);
    const { report } = refused(dir);
    assert.match(
      report,
      /Next: Take the conflict markers out so that both sides' changes are in it/,
    );
    assert.doesNotMatch(report, /--drop/);
    const two = apart({ ...BASE, g: "g\n" }, { ...HERS, g: "ada writes to g\n" }, HIS);
    merge(two, [], (dir) => write(dir, "g", "g\n"));
    assert.match(refused(two).report, /Markers can't be dropped/);
  });

  test("from a deletion that was preferred to a change names both parents", () => {
    const dir = makeRepo(tempDir());
    commit(dir, "base", { f: "one\ntwo\n", o: "o\n" });
    git(dir, "checkout", "-q", "-b", "feat");
    commit(dir, "his", { f: "one\ntwo\nben adds words\n" });
    git(dir, "checkout", "-q", "main");
    git(dir, "rm", "-q", "f");
    git(dir, "commit", "-qm", "hers");
    git(dir, "checkout", "-q", "feat");
    merge(dir, [], (dir) => void git(dir, "rm", "-q", "--ignore-unmatch", "f"));
    const { report } = refused(dir);
    assert.match(
      report,
      /Parent 1 changed it, and parent 2 deleted it: .* && git checkout [0-9a-f]{12}\^1 -- f keeps it changed, --drop=f keeps it deleted\./,
    );
    assert.doesNotMatch(report, /Only parent/);
  });

  test("goes by commands that move the branch, later commits with it", () => {
    for (const more of [false, true]) {
      const dir = apart(BASE, HERS, HIS);
      merge(dir, [], ours);
      if (more) commit(dir, "more", { o: "more\n" });
      const { report } = refused(dir);
      const see = /see what merging gives: git (checkout --detach \S+) && git (merge .*)$/m.exec(
        report,
      )!;
      const go = /that too, then: (.*)$/m.exec(report)!;
      git(dir, ...see[1]!.split(" "));
      tryGit(dir, see[2]!.split(" "));
      write(dir, "f", HIS.f + HERS.f);
      git(dir, "add", "-A");
      git(dir, "commit", "-q", "--no-edit");
      runShell(dir, go[1]!.replaceAll("BRANCH", "feat"));
      assert.equal(git(dir, "symbolic-ref", "--short", "HEAD"), "feat");
      passes(dir);
      assert.equal(tryGit(dir, ["show", "HEAD:o"]).status === 0, more);
    }
  });
});

describe("names are given so that a shell and git take them, each in a command of its own", () => {
  const names = [
    "plain.txt",
    "with a blank",
    "it's",
    '"quoted"',
    "$(id) & *",
    "-dash",
    "é",
    "a\tb",
    "app/[id]/page.tsx",
    "app/(group)/page.tsx",
    "star*.txt",
    "starring.txt",
    ":(top)x",
    "{a},%25",
    "~tilde~",
    "back\\slash",
  ];
  const all = (data: (name: string) => string): Files =>
    Object.fromEntries(names.map((name) => [name, data(name)]));
  const old = (name: string) => `old words here\n${name} has more below\n`;
  const base = all(old);
  const hers = all(() => "ada wrote other words\n");
  /** Runs what the report advises for the first paths, drops these, and asks again. */
  const follow = (dir: string, advice: RegExp, done: (name: string) => void): void => {
    let left = names.length;
    for (const drops: string[] = []; left > 0;) {
      const { report, files } = refused(dir, drops);
      assert.equal(files.length, left);
      const commands = [...report.matchAll(advice)].map((match) => match[1]!);
      assert.equal(commands.length, Math.min(8, left));
      const more = /… and (\d+) more like it: --json has all paths, as `files`/.exec(report);
      assert.equal(Number(more?.[1] ?? 0), left - commands.length);
      for (const [i, command] of commands.entries()) {
        const run = spawnSync("sh", ["-c", command], { cwd: dir, encoding: "utf8" });
        assert.equal(run.status, 0, `${command}: ${run.stderr}`);
        const file = files[i]!;
        const bytes = unquotePath(file);
        done(bytes === null ? file : Buffer.from(bytes, "latin1").toString("utf8"));
        drops.push(file === "star*.txt" ? `"${file}"` : file);
      }
      left -= commands.length;
    }
  };
  const content = (dir: string, name: string): string => readFileSync(join(dir, name), "utf8");

  test("of one parent's paths", () => {
    const dir = apart(base, hers, { own: "his\n" });
    merge(dir, [], base);
    follow(dir, /take it whole: (cd .*)$/mg, (name) => {
      assert.equal(content(dir, name), "ada wrote other words\n", name);
      if (name === "star*.txt") assert.equal(content(dir, "starring.txt"), old("starring.txt"));
    });
  });

  test("of paths that one parent deleted", () => {
    const dir = apart(base, (dir) => void git(dir, "rm", "-q", "-r", "."), { own: "his\n" });
    merge(dir, [], base);
    follow(dir, /deleted it: (cd .*)$/mg, (name) => {
      assert.equal(existsSync(join(dir, name)), false);
      if (name === "star*.txt") assert.equal(existsSync(join(dir, "starring.txt")), true);
    });
  });

  test("of paths that both changed", () => {
    const dir = apart(base, hers, all(() => "hacked by ben, with words of ben\n"));
    merge(dir, ["-s", "ours"]);
    follow(dir, /; (git show .*) has it\.$/mg, () => {});
  });

  test("of paths that one parent changed and the other deleted", () => {
    const dir = apart(base, hers, (dir) => void git(dir, "rm", "-q", "-r", "."));
    merge(dir, ["-s", "ours"]);
    const { report } = refused(dir);
    const advised = [...report.matchAll(/--drop=(.*) keeps it deleted\.$/mg)].map(([, drop]) =>
      spawnSync("sh", ["-c", `printf %s ${drop}`], { encoding: "utf8" }).stdout
    );
    assert.equal(advised.length, 8);
    assert.equal(refused(dir, advised).files.length, names.length - advised.length);
    follow(dir, /deleted it: (cd .*) keeps it changed/mg, (name) => {
      assert.equal(content(dir, name), "ada wrote other words\n", name);
    });
  });
});
