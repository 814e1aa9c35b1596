/** What the gate makes of merges that lose part of a file, a rename, a mode; and of what comes after. */
import assert from "node:assert/strict";
import { chmodSync, rmSync, symlinkSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { git, write } from "../../helpers/git.ts";
import { apart, judge, merge, passes, refuses, type Step, step } from "./repo.ts";

/** Thirty lines of words, some replaced. */
const text = (changes: Record<number, string> = {}): string =>
  Array.from({ length: 30 }, (_, i) => (changes[i] ?? `line ${i} says thing${i}`) + "\n").join("");

const HERS = {
  3: "ada closes the hole up here",
  15: "ada writes about the middle",
  27: "ada repairs the end",
};

describe("a file that one side renamed", () => {
  const renamed = (hers: Step, his: Step): string => apart({ d: text() }, hers, his);
  const move = (dir: string): void => void git(dir, "mv", "d", "dd");

  test("doesn't lose the other's edits to merge -s ours", () => {
    const dir = renamed({ d: text(HERS) }, move);
    merge(dir, ["-s", "ours"]);
    refuses(dir, ["dd"], /dd: lacks .* \[changed on the branch, [0-9a-f]{12}, parent 2\]/);
  });

  test("is shown as the other side has it, under its old name", () => {
    const dir = renamed({ d: text(HERS) }, move);
    merge(dir, ["-s", "ours"]);
    const verdict = judge(dir);
    assert.ok(!verdict.ok);
    const shown =
      /Parent 2 has it as d: cd .* && git show ([0-9a-f]{12}\^2:d) > dd && git add -f -- dd$/m
        .exec(verdict.report);
    assert.ok(shown, verdict.report);
    assert.equal(git(dir, "show", shown[1]!), text(HERS).trim());
  });

  test("doesn't lose mine when main renamed it", () => {
    const dir = renamed(move, { d: text(HERS) });
    merge(dir, [], (dir) => void git(dir, "checkout", "main", "--", "dd"));
    refuses(dir, ["dd"], /by the candidate, [0-9a-f]{12}, parent 1/);
  });

  test("doesn't lose some of the edits, nor a mode", () => {
    const dir = renamed({ d: text(HERS) }, move);
    merge(dir, [], { dd: text({ ...HERS, 15: "line 15 says thing15" }) });
    refuses(dir, ["dd"], /line 16 of its version/);

    const other = renamed((dir) => chmodSync(join(dir, "d"), 0o755), move);
    merge(other, ["-s", "ours"]);
    refuses(other, ["dd"], /has the mode 100644 instead of 100755/);
  });

  test("nor does a directory that was", () => {
    const dir = apart(
      { "old/a": text(), "old/b": text({ 1: "b of its own" }), "old/c": text({ 2: "c" }) },
      { "old/a": text(HERS), "old/new": "something new of hers\n" },
      (dir) => void git(dir, "mv", "old", "young"),
    );
    merge(dir, ["-s", "ours"]);
    refuses(dir, ["young/a", "young/new"]);
  });

  test("passes as git merges it, adapted, renamed again, or under one of two names", () => {
    const dir = renamed({ d: text(HERS) }, move);
    merge(dir, []);
    passes(dir);
    const adapted = renamed({ d: text(HERS) }, { ...{ other: "x\n" } });
    merge(adapted, [], (dir) => void git(dir, "mv", "d", "ddd"));
    passes(adapted);
    const twice = renamed((dir) => {
      git(dir, "mv", "d", "d1");
      write(dir, "d1", text(HERS));
    }, (dir) => void git(dir, "mv", "d", "d2"));
    merge(twice, [], (dir) => void git(dir, "rm", "-q", "-f", "d2", "d"));
    passes(twice);
  });

  test("is looked into when the merge itself gave it another name", () => {
    const dir = apart({ d: text() }, { d: text(HERS) }, { other: "x\n" });
    merge(dir, [], (dir) => {
      git(dir, "mv", "-f", "d", "e");
      write(dir, "e", text());
    });
    refuses(dir, ["d"], /is e in the merge, which lacks/);
  });
});

describe("a later commit", () => {
  const whole = (): string => {
    const dir = apart({ a: text() }, { a: text(HERS) }, { a: text({ 9: "ben was here" }) });
    merge(dir, ["-s", "ours"]);
    return dir;
  };
  const marked = (): string => {
    const dir = apart({ a: text() }, { a: text({ 9: "ada was here" }) }, {
      a: text({ 9: "ben was here" }),
    });
    merge(dir, []);
    return dir;
  };

  test("doesn't forgive conflict markers that still stand", () => {
    const dir = marked();
    const file = git(dir, "show", "HEAD:a") + "\n";
    assert.match(file, /^<{7}/m);
    step(dir, { a: file.replace("thing20", "another thing") }, "go on");
    refuses(dir, ["a"], /conflict markers/);
    // Beside the markers, or under another name.
    step(dir, { a: file.replace("thing8", "thing near by") }, "go on");
    refuses(dir, ["a"], /conflict markers/);
    step(dir, (dir) => void git(dir, "mv", "a", "b"), "rename");
    refuses(dir, ["a"], /conflict markers/);
    // Nor can they be declared.
    assert.equal(judge(dir, ["a", "b"]).ok, false);
  });

  test("forgives markers that it takes out", () => {
    const dir = marked();
    step(dir, { a: text({ 9: "ada was here\nben was here" }) }, "settled");
    passes(dir);
  });

  test("doesn't forgive lost work elsewhere in the file", () => {
    const dir = whole();
    step(dir, { a: text({ 9: "ben was here", 21: "ben goes on" }) }, "go on");
    refuses(dir, ["a"]);
    // One of the three places isn't all.
    step(dir, { a: text({ 3: "ben looked at this", 9: "ben was here" }) }, "go on");
    refuses(dir, ["a"]);
  });

  test("forgives when it reaches all places, brings the work back, rewrites, renames or deletes", () => {
    const later: Step[] = [
      { a: text({ 3: "ben looked", 15: "ben at", 27: "ben all of these" }) },
      { a: text({ ...HERS, 9: "ben was here" }) },
      { a: "quite another text\n".repeat(9) },
      (dir) => void git(dir, "mv", "a", "b"),
      (dir) => rmSync(join(dir, "a")),
    ];
    for (const files of later) {
      const dir = whole();
      step(dir, files, "later");
      passes(dir);
    }
  });

  test("forgives none by a formatter that breaks lines anew", () => {
    const dir = whole();
    step(dir, { a: text({ 9: "ben was here" }).replaceAll(" says ", "\n  says ") }, "format");
    refuses(dir, ["a"]);
  });

  test("may revert what a good merge brought", () => {
    const dir = apart({ a: text() }, { a: text(HERS) }, { a: text({ 9: "ben was here" }) });
    merge(dir, []);
    step(dir, { a: text({ 9: "ben was here" }) }, "back to the old lines");
    passes(dir);
  });
});

describe("a conflicting hunk", () => {
  const both = (base: string, hers: string, his: string): string =>
    apart({ a: text({ 3: base }) }, { a: text({ 3: hers, 20: "ada writes about twenty" }) }, {
      a: text({ 3: his }),
    });

  test("settled by one side's lines is a loss, whatever else of the other's survives", () => {
    const dir = both("the hole", "ada closes it tightly", "ben was here");
    merge(dir, ["-X", "ours"]);
    refuses(dir, ["a"], /line 4 of its version/);
    const other = both("the hole", "ada closes it tightly", "ben was here");
    merge(other, ["-X", "theirs"], {});
    refuses(other, ["a"]);
  });

  test("with words of both in it passes", () => {
    const dir = both("the hole", "ada closes it tightly", "ben was here");
    merge(dir, [], {
      a: text({ 3: "ben was here and closes it", 20: "ada writes about twenty" }),
    });
    passes(dir);
  });

  test("in which only numbers differ is settled by either, or a third", () => {
    for (const number of ["20", "30", "50"]) {
      const dir = both("timeout = 10", "timeout = 20", "timeout = 30");
      merge(dir, [], {
        a: text({ 3: `timeout = ${number}`, 20: "ada writes about twenty" }),
      });
      passes(dir);
      const alone = apart({ a: "version 1.0\n" }, { a: "version 1.1\n" }, { a: "version 1.2\n" });
      merge(alone, [], { a: `version 1.${number}\n` });
      passes(alone);
    }
    for (const side of ["ours", "theirs"]) {
      const dir = apart({ a: "version 1.0\n" }, { a: "version 1.1\n" }, { a: "version 1.2.1\n" });
      merge(dir, ["-X", side]);
      passes(dir);
    }
  });

  test("in which each side added something of its own is no pick, though only numbers tell them apart", () => {
    const start = "# Changes\n- start\n";
    for (
      const [hers, his, results] of [
        ["- Fix #41\n", "- Fix #42\n", ["- Fix #41\n", "- Fix #42\n", ""]],
        ["boto2==1.0\n", "boto3==1.9\n", ["boto2==1.0\n", "boto3==1.9\n"]],
      ] as const
    ) {
      for (const result of results) {
        const dir = apart({ a: start }, { a: start + hers }, { a: start + his });
        merge(dir, [], { a: start + result });
        refuses(dir, ["a"]);
      }
      const dir = apart({ a: start }, { a: start + hers }, { a: start + his });
      merge(dir, [], { a: start + hers + his });
      passes(dir);
    }
    const list = (last: string) => ({ a: `versions = [1, 2${last}]\n` });
    const dir = apart(list(""), list(", 3"), list(", 4"));
    merge(dir, [], list(", 4"));
    refuses(dir, ["a"]);
  });

  test("of numbers that is back at the old one has neither side's change", () => {
    const dir = apart({ a: "retry(3)\n" }, { a: "retry(5)\n" }, { a: "retry(9)\n" });
    merge(dir, [], { a: "retry(3)\n" });
    refuses(dir, ["a"]);
  });
});

describe("a hunk that is back as it was", () => {
  const clean = (hers: Record<number, string>): string =>
    apart({ a: text() }, { a: text({ 25: "ada writes at the end", ...hers }) }, { b: "b\n" });
  const end = { 25: "ada writes at the end" };

  test("is lost, with something edited beside it", () => {
    const dir = clean({ 3: "line 3 says thing3 or is banned" });
    merge(dir, [], { a: text({ ...end, 3: "# three\nline 3 says thing3" }) });
    refuses(dir, ["a"], /line 4 of its version/);
  });

  test("is lost when one or two of its lines are", () => {
    const three = { 3: "here is one matter", 4: "there another issue", 5: "and a third subject" };
    for (const gone of [[3], [5], [3, 4], [4, 5]]) {
      const dir = clean(three);
      const kept: Record<number, string> = { ...end, ...three };
      for (const line of gone) delete kept[line];
      merge(dir, [], { a: text(kept) });
      refuses(dir, ["a"]);
    }
  });

  test("is lost when it only added, and a comment stands there instead", () => {
    const dir = clean({ 3: "line 3 says thing3\nunless somebody is banned" });
    merge(dir, [], { a: text({ ...end, 3: "line 3 says thing3\n# nothing" }) });
    refuses(dir, ["a"]);
  });

  test("is not when it was adapted, moved or laid out anew", () => {
    const hers = { 3: "line 3 says thing3 or is banned" };
    for (
      const kept of [
        { 3: "# three\nline 3 tells thing3 or is banned" },
        { 3: "line 3 says thing3 or\n   is banned" },
        { 3: "# three\nline 3 says thing3", 9: "line 9 says thing9\nis banned" },
      ] as Record<number, string>[]
    ) {
      const dir = clean(hers);
      merge(dir, [], { a: text({ ...end, ...kept }) });
      passes(dir);
    }
  });
});

describe("what one side added", () => {
  const added = (): string =>
    apart({ f: "1\n" }, (dir) => {
      write(dir, "run.sh", "#!/bin/sh\necho hello\n");
      chmodSync(join(dir, "run.sh"), 0o755);
      symlinkSync("f", join(dir, "link"));
    }, { g: "g\n" });

  test("keeps its mode and type", () => {
    const dir = added();
    merge(dir, [], (dir) => {
      chmodSync(join(dir, "run.sh"), 0o644);
      unlinkSync(join(dir, "link"));
      write(dir, "link", "f");
    });
    refuses(dir, ["link", "run.sh"], /run\.sh: has the mode 100644 instead of 100755/);
    const good = added();
    merge(good, []);
    passes(good);
  });
});

describe("a file that neither side touched", () => {
  const third = (to: string): string => {
    const dir = apart({ third: text() }, { a: "a\n" }, { b: "b\n" });
    merge(dir, [], { third: to });
    return dir;
  };

  test("may be adapted in a merge, and not replaced", () => {
    passes(third(text({ 5: "adapted to a and b", 6: "and some more" })));
    refuses(third("something else entirely\n"), ["third"], /changed by neither side/);
  });
});

test("a file that stands where the other side has a directory may go where it fits", () => {
  for (const settle of ["a~kept", "kept"]) {
    const dir = apart({ x: "x\n" }, { "a/b": "a directory of hers\n" }, { a: "a file of his\n" });
    merge(dir, [], (dir) => {
      for (const name of ["a~HEAD", "a~feat"]) rmSync(join(dir, name), { force: true });
      write(dir, settle, "a file of his\nand more\n");
    });
    passes(dir);
  }
});

describe("text without spaces between words", () => {
  test("is counted letter by letter", () => {
    const dir = apart(
      { a: "我们在这里写一些文字\n" },
      { a: "我们在这里写一些很长的文字\n" },
      { a: "今天我们在这里写一些文字\n" },
    );
    merge(dir, [], { a: "今天我们在这里写一些很长的文字\n" });
    passes(dir);
    const lost = apart(
      { a: "日本語の文章です。\n" },
      { a: "日本語の長い文章です。\n" },
      { a: "新しい日本語の文章です。\n" },
    );
    merge(lost, ["-s", "ours"]);
    refuses(lost, ["a"]);
  });
});
