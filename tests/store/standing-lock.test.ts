/** The lock that keeps everybody out, seen from outside. */
import assert from "node:assert/strict";
import { readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { processIdentity } from "../../src/platform/host.ts";
import { storePaths } from "../../src/store/layout.ts";
import { initStore, openStore, standingLock } from "../../src/store/mod.ts";
import { tempDir } from "../helpers/git.ts";

const me = processIdentity();
const TOKEN = "b".repeat(32);
const ELSEWHERE = { ...me, bootId: "another boot" };
const GONE = { ...me, startTime: "1" };

async function store(): Promise<{ root: string; lock: string; namespace: string }> {
  const root = tempDir();
  await initStore(root);
  const { lock, namespace } = storePaths(root);
  return { root, lock, namespace };
}

function hold(path: string, owner: Record<string, unknown>, token = TOKEN): void {
  const text = JSON.stringify({ token, createdAt: "2020-01-01T00:00:00.000Z", ...owner });
  writeFileSync(path, text, { mode: 0o600 });
}

const platform = { sleep: () => Promise.resolve() };

test("it is the error that a transaction ends with, and nothing is touched", async () => {
  const { root, lock, namespace } = await store();
  hold(lock, ELSEWHERE);
  const before = readdirSync(namespace).sort();
  const seen = await standingLock(root, { platform });
  const opened = await openStore(root, { lockTimeoutMs: 1, recoverStale: true });
  const met = await opened.enqueue("jobs", "a", 1).then(() => null, (error) => error);
  assert.deepEqual(
    [seen!.code, seen!.message, seen!.hint, seen!.details],
    [met.code, met.message, met.hint, met.details],
  );
  assert.match(seen!.hint, new RegExp(`--owner-token ${TOKEN} --i-have-checked`));
  assert.deepEqual(readdirSync(namespace).sort(), before);
});

test("no trouble: no store, no lock, one of a living or a dead process, one that goes", async () => {
  assert.equal(await standingLock(join(tempDir(), "none"), { platform }), null);
  const { root, lock } = await store();
  assert.equal(await standingLock(root, { platform }), null);
  for (const owner of [me, GONE]) {
    hold(lock, { ...owner });
    assert.equal(await standingLock(root, { platform }), null);
  }
  hold(lock, ELSEWHERE);
  const going = { sleep: () => Promise.resolve(rmSync(lock, { force: true })) };
  assert.equal(await standingLock(root, { platform: going }), null);
});

test("a recovery that nobody can prove dead stands in the way as well", async () => {
  const { root, lock } = await store();
  hold(lock, GONE);
  const recovery = `${lock}.recover-${TOKEN}`;
  hold(recovery, ELSEWHERE, "c".repeat(32));
  assert.match((await standingLock(root, { platform }))!.message, new RegExp(`recover-${TOKEN}`));
});
