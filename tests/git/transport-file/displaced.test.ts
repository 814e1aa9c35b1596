/** Origins that are moved away, deleted or replaced while they are used: one directory is used, or none. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { isAgentqError } from "../../../src/errors.ts";
import { openOrigin } from "../../../src/git/origin.ts";
import { createLock } from "../../../src/git/file/ref-lock.ts";
import { makeBelow } from "../../../src/platform/make-below.ts";
import { openRepository } from "../../../src/git/repository.ts";
import type { ObjectReader, Origin } from "../../../src/git/types.ts";
import { commit, git, makeRepo, tempDir, write } from "../../helpers/git.ts";

interface Setup {
  readonly bare: string;
  readonly away: string;
  readonly backup: string;
  readonly work: string;
  readonly first: string;
  readonly second: string;
  readonly origin: Origin;
}

/** An origin with a copy from before its last commit, and a clone that is one commit ahead of it. */
async function setup(): Promise<Setup> {
  const work = makeRepo();
  commit(work, "zero", { "a.txt": "a\n" });
  const directory = tempDir();
  const bare = join(directory, "o.git");
  git(directory, "clone", "-q", "--bare", work, bare);
  const backup = join(directory, "backup");
  cpSync(bare, backup, { recursive: true });
  const first = commit(work, "first", { "b.txt": "b\n" });
  git(work, "push", "-q", bare, "main");
  const second = commit(work, "second", { "c/d.txt": "d\n", "c/e.txt": "e\n" });
  return {
    bare,
    away: join(directory, "away"),
    backup,
    work,
    first,
    second,
    origin: await openOrigin(bare),
  };
}

/** What an operator does to an origin; the shell's words for it, since hooks do it too. */
const MOVES = {
  "moved away": ({ bare, away }: Setup) => `mv '${bare}' '${away}'`,
  "deleted": ({ bare }: Setup) => `rm -rf '${bare}'`,
  "replaced": ({ bare, away, backup }: Setup) =>
    `mv '${bare}' '${away}' && cp -a '${backup}' '${bare}'`,
  "replaced by an empty directory": ({ bare, away }: Setup) =>
    `mv '${bare}' '${away}' && mkdir '${bare}'`,
  "robbed of its objects": ({ bare, away }: Setup) =>
    `mkdir '${away}' && mv '${bare}/objects' '${away}'`,
  "given other refs": ({ bare, backup, away }: Setup) =>
    `mkdir '${away}' && mv '${bare}/refs' '${away}' && cp -a '${backup}/refs' '${bare}/refs'`,
} as const;

const shell = (script: string) =>
  assert.equal(spawnSync("/bin/sh", ["-c", script]).status, 0, script);

const files = (directory: string) =>
  all(directory).filter((name) => lstatSync(join(directory, name)).isDirectory() === false);

const all = (directory: string) =>
  existsSync(directory) ? readdirSync(directory, { recursive: true }).map(String).sort() : [];

const isDisplaced = (error: unknown) => {
  assert.ok(isAgentqError(error, "origin-unreachable"), String(error));
  assert.ok(error.retryable);
  assert.doesNotMatch(error.message + error.hint + JSON.stringify(error.details), /\/proc\//);
  return true;
};

/** What hooks and settings of these tests are no leftovers of a push. */
const leftovers = (names: readonly string[]) =>
  names.filter((name) => /\.lock$|\.keep$|tmp_|agentq|weave/.test(name));

/** Nothing of the push is anywhere. */
function checkNothing(
  { bare, away, backup }: Setup,
  move: keyof typeof MOVES,
): void {
  if (move === "moved away" || move === "deleted") assert.equal(existsSync(bare), false);
  if (move === "replaced by an empty directory") assert.deepEqual(all(bare), []);
  if (move === "replaced") assert.deepEqual(all(bare), all(backup));
  assert.deepEqual(leftovers([...files(bare), ...files(away)]), []);
}

const updates = ({ first, second }: Setup) => [
  { ref: "refs/weave/main/queue", old: null, new: second },
  { ref: "refs/heads/main", old: first, new: second },
];

/** Reads through `objects`; the `nth` read of all does `work` first. */
function interrupted(objects: ObjectReader, nth: number, work: () => void): ObjectReader {
  let reads = 0;
  const step = () => {
    if (++reads === nth) work();
  };
  return {
    read: (oid) => (step(), objects.read(oid)),
    stat: (oid) => (step(), objects.stat(oid)),
    has: (oid) => (step(), objects.has(oid)),
  };
}

for (const move of Object.keys(MOVES) as (keyof typeof MOVES)[]) {
  test(`an origin that is ${move} at any read of a push gets nothing of it`, async () => {
    // How often a push reads differs with the ids of its objects.
    for (let nth = 1;; nth++) {
      const at = await setup();
      let moved = false;
      const reader = interrupted(openRepository(at.work).objects, nth, () => {
        shell(MOVES[move](at));
        moved = true;
      });
      const pushed = await at.origin.push(updates(at), reader).catch((error) => error);
      if (!moved) {
        assert.deepEqual(pushed, { status: "won" });
        assert.ok(nth > 5, String(nth));
        break;
      }
      isDisplaced(pushed);
      checkNothing(at, move);
    }
  });

  test(`an origin that is ${move} while a push waits for \`ready\` gets nothing of it`, async () => {
    for (const guarded of [false, true]) {
      const at = await setup();
      if (guarded) hook(at, "pre-receive", "exit 1");
      const ready = () => Promise.resolve(shell(MOVES[move](at)));
      const { objects } = openRepository(at.work);
      await assert.rejects(at.origin.push(updates(at), objects, { ready }), isDisplaced);
      checkNothing(at, move);
    }
  });

  for (const name of ["pre-receive", "update", "reference-transaction"]) {
    test(`an origin that is ${move} in its ${name} hook gets nothing of the push, whatever the hook says`, async () => {
      for (const status of [0, 1]) {
        const at = await setup();
        hook(at, name, `${MOVES[move](at)}; exit ${status}`);
        const { objects } = openRepository(at.work);
        await assert.rejects(at.origin.push(updates(at), objects), isDisplaced);
        // Git lets packs out of quarantine before `update` and before `prepared` too: without refs.
        checkNothing(at, move);
        if (move !== "moved away") continue;
        // It comes back, and is pushed to by the same origin.
        renameSync(at.away, at.bare);
        rmSync(join(at.bare, "hooks", name));
        assert.equal((await at.origin.push(updates(at), objects)).status, "won");
        assert.equal(git(at.bare, "rev-parse", "main", "refs/weave/main/queue").trim().length, 81);
        assert.equal(git(at.bare, "fsck", "--full", "--strict"), "");
      }
    });
  }

  test(`an origin that is ${move} while a lock is waited for gets nothing of the push`, async () => {
    const at = await setup();
    write(at.bare, "refs/heads/main.lock", "");
    const { objects } = openRepository(at.work);
    const pushed = at.origin.push(updates(at), objects);
    await new Promise((resolve) => setTimeout(resolve, 30));
    rmSync(join(at.bare, "refs/heads/main.lock"));
    shell(MOVES[move](at));
    // Other refs hold other values.
    if (move === "given other refs") assert.equal((await pushed).status, "lost");
    else await assert.rejects(pushed, isDisplaced);
    checkNothing(at, move);
  });
}

function hook({ bare }: Setup, name: string, script: string): void {
  write(bare, `hooks/${name}`, `#!/bin/sh\n[ "$1" = aborted ] && exit 0\n${script}\n`);
  chmodSync(join(bare, "hooks", name), 0o755);
}

test("a push whose origin is moved away while its refs move is of unknown outcome, and found when it is back", async () => {
  const at = await setup();
  const { bare, away, work, second, origin } = at;
  // Opening the reflog waits for who reads it: that is after the last look and before the first ref moves.
  mkdirSync(join(bare, "logs/refs/heads"), { recursive: true });
  shell(`mkfifo '${bare}/logs/refs/heads/main'`);
  const reader = spawn("/bin/sh", [
    "-c",
    `while ! [ -L '${bare}/refs/heads/main.lock' ]; do sleep 0.01; done; sleep 0.2
     mv '${bare}' '${away}' && cat '${away}/logs/refs/heads/main'`,
  ], { stdio: "ignore" });
  const ended = new Promise((resolve) => reader.once("exit", resolve));
  const outcome = await origin.push(updates(at), openRepository(work).objects);
  await ended;
  assert.equal(outcome.status, "unknown");
  isDisplaced((outcome as { cause?: unknown }).cause);
  assert.equal(existsSync(bare), false);
  await assert.rejects(origin.refs(["refs/"]), isDisplaced);
  renameSync(away, bare);
  assert.equal((await origin.refs(["refs/"])).refs.get("refs/weave/main/queue"), second);
  assert.deepEqual(leftovers(files(bare)), ["refs/weave/main/queue"]);
});

test("an origin that is away has no refs that could be told, nor lacks an object", async () => {
  for (const move of Object.keys(MOVES) as (keyof typeof MOVES)[]) {
    const at = await setup();
    shell(MOVES[move](at));
    if (move === "replaced" || move === "given other refs") continue;
    await assert.rejects(at.origin.refs(["refs/"]), isDisplaced);
    assert.throws(() => at.origin.objects()!.read("1".repeat(40)), isDisplaced);
    await assert.rejects(at.origin.readCommits(["1".repeat(40)]), isDisplaced);
    await assert.rejects(at.origin.push(updates(at), openRepository(at.work).objects), isDisplaced);
    checkNothing(at, move);
  }
});

test("an origin that was replaced between two calls is looked at anew: what it lacks is sent", async () => {
  const at = await setup();
  const { bare, work, first, second, origin } = at;
  const before = await origin.refs(["refs/"]);
  assert.equal(before.refs.get("refs/heads/main"), first);
  assert.ok(origin.objects()!.has(first));
  shell(MOVES.replaced(at));
  const now = await origin.refs(["refs/"]);
  assert.notEqual(now.refs.get("refs/heads/main"), first);
  assert.equal(origin.objects()!.has(first), false);
  const queue = { ref: "refs/weave/main/queue", old: null, new: second };
  // The caller believes what the one before had.
  const pushed = await origin.push([queue], openRepository(work).objects, { remoteHas: [first] });
  assert.equal(pushed.status, "won");
  assert.equal(git(bare, "fsck", "--full", "--strict"), "");
  assert.equal(git(bare, "rev-parse", "refs/weave/main/queue"), second);
});

test("a link that leads to the origin may be pointed elsewhere: between two calls, and within one", async () => {
  const at = await setup();
  const { bare, backup, work, first } = at;
  const link = `${bare}.link`;
  symlinkSync(bare, link);
  const origin = await openOrigin(link);
  const turn = (to: string) => shell(`ln -sfn '${to}' '${link}'`);
  const { objects } = openRepository(work);
  const turning = () => Promise.resolve(turn(backup));
  await assert.rejects(origin.push(updates(at), objects, { ready: turning }), isDisplaced);
  const now = await origin.refs(["refs/"]);
  assert.equal(now.refs.get("refs/heads/main"), git(backup, "rev-parse", "main"));
  turn(bare);
  assert.equal((await origin.push(updates(at), objects)).status, "won");
  assert.equal(git(bare, "rev-parse", "main^"), first);
  assert.deepEqual(leftovers(files(backup)), []);
});

test("directories are made below one that is there, and never that one or above it", () => {
  const base = tempDir();
  assert.deepEqual(makeBelow(base, base), []);
  assert.deepEqual(makeBelow(base, `${base}/a/b`), [`${base}/a`, `${base}/a/b`]);
  assert.deepEqual(makeBelow(base, `${base}/a/b/c`), [`${base}/a/b/c`]);
  assert.deepEqual(makeBelow(base, `${base}/a/b/c`), []);
  const gone = `${base}/gone/base`;
  for (const path of [`${gone}/a`, `${gone}/a/b/c`]) {
    assert.throws(
      () => makeBelow(gone, path),
      (error) => (error as { code?: string }).code === "ENOENT",
    );
    assert.throws(
      () => createLock(`${path}/x.lock`, "{}", { base: gone }),
      (error) => isAgentqError(error, "io-error"),
    );
  }
  assert.deepEqual(all(base), ["a", "a/b", "a/b/c"]);
});

test("a clone that is gone isn't begun anew where it was", async () => {
  const { updateRef } = await import("../../../src/git/ref-update.ts");
  const work = makeRepo();
  const first = commit(work, "first", { "a.txt": "a\n" });
  const repository = openRepository(work);
  assert.equal(repository.config.get("nothing"), null);
  renameSync(work, `${work}.away`);
  assert.throws(() => updateRef(repository, { ref: "refs/remotes/o/x", new: first }));
  assert.throws(() => updateRef(repository, { ref: "HEAD", new: first, noDeref: true }));
  assert.throws(() => repository.objects.write("blob", new Uint8Array([1])));
  assert.throws(() =>
    repository.objects.batch(() => {
      repository.objects.write("blob", new Uint8Array([2]));
      repository.objects.write("blob", new Uint8Array([3]));
    })
  );
  assert.equal(existsSync(work), false);
});
