/** What the gate advises is followed as it stands: it loses nobody's work, and leads to a landing. */
import assert from "node:assert/strict";
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { describe, test } from "node:test";
import { git, tryGit, write } from "../../helpers/git.ts";
import { adviceOf, type Choice, follow, type Followed, runShell } from "./follow.ts";
import { apart, type Files, judge, merge, passes, refused, type Step, step } from "./repo.ts";

const plan = (change: Record<number, string> = {}, n = 30): string =>
  Array.from({ length: n }, (_, i) => `${change[i] ?? `step ${i} of the plan`}\n`).join("");
const HERS = { 5: "check permissions first" };
const HIS = { 25: "audit everything afterwards" };
const BOTH = plan({ ...HERS, ...HIS });

const rm = (...names: string[]): Step => (dir) => void git(dir, "rm", "-rqf", "--", ...names);
const mv = (from: string, to: string): Step => (dir) => {
  mkdirSync(dirname(join(dir, to)), { recursive: true });
  git(dir, "mv", from, to);
};
const all = (...steps: Step[]): Step => (dir) => {
  for (const one of steps) {
    if (typeof one === "function") one(dir);
    else for (const [path, data] of Object.entries(one)) write(dir, path, data);
  }
};
const link = (path: string, to: string): Step => (dir) => {
  rmSync(join(dir, path), { force: true });
  mkdirSync(dirname(join(dir, path)), { recursive: true });
  symlinkSync(to, join(dir, path));
};
const mode = (path: string, bits: number): Step => (dir) => chmodSync(join(dir, path), bits);

/** Follows the report's advice; what is committed then has to pass, and to be these files. */
function mended(
  dir: string,
  files: Files,
  edit?: (file: string, line: string) => void,
  choice?: Choice,
): Followed {
  const followed = follow(dir, refused(dir).report, edit, choice);
  const verdict = judge(dir, followed.drops);
  assert.deepEqual(verdict, { ok: true }, verdict.ok ? "" : verdict.report);
  const now: Files = {};
  for (const path of git(dir, "ls-files", "-z").split("\0")) {
    if (path === "" || path === ".gitkeep") continue;
    const at = join(dir, path);
    now[path] = lstatSync(at).isSymbolicLink()
      ? `-> ${readlinkSync(at)}`
      : readFileSync(at, "utf8");
  }
  assert.deepEqual(now, files);
  assert.equal(git(dir, "status", "--porcelain"), "");
  return followed;
}
const puts = (dir: string, text: string) => (file: string): void => write(dir, file, text);

describe("a rename that the merge undid", () => {
  const server = plan({}, 20);
  test("is made again: the file under its old name has both sides' work", () => {
    for (
      const to of ["src/app.ts", "lib/deep/server.ts", "src/Server.ts", "src/server.ts/index.ts"]
    ) {
      const dir = apart(
        { "src/server.ts": server, o: "o\n" },
        to.startsWith("src/server.ts/")
          ? all(rm("src/server.ts"), { [to]: server })
          : mv("src/server.ts", to),
        { "src/server.ts": plan({ 9: "localized" }, 20) },
      );
      merge(dir, [], all(rm(to), { "src/server.ts": plan({ 9: "localized" }, 20) }));
      const { commands } = mended(dir, { [to]: plan({ 9: "localized" }, 20), o: "o\n" });
      assert.match(commands.join(), /git mv -- src\/server\.ts/);
    }
  });

  test("by the other side too, and where nobody changed the content", () => {
    const one = apart({ old: server, o: "o\n" }, { o: "of hers\n" }, mv("old", "new"));
    merge(one, [], mv("new", "old"));
    mended(one, { new: server, o: "of hers\n" });
    const two = apart({ old: server }, mv("old", "new"), { o: "his\n" });
    merge(two, ["-s", "ours"]);
    mended(two, { new: server, o: "his\n" });
  });

  test("of a directory: in one command, however many its files", () => {
    const names = Array.from({ length: 12 }, (_, i) => `f${i}`).concat(
      "deep/er",
      "__init__",
      "deep/__init__",
    );
    const of = (at: string): Files =>
      Object.fromEntries(names.map((name) => [
        `${at}/${name}`,
        name.endsWith("__init__") ? "" : `words of ${name}, some of them\nand more of ${name}\n`,
      ]));
    for (const to of ["shop", "pkg/shop", "App"]) {
      const dir = apart(of("app"), mv("app", to), { o: "his\n" });
      merge(dir, ["-s", "ours"]);
      const { commands } = mended(dir, { ...of(to), o: "his\n" });
      assert.equal(commands.length, 1, commands.join("\n"));
    }
    // Where something else stands in the directory, its files move one by one.
    const few = (at: string): Files => ({ [`${at}/a`]: plan(), [`${at}/b`]: BOTH });
    const dir = apart(few("app"), mv("app", "shop"), { "app/own": "his own file\n" });
    merge(dir, ["-s", "ours"]);
    mended(dir, { ...few("shop"), "app/own": "his own file\n" });
  });

  test("with edits of both sides lost or kept: the candidate's stay", () => {
    const dir = apart(
      { "old.txt": plan() },
      all(mv("old.txt", "new.txt"), { "new.txt": plan(HERS) }),
      { "old.txt": plan(HIS) },
    );
    merge(dir, ["-s", "ours"]);
    const { commands } = mended(dir, { "new.txt": BOTH });
    assert.match(
      commands.join("\n"),
      /git mv -- old.txt new.txt\n.*b=.* git merge-file -- new.txt /,
    );
  });

  test("with an edit lost of a file that the candidate left alone", () => {
    const dir = apart(
      { "d/one": plan(), "d/two": plan(HIS), "d/run": plan({}, 9) },
      all(
        mv("d", "e"),
        { "e/one": plan(HERS), "e/two": plan({ ...HIS, ...HERS }) },
        mode("e/run", 0o755),
      ),
      { o: "his\n" },
    );
    merge(dir, ["-s", "ours"], { "d/two": plan({ ...HIS, 15: "a third of his" }) });
    mended(dir, {
      "e/one": plan(HERS),
      "e/two": plan({ ...HIS, ...HERS, 15: "a third of his" }),
      "e/run": plan({}, 9),
      o: "his\n",
    });
    assert.ok(lstatSync(join(dir, "e/run")).mode & 0o100);
  });

  test("beside the new name: what the old one has more is brought there first", () => {
    const base = { old: plan(), o: "o\n" };
    const hers = all(mv("old", "new"), { new: plan(HERS) });
    const same = apart(base, hers, { o: "his\n" });
    merge(same, [], { old: plan() });
    mended(same, { new: plan(HERS), o: "his\n" });

    const dir = apart(base, hers, { old: plan(HIS) });
    merge(dir, [], { old: plan(HIS), new: plan(HERS) });
    mended(dir, { new: BOTH, o: "o\n" });

    const clash = apart(base, hers, { old: plan({ 5: "or ask ben" }) });
    merge(clash, [], { old: plan({ 5: "or ask ben" }), new: plan(HERS) });
    const result = plan({ 5: "check permissions first, or ask ben" });
    const { edits } = mended(clash, { new: result, o: "o\n" }, puts(clash, result));
    assert.deepEqual(edits.map(({ file }) => file), ["new", "new"]);
  });
});

describe("a deleted file that is back", () => {
  const base = { f: plan(), o: "o\n" };
  test("is deleted, if nobody changed it", () => {
    const dir = apart(base, rm("f"), { o: "his\n" });
    merge(dir, [], { f: plan() });
    mended(dir, { o: "his\n" });
  });

  test("is either, if the candidate did", () => {
    for (const choice of ["command", "drop"] as const) {
      for (const isLater of [false, true]) {
        const dir = apart(base, rm("f"), { o: "his\n" });
        merge(dir, [], { f: isLater ? plan() : plan(HIS) });
        if (isLater) step(dir, { f: plan(HIS) });
        const { report } = refused(dir);
        assert.match(
          report,
          /was changed since: .* && git rm -r -- f deletes it with what was changed, --drop=f keeps it\.$/m,
        );
        mended(
          dir,
          choice === "drop" ? { f: plan(HIS), o: "his\n" } : { o: "his\n" },
          undefined,
          choice,
        );
      }
    }
  });

  test("of a directory", () => {
    const dir = apart({ "d/a": plan(), "d/b": BOTH, o: "o\n" }, rm("d"), { o: "his\n" });
    merge(dir, ["-s", "ours"]);
    mended(dir, { o: "his\n" });
  });
});

describe("a file that only one side changed", () => {
  test("is taken whole", () => {
    for (const side of [1, 2]) {
      const [hers, his] = side === 2
        ? [{ f: plan(HERS) }, { o: "his\n" }]
        : [{ o: "his\n" }, { f: plan(HERS) }];
      const dir = apart({ f: plan() }, hers, his);
      merge(dir, [], { f: plan() });
      const { commands } = mended(dir, { f: plan(HERS), o: "his\n" });
      assert.match(commands.join(), new RegExp(`&& git checkout [0-9a-f]{12}\\^${side} -- f$`));
    }
  });

  test("is not, where a later merge brought newer work of the branch", () => {
    const dir = apart({ f: plan() }, { f: plan(HERS) }, { k: "k\n" });
    merge(dir, ["-s", "ours"]);
    git(dir, "checkout", "-q", "main");
    step(dir, { f: BOTH });
    git(dir, "checkout", "-q", "feat");
    merge(dir);
    assert.doesNotMatch(refused(dir).report, /git checkout \S+ -- f/);
    mended(dir, { f: BOTH, k: "k\n" });
  });

  test("nor where later commits changed it, nor the merge itself", () => {
    for (const isLater of [true, false]) {
      const dir = apart({ f: plan() }, { f: plan(HERS) }, { k: "k\n" });
      merge(dir, ["-s", "ours"], isLater ? {} : { f: plan(HIS) });
      if (isLater) step(dir, { f: plan(HIS) });
      mended(dir, { f: BOTH, k: "k\n" });
    }
  });

  test("is edited where the changes since clash with it", () => {
    const dir = apart({ f: plan() }, { f: plan(HERS) }, { k: "k\n" });
    merge(dir, ["-s", "ours"]);
    step(dir, { f: plan({ 4: "a gate of his" }) });
    const text = plan({ 4: "a gate of his", ...HERS });
    const { edits } = mended(dir, { f: text, k: "k\n" }, puts(dir, text));
    assert.match(
      edits[0]!.line,
      /^It was changed since: edit f so that all that parent 2 changed in it \(git diff [0-9a-f]{12} [0-9a-f]{12}\^2 -- ':\/f'\) is changed there too; git show [0-9a-f]{12}\^2:f has it\.$/,
    );
  });

  test("by two merges of two branches: the second one's doesn't undo the first one's", () => {
    const dir = apart({ f: plan() }, { f: plan(HERS) }, { k: "k\n" });
    git(dir, "branch", "topic", "main~1");
    merge(dir, ["-s", "ours"]);
    git(dir, "checkout", "-q", "topic");
    step(dir, { f: plan(HIS) });
    git(dir, "checkout", "-q", "feat");
    git(dir, "merge", "-q", "-s", "ours", "-m", "m", "topic");
    mended(dir, { f: BOTH, k: "k\n" });
  });

  test("by a merge whose loss a later merge undid: the loss isn't advised again", () => {
    const dir = apart({ f: plan() }, { f: plan(HERS) }, { k: "k\n" });
    merge(dir, [], { f: plan() });
    git(dir, "checkout", "-q", "main");
    step(dir, { f: plan({ ...HERS, 4: "and this is hers too" }) });
    git(dir, "checkout", "-q", "feat");
    step(dir, { f: plan({ 3: "a line of his" }) });
    merge(dir, [], { f: plan({ ...HERS, 4: "and this is hers too", 3: "a line of his" }) });
    const verdict = judge(dir);
    if (!verdict.ok) mended(dir, { f: readFileSync(join(dir, "f"), "utf8"), k: "k\n" });
  });

  test("was added, and is gone: also in a directory that the other side renamed", () => {
    const dir = apart({ o: "o\n" }, { "n/f": plan() }, { o: "his\n" });
    merge(dir, [], rm("n/f"));
    mended(dir, { "n/f": plan(), o: "his\n" });

    const of = (at: string): Files => ({
      [`${at}/1`]: plan(),
      [`${at}/2`]: BOTH,
      [`${at}/3`]: plan(HIS),
    });
    for (const kind of ["file", "executable", "link", "of a name to be quoted"]) {
      const name = kind.startsWith("of") ? "[it's new].py" : "invoice.py";
      const put = all(
        { [`app/${name}`]: "def invoice(): return total\n" },
        kind === "executable" ? mode(`app/${name}`, 0o755) : {},
        kind === "link" ? link(`app/${name}`, "1") : {},
      );
      const moved = apart(of("app"), put, mv("app", "shop"));
      merge(moved, [], rm("shop/" + name));
      const { commands } = mended(moved, {
        ...of("shop"),
        [`shop/${name}`]: kind === "link" ? "-> 1" : "def invoice(): return total\n",
      });
      assert.match(commands.join(), /\^2:'?app\/(?:invoice|\[it)/);
      if (kind === "executable") {
        assert.ok(lstatSync(join(moved, "shop", name)).mode & 0o100);
      }
    }
  });
});

describe("a file that both sides changed", () => {
  test("gets the lost change applied", () => {
    for (const args of [["-s", "ours"], []]) {
      const dir = apart({ f: plan() }, { f: plan(HERS) }, { f: plan(HIS) });
      merge(dir, args, args.length === 0 ? { f: plan(HERS) } : {});
      const { commands } = mended(dir, { f: BOTH });
      assert.match(commands.join(), /\| git apply --3way$/);
    }
  });

  test("and that is gone, is put back with both changes", () => {
    const dir = apart({ f: plan(), o: "o\n" }, { f: plan(HERS) }, { f: plan(HIS) });
    merge(dir, [], rm("f"));
    mended(dir, { f: BOTH, o: "o\n" });
  });

  test("is edited where they were in conflict", () => {
    const texts = (hers: string): string => plan({ 5: hers });
    const result = plan({ 5: "ada wrote words, and ben" });
    const dir = apart({ f: plan() }, { f: texts("ada wrote words") }, { f: texts("and ben") });
    merge(dir, ["-s", "ours"]);
    mended(dir, { f: result }, puts(dir, result));
    const gone = apart({ f: plan() }, { f: texts("ada wrote words") }, { f: texts("and ben") });
    merge(gone, [], rm("f"));
    mended(gone, { f: result }, puts(gone, result));
    const added = apart({ o: "o\n" }, { f: "ada adds words\n" }, { f: "ben has others\n" });
    merge(added, ["-s", "ours"]);
    const two = "ada adds words\nben has others\n";
    mended(added, { f: two, o: "o\n" }, puts(added, two));
  });

  test("and in which deleted lines are back, is told what took them out", () => {
    const secret = (a: string, b: string, more = ""): string =>
      `a = ${a}\n${more}b = ${b}\nc = 3\n`;
    const kept = "password = hunter2\n";
    const dir = apart({ f: secret("1", "2", kept) }, { f: secret("1", "env") }, {
      f: secret("11", "2", kept),
    });
    merge(dir, [], { f: secret("11", "env", kept) });
    const { edits } = mended(dir, { f: secret("11", "env") }, puts(dir, secret("11", "env")));
    assert.match(
      edits[0]!.line,
      /edit f so that all that parent 2 changed in it \(git diff .*\) is changed there too/,
    );
  });

  test("and each gave another name", () => {
    const dir = apart(
      { f: plan() },
      all(mv("f", "g"), { g: plan(HERS) }),
      all(mv("f", "h"), { h: plan(HIS) }),
    );
    merge(dir, [], all(rm("g"), { h: plan(HIS) }));
    mended(dir, { h: BOTH }, puts(dir, BOTH));
  });
});

describe("a file that one side changed and the other deleted", () => {
  test("is kept or dropped; and put back by either's version of it alone", () => {
    for (const choice of ["command", "drop"] as const) {
      const dir = apart(
        { f: plan(), o: "o\n" },
        { f: plan({ ...HERS, 6: "and more words" }) },
        rm("f"),
      );
      merge(dir, ["-s", "ours"]);
      mended(
        dir,
        choice === "command"
          ? { f: plan({ ...HERS, 6: "and more words" }), o: "o\n" }
          : { o: "o\n" },
        undefined,
        choice,
      );
    }
  });

  test("and edits everywhere else by the other: only it is touched", () => {
    const base = { a: plan(), b: plan(), f: plan() };
    const hers = { a: plan(HERS), b: plan(HERS), f: plan(HERS) };
    const dir = apart(base, hers, all(rm("f"), { a: plan(HIS), b: plan(HIS) }));
    merge(dir, ["-s", "ours"]);
    mended(dir, { a: BOTH, b: BOTH, f: plan(HERS) });
  });

  test("with the old content back", () => {
    const dir = apart({ f: plan(), o: "o\n" }, { f: plan(HERS) }, rm("f"));
    merge(dir, [], { f: plan() });
    mended(dir, { f: plan(HERS), o: "o\n" });
  });
});

describe("what has no lines", () => {
  const [old, new1, new2] = ["\0old", "\0new of hers", "\0new of his"];
  test("is taken from the side that changed it, if the old one is there", () => {
    const dir = apart({ b: old!, o: "o\n" }, { b: new1! }, { o: "his\n" });
    merge(dir, ["-s", "ours"]);
    mended(dir, { b: new1!, o: "his\n" });
    const linked = apart(link("l", "a"), link("l", "b"), { o: "his\n" });
    merge(linked, ["-s", "ours"]);
    mended(linked, { l: "-> b", o: "his\n" });
  });

  test("is one of two answers, if there is another one", () => {
    for (const choice of ["command", "drop"] as const) {
      const dir = apart({ b: old!, o: "o\n" }, { b: new1! }, { o: "his\n" });
      merge(dir, [], { b: new2! });
      assert.doesNotMatch(refused(dir).report, /take it whole/);
      mended(dir, { b: choice === "drop" ? new2! : new1!, o: "his\n" }, undefined, choice);
    }
    const both = apart({ b: old!, o: "o\n" }, { b: new1! }, { b: new2! });
    merge(both, ["-s", "ours"]);
    assert.match(
      refused(both).report,
      /no lines to be merged: --drop=b keeps what stands there now, .* && git checkout \S+ -- b puts that of parent 2 in its place, with --drop=b too\.$/m,
    );
    mended(both, { b: new2!, o: "o\n" }, undefined, "drop");
  });
});

describe("a mode or type", () => {
  test("is given back, and the content stays", () => {
    for (const bits of [0o755, 0o644]) {
      const dir = apart(
        all({ f: plan(), o: "o\n" }, mode("f", bits)),
        { f: plan(HERS) },
        { f: plan(HIS) },
      );
      merge(dir, [], mode("f", bits ^ 0o111));
      mended(dir, { f: BOTH, o: "o\n" });
      assert.equal(lstatSync(join(dir, "f")).mode & 0o777, bits);
    }
    const dir = apart({ f: plan() }, mode("f", 0o755), { f: plan(HIS) });
    merge(dir, ["-s", "ours"]);
    mended(dir, { f: plan(HIS) });
    assert.ok(lstatSync(join(dir, "f")).mode & 0o100);
  });

  test("with content that is missing too", () => {
    const dir = apart({ f: plan() }, all({ f: plan(HERS) }, mode("f", 0o755)), { f: plan(HIS) });
    merge(dir, ["-s", "ours"]);
    mended(dir, { f: BOTH });
    assert.ok(lstatSync(join(dir, "f")).mode & 0o100);
  });

  test("of a link that became a file, or a file that became a link", () => {
    for (const choice of ["command", "drop"] as const) {
      const dir = apart(all(link("l", "a"), { f: plan() }), { o: "o\n" }, { p: "p\n" });
      merge(dir, [], all((dir) => rmSync(join(dir, "l")), { l: "a" }, link("f", "o")));
      mended(
        dir,
        {
          ...choice === "drop" ? { l: "a", f: "-> o" } : { l: "-> a", f: plan() },
          o: "o\n",
          p: "p\n",
        },
        undefined,
        choice,
      );
    }
    const typed = apart({ f: plan() }, link("f", "o"), { o: "o\n" });
    merge(typed, ["-s", "ours"]);
    mended(typed, { f: "-> o", o: "o\n" });
  });
});

describe("what neither side changed", () => {
  test("is put back if it is gone", () => {
    const dir = apart({ f: plan(), o: "o\n" }, { h: "hers\n" }, { o: "his\n" });
    merge(dir, [], rm("f"));
    mended(dir, { f: plan(), h: "hers\n", o: "his\n" });
  });

  test("is one of two answers if something else stands there", () => {
    const other = Array.from({ length: 20 }, (_, i) => `quite other words ${i * 7} here\n`).join(
      "",
    );
    for (const choice of ["command", "drop"] as const) {
      const dir = apart({ f: plan(), o: "o\n" }, { h: "hers\n" }, { o: "his\n" });
      merge(dir, [], { f: other });
      mended(
        dir,
        { f: choice === "drop" ? other : plan(), h: "hers\n", o: "his\n" },
        undefined,
        choice,
      );
    }
  });

  test("and lines cut out beside what was changed are put in again", () => {
    const base = plan({}, 40);
    const dir = apart({ f: base }, { f: plan(HERS, 40) }, { f: plan(HIS, 40) });
    const cut = plan({ ...HERS, ...HIS }, 40).replace(/step 1[2-9] of the plan\n/g, "");
    merge(dir, [], { f: cut });
    const { edits } = mended(
      dir,
      { f: plan({ ...HERS, ...HIS }, 40) },
      puts(dir, plan({ ...HERS, ...HIS }, 40)),
    );
    assert.match(
      edits[0]!.line,
      /edit f so that what is missing stands there too; git show \S+:f has it\.$/,
    );
  });
});

describe("of an octopus", () => {
  const octopus = (settle: Step, topic: Step = { t: "of the topic\n" }): string => {
    const dir = apart({ f: plan(), o: "o\n" }, { f: plan(HERS), h: "hers\n" }, { k: "k\n" });
    git(dir, "checkout", "-q", "-b", "topic", "main~1");
    step(dir, topic);
    git(dir, "checkout", "-q", "feat");
    tryGit(dir, ["merge", "-q", "--no-commit", "main", "topic"]);
    (all(settle) as (dir: string) => void)(dir);
    git(dir, "add", "-A");
    const tree = git(dir, "write-tree");
    const parents = ["HEAD", "main", "topic"].flatMap((ref) => ["-p", git(dir, "rev-parse", ref)]);
    git(dir, "reset", "-q", "--hard", git(dir, "commit-tree", "-m", "octopus", ...parents, tree));
    return dir;
  };

  test("each parent's work is found at the parent that has it", () => {
    const dir = octopus(all(rm("h", "t"), { f: plan() }));
    mended(dir, { f: plan(HERS), h: "hers\n", k: "k\n", o: "o\n", t: "of the topic\n" });
  });

  test("that clashed is edited", () => {
    const dir = octopus({ f: plan({ 5: "other words of the topic" }) }, {
      f: plan({ 5: "other words of the topic" }),
    });
    const result = plan({ 5: "check permissions first; other words of the topic" });
    mended(dir, { f: result, h: "hers\n", k: "k\n", o: "o\n" }, puts(dir, result));
  });
});

describe("a merge made again", () => {
  const again = (dir: string, settle: Step = {}): void => {
    const { report } = refused(dir);
    const [, at] = /Or see what merging gives: git checkout --detach ([0-9a-f]{12})/.exec(report)!;
    const see = /Or see what merging gives: (git checkout .*?) && (git merge .*)$/m.exec(report)!;
    git(dir, ...see[1]!.split(" ").slice(1));
    const { status } = tryGit(dir, see[2]!.split(" ").slice(1));
    if (status !== 0) step(dir, settle);
    // What else the merge made.
    assert.match(
      report,
      new RegExp(`take over what else the refused merge made \\(git diff HEAD ${at}\\)`),
    );
    if (
      existsSync(join(dir, "own")) === false &&
      tryGit(dir, ["cat-file", "-e", `${at}:own`]).status === 0
    ) {
      git(dir, "checkout", at!, "--", "own");
      git(dir, "commit", "-q", "-m", "what else it made");
    }
    const go = /commit that too, then: (.*)$/m.exec(report) ?? /on top: (.*)$/m.exec(report)!;
    runShell(dir, go[1]!.replaceAll("BRANCH", "feat"));
    assert.equal(git(dir, "symbolic-ref", "--short", "HEAD"), "feat");
  };

  test("is a merge though it could be fast-forwarded, and keeps what else it made", () => {
    const dir = apart({ f: plan() }, { f: plan(HERS) }, {});
    git(dir, "reset", "-q", "--hard", "main~1");
    merge(dir, [], { f: plan(), own: "made in the merge\n" });
    again(dir);
    passes(dir);
    assert.equal(readFileSync(join(dir, "own"), "utf8"), "made in the merge\n");
    assert.equal(readFileSync(join(dir, "f"), "utf8"), plan(HERS));
  });

  test("takes later merges along as merges", () => {
    const dir = apart({ f: plan() }, { f: plan(HERS) }, { k: "k\n" });
    merge(dir, ["-s", "ours"]);
    git(dir, "checkout", "-q", "main");
    step(dir, { f: BOTH });
    git(dir, "checkout", "-q", "feat");
    merge(dir);
    step(dir, { k: "more of k\n" });
    again(dir);
    passes(dir);
    assert.equal(readFileSync(join(dir, "f"), "utf8"), BOTH);
    assert.equal(readFileSync(join(dir, "k"), "utf8"), "more of k\n");
    git(dir, "merge-base", "--is-ancestor", "main", "HEAD");
  });

  const sender = "class Sender:\n    def __init__(self, host):\n        self.host = host\n\n" +
    "    def send(self, msg):\n        conn = connect(self.host)\n        conn.write(msg)\n        conn.close()\n";
  const ported = sender.replace("self, host)", "self, host, port=25)")
    .replace("self.host = host\n", "self.host = host\n        self.port = port\n")
    .replace("connect(self.host)", "connect(self.host, self.port)");
  const plain = "def send(host, msg):\n    with connect(host) as conn:\n        conn.write(msg)\n";
  const adapted = plain.replace("msg)", "msg, port=25)").replace(
    "connect(host)",
    "connect(host, port)",
  );

  test("in which a conflict was adapted, has what is quoted put in and adapted later", () => {
    const dir = apart({ "s.py": sender }, { "s.py": ported }, { "s.py": plain });
    merge(dir, [], { "s.py": adapted });
    const { report } = refused(dir);
    assert.doesNotMatch(report, /as git makes it/);
    assert.match(
      report,
      /a path was in conflict: make the merge again, with all that both sides put in and\nnothing that one took out/,
    );
    const quoted = [...report.matchAll(/^ {4}> (.*)$/mg)].map(([, line]) => `${line}\n`);
    again(dir, { "s.py": adapted + quoted.join("") });
    step(dir, { "s.py": adapted });
    passes(dir);
  });

  test("in which a path without a conflict was adapted, is made as git makes it", () => {
    const dir = apart({ f: plan() }, { f: plan(HERS) }, { k: "k\n" });
    const own = plan({ 5: "ensure the user may do it" });
    merge(dir, [], { f: own });
    assert.match(refused(dir).report, /make the merge as git makes it/);
    again(dir);
    step(dir, { f: own });
    passes(dir);
  });
});

test("advice of many paths is on the first of each kind", () => {
  const files = (data: string): Files =>
    Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`f${i}`, `${data} ${i}\n`]));
  const dir = apart(files("old words of it"), files("new lines were put there"), { k: "k\n" });
  merge(dir, ["-s", "ours"]);
  const advice = adviceOf(refused(dir).report);
  assert.equal(advice.filter((line) => line.startsWith("Only parent 2")).length, 8);
  const rest = advice.flatMap((line) => /^… and (\d+) more like it/.exec(line)?.[1] ?? []).map(
    Number,
  );
  assert.equal(rest.reduce((a, b) => a + b), 92);
});
