/** Merges of three parents, made by hand where they clash: each one's work is looked for. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { commit, git, makeRepo, tempDir, tryGit, write } from "../../helpers/git.ts";
import { passes, refused, refuses } from "./repo.ts";

const text = (three: string, nine = "alpha line 9"): string =>
  Array.from(
    { length: 16 },
    (_, i) => i === 3 ? three : i === 9 ? nine : `alpha line ${i}`,
  ).join("\n") + "\n";

/** A merge of x, main and y, in this order, with `f` as given in each. */
function octopus(hers: string, x: string, y: string, result: string): string {
  const dir = makeRepo(tempDir());
  const base = commit(dir, "base", { f: text("alpha line 3") });
  const tip = commit(dir, "tip", { f: hers, "hers.txt": "hers\n" });
  const others = [x, y].map((f, i) => {
    git(dir, "checkout", "-q", "--detach", base);
    return commit(dir, "other", { f, [`other${i}.txt`]: "other\n" });
  });
  git(dir, "checkout", "-q", "-B", "feat", others[0]!);
  write(dir, "f", result);
  for (const name of ["hers", "other1"]) write(dir, `${name}.txt`, name.replace(/\d/, "") + "\n");
  git(dir, "add", "-A");
  const parents = [others[0]!, tip, others[1]!].flatMap((parent) => ["-p", parent]);
  const merge = git(dir, "commit-tree", "-m", "octopus", ...parents, git(dir, "write-tree"));
  git(dir, "reset", "-q", "--hard", merge);
  return dir;
}

describe("an octopus whose parents clash", () => {
  const [hers, x, y] = [text("alpha line 3 TIP"), text("X alpha line 3"), text("alpha Y line 3")];
  const all = text("X alpha Y line 3 TIP");

  test("passes with everybody's edit, and is refused without one of them", () => {
    passes(octopus(hers, x, y, all));
    for (const word of ["X ", " TIP", "Y "]) {
      refuses(octopus(hers, x, y, all.replace(word, "")), ["f"]);
    }
  });

  test("of which two do", () => {
    const other = text("alpha line 3", "alpha line 9 Y");
    const both = text("X alpha line 3 TIP", "alpha line 9 Y");
    passes(octopus(hers, x, other, both));
    for (const word of ["X ", " TIP", " Y"]) {
      refuses(octopus(hers, x, other, both.replace(word, "")), ["f"]);
    }
  });

  test("never lacks markers, and never has any", () => {
    const { report } = refused(octopus(hers, x, y, all.replace("X ", "")));
    assert.doesNotMatch(report, /<<<<<<<|=======|>>>>>>>/);
    const marked = all.replace("alpha line 4\n", "<<<<<<< x\nalpha line 4\n=======\n>>>>>>> y\n");
    refuses(octopus(hers, x, y, marked), ["f"], /has conflict markers/);
  });

  test("is made again by merging one after the other, as advised", () => {
    const dir = octopus(hers, x, y, all.replace("X ", ""));
    const { report } = refused(dir);
    const [, go, one, two] =
      /one parent after the other: git (checkout .*?) && git (merge .*?) && git (merge .*)$/m.exec(
        report,
      )!;
    git(dir, ...go!.split(" "));
    for (const [step, settled] of [[one!, text("X alpha line 3 TIP")], [two!, all]] as const) {
      assert.notEqual(tryGit(dir, step.split(" ")).status, 0);
      write(dir, "f", settled);
      git(dir, "add", "-A");
      git(dir, "commit", "-q", "--no-edit");
    }
    git(dir, "checkout", "-q", "-B", "feat");
    passes(dir);
  });
});
