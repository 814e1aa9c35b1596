/** An origin on this machine that belongs to somebody else, and one that limits what it takes. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { chmodSync, existsSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { isAgentqError } from "../../../src/errors.ts";
import { openConfig } from "../../../src/git/config.ts";
import { openOrigin } from "../../../src/git/origin.ts";
import { leavesForeignFiles, refuseForeignOrigin } from "../../../src/git/ownership.ts";
import { openRepository } from "../../../src/git/repository.ts";
import { commit, git, makeRepo, tempDir, tryGit, write } from "../../helpers/git.ts";

function makeOrigin() {
  const work = makeRepo();
  const first = commit(work, "first", { "a.txt": "a\n" });
  const bare = tempDir();
  git(bare, "clone", "-q", "--bare", work, ".");
  return { work, first, bare };
}

/** Runs as if this were another user, with a configuration of his. */
async function asAnother<T>(config: string, work: () => Promise<T>): Promise<T> {
  const { geteuid } = process;
  const before = process.env.GIT_CONFIG_GLOBAL;
  const path = join(tempDir(), "gitconfig");
  writeFileSync(path, config);
  process.env.GIT_CONFIG_GLOBAL = path;
  process.geteuid = () => geteuid!.call(process) + 1;
  try {
    return await work();
  } finally {
    process.geteuid = geteuid!;
    if (before === undefined) delete process.env.GIT_CONFIG_GLOBAL;
    else process.env.GIT_CONFIG_GLOBAL = before;
  }
}

const safe = (path: string) => `[safe]\n\tdirectory = ${path}\n`;

test("another user's origin is read, and pushed to only when safe.directory lists it: no hook runs before", async () => {
  const { work, first, bare } = makeOrigin();
  const ran = join(tempDir(), "ran");
  write(bare, "hooks/pre-receive", `#!/bin/sh\ncat > /dev/null\n: > ${ran}\n`);
  chmodSync(join(bare, "hooks/pre-receive"), 0o755);
  const next = commit(work, "next");
  const push = async () => {
    const origin = await openOrigin(bare);
    const repository = openRepository(work);
    try {
      assert.equal((await origin.refs(["refs/heads/main"])).refs.get("refs/heads/main"), first);
      return await origin.push(
        [{ ref: "refs/x/y", old: null, new: next }],
        repository.objects,
      );
    } finally {
      origin.close();
      repository.close();
    }
  };
  const foreign = (error: unknown) =>
    isAgentqError(error, "repository-foreign") && error.message.includes(bare) &&
    error.hint.includes(`safe.directory ${bare}`);
  await assert.rejects(asAnother("", push), foreign);
  // Its own word counts for nothing.
  git(bare, "config", "safe.directory", "*");
  await assert.rejects(asAnother("", push), foreign);
  await assert.rejects(asAnother(safe("/elsewhere"), push), foreign);
  assert.ok(!existsSync(ran), "its hook ran");
  assert.equal(tryGit(bare, ["rev-parse", "--verify", "-q", "refs/x/y"]).status, 1);
  assert.deepEqual(await asAnother(safe(bare), push), { status: "won" });
  assert.ok(existsSync(ran));
});

test("refuseForeignOrigin() and leavesForeignFiles() look at who owns the repository", () => {
  const { bare, work } = makeOrigin();
  const owner = statSync(bare).uid;
  const other = owner + 1;
  const look = (path: string, config = "") => {
    const file = join(tempDir(), "gitconfig");
    writeFileSync(file, config);
    const { gitDir, commonDir, workTree } = openRepository(path);
    const local = { gitDir, commonDir, worktreeConfig: false, branch: () => null };
    const env = { GIT_CONFIG_GLOBAL: file, GIT_CONFIG_NOSYSTEM: "1" };
    return { gitDir, commonDir, workTree, config: openConfig({ repository: local, env }) };
  };
  const foreign = (error: unknown) => isAgentqError(error, "repository-foreign");
  for (const path of [bare, work]) {
    refuseForeignOrigin(look(path), {}, owner);
    // What the pushing side calls its own repository says nothing about the origin.
    assert.throws(
      () => refuseForeignOrigin(look(path), { GIT_DIR: path, SUDO_UID: String(owner) }, other),
      foreign,
    );
    refuseForeignOrigin(look(path, safe(path)), {}, other);
    refuseForeignOrigin(look(path, safe("*")), {}, other);
    assert.throws(() => refuseForeignOrigin(look(path, safe(`${path}/x`)), {}, other), foreign);
    assert.equal(leavesForeignFiles(look(path), owner), false);
    assert.equal(leavesForeignFiles(look(path), other), true);
  }
  git(bare, "config", "core.sharedRepository", "group");
  assert.equal(leavesForeignFiles(look(bare), other), false);
});

test("receive.maxInputSize refuses what git refuses, and nothing of it stays", async () => {
  const { work, first, bare } = makeOrigin();
  const objects = () => git(bare, "count-objects", "-v");
  git(bare, "config", "receive.maxInputSize", "5k");
  const small = commit(work, "small", { "small.txt": "small\n" });
  const large = commit(work, "large", { "large.bin": randomBytes(60_000) });
  const byGit = (oid: string) => tryGit(work, ["push", "-q", bare, `${oid}:refs/x/git`]).status;
  const origin = await openOrigin(bare);
  const repository = openRepository(work);
  const push = (ref: string, oid: string) =>
    origin.push([{ ref, old: null, new: oid }], repository.objects, { remoteHas: [first] });
  try {
    for (const guarded of [false, true]) {
      if (guarded) {
        write(bare, "hooks/pre-receive", "#!/bin/sh\ncat > /dev/null\n");
        chmodSync(join(bare, "hooks/pre-receive"), 0o755);
      }
      const before = objects();
      const outcome = await push("refs/x/large", large);
      assert.ok(outcome.status === "refused");
      assert.match(outcome.message, /5120 bytes.*receive\.maxInputSize/);
      assert.equal(objects(), before);
    }
    assert.equal(byGit(large), 1);
    assert.equal((await push("refs/x/small", small)).status, "won");
    assert.equal(byGit(small), 0);
    git(bare, "config", "receive.maxInputSize", "0");
    assert.equal((await push("refs/x/large", large)).status, "won");
  } finally {
    origin.close();
    repository.close();
  }
});
