/** Our merge left in progress in a clone, beside `git merge` in a copy of it: index, files, markers. */
import assert from "node:assert/strict";
import { chmodSync, cpSync, existsSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import fc from "fast-check";
import { leaveMergeInProgress } from "../../src/git/in-progress.ts";
import { openObjectStore } from "../../src/git/odb.ts";
import { openRepository } from "../../src/git/repository.ts";
import { MODE } from "../../src/git/tree.ts";
import { mergeCommits } from "../../src/merge/merge-commits.ts";
import { overlay } from "../../src/merge/overlay.ts";
import { repositoryMergeOptions } from "../../src/merge/repository-options.ts";
import { snapshot } from "../git/worktree-helpers.ts";
import { commit, git, makeRepo, tempDir, tryGit, write } from "../helpers/git.ts";
import { type File, histories, type History, type Step, writeHistory } from "./histories.ts";

/** What somebody who resolves the merge sees. */
function seen(clone: string) {
  const read = (name: string): string | null => {
    const path = join(clone, ".git", name);
    return existsSync(path) ? readFileSync(path, "latin1") : null;
  };
  return {
    index: tryGit(clone, ["ls-files", "-s", "-z"]).stdout,
    files: snapshot(clone),
    status: tryGit(clone, ["status", "--porcelain=v2", "-z", "-uall"]).stdout,
    head: git(clone, "rev-parse", "HEAD"),
    mergeHead: read("MERGE_HEAD"),
    message: read("MERGE_MSG"),
    origHead: read("ORIG_HEAD"),
    autoMerge: read("AUTO_MERGE"),
  };
}

/** Merges `other` into HEAD by git in a copy and by us in the clone itself; false where git gives up or is done. */
async function agree(clone: string, other = "other"): Promise<boolean> {
  const theirs = join(tempDir(), "by-git");
  cpSync(clone, theirs, { recursive: true, verbatimSymlinks: true });
  git(theirs, "update-index", "-q", "--refresh");
  const run = tryGit(theirs, ["merge", "--no-edit", other]);
  if (run.status !== 1 || !existsSync(join(theirs, ".git/MERGE_HEAD"))) return false;
  const repository = openRepository(clone);
  try {
    const { objects } = repository;
    const scratch = overlay(objects);
    const head = git(clone, "rev-parse", "HEAD");
    const tip = git(clone, "rev-parse", other);
    const merged = mergeCommits(scratch, head, tip, {
      ...repositoryMergeOptions(repository),
      labels: { ours: "HEAD", theirs: other },
    });
    assert.equal(merged.clean, false);
    const outcome = await leaveMergeInProgress(repository, merged, {
      objects: scratch,
      message: `Merge branch '${other}'`,
    });
    assert.equal(outcome.left, true, JSON.stringify(outcome));
  } finally {
    repository.close();
  }
  assert.deepEqual(seen(clone), seen(theirs));
  return true;
}

/** Submodules and links can't be checked out from what made-up histories have for them: files instead. */
function filesOnly(history: History): History {
  const plain = (mode: number): number =>
    mode === MODE.symlink || mode === MODE.gitlink ? MODE.file : mode;
  const file = ({ mode, lines }: File): File => ({ mode: plain(mode), lines });
  const step = (one: Step): Step =>
    one.kind === "add"
      ? { ...one, file: file(one.file) }
      : one.kind === "mode"
      ? { ...one, mode: plain(one.mode) }
      : one;
  return {
    files: Object.fromEntries(Object.entries(history.files).map(([path, f]) => [path, file(f)])),
    commits: history.commits.map((made) => ({ ...made, steps: made.steps.map(step) })),
  };
}

/** A clone with `main` checked out and a branch `other`. */
function clone(
  base: Record<string, string>,
  ours: (dir: string) => void,
  theirs: (dir: string) => void,
): string {
  const dir = makeRepo(tempDir());
  commit(dir, "base", base);
  git(dir, "checkout", "-q", "-b", "other");
  theirs(dir);
  commit(dir, "theirs");
  git(dir, "checkout", "-q", "main");
  ours(dir);
  commit(dir, "ours");
  return dir;
}

const text = (edit: (n: number) => string | null = () => null): string =>
  Array.from({ length: 20 }, (_, i) => edit(i) ?? `line ${i} of the text\n`).join("");
const edited = (word: string, at = 5): string => text((i) => i === at ? `${word}\n` : null);

describe("a merge left in progress is what git merge leaves", () => {
  const kinds: Record<string, [Record<string, string>, (d: string) => void, (d: string) => void]> =
    {
      "content and clean changes beside it": [
        { f: text(), g: text(), gone: "x\n" },
        (d) => write(d, "f", edited("ours")),
        (d) => {
          write(d, "f", edited("theirs"));
          write(d, "g", edited("theirs"));
          write(d, "new/file", "new\n");
          rmSync(join(d, "gone"));
        },
      ],
      "add/add": [
        { x: "" },
        (d) => write(d, "f", edited("ours")),
        (d) => write(d, "f", edited("theirs")),
      ],
      "modify/delete, either way": [
        { f: text(), g: text() },
        (d) => {
          rmSync(join(d, "f"));
          write(d, "g", edited("ours"));
        },
        (d) => {
          write(d, "f", edited("theirs"));
          rmSync(join(d, "g"));
        },
      ],
      "file/directory": [
        { f: text() },
        (d) => {
          rmSync(join(d, "f"));
          write(d, "f/inner", "ours\n");
        },
        (d) => write(d, "f", edited("theirs")),
      ],
      "file/directory, the other way": [
        { f: text() },
        (d) => write(d, "f", edited("ours")),
        (d) => {
          rmSync(join(d, "f"));
          write(d, "f/inner", "theirs\n");
        },
      ],
      "a file and a link": [
        { f: text() },
        (d) => write(d, "f", edited("ours")),
        (d) => {
          rmSync(join(d, "f"));
          symlinkSync("elsewhere", join(d, "f"));
        },
      ],
      "links": [
        { x: "" },
        (d) => symlinkSync("ours", join(d, "link")),
        (d) => symlinkSync("theirs", join(d, "link")),
      ],
      "binary": [
        { f: "a\0b" },
        (d) => write(d, "f", "a\0ours"),
        (d) => write(d, "f", "a\0theirs"),
      ],
      "modes and content": [
        { f: text() },
        (d) => {
          write(d, "f", edited("ours"));
          chmodSync(join(d, "f"), 0o755);
        },
        (d) => write(d, "f", edited("theirs")),
      ],
      "rename/rename to two names": [
        { f: text() },
        (d) => git(d, "mv", "f", "ours"),
        (d) => git(d, "mv", "f", "theirs"),
      ],
      "rename/rename to one name": [
        { a: text(), b: text().replaceAll("line", "row") },
        (d) => git(d, "mv", "a", "c"),
        (d) => git(d, "mv", "b", "c"),
      ],
      "rename/delete": [
        { f: text() },
        (d) => git(d, "mv", "f", "g"),
        (d) => git(d, "rm", "-q", "f"),
      ],
      "rename/add and an edit that follows": [
        { f: text() },
        (d) => {
          git(d, "mv", "f", "g");
          write(d, "g", edited("ours"));
        },
        (d) => {
          write(d, "f", edited("theirs", 12));
          write(d, "g", "added\n");
        },
      ],
      "a directory renamed under an added file": [
        { "d/a": text(), "d/b": edited("b"), "d/c": edited("c") },
        (d) => git(d, "mv", "d", "e"),
        (d) => write(d, "d/new", "new\n"),
      ],
    };
  for (const [name, [base, ours, theirs]] of Object.entries(kinds)) {
    test(name, async () => {
      assert.equal(await agree(clone(base, ours, theirs)), true);
    });
  }

  test("with diff3 markers, longer ones by attribute, and CR LF line ends in the work tree", async () => {
    const dir = clone(
      {
        f: text(),
        ".gitattributes": "f conflict-marker-size=10\n*.crlf text eol=crlf\n",
        "g.crlf": text(),
      },
      (d) => {
        write(d, "f", edited("ours"));
        write(d, "g.crlf", edited("ours"));
      },
      (d) => {
        write(d, "f", edited("theirs"));
        write(d, "g.crlf", edited("theirs"));
      },
    );
    git(dir, "config", "merge.conflictStyle", "zdiff3");
    assert.equal(await agree(dir), true);
    assert.match(readFileSync(join(dir, "f"), "utf8"), /^<{10} HEAD\n/m);
    assert.match(readFileSync(join(dir, "g.crlf"), "utf8"), /^<{7} HEAD\r\n/m);
  });

  test("made-up histories", async () => {
    const cases = fc.sample(histories, { seed: 5, numRuns: 60 });
    let conflicts = 0;
    for (const history of cases) {
      const dir = makeRepo(tempDir());
      const store = openObjectStore(join(dir, ".git/objects"));
      const [ours, theirs] = store.batch(() => writeHistory(store, filesOnly(history)));
      store.close();
      git(dir, "update-ref", "refs/heads/main", ours);
      git(dir, "update-ref", "refs/heads/other", theirs);
      git(dir, "reset", "-q", "--hard", "main");
      if (await agree(dir)) conflicts++;
    }
    assert.ok(conflicts > 20, `${conflicts} conflicts`);
  });
});
