/** Which repository a path names, and what may be pushed there: a table, each row judged by real git too. */
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { isAgentqError } from "../../../src/errors.ts";
import { openOrigin } from "../../../src/git/origin.ts";
import { openRepository } from "../../../src/git/repository.ts";
import { readInputs } from "../../../src/platform/inputs.ts";
import { commit, git, makeRepo, tempDir, tryGit } from "../../helpers/git.ts";

/** A clone whose HEAD no origin of {@link places} has. */
function makeSource() {
  const work = makeRepo();
  const first = commit(work, "first", { "a.txt": "a\n" });
  git(work, "branch", "other");
  return { work, first };
}

/** Every way to hold a repository whose `.git` is a file, and those it is held against. */
function places(work: string): string[] {
  const at = tempDir();
  const dir = (name: string) => join(at, name);
  const linked = (of: string) => {
    git(of, "worktree", "add", "-q", "--detach", dir(`${of.split("/").at(-1)}-detached`));
    git(of, "worktree", "add", "-q", dir(`${of.split("/").at(-1)}-other`), "other");
  };
  git(at, "clone", "-q", work, "whole");
  git(dir("whole"), "branch", "other");
  linked(dir("whole"));
  git(at, "clone", "-q", "--bare", work, "bare.git");
  linked(dir("bare.git"));
  git(at, "clone", "-q", "--separate-git-dir", dir("apart.git"), work, "apart");
  git(at, "clone", "-q", "--separate-git-dir", dir("away"), work, "suffixed.git");
  git(at, "clone", "-q", work, "super");
  const local = ["-c", "protocol.file.allow=always"];
  git(dir("super"), ...local, "submodule", "--quiet", "add", work, "sub");
  git(at, "clone", "-q", work, "unsaid");
  git(dir("unsaid"), "branch", "other");
  linked(dir("unsaid"));
  git(dir("unsaid"), "config", "--unset", "core.bare");
  symlinkSync(dir("whole-detached/.git"), dir("link"));
  return [
    ...["whole", "whole-detached", "whole-other", "whole-detached/.git", "link"],
    ...["bare.git", "bare", "bare.git-detached", "bare.git-other", "bare.git-other/.git"],
    ...["apart", "apart/.git", "apart.git", "suffixed", "suffixed.git", "super/sub"],
    ...["super/sub/.git", "super/.git/modules/sub", "unsaid-detached"],
  ].map(dir);
}

test("a `.git` file leads to its repository, for reading and pushing, and git says the same of each branch", async () => {
  const { work, first } = makeSource();
  const all = places(work);
  const repository = openRepository(work);
  let count = 0;
  for (const [i, path] of all.entries()) {
    for (const url of i % 3 === 0 ? [path, `file://${path}`] : [path]) {
      const origin = await openOrigin(url);
      const seen = tryGit(work, ["ls-remote", "--symref", url, "HEAD", "refs/heads/*"]).stdout;
      const { refs, head } = await origin.refs(["refs/heads/"]);
      assert.equal(head ?? undefined, /^ref: (\S+)\tHEAD$/m.exec(seen)?.[1], url);
      for (const [name, oid] of refs) {
        assert.ok(seen.includes(`${oid}\t${name}\n`), `${url} ${name}`);
      }
      const inputs = origin.inputs!(["refs/heads/"]);
      for (const branch of ["main", "other", "free"]) {
        const ref = `refs/heads/${branch}`;
        const old = refs.get(ref) ?? null;
        const before = inputs && readInputs(inputs);
        const ours = commit(work, `ours ${count++}`);
        const theirs = commit(work, `theirs ${count}`);
        const outcome = await origin.push([{ ref, old, new: ours }], repository.objects);
        const forced = ["push", "-q", "-f", url, `${theirs}:${ref}`];
        const byGit = tryGit(work, forced);
        const told = `${url} ${branch}: ${JSON.stringify(outcome)} ${byGit.stderr}`;
        assert.equal(outcome.status, byGit.status === 0 ? "won" : "refused", told);
        if (outcome.status === "refused") assert.match(outcome.message, /denyCurrentBranch/, told);
        else assert.notDeepEqual(inputs && readInputs(inputs), before ?? "", told);
        if (old !== null) tryGit(work, ["push", "-q", "-f", url, `${old}:${ref}`]);
      }
      tryGit(work, ["push", "-q", url, ":refs/heads/free"]);
      assert.equal(refs.get("refs/heads/main"), first, url);
      origin.close();
    }
  }
});

test("a `.git` file that leads nowhere is named with what is wrong, where git ends too", async () => {
  const at = tempDir();
  const { work } = makeSource();
  git(at, "clone", "-q", work, "whole");
  git(join(at, "whole"), "worktree", "add", "-q", "--detach", join(at, "linked"));
  git(at, "clone", "-q", "--bare", work, "garbage.git");
  const file = (name: string, text: string) => {
    mkdirSync(join(at, name));
    writeFileSync(join(at, name, ".git"), text);
  };
  file("itself", "gitdir: .git\n");
  file("nowhere", "gitdir: ../nothing/here\n");
  file("large", `gitdir: ../whole/.git${"\n".repeat(1 << 20)}`);
  file("words", "some words\n");
  file("empty", "");
  file("pathless", "gitdir: \n");
  // Git follows one file, never a second.
  file("second", "gitdir: ../linked/.git\n");
  file("lines", "gitdir: ../whole/.git\nmore");
  // The first file that is there decides, whatever else there would be.
  writeFileSync(join(at, "garbage"), "no gitdir\n");
  for (
    const [name, said] of [
      ["itself", /itself\/\.git points to .*itself\/\.git, which is no repository/],
      ["nowhere", /nowhere\/\.git points to .*nothing\/here, which is no repository/],
      ["large", /large\/\.git is too large to be a gitdir file/],
      ["words", /words\/\.git is not a gitdir file/],
      ["words/.git", /words\/\.git is not a gitdir file/],
      ["empty", /empty\/\.git is not a gitdir file/],
      ["pathless", /pathless\/\.git is not a gitdir file/],
      ["second", /second\/\.git points to .*linked\/\.git, which is no repository/],
      ["lines", /lines\/\.git points to /],
      ["garbage", /garbage is not a gitdir file/],
    ] as const
  ) {
    const path = join(at, name);
    assert.notEqual(tryGit(at, ["ls-remote", path]).status, 0, name);
    for (const url of [path, `file://${path}`]) {
      await assert.rejects(openOrigin(url), (error) => {
        assert.ok(isAgentqError(error, "origin-not-found"), String(error));
        assert.match(error.message, said);
        return true;
      });
    }
  }
});

test("what is no file in place of `.git` is passed over, as by git, and nobody waits for a FIFO", async () => {
  const at = tempDir();
  const { work, first } = makeSource();
  git(at, "clone", "-q", "--bare", work, "x.git");
  git(at, "clone", "-q", "--bare", work, "y");
  mkdirSync(join(at, "x"));
  for (const name of ["x/.git", "y/.git", "alone"]) {
    assert.equal(spawnSync("mkfifo", [join(at, name)]).status, 0);
  }
  for (const name of ["x", "y"]) {
    const { refs } = await (await openOrigin(join(at, name))).refs(["refs/heads/main"]);
    assert.equal(refs.get("refs/heads/main"), first);
    assert.ok(git(at, "ls-remote", join(at, name), "main").startsWith(first));
  }
  const found = (error: unknown) => isAgentqError(error, "origin-not-found");
  await assert.rejects(openOrigin(join(at, "alone")), found);
  // A directory in place of `.git` that is none counts for nothing, also inside of a repository.
  mkdirSync(join(work, "within/.git"), { recursive: true });
  await assert.rejects(openOrigin(join(work, "within")), found);
  assert.notEqual(tryGit(at, ["ls-remote", join(work, "within")]).status, 0);
});

test("what is remembered of an origin is asked anew when another path is written into its `.git` file", async () => {
  const at = tempDir();
  const { work } = makeSource();
  git(at, "clone", "-q", "--separate-git-dir", join(at, "one"), work, "tree");
  git(at, "clone", "-q", "--separate-git-dir", join(at, "two"), work, "tree2");
  const origin = await openOrigin(join(at, "tree"));
  const inputs = origin.inputs!(["refs/heads/main"])!;
  const before = readInputs(inputs);
  assert.deepEqual(readInputs(inputs), before);
  writeFileSync(join(at, "tree/.git"), readFileSync(join(at, "tree2/.git")));
  assert.notDeepEqual(readInputs(inputs), before);
  const linked = join(at, "linked");
  git(join(at, "tree"), "worktree", "add", "-q", "-b", "its", linked);
  const again = (await openOrigin(linked)).inputs!(["refs/heads/main"])!;
  const before2 = readInputs(again);
  git(linked, "checkout", "-q", "-b", "new");
  assert.notDeepEqual(readInputs(again), before2, "its own HEAD counts, not the main work tree's");
});

test("a repository that is named by a file is no clone, and the error says so", () => {
  const { work } = makeSource();
  assert.throws(
    () => openRepository(join(work, "a.txt")),
    (error) =>
      isAgentqError(error, "not-a-repository") && /a\.txt is not a dir/.test(error.message),
  );
});

test("a branch that is being rebased or bisected in a work tree counts as checked out, as for git", async () => {
  const { work, first } = makeSource();
  const at = tempDir();
  const repository = openRepository(work);
  const inTree = { GIT_SEQUENCE_EDITOR: "sed -i s/^pick/edit/" };
  const states: Record<string, (dir: string) => void> = {
    rebase: (dir) => {
      const run = tryGit(dir, ["rebase", "-q", "-i", "HEAD~1"], { env: inTree });
      assert.equal(run.status, 0, run.stderr);
    },
    "rebase by patches": (dir) => {
      commit(dir, "mine", { "a.txt": "mine\n" });
      git(dir, "branch", "onto", "HEAD~1");
      git(dir, "checkout", "-q", "onto");
      commit(dir, "theirs", { "a.txt": "theirs\n" });
      git(dir, "checkout", "-q", "main");
      assert.notEqual(tryGit(dir, ["rebase", "--apply", "onto"]).status, 0);
    },
    am: (dir) => {
      git(dir, "checkout", "-q", "--detach");
      writeFileSync(join(dir, "p"), "From: a <a@b>\nSubject: x\n\n---\nno patch\n");
      assert.notEqual(tryGit(dir, ["am", "p"]).status, 0);
    },
    bisect: (dir) => {
      git(dir, "bisect", "start", "HEAD", first);
      git(dir, "checkout", "-q", "--detach");
    },
    "bisect that is over": (dir) => {
      git(dir, "bisect", "start", "HEAD", first);
      git(dir, "bisect", "reset", "HEAD");
      git(dir, "checkout", "-q", "--detach");
    },
  };
  for (const [name, begin] of Object.entries(states)) {
    for (const linked of [false, true]) {
      const main = join(at, `${name}-${linked}`.replaceAll(" ", "-"));
      git(at, "clone", "-q", work, main);
      const tree = linked ? `${main}-tree` : main;
      if (linked) {
        git(main, "checkout", "-q", "--detach");
        git(main, "worktree", "add", "-q", tree, "main");
      }
      for (const n of [1, 2]) commit(tree, `${n}`, { [`f${n}`]: `${n}\n` });
      begin(tree);
      for (const branch of ["main", "other"]) {
        const ref = `refs/heads/${branch}`;
        const [ours, theirs] = [commit(work, "ours"), commit(work, "theirs")];
        const origin = await openOrigin(main);
        const old = (await origin.refs([ref])).refs.get(ref) ?? null;
        const outcome = await origin.push([{ ref, old, new: ours! }], repository.objects);
        const byGit = tryGit(work, ["push", "-q", "-f", main, `${theirs}:${ref}`]);
        assert.equal(
          outcome.status,
          byGit.status === 0 ? "won" : "refused",
          `${name} ${linked} ${branch}: ${JSON.stringify(outcome)} ${byGit.stderr}`,
        );
      }
    }
  }
});
