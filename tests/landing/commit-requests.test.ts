/** Round trips of walks along the chains. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Oid, Origin } from "../../src/git/types.ts";
import { type Along, createAlong } from "../../src/landing/along.ts";
import { chainCommit } from "../../src/landing/chain-commit.ts";
import { createChainReader } from "../../src/landing/chain.ts";
import { commitRequests } from "../../src/landing/commit-requests.ts";
import { createFakeOrigin } from "./fake-origin.ts";

/** An origin of which only requests for commits are seen. */
function counted(answer: (oids: readonly Oid[], generations: number) => Map<Oid, Uint8Array>) {
  const rounds: { oids: readonly Oid[]; generations: number }[] = [];
  const origin = {
    objects: () => null,
    readCommits: async (oids: readonly Oid[], _signal?: AbortSignal, generations = 1) => {
      rounds.push({ oids, generations });
      return await Promise.resolve(answer(oids, generations));
    },
  };
  return { origin: origin as unknown as Origin, rounds };
}

describe("requests for commits", () => {
  test("those of one turn go together, those of another signal don't", async () => {
    const { origin, rounds } = counted((oids) =>
      new Map(oids.map((oid) => [oid, new Uint8Array()]))
    );
    const request = commitRequests(origin);
    const { signal } = new AbortController();
    const answers = await Promise.all([
      request(["a"], 1, signal),
      request(["b", "a"], 2, signal),
      request(["c"], 1),
    ]);
    assert.deepEqual(answers.map((found) => [...found.keys()]), [["a", "b"], ["a", "b"], ["c"]]);
    assert.deepEqual(rounds, [
      { oids: ["a", "b"], generations: 2 },
      { oids: ["c"], generations: 1 },
    ]);
    await request(["d"], 1, signal);
    assert.equal(rounds.length, 3);
  });

  test("one that fails is everybody's, and the next is made anew", async () => {
    let broken = true;
    const { origin } = counted((oids) => {
      if (broken) throw new Error("cut off");
      return new Map(oids.map((oid) => [oid, new Uint8Array()]));
    });
    const request = commitRequests(origin);
    const both = await Promise.allSettled([request(["a"], 1), request(["b"], 1)]);
    assert.deepEqual(both.map(({ status }) => status), ["rejected", "rejected"]);
    broken = false;
    assert.equal((await request(["a"], 1)).size, 1);
  });

  test("heads come with the entries before them, and two walks step together", async () => {
    const fake = createFakeOrigin();
    const parentOf = new Map<Oid, Oid>();
    const chain = (name: "queue" | "done"): Oid => {
      const put = (parents: readonly Oid[], message: Parameters<typeof chainCommit>[1]) => {
        const { oid, content } = chainCommit(parents, message, 1000);
        fake.objects.set(oid, { type: "commit", data: content });
        if (parents[0]) parentOf.set(oid, parents[0]);
        return oid;
      };
      let head = put([], { kind: "genesis", chain: name });
      for (let ticket = 0; ticket < 5; ticket++) {
        const common = { ticket, candidate: "1".repeat(40), submitter: "another" };
        head = name === "queue"
          ? put([head, common.candidate], {
            kind: "ticket",
            ...common,
            verify_cmd: null,
            verify_timeout: 1800,
            check: null,
            checkers: null,
          })
          : put([head], {
            kind: "result",
            ...common,
            lander: "another",
            tip: "2".repeat(40),
            landed: null,
            reason: "cancelled",
            files: [],
            regions: [],
            report: "",
          });
      }
      return head;
    };
    const heads = { queue: chain("queue"), done: chain("done") };
    const { origin, rounds } = counted((oids, generations) => {
      const found = new Map<Oid, Uint8Array>();
      for (const oid of oids) {
        found.set(oid, fake.objects.get(oid)!.data);
        const before = generations > 1 ? parentOf.get(oid) : undefined;
        if (before) found.set(before, fake.objects.get(before)!.data);
      }
      return found;
    });
    const chains = createChainReader(origin);
    const { queue, done } = await chains.readHeads(heads);
    await Promise.all([chains.before("queue", queue!), chains.before("done", done!)]);
    assert.equal(rounds.length, 1);
    const found = await Promise.all([
      chains.find("queue", queue!, 0),
      chains.find("done", done!, 0),
    ]);
    assert.deepEqual(found.map((entry) => entry.message.ticket), [0, 0]);
    // Tickets 2, 1 and 0 of both, two of each chain in a round: there are no skip lists here.
    assert.equal(rounds.length, 3);
  });
});

describe("what came along", () => {
  const commitOf = (name: string, parent?: Oid) =>
    chainCommit(parent ? [parent] : [], { kind: "genesis", chain: name as never }, 1);

  test("is kept until it is asked for, along first parents, within bounds", () => {
    const first = commitOf("a");
    const second = commitOf("b", first.oid);
    const third = commitOf("c", second.oid);
    const fourth = commitOf("d", third.oid);
    const all = [first, second, third, fourth];
    const arrived = new Map(all.map(({ oid, content }) => [oid, content]));
    const there = (along: Along) => all.map(({ oid }) => along.take(oid) !== undefined);

    const along = createAlong(10_000);
    along.keepBefore(fourth.oid, arrived, 2);
    along.keepBefore(fourth.oid, arrived, 2);
    assert.deepEqual(there(along), [false, true, true, false]);
    assert.deepEqual(there(along), [false, false, false, false]);
    along.keepBefore(fourth.oid, arrived, 9);
    assert.deepEqual(along.take(first.oid), new Uint8Array(first.content));
    // What is missing in between ends it, and so does what is no commit.
    const gap = createAlong(10_000);
    arrived.set(second.oid, new TextEncoder().encode("tree x"));
    gap.keepBefore(fourth.oid, arrived, 9);
    assert.deepEqual(there(gap), [false, true, true, false]);
    gap.keepBefore("9".repeat(40), arrived, 9);
    const small = createAlong(third.content.length);
    arrived.set(second.oid, second.content);
    small.keepBefore(fourth.oid, arrived, 2);
    assert.deepEqual(there(small), [false, true, false, false]);
  });
});
