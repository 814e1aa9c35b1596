/** What every backend must do, whatever keeps the messages. Run unchanged over all of them. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { after, describe, test } from "node:test";
import fc from "fast-check";
import type { AgentqError } from "../../../src/errors.ts";
import type { Delivery, Ending, QueueBackend, Receipt } from "../../../src/queuefs/contract.ts";
import { callerOwner, workerOwner } from "../../../src/queuefs/owner.ts";
import { bytes, until } from "./redis.ts";

export interface Setup {
  backend: QueueBackend;
  /** Something that goes wrong in the middle of the suite, such as a failover. */
  upheaval?: () => Promise<void>;
  close: () => Promise<void>;
}

const text = (message: { data: Uint8Array | null } | null | undefined) =>
  message?.data ? Buffer.from(message.data).toString("utf8") : null;
const receiptOf = ({ id, lease }: Delivery): Receipt => ({ id, lease });

export function conformance(name: string, open: () => Promise<Setup>): void {
  describe(`${name} keeps the contract`, () => {
    let setup: Setup;
    let backend: QueueBackend;
    let count = 0;
    // No hook: Bun gives hooks five seconds, whatever they ask for.
    test("opens", { timeout: 60_000 }, async () => {
      setup = await open();
      backend = setup.backend;
    });
    after(async () => {
      await backend?.close();
      await setup?.close();
    });

    const owner = workerOwner();
    const queue = async () => {
      const name = `q${++count}`;
      assert.equal(await backend.create(name), true);
      return name;
    };
    const put = async (queue: string, ...texts: string[]) => {
      const ids: string[] = [];
      for (const each of texts) ids.push(...await backend.enqueue(queue, [{ data: bytes(each) }]));
      return ids;
    };
    const take = async (queue: string, count = 1, leaseMs = 60_000, by = owner) =>
      await backend.dequeue(queue, { owner: by, leaseMs, count });
    const turn = async (queue: string, endings: Ending[], count: number, leaseMs = 60_000) =>
      await backend.settleAndDequeue(queue, endings, { owner, leaseMs, count });
    const ack = (delivery: Delivery): Ending => ({ how: "ack", receipt: receiptOf(delivery) });
    const order = async (queue: string) => {
      const seen: (string | null)[] = [];
      for (let next = await take(queue); next.length > 0; next = await take(queue)) {
        seen.push(text(next[0]));
        await backend.ack(queue, next.map(receiptOf));
      }
      return seen;
    };
    const fails = (code: string, work: () => Promise<unknown>) =>
      assert.rejects(work, (error: { code?: string }) => error.code === code);

    test("messages come out once, in order, and are gone when acked", async () => {
      const q = await queue();
      const ids = await put(q, "a", "b", "c");
      assert.deepEqual(await backend.status(q), { pending: 3, processing: 0 });
      assert.equal(text(await backend.peek(q)), "a");
      const [first] = await take(q);
      assert.equal(first!.id, ids[0]);
      assert.equal(text(first), "a");
      assert.equal(first!.attempts, 0);
      assert.deepEqual(await backend.status(q), { pending: 2, processing: 1 });
      assert.equal(text(await backend.peek(q)), "b");
      assert.deepEqual(await backend.ack(q, [receiptOf(first!)]), ["done"]);
      assert.deepEqual(await backend.status(q), { pending: 2, processing: 0 });
      assert.deepEqual(await order(q), ["b", "c"]);
      assert.deepEqual(await take(q), []);
      assert.equal(await backend.peek(q), null);
      assert.equal(await backend.complete([q]), true);
    });

    test("an empty pending queue is not complete while a message is out", async () => {
      const q = await queue();
      await put(q, "a");
      const [a] = await take(q);
      assert.deepEqual(await backend.status(q), { pending: 0, processing: 1 });
      assert.equal(await backend.complete([q]), false);
      await backend.ack(q, [receiptOf(a!)]);
      assert.equal(await backend.complete([q]), true);
    });

    test("batches are one call and keep their order", async () => {
      const q = await queue();
      const all = Array.from({ length: 50 }, (_, i) => `m${i}`);
      const ids = await backend.enqueue(q, all.map((each) => ({ data: bytes(each) })));
      assert.equal(new Set(ids).size, 50);
      const out = await take(q, 30);
      assert.deepEqual(out.map(text), all.slice(0, 30));
      assert.deepEqual(out.map(({ id }) => id), ids.slice(0, 30));
      assert.deepEqual(await backend.ack(q, out.map(receiptOf)), out.map(() => "done"));
      assert.deepEqual((await take(q, 100)).map(text), all.slice(30));
      assert.deepEqual(await backend.enqueue(q, []), []);
      assert.deepEqual(await backend.ack(q, []), []);
    });

    test("messages lists every unacknowledged message and changes nothing", async () => {
      const q = await queue();
      await put(q, "a", "b", "c", "d");
      await take(q, 2);
      const list = async () =>
        (await backend.messages(q)).map((each) => `${each.state} ${text(each)}`);
      const expected = ["processing a", "processing b", "pending c", "pending d"];
      assert.deepEqual(await list(), expected);
      assert.deepEqual(await list(), expected);
      assert.deepEqual(await backend.status(q), { pending: 2, processing: 2 });
    });

    test("requeue puts a message at the back and counts the attempt", async () => {
      const q = await queue();
      await put(q, "a", "b");
      const [a] = await take(q);
      assert.deepEqual(await backend.requeue(q, [receiptOf(a!)]), ["done"]);
      assert.deepEqual(await backend.status(q), { pending: 2, processing: 0 });
      const [b, again] = await take(q, 2);
      assert.deepEqual([text(b), text(again)], ["b", "a"]);
      assert.deepEqual([b!.attempts, again!.attempts], [0, 1]);
      assert.notEqual(again!.lease, a!.lease);
    });

    test("a message given back untried returns to its place, uncounted", async () => {
      const q = await queue();
      await put(q, "a", "b", "c");
      const [a, b] = await take(q, 2);
      assert.deepEqual(await backend.requeue(q, [receiptOf(a!)], { counted: false }), ["done"]);
      assert.deepEqual(await backend.requeue(q, [receiptOf(b!)], { counted: false }), ["done"]);
      const out = await take(q, 3);
      assert.deepEqual(out.map(text), ["a", "b", "c"]);
      assert.deepEqual(out.map(({ attempts }) => attempts), [0, 0, 0]);
    });

    test("settling a delivery that is no longer current does nothing", async () => {
      const q = await queue();
      await put(q, "a");
      const [old] = await take(q);
      await backend.requeue(q, [receiptOf(old!)]);
      const stale = async () => {
        const receipt = [receiptOf(old!)];
        assert.deepEqual(await backend.ack(q, receipt), ["stale"]);
        assert.deepEqual(await backend.requeue(q, receipt), ["stale"]);
        assert.deepEqual(await backend.fail(q, receipt, "no"), ["stale"]);
        assert.deepEqual(await backend.renew(q, receipt, 1000), ["stale"]);
      };
      await stale();
      assert.deepEqual(await backend.status(q), { pending: 1, processing: 0 });
      const [current] = await take(q);
      await stale();
      assert.deepEqual(await backend.status(q), { pending: 0, processing: 1 });
      assert.deepEqual(await backend.renew(q, [receiptOf(current!)], 1000), ["done"]);
      assert.deepEqual(await backend.ack(q, [receiptOf(current!)]), ["done"]);
      assert.deepEqual(await backend.ack(q, [receiptOf(current!)]), ["stale"]);
      await stale();
      assert.deepEqual(await backend.failed.list(q), []);
    });

    test("a batch settles the current deliveries and says which were stale", async () => {
      const q = await queue();
      await put(q, "a", "b", "c");
      const [a, b, c] = await take(q, 3);
      await backend.ack(q, [receiptOf(b!)]);
      const made = { id: "no-such-message", lease: a!.lease };
      assert.deepEqual(
        await backend.ack(q, [receiptOf(a!), receiptOf(b!), made, receiptOf(c!)]),
        ["done", "stale", "stale", "done"],
      );
      assert.deepEqual(await backend.status(q), { pending: 0, processing: 0 });
    });

    test("one step acks what is done and takes the next", async () => {
      const q = await queue();
      await put(q, "a", "b", "c");
      const first = await turn(q, [], 1);
      assert.deepEqual(first.settlements, []);
      assert.deepEqual(first.deliveries.map(text), ["a"]);
      const second = await turn(q, [ack(first.deliveries[0]!)], 1);
      assert.deepEqual(second.settlements, ["done"]);
      assert.deepEqual(second.deliveries.map(text), ["b"]);
      assert.equal(second.deliveries[0]!.attempts, 0);
      assert.deepEqual(await backend.status(q), { pending: 1, processing: 1 });
      const third = await turn(q, second.deliveries.map(ack), 5);
      assert.deepEqual([third.settlements, third.deliveries.map(text)], [["done"], ["c"]]);
      // The queue is empty: the ack is made all the same, and what was taken is a delivery like any other.
      const [c] = third.deliveries;
      assert.deepEqual(await backend.renew(q, [receiptOf(c!)], 60_000), ["done"]);
      assert.deepEqual(await turn(q, [ack(c!)], 1), { settlements: ["done"], deliveries: [] });
      assert.equal(await backend.complete([q]), true);
      assert.deepEqual(await turn(q, [], 1), { settlements: [], deliveries: [] });
    });

    test("a step for no message takes none; without endings it settles none", async () => {
      const q = await queue();
      await put(q, "a", "b");
      const [a] = await take(q);
      assert.deepEqual(await turn(q, [], 0), { settlements: [], deliveries: [] });
      assert.deepEqual(await backend.status(q), { pending: 1, processing: 1 });
      assert.deepEqual(await turn(q, [ack(a!)], 0), { settlements: ["done"], deliveries: [] });
      assert.deepEqual(await backend.status(q), { pending: 1, processing: 0 });
    });

    test("stale deliveries in a step are named, not acked, and hold up nothing", async () => {
      const q = await queue();
      await put(q, "a", "b", "c", "d");
      const [a, b, c] = await take(q, 3);
      await backend.requeue(q, [receiptOf(a!)]); // Behind d: taken again below.
      await backend.ack(q, [receiptOf(b!)]);
      const made: Ending = { how: "ack", receipt: { id: c!.id, lease: a!.lease } };
      const { settlements, deliveries } = await turn(
        q,
        [ack(a!), ack(b!), made, ack(c!), ack(c!)],
        2,
      );
      assert.deepEqual(settlements, ["stale", "stale", "stale", "done", "stale"]);
      assert.deepEqual(deliveries.map(text), ["d", "a"]);
      for (const how of ["ack", "requeue", "release", "fail"] as const) {
        const ending: Ending = { how, receipt: receiptOf(a!), reason: "x" };
        assert.deepEqual(
          await turn(q, [ending], 1),
          { settlements: ["stale"], deliveries: [] },
          how,
        );
      }
      assert.deepEqual(await backend.status(q), { pending: 0, processing: 2 });
      assert.deepEqual(await backend.failed.list(q), []);
      assert.deepEqual((await turn(q, deliveries.map(ack), 1)).settlements, ["done", "done"]);
    });

    test("a dead letter that wasn't tried any more counts the attempts before", async () => {
      const q = await queue();
      await put(q, "killer");
      for (let i = 0; i < 2; i++) {
        await backend.requeue(q, (await take(q)).map(receiptOf));
      }
      const [last] = await take(q);
      assert.equal(last!.attempts, 2);
      const ending: Ending = { how: "fail", receipt: receiptOf(last!), reason: "x", untried: true };
      assert.deepEqual((await turn(q, [ending], 1)).settlements, ["done"]);
      const [letter] = await backend.failed.list(q);
      assert.deepEqual([text(letter), letter!.attempts], ["killer", 2]);
    });

    test("a step ends deliveries in every way, before it takes", async () => {
      const q = await queue();
      await put(q, "acked", "requeued", "released", "failed", "next");
      const [a, b, c, d] = await take(q, 4);
      const endings: Ending[] = [
        ack(a!),
        { how: "requeue", receipt: receiptOf(b!) },
        { how: "release", receipt: receiptOf(c!) },
        { how: "fail", receipt: receiptOf(d!), reason: "the reason" },
      ];
      const { settlements, deliveries } = await turn(q, endings, 10);
      assert.deepEqual(settlements, ["done", "done", "done", "done"]);
      assert.deepEqual(deliveries.map(text), ["released", "next", "requeued"]);
      assert.deepEqual(deliveries.map(({ attempts }) => attempts), [0, 0, 1]);
      const [letter] = await backend.failed.list(q);
      assert.deepEqual([text(letter), letter!.reason, letter!.attempts], [
        "failed",
        "the reason",
        1,
      ]);
      assert.deepEqual(await backend.status(q), { pending: 0, processing: 3 });
      await turn(q, deliveries.map(ack), 0);
      assert.equal(await backend.complete([q]), true);
    });

    test("a step by a caller's name; a newer generation waits until its elder is settled", async () => {
      const q = await queue();
      const me = callerOwner("me");
      await backend.enqueue(q, [{ id: "x", data: bytes("old") }]);
      await take(q, 1, 60_000, me);
      await backend.enqueue(q, [{ id: "x", data: bytes("new") }]);
      assert.deepEqual((await turn(q, [], 1)).deliveries, []);
      const mine: Ending = { how: "ack", receipt: { id: "x", owner: me } };
      const { settlements, deliveries } = await turn(q, [mine], 1);
      assert.deepEqual([settlements, deliveries.map(text)], [["done"], ["new"]]);
      assert.deepEqual((await turn(q, [mine], 0)).settlements, ["stale"]);
      for (const how of ["requeue", "release"] as const) {
        const [held] = await backend.messages(q);
        assert.equal(held!.state, "processing");
        await backend.enqueue(q, [{ id: "x", data: bytes(`after ${how}`) }]);
        const ending: Ending = { how, receipt: { id: "x", owner } };
        const next = await turn(q, [ending], 1);
        assert.deepEqual(next.settlements, ["superseded"], how);
        assert.deepEqual(next.deliveries.map(text), [`after ${how}`]);
      }
    });

    test("an id that failed already fails again by a step, each with a name of its own", async () => {
      const q = await queue();
      const id = "x".repeat(100);
      for (const reason of ["one", "two", "three"]) {
        await backend.enqueue(q, [{ id, data: bytes(reason) }]);
        const [held] = await take(q);
        const how = { how: "fail", receipt: receiptOf(held!), reason } as const;
        if (reason === "three") {
          assert.deepEqual(await backend.fail(q, [how.receipt], reason), ["done"]);
        } else assert.deepEqual((await turn(q, [how], 0)).settlements, ["done"]);
      }
      const letters = await backend.failed.list(q);
      assert.deepEqual(letters.map((each) => each.reason), ["one", "two", "three"]);
      assert.equal(new Set(letters.map(({ failedId }) => failedId)).size, 3);
      for (const { failedId } of letters) await backend.failed.show(q, failedId);
      assert.equal(await backend.failed.prune(q), 3);
    });

    test("what a step took and nobody acked comes back like any other delivery", async () => {
      const q = await queue();
      await put(q, "a", "b");
      const [a] = await take(q);
      const { deliveries: [b] } = await turn(q, [ack(a!)], 1, 1);
      await until(async () => (await backend.recover(q)).length === 1);
      assert.deepEqual((await turn(q, [ack(b!)], 0)).settlements, ["stale"]);
      const [again] = await take(q);
      assert.deepEqual([text(again), again!.attempts], ["b", 1]);
    });

    test("a lease that isn't one is stale, whatever it looks like", async () => {
      const q = await queue();
      const [id] = await put(q, "a");
      const [a] = await take(q);
      for (const lease of ["", "x", "1", "1.1", `1.1.${owner}`, "{}", a!.lease + "x", "\0"]) {
        if (lease === a!.lease) continue;
        assert.deepEqual(await backend.ack(q, [{ id: id!, lease }]), ["stale"], lease);
      }
      assert.deepEqual(await backend.status(q), { pending: 0, processing: 1 });
    });

    test("a lease is good for one delivery, though the same id is put in and taken again", async () => {
      const q = await queue();
      const leases = new Set<string>();
      for (let i = 0; i < 20; i++) {
        await backend.enqueue(q, [{ id: "same", data: bytes(`${i}`) }]);
        const [message] = await take(q);
        for (const lease of leases) {
          assert.deepEqual(await backend.ack(q, [{ id: "same", lease }]), ["stale"]);
        }
        leases.add(message!.lease);
        if (i % 2 === 0) assert.equal(await backend.clear(q), 1);
        else assert.deepEqual(await backend.ack(q, [receiptOf(message!)]), ["done"]);
      }
      assert.equal(leases.size, 20);
    });

    test("a caller settles by name what was last handed out to it, and only that", async () => {
      const q = await queue();
      await put(q, "a", "b");
      const [me, other] = [callerOwner("me"), callerOwner("other")];
      const [a] = await take(q, 1, 60_000, me);
      const [b] = await take(q, 1, 60_000, owner);
      assert.deepEqual(await backend.ack(q, [{ id: a!.id, owner: other }]), ["stale"]);
      assert.deepEqual(await backend.ack(q, [{ id: b!.id, owner: me }]), ["stale"]);
      assert.deepEqual(await backend.ack(q, [{ id: a!.id, owner: callerOwner("m") }]), ["stale"]);
      assert.deepEqual(await backend.ack(q, [{ id: a!.id, owner: me }]), ["done"]);
      assert.deepEqual(await backend.requeue(q, [{ id: b!.id, owner }]), ["done"]);
      assert.deepEqual(await backend.status(q), { pending: 1, processing: 0 });
    });

    test("recover takes back run-out leases, in their old order, and leaves the rest", async () => {
      const q = await queue();
      await put(q, "a", "b", "c", "d", "e");
      const caller = callerOwner("gone");
      await take(q, 1, 1, caller); // a
      const [b] = await take(q, 1, 60_000, owner); // b stays out
      await take(q, 2, 1, caller); // c, d
      const back: string[] = [];
      await until(async () => {
        for (const each of await backend.recover(q)) {
          assert.equal(each.why, "lease-expired");
          assert.equal(each.outcome, "pending");
          back.push(each.id);
        }
        return back.length === 3;
      });
      assert.deepEqual(await backend.status(q), { pending: 4, processing: 1 });
      const out = await take(q, 10);
      assert.deepEqual(out.map(text), ["a", "c", "d", "e"]);
      assert.deepEqual(out.map(({ attempts }) => attempts), [1, 1, 1, 0]);
      assert.deepEqual(await backend.ack(q, [receiptOf(b!)]), ["done"]);
    });

    test("what others left in processing holds up neither what is pending nor its own way back", async () => {
      const q = await queue();
      const texts = Array.from({ length: 600 }, (_, i) => `m${i}`);
      await backend.enqueue(q, texts.map((each) => ({ data: bytes(each) })));
      const gone = callerOwner("gone");
      const left: Delivery[] = [];
      for (let i = 0; i < 3; i++) left.push(...await take(q, 100, 60_000, gone));
      assert.deepEqual((await take(q, 2)).map(text), ["m300", "m301"]);
      await backend.renew(q, left.map(receiptOf), 1);
      let back = 0;
      await until(async () => {
        back += (await backend.recover(q)).length;
        return back === 300;
      });
      const rest = [...texts.slice(0, 300), ...texts.slice(302)];
      assert.deepEqual((await take(q, 1000)).map(text), rest);
      assert.deepEqual(await backend.status(q), { pending: 0, processing: 600 });
      await backend.clear(q);
    });

    test("messages recovered one after the other still come back in order", async () => {
      const q = await queue();
      await put(q, "a", "b", "c", "d");
      const [first, second] = [callerOwner("first"), callerOwner("second")];
      const [a] = await take(q, 1, 60_000, first);
      const [b] = await take(q, 1, 60_000, second);
      const [c] = await take(q, 1, 60_000, first);
      const back = async (delivery: Delivery) => {
        await backend.renew(q, [receiptOf(delivery)], 1);
        await until(async () => (await backend.recover(q)).length === 1);
      };
      await back(b!);
      await back(c!);
      await back(a!);
      assert.deepEqual(await order(q), ["a", "b", "c", "d"]);
    });

    test("staleMs shortens a caller's lease and never a worker's", async () => {
      const q = await queue();
      await put(q, "a", "b");
      const [a] = await take(q, 1, 3_600_000, callerOwner("x"));
      await take(q, 1, 3_600_000, owner);
      assert.deepEqual(await backend.recover(q), []);
      const back = await backend.recover(q, { staleMs: 0 });
      assert.deepEqual(back.map(({ id }) => id), [a!.id]);
      assert.deepEqual(await backend.status(q), { pending: 1, processing: 1 });
    });

    test("a worker that is proven gone loses its messages at once", async () => {
      const q = await queue();
      await put(q, "a");
      // This process's own identity with another start time: a pid that was reused.
      const gone = owner.split("~").map((part, i) => i === 2 ? "1" : part).join("~");
      await take(q, 1, 3_600_000, gone);
      const [back] = await backend.recover(q);
      assert.equal(back?.why, "owner-gone");
      assert.deepEqual(await backend.status(q), { pending: 1, processing: 0 });
    });

    test("a renewed lease isn't taken; a worker that stopped renewing is", async () => {
      const q = await queue();
      await put(q, "a");
      const [a] = await take(q, 1, 1);
      assert.deepEqual(await backend.renew(q, [receiptOf(a!)], 3_600_000), ["done"]);
      assert.deepEqual(await backend.recover(q), []);
      await backend.renew(q, [receiptOf(a!)], 1);
      await until(async () => (await backend.recover(q)).length === 1);
      assert.deepEqual(await backend.ack(q, [receiptOf(a!)]), ["stale"]);
    });

    test("an id that is still pending is replaced, at the back", async () => {
      const q = await queue();
      await backend.enqueue(q, [{ id: "x", data: bytes("old") }]);
      await put(q, "b");
      assert.deepEqual(await backend.enqueue(q, [{ id: "x", data: bytes("new") }]), ["x"]);
      assert.deepEqual(await backend.status(q), { pending: 2, processing: 0 });
      assert.deepEqual(await order(q), ["b", "new"]);
    });

    test("an enqueue between dequeue and ack survives the ack", async () => {
      const q = await queue();
      await backend.enqueue(q, [{ id: "x", data: bytes("same") }]);
      const [old] = await take(q);
      await backend.enqueue(q, [{ id: "x", data: bytes("same") }]);
      assert.deepEqual(await backend.status(q), { pending: 1, processing: 1 });
      await put(q, "b");
      // The newer one waits; the one behind it doesn't.
      assert.deepEqual((await take(q)).map(text), ["b"]);
      assert.deepEqual(await take(q), []);
      assert.equal(await backend.peek(q), null);
      assert.deepEqual(
        (await backend.messages(q)).map((each) => `${each.state} ${text(each)}`),
        ["processing same", "processing b", "pending same"],
      );
      assert.deepEqual(await backend.ack(q, [receiptOf(old!)]), ["done"]);
      const [newer] = await take(q);
      assert.equal(newer!.id, "x");
      assert.deepEqual(await backend.ack(q, [receiptOf(old!)]), ["stale"]);
      assert.deepEqual(await backend.ack(q, [receiptOf(newer!)]), ["done"]);
    });

    test("where a newer generation is pending, the returned one is superseded", async () => {
      const q = await queue();
      for (const how of ["requeue", "release", "recover", "fail"]) {
        await backend.enqueue(q, [{ id: "x", data: bytes("old") }]);
        const [old] = await take(q, 1, 1, callerOwner("x"));
        await backend.enqueue(q, [{ id: "x", data: bytes("newer") }]);
        await backend.enqueue(q, [{ id: "x", data: bytes("newest") }]);
        assert.deepEqual(await backend.status(q), { pending: 1, processing: 1 }, how);
        if (how === "recover") {
          await until(async () => (await backend.recover(q))[0]?.outcome === "superseded");
        } else if (how === "fail") {
          assert.deepEqual(await backend.fail(q, [receiptOf(old!)], "bad"), ["done"]);
          assert.equal(text(await backend.failed.show(q, "x")), "old");
        } else {
          const options = { counted: how === "requeue" };
          assert.deepEqual(await backend.requeue(q, [receiptOf(old!)], options), ["superseded"]);
        }
        assert.deepEqual(await backend.status(q), { pending: 1, processing: 0 }, how);
        assert.deepEqual(await order(q), ["newest"], how);
      }
    });

    test("dead letters are listed, shown, retried and pruned", async () => {
      const q = await queue();
      await put(q, "a", "b");
      const [a, b] = await take(q, 2);
      const reason = "it said: \u001b[31mno\u0000 \u{1f600}";
      assert.deepEqual(await backend.fail(q, [receiptOf(a!), receiptOf(b!)], reason), [
        "done",
        "done",
      ]);
      assert.equal(await backend.complete([q]), true);
      const letters = await backend.failed.list(q);
      assert.deepEqual(letters.map(text), ["a", "b"]);
      assert.deepEqual(letters.map((letter) => letter.reason), [reason, reason]);
      assert.deepEqual(letters.map(({ attempts }) => attempts), [1, 1]);
      assert.equal((await backend.failed.list(q, 1)).length, 1);
      assert.equal(text(await backend.failed.show(q, letters[1]!.failedId)), "b");
      await fails("message-not-found", () => backend.failed.show(q, "nothing"));
      await fails("message-not-found", () => backend.failed.retry(q, ["nothing"]));
      assert.deepEqual(await backend.failed.retry(q, [letters[0]!.failedId]), [a!.id]);
      const [again] = await take(q);
      assert.equal(text(again), "a");
      assert.equal(again!.attempts, 0);
      assert.equal(await backend.failed.prune(q, { failedIds: ["nothing"] }), 0);
      assert.equal(await backend.failed.prune(q, { before: 1 }), 0);
      assert.equal(await backend.failed.prune(q), 1);
      assert.deepEqual(await backend.failed.list(q), []);
    });

    test("an id that fails twice is two dead letters; retrying never replaces a pending one", async () => {
      const q = await queue();
      for (const data of ["one", "two"]) {
        await backend.enqueue(q, [{ id: "x", data: bytes(data) }]);
        await backend.fail(q, (await take(q)).map(receiptOf), data);
      }
      const names = (await backend.failed.list(q)).map(({ failedId }) => failedId);
      assert.equal(new Set(names).size, 2);
      await fails("already-exists", () => backend.failed.retry(q, names));
      assert.equal((await backend.failed.list(q)).length, 2);
      await backend.failed.retry(q, [names[0]!]);
      await fails("already-exists", () => backend.failed.retry(q, [names[1]!]));
      assert.deepEqual(await order(q), ["one"]);
      await backend.failed.retry(q, [names[1]!]);
      assert.deepEqual(await order(q), ["two"]);
    });

    test("a dead letter isn't retried past a newer message of its id that is out", async () => {
      const q = await queue();
      await backend.enqueue(q, [{ id: "kept", data: bytes("old") }, {
        id: "beside",
        data: bytes("beside"),
      }]);
      await backend.fail(q, (await take(q, 2)).map(receiptOf), "no");
      await backend.enqueue(q, [{ id: "kept", data: bytes("new") }]);
      const [held] = await take(q);
      const refused = () =>
        assert.rejects(backend.failed.retry(q, ["beside", "kept"]), (error: AgentqError) => {
          assert.equal(error.code, "already-exists");
          assert.match(error.message, /"kept" can't be retried: .* being processed in /);
          assert.deepEqual([error.details?.failedId, error.details?.state], ["kept", "processing"]);
          return true;
        });
      await refused();
      // All or none.
      assert.equal((await backend.failed.list(q)).length, 2);
      assert.deepEqual(await backend.status(q), { pending: 0, processing: 1 });
      // Given back it is there again, and the dead letter didn't take its place.
      assert.deepEqual(await backend.requeue(q, [receiptOf(held!)]), ["done"]);
      await fails("already-exists", () => backend.failed.retry(q, ["kept"]));
      const [again] = await take(q);
      assert.equal(text(again), "new");
      await refused();
      // A newer one that waits beside the one that is out.
      await backend.enqueue(q, [{ id: "kept", data: bytes("newest") }]);
      await fails("already-exists", () => backend.failed.retry(q, ["kept"]));
      await backend.ack(q, [receiptOf(again!)]);
      assert.deepEqual(await order(q), ["newest"]);
      assert.deepEqual(await backend.failed.retry(q, ["beside", "kept"]), ["beside", "kept"]);
      assert.deepEqual(await order(q), ["beside", "old"]);
    });

    test("clear removes everything, in processing too; its acks are stale afterwards", async () => {
      const q = await queue();
      await backend.enqueue(q, [{ id: "x", data: bytes("a") }]);
      await put(q, "b", "c");
      const [held] = await take(q);
      assert.equal(await backend.clear(q), 3);
      assert.equal(await backend.complete([q]), true);
      assert.equal(await backend.clear(q), 0);
      assert.deepEqual(await backend.ack(q, [receiptOf(held!)]), ["stale"]);
      assert.deepEqual(await backend.requeue(q, [receiptOf(held!)]), ["stale"]);
      await backend.enqueue(q, [{ id: "x", data: bytes("again") }]);
      const [fresh] = await take(q);
      assert.deepEqual(await backend.ack(q, [receiptOf(held!)]), ["stale"]);
      assert.deepEqual(await backend.status(q), { pending: 0, processing: 1 });
      assert.deepEqual(await backend.ack(q, [receiptOf(fresh!)]), ["done"]);
    });

    test("bytes stay as they are: empty, binary, invalid UTF-8, marks, escapes", async () => {
      const q = await queue();
      const samples = [
        Buffer.alloc(0),
        Buffer.from([0]),
        Buffer.from(Array.from({ length: 256 }, (_, i) => i)),
        Buffer.from([0xff, 0xfe, 0x00]),
        Buffer.from("\ufeffwith a mark", "utf8"),
        Buffer.from([0xed, 0xa0, 0x80]), // A lone surrogate as nobody may encode it.
        Buffer.from('{"json":"\\ud800","n":1.0}\n', "utf8"),
        Buffer.from("\u0000 \u001b[2J \u2028 \u{10ffff}", "utf8"),
      ];
      for (const data of samples) {
        await backend.enqueue(q, [{ data }]);
        assert.deepEqual(Buffer.from((await backend.peek(q))!.data), data);
        const [out] = await take(q);
        assert.deepEqual(Buffer.from(out!.data), data);
        await backend.fail(q, [receiptOf(out!)], "to look at");
        const [letter] = await backend.failed.list(q);
        assert.deepEqual(Buffer.from(letter!.data!), data);
        await backend.failed.prune(q);
      }
    });

    test("any bytes come out as they went in", async () => {
      const q = await queue();
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.uint8Array({ maxLength: 64 }), { maxLength: 5 }),
          async (all) => {
            await backend.enqueue(q, all.map((data) => ({ data })));
            const out = await take(q, 10);
            assert.deepEqual(out.map(({ data }) => [...data]), all.map((data) => [...data]));
            await backend.ack(q, out.map(receiptOf));
          },
        ),
        { numRuns: 20 },
      );
    });

    test("a caller's buffer may be used again after the call", async () => {
      const q = await queue();
      const data = Buffer.from("original");
      await backend.enqueue(q, [{ data }]);
      data.fill(0);
      const [out] = await take(q);
      assert.equal(text(out), "original");
      out!.data.fill(0);
      await backend.requeue(q, [receiptOf(out!)]);
      assert.equal(text((await take(q))[0]), "original");
    });

    test("16 MiB of text pass", { timeout: 60_000 }, async () => {
      const q = await queue();
      const data = Buffer.alloc(16 * 1024 * 1024 - 2, "agentq ");
      await backend.enqueue(q, [{ data }]);
      const [out] = await take(q);
      assert.equal(Buffer.compare(data, out!.data), 0);
      await backend.ack(q, [receiptOf(out!)]);
    });

    test("4 MiB that aren't text pass", { timeout: 60_000 }, async () => {
      const q = await queue();
      const data = Buffer.alloc(4 * 1024 * 1024, Buffer.from([0x00, 0xff, 0xc3, 0x28, 0x7f]));
      await backend.enqueue(q, [{ data }]);
      const [out] = await take(q);
      assert.equal(Buffer.compare(data, out!.data), 0);
      await backend.ack(q, [receiptOf(out!)]);
    });

    test("queues are created, listed and removed as trees", async () => {
      assert.equal(await backend.create("tree"), true);
      assert.equal(await backend.create("tree"), false);
      assert.equal(await backend.create("tree/a/b"), true);
      assert.equal(await backend.create("treehouse"), true);
      await backend.enqueue("tree/a/b", [{ data: bytes("x") }, { data: bytes("y") }]);
      await take("tree/a/b");
      assert.deepEqual(await backend.list("tree"), ["tree", "tree/a/b"]);
      assert.ok((await backend.list()).includes("treehouse"));
      assert.deepEqual(await backend.remove("tree"), ["tree", "tree/a/b"]);
      assert.deepEqual(await backend.list("tree"), []);
      assert.deepEqual(await backend.list("treehouse"), ["treehouse"]);
      await fails("queue-not-found", () => backend.remove("tree"));
      assert.equal(await backend.create("tree/a/b"), true);
      assert.deepEqual(await backend.status("tree/a/b"), { pending: 0, processing: 0 });
      assert.deepEqual(await backend.failed.list("tree/a/b"), []);
    });

    test("a queue that isn't there is said to be missing, by every call", async () => {
      const q = "missing";
      const receipt = [{ id: "x", lease: "1" }];
      const calls: Record<string, () => Promise<unknown>> = {
        enqueue: () => backend.enqueue(q, [{ data: bytes("x") }]),
        enqueueGiven: () => backend.enqueue(q, [{ id: "x", data: bytes("x") }]),
        dequeue: () => take(q),
        ack: () => backend.ack(q, receipt),
        requeue: () => backend.requeue(q, receipt),
        fail: () => backend.fail(q, receipt, "x"),
        renew: () => backend.renew(q, receipt, 1),
        settleAndDequeue: () => turn(q, [], 1),
        settleAndDequeueNone: () => turn(q, [], 0),
        settleAndDequeueAck: () => turn(q, [{ how: "ack", receipt: receipt[0]! }], 0),
        settleAndDequeueAny: () => turn(q, [{ how: "requeue", receipt: receipt[0]! }], 1),
        peek: () => backend.peek(q),
        status: () => backend.status(q),
        statuses: () => backend.statuses([q]),
        complete: () => backend.complete([q]),
        messages: () => backend.messages(q),
        clear: () => backend.clear(q),
        recover: () => backend.recover(q),
        failedList: () => backend.failed.list(q),
        failedShow: () => backend.failed.show(q, "x"),
        failedRetry: () => backend.failed.retry(q, ["x"]),
        failedPrune: () => backend.failed.prune(q),
      };
      for (const [name, call] of Object.entries(calls)) {
        await assert.rejects(call, (error: { code?: string }) => {
          assert.equal(error.code, "queue-not-found", `${name}: ${error}`);
          return true;
        });
      }
      assert.deepEqual(await backend.list(q), []);
    });

    test("hostile names and ids are refused before anything happens", async () => {
      const q = await queue();
      const names = [
        "",
        "/",
        "a/",
        "/a",
        "a//b",
        ".",
        "..",
        "../x",
        "a/../b",
        ".hidden",
        "a b",
        "a\0b",
        "a\nb",
        "a|b",
        "a:b",
        "{a}",
        "a*",
        "ä",
        "\u202e",
        "x".repeat(101),
        "a/b/c/d/e/f/g/h/i",
        "jobs/enqueue",
        "dequeue",
        "a/status",
        "a/ack",
        "%2e%2e",
        "a\\b",
        "a'--",
        "__proto__\0",
      ];
      for (const name of names) {
        await fails("queue-name-invalid", () => backend.create(name));
        await fails("queue-name-invalid", () => backend.enqueue(name, [{ data: bytes("x") }]));
        await fails("queue-name-invalid", () => backend.remove(name));
      }
      for (const id of ["", ".", "..", "a/b", "a|b", "a\0", "x".repeat(101), "é", " "]) {
        await fails("message-id-invalid", () => backend.enqueue(q, [{ id, data: bytes("x") }]));
        await fails(
          "message-id-invalid",
          () => backend.enqueue(q, [{ data: bytes("first") }, { id, data: bytes("x") }]),
        );
      }
      assert.deepEqual(await backend.status(q), { pending: 0, processing: 0 });
      // Names that other languages give a meaning are names like any other.
      for (const name of ["constructor", "__proto__", "names", "instance", "enqueue/deep", "0"]) {
        await backend.create(name);
        await backend.enqueue(name, [{ id: "__proto__", data: bytes(name) }]);
        assert.deepEqual((await take(name)).map(text), [name]);
        await backend.remove(name);
      }
    });

    test("many queues are read in one snapshot", async () => {
      const [a, b] = [await queue(), await queue()];
      await put(a, "1", "2");
      await put(b, "3");
      await take(a);
      const both = await backend.statuses([a, b]);
      assert.deepEqual(both.get(a), { pending: 1, processing: 1 });
      assert.deepEqual(both.get(b), { pending: 1, processing: 0 });
      const all = await backend.statuses();
      assert.deepEqual([...all.keys()], await backend.list());
      assert.deepEqual(all.get(a), { pending: 1, processing: 1 });
      assert.equal(await backend.complete([a, b]), false);
      assert.equal(await backend.complete([]), true);
      assert.deepEqual(await backend.statuses([]), new Map());
    });

    test("what happens in the middle doesn't matter", { timeout: 60_000 }, async () => {
      if (!setup.upheaval) return;
      const q = await queue();
      await put(q, "a", "b", "c");
      const [a] = await take(q);
      await setup.upheaval();
      assert.deepEqual(await backend.status(q), { pending: 2, processing: 1 });
      assert.deepEqual(await backend.ack(q, [receiptOf(a!)]), ["done"]);
      assert.deepEqual(await order(q), ["b", "c"]);
    });

    test("any sequence of calls leaves what a simple model says", async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
          const q = await queue();
          const model = { pending: [] as string[], out: new Map<string, Delivery>() };
          let n = 0;
          for (const [kind, pick] of steps) {
            const held = [...model.out.values()];
            const one = held[pick % Math.max(1, held.length)];
            if (kind === "enqueue") {
              const name = `m${n++}`;
              await put(q, name);
              model.pending.push(name);
            } else if (kind === "dequeue") {
              const taken = await take(q, 1 + pick % 3);
              assert.deepEqual(taken.map(text), model.pending.splice(0, 1 + pick % 3));
              for (const each of taken) model.out.set(text(each)!, each);
            } else if (one) {
              const name = text(one)!;
              model.out.delete(name);
              if (kind === "turn") {
                const { deliveries } = await turn(q, [ack(one)], pick % 3);
                assert.deepEqual(deliveries.map(text), model.pending.splice(0, pick % 3));
                for (const each of deliveries) model.out.set(text(each)!, each);
              }
              if (kind === "ack") await backend.ack(q, [receiptOf(one)]);
              if (kind === "fail") await backend.fail(q, [receiptOf(one)], "x");
              if (kind === "requeue") {
                await backend.requeue(q, [receiptOf(one)]);
                model.pending.push(name);
              }
            }
            assert.deepEqual(await backend.status(q), {
              pending: model.pending.length,
              processing: model.out.size,
            });
          }
          assert.deepEqual(await order(q), model.pending);
          await backend.remove(q);
        }),
        { numRuns: 15 },
      );
    });
  });
}

const step = fc.tuple(
  fc.constantFrom("enqueue", "enqueue", "dequeue", "turn", "ack", "requeue", "fail"),
  fc.nat(10),
);
