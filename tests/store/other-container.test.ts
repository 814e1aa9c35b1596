/** Locks of processes in other containers (pid namespaces) of the same kernel, killed and alive. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import type { AgentqError } from "../../src/errors.ts";
import { nodeFiles } from "../../src/platform/files.ts";
import { isProcessAlive, type ProcessIdentity, processIdentity } from "../../src/platform/host.ts";
import { allAnnouncements, announcerLiveness } from "../../src/store/announcements.ts";
import { releaseOrKeep, tryExclusive } from "../../src/store/exclusive.ts";
import { storePaths } from "../../src/store/layout.ts";
import { initStore, openStore, standingLock, unlockStore } from "../../src/store/mod.ts";
import { holderLiveness, observeLock } from "../../src/store/observed-lock.ts";
import { storePlatform } from "../../src/store/platform.ts";
import { contained, holder, scriptRun } from "../helpers/containers.ts";
import { tempDir } from "../helpers/git.ts";

const HOLDER = fileURLToPath(new URL("./lock-holder.ts", import.meta.url));
const me = processIdentity();
const platform = storePlatform({});

async function newStore() {
  const root = tempDir();
  await initStore(root);
  return storePaths(root);
}

/** Starts one that holds the store's lock; `pid` as it is here. */
const holding = (root: string, ...what: string[]) => holder(HOLDER, root, ...what);

/** What a process in another container says that adds a message. */
function elsewhere(root: string): string {
  const [program, ...args] = contained(...scriptRun(HOLDER, root, "enqueue"));
  return execFileSync(program, args, { encoding: "utf8" }).trim();
}

const liveness = (lock: string, given = platform) =>
  holderLiveness(given, observeLock(given, lock)!);
const files = (namespace: string) =>
  fs.readdirSync(namespace).filter((name) => name.startsWith(".")).sort();

describe("a lock of another container's process", () => {
  test("that was killed is proved stale here, by any command that is told to and by unlock", async () => {
    const { root, lock, namespace } = await newStore();
    const store = await openStore(root, { recoverStale: true, lockTimeoutMs: 0 });
    for (const recover of ["transaction", "unlock"]) {
      const owner = await holding(root);
      const { owner: identity } = observeLock(platform, lock)!;
      assert.equal(identity!.pid, 1, "the first of its namespace");
      assert.equal(isProcessAlive(identity!), "unknown");
      await assert.rejects(unlockStore(root), { code: "unlock-refused" });
      await owner.kill();
      assert.equal(liveness(lock), "gone");
      assert.equal(await standingLock(root), null);
      if (recover === "unlock") assert.equal((await unlockStore(root)).removed.length, 1);
      await store.enqueue("jobs", recover, 1);
      assert.deepEqual(files(namespace), []);
      assert.deepEqual((await store.check()).findings, []);
    }
  });

  test("that was killed is recovered from in a third container", async () => {
    const { root, namespace } = await newStore();
    await (await holding(root)).kill();
    assert.equal(elsewhere(root), "done");
    assert.deepEqual(files(namespace), []);
  });

  test("that is stopped is never robbed", async () => {
    const { root, lock } = await newStore();
    const owner = await holding(root);
    process.kill(owner.pid, "SIGSTOP");
    const before = fs.readFileSync(lock, "utf8");
    for (let i = 0; i < 200; i++) assert.equal(liveness(lock), "alive");
    assert.equal(elsewhere(root), "store-locked");
    const store = await openStore(root, { recoverStale: true, lockTimeoutMs: 20 });
    await assert.rejects(store.enqueue("jobs", "a", 1), (error: AgentqError) => {
      assert.equal(error.code, "store-locked");
      assert.match(error.hint, /is running/);
      return true;
    });
    await assert.rejects(unlockStore(root), { code: "unlock-refused" });
    assert.equal(fs.readFileSync(lock, "utf8"), before);
    await owner.kill();
    await store.enqueue("jobs", "a", 1);
  });

  for (
    const [site, left] of [
      ["flock 1", 0],
      ["lock.create", 0],
      ["flock 2", 1],
      ["lock.write", 1],
      ["object.create", 1],
      ["state.write-temp", 1],
      ["state.rename", 1],
      ["state.sync-parent", 1],
      ["lock.release", 1],
    ] as const
  ) {
    test(`killed just before ${site}: the next container's process goes on at once`, async () => {
      const { root, lock } = await newStore();
      const owner = await holding(root, site);
      assert.equal(Number(fs.existsSync(lock)), left);
      if (left) assert.equal(liveness(lock), "alive");
      await owner.kill();
      assert.equal(elsewhere(root), "done");
      const store = await openStore(root, { recoverStale: true, lockTimeoutMs: 0 });
      await store.gc();
      assert.deepEqual((await store.check()).findings, []);
    });
  }

  test("with the lock of a recovery: both go", async () => {
    const { root, lock } = await newStore();
    await (await holding(root)).kill();
    const dead = { pid: 4194304, startTime: "1", pidNamespace: "pid:[1]" };
    const recovery = `${lock}.recover-${observeLock(platform, lock)!.token}`;
    const held = tryExclusive(
      storePlatform({ platform: { identity: { ...me, ...dead } } }),
      recovery,
    )!;
    assert.equal(liveness(recovery), "alive");
    assert.equal(elsewhere(root), "store-locked");
    // The kernel does this for one that ends.
    fs.closeSync(held.fd);
    fs.closeSync(held.announcement!.fd);
    assert.equal(elsewhere(root), "done");
    assert.equal(fs.existsSync(recovery), false);
  });
});

/** Of this boot, where nobody sees its pid. */
const ELSEWHERE: ProcessIdentity = { ...me, pid: 4194304, pidNamespace: "pid:[1]" };
const there = storePlatform({ platform: { identity: ELSEWHERE } });

describe("the mark of a locked lock file", () => {
  test("is one field more than there was, and names this very file", async () => {
    const { lock } = await newStore();
    const held = tryExclusive(platform, lock)!;
    const { flock, ...rest } = JSON.parse(fs.readFileSync(lock, "utf8"));
    const { dev, ino } = fs.lstatSync(lock, { bigint: true });
    assert.equal(flock, `${fs.statfsSync(lock).type.toString(16)}:${dev}:${ino}`);
    assert.deepEqual(Object.keys(rest), ["token", ...Object.keys(me), "createdAt"]);
    releaseOrKeep(platform, held);
    assert.deepEqual(files(dirname(lock)), []);
  });

  test("isn't made where there is no such lock, and none is believed", async () => {
    const { lock } = await newStore();
    const without = { ...nodeFiles, flockable: () => null };
    const old = tryExclusive(
      storePlatform({ platform: { files: without, identity: ELSEWHERE } }),
      lock,
    )!;
    assert.equal("flock" in JSON.parse(fs.readFileSync(lock, "utf8")), false);
    fs.closeSync(old.fd);
    assert.equal(liveness(lock), "unknown");
    fs.rmSync(lock);
    const held = tryExclusive(there, lock)!;
    assert.equal(liveness(lock), "alive");
    assert.equal(liveness(lock, storePlatform({ platform: { files: without } })), "unknown");
    fs.closeSync(held.fd);
    assert.equal(liveness(lock), "gone");
    assert.equal(liveness(lock, storePlatform({ platform: { files: without } })), "unknown");
  });

  test("isn't made when somebody else has the new file locked", async () => {
    const { lock } = await newStore();
    const busy = { ...nodeFiles, flock: () => false };
    tryExclusive(storePlatform({ platform: { files: busy, identity: ELSEWHERE } }), lock)!;
    assert.equal(observeLock(platform, lock)!.owner!.flock, undefined);
    const [announced, ...more] = allAnnouncements(platform, dirname(lock));
    assert.deepEqual(more, []);
    assert.equal(announcerLiveness(platform, announced!), "unknown");
  });

  /** A lock that nobody holds any more, with something about it changed. */
  async function left(change: (owner: Record<string, unknown>) => Record<string, unknown>) {
    const { root, lock } = await newStore();
    const held = tryExclusive(there, lock)!;
    const owner = JSON.parse(fs.readFileSync(lock, "utf8"));
    fs.writeFileSync(lock, JSON.stringify(change(owner)));
    fs.closeSync(held.fd);
    return { root, lock };
  }
  const swapped = (flock: unknown, at: number, by: string) =>
    String(flock).split(":").map((part, i) => i === at ? by : part).join(":");
  const changes: Record<string, (owner: Record<string, unknown>) => Record<string, unknown>> = {
    "no field, as of an older version": ({ flock: _, ...rest }) => rest,
    "another file system": (owner) => ({ ...owner, flock: swapped(owner.flock, 0, "6969") }),
    "another device": (owner) => ({ ...owner, flock: swapped(owner.flock, 1, "1") }),
    "another inode": (owner) => ({ ...owner, flock: swapped(owner.flock, 2, "1") }),
    "an empty mark": (owner) => ({ ...owner, flock: "" }),
    "another boot": (owner) => ({ ...owner, bootId: "00000000-0000-0000-0000-000000000000" }),
    "no boot": (owner) => ({ ...owner, bootId: null }),
    "an empty boot": (owner) => ({ ...owner, bootId: "" }),
  };
  for (const [what, change] of Object.entries(changes)) {
    test(`with ${what} proves nothing`, async () => {
      const { root, lock } = await left(change);
      assert.equal(liveness(lock), "unknown");
      await assert.rejects(unlockStore(root), { code: "unlock-refused" });
      assert.ok(fs.existsSync(lock));
    });
  }
  test("unchanged proves it", async () => {
    const { root, lock } = await left((owner) => owner);
    assert.equal(liveness(lock), "gone");
    assert.equal((await unlockStore(root)).removed.length, 1);
  });

  test("proves nothing of a copy, nor of another lock's text in the file", async () => {
    const { lock } = await newStore();
    const held = tryExclusive(there, lock)!;
    const observed = observeLock(platform, lock)!;
    const copy = join(tempDir(), "copy");
    fs.copyFileSync(lock, copy);
    assert.equal(liveness(copy), "unknown");
    fs.closeSync(held.fd);
    fs.writeFileSync(lock, observed.text.replace(observed.token, "c".repeat(32)));
    assert.equal(holderLiveness(platform, observed), "unknown");
    fs.writeFileSync(lock, "");
    assert.equal(holderLiveness(platform, observed), "unknown");
  });
});

describe("an announcement that is locked", () => {
  const announced = (lock: string) => allAnnouncements(platform, dirname(lock));

  test("tells whether the announcer of an empty lock may still live", async () => {
    const { root, lock } = await newStore();
    const stuck = {
      ...nodeFiles,
      write: () => {
        throw new Error("killed");
      },
      unlink: () => {},
      close: () => {},
    };
    const opened: number[] = [];
    const create: typeof nodeFiles.create = (...args) => {
      const fd = nodeFiles.create(...args);
      opened.push(fd);
      return fd;
    };
    const dying = storePlatform({
      platform: { files: { ...stuck, create }, identity: ELSEWHERE },
    });
    assert.throws(() => tryExclusive(dying, lock));
    assert.equal(fs.lstatSync(lock).size, 0);
    assert.equal(liveness(lock), "alive");
    await assert.rejects(unlockStore(root), { code: "unlock-refused" });
    for (const fd of opened) fs.closeSync(fd);
    assert.equal(liveness(lock), "gone");
    // Somebody else, of whom nothing is known, may have made it.
    const without = { ...nodeFiles, unlink: () => {}, flockable: () => null };
    const other = { files: without, identity: { ...ELSEWHERE, pid: 7 } };
    assert.equal(tryExclusive(storePlatform({ platform: other }), lock), null);
    assert.equal(liveness(lock), "unknown");
    fs.rmSync(announced(lock).find(({ identity }) => identity.pid === 7)!.path);
    assert.equal((await unlockStore(root)).removed.length, 1);
    assert.deepEqual(files(dirname(lock)), []);
  });

  test("of another boot or file system proves nothing", async () => {
    const { lock } = await newStore();
    const held = tryExclusive(there, lock)!;
    fs.closeSync(held.fd);
    fs.closeSync(held.announcement!.fd);
    const [one] = announced(lock);
    const asked = (given: Parameters<typeof storePlatform>[0]["platform"]) =>
      announcerLiveness(storePlatform({ platform: given! }), one!);
    assert.equal(asked({}), "gone");
    assert.equal(asked({ probe: { ...platform.probe, bootId: () => "another" } }), "unknown");
    assert.equal(asked({ files: { ...nodeFiles, flockable: () => 0x6969 } }), "unknown");
    assert.equal(asked({ files: { ...nodeFiles, flockable: () => null } }), "unknown");
  });

  test("is made anew when somebody tidied it away, or looked, before it was locked", async () => {
    for (const meddle of ["remove", "look"]) {
      const { lock } = await newStore();
      let meddled = 0;
      let looking: number | undefined;
      const flock: typeof nodeFiles.flock = (fd, how) => {
        if (meddled++ === 0) {
          const { path } = announced(lock)[0]!;
          if (meddle === "remove") {
            assert.equal(
              announcerLiveness(platform, announced(lock)[0]!, () => fs.rmSync(path)),
              "gone",
            );
          } else {
            looking = nodeFiles.openRead(path);
            assert.equal(nodeFiles.flock(looking, "shared"), true);
          }
        }
        return nodeFiles.flock(fd, how);
      };
      const held = tryExclusive(
        storePlatform({ platform: { files: { ...nodeFiles, flock }, identity: ELSEWHERE } }),
        lock,
      )!;
      if (looking !== undefined) fs.closeSync(looking);
      assert.deepEqual(announced(lock).map(({ path }) => path), [held.announcement!.path]);
      assert.equal(announcerLiveness(platform, announced(lock)[0]!), "unknown", "not locked");
      assert.equal(liveness(lock), "alive", "the lock itself is");
      releaseOrKeep(there, held);
      assert.deepEqual(files(dirname(lock)), []);
    }
  });
});

test("a lock that can't be written to is removed while it is held: nobody's in its place", async () => {
  const { lock } = await newStore();
  const failing = {
    ...nodeFiles,
    write: () => {
      throw Object.assign(new Error("ENOSPC: full"), { code: "ENOSPC" });
    },
    close(fd: number) {
      assert.ok(!fs.existsSync(lock), "closed, and so unlocked, before it was removed");
      nodeFiles.close(fd);
    },
  };
  assert.throws(() => tryExclusive(storePlatform({ platform: { files: failing } }), lock), {
    code: "io-error",
  });
  assert.deepEqual(files(dirname(lock)), []);
});
