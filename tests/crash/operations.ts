/** The store's operations as the crash tests run them: each on the real code over simulated files. */
import type { FileSystem } from "../../src/platform/files.ts";
import type { HostProbe, ProcessIdentity } from "../../src/platform/host.ts";
import {
  initStore,
  openStore,
  type Receipt,
  type Store,
  type StoreOptions,
  unlockStore,
} from "../../src/store/mod.ts";
import { tryExclusive } from "../../src/store/exclusive.ts";
import { storePlatform } from "../../src/store/platform.ts";
import { storePaths } from "../../src/store/layout.ts";
import { errno, type SimulatedFiles } from "./simulated-files.ts";

export const ROOT = "/data/store";

/** Process `pid` on simulated boot `boot`; everything it needs is deterministic. */
export interface World {
  readonly disk: SimulatedFiles;
  readonly pid: number;
  readonly boot: string;
  /** Continues where the one before stopped, so that equal histories have equal tokens. */
  tokens: number;
}

export function options(world: World, changes: Partial<StoreOptions> = {}): StoreOptions {
  return {
    lockTimeoutMs: 0,
    recoverStale: false,
    ...changes,
    platform: {
      files: world.disk.files as FileSystem<never>,
      identity: identity(world.pid, world.boot),
      probe: probe(world.pid, world.boot),
      token: () => (world.tokens++).toString(16).padStart(32, "0"),
      sleep: () => Promise.resolve(),
    },
  };
}

function identity(pid: number, boot: string): ProcessIdentity {
  return { pid, startTime: `t${pid}`, pidNamespace: "pid:[1]", bootId: boot, host: "simulated" };
}

/** Only the running process exists. */
function probe(pid: number, boot: string): HostProbe {
  return {
    bootId: () => boot,
    pidNamespace: () => "pid:[1]",
    exists: (other) => other === pid,
    startTime: (other) => other === pid ? { ticks: `t${pid}`, zombie: false } : null,
  };
}

/** Leaves the lock that a process which died in a transaction leaves. */
function plantStaleLock(world: World): void {
  const dead = { ...world, pid: world.pid + 1000 };
  tryExclusive(storePlatform(options(dead)), storePaths(ROOT).lock);
  world.tokens = dead.tokens;
}

async function claimed(store: Store): Promise<Receipt | null> {
  return (await store.messages({ queue: "jobs", state: "claimed" }))[0]?.receipt ?? null;
}

export interface Operation {
  /** Before the crash is armed: what the operation finds. */
  prepare?(world: World): void;
  run(world: World): Promise<void>;
}

/** An operation on an opened store. */
function on(action: (store: Store, world: World) => Promise<unknown>): Operation {
  return {
    async run(world) {
      await action(await openStore(ROOT, options(world)), world);
    },
  };
}

/** The operations whose every sequence is tried, by name. */
export const OPERATIONS: Readonly<Record<string, Operation>> = {
  // Two ids in turn, so that some enqueues replace a pending generation.
  enqueue: on((store, world) =>
    store.enqueue("jobs", `m${world.tokens % 2}`, { at: world.tokens })
  ),
  claim: on((store) => store.claim("jobs", { owner: { worker: 1 } })),
  migrate: on(async (store) => {
    const receipt = await claimed(store);
    if (receipt === null) return;
    const [claim] = await store.claim("jobs", { id: receipt.id });
    await store.migrate(claim!, (payload) => ({ migrated: payload }));
  }),
  ack: on(async (store) => {
    const receipt = await claimed(store);
    if (receipt !== null) await store.ack(receipt);
  }),
  requeue: on(async (store) => {
    const receipt = await claimed(store);
    if (receipt !== null) await store.requeue(receipt);
  }),
  quarantine: on(async (store, world) => {
    const receipt = await claimed(store);
    const failedId = `f${world.tokens}`;
    if (receipt !== null) await store.quarantine(receipt, { failedId, reason: "broken" });
  }),
  unlock: {
    prepare: plantStaleLock,
    async run(world) {
      await unlockStore(ROOT, options(world));
    },
  },
  gc: on((store) => store.gc()),
};

/** The rest, each tried alone. */
export const OTHER_OPERATIONS: Readonly<Record<string, Operation>> = {
  "enqueue many": on((store) =>
    store.enqueueMany("jobs", [{ id: "x1", payload: 1 }, { id: "m0", payload: 2 }])
  ),
  renew: on(async (store) => {
    const receipt = await claimed(store);
    if (receipt !== null) await store.renew([receipt], { worker: 2 });
  }),
  release: on((store) => store.release(() => true)),
  "finish and claim": on(async (store) => {
    const receipt = await claimed(store);
    const endings = receipt === null ? [] : [{ how: "ack" as const, receipt }];
    await store.finishAndClaim("jobs", endings, { owner: { worker: 1 } });
  }),
  clear: on((store) => store.clear("jobs", { claimed: true })),
  "create queue": on((store) => store.createQueue("more")),
  // With what is below it and the dead letters of both: one commit.
  "remove queue": on((store) => store.removeQueue("jobs", { tree: true })),
  "failed retry": on(async (store) => {
    const [entry] = await store.failed.list();
    if (entry !== undefined) await store.failed.retry(entry.failedId);
  }),
  "failed prune": on((store) => store.failed.prune()),
  "claim past what can't be used": on((store) =>
    store.claim("jobs", { unfit: ({ receipt }) => receipt.id === "m0" ? "broken" : null })
  ),
  "recover and enqueue": {
    prepare: plantStaleLock,
    async run(world) {
      const store = await openStore(ROOT, options(world, { recoverStale: true }));
      await store.enqueue("jobs", "m9", 9);
    },
  },
};

export const INIT: Operation = {
  async run(world) {
    await initStore(ROOT, options(world));
  },
};

/** What init does where something is there already. */
export const OTHER_INITS: Readonly<Record<string, Operation>> = {
  "init in a given directory": {
    prepare: ({ disk }) => disk.files.mkdir("", ROOT, 0o755),
    run: INIT.run,
  },
  "init after an interrupted one": {
    prepare({ disk }) {
      disk.files.mkdir("", ROOT, 0o700);
      disk.files.mkdir("", `${ROOT}/.fs-safe-queue-v2`, 0o700);
      disk.files.mkdir("", `${ROOT}/.fs-safe-queue-v2/objects`, 0o700);
      disk.files.close(disk.files.create("", `${ROOT}/.fs-safe-queue-v2/state.json`, 0o600));
    },
    async run(world) {
      await initStore(ROOT, { ...options(world), resumeAfterInspection: true });
    },
  },
};

/** A transaction that fails and takes back what it wrote. */
export const FAILING: Operation = {
  async run(world) {
    const store = await openStore(ROOT, options(world));
    const sync = world.disk.files.sync;
    world.disk.files.sync = (site, fd) => {
      sync(site, fd);
      if (site === "state.sync-temp") throw errno("ENOSPC", site, "");
    };
    await store.enqueue("jobs", "m7", 7).catch(() => {});
  },
};

/** Collection where crashed processes have left everything that they can leave. */
export const THOROUGH_GC: Operation = {
  prepare(world) {
    const dead = { ...world, pid: world.pid + 2000 };
    const { lock } = storePaths(ROOT);
    tryExclusive(storePlatform(options(dead)), `${lock}.recover-${"a".repeat(32)}`);
    // What a transaction before a reboot was writing.
    const { files } = dead.disk;
    const left = files.create("", `${lock}.${"b".repeat(32)}.99.dDk.${"0".repeat(16)}`, 0o600);
    files.write("", left, new TextEncoder().encode("{"));
    files.close(left);
    const unlink = dead.disk.files.unlink;
    dead.disk.files.unlink = () => {};
    tryExclusive(storePlatform(options(dead)), `${lock}.recover-${"c".repeat(32)}`);
    dead.disk.files.unlink = unlink;
    world.tokens = dead.tokens;
  },
  run: OPERATIONS.gc!.run,
};

/**
 * A store with something of everything: pending, claimed, pending beside claimed, failed, a queue below with
 * a dead letter of its own, an orphan.
 */
export async function populated(world: World): Promise<void> {
  await initStore(ROOT, options(world));
  const store = await openStore(ROOT, options(world));
  await store.enqueue("jobs", "m0", { n: 0 });
  await store.enqueue("jobs", "c1", { n: 1 });
  await store.enqueue("jobs", "bad", { n: 2 });
  const [bad] = await store.claim("jobs", { id: "bad" });
  await store.quarantine(bad!.receipt, { reason: "bad" });
  await store.claim("jobs", { id: "c1" });
  await store.enqueue("jobs", "c1", { n: 1 });
  await store.enqueue("jobs/more", "bad", { n: 3 });
  const [nested] = await store.claim("jobs/more", { id: "bad" });
  await store.quarantine(nested!.receipt, { failedId: "nested", reason: "bad" });
  await store.enqueue("jobs/more", "n1", { n: 4 });
  const orphan = `${ROOT}/.fs-safe-queue-v2/objects/${"e".repeat(32)}`;
  world.disk.files.mkdir("", orphan, 0o700);
  world.disk.files.close(world.disk.files.create("", `${orphan}/payload.json`, 0o600));
}
