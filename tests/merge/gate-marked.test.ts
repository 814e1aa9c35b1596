/** What the gate makes of conflict markers in a merge, and of what came of them later. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, test } from "node:test";
import { openObjectStore } from "../../src/git/odb.ts";
import { checkGate, type GateVerdict } from "../../src/merge/gate.ts";
import { commit, git, makeRepo, tempDir, tryGit, write } from "../helpers/git.ts";

type Step = Record<string, string> | ((dir: string) => void);

const FILE = (middle: string): string => `head\n${middle}\ntail\n`;
const HERS = "mid written by ALICE carefully";
const HIS = "mid hacked BOB quickly";
const BOTH = { f: FILE(`${HERS}\n${HIS}`) };

function step(dir: string, what: Step, message = "later"): void {
  if (typeof what === "function") what(dir);
  else for (const [path, data] of Object.entries(what)) write(dir, path, data);
  git(dir, "add", "-A");
  git(dir, "commit", "-q", "--allow-empty", "-m", message);
}

/** A merge with a conflict in `f`, committed as it is left by `settle`. */
function conflicted(settle: Step = {}, more: Record<string, string> = {}): string {
  const dir = makeRepo(tempDir());
  commit(dir, "base", { f: FILE("mid original"), o: "other\n", ...more });
  git(dir, "checkout", "-q", "-b", "feat");
  commit(dir, "his", { f: FILE(HIS) });
  git(dir, "checkout", "-q", "main");
  commit(dir, "hers", { f: FILE(HERS) });
  git(dir, "checkout", "-q", "feat");
  tryGit(dir, ["merge", "-q", "--no-commit", "main"]);
  step(dir, settle, "merge");
  return dir;
}

function judge(dir: string, drops: string[] = []): GateVerdict {
  const db = openObjectStore(join(dir, ".git/objects"));
  try {
    const [tip, candidate] = [git(dir, "rev-parse", "main"), git(dir, "rev-parse", "HEAD")];
    return checkGate(db, { tip, candidate, drops });
  } finally {
    db.close();
  }
}

function refuses(dir: string, files: string[], report: RegExp, drops: string[] = []): void {
  const verdict = judge(dir, drops);
  assert.equal(verdict.ok, false, "the gate let it through");
  if (verdict.ok) return;
  assert.deepEqual(verdict.files, files);
  assert.match(verdict.report, report);
}

const passes = (dir: string, drops: string[] = []): void =>
  assert.deepEqual(judge(dir, drops), { ok: true });

describe("markers that a later commit takes out", () => {
  const sloppy: Record<string, Step> = {
    "with one side whole": (dir) => void git(dir, "checkout", "HEAD^1", "--", "f"),
    "with the other": (dir) => void git(dir, "checkout", "HEAD^2", "--", "f"),
    "with the base": (dir) => void git(dir, "checkout", "HEAD^2^", "--", "f"),
    "with one side and more": { f: FILE(`${HIS}\nand bob goes on`) },
    "under another name": (dir) => {
      git(dir, "mv", "f", "g");
      write(dir, "g", FILE(HIS));
    },
  };
  for (const [how, later] of Object.entries(sloppy)) {
    test(`${how}, lose what the other side did`, () => {
      const dir = conflicted();
      step(dir, later);
      refuses(dir, ["f"], /now that its conflict markers are out/);
      step(dir, { o: "more\n" });
      refuses(dir, ["f"], /now that its conflict markers are out/);
      passes(dir, ["f"]);
    });
  }

  test("with one of several lines gone", () => {
    const dir = makeRepo(tempDir());
    const list = (...items: string[]): string => FILE(["first", ...items].join("\n"));
    commit(dir, "base", { f: list() });
    git(dir, "checkout", "-q", "-b", "feat");
    commit(dir, "his", { f: list("B-one") });
    git(dir, "checkout", "-q", "main");
    commit(dir, "hers", { f: list("A-one added", "A-two supplied", "A-three given") });
    git(dir, "checkout", "-q", "feat");
    tryGit(dir, ["merge", "-q", "--no-commit", "main"]);
    step(dir, {}, "merge");
    step(dir, { f: list("A-one added", "A-three given", "B-one") });
    refuses(dir, ["f"], /A-two supplied/);
    step(dir, { f: list("A-one added", "A-two supplied", "A-three given", "B-one") });
    passes(dir);
  });

  test("with both sides' lines, in one step or two, in place or under another name, pass", () => {
    const dir = conflicted();
    step(dir, BOTH);
    passes(dir);
    // What stood there once may be changed.
    step(dir, { f: FILE(HIS) });
    passes(dir);
    const two = conflicted();
    step(two, { f: FILE(HIS) });
    step(two, BOTH);
    passes(two);
    const moved = conflicted();
    step(moved, (dir) => {
      git(dir, "mv", "f", "g");
      write(dir, "g", BOTH.f);
    });
    passes(moved);
  });

  test("with the whole file pass", () => {
    const dir = conflicted();
    step(dir, (dir) => void git(dir, "rm", "-q", "f"));
    passes(dir);
  });
});

describe("markers", () => {
  test("aren't published by a drop", () => {
    const dir = conflicted();
    for (const drops of [["f"], ["*"], []]) refuses(dir, ["f"], /has conflict markers/, drops);
    step(dir, { f: FILE(HIS) });
    passes(dir, ["f"]);
  });

  test("in a file that the merge puts in", () => {
    for (const name of ["f.orig", "deep/.backup/f"]) {
      const dir = conflicted((dir) => {
        write(dir, name, git(dir, "show", "AUTO_MERGE:f") + "\n");
        write(dir, "f", BOTH.f);
      });
      refuses(dir, [name], /has conflict markers/);
      step(dir, { o: "more\n" });
      refuses(dir, [name], /has conflict markers/);
      step(dir, (dir) => void git(dir, "mv", name, "kept"));
      refuses(dir, [name], /has conflict markers/);
      step(dir, (dir) => void git(dir, "rm", "-q", "kept"));
      passes(dir);
    }
  });

  test("indented, quoted or commented out", () => {
    for (const before of ["# ", "    ", "> ", "+", "// ", " * "]) {
      const signs =
        `${before}<<<<<<< HEAD\n${HIS}\n${before}=======\n${HERS}\n${before}>>>>>>> main`;
      const dir = conflicted({ f: FILE(signs) });
      refuses(dir, ["f"], /has conflict markers/);
      step(dir, { f: FILE(`${HIS}\n${HERS}\n${before}>>>>>>> main`) });
      refuses(dir, ["f"], /has conflict markers/);
      step(dir, BOTH);
      passes(dir);
    }
  });

  test("that a parent has, here or in a file of another name, are text", () => {
    const doc = "A conflict:\n\n    <<<<<<< ours\n    a\n    =======\n    b\n    >>>>>>> theirs\n";
    const plain = doc.replaceAll("    ", "");
    for (const text of [doc, plain]) {
      const dir = conflicted(BOTH, { doc: text });
      passes(dir);
      const moved = conflicted((dir) => {
        write(dir, "f", BOTH.f);
        git(dir, "mv", "doc", "guide");
      }, { doc: text });
      passes(moved);
      const own = conflicted(BOTH);
      step(own, { doc: text });
      passes(own);
    }
  });

  test("that are headings, rules or arrows are none", () => {
    const dir = conflicted({
      ...BOTH,
      new: "Title\n=======\n\n<<<<<<< left\n>>>>>>> right\n\n>>>>>>> a\n=======\n<<<<<<< b\n",
    });
    passes(dir);
  });
});
