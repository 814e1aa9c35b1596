import { describe, test } from "node:test";
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { Buffer } from "node:buffer";
import { join } from "node:path";
import process from "node:process";
import fc from "fast-check";
import { type AgentqError, isAgentqError } from "../../src/errors.ts";
import {
  leaveMergeInProgress,
  type LeaveOutcome,
  type UnfinishedMerge,
} from "../../src/git/in-progress.ts";
import { recoverMerge } from "../../src/git/in-progress-journal.ts";
import { openRepository } from "../../src/git/repository.ts";
import { uncommittedChanges } from "../../src/git/status.ts";
import { commit, git, gitEnv, makeRepo, tempDir, tryGit, write } from "../helpers/git.ts";
import { snapshot } from "./worktree-helpers.ts";

const slow = { timeout: 300_000 };

/** The merge of HEAD with `theirs` as git computes it, in the shape that ours has. */
function mergeByGit(repo: string, theirs: string): UnfinishedMerge {
  const run = tryGit(repo, ["merge-tree", "--write-tree", "-z", "--no-messages", "HEAD", theirs]);
  assert.ok(run.status <= 1, run.stderr);
  const [tree, ...lines] = run.stdout.split("\0").filter(Boolean);
  const stages = lines.map((line) => {
    const [, mode, oid, stage, path] = /^(\d+) ([0-9a-f]+) ([123])\t(.*)$/s.exec(line)!;
    return {
      path: Buffer.from(path!).toString("latin1"),
      mode: parseInt(mode!, 8),
      oid: oid!,
      stage: Number(stage) as 1 | 2 | 3,
    };
  });
  return {
    ours: git(repo, "rev-parse", "HEAD"),
    theirs: git(repo, "rev-parse", theirs),
    tree: tree!,
    stages,
  };
}

async function leave(
  repo: string,
  theirs = "other",
  merge = mergeByGit(repo, theirs),
): Promise<LeaveOutcome> {
  const repository = openRepository(repo);
  try {
    return await leaveMergeInProgress(repository, merge, { message: `Merge branch '${theirs}'` });
  } finally {
    repository.close();
  }
}

function read(repo: string, name: string): string | null {
  const path = join(repo, ".git", name);
  return existsSync(path) ? readFileSync(path, "utf8") : null;
}

/** Everything by which one can tell that a merge is in progress. */
function state(repo: string) {
  return {
    files: snapshot(repo),
    index: git(repo, "ls-files", "-s", "-t"),
    status: git(repo, "status", "--porcelain=v2", "--branch", "-uall"),
    head: git(repo, "symbolic-ref", "HEAD"),
    metadata: [
      "MERGE_HEAD",
      "MERGE_MSG",
      "MERGE_MODE",
      "ORIG_HEAD",
      "AUTO_MERGE",
      "agentq-merge",
      "index.lock",
    ].map((name) => `${name}: ${read(repo, name)}`),
  };
}

/** Merges by git in one copy and by us in another, and compares. */
async function agree(repo: string): Promise<{ ours: string; outcome: LeaveOutcome }> {
  const top = tempDir();
  const [theirs, ours] = [join(top, "git"), join(top, "ours")];
  cpSync(repo, theirs, { recursive: true, verbatimSymlinks: true });
  cpSync(repo, ours, { recursive: true, verbatimSymlinks: true });
  for (const copy of [theirs, ours]) git(copy, "update-index", "-q", "--refresh");
  const run = tryGit(theirs, ["merge", "--no-commit", "--no-ff", "other"]);
  assert.ok(run.status <= 1, run.stderr);
  const outcome = await leave(ours);
  const expected = state(theirs);
  // --no-ff is what keeps git from finishing a clean merge, and is noted; we never finish one.
  expected.metadata = expected.metadata.map((line) =>
    line === "MERGE_MODE: no-ff" ? "MERGE_MODE: " : line
  );
  if (run.status === 0) {
    expected.metadata = expected.metadata.map((line, i) =>
      i === 4 ? state(ours).metadata[4]! : line
    );
  }
  assert.deepEqual(state(ours), expected);
  assert.equal(outcome.left, true);
  return { ours, outcome };
}

/** Two branches from one base: `main` (checked out) and `other`. */
function branches(
  base: Record<string, string>,
  ours: (repo: string) => void,
  theirs: (repo: string) => void,
): string {
  const repo = makeRepo();
  git(repo, "config", "core.commentChar", "#");
  commit(repo, "base", { "untouched/file": "same\n", ...base });
  git(repo, "checkout", "-q", "-b", "other");
  theirs(repo);
  commit(repo, "theirs");
  git(repo, "checkout", "-q", "main");
  ours(repo);
  commit(repo, "ours");
  return repo;
}

/** Changes of every kind below `out`, for a sparse checkout of `in`. */
const outsiders = () =>
  branches(
    {
      "out/clean": "1\n",
      "out/conflict": "1\n",
      "out/gone": "1\n",
      "more/deep/kept": "1\n",
      "in/f": "1\n",
    },
    (r) => write(r, "out/conflict", "2\n"),
    (r) => {
      write(r, "out/conflict", "3\n");
      write(r, "out/clean", "3\n");
      write(r, "out/new", "3\n");
      write(r, "in/f", "3\n");
      rmSync(join(r, "out/gone"));
    },
  );

const conflicting = () =>
  branches({ "f": "1\n2\n3\n", "gone": "x\n" }, (r) => write(r, "f", "1\nours\n3\n"), (r) => {
    write(r, "f", "1\ntheirs\n3\n");
    write(r, "new/file", "n\n");
    rmSync(join(r, "gone"));
  });

describe("leaveMergeInProgress()", () => {
  const cases: Record<string, () => string> = {
    "a content conflict beside clean changes": conflicting,
    "both added": () =>
      branches({}, (r) => write(r, "a/n", "ours\n"), (r) => write(r, "a/n", "theirs\n")),
    "deleted by them": () =>
      branches({ f: "1\n" }, (r) => write(r, "f", "2\n"), (r) => rmSync(join(r, "f"))),
    "deleted by us": () =>
      branches({ f: "1\n" }, (r) => rmSync(join(r, "f")), (r) => write(r, "f", "2\n")),
    "a file against a directory": () =>
      branches({ keep: "" }, (r) => write(r, "d", "file\n"), (r) => write(r, "d/inner", "i\n")),
    "a directory against a file": () =>
      branches({ keep: "" }, (r) => write(r, "d/inner", "i\n"), (r) => write(r, "d", "file\n")),
    "a directory that becomes a file, clean": () =>
      branches({ "d/a": "1\n", "d/b": "2\n" }, (r) => write(r, "x", "x\n"), (r) => {
        rmSync(join(r, "d"), { recursive: true });
        write(r, "d", "now a file\n");
      }),
    "renamed and changed": () =>
      branches(
        { f: "1\n2\n3\n4\n5\n6\n" },
        (r) => git(r, "mv", "f", "g"),
        (r) => write(r, "f", "1\n2\n3\n4\n5\ntheirs\n"),
      ),
    "renamed by both": () =>
      branches(
        { f: "1\n2\n3\n4\n5\n6\n" },
        (r) => git(r, "mv", "f", "g"),
        (r) => git(r, "mv", "f", "h"),
      ),
    "a binary": () =>
      branches({ f: "\0base" }, (r) => write(r, "f", "\0ours"), (r) => write(r, "f", "\0theirs")),
    "links and modes": () =>
      branches({ f: "1\n", "run.sh": "x\n" }, (r) => {
        rmSync(join(r, "f"));
        symlinkSync("ours", join(r, "f"));
      }, (r) => {
        rmSync(join(r, "f"));
        symlinkSync("theirs", join(r, "f"));
        chmodSync(join(r, "run.sh"), 0o755);
        symlinkSync("f", join(r, "link"));
      }),
    "names with spaces and other bytes": () =>
      branches({ "a b": "1\n", "ü": "1\n" }, (r) => {
        write(r, "a b", "2\n");
        write(r, "ü", "2\n");
      }, (r) => {
        write(r, "a b", "3\n");
        write(r, "ü", "3\n");
      }),
    "nothing but clean changes": () =>
      branches({ f: "1\n" }, (r) => write(r, "o", "o\n"), (r) => write(r, "f", "2\n")),
    "converted line ends": () =>
      branches(
        { ".gitattributes": "* text=auto eol=crlf\n", f: "1\n2\n3\n" },
        (r) => write(r, "f", "1\nours\n3\n"),
        (r) => {
          write(r, "f", "1\ntheirs\n3\n");
          write(r, "new", "a\nb\n");
        },
      ),
  };
  for (const [name, make] of Object.entries(cases)) {
    test(`leaves what git merge leaves: ${name}`, slow, async () => {
      await agree(make());
    });
  }

  test("leaves what git merge leaves after generated edits", slow, async () => {
    const path = fc.constantFrom("a", "b", "d/a", "d/b", "d", "e/f/g");
    const edit = fc.record({
      path,
      kind: fc.constantFrom("write", "write", "remove", "link", "exec"),
      text: fc.constantFrom("1\n2\n3\n", "1\n2\n3\n4\n", "0\n1\n2\n3\n", "x\n"),
    });
    const apply = (repo: string, edits: { path: string; kind: string; text: string }[]) => {
      for (const { path, kind, text } of edits) {
        const full = join(repo, path);
        try {
          if (kind === "write") write(repo, path, text);
          if (kind === "remove") rmSync(full, { recursive: true });
          if (kind === "exec") chmodSync(full, 0o755);
          if (kind === "link") {
            rmSync(full, { recursive: true, force: true });
            symlinkSync(text.trim(), full);
          }
        } catch {
          // The path is of another kind by now.
        }
      }
    };
    await fc.assert(
      fc.asyncProperty(
        fc.dictionary(
          fc.constantFrom("a", "b", "d/a", "d/b", "e/f/g"),
          fc.constantFrom("1\n2\n3\n", "x\n"),
        ),
        fc.array(edit, { minLength: 1, maxLength: 5 }),
        fc.array(edit, { minLength: 1, maxLength: 5 }),
        async (base, ours, theirs) => {
          await agree(branches(base, (r) => apply(r, ours), (r) => apply(r, theirs)));
        },
      ),
      { numRuns: Number(process.env.AGENTQ_RUNS ?? 12) },
    );
  });

  test("lets git commit finish it and git merge --abort take it back", slow, async () => {
    const repo = conflicting();
    const before = snapshot(repo);
    const outcome = await leave(repo);
    assert.deepEqual(outcome, { left: true, conflicts: ["f"], unfiltered: [] });
    assert.equal(git(repo, "status", "--porcelain"), "UU f\nD  gone\nA  new/file");
    git(repo, "merge", "--abort");
    assert.deepEqual(snapshot(repo), before);
    assert.equal(git(repo, "status", "--porcelain"), "");
    assert.equal((await leave(repo)).left, true);
    write(repo, "f", "1\nresolved\n3\n");
    git(repo, "add", "f");
    git(repo, "commit", "-q", "--no-edit");
    assert.equal(
      git(repo, "log", "-1", "--format=%s %P"),
      `Merge branch 'other' ${git(repo, "rev-parse", "HEAD^1")} ${git(repo, "rev-parse", "other")}`,
    );
    git(repo, "fsck", "--strict");
  });

  test("writes the message for every comment character and cleanup mode", slow, async () => {
    for (const char of ["#", ";", "auto"]) {
      for (const cleanup of ["default", "strip", "whitespace", "verbatim", "scissors"]) {
        const repo = conflicting();
        git(repo, "config", "core.commentChar", char);
        git(repo, "config", "commit.cleanup", cleanup);
        await agree(repo);
      }
    }
  });

  test("works in a linked worktree and on a detached HEAD", slow, async () => {
    const repo = conflicting();
    const linked = join(tempDir(), "linked");
    git(repo, "worktree", "add", "-q", "--detach", linked, "main");
    assert.equal((await leave(linked)).left, true);
    assert.match(git(linked, "status", "--porcelain"), /^UU f$/m);
    assert.equal(git(repo, "status", "--porcelain"), "");
  });

  test("writes conflicts, and nothing else, outside a sparse checkout", slow, async () => {
    const repo = outsiders();
    git(repo, "sparse-checkout", "set", "--cone", "in");
    await agree(repo);
  });

  test(
    "does the same where the index is sparse, and git goes on with what it finds",
    slow,
    async () => {
      for (const outside of [[], ["out/clean"], ["out/gone", "more/deep/kept"]]) {
        const repo = outsiders();
        git(repo, "sparse-checkout", "set", "--cone", "--sparse-index", "in");
        for (const path of outside) write(repo, path, "1\n");
        const before = git(repo, "ls-files", "-s");
        const { ours } = await agree(repo);
        assert.match(git(ours, "ls-files", "-t"), /^S out\/new$/m);
        const resolved = join(tempDir(), "resolved");
        cpSync(ours, resolved, { recursive: true });
        tryGit(resolved, ["update-index", "-q", "--refresh"]);

        git(ours, "merge", "--abort");
        assert.equal(git(ours, "ls-files", "-s"), before);
        assert.equal(git(ours, "status", "--porcelain"), "");
        git(ours, "sparse-checkout", "reapply");
        assert.match(git(ours, "ls-files", "--sparse"), /^more\/$/m);

        write(resolved, "out/conflict", "both\n");
        git(resolved, "add", "--sparse", "out/conflict");
        git(resolved, "commit", "-q", "--no-edit");
        git(resolved, "sparse-checkout", "reapply");
        assert.match(git(resolved, "ls-files", "--sparse"), /^more\/$/m);
        assert.equal(git(resolved, "status", "--porcelain"), "");
        git(resolved, "fsck", "--strict");
        assert.equal(
          git(resolved, "ls-tree", "-r", "--name-only", "HEAD"),
          "in/f\nmore/deep/kept\nout/clean\nout/conflict\nout/new\nuntouched/file",
        );
        assert.equal(git(resolved, "show", "HEAD:out/clean"), "3");
        git(resolved, "sparse-checkout", "disable");
        assert.equal(readFileSync(join(resolved, "more/deep/kept"), "utf8"), "1\n");
        assert.equal(git(resolved, "status", "--porcelain"), "");
      }
    },
  );

  test("changes a split index too, which is whole afterwards", slow, async () => {
    const repo = conflicting();
    git(repo, "update-index", "--split-index");
    assert.match(read(repo, "index")!, /link/);
    const { ours } = await agree(repo);
    const aborted = join(tempDir(), "aborted");
    cpSync(ours, aborted, { recursive: true });
    tryGit(aborted, ["update-index", "-q", "--refresh"]);
    git(aborted, "merge", "--abort");
    assert.deepEqual(snapshot(aborted), snapshot(repo));
    assert.equal(git(aborted, "status", "--porcelain"), "");
    write(ours, "f", "both\n");
    git(ours, "add", "f");
    git(ours, "-c", "core.splitIndex=true", "commit", "-q", "--no-edit");
    assert.match(read(ours, "index")!, /link/);
    assert.equal(git(ours, "status", "--porcelain"), "");
    assert.equal(git(ours, "ls-tree", "-r", "--name-only", "HEAD"), "f\nnew/file\nuntouched/file");
    git(ours, "fsck", "--strict");
  });

  test("a directory's tree that a partial clone lacks is asked for by id", slow, async () => {
    const repo = outsiders();
    git(repo, "sparse-checkout", "set", "--cone", "--sparse-index", "in");
    const merge = mergeByGit(repo, "other");
    const oid = git(repo, "rev-parse", "HEAD:more/deep");
    const file = join(repo, ".git/objects", oid.slice(0, 2), oid.slice(2));
    const bytes = readFileSync(file);
    rmSync(file);
    const before = snapshot(repo);
    await assert.rejects(
      leave(repo, "other", merge),
      (error) =>
        isAgentqError(error, "object-missing") && (error as AgentqError).details?.oid === oid,
    );
    assert.deepEqual(snapshot(repo), before);
    assert.equal(read(repo, "agentq-merge"), null);
    writeFileSync(file, bytes);
    assert.equal((await leave(repo, "other", merge)).left, true);
  });

  test("tells why it leaves everything alone", slow, async () => {
    const attempts: [string, (repo: string) => void][] = [
      ["uncommitted changes", (r) => appendFileSync(join(r, "untouched/file"), "x")],
      ["uncommitted changes", (r) => {
        write(r, "staged", "x");
        git(r, "add", "staged");
      }],
      ["uncommitted changes", (r) => {
        git(r, "update-index", "--assume-unchanged", "f");
        write(r, "f", "hidden work");
      }],
      ["uncommitted changes", (r) => {
        git(r, "update-index", "--skip-worktree", "f");
        write(r, "f", "hidden work");
      }],
      ["untracked files", (r) => write(r, "new/file", "mine")],
      ["untracked files", (r) => write(r, "new", "mine")],
      ["untracked files", (r) => write(r, "new/file/deep", "mine")],
      ["untracked files", (r) => {
        write(r, ".git/info/exclude", "new\n");
        write(r, "new/file", "ignored, but mine");
      }],
      ["untracked files", (r) => symlinkSync(tempDir(), join(r, "new"))],
      ["operation in progress", (r) => git(r, "bisect", "start")],
      ["HEAD moved", (r) => git(r, "commit", "-q", "--allow-empty", "-m", "more")],
      ["index-locked", (r) => writeFileSync(join(r, ".git/index.lock"), "")],
    ];
    for (const [reason, prepare] of attempts) {
      const repo = conflicting();
      const merge = mergeByGit(repo, "other");
      prepare(repo);
      const before = {
        files: snapshot(repo),
        metadata: [read(repo, "MERGE_HEAD"), read(repo, "MERGE_MSG"), read(repo, "agentq-merge")],
        index: readFileSync(join(repo, ".git/index")),
      };
      const outcome = await leave(repo, "other", merge);
      assert.equal(outcome.left ? "left" : outcome.reason, reason, prepare.toString());
      assert.deepEqual({
        files: snapshot(repo),
        metadata: [read(repo, "MERGE_HEAD"), read(repo, "MERGE_MSG"), read(repo, "agentq-merge")],
        index: readFileSync(join(repo, ".git/index")),
      }, before);
      if (!outcome.left) assert.ok(outcome.message.length > 10);
    }
    const bare = join(tempDir(), "bare.git");
    const repo = conflicting();
    git(repo, "clone", "-q", "--bare", repo, bare);
    const outcome = await leave(bare, "other", mergeByGit(repo, "other"));
    assert.equal(outcome.left ? "left" : outcome.reason, "no work tree");
  });

  test("puts everything back when it can't go on in the middle", slow, async () => {
    const repo = branches({ f: "1\n", "a": "1\n" }, (r) => write(r, "f", "2\n"), (r) => {
      write(r, "f", "3\n");
      write(r, "a", "3\n");
      write(r, "b/c", "3\n");
    });
    const merge = mergeByGit(repo, "other");
    const before = snapshot(repo);
    const repository = openRepository(repo);
    // The last object that is asked for is gone: the files before it are written by then.
    const objects = Object.create(repository.objects);
    const last = git(repo, "rev-parse", `${merge.tree}:f`);
    objects.read = (oid: string) => {
      if (oid === last) throw Object.assign(new Error("no space"), { code: "ENOSPC" });
      return repository.objects.read(oid);
    };
    const broken = Object.create(repository, { objects: { value: objects } });
    await assert.rejects(leaveMergeInProgress(broken, merge, { message: "m" }), /no space/);
    assert.deepEqual(snapshot(repo), before);
    assert.equal(git(repo, "status", "--porcelain"), "");
    assert.equal(read(repo, "agentq-merge"), null);
    assert.equal((await leave(repo, "other", merge)).left, true);
  });
});

describe("recoverMerge()", () => {
  const journal = (merge: UnfinishedMerge) =>
    JSON.stringify({
      v: 1,
      nonce: "0123456789abcdef",
      ours: merge.ours,
      theirs: merge.theirs,
      tree: merge.tree,
      message: "Merge branch 'other'",
      conflicts: [...new Set(merge.stages.map(({ path }) => path))],
    });

  test("undoes files at every point of progress, and only its own", slow, async () => {
    const repo = conflicting();
    const merge = mergeByGit(repo, "other");
    const done = join(tempDir(), "done");
    cpSync(repo, done, { recursive: true });
    await leave(done);
    const paths = ["f", "gone", "new/file"];
    for (let subset = 0; subset < 8; subset++) {
      const copy = join(tempDir(), "copy");
      cpSync(repo, copy, { recursive: true });
      const before = snapshot(copy);
      paths.forEach((path, i) => {
        if ((subset & (1 << i)) === 0) return;
        if (existsSync(join(done, path))) {
          mkdirSync(join(copy, "new"), { recursive: true });
          copyFileSync(join(done, path), join(copy, path));
        } else rmSync(join(copy, path));
      });
      write(copy, ".agentq-0123456789abcdef", "half");
      write(copy, "untouched/other", "mine");
      writeFileSync(join(copy, ".git/agentq-merge"), journal(merge));
      assert.deepEqual(recoverMerge(openRepository(copy)), { outcome: "undone", paths: [] });
      assert.deepEqual(snapshot(copy), { ...before, "untouched/other": "file mine" });
      assert.deepEqual(uncommittedChanges(openRepository(copy)), []);
      assert.equal(read(copy, "agentq-merge"), null);
    }
  });

  test("undoes a merge in a sparse checkout without writing what wasn't there", slow, async () => {
    for (const kind of ["--no-sparse-index", "--sparse-index"]) {
      const repo = outsiders();
      git(repo, "sparse-checkout", "set", "--cone", kind, "in");
      const merge = mergeByGit(repo, "other");
      const before = state(repo);
      const index = readFileSync(join(repo, ".git/index"));
      await leave(repo);
      writeFileSync(join(repo, ".git/index"), index);
      for (const name of ["MERGE_HEAD", "MERGE_MODE", "MERGE_MSG", "AUTO_MERGE", "ORIG_HEAD"]) {
        rmSync(join(repo, ".git", name));
      }
      writeFileSync(join(repo, ".git/agentq-merge"), journal(merge));
      assert.deepEqual(recoverMerge(openRepository(repo)), { outcome: "undone", paths: [] });
      assert.deepEqual(state(repo), before);
    }
  });

  test("leaves what somebody has edited since, and names it", slow, () => {
    const repo = conflicting();
    writeFileSync(join(repo, ".git/agentq-merge"), journal(mergeByGit(repo, "other")));
    write(repo, "f", "edited by hand\n");
    assert.deepEqual(recoverMerge(openRepository(repo)), { outcome: "mixed", paths: ["f"] });
    assert.equal(readFileSync(join(repo, "f"), "utf8"), "edited by hand\n");
  });

  test("finishes a merge whose index is in place", slow, async () => {
    const repo = conflicting();
    const merge = mergeByGit(repo, "other");
    await leave(repo);
    const whole = state(repo);
    for (
      const lost of [["MERGE_HEAD"], ["MERGE_HEAD", "MERGE_MODE", "MERGE_MSG"], [
        "MERGE_HEAD",
        "MERGE_MODE",
        "MERGE_MSG",
        "AUTO_MERGE",
        "ORIG_HEAD",
      ]]
    ) {
      for (const name of lost) rmSync(join(repo, ".git", name));
      writeFileSync(join(repo, ".git/agentq-merge"), journal(merge));
      assert.equal(recoverMerge(openRepository(repo)).outcome, "finished");
      assert.deepEqual(state(repo), whole);
    }
  });

  test("does nothing without a journal, or when HEAD has moved on", slow, () => {
    const repo = conflicting();
    assert.equal(recoverMerge(openRepository(repo)).outcome, "nothing");
    writeFileSync(join(repo, ".git/agentq-merge"), journal(mergeByGit(repo, "other")));
    git(repo, "commit", "-q", "--allow-empty", "-m", "more");
    write(repo, "f", "edited\n");
    assert.equal(recoverMerge(openRepository(repo)).outcome, "nothing");
    assert.equal(readFileSync(join(repo, "f"), "utf8"), "edited\n");
    writeFileSync(join(repo, ".git/agentq-merge"), "not json");
    assert.equal(recoverMerge(openRepository(repo)).outcome, "nothing");
  });

  test("heals whatever SIGKILL leaves", slow, async () => {
    const base: Record<string, string> = {};
    for (let i = 0; i < 400; i++) base[`d${i % 20}/f${i}`] = `${i}\n`;
    const repo = branches({ ...base, f: "1\n" }, (r) => write(r, "f", "2\n"), (r) => {
      for (let i = 0; i < 400; i += 2) write(r, `d${i % 20}/f${i}`, `theirs ${i}\n`);
      for (let i = 1; i < 400; i += 20) rmSync(join(r, `d${i % 20}/f${i}`));
      write(r, "f", "3\n");
    });
    const merge = mergeByGit(repo, "other");
    const before = snapshot(repo);
    const whole = join(tempDir(), "whole");
    cpSync(repo, whole, { recursive: true });
    await leave(whole);
    const outcomes = new Set<string>();
    for (let i = 0; i < 8; i++) {
      await killed(["leave", repo, JSON.stringify(merge)], i * 2);
      const repository = openRepository(repo);
      const { outcome } = recoverMerge(repository);
      outcomes.add(outcome);
      if (read(repo, "MERGE_HEAD") === null) {
        assert.deepEqual(snapshot(repo), before);
        assert.deepEqual(uncommittedChanges(repository), []);
        git(repo, "status");
      } else {
        assert.deepEqual(snapshot(repo), snapshot(whole));
        assert.equal(git(repo, "ls-files", "-s"), git(whole, "ls-files", "-s"));
        git(repo, "merge", "--abort");
      }
      repository.close();
    }
    assert.ok(outcomes.has("undone"), [...outcomes].join());
    assert.equal((await leave(repo, "other", merge)).left, true);
  });
});

/** Starts tests/git/worktree-child.ts and kills it `ms` after it has written its journal. */
function killed(args: string[], ms: number): Promise<void> {
  const script = join(import.meta.dirname!, "worktree-child.ts");
  const flags = "Deno" in globalThis ? ["run", "-A", "--no-check"] : ["run"];
  const child = spawn(process.execPath, [...flags, script, ...args], {
    stdio: ["ignore", "ignore", "inherit"],
    env: gitEnv(),
  });
  const watch = setInterval(() => {
    if (!existsSync(join(args[1]!, ".git/agentq-merge"))) return;
    clearInterval(watch);
    setTimeout(() => child.kill("SIGKILL"), ms);
  }, 1);
  return new Promise((resolve) =>
    child.once("exit", () => {
      clearInterval(watch);
      resolve();
    })
  );
}
