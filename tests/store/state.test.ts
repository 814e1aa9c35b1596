import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { describe, test } from "node:test";
import { nodeFiles } from "../../src/platform/files.ts";
import { storePaths } from "../../src/store/layout.ts";
import { initStore, openStore } from "../../src/store/mod.ts";
import { encodeState, parseState } from "../../src/store/state-file.ts";
import {
  emptyState,
  getSlot,
  nextRevision,
  setFailed,
  setSlot,
  type StoreState,
} from "../../src/store/state.ts";
import type { Reference } from "../../src/store/types.ts";
import { seededRandom } from "../crash/simulated-files.ts";
import { tempDir } from "../helpers/git.ts";

const SEED = Number(process.env.AGENTQ_TEST_SEED ?? 1);

function written(state: StoreState): string {
  return Buffer.concat(encodeState(state)).toString();
}

/** Queue → id → slot, and the dead letters, as plain objects. */
function plain(state: StoreState): unknown {
  const queues = [...state.queues].map(([name, { slots }]) => [
    name,
    Object.fromEntries(
      [...slots].map(([id, { pending, claimed }]) => [id, { pending, claimed }]),
    ),
  ]);
  return {
    revision: state.revision,
    slots: state.slots,
    queues: Object.fromEntries(queues),
    failed: Object.fromEntries(state.failed),
  };
}

describe("a state's bytes", () => {
  test("say after any changes what the state says, though most of them are kept ones", () => {
    const random = seededRandom(SEED);
    const state = emptyState("0".repeat(32));
    let tokens = 0;
    const token = () => (++tokens).toString(16).padStart(32, "0");
    const reference = (): Reference => ({
      generation: token(),
      object: token(),
      seq: state.revision,
      attempts: Math.floor(random() * 3),
    });
    for (let round = 0; round < 60; round++) {
      state.revision = nextRevision(state.revision);
      const drains = round % 20 > 12;
      const changes = Math.floor(random() * 120);
      for (let i = 0; i < changes; i++) {
        const queue = random() < 0.8 ? "jobs" : "a/b";
        const id = `m${Math.floor(random() * 700)}`;
        if (random() < (drains ? 0.9 : 0.3)) {
          setSlot(state, queue, id, { pending: null, claimed: null });
        } else setSlot(state, queue, id, { [random() < 0.5 ? "pending" : "claimed"]: reference() });
      }
      if (random() < 0.3) {
        const { pending } = getSlot(state, "jobs", "m1");
        if (pending !== null) {
          setSlot(state, "jobs", "m1", { pending: null });
          const { generation, object } = pending;
          setFailed(state, `f${round}`, {
            queue: "jobs",
            id: "m1",
            generation,
            object,
            reason: "é",
          });
        }
      }
      const text = written(state);
      const read = parseState(text, "state.json");
      assert.deepEqual(plain(read), plain(state));
      // Written by a process that has read it, it says the same.
      assert.deepEqual(plain(parseState(written(read), "state.json")), plain(state));
      const runs = state.queues.get("jobs")?.runs ?? [];
      assert.ok(runs.length <= 8 + state.slots / 16, "drained queues don't keep short runs");
    }
    assert.ok(state.slots > 100);
  });

  test("reach the file whole, in however many pieces", () => {
    const path = join(tempDir(), "pieces");
    const pieces = Array.from({ length: 2500 }, (_, i) => Buffer.from("x".repeat(i % 7)));
    const fd = nodeFiles.create("", path, 0o600);
    nodeFiles.write("", fd, pieces);
    nodeFiles.close(fd);
    assert.deepEqual(readFileSync(path), Buffer.concat(pieces));
  });
});

describe("a large state", () => {
  async function largeStore() {
    const root = tempDir();
    await initStore(root);
    const store = await openStore(root);
    const entries = Array.from({ length: 600 }, (_, i) => ({ id: `m${i}`, payload: i }));
    await store.enqueueMany("jobs", entries);
    const path = storePaths(root).state;
    assert.ok(statSync(path).size > 64 * 1024);
    return { root, store, path };
  }

  test("that others have changed is read anew", async () => {
    const { root, store } = await largeStore();
    const other = await openStore(root);
    for (let i = 0; i < 20; i++) {
      const [mine] = await store.claim("jobs");
      const [theirs] = await other.claim("jobs");
      assert.equal(mine!.receipt.id, `m${2 * i}`);
      assert.equal(theirs!.receipt.id, `m${2 * i + 1}`);
      await store.ack(mine!.receipt);
      await other.ack(theirs!.receipt);
    }
    assert.equal((await store.snapshot()).queues.get("jobs")!.unacked, 560);
    assert.ok((await other.check()).sound);
  });

  test("that was changed in place, at the same length, is noticed", async () => {
    const { store, path } = await largeStore();
    await store.claim("jobs");
    // File systems tell time in ticks of some milliseconds.
    await new Promise((resolve) => setTimeout(resolve, 50));
    const text = readFileSync(path, "utf8");
    const at = text.lastIndexOf('"attempts":0');
    writeFileSync(path, `${text.slice(0, at)}"attemptz":0${text.slice(at + 12)}`);
    await assert.rejects(store.claim("jobs"), { code: "store-invalid" });
    await assert.rejects(store.snapshot(), { code: "store-invalid" });
  });
});
