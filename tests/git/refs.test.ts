import assert from "node:assert/strict";
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, test } from "node:test";
import fc from "fast-check";
import { isAgentqError } from "../../src/errors.ts";
import { parsePackedRefs, withPackedRefs } from "../../src/git/packed-refs.ts";
import { checkBranchName, checkRefName, isRefName } from "../../src/git/ref-name.ts";
import { setSymbolicRef, updateRef } from "../../src/git/ref-update.ts";
import { openRepository } from "../../src/git/repository.ts";
import { commit, git, makeRepo, tempDir, tryGit } from "../helpers/git.ts";

const code = (wanted: string) => (error: unknown) => {
  assert.ok(isAgentqError(error), String(error));
  assert.equal(error.code, wanted, error.message);
  return true;
};

/** All refs under `prefix` as git lists them. */
const gitRefs = (dir: string, prefix: string) =>
  git(dir, "for-each-ref", "--format=%(objectname) %(refname)").split("\n").filter((line) =>
    line.slice(41).startsWith(prefix)
  );

const ourRefs = (dir: string, prefix: string) =>
  openRepository(dir).refs.list(prefix).map(({ name, oid }) => `${oid} ${name}`);

describe("names, compared with git check-ref-format", () => {
  const dir = tempDir();
  const accepts = (name: string) => tryGit(dir, ["check-ref-format", name]).status === 0;
  const names = [
    "refs/heads/main",
    "refs/heads/a/b",
    "refs/heads/.a",
    "refs/heads/a.",
    "refs/heads/a..b",
    "refs/heads/a.lock",
    "refs/heads/a.lock/b",
    "refs/heads/a b",
    "refs/heads/a~b",
    "refs/heads/a^",
    "refs/heads/a:b",
    "refs/heads/a?b",
    "refs/heads/a*",
    "refs/heads/a[b",
    "refs/heads/a\\b",
    "refs/heads//a",
    "/refs/heads/a",
    "refs/heads/a/",
    "refs/heads/@",
    "@",
    "refs/heads/@{",
    "refs/heads/a@{b",
    "refs/heads/-a",
    "refs/heads/a\x7f",
    "refs/heads/ü",
    "refs/heads/a\tb",
    "HEAD",
    "refs",
    "refs/",
    "refs/heads/\u{1f600}",
    "refs/heads/a]",
    "refs/heads/.lock",
    "a/b",
    "refs/heads/../../config",
    "refs/./a",
    "refs/heads/'a'",
    'refs/heads/"a"',
    "refs/heads/$(a)",
    "refs/heads/a;b",
  ];
  for (const name of names) {
    test(JSON.stringify(name), () => {
      assert.equal(isRefName(name), accepts(name));
      if (name.startsWith("refs/") && accepts(name)) assert.equal(checkRefName(name), name);
      else assert.throws(() => checkRefName(name), code("ref-name-invalid"));
    });
  }

  test("generated ones", () => {
    const part = fc.constantFrom(
      "a",
      "/",
      ".",
      "..",
      "@",
      "{",
      ".lock",
      "lock",
      "-",
      "ü",
      "~",
      " ",
      "refs/",
      "\\",
      "*",
    );
    fc.assert(
      fc.property(fc.array(part, { minLength: 1, maxLength: 7 }), (parts) => {
        const name = parts.join("");
        // The command would take it for an option.
        fc.pre(!name.startsWith("-"));
        assert.equal(isRefName(name), accepts(name));
      }),
      { numRuns: 300 },
    );
  });

  test("branch names", () => {
    for (const name of ["main", "a/b", "-a", "HEAD", "a..b", "@", "a.lock", "ü", "a b"]) {
      const accepted = tryGit(dir, ["check-ref-format", "--branch", name]).status === 0;
      if (accepted && name !== "@") assert.equal(checkBranchName(name), name);
      else if (!accepted) assert.throws(() => checkBranchName(name), code("ref-name-invalid"));
    }
  });
});

describe("reading", () => {
  function manyRefs(): string {
    const dir = makeRepo();
    commit(dir, "one");
    git(dir, "tag", "-a", "-m", "tag", "annotated");
    git(dir, "tag", "light");
    for (const name of ["a", "a-b", "a.b", "b/c", "b/d/e", "ünïcode", "z"]) {
      git(dir, "branch", name);
    }
    return dir;
  }

  test("loose, packed, and packed with loose ones over them", () => {
    const dir = manyRefs();
    const prefixes = [
      "refs/",
      "refs/heads/",
      "refs/heads/a",
      "refs/heads/b/",
      "refs/tags/",
      "refs/none/",
      "refs/heads/a-",
    ];
    const check = () => {
      for (const prefix of prefixes) {
        assert.deepEqual(ourRefs(dir, prefix), gitRefs(dir, prefix), prefix);
      }
    };
    check();
    git(dir, "pack-refs", "--all");
    check();
    const next = commit(dir, "two");
    git(dir, "branch", "-f", "a", next);
    git(dir, "branch", "new", next);
    git(dir, "branch", "-d", "z");
    check();
    for (const line of gitRefs(dir, "")) {
      assert.equal(openRepository(dir).refs.get(line.slice(41)), line.slice(0, 40));
    }
    assert.equal(openRepository(dir).refs.get("refs/heads/b"), null);
    assert.equal(openRepository(dir).refs.get("refs/heads/none"), null);
    assert.equal(openRepository(dir).refs.get("refs/heads/a/below"), null);
  });

  test("symbolic refs, also to nothing and in a circle", () => {
    const dir = manyRefs();
    git(dir, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/heads/a");
    git(dir, "symbolic-ref", "refs/heads/unborn", "refs/heads/nothing");
    git(dir, "symbolic-ref", "refs/heads/round", "refs/heads/round2");
    git(dir, "symbolic-ref", "refs/heads/round2", "refs/heads/round");
    const { refs } = openRepository(dir);
    assert.deepEqual(refs.read("refs/remotes/origin/HEAD"), { target: "refs/heads/a" });
    assert.equal(refs.get("refs/remotes/origin/HEAD"), git(dir, "rev-parse", "a"));
    assert.deepEqual(refs.resolve("refs/heads/unborn"), { name: "refs/heads/nothing", oid: null });
    assert.throws(() => refs.get("refs/heads/round"), code("repository-corrupt"));
    rmSync(join(dir, ".git/refs/heads/round"));
    rmSync(join(dir, ".git/refs/heads/round2"));
    assert.deepEqual(ourRefs(dir, "refs/"), gitRefs(dir, "refs/"));
  });

  test("HEAD as a symbolic link", () => {
    const dir = manyRefs();
    for (const target of ["refs/heads/main", "refs/heads/unborn"]) {
      rmSync(join(dir, ".git/HEAD"));
      symlinkSync(target, join(dir, ".git/HEAD"));
      assert.equal(openRepository(dir).head().branch, target);
    }
  });

  test("broken refs: an error by name, left out of lists; lock files are no refs", () => {
    const dir = manyRefs();
    writeFileSync(join(dir, ".git/refs/heads/empty"), "");
    writeFileSync(join(dir, ".git/refs/heads/garbage"), "garbage\n");
    writeFileSync(join(dir, ".git/refs/heads/outside"), "ref: ../../../etc/passwd\n");
    writeFileSync(join(dir, ".git/refs/heads/main.lock"), "");
    const { refs } = openRepository(dir);
    for (const name of ["empty", "garbage", "outside"]) {
      assert.throws(() => refs.get(`refs/heads/${name}`), code("repository-corrupt"));
    }
    assert.deepEqual(ourRefs(dir, "refs/heads/").length, 8);
    assert.throws(() => refs.get("refs/heads/../../config"), code("ref-name-invalid"));
    assert.throws(() => refs.get("config"), code("ref-name-invalid"));
  });

  test("a packed-refs file of thousands is searched by position: every name, neighbours, prefixes", () => {
    const dir = makeRepo();
    const oid = commit(dir, "one");
    git(dir, "tag", "-a", "-m", "tag", "annotated");
    const tag = git(dir, "rev-parse", "annotated");
    // Written here, as git pack-refs would: that takes it seconds. Git says below that it reads the same.
    const lines: string[] = [];
    for (let i = 0; i < 3000; i++) {
      const kind = ["heads", "tags", "weave/main", "x"][i % 4]!;
      const name = `refs/${kind}/${(i * 7919) % 37}/${"n".repeat(i % 90)}${i}`;
      lines.push(`${name} ${kind === "tags" ? `${tag} ${oid}` : oid}`);
    }
    const text = lines.sort().map((line) => {
      const [name, id, peeled] = line.split(" ");
      return `${id} ${name}\n${peeled ? `^${peeled}\n` : ""}`;
    }).join("");
    writeFileSync(
      join(dir, ".git/packed-refs"),
      `# pack-refs with: peeled fully-peeled sorted \n${text}`,
    );
    git(dir, "update-ref", "-d", "refs/heads/main");
    git(dir, "tag", "-d", "annotated");
    const content = readFileSync(join(dir, ".git/packed-refs"));
    assert.ok(content.length > 128 * 1024);
    const all = parsePackedRefs(content);
    assert.deepEqual(all.map(({ oid, name }) => `${oid} ${name}`), gitRefs(dir, ""));
    const byName = new Map(all.map((ref) => [ref.name, ref]));
    withPackedRefs(join(dir, ".git"), (packed) => {
      for (const ref of all) {
        for (const name of [ref.name, ref.name + "0", ref.name.slice(0, -1)]) {
          const found = packed.get(name);
          const wanted = byName.get(name);
          if (found?.oid !== wanted?.oid || found?.peeled !== wanted?.peeled) {
            assert.deepEqual(found, wanted ?? null);
          }
        }
      }
      for (
        const prefix of [
          "",
          "a",
          "z",
          "refs/heads/",
          "refs/weave/main/1",
          "refs/x/36",
          "refs/tags/~",
        ]
      ) {
        assert.deepEqual(packed.list(prefix), all.filter(({ name }) => name.startsWith(prefix)));
      }
    });
    // Without the promise of order, the same answers.
    writeFileSync(join(dir, ".git/packed-refs"), content.subarray(content.indexOf("\n") + 1));
    withPackedRefs(join(dir, ".git"), (packed) => assert.deepEqual(packed.list(""), all));
    writeFileSync(join(dir, ".git/packed-refs"), "what is this\n");
    assert.throws(
      () => withPackedRefs(join(dir, ".git"), (packed) => packed.list("")),
      code("repository-corrupt"),
    );
  });
});

describe("changing", () => {
  test("creates, moves, checks the old value, deletes; git agrees, reflogs included", () => {
    const dir = makeRepo();
    const one = commit(dir, "one");
    const two = commit(dir, "two");
    const home = openRepository(dir);
    updateRef(home, {
      ref: "refs/remotes/origin/main",
      new: one,
      old: null,
      message: "fetch: new\nbranch",
    });
    assert.equal(git(dir, "rev-parse", "origin/main"), one);
    assert.throws(
      () => updateRef(home, { ref: "refs/remotes/origin/main", new: two, old: null }),
      code("ref-moved"),
    );
    assert.throws(
      () => updateRef(home, { ref: "refs/remotes/origin/main", new: two, old: two }),
      code("ref-moved"),
    );
    updateRef(home, { ref: "refs/remotes/origin/main", new: two, old: one, message: "fetch" });
    assert.equal(
      git(dir, "reflog", "--format=%H %gs", "origin/main"),
      `${two} fetch\n${one} fetch: new branch`,
    );
    git(dir, "pack-refs", "--all");
    updateRef(home, { ref: "refs/remotes/origin/main", new: one, old: two });
    assert.equal(git(dir, "rev-parse", "origin/main"), one);
    git(dir, "branch", "keep.it");
    git(dir, "tag", "-a", "-m", "tag", "keeptag");
    git(dir, "pack-refs", "--all");
    updateRef(home, { ref: "refs/remotes/origin/main", new: null, old: one });
    assert.equal(tryGit(dir, ["rev-parse", "--verify", "-q", "origin/main"]).status, 1);
    assert.equal(git(dir, "rev-parse", "keep.it"), two);
    assert.match(
      readFileSync(join(dir, ".git/packed-refs"), "utf8"),
      new RegExp(`keeptag\n\\^${two}\n`),
    );
    assert.equal(tryGit(dir, ["fsck", "--strict"]).status, 0);
  });

  test("HEAD: through it the branch, itself when detached or asked to, both logged", () => {
    const dir = makeRepo();
    const one = commit(dir, "one");
    const two = commit(dir, "two");
    const home = openRepository(dir);
    updateRef(home, { ref: "HEAD", new: one, old: two, message: "reset: moving" });
    assert.equal(git(dir, "rev-parse", "main"), one);
    assert.equal(git(dir, "reflog", "-1", "--format=%gs", "HEAD"), "reset: moving");
    assert.equal(git(dir, "reflog", "-1", "--format=%gs", "main"), "reset: moving");
    updateRef(home, { ref: "HEAD", new: two, old: one, noDeref: true });
    assert.equal(tryGit(dir, ["symbolic-ref", "-q", "HEAD"]).status, 1);
    assert.equal(git(dir, "rev-parse", "HEAD"), two);
    assert.equal(git(dir, "rev-parse", "main"), one);
    setSymbolicRef(home, "HEAD", "refs/heads/other");
    assert.equal(git(dir, "symbolic-ref", "HEAD"), "refs/heads/other");
    updateRef(home, { ref: "HEAD", new: one, old: null });
    assert.equal(git(dir, "rev-parse", "other"), one);
  });

  test("a linked worktree's HEAD is its own", () => {
    const dir = makeRepo();
    const one = commit(dir, "one");
    const two = commit(dir, "two");
    const linked = join(tempDir(), "linked");
    git(dir, "worktree", "add", "-q", "--detach", linked);
    updateRef(openRepository(linked), { ref: "HEAD", new: one, old: two });
    assert.equal(git(linked, "rev-parse", "HEAD"), one);
    assert.equal(git(dir, "rev-parse", "HEAD"), two);
  });

  test("a name in another's way is refused, an empty directory there is not in the way", () => {
    const dir = makeRepo();
    const one = commit(dir, "one");
    const home = openRepository(dir);
    git(dir, "branch", "a/b");
    mkdirSync(join(dir, ".git/refs/heads/empty/er"), { recursive: true });
    updateRef(home, { ref: "refs/heads/empty", new: one, old: null });
    assert.equal(git(dir, "rev-parse", "empty"), one);
    for (const packed of [false, true]) {
      if (packed) git(dir, "pack-refs", "--all", "--prune");
      assert.throws(
        () => updateRef(home, { ref: "refs/heads/a", new: one }),
        code("ref-name-invalid"),
      );
      assert.throws(
        () => updateRef(home, { ref: "refs/heads/a/b/c", new: one }),
        code("ref-name-invalid"),
      );
    }
    assert.throws(
      () => updateRef(home, { ref: "refs/heads/../x", new: one }),
      code("ref-name-invalid"),
    );
    assert.throws(() => updateRef(home, { ref: "config", new: one }), code("ref-name-invalid"));
  });

  test("git's lock is respected, and named", () => {
    const dir = makeRepo();
    const one = commit(dir, "one");
    const lock = join(dir, ".git/refs/heads/new.lock");
    mkdirSync(dirname(lock), { recursive: true });
    writeFileSync(lock, "");
    assert.throws(
      () => updateRef(openRepository(dir), { ref: "refs/heads/new", new: one }),
      (error) => {
        code("ref-locked")(error);
        return isAgentqError(error) && error.message.includes("new.lock");
      },
    );
    assert.equal(readFileSync(lock, "utf8"), "");
  });
});
