import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, lstatSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { describe, test } from "node:test";
import { nodeFiles } from "../../src/platform/files.ts";
import { hostProbe, processIdentity } from "../../src/platform/host.ts";
import { acquireLock } from "../../src/store/lock.ts";
import { tryExclusive } from "../../src/store/exclusive.ts";
import { storePaths } from "../../src/store/layout.ts";
import type { AgentqError } from "../../src/errors.ts";
import { initStore, openStore, type StoreOptions, unlockStore } from "../../src/store/mod.ts";
import { storePlatform } from "../../src/store/platform.ts";
import { tempDir } from "../helpers/git.ts";
import { runtimeArguments } from "./runtime.ts";

const HOLDER = new URL("./lock-holder.ts", import.meta.url).pathname;
const me = processIdentity();
const GONE = { ...me, startTime: "1", pid: process.pid };

async function lockedStore(
  owner: Record<string, unknown>,
): Promise<{ root: string; lock: string }> {
  const root = tempDir();
  await initStore(root);
  const { lock } = storePaths(root);
  const token = "a".repeat(32);
  const content = { token, createdAt: "2020-01-01T00:00:00.000Z", ...owner };
  writeFileSync(lock, JSON.stringify(content), { mode: 0o600 });
  return { root, lock };
}

const SOON: StoreOptions = { lockTimeoutMs: 30 };

describe("a lock whose owner is proved gone", () => {
  test("fails at once, naming the command, and is removed by unlock", async () => {
    const { root, lock } = await lockedStore(GONE);
    const store = await openStore(root);
    await assert.rejects(store.enqueue("jobs", "a", 1), (error) => {
      const { code, hint, details } = error as {
        code: string;
        hint: string;
        details: { ownerToken: string };
      };
      assert.equal(code, "store-locked");
      assert.match(hint, /agentq store unlock --store/);
      assert.equal(details.ownerToken, "a".repeat(32));
      return true;
    });
    const { removed } = await unlockStore(root);
    assert.deepEqual(removed, [{ path: lock, ownerToken: "a".repeat(32) }]);
    await store.enqueue("jobs", "a", 1);
    assert.deepEqual((await unlockStore(root)).removed, []);
  });

  test("is recovered from by any command that is told to", async () => {
    const { root } = await lockedStore(GONE);
    const store = await openStore(root, { recoverStale: true });
    await store.enqueue("jobs", "a", 1);
    assert.deepEqual((await store.check()).findings, []);
  });

  test("is left by kill -9, and proved by unlock", async () => {
    const root = tempDir();
    await initStore(root);
    const child = spawn(process.execPath, [...runtimeArguments(), HOLDER, root], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    await once(child.stdout, "data");
    await assert.rejects(unlockStore(root), { code: "unlock-refused" }, "a live owner is safe");
    child.kill("SIGKILL");
    await once(child, "exit");
    assert.equal((await unlockStore(root)).removed.length, 1);
    await (await openStore(root)).enqueue("jobs", "a", 1);
  });

  test("is removed once, however many processes see it", async () => {
    const { root, lock } = await lockedStore(GONE);
    const platform = storePlatform({});
    const wait = { root, timeoutMs: 5000, recoverStale: true };
    const holders = await Promise.allSettled(
      Array.from({ length: 4 }, async () => {
        const held = await acquireLock(platform, lock, wait);
        assert.equal(
          readdirSync(join(lock, "..")).filter((name) => name.endsWith(".lock")).length,
          1,
        );
        rmSync(held.path);
        platform.files.close(held.fd);
      }),
    );
    assert.ok(holders.every(({ status }) => status === "fulfilled"));
  });

  test("proved by two, taken by a third in between: the late one removes nothing", async () => {
    const { root, lock } = await lockedStore(GONE);
    // After this process has proved the owner dead, another recovers and a third takes the lock.
    let third: string | null = null;
    const files = { ...nodeFiles };
    files.create = (site, path, mode) => {
      if (site === "lock.create" && path.includes("recover-") && third === null) {
        rmSync(lock);
        const held = tryExclusive(storePlatform({}), lock)!;
        third = held.token;
      }
      return nodeFiles.create(site, path, mode);
    };
    const { removed } = await unlockStore(root, { platform: { files } });
    assert.deepEqual(removed, []);
    assert.equal(JSON.parse(readFileSync(lock, "utf8")).token, third);
  });
});

test("transactions of one process take turns: whoever asks without a pause starves nobody", async () => {
  const root = tempDir();
  await initStore(root);
  const store = await openStore(root);
  const ended: string[] = [];
  const enqueue = async (id: string) => {
    await store.enqueue("jobs", id, 1);
    ended.push(id);
  };
  const greedy = async () => {
    for (let i = 0; i < 20; i++) await enqueue(`greedy${i}`);
  };
  await Promise.all([greedy(), ...["a", "b", "c"].map(enqueue)]);
  assert.deepEqual(ended.slice(0, 5), ["greedy0", "a", "b", "c", "greedy1"]);
  assert.equal(ended.length, 23);
});

describe("a lock whose owner can't be proved gone", () => {
  const owners: Record<string, Record<string, unknown>> = {
    "before a reboot": { ...me, pid: 4194304, bootId: "00000000-0000-0000-0000-000000000000" },
    "in another pid namespace": { ...me, pid: 4194304, pidNamespace: "pid:[1]" },
    "without a start time": { ...me, startTime: null },
    "without a boot id": { ...me, bootId: null },
    "that is this live process": { ...me },
  };
  for (const [what, owner] of Object.entries(owners)) {
    test(`(${what}) is never broken, however old; an operator can name it`, async () => {
      const { root, lock } = await lockedStore(owner);
      const store = await openStore(root, { ...SOON, recoverStale: true });
      await assert.rejects(store.enqueue("jobs", "a", 1), { code: "store-locked" });
      await assert.rejects(unlockStore(root), { code: "unlock-refused" });
      const ownerToken = "a".repeat(32);
      await assert.rejects(unlockStore(root, { ownerToken }), { code: "unlock-refused" });
      await assert.rejects(unlockStore(root, { ownerToken: "b".repeat(32), iHaveChecked: true }), {
        code: "unlock-refused",
      });
      await assert.rejects(unlockStore(root, { iHaveChecked: true }), { code: "unlock-refused" });
      assert.ok(existsSync(lock));
      assert.equal((await unlockStore(root, { ownerToken, iHaveChecked: true })).removed.length, 1);
      await store.enqueue("jobs", "a", 1);
    });
  }

  for (const [what, content] of [["empty", ""], ["torn", '{"token":"aaaa'], ["strange", "[]"]]) {
    test(`(${what}, and nobody announced it) is an operator's to remove`, async () => {
      const root = tempDir();
      await initStore(root);
      const { lock } = storePaths(root);
      writeFileSync(lock, content!, { mode: 0o600 });
      const store = await openStore(root, { ...SOON, recoverStale: true });
      await assert.rejects(store.enqueue("jobs", "a", 1), { code: "store-locked" });
      await assert.rejects(unlockStore(root), (error: AgentqError) => {
        assert.equal(error.code, "unlock-refused");
        assert.ok(error.hint.includes(`agentq store unlock --store ${root} --owner-token `));
        return true;
      });
      const ownerToken = `unreadable-${lstatSync(lock, { bigint: true }).ino}`;
      await unlockStore(root, { ownerToken, iHaveChecked: true });
      await store.enqueue("jobs", "a", 1);
    });
  }
});

describe("an empty lock", () => {
  const identity = { ...me, pid: 4194000, startTime: "77" };

  /** Killed just after the lock was created: its owner isn't in it yet. */
  function dieTakingTheLock(root: string, options: StoreOptions): void {
    const files = { ...nodeFiles };
    files.write = () => {
      throw new Error("killed");
    };
    files.unlink = () => {};
    // As where the kernel keeps no locks: see other-container.test.ts.
    files.flockable = () => null;
    const platform = storePlatform({ platform: { ...options.platform, files } });
    assert.throws(() => tryExclusive(platform, storePaths(root).lock));
  }

  test("of a process that announced itself is proved by the announcement", async () => {
    const root = tempDir();
    await initStore(root);
    dieTakingTheLock(root, { platform: { identity } });
    assert.equal(lstatSync(storePaths(root).lock).size, 0);
    const store = await openStore(root, { recoverStale: true });
    await store.enqueue("jobs", "a", 1);
    assert.deepEqual((await store.check()).findings, []);
  });

  test("isn't proved while anyone who announced may live", async () => {
    for (
      const doubt of [{ ...me }, { ...identity, pidNamespace: "pid:[9]" }, {
        ...identity,
        startTime: null,
        pid: me.pid,
      }]
    ) {
      const root = tempDir();
      await initStore(root);
      dieTakingTheLock(root, { platform: { identity: doubt } });
      rmSync(storePaths(root).lock);
      dieTakingTheLock(root, { platform: { identity } });
      await assert.rejects(unlockStore(root), { code: "unlock-refused" });
      const store = await openStore(root, { ...SOON, recoverStale: true });
      await assert.rejects(store.enqueue("jobs", "a", 1), { code: "store-locked" });
    }
  });
});

describe("a slow owner", () => {
  test("is waited for and never robbed, though the clock jumps", async () => {
    const root = tempDir();
    await initStore(root);
    const held = tryExclusive(storePlatform({}), storePaths(root).lock)!;
    const store = await openStore(root, { ...SOON, recoverStale: true });
    const now = Date.now;
    try {
      for (const jump of [365 * 24 * 3_600_000, -365 * 24 * 3_600_000]) {
        Date.now = () => now() + jump;
        await assert.rejects(store.enqueue("jobs", "a", 1), { code: "store-locked" });
      }
    } finally {
      Date.now = now;
    }
    const patient = await openStore(root, { lockTimeoutMs: 60_000 });
    const waiting = patient.enqueue("jobs", "a", 1);
    // It lets go: the waiter goes on.
    rmSync(held.path);
    nodeFiles.close(held.fd);
    await waiting;
  });

  test("is judged by its start time, not by its pid alone", async () => {
    const { root } = await lockedStore({ ...me });
    const reused = {
      ...hostProbe(),
      startTime: () => ({ ticks: "123456789", zombie: false }),
    };
    const { removed } = await unlockStore(root, { platform: { probe: reused } });
    assert.equal(removed.length, 1);
  });
});
