import assert from "node:assert/strict";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import fc from "fast-check";
import {
  initStore,
  isPortableSegment,
  isQueueName,
  openStore,
  parseReceipt,
  preparedPayload,
  type Store,
} from "../../src/store/mod.ts";
import { tempDir } from "../helpers/git.ts";

async function newStore(limits = {}): Promise<Store> {
  const root = tempDir();
  await initStore(root);
  return await openStore(root, { limits });
}

async function claimOne(store: Store, id?: string) {
  const [claim] = await store.claim("jobs", id === undefined ? {} : { id });
  assert.ok(claim !== undefined);
  return claim;
}

describe("a message", () => {
  test("goes from pending to claimed to gone, its payload byte for byte", async () => {
    const store = await newStore();
    const text = '{ "spaced" : [1.0, "é\\ud83d\\ude00"] }';
    await store.enqueue("jobs", "a", preparedPayload(text));
    assert.equal((await store.peek("jobs"))[0]!.text(), text);
    const claim = await claimOne(store);
    assert.equal(claim.text(), text);
    assert.deepEqual(await store.claim("jobs"), []);
    await store.ack(claim.receipt);
    assert.deepEqual(await store.messages(), []);
  });

  test("is claimed oldest first, batches in the order given", async () => {
    const store = await newStore();
    // Names that objects order by number come in the order of their enqueues all the same.
    const ids = ["10", "2", "x", "1", "__proto__", "constructor"];
    await store.enqueue("jobs", "first", 0);
    await store.enqueueMany("jobs", ids.map((id) => ({ id, payload: id })));
    await store.enqueue("jobs", "last", 0);
    const claims = await store.claim("jobs", { count: 100 });
    assert.deepEqual(claims.map(({ receipt }) => receipt.id), ["first", ...ids, "last"]);
    assert.deepEqual((await store.check()).findings, []);
  });

  test("is claimed with others by name in one transaction, gone ones left out", async () => {
    const store = await newStore();
    await store.enqueueMany("jobs", ["a", "b", "c"].map((id) => ({ id, payload: id })));
    await store.claim("jobs", { id: "c", owner: "earlier" });
    const before = (await store.snapshot()).revision;
    const claims = await store.claim("jobs", { ids: ["c", "gone", "a"], owner: "me" });
    assert.deepEqual(claims.map(({ receipt, owner }) => [receipt.id, owner]), [
      ["c", "earlier"],
      ["a", "me"],
    ]);
    assert.equal((await store.snapshot()).revision, String(BigInt(before) + 1n));
    assert.deepEqual((await store.claim("jobs", { count: 5 })).map(({ receipt }) => receipt.id), [
      "b",
    ]);
  });

  test("is refused with an encoding that nobody could read", async () => {
    const store = await newStore();
    const wrong = { encoding: "utf-7" };
    await assert.rejects(store.enqueue("jobs", "a", "x", wrong), { code: "payload-invalid" });
    await store.enqueue("jobs", "a", "x");
    const claim = await claimOne(store);
    await assert.rejects(store.migrate(claim, () => "y", wrong), { code: "payload-invalid" });
  });

  test("carries how to read it, and its owner while claimed", async () => {
    const store = await newStore();
    await store.enqueue("jobs", "a", "AAEC", { encoding: "base64" });
    const [claim] = await store.claim("jobs", { owner: { worker: 7 } });
    assert.equal(claim!.encoding, "base64");
    assert.deepEqual(claim!.owner, { worker: 7 });
    const [receipt] = await store.renew([claim!.receipt], { worker: 7, until: 9 });
    assert.deepEqual((await claimOne(store, "a")).owner, { worker: 7, until: 9 });
    await store.release([receipt!]);
    assert.equal((await store.peek("jobs"))[0]!.owner, null);
  });

  test("is looked at by name, claimed or pending, in one state and without a lock", async () => {
    const store = await newStore();
    for (const id of ["a", "b", "c"]) await store.enqueue("jobs", id, `payload ${id}`);
    await store.claim("jobs", { id: "b", owner: "me" });
    const namespace = join(store.root, ".fs-safe-queue-v2");
    const state = () => readFileSync(join(namespace, "state.json"), "utf8");
    const before = state();
    // A lock of nobody's making: whoever needed it would wait.
    writeFileSync(join(namespace, ".state-transfer.lock"), "held", { mode: 0o600 });
    const seen = await store.peek("jobs", { ids: ["c", "gone", "b", "a"] });
    rmSync(join(namespace, ".state-transfer.lock"));
    assert.deepEqual(seen.map((claim) => [claim.receipt.id, claim.text(), claim.owner]), [
      ["c", '"payload c"', null],
      ["b", '"payload b"', "me"],
      ["a", '"payload a"', null],
    ]);
    assert.equal(state(), before);
  });

  test("comes back where it was when released, at the end when requeued", async () => {
    const store = await newStore();
    for (const id of ["a", "b", "c"]) await store.enqueue("jobs", id, id);
    const [a, b] = await store.claim("jobs", { count: 2 });
    await store.requeue(a!.receipt);
    await store.release([b!.receipt], { countAttempt: true });
    const claims = await store.claim("jobs", { count: 3 });
    assert.deepEqual(claims.map(({ receipt, attempts }) => [receipt.id, attempts]), [
      ["b", 1],
      ["c", 0],
      ["a", 1],
    ]);
  });

  test("is released by what the state says of its owner", async () => {
    const store = await newStore();
    for (const id of ["a", "b"]) await store.enqueue("jobs", id, id);
    await store.claim("jobs", { owner: "dead" });
    await store.claim("jobs", { owner: "alive" });
    const released = await store.release(({ reference }) => reference.owner === "dead");
    assert.deepEqual(released.map(({ receipt }) => receipt.id), ["a"]);
    assert.deepEqual((await store.snapshot()).queues.get("jobs"), {
      pending: 1,
      processing: 1,
      unacked: 2,
    });
  });

  test("can be migrated while claimed; the generation stays", async () => {
    const store = await newStore();
    const receipt = await store.enqueue("jobs", "a", { v: 1 });
    const claim = await claimOne(store);
    const migrated = await store.migrate(claim, async (payload) => {
      // The callback runs outside the lock: the store can be used meanwhile.
      await store.enqueue("jobs", "b", 1);
      return { ...(payload as { v: number }), v: 2 };
    });
    assert.deepEqual(migrated.json(), { v: 2 });
    assert.equal(migrated.receipt.generation, receipt.generation);
    assert.notEqual(migrated.receipt.object, receipt.object);
    // Either receipt holds the claim: the generation is what counts.
    await store.ack(claim.receipt);
  });
});

describe("a generation", () => {
  test("is another for each enqueue of the same bytes", async () => {
    const store = await newStore();
    const first = await store.enqueue("jobs", "a", { same: true });
    const claim = await claimOne(store);
    const second = await store.enqueue("jobs", "a", { same: true });
    assert.notEqual(first.generation, second.generation);
    // The enqueue between claim and ack survives the ack.
    await store.ack(claim.receipt);
    const again = await claimOne(store);
    assert.equal(again.receipt.generation, second.generation);
    await assert.rejects(store.ack(claim.receipt), { code: "stale-generation" });
    await store.ack(again.receipt);
  });

  test("replaces a pending one of its id", async () => {
    const store = await newStore();
    await store.enqueue("jobs", "a", 1);
    await store.enqueue("jobs", "b", 2);
    await store.enqueue("jobs", "a", 3);
    const claims = await store.claim("jobs", { count: 9 });
    assert.deepEqual(claims.map((claim) => claim.json()), [2, 3]);
    assert.equal((await store.check()).orphans, 0);
  });

  test("that is stale can do nothing", async () => {
    const store = await newStore();
    await store.enqueue("jobs", "a", 1);
    const old = await claimOne(store);
    await store.ack(old.receipt);
    await store.enqueue("jobs", "a", 1);
    const now = await claimOne(store);
    const before = readFileSync(join(store.root, ".fs-safe-queue-v2/state.json"), "utf8");
    const stale = { code: "stale-generation" };
    await assert.rejects(store.ack(old.receipt), stale);
    await assert.rejects(store.ack(now.receipt, old.receipt), stale, "all or none");
    await assert.rejects(store.requeue(old.receipt), stale);
    await assert.rejects(store.release([old.receipt]), stale);
    await assert.rejects(store.renew([old.receipt], 1), stale);
    await assert.rejects(store.quarantine(old.receipt, { reason: "x" }), stale);
    await assert.rejects(store.migrate(old, () => 2), stale);
    assert.equal(readFileSync(join(store.root, ".fs-safe-queue-v2/state.json"), "utf8"), before);
  });

  test("that was taken back and given to another is stale for the first", async () => {
    const store = await newStore();
    await store.enqueue("jobs", "a", 1);
    const first = await claimOne(store);
    await store.release(() => true);
    const second = await claimOne(store);
    assert.equal(second.receipt.generation, first.receipt.generation);
    await assert.rejects(store.ack(first.receipt), { code: "stale-generation" });
    await assert.rejects(store.requeue(first.receipt), { code: "stale-generation" });
    await store.ack(second.receipt);
  });

  test("migrated twice from one claim: the second is stale", async () => {
    const store = await newStore();
    await store.enqueue("jobs", "a", 1);
    const claim = await claimOne(store);
    await store.migrate(claim, () => 2);
    await assert.rejects(store.migrate(claim, () => 3), { code: "stale-generation" });
    assert.equal((await claimOne(store, "a")).json(), 2);
  });

  test("wins over an older one that is requeued", async () => {
    const store = await newStore();
    await store.enqueue("jobs", "a", "old");
    const old = await claimOne(store);
    await store.enqueue("jobs", "a", "new");
    // An id that is claimed isn't handed out a second time.
    assert.deepEqual(await store.claim("jobs"), []);
    assert.equal((await claimOne(store, "a")).json(), "old");
    const [outcome] = await store.requeue(old.receipt);
    assert.equal(outcome!.outcome, "superseded");
    assert.equal((await claimOne(store)).json(), "new");
    assert.equal((await store.check()).orphans, 0);
  });

  test("survives the process as a receipt, and is only good in its own store", async () => {
    const store = await newStore();
    await store.enqueue("jobs", "a", 1);
    const { receipt } = await claimOne(store);
    const kept = parseReceipt(JSON.parse(JSON.stringify(receipt)));
    const other = await newStore();
    await other.enqueue("jobs", "a", 1);
    await other.claim("jobs");
    await assert.rejects(other.ack(kept), { code: "store-id-mismatch" });
    await store.ack(kept);
    assert.throws(() => parseReceipt({ queue: 1 }), { code: "payload-invalid" });
  });
});

describe("dead letters", () => {
  test("are create-only across all queues", async () => {
    const store = await newStore();
    for (const queue of ["jobs", "other"]) await store.enqueue(queue, "a", queue);
    const [mine] = await store.claim("jobs");
    const [theirs] = await store.claim("other");
    const entry = await store.quarantine(mine!.receipt, { reason: "broken" });
    assert.equal(entry.failedId, "a");
    await assert.rejects(store.quarantine(theirs!.receipt, { reason: "broken" }), {
      code: "already-exists",
    });
    // Still claimed, and another name is free.
    await store.quarantine(theirs!.receipt, { reason: "broken", failedId: "other-a" });
    assert.deepEqual((await store.failed.list()).map(({ failedId }) => failedId), ["a", "other-a"]);
    // Asking again with the same receipt, after an answer that got lost, finds it done.
    assert.deepEqual(await store.quarantine(mine!.receipt, { reason: "broken" }), entry);
  });

  test("are shown, retried and pruned, never delivered by themselves", async () => {
    const store = await newStore();
    await store.enqueue("jobs", "a", "not JSON", { encoding: "text" });
    const claim = await claimOne(store);
    await store.quarantine(claim.receipt, { reason: `long ${"x".repeat(10_000)}` });
    assert.deepEqual(await store.claim("jobs"), []);
    const { entry, claim: shown } = await store.failed.show("a");
    assert.equal(entry.reason.length, 4096);
    assert.equal(shown.json(), "not JSON");
    await store.failed.retry("a");
    const again = await claimOne(store);
    assert.equal(again.encoding, "text");
    assert.equal(again.receipt.generation, claim.receipt.generation);
    await assert.rejects(store.ack(claim.receipt), { code: "stale-generation" });
    await store.quarantine(again.receipt, { reason: "again" });
    await assert.rejects(store.failed.prune(["nothing"]), { code: "not-found" });
    assert.equal(await store.failed.prune(), 1);
    await assert.rejects(store.failed.show("a"), { code: "not-found" });
    assert.equal((await store.check()).orphans, 0);
  });

  test("go with their queue in one commit, and by its name where it is gone already", async () => {
    const store = await newStore();
    for (const queue of ["jobs", "jobs/more", "jobs2"]) {
      await store.enqueue(queue, "a", queue);
      const [claim] = await store.claim(queue);
      await store.quarantine(claim!.receipt, { failedId: queue.replace("/", "-"), reason: "x" });
      await store.enqueue(queue, "b", queue);
    }
    const { revision } = await store.snapshot();
    assert.deepEqual(await store.removeQueue("jobs", { tree: true }), {
      queues: ["jobs", "jobs/more"],
      messages: 2,
      failed: 2,
    });
    assert.equal((await store.snapshot()).revision, String(BigInt(revision) + 1n));
    assert.deepEqual((await store.failed.list()).map(({ failedId }) => failedId), ["jobs2"]);

    // As an older version left it when it was killed between its two commits.
    const path = join(store.root, ".fs-safe-queue-v2", "state.json");
    const state = JSON.parse(readFileSync(path, "utf8"));
    delete state.queues.jobs2;
    writeFileSync(path, JSON.stringify(state), { mode: 0o600 });
    const { findings, sound } = await store.check();
    assert.ok(sound);
    assert.match(findings.map(({ message }) => message).join(), /queue jobs2, which was removed/);
    assert.deepEqual(await store.removeQueue("jobs2"), {
      queues: ["jobs2"],
      messages: 0,
      failed: 1,
    });
    await store.gc();
    assert.deepEqual((await store.check()).findings, []);
    assert.deepEqual((await store.removeQueue("jobs2")).queues, []);
  });

  test("are retried together or not at all", async () => {
    const store = await newStore();
    for (const id of ["a", "b", "c"]) {
      await store.enqueue("jobs", id, id);
      await store.quarantine((await claimOne(store)).receipt, { reason: "x" });
    }
    await store.enqueue("jobs", "b", "newer");
    await assert.rejects(store.failed.retryMany(["a", "b"]), { code: "already-exists" });
    await assert.rejects(store.failed.retryMany(["c", "nothing"]), { code: "not-found" });
    assert.equal((await store.failed.list()).length, 3);
    const { revision } = await store.snapshot();
    await store.failed.retryMany(["c", "a", "c"]);
    assert.equal((await store.snapshot()).revision, String(BigInt(revision) + 1n));
    const order = (await store.messages()).map(({ id }) => id);
    assert.deepEqual(order, ["b", "c", "a"]);
  });

  test("aren't retried over a newer message of the id", async () => {
    const store = await newStore();
    await store.enqueue("jobs", "a", "old");
    await store.quarantine((await claimOne(store)).receipt, { reason: "x" });
    await store.enqueue("jobs", "a", "new");
    await assert.rejects(store.failed.retry("a"), { code: "already-exists" });
    const claim = await claimOne(store);
    assert.equal(claim.json(), "new");
    // Nor while that one is claimed: it would be dropped as superseded by the older one.
    const { revision } = await store.snapshot();
    await assert.rejects(store.failed.retry("a"), {
      code: "already-exists",
      message: /jobs\/a is claimed/,
    });
    assert.equal((await store.snapshot()).revision, revision);
    assert.deepEqual((await store.requeue(claim.receipt))[0]?.outcome, "pending");
    assert.equal((await claimOne(store)).json(), "new");
  });
});

describe("queues", () => {
  test("are created, listed, cleared and removed, trees too", async () => {
    const store = await newStore();
    assert.equal(await store.createQueue("a/b"), true);
    assert.equal(await store.createQueue("a/b"), false);
    await store.enqueue("a/b/c", "1", 1);
    await store.enqueue("a/bc", "1", 1);
    assert.deepEqual(await store.listQueues(), ["a/b", "a/b/c", "a/bc"]);
    assert.deepEqual(await store.listQueues("a/b"), ["a/b", "a/b/c"]);
    assert.deepEqual(await store.removeQueue("a/b", { tree: true }), {
      queues: ["a/b", "a/b/c"],
      messages: 1,
      failed: 0,
    });
    assert.deepEqual(await store.listQueues(), ["a/bc"]);
    await store.enqueue("a/bc", "2", 2);
    await store.claim("a/bc");
    assert.equal(await store.clear("a/bc"), 1);
    assert.equal(await store.clear("a/bc", { claimed: true }), 1);
    assert.deepEqual((await store.snapshot()).queues.get("a/bc"), {
      pending: 0,
      processing: 0,
      unacked: 0,
    });
    assert.equal((await store.check()).orphans, 0);
  });
});

describe("names", () => {
  test("are portable segments", () => {
    for (const good of ["a", "0", "a.b", "a-b_c", "x".repeat(100), "__proto__", "console"]) {
      assert.ok(isPortableSegment(good), good);
    }
    const bad = ["", ".", "..", ".a", "a.", "A", "a/b", "a b", "é", "x".repeat(101), "a\0", "a\n"];
    for (const name of [...bad, "con", "nul.txt", "com1", "lpt9.log", "aux"]) {
      assert.ok(!isPortableSegment(name), JSON.stringify(name));
    }
    assert.ok(isQueueName("a/b/c/d/e/f/g/h"));
    for (const name of ["a/b/c/d/e/f/g/h/i", "/a", "a/", "a//b", "a/../b", ""]) {
      assert.ok(!isQueueName(name), name);
    }
  });

  test("of any other kind are refused before anything happens", async () => {
    const store = await newStore();
    const invalid = { code: "name-invalid" };
    await assert.rejects(store.enqueue("../x", "a", 1), invalid);
    await assert.rejects(store.enqueue("jobs", "../../x", 1), invalid);
    await assert.rejects(store.claim("Jobs"), invalid);
    await assert.rejects(store.createQueue("a/.b"), invalid);
    assert.equal((await store.snapshot()).revision, "0");
  });
});

describe("limits", () => {
  test("refuse what exceeds them and change nothing", async () => {
    const store = await newStore({ maxSlots: 3, maxPayloadBytes: 100 });
    const exceeded = { code: "limit-exceeded" };
    await assert.rejects(store.enqueue("jobs", "a", "x".repeat(99)), exceeded);
    await store.enqueue("jobs", "a", "x".repeat(98));
    const many = ["b", "c", "d"].map((id) => ({ id, payload: id }));
    await assert.rejects(store.enqueueMany("jobs", many), exceeded);
    assert.equal((await store.snapshot()).queues.get("jobs")!.pending, 1);
    await store.enqueueMany("jobs", many.slice(1));
    await assert.rejects(store.enqueue("jobs", "e", 1), exceeded);
    // A full store is drained as usual, and then takes more.
    const [claim] = await store.claim("jobs");
    await store.ack(claim!.receipt);
    await store.enqueue("jobs", "e", 1);
    assert.deepEqual((await store.check()).findings, []);
  });

  test("leave room to drain a store whose state is full", async () => {
    const store = await newStore({ maxStateBytes: 6000 });
    let n = 0;
    const fill = async () => {
      while (true) await store.enqueue("jobs", `m${n++}`, 1);
    };
    await assert.rejects(fill(), { code: "limit-exceeded" });
    const claims = await store.claim("jobs", { count: 3, owner: { worker: 1 } });
    await store.ack(...claims.map(({ receipt }) => receipt));
    await store.enqueue("jobs", "more", 1);
    await assert.rejects(store.claim("jobs", { owner: "x".repeat(2000) }), {
      code: "limit-exceeded",
    });
  });

  test("let payloads of 16 MiB through, and nothing that JSON can't carry", async () => {
    const store = await newStore();
    const large = "x".repeat(16 * 1024 * 1024 - 2);
    await store.enqueue("jobs", "large", large);
    assert.equal((await claimOne(store)).json(), large);
    await assert.rejects(store.enqueue("jobs", "a", `${large}x`), { code: "limit-exceeded" });
    const invalid = { code: "payload-invalid" };
    // deno-lint-ignore no-explicit-any
    for (const value of [undefined, () => 1, 1n] as any[]) {
      await assert.rejects(store.enqueue("jobs", "a", value), invalid);
    }
    assert.throws(() => preparedPayload("{"), invalid);
    assert.throws(() => preparedPayload('"\ud800"'), invalid);
  });
});

describe("many operations", () => {
  test("behave like the plain model of the contract", async () => {
    type Op = readonly [kind: number, which: number];
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(fc.nat(5), fc.nat(3)), { maxLength: 30 }), async (ops) => {
        const store = await newStore();
        const pending: { id: string; n: number }[] = [];
        const claimed = new Map<string, number>();
        let n = 0;
        for (const [kind, which] of ops as Op[]) {
          const id = `m${which}`;
          if (kind <= 1) {
            await store.enqueue("jobs", id, ++n);
            const old = pending.findIndex((entry) => entry.id === id);
            if (old >= 0) pending.splice(old, 1);
            pending.push({ id, n });
          } else if (kind === 2) {
            const [claim] = await store.claim("jobs");
            const index = pending.findIndex((entry) => !claimed.has(entry.id));
            assert.equal(claim?.json(), pending[index]?.n);
            if (index >= 0) {
              claimed.set(pending[index]!.id, pending[index]!.n);
              pending.splice(index, 1);
            }
          } else {
            if (!claimed.has(id)) continue;
            const [claim] = await store.claim("jobs", { id });
            assert.equal(claim!.json(), claimed.get(id));
            const value = claimed.get(id)!;
            claimed.delete(id);
            if (kind === 3) await store.ack(claim!.receipt);
            else if (kind === 4) {
              const [returned] = await store.requeue(claim!.receipt);
              const newer = pending.some((entry) => entry.id === id);
              assert.equal(returned!.outcome, newer ? "superseded" : "pending");
              if (!newer) pending.push({ id, n: value });
            } else {
              const failedId = `f${value}-${claim!.deliveries}`;
              await store.quarantine(claim!.receipt, { failedId, reason: "x" });
            }
          }
        }
        const counts = (await store.snapshot()).queues.get("jobs");
        assert.equal(counts?.pending ?? 0, pending.length);
        assert.equal(counts?.processing ?? 0, claimed.size);
        const report = await store.check();
        assert.deepEqual([report.findings, report.orphans], [[], 0]);
      }),
      { numRuns: 25 },
    );
  });
});
