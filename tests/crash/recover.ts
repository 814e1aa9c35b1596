/** What must hold after a crash, whatever was lost. */
import assert from "node:assert/strict";
import { isAgentqError } from "../../src/errors.ts";
import { findLocks } from "../../src/store/stale.ts";
import { storePaths } from "../../src/store/layout.ts";
import { initStore, openStore, type Store, unlockStore } from "../../src/store/mod.ts";
import { storePlatform } from "../../src/store/platform.ts";
import { options, ROOT, type World } from "./operations.ts";

/** Opens the store as the next process would: by proof after a kill, by an operator after a reboot. */
export async function reopen(world: World, rebooted: boolean): Promise<Store> {
  if (rebooted) await operatorUnlock(world);
  return await openStore(ROOT, options(world, { recoverStale: true }));
}

/** After a reboot nothing can be proved: the operator names each lock that is there. */
async function operatorUnlock(world: World): Promise<void> {
  const { namespace } = storePaths(ROOT);
  const locks = () => {
    try {
      return findLocks(storePlatform(options(world)), namespace);
    } catch {
      return [];
    }
  };
  if (world.disk.tree().some((path) => /\.lock\./.test(path))) {
    await unlockStore(ROOT, { ...options(world), iHaveChecked: true }).catch((error) => {
      assert.ok(isAgentqError(error, "unlock-refused", "store-missing"), String(error));
    });
  }
  for (let round = 0; locks().length > 0; round++) {
    assert.ok(round < 5, "an operator who follows the hints gets there");
    for (const lock of locks()) {
      try {
        await unlockStore(ROOT, { ...options(world), ownerToken: lock.token, iHaveChecked: true });
      } catch (error) {
        // A recovery was under way: its own lock, which the error names, goes first.
        assert.ok(isAgentqError(error, "unlock-refused"), String(error));
      }
    }
  }
}

/** After a crashed initialisation: a whole store, or remains that only the explicit way out touches. */
export async function reopenAfterInit(world: World, rebooted: boolean): Promise<Store> {
  if (rebooted) await operatorUnlock(world);
  try {
    return await openStore(ROOT, options(world, { recoverStale: true }));
  } catch (error) {
    if (isAgentqError(error, "store-missing")) {
      await initStore(ROOT, options(world));
    } else {
      assert.ok(isAgentqError(error, "init-incomplete"), String(error));
      const before = world.disk.tree();
      await assert.rejects(initStore(ROOT, options(world)), { code: "init-incomplete" });
      assert.deepEqual(world.disk.tree(), before, "remains are neither adopted nor removed");
      await initStore(ROOT, { ...options(world), resumeAfterInspection: true });
    }
    return await openStore(ROOT, options(world, { recoverStale: true }));
  }
}

/** Every payload that the state refers to is there, and collection leaves nothing else. */
export async function assertSound(store: Store, world: World): Promise<void> {
  const report = await store.check();
  assert.deepEqual(report.findings.filter(({ level }) => level === "error"), []);
  await store.gc();
  const after = await store.check();
  assert.deepEqual([after.findings, after.orphans], [[], 0], "nothing is left over");
  assert.equal(after.revision, report.revision);
  assert.ok(!world.disk.crashed);
}

/** The state is sound, and draining it hands out exactly what it refers to, once. */
export async function assertWhole(store: Store, world: World): Promise<void> {
  const report = await store.check();
  assert.deepEqual(report.findings.filter(({ level }) => level === "error"), []);

  const expected = new Set<string>();
  const messages = await store.messages();
  for (const { receipt, state, queue, id } of messages) {
    // Given back beside a newer pending generation, a claim loses; everything else must come.
    const newer = messages.some((other) =>
      other.state === "pending" && other.queue === queue && other.id === id
    );
    if (state === "claimed" && newer) continue;
    assert.ok(!expected.has(receipt.generation), "one reference a generation");
    expected.add(receipt.generation);
  }
  const delivered = new Set<string>();
  await store.release(() => true);
  for (const queue of await store.listQueues()) {
    while (true) {
      const claims = await store.claim(queue, { count: 10 });
      if (claims.length === 0) break;
      for (const claim of claims) {
        claim.json();
        assert.ok(expected.has(claim.receipt.generation), "nothing but the state is delivered");
        assert.ok(!delivered.has(claim.receipt.generation), "delivered once");
        delivered.add(claim.receipt.generation);
      }
      await store.ack(...claims.map(({ receipt }) => receipt));
    }
  }
  assert.deepEqual([...delivered].sort(), [...expected].sort(), "everything is delivered");

  await store.failed.prune();
  await store.gc();
  const { namespace, objects } = storePaths(ROOT);
  assert.deepEqual(world.disk.files.readdir(objects), [], "no orphan is left");
  assert.deepEqual(
    world.disk.files.readdir(namespace).sort(),
    ["format.json", "objects", "state.json"],
  );
}
