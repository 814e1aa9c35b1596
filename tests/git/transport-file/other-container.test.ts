/** Pushes of processes in other containers, killed and stopped while they hold the origin's locks. */
import assert from "node:assert/strict";
import fs from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { isAgentqError } from "../../../src/errors.ts";
import { leftLocks } from "../../../src/git/file/left-locks.ts";
import { breakStaleLock, newLockText, readLock } from "../../../src/git/file/ref-lock.ts";
import { prepareRefs } from "../../../src/git/file/ref-transaction.ts";
import { openOrigin } from "../../../src/git/origin.ts";
import { openRepository } from "../../../src/git/repository.ts";
import { processIdentity } from "../../../src/platform/host.ts";
import { type Life, showLife } from "../../../src/platform/life.ts";
import { contained, scriptRun, speak } from "../../helpers/containers.ts";
import { commit, git, makeRepo, tempDir, write } from "../../helpers/git.ts";

const script = fileURLToPath(new URL("./push-child.ts", import.meta.url));
const MAIN = "refs/heads/main";
const LOCK = `${MAIN}.lock`;

async function setup() {
  const work = makeRepo();
  const first = commit(work, "first", { "a.txt": "a\n" });
  const bare = tempDir();
  git(bare, "clone", "-q", "--bare", work, ".");
  const second = commit(work, "second", { "b.txt": "b\n" });
  const origin = await openOrigin(bare);
  const { objects } = openRepository(work);
  const push = (ref: string, old: string | null, oid: string) =>
    origin.push([{ ref, old, new: oid }], objects, {});
  return { work, bare, first, second, push };
}

const named = (bare: string, pattern: RegExp) =>
  fs.readdirSync(bare, { recursive: true }).map(String).filter((name) => pattern.test(name)).sort();
const LEFT = /\.lock$|agentq|\.keep$|tmp_/;

function hook(bare: string, name: string, script: string): void {
  write(bare, `hooks/${name}`, `#!/bin/sh\n${script}`);
  fs.chmodSync(join(bare, "hooks", name), 0o755);
}

/** As a hook says it: `$PPID` holds the locks now. Only the first push meets it. */
const once = (what: string) => `[ "$1" = prepared ] && [ ! -e once ] || exit 0\n: >once\n${what}\n`;

/** A push by a process in another container, whose first process stays on after it. */
function pushElsewhere(bare: string, work: string, update: string) {
  const pusher = scriptRun(script, bare, work, update).map((word) => `'${word}'`).join(" ");
  return speak(contained("sh", "-c", `${pusher}; echo over; read -r _`));
}

async function killedElsewhere(bare: string, work: string, update: string, then = "") {
  hook(bare, "reference-transaction", once(`kill -KILL $PPID; ${then}`));
  const container = pushElsewhere(bare, work, update);
  assert.equal(await container.line(), "over");
  fs.rmSync(join(bare, "hooks/reference-transaction"));
  return container;
}

test("killed in another container while it held the locks: the next push goes through, and nothing is left", async () => {
  const { work, bare, first, second, push } = await setup();
  const container = await killedElsewhere(
    bare,
    work,
    `${MAIN}=${first}:${second}`,
    // What a hook leaves running holds no lock of its agentq.
    "sleep 60 </dev/null >/dev/null 2>&1 & echo $! >orphan; exit 0",
  );
  const state = readLock(join(bare, LOCK));
  assert.ok(typeof state === "object" && state.life !== undefined, JSON.stringify(state));
  assert.notEqual(state.pidNamespace, processIdentity().pidNamespace);
  assert.ok(named(bare, /\.keep$/).length > 0, "killed before its pack was let go");
  assert.deepEqual(await leftLocks(bare, [MAIN]), [], "a doctor has nothing to say: it heals");
  assert.deepEqual(await push(MAIN, first, second), { status: "won" });
  assert.deepEqual(named(bare, LEFT), []);
  git(bare, "fsck", "--full", "--strict");
  container.child.stdin!.end("\n");
  await container.ended;
});

test("a push to another ref clears away all that a dead one has left", async () => {
  const { work, bare, first, second, push } = await setup();
  const container = await killedElsewhere(bare, work, `${MAIN}=${first}:${second}`);
  assert.equal(named(bare, /^agentq-life-/).length, 1);
  // Git minds neither the sign nor what it is named in.
  git(bare, "fsck", "--full", "--strict");
  git(bare, "gc", "-q");
  const mirror = tempDir();
  git(mirror, "clone", "-q", "--mirror", "--no-local", bare, ".");
  git(tempDir(), "clone", "-q", "--mirror", bare, ".");
  assert.equal(named(bare, /^agentq-life-/).length, 1);
  assert.deepEqual(await push("refs/heads/other", null, first), { status: "won" });
  assert.deepEqual(named(bare, LEFT).filter((name) => !name.endsWith(".agentq.lock")), []);
  container.child.stdin!.end("\n");
  await container.ended;
});

test("stopped in another container while it holds the locks: it is waited for, and goes on", async () => {
  const { work, bare, first, second } = await setup();
  hook(bare, "reference-transaction", once("kill -STOP $PPID; : >stopped; sleep 0.1"));
  const container = pushElsewhere(bare, work, `${MAIN}=${first}:${second}`);
  while (!fs.existsSync(join(bare, "stopped"))) await new Promise((done) => setTimeout(done, 5));
  const host = { commonDir: bare, sharedMode: 0, logs: () => false, identity: () => "a <a@b>" };
  const updates = [{ ref: MAIN, old: first, new: first }];
  await assert.rejects(prepareRefs(host, updates, { lockTimeoutMs: 300 }), (error) => {
    assert.ok(isAgentqError(error, "ref-locked"));
    assert.match(error.message, /agentq process \d+ on ".*" holds it/);
    assert.match(error.hint!, /Wait for that process/);
    return true;
  });
  assert.equal(breakStaleLock(join(bare, LOCK), { lives: bare, life: null }), false);
  const { pid } = container.child;
  const children = (of: number) =>
    fs.readFileSync(`/proc/${of}/task/${of}/children`, "utf8").split(" ").filter(Boolean);
  const [shell] = children(pid!);
  const [pusher] = children(Number(shell));
  process.kill(Number(pusher), "SIGCONT");
  assert.equal(await container.line(), "won");
  container.child.stdin!.end("\n");
  await container.ended;
  assert.equal(git(bare, "rev-parse", MAIN), second);
  assert.deepEqual(named(bare, LEFT), []);
});

/** The lock of somebody in another pid namespace. */
function foreignLock(bare: string, change: object, life: Life | null = null, path = LOCK): string {
  const owner = { ...JSON.parse(newLockText(life).text), pidNamespace: "pid:[1]", ...change };
  fs.symlinkSync(JSON.stringify(owner), join(bare, path));
  life?.note([path]);
  return owner.nonce;
}

test("what proves nothing breaks nothing, and the advice says where to look", async () => {
  const { bare, first } = await setup();
  const host = { commonDir: bare, sharedMode: 0, logs: () => false, identity: () => "a <a@b>" };
  const updates = [{ ref: MAIN, old: first, new: first }];
  const dead = showLife(bare, (mode) => mode)!;
  dead.abandon();
  const [id, dev, ino] = dead.mark.split(":");
  const here = /in another container of this machine.*while it runs the lock must stay/;
  const elsewhere = /on another machine, or on this one before/;
  for (
    const [change, advice] of [
      [{}, here], // An older agentq's, with no sign.
      [{ life: `${id}:${dev}:1` }, here],
      [{ life: `0123456789abcdef:${dev}:${ino}` }, here],
      [{ life: dead.mark, bootId: "elsewhere" }, elsewhere],
      [{ life: dead.mark, bootId: null }, elsewhere],
      [{ life: dead.mark, bootId: "" }, elsewhere],
      [{ life: "../../etc:1:1" }, /When nothing uses that repository/], // No lock of ours.
    ] as const
  ) {
    foreignLock(bare, change);
    await assert.rejects(prepareRefs(host, updates, { lockTimeoutMs: 0 }), (error) => {
      assert.ok(isAgentqError(error, "ref-locked"), String(error));
      assert.match(error.hint!, advice);
      assert.match(error.message, /main\.lock/);
      return true;
    }, JSON.stringify(change));
    fs.unlinkSync(join(bare, LOCK));
  }
  foreignLock(bare, { life: dead.mark });
  const prepared = await prepareRefs(host, updates, { lockTimeoutMs: 0 });
  assert.equal(prepared.status, "prepared");
  if (prepared.status === "prepared") prepared.release();
});

test("one who was killed breaking a dead one's lock is broken in turn", async () => {
  const { bare, first, second, push } = await setup();
  const owner = showLife(bare, (mode) => mode)!;
  const nonce = foreignLock(bare, {}, owner);
  const breaker = showLife(bare, (mode) => mode)!;
  foreignLock(bare, {}, breaker, `refs/heads/.agentq-break-${nonce}.lock`);
  owner.abandon();
  assert.equal(breakStaleLock(join(bare, LOCK), { lives: bare, life: null }), false);
  breaker.abandon();
  assert.deepEqual(await push(MAIN, first, second), { status: "won" });
  assert.deepEqual(named(bare, LEFT), []);
});

test("notes lead nowhere but to locks of the dead one", async () => {
  const { bare, first, second, push } = await setup();
  const outside = join(tempDir(), "outside.lock");
  const life = showLife(bare, (mode) => mode)!;
  const other = showLife(bare, (mode) => mode)!;
  const text = (of: Life) =>
    JSON.stringify({ ...JSON.parse(newLockText(of).text), pidNamespace: "pid:[1]" });
  fs.symlinkSync(text(life), outside);
  fs.symlinkSync(text(other), join(bare, "refs/heads/other.lock"));
  fs.writeFileSync(join(bare, "config.txt"), text(life));
  life.note([`../${outside}`, outside, "../".repeat(9) + outside, "refs/heads/other.lock"]);
  life.note(["config.txt", "", "HEAD", "refs/heads"]);
  life.abandon();
  assert.deepEqual(await push(MAIN, first, second), { status: "won" });
  assert.ok(fs.lstatSync(outside).isSymbolicLink());
  assert.ok(fs.existsSync(join(bare, "config.txt")));
  assert.deepEqual(named(bare, /agentq|\.lock$/), [
    `agentq-life-${other.mark.split(":")[0]}`,
    "refs/heads/other.lock",
  ]);
  other.end();
});

test("a sign stays while a lock that names it can't be removed", async () => {
  const { bare, first, second, push } = await setup();
  const owner = showLife(bare, (mode) => mode)!;
  const nonce = foreignLock(bare, {}, owner, "refs/heads/busy.lock");
  owner.abandon();
  const breaker = showLife(bare, (mode) => mode)!;
  foreignLock(bare, {}, breaker, `refs/heads/.agentq-break-${nonce}.lock`);
  assert.deepEqual(await push(MAIN, first, second), { status: "won" });
  assert.equal(named(bare, /^agentq-life-/).length, 2);
  breaker.abandon();
  assert.deepEqual(await push(MAIN, second, first), { status: "won" });
  assert.deepEqual(named(bare, LEFT), []);
});

test("a repository shared by a group: the sign can be read by all that may need it", async () => {
  const { bare, work, first, second } = await setup();
  git(bare, "config", "core.sharedRepository", "group");
  const before = process.umask(0o077);
  const container = await killedElsewhere(bare, work, `${MAIN}=${first}:${second}`);
  process.umask(before);
  const [sign] = named(bare, /^agentq-life-/);
  assert.equal(fs.statSync(join(bare, sign!)).mode & 0o777, 0o660);
  container.child.stdin!.end("\n");
  await container.ended;
});
