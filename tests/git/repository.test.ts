import assert from "node:assert/strict";
import {
  mkdirSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { isAgentqError } from "../../src/errors.ts";
import { openConfig } from "../../src/git/config.ts";
import { mergeBases } from "../../src/git/history.ts";
import { refuseForeign } from "../../src/git/ownership.ts";
import { openRepository, type Repository } from "../../src/git/repository.ts";
import { commit, git, makeRepo, tempDir, tryGit } from "../helpers/git.ts";

/** Checks directories, bareness and HEAD against git rev-parse in the same directory. */
function assertAsGit(start: string, options: { bare?: boolean } = {}): Repository {
  const repository = openRepository(start);
  const ask = (what: string) =>
    realpathSync(git(start, "rev-parse", "--path-format=absolute", what));
  assert.equal(realpathSync(repository.gitDir), ask("--git-dir"));
  assert.equal(realpathSync(repository.commonDir), ask("--git-common-dir"));
  if (options.bare) assert.equal(repository.workTree, null);
  else if (git(start, "rev-parse", "--is-inside-work-tree") === "true") {
    assert.equal(realpathSync(repository.workTree!), ask("--show-toplevel"));
  }
  assert.equal(repository.bare, options.bare ?? false);
  const head = tryGit(start, ["rev-parse", "--verify", "-q", "HEAD"]);
  const branch = tryGit(start, ["symbolic-ref", "-q", "HEAD"]);
  assert.deepEqual(repository.head(), {
    branch: branch.status === 0 ? branch.stdout.trim() : null,
    oid: head.status === 0 ? head.stdout.trim() : null,
  });
  return repository;
}

const refusal = (code: string, part: string) => (error: unknown) => {
  assert.ok(isAgentqError(error), String(error));
  assert.equal(error.code, code, error.message);
  assert.ok(error.message.includes(part), error.message);
  return true;
};

describe("finding a repository", () => {
  test("from its top, a subdirectory, through a symbolic link, on an unborn branch, detached", () => {
    const dir = makeRepo();
    assertAsGit(dir);
    commit(dir, "one", { "a/b/c": "x" });
    assertAsGit(join(dir, "a/b"));
    const link = join(tempDir(), "link");
    symlinkSync(join(dir, "a"), link);
    assertAsGit(link);
    git(dir, "checkout", "-q", "--detach");
    assertAsGit(dir);
  });

  test("from inside .git the worktree is the one around it", () => {
    const dir = makeRepo();
    commit(dir, "one");
    for (const inside of [".git", ".git/refs/heads", ".git/objects"]) {
      const repository = openRepository(join(dir, inside));
      assert.equal(repository.gitDir, realpathSync(join(dir, ".git")));
      assert.equal(repository.workTree, realpathSync(dir));
    }
  });

  test("bare ones, also from below, and with core.bare in a directory called .git", () => {
    const dir = tempDir();
    git(dir, "init", "-q", "--bare", "-b", "main", "x.git");
    assertAsGit(join(dir, "x.git"), { bare: true });
    assertAsGit(join(dir, "x.git/refs"), { bare: true });
    const other = makeRepo();
    git(other, "config", "core.bare", "true");
    assertAsGit(other, { bare: true });
  });

  test("linked worktrees, entered by their directory and by their git directory", () => {
    const dir = makeRepo();
    commit(dir, "one");
    const linked = join(tempDir(), "linked");
    git(dir, "worktree", "add", "-q", "-b", "side", linked);
    const own = commit(linked, "two", { "sub/file": "x" });
    const repository = assertAsGit(join(linked, "sub"));
    assert.equal(repository.head().oid, own);
    assert.equal(repository.head().branch, "refs/heads/side");
    const inside = openRepository(repository.gitDir);
    assert.equal(realpathSync(inside.workTree!), realpathSync(linked));
    assert.equal(assertAsGit(dir).head().branch, "refs/heads/main");
    // Refs of its own stay its own.
    git(linked, "update-ref", "refs/bisect/bad", own);
    assert.equal(repository.refs.get("refs/bisect/bad"), own);
    assert.equal(openRepository(dir).refs.get("refs/bisect/bad"), null);
    assert.deepEqual(
      repository.refs.list("refs/").map(({ name, oid }) => `${oid} ${name}`).join("\n"),
      git(linked, "for-each-ref", "--format=%(objectname) %(refname)"),
    );
  });

  test("a worktree of a bare repository is not bare", () => {
    const base = tempDir();
    const source = makeRepo();
    commit(source, "one");
    git(base, "clone", "-q", "--bare", source, "x.git");
    git(join(base, "x.git"), "worktree", "add", "-q", join(base, "tree"), "main");
    assertAsGit(join(base, "tree"));
  });

  test("relative paths in .git and gitdir files", () => {
    const base = tempDir();
    const dir = join(base, "main");
    mkdirSync(dir);
    makeRepo(dir);
    commit(dir, "one");
    git(dir, "worktree", "add", "-q", join(base, "linked"));
    writeFileSync(join(base, "linked/.git"), "gitdir: ../main/.git/worktrees/linked\n");
    assertAsGit(join(base, "linked"));
  });

  test("submodules, whose git directory names its worktree in core.worktree", () => {
    const inner = makeRepo();
    const oid = commit(inner, "inner", { file: "x" });
    const outer = makeRepo();
    git(
      outer,
      "-c",
      "protocol.file.allow=always",
      "submodule",
      "--quiet",
      "add",
      inner,
      "libs/sub",
    );
    const repository = assertAsGit(join(outer, "libs/sub"));
    assert.equal(repository.head().oid, oid);
    const inside = openRepository(join(outer, ".git/modules/libs/sub"));
    assert.equal(realpathSync(inside.workTree!), realpathSync(join(outer, "libs/sub")));
    assert.equal(repository.objects.read(oid).type, "commit");
  });

  test("GIT_DIR and GIT_WORK_TREE only where the environment is passed", () => {
    const dir = makeRepo();
    const other = makeRepo();
    const env = { GIT_DIR: join(other, ".git"), GIT_WORK_TREE: dir };
    assert.equal(openRepository(dir).gitDir, realpathSync(join(dir, ".git")));
    const repository = openRepository(dir, { env });
    assert.equal(repository.gitDir, join(other, ".git"));
    assert.equal(repository.workTree, dir);
    assert.throws(
      () => openRepository(dir, { env: { GIT_DIR: "nowhere" } }),
      refusal("not-a-repository", "nowhere"),
    );
    const below = join(dir, "deep/er");
    mkdirSync(below, { recursive: true });
    assert.throws(
      () => openRepository(below, { env: { GIT_CEILING_DIRECTORIES: join(dir, "deep") } }),
      refusal("not-a-repository", below),
    );
  });

  test("no repository, no directory, a .git file that leads nowhere", () => {
    const dir = tempDir();
    assert.throws(() => openRepository(dir), refusal("not-a-repository", dir));
    assert.throws(
      () => openRepository(join(dir, "missing")),
      refusal("not-a-repository", "missing"),
    );
    writeFileSync(join(dir, ".git"), "gitdir: /somewhere/else\n");
    assert.throws(() => openRepository(dir), refusal("not-a-repository", "/somewhere/else"));
    writeFileSync(join(dir, ".git"), "something else\n");
    assert.throws(() => openRepository(dir), refusal("not-a-repository", ".git"));
    const inside = join(makeRepo(), "sub");
    mkdirSync(join(inside, ".git"), { recursive: true });
    // An empty .git directory is none, and the search goes on upward, as git's does.
    assertAsGit(inside);
  });
});

describe("formats", () => {
  const withConfig = (...settings: [string, string][]) => {
    const dir = makeRepo();
    commit(dir, "one");
    for (const [key, value] of settings) git(dir, "config", key, value);
    return dir;
  };

  test("extensions that change nothing are accepted", () => {
    for (const name of ["noop", "noop-v1", "preciousObjects", "worktreeConfig"]) {
      const dir = withConfig(["core.repositoryFormatVersion", "1"], [`extensions.${name}`, "true"]);
      assertAsGit(dir);
    }
    assertAsGit(withConfig(["extensions.unknown", "true"]));
    openRepository(
      withConfig(["core.repositoryFormatVersion", "1"], ["extensions.objectFormat", "sha1"]),
    );
    openRepository(
      withConfig(["core.repositoryFormatVersion", "1"], ["extensions.refStorage", "files"]),
    );
    openRepository(
      withConfig(["core.repositoryFormatVersion", "1"], ["extensions.relativeWorktrees", "true"]),
    );
  });

  test("sha256, reftable, unknown extensions and versions are refused by name", () => {
    const sha256 = tempDir();
    git(sha256, "init", "-q", "--object-format=sha256");
    assert.throws(
      () => openRepository(sha256),
      refusal("repository-unsupported", "objectformat=sha256"),
    );
    for (
      const [name, value, part] of [
        ["refStorage", "reftable", "refstorage=reftable"],
        ["compatObjectFormat", "sha256", "compatobjectformat=sha256"],
        ["fromTheFuture", "yes", "fromthefuture=yes"],
      ] as const
    ) {
      const dir = withConfig([`extensions.${name}`, value], ["core.repositoryFormatVersion", "1"]);
      assert.throws(() => openRepository(dir), refusal("repository-unsupported", part));
    }
    const future = withConfig(["core.repositoryFormatVersion", "2"]);
    assert.throws(() => openRepository(future), refusal("repository-unsupported", "format 2"));
  });

  test("extensions.worktreeConfig: core.bare and core.worktree of the main worktree", () => {
    const dir = withConfig(["core.repositoryFormatVersion", "1"], [
      "extensions.worktreeConfig",
      "true",
    ]);
    const linked = join(tempDir(), "linked");
    git(dir, "worktree", "add", "-q", linked);
    git(dir, "config", "--unset", "core.bare");
    git(dir, "config", "--worktree", "core.bare", "true");
    assert.equal(openRepository(dir).workTree, null);
    assertAsGit(linked);
  });

  test("a broken config names file and line", () => {
    const dir = makeRepo();
    writeFileSync(join(dir, ".git/config"), "[core\n");
    assert.throws(() => openRepository(dir), refusal("config-invalid", ".git/config"));
  });

  test("a partial clone is read as far as it goes; what it lacks is said to be elsewhere", () => {
    const origin = makeRepo();
    commit(origin, "one", { large: "large content\n" });
    git(origin, "config", "uploadpack.allowFilter", "true");
    const base = tempDir();
    git(base, "clone", "-q", "--no-checkout", "--filter=blob:none", `file://${origin}`, "partial");
    const repository = assertAsGit(join(base, "partial"));
    const { objects } = repository;
    assert.equal(objects.read(repository.head().oid!).type, "commit");
    const blob = git(origin, "rev-parse", "HEAD:large");
    assert.equal(objects.has(blob), false);
    assert.throws(() => objects.read(blob), (error) => {
      refusal("object-missing", "partial clone")(error);
      assert.ok(isAgentqError(error) && error.hint.includes(`git fetch origin ${blob}`));
      return true;
    });
  });
});

describe("shallow clones", () => {
  test("the boundary has no parents, and walks end there", () => {
    const origin = makeRepo();
    for (let i = 0; i < 6; i++) commit(origin, `c${i}`, { [`f${i}`]: "x" });
    git(origin, "branch", "old", "HEAD~5");
    const base = tempDir();
    git(base, "clone", "-q", "--depth=3", "--no-single-branch", `file://${origin}`, "shallow");
    const dir = join(base, "shallow");
    const repository = assertAsGit(dir);
    const boundary = git(dir, "rev-list", "--max-parents=0", "HEAD");
    assert.ok(repository.shallow.has(boundary));
    assert.deepEqual(repository.objects.commitInfo(boundary).parents, []);
    const [main, old] = [git(dir, "rev-parse", "main"), git(dir, "rev-parse", "origin/old")];
    assert.deepEqual(mergeBases(repository.objects, main, old), []);
    // Deepened by another git: known after the next refresh.
    git(dir, "fetch", "-q", "--unshallow");
    repository.objects.refresh();
    assert.equal(repository.shallow.size, 0);
    assert.deepEqual(mergeBases(repository.objects, main, old), [old]);
  });

  test("a commit-graph that ignores the boundary is not trusted there", () => {
    const origin = makeRepo();
    for (let i = 0; i < 4; i++) commit(origin, `c${i}`);
    git(origin, "commit-graph", "write", "--reachable");
    const head = git(origin, "rev-parse", "HEAD");
    writeFileSync(join(origin, ".git/shallow"), head + "\n");
    assert.deepEqual(openRepository(origin).objects.commitInfo(head).parents, []);
    writeFileSync(join(origin, ".git/shallow"), "not an id\n");
    assert.throws(() => openRepository(origin).shallow, refusal("repository-corrupt", "shallow"));
  });
});

test("a clone whose directory is moved and whose alternates vanish says which object is missing", () => {
  const origin = makeRepo();
  const head = commit(origin, "one");
  const base = tempDir();
  git(base, "clone", "-q", "--shared", origin, "shared");
  const { objects } = openRepository(join(base, "shared"));
  assert.equal(objects.read(head).type, "commit");
  renameSync(origin, origin + ".moved");
  objects.close();
  assert.throws(
    () => openRepository(join(base, "shared")).objects.read(head),
    refusal("object-missing", head),
  );
  rmSync(origin + ".moved", { recursive: true });
});

test("refuseForeign() believes safe.directory from outside the repository, GIT_DIR and SUDO_UID", () => {
  const dir = makeRepo();
  const home = tempDir();
  const owner = statSync(dir).uid;
  const other = owner + 1;
  const check = (me: number, config = "", env: Record<string, string> = {}) => {
    writeFileSync(join(home, ".gitconfig"), config);
    const all = { HOME: home, GIT_CONFIG_NOSYSTEM: "1", ...env };
    const repository = openRepository(dir);
    const { gitDir, commonDir } = repository;
    const local = { gitDir, commonDir, worktreeConfig: false, branch: () => null };
    const settings = openConfig({ repository: local, env: all });
    refuseForeign({ ...repository, workTree: dir, config: settings }, env, me);
  };
  const safe = (...values: string[]) =>
    "[safe]\n" + values.map((value) => `\tdirectory = ${value}\n`).join("");
  const refused = (error: unknown) =>
    isAgentqError(error, "repository-foreign") && error.message.includes(dir);
  check(owner);
  assert.throws(() => check(other), refused);
  git(dir, "config", "safe.directory", "*");
  assert.throws(() => check(other), refused, "its own word counts for nothing");
  check(other, safe("*"));
  check(other, safe(dir));
  check(other, safe(join(dir, "..", "*")));
  assert.throws(() => check(other, safe(`${dir}/sub`)), refused);
  assert.throws(() => check(other, safe("*", '""')), refused);
  check(other, "", { GIT_DIR: join(dir, ".git") });
  if (owner !== 0) check(0, "", { SUDO_UID: String(owner) });
  assert.throws(() => check(other, "", { SUDO_UID: String(owner) }), refused, "root alone");
});
