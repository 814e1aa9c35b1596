/** Merging as a clone is configured: drivers, attributes, styles, submodules; compared with git in that clone. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { isAgentqError } from "../../src/errors.ts";
import { openRepository } from "../../src/git/repository.ts";
import { unquoteC } from "../../src/git/quote.ts";
import { byteString } from "../../src/merge/state.ts";
import { expandPlaceholders } from "../../src/merge/driver.ts";
import { pairMerger, toMergeDocument } from "../../src/merge/merge-pair.ts";
import { rawBlob, rawTree } from "../git/worktree-helpers.ts";
import { commit, git, makeRepo, tempDir, tryGit } from "../helpers/git.ts";
import { gitAnswers, ownAnswer } from "./git-merge-tree.ts";

type Files = Record<string, string | Uint8Array>;

/** Branches `one` and `two` from a base; the work tree is left on the base. */
function branches(base: Files, one: Files, two: Files): string {
  const dir = makeRepo(tempDir());
  commit(dir, "base", base);
  for (const [name, files] of [["one", one], ["two", two]] as const) {
    git(dir, "checkout", "-q", "-b", name, "main");
    commit(dir, name, files);
  }
  git(dir, "checkout", "-q", "main");
  return dir;
}

/** Both answers must be the same, down to the marked text. */
function compare(
  dir: string,
  one = "one",
  two = "two",
): { clean: boolean; show(path: string): string } {
  const expected = tryGit(dir, ["merge-tree", "--write-tree", "--no-messages", one, two]);
  const repository = openRepository(dir);
  try {
    const own = pairMerger(repository)(one, two);
    const [tree, ...stages] = expected.stdout.trimEnd().split("\n");
    assert.equal(own.tree, tree, git(dir, "diff", tree!, own.tree));
    assert.equal(own.clean, expected.status === 0);
    assert.deepEqual(
      own.stages.map((s) =>
        `${s.mode.toString(8).padStart(6, "0")} ${s.oid} ${s.stage}\t${s.path}`
      ),
      stages,
    );
    return { clean: own.clean, show: (path) => git(dir, "show", `${own.tree}:${path}`) };
  } finally {
    repository.close();
  }
}

const BOTH: [Files, Files, Files] = [
  { f: "1\n2\n3\n4\n5\n" },
  { f: "1\none\n3\n4\n5\n" },
  { f: "1\ntwo\n3\n4\n5\n" },
];

describe("a merge in a clone gives what git merge-tree gives there", () => {
  test("merge=union, -merge, binary and conflict-marker-size", () => {
    for (
      const attribute of [
        "merge=union",
        "-merge",
        "merge=binary",
        "binary",
        "merge=text",
        "merge=unknown",
      ]
    ) {
      const dir = branches(
        { ...BOTH[0], ".gitattributes": `f ${attribute} conflict-marker-size=12\n` },
        BOTH[1],
        BOTH[2],
      );
      compare(dir);
    }
  });

  test("merge.conflictStyle", () => {
    for (const style of ["merge", "diff3", "zdiff3"]) {
      const dir = branches(...BOTH);
      git(dir, "config", "merge.conflictStyle", style);
      const { show } = compare(dir);
      assert.equal(show("f").includes("|||||||"), style !== "merge");
    }
  });

  test("a driver that the configuration defines: placeholders, conflict, quoting of odd names", () => {
    const name = "it's a $(touch x) name";
    const dir = branches(
      { [name]: "base\n", "g": "base\n", ".gitattributes": "* merge=mine\n" },
      { [name]: "one\n", "g": "one\n" },
      { [name]: "two\n", "g": "two\n" },
    );
    git(
      dir,
      "config",
      "merge.mine.driver",
      "cat %O %B >> %A; echo %L %P 100%% >> %A; test %P != g",
    );
    const { show, clean } = compare(dir);
    assert.equal(clean, false);
    assert.equal(show(name), `one\nbase\ntwo\n7 ${name} 100%`);
  });

  test("%P is quoted as git quotes it, whatever the name needs", () => {
    const names = [
      "plain",
      "d",
      "it's",
      "wow!",
      "a b",
      "new\nline",
      "$(echo x)",
      "\xc3\xbc",
      "\xff\xfe",
      "\xc3'!",
    ];
    const dir = makeRepo(tempDir());
    const at = (content: string, ...parents: string[]) => {
      const oid = rawBlob(dir, content);
      const inner = rawTree(dir, [{ mode: "100644", name: "f", oid }]);
      const entries = names.sort().map((name) =>
        name === "d" ? { mode: "40000", name, oid: inner } : { mode: "100644", name, oid }
      );
      const tree = rawTree(dir, entries);
      return git(dir, "commit-tree", "-m", content, ...parents.flatMap((p) => ["-p", p]), tree);
    };
    const base = at("base\n");
    git(dir, "update-ref", "refs/heads/one", at("one\n", base));
    git(dir, "update-ref", "refs/heads/two", at("two\n", base));
    writeFileSync(join(dir, ".git/info/attributes"), "* merge=mine\n");
    for (
      const driver of [
        "echo %P > %A",
        'echo "%P" > %A',
        "printf '%%s' '%P' > %A",
        "echo %P > %A; exit 3",
      ]
    ) {
      git(dir, "config", "merge.mine.driver", driver);
      const expected = gitAnswers(dir, [["one", "two"]])[0];
      assert.deepEqual(ownAnswer(pairMerger(openRepository(dir))("one", "two")), expected, driver);
    }
  });

  test("an attribute alone runs nothing", () => {
    const dir = branches({ ...BOTH[0], ".gitattributes": "* merge=mine\n" }, BOTH[1], BOTH[2]);
    assert.match(compare(dir).show("f"), /^<<<<<<< one$/m);
  });

  test("a driver without a command is an error", () => {
    const dir = branches({ ...BOTH[0], ".gitattributes": "* merge=mine\n" }, BOTH[1], BOTH[2]);
    git(dir, "config", "merge.mine.name", "no command");
    assert.throws(
      () => pairMerger(openRepository(dir))("one", "two"),
      (error) => isAgentqError(error, "config-invalid"),
    );
  });

  test("merge.text.driver is for merge=text alone", () => {
    const settings: [string, boolean][] = [
      ["", false],
      ["f merge\n", false],
      ["f -merge\n", false],
      ["f !merge\n", false],
      ["f merge=unknown\n", false],
      ["f merge=text\n", true],
    ];
    for (const [attributes, runs] of settings) {
      const dir = branches(...BOTH);
      writeFileSync(join(dir, ".git/info/attributes"), attributes);
      for (const name of ["text", "binary"]) {
        git(dir, "config", `merge.${name}.driver`, "echo driver > %A");
      }
      const { clean, show } = compare(dir);
      assert.deepEqual([clean, show("f") === "driver"], [runs, runs], attributes);
      git(dir, "config", "merge.default", "binary");
      compare(dir);
    }
  });

  test("values of merge.*, diff.* and core.abbrev that mean nothing: ignored or refused as git does", () => {
    const lines = [
      ...["conflictStyle", "directoryRenames", "renameLimit", "renormalize", "default"].flatMap((
        key,
      ) =>
        [
          "",
          "=",
          "= bogus",
          "= TRUE",
          "= 2",
          "= -1",
          "= 1k",
          "= 3000000000",
          "= Conflict",
          "= DIFF3",
        ]
          .map((value) => `[merge]\n${key} ${value}`)
      ),
      ...["", "=", "= x", "= 3000000000", "= 5"].flatMap((value) => [
        `[diff]\nrenameLimit ${value}`,
        `[merge]\nrenameLimit = 5\n[diff]\nrenameLimit ${value}`,
      ]),
      ...["", "=", "= x", "= no", "= AUTO", "= 3", "= 4", "= 40", "= 41", "= -1", "= 12"]
        .map((value) => `[core]\nabbrev ${value}\n[merge]\nconflictStyle = diff3`),
      ...["name", "driver", "recursive"].flatMap((key) => [
        `[merge "other"]\n${key}`,
        `[merge "other"]\n${key} =`,
        `[merge "other"]\n${key}\n${key} = x`,
        `[merge "mine"]\n${key}`,
        `[merge "mine"]\n${key} =`,
      ]),
      "[merge]\ndirectoryRenames\ndirectoryRenames = false",
      "[merge]\ndirectoryRenames = bogus\ndirectoryRenames = true",
      "[merge]\ndirectoryRenames = true\ndirectoryRenames = bogus",
      "[merge]\nrenames = false",
      "[diff]\nrenames = false",
    ];
    const text = Array.from({ length: 20 }, (_, i) => `line ${i}\n`).join("");
    const dir = branches(
      { "f": "1\n2\n3\n", "g": "1\n", "d/a": text, "d/b": text + "b\n", "r": text + "r\n" },
      { "f": "1\none\n3\n", "g": "one\n", "d/c": "new\n", "r": "changed\n" + text + "r\n" },
      { "f": "1\ntwo\n3\n", "g": "two\n" },
    );
    git(dir, "checkout", "-q", "two");
    git(dir, "mv", "d", "e");
    git(dir, "mv", "r", "s");
    git(dir, "commit", "-q", "--amend", "--no-edit");
    git(dir, "checkout", "-q", "main");
    writeFileSync(join(dir, ".git/info/attributes"), "g merge=mine\n");
    const config = readFileSync(join(dir, ".git/config"));
    let refused = 0;
    for (const line of lines) {
      writeFileSync(join(dir, ".git/config"), `${config}${line}\n`);
      const expected = gitAnswers(dir, [["one", "two"]])[0];
      let own;
      try {
        own = ownAnswer(pairMerger(openRepository(dir))("one", "two"));
      } catch (error) {
        if (!isAgentqError(error, "config-invalid")) throw error;
        own = null;
        refused++;
      }
      assert.deepEqual(own, expected, line);
    }
    assert.ok(refused > 20 && refused < lines.length - 20, `${refused} of ${lines.length}`);
  });

  test("merge.renormalize with text and eol", () => {
    const dir = branches(
      { f: "1\n2\n3\n", g: "1\n2\n3\n" },
      { f: "1\r\n2\r\n3\r\nours\r\n" },
      { f: "0\n1\n2\n3\n" },
    );
    writeFileSync(join(dir, ".git/info/attributes"), "* text=auto\n");
    git(dir, "config", "merge.renormalize", "true");
    git(dir, "config", "core.autocrlf", "false");
    assert.equal(compare(dir).clean, true);
  });

  test("merge.renormalize with every kind deleted by one side and changed by the other", () => {
    const dir = makeRepo(tempDir());
    const modes = ["100644", "100755", "120000", "160000"];
    const contents = ["1\n2\n", "1\r\n2\r\n", "1\n3\n", "\r\n", "target\r\n", "target\n"];
    const blob = (mode: string, content: string): string =>
      mode === "160000" ? String(contents.indexOf(content) + 1).repeat(40) : rawBlob(dir, content);
    const made = (entry: [string, string] | null, ...parents: string[]): string => {
      const beside = { mode: "100644", name: "beside", oid: rawBlob(dir, "x\n") };
      const f = entry && { mode: entry[0], name: "f", oid: blob(...entry) };
      const tree = rawTree(dir, f ? [beside, f] : [beside]);
      return git(dir, "commit-tree", "-m", "c", ...parents.flatMap((p) => ["-p", p]), tree);
    };
    const pairs: [string, string][] = [];
    for (const mode of modes) {
      for (const content of contents) {
        const base = made([mode, content]);
        const gone = made(null, base);
        for (const other of contents) {
          const changed = made([mode, other], base);
          pairs.push([gone, changed], [changed, gone]);
        }
        pairs.push([gone, made([modes[(modes.indexOf(mode) + 1) % 4]!, content], base)]);
      }
    }
    writeFileSync(join(dir, ".git/info/attributes"), "* text=auto\n");
    git(dir, "config", "merge.renormalize", "true");
    const merge = pairMerger(openRepository(dir));
    const own = pairs.map(([ours, theirs]) => ownAnswer(merge(ours, theirs)));
    assert.deepEqual(own, gitAnswers(dir, pairs));
    const clean = own.filter((answer) => answer.clean).length;
    assert.ok(clean > 60 && clean < own.length - 60, `${clean} of ${own.length}`);
  });

  test("merge.default, merge.renameLimit and merge.directoryRenames", () => {
    const dir = branches(...BOTH);
    git(dir, "config", "merge.default", "union");
    assert.equal(compare(dir).clean, true);
    const text = Array.from({ length: 20 }, (_, i) => `line ${i}\n`).join("");
    for (const value of ["true", "false", "conflict"]) {
      const moved = branches(
        { "d/a": text, "d/b": text + "b\n" },
        { "d/c": "new\n" },
        { "e/a": text, "e/b": text + "b\n" },
      );
      git(moved, "checkout", "-q", "two");
      git(moved, "rm", "-qr", "d");
      git(moved, "commit", "-q", "--amend", "--no-edit");
      git(moved, "checkout", "-q", "main");
      git(moved, "config", "merge.directoryRenames", value);
      assert.equal(compare(moved).clean, value !== "conflict");
    }
  });

  test("submodules: fast-forwarded where they are checked out, else a conflict", () => {
    const inner = makeRepo(tempDir());
    const ids = ["a", "b", "c"].map((name) => commit(inner, name, { f: name }));
    git(inner, "checkout", "-q", "-b", "aside", ids[1]!);
    ids.push(commit(inner, "aside", { g: "aside" }));
    const link = (id: string): string => `160000,${id},sub`;
    const dir = makeRepo(tempDir());
    const at = (id: string): void => {
      git(dir, "update-index", "--add", "--cacheinfo", link(id));
      git(dir, "commit", "-q", "--allow-empty", "-m", id);
    };
    at(ids[0]!);
    for (const [branch, id] of [["one", ids[1]!], ["two", ids[2]!], ["three", ids[3]!]] as const) {
      git(dir, "checkout", "-q", "-b", branch, "main");
      at(id);
    }
    git(dir, "checkout", "-q", "main");
    assert.equal(compare(dir).clean, false);
    git(dir, "clone", "-q", inner, "sub");
    assert.equal(compare(dir).clean, true);
    assert.equal(compare(dir, "two", "one").clean, true);
    assert.equal(compare(dir, "two", "three").clean, false);
  });

  test("names that differ in case only, spaces, newlines and bytes that are no UTF-8", () => {
    const dir = branches(
      { "Name": "1\n", "name": "2\n", "new\nline": "x\n", "Ünï": "u\n" },
      { "NAME": "3\n", "new\nline": "one\n", "Ünï": "one\n" },
      { "name": "22\n", "new\nline": "two\n", "Ünï": "two\n" },
    );
    const own = pairMerger(openRepository(dir))("one", "two");
    assert.deepEqual(
      own.conflicts.map(({ path }) => Buffer.from(path, "latin1").toString("utf8")),
      ["new\nline", "Ünï"],
    );
    assert.equal(
      own.tree,
      tryGit(dir, ["merge-tree", "--write-tree", "one", "two"]).stdout.slice(0, 40),
    );
  });
});

test("a document shows every name in one form that leads back to its bytes", () => {
  // Byte strings, and what is shown of each.
  const shown: Record<string, string> = {
    "\xff\xfe": '"\\377\\376"',
    "\xc3\xbf\xc3\xbe": "ÿþ",
    '"\\377\\376"': '"\\"\\\\377\\\\376\\""',
    '"': '"\\""',
    'a"b': 'a"b',
    "a\\b": "a\\b",
    "new\nline": "new\nline",
    "x\n\xc3": '"x\\n\\303"',
    "\xc3\x9c\t": "Ü\t",
  };
  const names = Object.keys(shown).sort();
  const dir = makeRepo(tempDir());
  const at = (content: string, ...parents: string[]): string => {
    const oid = rawBlob(dir, content);
    const tree = rawTree(dir, names.map((name) => ({ mode: "100644", name, oid })));
    return git(dir, "commit-tree", "-m", content, ...parents.flatMap((p) => ["-p", p]), tree);
  };
  const base = at("base\n");
  const result = pairMerger(openRepository(dir))(at("one\n", base), at("two\n", base));
  const document = toMergeDocument(result);
  assert.ok("conflicts" in document);
  const paths = document.conflicts.map(({ path }) => path);
  assert.deepEqual(paths, names.map((name) => shown[name]));
  assert.deepEqual(
    paths.map((path) => path.startsWith('"') ? unquoteC(path) : byteString(path)),
    names,
  );
});

test("expandPlaceholders() leaves alone what it doesn't know", () => {
  assert.equal(expandPlaceholders("%A %% %Z %%A 50%", { A: "a" }), "a % %Z %A 50%");
});
