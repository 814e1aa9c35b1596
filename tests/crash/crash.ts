/** Runs an operation, cuts it at every point, and holds what is found against what must be found. */
import assert from "node:assert/strict";
import { storePaths } from "../../src/store/layout.ts";
import type { Store } from "../../src/store/mod.ts";
import { type Operation, populated, ROOT, type World } from "./operations.ts";
import { assertWhole, reopen, reopenAfterInit } from "./recover.ts";
import {
  type CutMode,
  seededRandom,
  type SimulatedFiles,
  simulatedFiles,
  type Step,
} from "./simulated-files.ts";

const STATE = storePaths(ROOT).state;
/** Tokens of recovering processes, far from those of the run that crashed. */
const LATER_TOKENS = 1_000_000;

export interface Cut {
  readonly mode: CutMode;
  readonly seed: number;
}

/** Kept, dropped, and torn in so many ways. */
export function cuts(torn: number, seed = 1): Cut[] {
  const modes: Cut[] = [{ mode: "kept", seed: 0 }, { mode: "dropped", seed: 0 }];
  for (let i = 0; i < torn; i++) modes.push({ mode: "torn", seed: seed * 1000 + i });
  return modes;
}

/** A prepared base: the disk before the operation, and where its tokens start. */
export interface Base {
  readonly disk: SimulatedFiles;
  readonly tokens: number;
  readonly init: boolean;
  /** The process that runs the operation; 10 unless given. */
  readonly pid?: number;
  readonly boot?: string;
}

export interface CompletedRun {
  readonly steps: readonly Step[];
  readonly oldState: string | null;
  readonly newState: string | null;
  readonly after: Base;
}

/** A fresh simulated disk with `/data` on it, synced. */
export function freshDisk(): SimulatedFiles {
  const disk = simulatedFiles();
  disk.files.mkdir("", "/data", 0o700);
  disk.files.syncDirectory("", "/");
  return disk;
}

export async function populatedBase(): Promise<Base> {
  const world: World = { disk: freshDisk(), pid: 10, boot: "boot1", tokens: 1 };
  await populated(world);
  return { disk: world.disk, tokens: world.tokens, init: false };
}

function start(base: Base): World {
  const { disk, pid = 10, boot = "boot1", tokens } = base;
  return { disk: disk.copy(), pid, boot, tokens };
}

/** The operation without a crash: the steps it takes and the state it leaves. */
export async function complete(base: Base, operation: Operation): Promise<CompletedRun> {
  const world = start(base);
  operation.prepare?.(world);
  const skipped = world.disk.steps.length;
  const oldState = world.disk.readText(STATE);
  await operation.run(world);
  return {
    steps: world.disk.steps.slice(skipped),
    oldState,
    newState: world.disk.readText(STATE),
    after: { disk: world.disk.copy(), tokens: world.tokens, init: false },
  };
}

/** Which states may be found when the first `done` steps have happened. */
export function allowedStates(run: CompletedRun, done: number): ("old" | "new")[] {
  const renamed = run.steps.findIndex(({ site }) => site === "state.rename");
  if (renamed < 0 || done <= renamed) return ["old"];
  const synced = run.steps.findIndex(({ site }) => site === "state.sync-parent");
  return done <= synced ? ["old", "new"] : ["new"];
}

/** Crashes before step `index` (after the last, when that is their number) and recovers. */
export async function crashAt(
  base: Base,
  operation: Operation,
  run: CompletedRun,
  index: number,
  { mode, seed }: Cut,
): Promise<World> {
  const world = start(base);
  operation.prepare?.(world);
  world.disk.crashBefore(world.disk.steps.length + index);
  await operation.run(world).catch(() => {});
  assert.equal(world.disk.crashed, index < run.steps.length);

  const disk = world.disk.afterCut(mode, seededRandom(seed));
  const rebooted = mode !== "kept";
  const survivor: World = {
    disk,
    pid: world.pid + 1,
    boot: rebooted ? `${world.boot}'` : world.boot,
    tokens: world.tokens + LATER_TOKENS,
  };
  if (base.init) {
    const store = await reopenAfterInit(survivor, rebooted);
    await store.enqueue("jobs", "first", 1);
    return survivor;
  }
  await reopen(survivor, rebooted);
  const found = disk.readText(STATE);
  const allowed = allowedStates(run, index).map((which) => run[`${which}State`]);
  assert.ok(allowed.includes(found), `found ${found}\nallowed ${allowed.join("\nor ")}`);
  if (mode === "kept" && allowed.length === 2) assert.equal(found, run.newState);
  return survivor;
}

/** Every cut of one operation; returns how many there were. */
export async function crashEverywhere(
  base: Base,
  operation: Operation,
  run: CompletedRun,
  modes: readonly Cut[],
  label: string,
  verify: (store: Store, world: World) => Promise<void> = assertWhole,
): Promise<number> {
  let count = 0;
  for (let index = 0; index <= run.steps.length; index++) {
    for (const mode of modes) {
      try {
        const survivor = await crashAt(base, operation, run, index, mode);
        await verify(await reopen(survivor, false), survivor);
        count++;
      } catch (cause) {
        const at = run.steps[index]?.site ?? "the end";
        throw new Error(`${label}, cut before ${at} (step ${index}), ${JSON.stringify(mode)}`, {
          cause,
        });
      }
    }
  }
  return count;
}
