import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { isAgentqError } from "../../../src/errors.ts";
import { openOrigin } from "../../../src/git/origin.ts";
import { newLockText } from "../../../src/git/file/ref-lock.ts";
import { openRepository } from "../../../src/git/repository.ts";
import type { Origin, PushOutcome, RefUpdate } from "../../../src/git/types.ts";
import { commit, git, gitEnv, makeRepo, tempDir, tryGit, write } from "../../helpers/git.ts";

interface Setup {
  bare: string;
  work: string;
  first: string;
  origin: Origin;
  push(updates: readonly RefUpdate[], remoteHas?: string[]): Promise<PushOutcome>;
}

/** A bare origin with one commit on main and a clone of it. */
async function setup(options: { bare?: boolean } = {}): Promise<Setup> {
  const work = makeRepo();
  const first = commit(work, "first", { "a.txt": "a\n", "dir/b.txt": "b\n" });
  const bare = tempDir();
  git(bare, "clone", "-q", ...(options.bare === false ? [] : ["--bare"]), work, ".");
  const origin = await openOrigin(bare);
  const repository = openRepository(work);
  return {
    bare,
    work,
    first,
    origin,
    push: (updates, remoteHas) =>
      origin.push(updates, repository.objects, remoteHas ? { remoteHas } : {}),
  };
}

function hook(bare: string, name: string, script: string, mode = 0o755): void {
  write(bare, `hooks/${name}`, script);
  chmodSync(join(bare, "hooks", name), mode);
}

function noLeftovers(bare: string): void {
  const found = readdirSync(bare, { recursive: true }).map(String)
    .filter((name) => /\.lock$|tmp_|agentq/.test(name));
  assert.deepEqual(found, []);
  assert.match(git(bare, "fsck", "--full", "--strict").trim(), /^(dangling .*\n?)*$/);
}

const packs = (bare: string) =>
  readdirSync(join(bare, "objects/pack")).filter((name) => name.endsWith(".pack")).length;

test("push() moves several refs at once, with their objects, and git agrees", async () => {
  const { bare, work, first, push } = await setup();
  const second = commit(work, "second", { "dir/b.txt": "b2\n", "new/deep/c": "c\n" });
  const outcome = await push([
    { ref: "refs/weave/main/lock", old: null, new: first },
    { ref: "refs/heads/main", old: first, new: second },
    { ref: "refs/weave/main/done", old: null, new: second },
  ], [first]);
  assert.deepEqual(outcome, { status: "won" });
  assert.equal(git(bare, "rev-parse", "main"), second);
  assert.equal(git(bare, "rev-parse", "refs/weave/main/done"), second);
  assert.equal(git(bare, "ls-tree", "-r", "main"), git(work, "ls-tree", "-r", "HEAD"));
  noLeftovers(bare);
});

test("push() sends only what the origin lacks", async () => {
  const { bare, work, first, push } = await setup();
  const second = commit(work, "second", { "dir/b.txt": "b2\n" });
  assert.equal(
    (await push([{ ref: "refs/heads/main", old: first, new: second }], [first])).status,
    "won",
  );
  const idx = readdirSync(join(bare, "objects/pack")).filter((name) => name.endsWith(".idx"));
  const counts = idx.map((name) =>
    tryGit(bare, ["show-index"], { input: readFileSync(join(bare, "objects/pack", name)) })
      .stdout.trim().split("\n").length
  );
  // One commit, the root tree, dir/ and one blob.
  assert.ok(counts.includes(4), String(counts));
});

for (const guarded of [false, true]) {
  test(`until \`ready\` nothing of a push can be seen, nor is anybody kept waiting (${guarded ? "with" : "without"} hooks)`, async () => {
    const { bare, work, first, origin } = await setup();
    if (guarded) hook(bare, "pre-receive", "#!/bin/sh\nread -r a b c; echo $c > pushed\n");
    const { objects } = openRepository(work);
    const second = commit(work, "second", { "new.txt": "new\n" });
    const update = { ref: "refs/heads/topic", old: null, new: second };
    const refs = git(bare, "for-each-ref");
    const reason = new Error("not ready");
    const seen: string[] = [];
    const look = () => {
      assert.equal(git(bare, "for-each-ref"), refs);
      assert.notEqual(tryGit(bare, ["cat-file", "-e", second]).status, 0);
      assert.equal(existsSync(join(bare, "pushed")), false);
      // Another push gets through meanwhile.
      git(bare, "update-ref", "refs/heads/topic", first);
      git(bare, "update-ref", "-d", "refs/heads/topic");
      seen.push("looked");
    };
    await assert.rejects(
      origin.push([update], objects, {
        ready: async () => {
          await new Promise((resolve) => setTimeout(resolve, 20));
          look();
          throw reason;
        },
      }),
      (error) => error === reason,
    );
    look();
    noLeftovers(bare);
    const outcome = await origin.push([update], objects, { ready: () => Promise.resolve(look()) });
    assert.deepEqual(outcome, { status: "won" });
    assert.equal(git(bare, "rev-parse", "topic"), second);
    assert.equal(existsSync(join(bare, "pushed")), guarded);
    assert.equal(seen.length, 3);
    noLeftovers(bare);
  });
}

test("what was written before `ready` is written again when a gc has cleared it away, and goes when a ref has moved", async () => {
  const { bare, work, first, origin } = await setup();
  const { objects } = openRepository(work);
  const second = commit(work, "second", { "new.txt": "new\n" });
  const update = { ref: "refs/heads/topic", old: null, new: second };
  const prune = () => {
    for (const name of readdirSync(join(bare, "objects/pack"))) {
      if (name.startsWith("tmp_")) unlinkSync(join(bare, "objects/pack", name));
    }
  };
  const won = await origin.push([update], objects, { ready: () => Promise.resolve(prune()) });
  assert.deepEqual(won, { status: "won" });
  assert.equal(git(bare, "show", "topic:new.txt"), "new");
  noLeftovers(bare);
  const before = packs(bare);
  const third = commit(work, "third", { "new.txt": "third\n" });
  const lost = await origin.push([{ ref: "refs/heads/topic", old: second, new: third }], objects, {
    ready: () => Promise.resolve(void git(bare, "update-ref", "refs/heads/topic", first)),
  });
  assert.equal(lost.status, "lost");
  assert.equal(packs(bare), before);
  noLeftovers(bare);
});

test("push() loses against any ref that moved and changes nothing", async () => {
  const { bare, work, first, push } = await setup();
  const second = commit(work, "second");
  const before = packs(bare);
  const outcome = await push([
    { ref: "refs/heads/main", old: second, new: first },
    { ref: "refs/heads/other", old: null, new: second },
  ]);
  assert.equal(outcome.status, "lost");
  assert.deepEqual(outcome.status === "lost" && outcome.refs, ["refs/heads/main"]);
  const exists = await push([{ ref: "refs/heads/main", old: null, new: second }]);
  assert.equal(exists.status, "lost");
  assert.equal(git(bare, "rev-parse", "main"), first);
  assert.equal(tryGit(bare, ["rev-parse", "--verify", "-q", "refs/heads/other"]).status, 1);
  assert.equal(packs(bare), before);
  noLeftovers(bare);
});

test("push() finds old values in packed-refs", async () => {
  const { bare, work, first, push } = await setup();
  git(bare, "pack-refs", "--all", "--prune");
  const second = commit(work, "second");
  assert.equal((await push([{ ref: "refs/heads/main", old: null, new: second }])).status, "lost");
  assert.equal((await push([{ ref: "refs/heads/main", old: first, new: second }])).status, "won");
  git(bare, "pack-refs", "--all", "--prune");
  assert.equal(git(bare, "rev-parse", "main"), second);
});

test("push() refuses a name below or above another ref, loose or packed", async () => {
  for (const pack of [false, true]) {
    const { bare, first, push } = await setup();
    git(bare, "update-ref", "refs/heads/a/b", first);
    if (pack) git(bare, "pack-refs", "--all", "--prune");
    for (const ref of ["refs/heads/a", "refs/heads/a/b/c"]) {
      const outcome = await push([
        { ref: "refs/heads/fine", old: null, new: first },
        { ref, old: null, new: first },
      ]);
      assert.equal(outcome.status, "refused", `${ref} ${pack}`);
      assert.equal(tryGit(bare, ["rev-parse", "--verify", "-q", "refs/heads/fine"]).status, 1);
    }
    noLeftovers(bare);
  }
});

test("push() replaces an empty directory that a deleted ref has left", async () => {
  const { bare, first, push } = await setup();
  mkdirSync(join(bare, "refs/heads/gone/deep"), { recursive: true });
  const outcome = await push([{ ref: "refs/heads/gone", old: null, new: first }]);
  assert.equal(outcome.status, "won");
  assert.equal(git(bare, "rev-parse", "refs/heads/gone"), first);
});

test("push() follows a symbolic ref to the branch it names", async () => {
  const { bare, work, first, push } = await setup();
  git(bare, "symbolic-ref", "refs/heads/alias", "refs/heads/main");
  const second = commit(work, "second");
  assert.equal((await push([{ ref: "refs/heads/alias", old: first, new: second }])).status, "won");
  assert.equal(git(bare, "symbolic-ref", "refs/heads/alias"), "refs/heads/main");
  assert.equal(git(bare, "rev-parse", "main"), second);
});

test("push() honours receive.denyNonFastForwards for branches", async () => {
  const { bare, work, first, push } = await setup();
  git(bare, "config", "receive.denyNonFastForwards", "true");
  const second = commit(work, "second");
  assert.equal((await push([{ ref: "refs/heads/main", old: first, new: second }])).status, "won");
  const back = await push([{ ref: "refs/heads/main", old: second, new: first }]);
  assert.equal(back.status, "refused");
  assert.match(back.status === "refused" ? back.message : "", /denyNonFastForwards/);
  git(bare, "config", "receive.denyNonFastForwards", "false");
  assert.equal((await push([{ ref: "refs/heads/main", old: second, new: first }])).status, "won");
});

test("push() refuses a branch that the origin has checked out, in any work tree", async () => {
  const { bare, work, first, push } = await setup({ bare: false });
  const second = commit(work, "second");
  const update = { ref: "refs/heads/main", old: first, new: second };
  const outcome = await push([update]);
  assert.equal(outcome.status, "refused");
  assert.match(outcome.status === "refused" ? outcome.message : "", /denyCurrentBranch/);
  git(bare, "branch", "side");
  git(bare, "worktree", "add", "-q", tempDir() + "/wt", "side");
  assert.equal(
    (await push([{ ref: "refs/heads/side", old: first, new: second }])).status,
    "refused",
  );
  assert.equal((await push([{ ref: "refs/heads/free", old: null, new: second }])).status, "won");
  git(bare, "config", "receive.denyCurrentBranch", "ignore");
  assert.equal((await push([update])).status, "won");
});

test("push() refuses a branch that would not hold a commit", async () => {
  const { work, push } = await setup();
  const tree = git(work, "rev-parse", "HEAD^{tree}");
  assert.equal((await push([{ ref: "refs/heads/tree", old: null, new: tree }])).status, "refused");
});

test("push() lets nobody push to hidden refs, and refs() doesn't show them", async () => {
  const { bare, first, origin, push } = await setup();
  git(bare, "update-ref", "refs/secret/x", first);
  git(bare, "config", "transfer.hideRefs", "refs/secret");
  assert.equal((await push([{ ref: "refs/secret/y", old: null, new: first }])).status, "refused");
  const { refs, head } = await (await openOrigin(bare)).refs(["refs/"]);
  assert.deepEqual([...refs.keys()], ["refs/heads/main"]);
  assert.equal(head, "refs/heads/main");
  origin.close();
});

test("hooks see git's arguments, input and environment, and the objects in quarantine", async () => {
  const { bare, work, first, push } = await setup();
  const log = join(bare, "log");
  for (
    const name of ["pre-receive", "update", "reference-transaction", "post-receive", "post-update"]
  ) {
    const input = name === "update" || name === "post-update" ? "" : "; cat";
    hook(
      bare,
      name,
      `#!/bin/sh\n{ echo "== ${name} $* GIT_DIR=$GIT_DIR cwd=$(pwd) q=\${GIT_QUARANTINE_PATH:+yes}"${input}; } >> ${log}\n` +
        (name === "pre-receive"
          ? `while read -r old new ref; do git cat-file -t "$new" >> ${log} && git rev-list --objects --not --all --not "$new" >/dev/null; done\n`
          : ""),
    );
  }
  const second = commit(work, "second");
  const zero = "0".repeat(40);
  const outcome = await push([
    { ref: "refs/heads/main", old: first, new: second },
    { ref: "refs/heads/new", old: null, new: second },
  ]);
  assert.deepEqual(outcome, { status: "won" });
  const input = `${first} ${second} refs/heads/main\n${zero} ${second} refs/heads/new\n`;
  const where = `GIT_DIR=. cwd=${bare}`;
  assert.equal(
    readFileSync(log, "utf8"),
    `== pre-receive  ${where} q=yes\n${input}` +
      `== update refs/heads/main ${first} ${second} ${where} q=\n` +
      `== update refs/heads/new ${zero} ${second} ${where} q=\n` +
      `== reference-transaction prepared ${where} q=\n${input}` +
      `== reference-transaction committed ${where} q=\n${input}` +
      `== post-receive  ${where} q=\n${input}` +
      `== post-update refs/heads/main refs/heads/new ${where} q=\n`,
  );
  noLeftovers(bare);
});

test("pre-receive reads the pushed objects from quarantine", async () => {
  const { bare, work, first, push } = await setup();
  hook(
    bare,
    "pre-receive",
    `#!/bin/sh\nread -r old new ref\ngit cat-file -t "$new" && git show "$new:a.txt" && exit 1\n`,
  );
  const second = commit(work, "second", { "a.txt": "in quarantine\n" });
  const outcome = await push([{ ref: "refs/heads/main", old: first, new: second }]);
  assert.equal(outcome.status, "refused");
  assert.equal(outcome.status === "refused" && outcome.remoteOutput, "commit\nin quarantine\n");
  assert.equal(tryGit(bare, ["cat-file", "-e", second]).status !== 0, true);
  noLeftovers(bare);
});

for (const name of ["pre-receive", "update", "reference-transaction"]) {
  test(`a ${name} hook that declines refuses the whole push in its own words`, async () => {
    const { bare, work, first, push } = await setup();
    hook(
      bare,
      name,
      `#!/bin/sh\n[ "$1" = aborted ] && exit 0\necho "not on my watch" >&2\nexit 3\n`,
    );
    const second = commit(work, "second");
    const outcome = await push([
      { ref: "refs/heads/main", old: first, new: second },
      { ref: "refs/heads/new", old: null, new: second },
    ]);
    assert.ok(outcome.status === "refused");
    assert.match(outcome.message, /exit 3/);
    assert.equal(outcome.remoteOutput, "not on my watch\n");
    assert.equal(git(bare, "rev-parse", "main"), first);
    noLeftovers(bare);
  });

  test(`a ${name} hook that can't be run refuses the push`, async () => {
    const { bare, work, first, push } = await setup();
    const second = commit(work, "second");
    const update = { ref: "refs/heads/main", old: first, new: second };
    hook(bare, name, "#!/no/such/interpreter\n");
    const missing = await push([update]);
    assert.ok(missing.status === "refused");
    assert.match(missing.message, /could not be run/);
    assert.equal(git(bare, "rev-parse", "main"), first);
    hook(bare, name, "exit 0\n");
    assert.equal((await push([update])).status, "won", "without #! line");
    noLeftovers(bare);
  });
}

test("hooks that aren't executable are ignored as by git, which is told once and to a doctor", async () => {
  const { bare, work, first } = await setup();
  const hooks = ["pre-receive", "update", "reference-transaction", "post-receive", "post-update"];
  for (const name of hooks) hook(bare, name, "#!/bin/sh\nexit 1\n", 0o644);
  const second = commit(work, "second");
  const pushed = tryGit(work, ["push", bare, `${second}:refs/heads/by-git`]);
  assert.equal(pushed.status, 0, pushed.stderr);
  const told: string[] = [];
  const origin = await openOrigin(bare, { note: (text) => told.push(text) });
  const { objects } = openRepository(work);
  for (const ref of ["refs/heads/one", "refs/heads/two"]) {
    const outcome = await origin.push([{ ref, old: null, new: second }], objects);
    assert.deepEqual(outcome, { status: "won" });
  }
  assert.equal(told.length, 1);
  for (const name of hooks) assert.ok(told[0]!.includes(name), told[0]!);
  assert.deepEqual(origin.remark?.()?.message, told[0]);
  assert.match(origin.remark?.()?.hint ?? "", /chmod/);

  // The one that is executable counts.
  hook(bare, "pre-receive", "#!/bin/sh\nexit 1\n", 0o755);
  const refused = await origin.push([{ ref: "refs/heads/x", old: null, new: first }], objects);
  assert.equal(refused.status, "refused");

  git(bare, "config", "advice.ignoredHook", "false");
  const quiet = await openOrigin(bare, { note: (text) => told.push(text) });
  chmodSync(join(bare, "hooks", "pre-receive"), 0o644);
  await quiet.push([{ ref: "refs/heads/y", old: null, new: first }], objects);
  assert.equal(told.length, 1);
  assert.equal(quiet.remark?.() ?? null, null);
});

test("core.hooksPath is where hooks are looked for", async () => {
  const { bare, work, first, push } = await setup();
  write(bare, "elsewhere/pre-receive", "#!/bin/sh\nexit 1\n");
  chmodSync(join(bare, "elsewhere/pre-receive"), 0o755);
  git(bare, "config", "core.hooksPath", "elsewhere");
  const second = commit(work, "second");
  assert.equal(
    (await push([{ ref: "refs/heads/main", old: first, new: second }])).status,
    "refused",
  );
});

test("core.sharedRepository decides the modes of what is written, as git would", async () => {
  for (const setting of ["group", "all", "0640", "false"]) {
    const modes = [];
    for (const who of ["ours", "git"]) {
      const { bare, work, first, push } = await setup();
      git(bare, "config", "core.sharedRepository", setting);
      git(bare, "config", "core.logAllRefUpdates", "always");
      const second = commit(work, "second");
      if (who === "git") {
        git(work, "push", "-q", "--atomic", bare, "main", `${second}:refs/weave/a/b/lock`);
      } else {
        const outcome = await push([
          { ref: "refs/heads/main", old: first, new: second },
          { ref: "refs/weave/a/b/lock", old: null, new: second },
        ]);
        assert.equal(outcome.status, "won");
      }
      const paths = ["refs/heads/main", "refs/weave", "refs/weave/a/b", "refs/weave/a/b/lock"];
      modes.push(
        [...paths, "logs/refs/weave/a", "logs/refs/weave/a/b/lock"].map((path) =>
          `${path} ${(lstatSync(join(bare, path)).mode & 0o7777).toString(8)}`
        ),
      );
    }
    assert.deepEqual(modes[0], modes[1], setting);
  }
});

test("a value file that a killed process has left is no hindrance", async () => {
  const { bare, work, first, push } = await setup();
  const second = commit(work, "second");
  writeFileSync(join(bare, "refs/heads/.main.agentq.lock"), "half", { mode: 0o444 });
  const outcome = await push([{ ref: "refs/heads/main", old: first, new: second }]);
  assert.equal(outcome.status, "won");
  noLeftovers(bare);
});

test("reflogs are written where git writes them, and git reads them", async () => {
  const { bare, work, first, push } = await setup();
  git(bare, "config", "core.logAllRefUpdates", "true");
  const second = commit(work, "second");
  await push([
    { ref: "refs/heads/main", old: first, new: second },
    { ref: "refs/weave/main/lock", old: null, new: second },
  ]);
  assert.match(
    git(bare, "reflog", "show", "--format=%H %gs", "main"),
    new RegExp(`^${second} push`),
  );
  assert.match(
    git(bare, "reflog", "show", "--format=%H %gs", "HEAD"),
    new RegExp(`^${second} push`),
  );
  assert.equal(existsSync(join(bare, "logs/refs/weave/main/lock")), false);
});

test("a lock that git or someone unknown holds is waited for, then named", async () => {
  const { bare, work, first, push } = await setup();
  const second = commit(work, "second");
  const lock = join(bare, "refs/heads/main.lock");
  writeFileSync(lock, "");
  const update = { ref: "refs/heads/main", old: first, new: second };
  const waiting = push([update]);
  setTimeout(() => {
    // git gives up its lock
    tryGit(bare, ["--version"]);
    import("node:fs").then((fs) => fs.unlinkSync(lock));
  }, 50);
  assert.deepEqual(await waiting, { status: "won" });

  const { prepareRefs } = await import("../../../src/git/file/ref-transaction.ts");
  const host = { commonDir: bare, sharedMode: 0, logs: () => false, identity: () => "a <a@b>" };
  writeFileSync(lock, "");
  const next = [{ ref: "refs/heads/main", old: second, new: first }];
  await assert.rejects(prepareRefs(host, next, { lockTimeoutMs: 30 }), (error) => {
    assert.ok(isAgentqError(error, "ref-locked"));
    assert.match(error.message, /main\.lock/);
    return true;
  });
  assert.ok(existsSync(lock));
});

test("a ref that moves while its lock is waited for is lost at once", async () => {
  const { bare, work, first } = await setup();
  const second = commit(work, "second");
  const { prepareRefs } = await import("../../../src/git/file/ref-transaction.ts");
  const host = { commonDir: bare, sharedMode: 0, logs: () => false, identity: () => "a <a@b>" };
  writeFileSync(join(bare, "refs/heads/main.lock"), "");
  const outcome = prepareRefs(host, [{ ref: "refs/heads/main", old: first, new: second }]);
  setTimeout(() => writeFileSync(join(bare, "refs/heads/main"), `${second}\n`), 30);
  assert.deepEqual(await outcome, { status: "lost", refs: ["refs/heads/main"] });
});

test("a lock whose owner is proven gone is broken; anyone else's is not", async () => {
  const { bare, work, first, push } = await setup();
  const second = commit(work, "second");
  const { processIdentity } = await import("../../../src/platform/host.ts");
  const { breakStaleLock } = await import("../../../src/git/file/ref-lock.ts");
  const lock = join(bare, "refs/heads/main.lock");
  const owner = { agentq: "lock", nonce: "0123456789abcdef", ...processIdentity() };
  // Alive.
  symlinkSync(JSON.stringify(owner), lock);
  assert.equal(breakStaleLock(lock), false);
  // Another boot, another pid namespace: not provable.
  for (const change of [{ bootId: "elsewhere" }, { pidNamespace: "pid:[1]" }]) {
    const other = join(bare, "refs/heads/x.lock");
    symlinkSync(JSON.stringify({ ...owner, pid: 2 ** 22 + 1, ...change }), other);
    assert.equal(breakStaleLock(other), false);
    (await import("node:fs")).unlinkSync(other);
  }
  (await import("node:fs")).unlinkSync(lock);
  // No process can have this pid on Linux.
  symlinkSync(JSON.stringify({ ...owner, pid: 2 ** 22 + 1 }), lock);
  assert.deepEqual(await push([{ ref: "refs/heads/main", old: first, new: second }]), {
    status: "won",
  });
  noLeftovers(bare);
});

test("a breaker that died while breaking is broken in turn", async () => {
  const { bare, work, first, push } = await setup();
  const second = commit(work, "second");
  const { processIdentity } = await import("../../../src/platform/host.ts");
  const dead = (nonce: string) =>
    JSON.stringify({ agentq: "lock", nonce, ...processIdentity(), pid: 2 ** 22 + 1 });
  symlinkSync(dead("aaaaaaaaaaaaaaaa"), join(bare, "refs/heads/main.lock"));
  symlinkSync(
    dead("bbbbbbbbbbbbbbbb"),
    join(bare, "refs/heads/.agentq-break-aaaaaaaaaaaaaaaa.lock"),
  );
  assert.deepEqual(await push([{ ref: "refs/heads/main", old: first, new: second }]), {
    status: "won",
  });
  noLeftovers(bare);
});

test("readCommits() gives the commits that are there, and only commits", async () => {
  const { work, first, origin } = await setup();
  const tree = git(work, "rev-parse", "HEAD^{tree}");
  const found = await origin.readCommits([first, "f".repeat(40), tree]);
  assert.deepEqual([...found.keys()], [first]);
  assert.match(new TextDecoder().decode(found.get(first)), /^tree /);
});

test("fetch() brings what is missing, complete", async () => {
  const { bare, work, first, origin } = await setup();
  const clone = tempDir();
  git(clone, "clone", "-q", bare, ".");
  const second = commit(work, "second", { "dir/b.txt": "2\n" });
  git(work, "push", "-q", bare, "HEAD:refs/heads/feat");
  const repository = openRepository(clone);
  await origin.fetch([second], repository.objects, { haves: [first] });
  assert.ok(repository.objects.has(second));
  assert.equal(git(clone, "rev-list", "--objects", second).split("\n").length, 9);
  assert.match(git(clone, "fsck", "--full"), /^(dangling .*\n?)*$/);
  const empty = makeRepo();
  await origin.fetch([second], openRepository(empty).objects);
  git(empty, "update-ref", "refs/heads/main", second);
  assert.equal(git(empty, "fsck", "--full", "--strict"), "");
  await assert.rejects(
    origin.fetch(["f".repeat(40)], repository.objects),
    (error) => isAgentqError(error, "object-missing"),
  );
});

test("openOrigin() finds what git finds, and nothing above it", async () => {
  const { bare, work } = await setup();
  assert.equal((await openOrigin(work)).kind, "file");
  assert.equal((await openOrigin(`file://${bare}`)).kind, "file");
  mkdirSync(join(work, "sub"));
  for (const path of [join(work, "sub"), join(bare, "refs"), "/no/such/place"]) {
    await assert.rejects(openOrigin(path), (error) => isAgentqError(error, "origin-not-found"));
  }
});

test("openOrigin() takes a bare word for a path where that is there, and a file for no repository", async () => {
  const { bare, work, first } = await setup();
  git(work, "clone", "-q", "--bare", bare, "origin.git");
  const repository = openRepository(work);
  const { refs } = await (await openOrigin("origin.git", { repository })).refs(["refs/heads/"]);
  assert.equal(refs.get("refs/heads/main"), first);
  assert.equal(git(work, "ls-remote", "origin.git", "main").slice(0, 40), first, "as git takes it");
  await assert.rejects(
    openOrigin("elsewhere.git", { repository }),
    (error) => isAgentqError(error, "remote-unknown"),
  );
  for (const path of ["/etc/passwd", "/etc/passwd/x", join(work, "a.txt"), "a.txt"]) {
    await assert.rejects(
      openOrigin(path, { repository }),
      (error) => isAgentqError(error, "origin-not-found"),
      path,
    );
  }
});

for (const key of ["transfer.hideRefs", "receive.hideRefs", "uploadpack.hideRefs"]) {
  test(`a chain that ${key} hides is refused, never lost again and again`, async () => {
    const { bare, first, push } = await setup();
    git(bare, "update-ref", "refs/weave/main/queue", first);
    git(bare, "config", key, "refs/weave");
    const outcome = await push([{ ref: "refs/weave/main/queue", old: null, new: first }]);
    assert.ok(outcome.status === "refused");
    assert.match(outcome.message, /^refs\/weave\/main\/queue: the origin hides this ref /);
    assert.deepEqual(outcome.message.match(/\w+\.hideRefs/g), [key]);
  });
}

test("what a hook leaves running is not waited for", async () => {
  const { bare, work, first, push } = await setup();
  hook(
    bare,
    "post-receive",
    `#!/bin/sh\necho said\nmkfifo hold\n(read -r line < hold; echo "$line" > heard) &\n`,
  );
  const second = commit(work, "second");
  // It would never end: nobody writes into the pipe until the push is over.
  assert.equal((await push([{ ref: "refs/heads/main", old: first, new: second }])).status, "won");
  writeFileSync(join(bare, "hold"), "go\n");
  while (!existsSync(join(bare, "heard"))) await new Promise((resolve) => setTimeout(resolve, 10));
});

for (const name of ["pre-receive", "update", "reference-transaction"]) {
  test(`git gc --prune=now in the origin's ${name}: the push's objects survive it`, async () => {
    // All but packing refs, which would run that hook in its turn.
    const collect = name === "reference-transaction"
      ? "git repack -adq && git prune --expire=now"
      : "git gc -q --prune=now";
    const { bare, work, first, push } = await setup();
    hook(
      bare,
      name,
      `#!/bin/sh\nunset GIT_QUARANTINE_PATH GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES\n` +
        `[ "$1" = committed ] || { ${collect}; } >> ran 2>&1 && echo ok >> ran\n`,
    );
    const second = commit(work, "second", { "new.txt": "new\n" });
    const outcome = await push([{ ref: "refs/heads/main", old: first, new: second }]);
    assert.deepEqual(outcome, { status: "won" });
    assert.match(readFileSync(join(bare, "ran"), "utf8"), /ok/);
    assert.equal(git(bare, "show", "main:new.txt"), "new");
    assert.equal(git(bare, "fsck", "--full", "--strict"), "");
    noLeftovers(bare);
    assert.deepEqual(
      readdirSync(join(bare, "objects/pack")).filter((file) => file.endsWith(".keep")),
      [],
    );
  });
}

test("pushes beside git gc --prune=now without pause: each wins, and nothing is lost", {
  timeout: 120_000,
}, async () => {
  const { bare, work, first, push } = await setup();
  const gc = spawn("sh", ["-c", "while [ ! -e stop ]; do git gc -q --prune=now; git prune; done"], {
    cwd: bare,
    env: gitEnv(),
    stdio: "ignore",
  });
  const ended = new Promise((resolve) => gc.once("exit", resolve));
  let old = first;
  for (let i = 0; i < 25; i++) {
    const next = commit(work, `c${i}`, { [`f${i % 5}`]: `${i}\n` });
    assert.equal((await push([{ ref: "refs/heads/main", old, new: next }])).status, "won");
    old = next;
  }
  write(bare, "stop", "");
  await ended;
  assert.equal(git(bare, "rev-list", "--count", "main"), "26");
  assert.match(git(bare, "fsck", "--full", "--strict").trim(), /^(dangling .*\n?)*$/);
});

test("the keep file of a push that was killed goes with a later push; a stranger's stays", async () => {
  const { bare, work, first, push } = await setup();
  const gone = spawnSync("sh", ["-c", "echo $$"], { encoding: "utf8" });
  const owner = { ...JSON.parse(newLockText().text), pid: Number(gone.stdout) };
  write(bare, "objects/pack/pack-1.keep", JSON.stringify(owner));
  write(bare, "objects/pack/pack-2.keep", "receive-pack 1 on host\n");
  const second = commit(work, "second");
  assert.equal((await push([{ ref: "refs/heads/main", old: first, new: second }])).status, "won");
  assert.deepEqual(
    readdirSync(join(bare, "objects/pack")).filter((file) => file.endsWith(".keep")),
    ["pack-2.keep"],
  );
});
