import assert from "node:assert/strict";
import process from "node:process";
import { describe, test } from "node:test";
import {
  type Base,
  complete,
  crashAt,
  crashEverywhere,
  cuts,
  freshDisk,
  populatedBase,
} from "./crash.ts";
import {
  FAILING,
  INIT,
  type Operation,
  OPERATIONS,
  OTHER_INITS,
  OTHER_OPERATIONS,
  THOROUGH_GC,
  type World,
} from "./operations.ts";
import { assertSound, assertWhole, reopen } from "./recover.ts";
import { seededRandom } from "./simulated-files.ts";

describe("a crash at every mutation and sync", () => {
  test("of init leaves a whole store or remains that nothing touches unasked", async () => {
    const base: Base = { disk: freshDisk(), tokens: 1, init: true };
    const run = await complete(base, INIT);
    assert.ok(run.steps.length > 15);
    await crashEverywhere(base, INIT, run, cuts(20), "init");
  });

  for (const [name, operation] of Object.entries(OTHER_INITS)) {
    test(`of ${name} leaves a whole store or remains that nothing touches unasked`, async () => {
      const base: Base = { disk: freshDisk(), tokens: 1, init: true };
      await crashEverywhere(base, operation, await complete(base, operation), cuts(8), name);
    });
  }

  test("of a transaction that fails leaves the old state", async () => {
    const base = await populatedBase();
    const run = await complete(base, FAILING);
    assert.ok(run.steps.some(({ site }) => site.startsWith("abort.")));
    assert.equal(run.newState, run.oldState);
    await crashEverywhere(base, FAILING, run, cuts(12), "a failing enqueue");
  });

  test("of collecting what crashed processes have left leaves the state alone", async () => {
    const base = await populatedBase();
    const run = await complete(base, THOROUGH_GC);
    await crashEverywhere(base, THOROUGH_GC, run, cuts(12), "thorough gc");
  });

  for (const [name, operation] of Object.entries({ ...OPERATIONS, ...OTHER_OPERATIONS })) {
    test(`of ${name} leaves the old or the new state, whole`, async () => {
      const base = await populatedBase();
      const run = await complete(base, operation);
      if (name !== "gc" && name !== "unlock") assert.notEqual(run.newState, run.oldState);
      await crashEverywhere(base, operation, run, cuts(12), name);
    });
  }
});

/** CI tries fewer torn disks for each sequence; `AGENTQ_CRASH_TORN=8` is the long run. */
const TORN = Number(process.env.AGENTQ_CRASH_TORN ?? 1);

describe("every sequence of up to three operations", () => {
  for (const first of Object.keys(OPERATIONS)) {
    test(`that begins with ${first}, cut at every point of its last`, async () => {
      const base = await populatedBase();
      let seed = 0;
      const extend = async (start: Base, name: string, before: readonly string[]) => {
        const operation = OPERATIONS[name]!;
        const names = [...before, name];
        const run = await complete(start, operation);
        const modes = cuts(TORN, ++seed);
        await crashEverywhere(start, operation, run, modes, names.join(", "), assertSound);
        if (names.length === 3) return;
        for (const next of Object.keys(OPERATIONS)) await extend(run.after, next, names);
      };
      await extend(base, first, []);
    });
  }

  test("goes on after a crash as if the crashed one had happened or not", async () => {
    const seed = Number(process.env.AGENTQ_CRASH_SEED ?? Math.floor(Math.random() * 2 ** 31));
    console.log(`seed ${seed}`);
    const random = seededRandom(seed);
    const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!;
    const names = Object.keys(OPERATIONS);
    for (let round = 0; round < 300; round++) {
      let base = await populatedBase();
      const history: string[] = [];
      for (let length = 0; length < 3; length++) {
        const name = pick(names);
        const operation: Operation = OPERATIONS[name]!;
        const run = await complete(base, operation);
        const index = Math.floor(random() * (run.steps.length + 1));
        const cut = pick(cuts(4, Math.floor(random() * 1e6)));
        history.push(`${name} cut at ${index} ${JSON.stringify(cut)}`);
        try {
          const survivor = await crashAt(base, operation, run, index, cut);
          // The next transaction meets the lock of the one that died, and recovers from it.
          await (await reopen(survivor, false)).createQueue(`q${length}`);
          base = {
            ...survivor,
            pid: survivor.pid + 1,
            tokens: survivor.tokens + 1000,
            init: false,
          };
        } catch (cause) {
          throw new Error(`seed ${seed}: ${history.join("; ")}`, { cause });
        }
      }
      const world: World = {
        disk: base.disk.copy(),
        pid: 30,
        boot: "boot3",
        tokens: 2_000_000_000,
      };
      await assertWhole(await reopen(world, true), world);
    }
  });
});

describe("the simulated file system", () => {
  test("loses what wasn't synced, and only that", () => {
    const disk = freshDisk();
    const fd = disk.files.create("", "/data/a", 0o600);
    disk.files.write("", fd, new TextEncoder().encode("first"));
    disk.files.sync("", fd);
    disk.files.syncDirectory("", "/data");
    disk.files.write("", fd, new TextEncoder().encode("second"));
    disk.files.rename("", "/data/a", "/data/b");
    assert.equal(disk.afterCut("kept").readText("/data/b"), "second");
    assert.equal(disk.afterCut("dropped").readText("/data/a"), "first");
    assert.equal(disk.afterCut("dropped").readText("/data/b"), null);
    const found = new Set<string>();
    for (let seed = 0; seed < 200; seed++) {
      const torn = disk.afterCut("torn", seededRandom(seed));
      found.add(torn.tree().join() + (torn.readText("/data/a") ?? torn.readText("/data/b")));
    }
    assert.ok(found.size > 8, "many different disks");
    for (const disk of found) assert.match(disk, /^\/data,\/data\/[ab]/, "a rename is one change");
  });

  test("finds a store that forgets a sync", async () => {
    // The harness must be able to fail: without the parent's sync a reported commit can be lost.
    const base = await populatedBase();
    const operation: Operation = {
      async run(world) {
        const { files } = world.disk;
        const syncDirectory = files.syncDirectory;
        files.syncDirectory = (site, path) => {
          if (site === "state.sync-parent") files.lstat(path);
          else syncDirectory(site, path);
        };
        await OPERATIONS.ack!.run(world);
      },
    };
    const run = await complete(base, OPERATIONS.ack!);
    const end = run.steps.length - 1;
    await assert.rejects(crashAt(base, operation, run, end, { mode: "dropped", seed: 0 }));
  });
});
