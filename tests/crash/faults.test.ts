import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { AgentqError } from "../../src/errors.ts";
import { storePaths } from "../../src/store/layout.ts";
import { openStore } from "../../src/store/mod.ts";
import { type Base, complete, freshDisk, populatedBase } from "./crash.ts";
import {
  INIT,
  type Operation,
  OPERATIONS,
  options,
  OTHER_OPERATIONS,
  ROOT,
  type World,
} from "./operations.ts";
import { assertSound, reopen, reopenAfterInit } from "./recover.ts";
import { errno, seededRandom } from "./simulated-files.ts";

const ERRNOS = ["ENOSPC", "EIO", "EMFILE", "EROFS", "EINTR"] as const;
const STATE = storePaths(ROOT).state;

/** Runs the operation with step `index` failing; the error it gave, or null. */
async function failAt(base: Base, operation: Operation, index: number, code: string) {
  const world: World = { disk: base.disk.copy(), pid: 10, boot: "boot1", tokens: base.tokens };
  operation.prepare?.(world);
  world.disk.failAt(world.disk.steps.length + index, code);
  const error = await operation.run(world).then(() => null, (error) => error);
  return { world, error };
}

function assertTyped(error: unknown, code: string): void {
  assert.ok(error instanceof AgentqError, String(error));
  assert.ok(["io-error", "commit-uncertain", "lock-lost"].includes(error.code), error.code);
  assert.equal(error.details?.errno, code);
  assert.match(error.message, new RegExp(code));
}

describe("a fault at every mutation and sync", () => {
  for (const [name, operation] of Object.entries({ ...OPERATIONS, ...OTHER_OPERATIONS })) {
    test(`of ${name} is a typed error or harmless, and the next command recovers`, async () => {
      const base = await populatedBase();
      const run = await complete(base, operation);
      for (let index = 0; index < run.steps.length; index++) {
        for (const code of ERRNOS) {
          const { site } = run.steps[index]!;
          const { world, error } = await failAt(base, operation, index, code);
          const found = world.disk.readText(STATE);
          const label = `${name}: ${code} at ${site}`;
          if (error === null) {
            // Collection and unlocking may fail: the change is made and made to last.
            assert.match(site, /^(collect|gc|lock\.(withdraw|release))/, label);
            assert.equal(found, run.newState, label);
            assert.equal(world.disk.afterCut("dropped").readText(STATE), run.newState, label);
          } else {
            assertTyped(error, code);
            const uncertain = error.code === "commit-uncertain";
            if (uncertain) assert.equal(site, "state.sync-parent", label);
            const expected = uncertain ? run.newState : run.oldState;
            const unlocked = site === "unlock.remove-lock" || name === "unlock";
            assert.ok(unlocked || found === expected, label);
          }
          // A power cut now, and the same process going on: neither loses anything.
          const cut: World = {
            disk: world.disk.afterCut("torn", seededRandom(index)),
            pid: 11,
            boot: "boot2",
            tokens: world.tokens + 1000,
          };
          await assertSound(await reopen(cut, true), cut);
          const state = cut.disk.readText(STATE);
          assert.ok(state === run.oldState || state === run.newState, label);
          const store = await openStore(ROOT, options(world, { recoverStale: true }));
          await store.enqueue("jobs", "after", 1);
          await assertSound(store, world);
        }
      }
    });
  }

  test("of init leaves remains that only the explicit way out touches", async () => {
    const base: Base = { disk: freshDisk(), tokens: 1, init: true };
    const run = await complete(base, INIT);
    for (let index = 0; index < run.steps.length; index++) {
      for (const code of ERRNOS) {
        const { world, error } = await failAt(base, INIT, index, code);
        if (error === null) assert.match(run.steps[index]!.site, /^lock\.(withdraw|release)$/);
        else assertTyped(error, code);
        const next: World = { ...world, pid: 11 };
        await (await reopenAfterInit(next, false)).enqueue("jobs", "first", 1);
      }
    }
  });
});

describe("a directory that can't be synced", () => {
  for (const code of ["EINVAL", "ENOTSUP", "EOPNOTSUPP"]) {
    test(`(${code}) is durability-unavailable, never success`, async () => {
      const base = await populatedBase();
      const run = await complete(base, OPERATIONS.enqueue!);
      const directories = run.steps.flatMap(({ site }, index) =>
        /sync-(directory|parent)|objects\.sync/.test(site) ? [index] : []
      );
      assert.equal(directories.length, 4);
      for (const index of directories) {
        const { error } = await failAt(base, OPERATIONS.enqueue!, index, code);
        assert.ok(error instanceof AgentqError);
        assert.equal(error.code, "durability-unavailable");
        assert.equal(error.details?.errno, code);
      }
    });
  }
});

describe("a fault while reading", () => {
  const READS = ["lstat", "openRead", "readAll", "fstat", "readdir"] as const;
  for (const call of READS) {
    test(`(${call}) is a typed error and changes nothing`, async () => {
      const base = await populatedBase();
      for (const name of ["claim", "ack", "gc", "enqueue"]) {
        for (let nth = 0; nth < 40; nth++) {
          const world: World = {
            disk: base.disk.copy(),
            pid: 10,
            boot: "boot1",
            tokens: base.tokens,
          };
          const before = world.disk.readText(STATE);
          const { files } = world.disk;
          const original = files[call] as (...args: unknown[]) => unknown;
          let calls = 0;
          let armed = true;
          Object.assign(files, {
            [call]: (...args: unknown[]) => {
              if (armed && calls++ === nth) throw errno("EMFILE", call, String(args[0]));
              return original(...args);
            },
          });
          const error = await OPERATIONS[name]!.run(world).then(() => null, (error) => error);
          armed = false;
          if (calls <= nth) break;
          if (error !== null && error.code !== "commit-uncertain") {
            assert.ok(error instanceof AgentqError, `${name} ${nth}: ${error?.stack}`);
            assert.equal(world.disk.readText(STATE), before, `${name} ${nth}`);
          }
          const store = await openStore(ROOT, options(world, { recoverStale: true }));
          await store.enqueue("jobs", "after", 1);
          await assertSound(store, world);
        }
      }
    });
  }
});
