/** The gate, on histories that real git made. */
import assert from "node:assert/strict";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { openObjectStore } from "../../../src/git/odb.ts";
import { checkGate, dropMatcher, type GateVerdict } from "../../../src/merge/gate.ts";
import { commit, git, makeRepo, tempDir, tryGit, write } from "../../helpers/git.ts";

const BODY = Array.from({ length: 20 }, (_, i) => `const value${i} = compute${i}(argument${i});\n`);
const body = (changes: Record<number, string> = {}): string =>
  BODY.map((l, i) => changes[i] ?? l).join("");

interface Scene {
  dir: string;
  tip: string;
  /** Merges main into the checked-out candidate; conflicts are left for the test to settle. */
  merge(...args: string[]): void;
  judge(options?: { drops?: string[] }): GateVerdict;
}

/** Branch `feat` and `main` apart: each changes its own file, adds one, and both change `both.ts`. */
function scene(conflict = false): Scene {
  const dir = makeRepo(tempDir());
  commit(dir, "base", {
    "ours.ts": body(),
    "theirs.ts": body(),
    "both.ts": body(),
    "old.ts": body({ 0: "old file of its own\n" }),
    "run.sh": "#!/bin/sh\necho hello world\n",
  });
  git(dir, "checkout", "-q", "-b", "feat");
  commit(dir, "feature", {
    "ours.ts": body({ 3: "const feature = featureWork(one, two);\n" }),
    "feature.ts": "export const brandNew = somethingElse();\n",
    "both.ts": body({ 2: "const fromFeature = featureSide();\n" }),
  });
  git(dir, "checkout", "-q", "main");
  git(dir, "rm", "-q", "old.ts");
  const tip = commit(dir, "main's work", {
    "theirs.ts": body({
      5: "const upstream = upstreamWork(three, four);\n",
      12: "const second = moreUpstream();\n",
    }),
    "added.ts":
      "export const addedUpstream = anotherThing();\nexport const evenMore = yetAnother();\n",
    "both.ts": body({ [conflict ? 2 : 15]: "const fromMain = mainSide();\n" }),
  });
  git(dir, "checkout", "-q", "feat");
  return {
    dir,
    tip,
    merge: (...args) => void tryGit(dir, ["merge", "-q", "--no-edit", ...args, "main"]),
    judge: (options = {}) => {
      const db = openObjectStore(join(dir, ".git/objects"));
      try {
        return checkGate(db, { tip, candidate: git(dir, "rev-parse", "HEAD"), ...options });
      } finally {
        db.close();
      }
    },
  };
}

function refused(verdict: GateVerdict): Extract<GateVerdict, { ok: false }> {
  assert.equal(verdict.ok, false, "the gate let it through");
  return verdict as Extract<GateVerdict, { ok: false }>;
}

describe("the gate refuses", () => {
  test("merge -s ours: every path that only the branch changed", () => {
    const s = scene();
    s.merge("-s", "ours");
    const verdict = refused(s.judge());
    assert.equal(verdict.reason, "a merge on the branch was refused");
    assert.deepEqual(verdict.files, ["added.ts", "both.ts", "old.ts", "theirs.ts"]);
    assert.match(verdict.report, /--drop PATH/);
    for (const name of ["added", "theirs"]) {
      const line = `take it whole: cd .* && git checkout [0-9a-f]{12}\\^2 -- ${name}\\.ts$`;
      assert.match(verdict.report, new RegExp(line, "m"));
    }
    assert.match(verdict.report, /git rm -r -- old\.ts$/m);
    assert.match(verdict.report, /git diff-tree -p .* -- both\.ts \| git apply --3way$/m);
  });

  test("a merge whose tree drops files that only the branch added", () => {
    const s = scene();
    s.merge();
    git(s.dir, "rm", "-q", "added.ts");
    git(s.dir, "commit", "-q", "--amend", "--no-edit");
    assert.deepEqual(refused(s.judge()).files, ["added.ts"]);
  });

  test("a conflict settled by taking one side whole", () => {
    for (const side of ["--ours", "--theirs"]) {
      const s = scene(true);
      s.merge();
      git(s.dir, "checkout", side, "both.ts");
      git(s.dir, "commit", "-qam", "merged");
      assert.deepEqual(refused(s.judge()).files, ["both.ts"], side);
    }
  });

  test("committed conflict markers, and says where they are", () => {
    const s = scene(true);
    s.merge();
    git(s.dir, "commit", "-qam", "merged");
    const verdict = refused(s.judge());
    assert.deepEqual(verdict.files, ["both.ts"]);
    assert.deepEqual(verdict.regions, ["both.ts:3-7"]);
  });

  test("markers of which only some were taken out", () => {
    const s = scene(true);
    s.merge();
    const text = git(s.dir, "show", ":2:both.ts").split("\n");
    text.splice(
      2,
      1,
      "const fromFeature = featureSide();",
      "=======",
      "const fromMain = mainSide();",
    );
    write(s.dir, "both.ts", text.join("\n") + "\n");
    git(s.dir, "commit", "-qam", "merged");
    assert.deepEqual(refused(s.judge()).regions, ["both.ts:4-4"]);
  });

  test("a half-written merge: a file cut short", () => {
    const s = scene();
    s.merge();
    write(s.dir, "added.ts", "export const addedUpstream = anotherThing();\n");
    git(s.dir, "commit", "-qa", "--amend", "--no-edit");
    assert.deepEqual(refused(s.judge()).files, ["added.ts"]);
  });

  test("one of two changes to a file undone", () => {
    const s = scene();
    s.merge();
    write(s.dir, "theirs.ts", body({ 5: "const upstream = upstreamWork(three, four);\n" }));
    git(s.dir, "commit", "-qa", "--amend", "--no-edit");
    const verdict = refused(s.judge());
    assert.deepEqual(verdict.files, ["theirs.ts"]);
    assert.match(verdict.report, /line 13 of its version/);
  });

  test("a changed file replaced by something else", () => {
    const s = scene();
    s.merge();
    write(s.dir, "theirs.ts", body({ 5: "nothing of the kind\n", 12: "nor here\n" }));
    git(s.dir, "commit", "-qa", "--amend", "--no-edit");
    assert.deepEqual(refused(s.judge()).files, ["theirs.ts"]);
  });

  test("a deleted file that is back", () => {
    const s = scene();
    s.merge();
    write(s.dir, "old.ts", body({ 0: "old file of its own\n" }));
    git(s.dir, "add", "old.ts");
    git(s.dir, "commit", "-q", "--amend", "--no-edit");
    assert.deepEqual(refused(s.judge()).files, ["old.ts"]);
  });

  test("an executable bit that is gone", () => {
    const s = scene();
    git(s.dir, "checkout", "-q", "main");
    git(s.dir, "update-index", "--chmod=+x", "run.sh");
    git(s.dir, "commit", "-qm", "executable");
    git(s.dir, "checkout", "-qf", "feat");
    s.merge();
    git(s.dir, "update-index", "--chmod=-x", "run.sh");
    git(s.dir, "commit", "-q", "--amend", "--no-edit");
    const db = openObjectStore(join(s.dir, ".git/objects"));
    const verdict = checkGate(db, {
      tip: git(s.dir, "rev-parse", "main"),
      candidate: git(s.dir, "rev-parse", "HEAD"),
    });
    assert.deepEqual(refused(verdict).files, ["run.sh"]);
  });

  test("a bad merge that a formatter ran over later", () => {
    const s = scene();
    s.merge("-s", "ours");
    commit(
      s.dir,
      "format",
      Object.fromEntries(
        ["ours.ts", "theirs.ts", "both.ts"].map((
          name,
        ) => [name, git(s.dir, "show", `HEAD:${name}`).replaceAll("(", "( ") + "\n"]),
      ),
    );
    assert.ok(refused(s.judge()).files.includes("theirs.ts"));
  });

  test("a merge of another branch in which work was lost, below a good one", () => {
    const s = scene();
    git(s.dir, "checkout", "-q", "-b", "side", "main~1");
    commit(s.dir, "side work", { "side.ts": "export const sideOnly = sideThing();\n" });
    git(s.dir, "checkout", "-q", "feat");
    git(s.dir, "merge", "-q", "-s", "ours", "--no-edit", "side");
    s.merge();
    assert.deepEqual(refused(s.judge()).files, ["side.ts"]);
  });

  test("a lander's merge with conflicts, naming their lines", () => {
    const s = scene(true);
    const verdict = refused(s.judge());
    assert.equal(verdict.reason, "merge refused");
    assert.deepEqual(verdict.files, ["both.ts"]);
    assert.deepEqual(verdict.regions, ["both.ts:3-7"]);
    assert.match(verdict.report, /both\.ts \(content, lines 3-7\)/);
  });

  test("a tree that isn't what merging gives", () => {
    const s = scene();
    const db = openObjectStore(join(s.dir, ".git/objects"));
    const candidate = git(s.dir, "rev-parse", "HEAD");
    const verdict = checkGate(db, {
      tip: s.tip,
      candidate,
      tree: git(s.dir, "rev-parse", "HEAD^{tree}"),
    });
    const { files, report } = refused(verdict);
    assert.deepEqual(files, ["added.ts", "both.ts", "old.ts", "theirs.ts"]);
    assert.match(report, /added\.ts: .* \[changed on the branch\]/);
  });
});

describe("the gate lets through", () => {
  const passes = (s: Scene, drops?: string[]): void =>
    assert.deepEqual(s.judge(drops ? { drops } : {}), { ok: true });

  test("a candidate without merges, and one that git merged", () => {
    const s = scene();
    passes(s);
    s.merge();
    passes(s);
  });

  test("a conflict settled with both sides in it", () => {
    const s = scene(true);
    s.merge();
    write(
      s.dir,
      "both.ts",
      body({ 2: "const fromFeature = featureSide();\nconst fromMain = mainSide();\n" }),
    );
    git(s.dir, "commit", "-qam", "merged");
    passes(s);
  });

  test("a bad merge mended by a later commit", () => {
    const s = scene();
    s.merge("-s", "ours");
    git(s.dir, "checkout", "main", "--", "added.ts", "theirs.ts");
    git(s.dir, "rm", "-q", "old.ts");
    commit(s.dir, "mended", {
      "both.ts": body({
        2: "const fromFeature = featureSide();\n",
        15: "const fromMain = mainSide();\n",
      }),
    });
    passes(s);
  });

  test("a later commit that changes, reverts, renames or deletes what was merged", () => {
    const s = scene();
    s.merge();
    commit(s.dir, "change", { "theirs.ts": body({ 5: "something else on purpose\n" }) });
    git(s.dir, "rm", "-q", "added.ts");
    git(s.dir, "mv", "both.ts", "renamed.ts");
    git(s.dir, "commit", "-qm", "rename and delete");
    passes(s);
    git(s.dir, "revert", "--no-edit", "HEAD");
    passes(s);
  });

  test("a formatter run over the whole tree, after the merge or within it", () => {
    for (const within of [false, true]) {
      const s = scene();
      s.merge();
      for (const name of ["ours.ts", "theirs.ts", "both.ts", "added.ts", "feature.ts"]) {
        const text = git(s.dir, "show", `HEAD:${name}`);
        write(s.dir, name, text.replaceAll("(", "(\n    ").replaceAll("const ", "const\t") + "\n");
      }
      git(s.dir, "commit", "-qa", ...(within ? ["--amend", "--no-edit"] : ["-m", "format"]));
      passes(s);
    }
  });

  test("a merged file that is adapted or stands under another name", () => {
    const s = scene();
    s.merge();
    git(s.dir, "mv", "added.ts", "moved.ts");
    write(
      s.dir,
      "theirs.ts",
      body({
        5: "const upstream = upstreamWork(three, four, five);\n",
        12: "const second = moreUpstream();\n",
      }),
    );
    git(s.dir, "commit", "-qa", "--amend", "--no-edit");
    passes(s);
  });

  test("either answer to modify/delete that keeps the change", () => {
    const s = scene();
    commit(s.dir, "changed here", { "old.ts": body({ 7: "const changedHere = changedToo();\n" }) });
    s.merge();
    git(s.dir, "add", "old.ts");
    git(s.dir, "commit", "-qm", "kept");
    passes(s);
  });

  test("losses that were declared, and no others", () => {
    const s = scene();
    s.merge("-s", "ours");
    passes(s, ["added.ts", "both.ts", "*ld.ts", "theirs.ts"]);
    assert.deepEqual(refused(s.judge({ drops: ["t*"] })).files, ["added.ts", "both.ts", "old.ts"]);
  });

  test("a file with text that looks like markers on either side", () => {
    const dir = makeRepo(tempDir());
    const doc = "Conflicts look like this:\n<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n\nend\n";
    commit(dir, "base", { "doc.md": doc, "x": "1\n" });
    git(dir, "checkout", "-q", "-b", "feat");
    commit(dir, "a", { "doc.md": "Title\n" + doc });
    git(dir, "checkout", "-q", "main");
    const tip = commit(dir, "b", { "doc.md": doc + "More words here\n" });
    git(dir, "checkout", "-q", "feat");
    git(dir, "merge", "-q", "--no-edit", "main");
    rmSync(join(dir, "x"));
    git(dir, "commit", "-qam", "x goes");
    const db = openObjectStore(join(dir, ".git/objects"));
    assert.deepEqual(checkGate(db, { tip, candidate: git(dir, "rev-parse", "HEAD") }), {
      ok: true,
    });
  });
});

test("dropMatcher() takes paths, directories and globs whose stars match slashes", () => {
  const drops = dropMatcher(["a.txt", "dir/", "*.lock", "src/*/gen"]);
  assert.deepEqual(
    ["a.txt", "a.txt2", "dir/x/y", "dirx", "deep/er.lock", "src/a/b/gen"].map(drops),
    [true, false, true, false, true, true],
  );
});
