/** Lock files that a doctor names: those that stay, of owners nobody knows to run. */
import assert from "node:assert/strict";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { leftLocks } from "../../../src/git/file/left-locks.ts";
import { processIdentity } from "../../../src/platform/host.ts";
import { openOrigin } from "../../../src/git/origin.ts";
import { git, tempDir } from "../../helpers/git.ts";
import type { Clock } from "../../../src/platform/clock.ts";

const REF = "refs/weave/main/queue";

function place(ref = REF): { dir: string; lock: string } {
  const dir = tempDir();
  const lock = join(dir, `${ref}.lock`);
  mkdirSync(dirname(lock), { recursive: true });
  return { dir, lock };
}

/** Time passes by sleeping alone; `onSleep` is what happens meanwhile. */
function clockOf(onSleep: (slept: number) => void = () => {}): Clock & { slept(): number } {
  let now = 0;
  const began = Date.now();
  return {
    monotonic: () => now,
    wall: () => began + now,
    random: () => 0,
    sleep(ms) {
      now += ms;
      onSleep(now);
      return Promise.resolve();
    },
    slept: () => now,
  };
}

const ownerText = (change: Record<string, unknown>) =>
  JSON.stringify({ agentq: "lock", nonce: "0123456789abcdef", ...processIdentity(), ...change });

test("git's lock that outlives a push's patience is named, with its path and ref", async () => {
  const { dir, lock } = place();
  writeFileSync(lock, "");
  const clock = clockOf();
  const [left, ...more] = await leftLocks(dir, [REF], { clock });
  assert.deepEqual(more, []);
  assert.deepEqual([left!.path, left!.ref], [lock, REF]);
  assert.match(left!.owner, /git process/);
  assert.ok(left!.advice);
  assert.ok(clock.slept() >= 9_000);
  assert.ok(existsSync(lock));
});

test("an old one needs a moment only", async () => {
  const { dir, lock } = place();
  writeFileSync(lock, "");
  utimesSync(lock, 1000, 1000);
  const clock = clockOf();
  assert.equal((await leftLocks(dir, [REF], { clock })).length, 1);
  assert.ok(clock.slept() <= 1_000);
});

test("one that goes, or is another's the next time, is no trouble", async () => {
  const { dir, lock } = place();
  writeFileSync(lock, "");
  assert.deepEqual(
    await leftLocks(dir, [REF], { clock: clockOf(() => rmSync(lock, { force: true })) }),
    [],
  );
  let pushes = 0;
  const busy = clockOf(() => {
    rmSync(lock, { force: true });
    writeFileSync(lock, "");
    utimesSync(lock, ++pushes, pushes);
  });
  writeFileSync(lock, "");
  assert.deepEqual(await leftLocks(dir, [REF], { clock: busy }), []);
});

test("of agentq's own, those count whose owner can be neither seen nor proved gone", async () => {
  const { dir, lock } = place();
  for (
    const [change, count] of [[{}, 0], [{ startTime: "1" }, 0], [{ bootId: "another" }, 1]] as const
  ) {
    rmSync(lock, { force: true });
    symlinkSync(ownerText(change), lock);
    const left = await leftLocks(dir, [REF], { clock: clockOf() });
    assert.equal(left.length, count, JSON.stringify(change));
    if (count > 0) assert.match(left[0]!.owner, new RegExp(`process ${processIdentity().pid} `));
  }
});

test("a symbolic ref is locked where it points to, and packed refs by their own", async () => {
  const { dir } = place("refs/heads/trunk");
  writeFileSync(join(dir, "refs/heads/main"), "ref: refs/heads/trunk\n");
  writeFileSync(join(dir, "refs/heads/trunk.lock"), "");
  writeFileSync(join(dir, "packed-refs.lock"), "");
  const left = await leftLocks(dir, ["refs/heads/main"], { clock: clockOf() });
  assert.deepEqual(left.map(({ ref }) => ref), ["refs/heads/trunk", null]);
});

test("an origin is tidied of what dead processes hold, and of nothing else", async () => {
  const dir = tempDir();
  git(dir, "init", "-q", "--bare");
  const lockOf = (ref: string) => join(dir, `${ref}.lock`);
  const [dead, live, gits, elsewhere] = ["main", "live", "git", "elsewhere"].map((name) =>
    `refs/heads/${name}`
  ) as [string, string, string, string];
  mkdirSync(join(dir, "refs/heads"), { recursive: true });
  symlinkSync(ownerText({ pid: 2 ** 22 + 1 }), lockOf(dead));
  symlinkSync(ownerText({}), lockOf(live));
  writeFileSync(lockOf(gits), "");
  symlinkSync(ownerText({ pidNamespace: "pid:[1]" }), lockOf(elsewhere));
  const origin = await openOrigin(dir);
  await origin.tidy!([dead, live, gits, elsewhere]);
  origin.close();
  const left = readdirSync(join(dir, "refs/heads")).sort();
  assert.deepEqual(left, ["elsewhere.lock", "git.lock", "live.lock"]);
});
