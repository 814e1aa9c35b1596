import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { describe, test } from "node:test";
import fc from "fast-check";
import { AgentqError, isAgentqError } from "../../src/errors.ts";
import type { Oid } from "../../src/git/types.ts";
import { createChainReader, type TicketEntry } from "../../src/landing/chain.ts";
import { chainCommit, withCommits } from "../../src/landing/chain-commit.ts";
import { enqueue } from "../../src/landing/enqueue.ts";
import { boundedList, MAX_REPORT_BYTES, reportTail } from "../../src/landing/messages.ts";
import { assertNoCollision, queueNames } from "../../src/landing/names.ts";
import { jumpTowards, nextSkipList } from "../../src/landing/skip.ts";
import { readAhead } from "../../src/landing/read-ahead.ts";
import { openQueue, readSnapshot } from "../../src/landing/snapshot.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { createFakeOrigin, fakeCommit, type FakeOrigin } from "./fake-origin.ts";

const corrupt = (error: unknown) => isAgentqError(error, "corrupt-chain");

/** Appends `count` tickets straight to the origin; `ours` says which carry our extra object. */
function appendTickets(
  fake: FakeOrigin,
  count: number,
  ours: (n: number) => boolean,
): { candidate: Oid; head: Oid } {
  const candidate = fakeCommit(fake, [], "candidate");
  const put = (parents: readonly Oid[], message: Parameters<typeof chainCommit>[1]) => {
    const { oid, content } = chainCommit(parents, message, 1000);
    fake.objects.set(oid, { type: "commit", data: content });
    return oid;
  };
  let head = put([], { kind: "genesis", chain: "queue" });
  let list: [number, Oid][] | undefined;
  let before: Oid | null = null;
  for (let n = 0; n < count; n++) {
    const skip: [number, Oid][] | undefined = before === null
      ? undefined
      : nextSkipList(n - 1, before, list);
    list = ours(n) ? skip : undefined;
    head = put([head, candidate], {
      kind: "ticket",
      ticket: n,
      candidate,
      submitter: `s-${n}`,
      verify_cmd: null,
      verify_timeout: 1,
      check: null,
      checkers: null,
      ...(ours(n) && {
        agentq: { v: 1, submission: `sub-${n}`, submittedAt: n, ...(skip && { skip }) },
      }),
    });
    before = head;
  }
  fake.refs.set("refs/weave/main/queue", head);
  return { candidate, head };
}

/** Counts the commits that are read. */
function counting(fake: FakeOrigin): { reads: number } {
  const count = { reads: 0 };
  fake.interference = {
    step: async (operation) => {
      if (operation === "read") count.reads++;
    },
  };
  return count;
}

async function headOf(fake: FakeOrigin, head: Oid) {
  const chains = createChainReader(fake.as("reader"));
  const [entry] = await chains.read("queue", [head]);
  return { chains, entry: entry as TicketEntry };
}

describe("a corrupt entry is described in words", () => {
  const id = "1".repeat(40);
  const ticket = { kind: "ticket", ticket: 0, candidate: id, submitter: "s", verify_cmd: null };
  const result = {
    kind: "result",
    ticket: 0,
    candidate: id,
    submitter: "s",
    lander: "l",
    tip: id,
    landed: null,
    reason: "cancelled",
  };
  const parent = "2".repeat(40);
  const cases: [
    what: string,
    chain: "queue" | "done",
    message: object,
    parents: string[],
    said: string,
  ][] = [
    ["no candidate", "queue", ticket, [parent], `candidate ${id} and has no second parent`],
    ["another candidate", "queue", ticket, [parent, parent], `has the second parent ${parent}`],
    ["nothing landed, a parent", "done", result, [parent, id], "says that nothing was landed"],
    [
      "landed, and no parent",
      "done",
      { ...result, landed: id, reason: "landed" },
      [parent],
      `says that ${id} was landed and has no second parent`,
    ],
    [
      "a reason of its own",
      "done",
      { ...result, reason: "landed" },
      [parent],
      'gives the reason "landed" and landed nothing',
    ],
    [
      "a field missing",
      "queue",
      { ...ticket, ticket: undefined },
      [parent, id],
      '"ticket" is missing',
    ],
    ["a field null", "queue", { ...ticket, submitter: null }, [parent, id], '"submitter" is null'],
    [
      "an id that is none",
      "queue",
      { ...ticket, candidate: "x" },
      [parent, id],
      '"candidate" is "x", which is not an object id',
    ],
    ["another kind", "queue", result, [parent, id], '"kind" is "result"'],
    ["a list", "queue", [[[]]], [parent, id], "it is a list"],
    ["an object", "queue", { ...ticket, submitter: {} }, [parent, id], '"submitter" is an object'],
    [
      "a long text",
      "queue",
      { ...ticket, kind: "k".repeat(5000) },
      [parent, id],
      `"kind" is "${"k".repeat(80)}"…`,
    ],
    [
      "another chain's genesis",
      "done",
      { kind: "genesis", chain: "queue" },
      [],
      'genesis of "queue"',
    ],
  ];
  for (const [what, chain, message, parents, said] of cases) {
    test(what, async () => {
      const fake = createFakeOrigin();
      const { oid, content } = chainCommit(parents, message as never, 1);
      fake.objects.set(oid, { type: "commit", data: content });
      await assert.rejects(
        createChainReader(fake.as("reader")).read(chain, [oid]),
        (error: unknown) => {
          assert.ok(corrupt(error));
          const text = (error as Error).message;
          assert.ok(text.includes(said), text);
          assert.ok(text.includes(oid), text);
          assert.doesNotMatch(text, /undefined|Invalid input|\[object/);
          return true;
        },
      );
    });
  }
});

describe("skip lists", () => {
  test("lead from any entry to any older one, by strictly nearer steps", () => {
    fc.assert(fc.property(fc.integer({ min: 1, max: 3000 }), fc.nat(), (length, pick) => {
      const lists: [number, Oid][][] = [[]];
      for (let n = 1; n < length; n++) lists.push(nextSkipList(n - 1, `${n - 1}`, lists[n - 1]));
      const wanted = pick % length;
      let at = length - 1;
      let steps = 0;
      while (at > wanted) {
        const jump = jumpTowards(lists[at], at, wanted);
        at = jump ? jump.number : at - 1;
        steps++;
      }
      assert.equal(at, wanted);
      const digits = Math.max(1, Math.ceil(Math.log2(length) / 3));
      assert.ok(steps <= digits + 1, `${steps} steps through ${length}`);
      assert.ok(lists[length - 1]!.length <= 7 * digits + 2);
    }));
  });

  test("a ticket is found in few reads behind 20,000, and by walking where others wrote", async () => {
    const fake = createFakeOrigin();
    const { head } = appendTickets(fake, 20_000, (n) => n < 9_000 || n >= 9_040);
    const count = counting(fake);
    const { chains, entry } = await headOf(fake, head);
    assert.equal((await chains.find("queue", entry, 19_990)).message.submitter, "s-19990");
    assert.ok(count.reads <= 6, `${count.reads} reads`);
    // Over the forty that another client wrote, one by one.
    assert.equal((await chains.find("queue", entry, 17)).message.submitter, "s-17");
    assert.ok(count.reads < 80, `${count.reads} reads`);
  });

  test("a list that is none is not carried on", () => {
    assert.deepEqual(nextSkipList(9, "head", [[8, "a"], [8, "b"], [7, "c"]]), [[9, "head"], [
      8,
      "a",
    ]]);
    assert.deepEqual(nextSkipList(9, "head", [[9, "itself"], [8, "a"]]), [[9, "head"]]);
    const long = Array.from({ length: 500 }, (_, i): [number, Oid] => [0 - i, "x"]);
    assert.ok(nextSkipList(9, "head", long).length <= 128);
  });

  test("a list that names the wrong commit is not believed", async () => {
    const fake = createFakeOrigin();
    const { head, candidate } = appendTickets(fake, 10, () => true);
    const { oid, content } = chainCommit([head, candidate], {
      kind: "ticket",
      ticket: 10,
      candidate,
      submitter: "evil",
      agentq: { v: 1, submission: "x", submittedAt: 1, skip: [[3, head]] },
    }, 1);
    fake.objects.set(oid, { type: "commit", data: content });
    const { chains, entry } = await headOf(fake, oid);
    await assert.rejects(chains.find("queue", entry, 3), corrupt);
  });
});

describe("enqueue", () => {
  test("costs the same reads behind 10 and behind 10,000 tickets", async () => {
    const reads = [];
    for (const length of [10, 10_000]) {
      const fake = createFakeOrigin();
      const { candidate } = appendTickets(fake, length, () => true);
      const count = counting(fake);
      const { queue, snapshot } = await openQueue(fake.as("me"), {
        namespace: "refs/weave",
        branch: "main",
      });
      const ticket = await enqueue(queue, snapshot, {
        candidate,
        submitter: "me",
        verifyCmd: null,
        verifyTimeout: 1,
        submission: "mine",
        submittedAt: 1,
        title: null,
        drops: [],
      }, { clock: systemClock, objects: fake.reader() });
      assert.equal(ticket.message.ticket, length);
      assert.ok(ticket.message.agentq?.skip);
      reads.push(count.reads);
    }
    assert.equal(reads[0], reads[1]);
  });
});

describe("reading", () => {
  test("a chain is followed to its genesis and no further", async () => {
    const fake = createFakeOrigin();
    const { head } = appendTickets(fake, 3, () => false);
    const { chains, entry } = await headOf(fake, head);
    const seen = [];
    for (let at: TicketEntry | null = entry; at; at = await chains.before("queue", at)) {
      seen.push(at.message.ticket);
    }
    assert.deepEqual(seen, [2, 1, 0]);
  });

  test("results beyond the queue, read twice the same, are a corrupt chain", async () => {
    const fake = createFakeOrigin();
    const { candidate } = appendTickets(fake, 1, () => true);
    const genesis = chainCommit([], { kind: "genesis", chain: "done" }, 1);
    const result = chainCommit([genesis.oid], {
      kind: "result",
      ticket: 0,
      candidate,
      submitter: "s",
      lander: "l",
      tip: candidate,
      landed: null,
      reason: "merge refused",
    }, 1);
    for (const { oid, content } of [genesis, result]) {
      fake.objects.set(oid, { type: "commit", data: content });
    }
    const { queue } = await openQueue(fake.as("me"), { namespace: "refs/weave", branch: "main" });
    fake.refs.set("refs/weave/main/done", result.oid);
    assert.equal((await readSnapshot(queue)).unacked, 0);
    fake.refs.delete("refs/weave/main/queue");
    await assert.rejects(readSnapshot(queue), corrupt);
  });

  test("a newer format is refused by name, not taken for damage", async () => {
    const fake = createFakeOrigin();
    const { oid, content } = chainCommit([], {
      kind: "lock",
      holder: null,
      by: "x",
      at: 1,
      agentq: { v: 2 } as never,
    }, 1);
    fake.objects.set(oid, { type: "commit", data: content });
    fake.refs.set("refs/weave/main/lock", oid);
    await assert.rejects(
      openQueue(fake.as("me"), { namespace: "refs/weave", branch: "main" }),
      (error) => isAgentqError(error, "chain-unsupported"),
    );
  });

  test("the branch is the origin's HEAD unless named", async () => {
    const fake = createFakeOrigin();
    const guessed = await openQueue(fake.as("me"), {
      namespace: "refs/weave",
      branch: null,
      guess: "old-default",
    });
    assert.equal(guessed.queue.names.branchName, "main");
  });
});

describe("names", () => {
  test("another branch's chains are never taken for one's own", () => {
    const taken = (ref: string) => new Map([[ref, "1".repeat(40)]]);
    const collides = (branch: string, ref: string) =>
      assert.throws(
        () => assertNoCollision(queueNames("refs/weave", branch), taken(ref)),
        (error) => isAgentqError(error, "branch-name-collision"),
      );
    collides("main/queue", "refs/weave/main/queue");
    collides("main", "refs/weave/main/queue/lock");
    collides("a/lock/b", "refs/weave/a/lock");
    collides("a/lock/b", "refs/heads/a");
    assertNoCollision(queueNames("refs/weave", "main"), taken("refs/weave/main/lock"));
    assertNoCollision(queueNames("refs/weave", "main"), taken("refs/weave/maintenance/queue"));
    assert.ok(queueNames("refs/weave", "a/lock/b").prefixes.includes("refs/weave/a/lock"));
    assert.throws(() => queueNames("refs/heads", "main"), AgentqError);
    assert.throws(() => queueNames("weave", "main"), AgentqError);
    assert.throws(() => queueNames("refs/weave", "a..b"), AgentqError);
    assert.throws(() => queueNames("refs/weave", "HEAD"), AgentqError);
    assert.throws(() => queueNames("refs/weave", "refs/heads/main"), AgentqError);
  });

  test("a misspelt branch can't block the queue of one that exists", async () => {
    const fake = createFakeOrigin();
    fake.refs.set("refs/heads/main", fakeCommit(fake, [], "base"));
    for (const branch of ["main/queue", "main/lock/x"]) {
      await assert.rejects(
        openQueue(fake.as("me"), { namespace: "refs/weave", branch }),
        (error) => isAgentqError(error, "branch-name-collision"),
      );
    }
  });
});

describe("bounds", () => {
  test("a report keeps its last lines within its bytes", () => {
    assert.equal(reportTail("a\nb\n\n"), "a\nb");
    assert.equal(
      reportTail(Array.from({ length: 500 }, (_, i) => i).join("\n")).split("\n")[0],
      "300",
    );
    const huge = reportTail("é".repeat(MAX_REPORT_BYTES));
    assert.ok(Buffer.byteLength(huge) <= MAX_REPORT_BYTES);
  });

  test("a list that is too long says how much is missing", () => {
    const list = Array.from({ length: 10_000 }, (_, i) => `path/${i}`);
    const kept = boundedList(list);
    assert.match(kept.at(-1)!, /^… and \d+ more$/);
    assert.equal(kept.length - 1 + Number(/\d+/.exec(kept.at(-1)!)![0]), list.length);
  });

  test("a reader of new commits has the empty tree and nothing that nobody holds", () => {
    const reader = withCommits([]);
    assert.equal(reader.read("4b825dc642cb6eb9a060e54bf8d69288fbee4904").data.length, 0);
    assert.throws(() => reader.read("1".repeat(40)), (e) => isAgentqError(e, "object-missing"));
  });
});

describe("readAhead()", () => {
  const stretchRead = async (ours: (n: number) => boolean) => {
    const fake = createFakeOrigin();
    const { head } = appendTickets(fake, 1000, ours);
    const origin = fake.as("me");
    let rounds = 0;
    const read = origin.readCommits.bind(origin);
    const chains = createChainReader(Object.assign(Object.create(origin), {
      objects: () => null,
      readCommits: (oids: readonly Oid[]) => {
        rounds++;
        return read(oids);
      },
    }));
    const [newest] = await chains.read("queue", [head]);
    const top = await chains.find("queue", newest!, 599);
    rounds = 0;
    await readAhead(chains, "queue", top, 500);
    const ahead = rounds;
    let at: TicketEntry | null = top;
    const numbers: number[] = [];
    for (; at !== null && at.message.ticket >= 500; at = await chains.before("queue", at)) {
      numbers.unshift(at.message.ticket);
    }
    assert.deepEqual(numbers, Array.from({ length: 100 }, (_, i) => 500 + i));
    return { ahead, walked: rounds - ahead };
  };

  test("reads a stretch of our tickets in a few rounds, after which the walk asks for one more at most", async () => {
    const { ahead, walked } = await stretchRead(() => true);
    assert.ok(ahead <= 14, String(ahead));
    assert.ok(walked <= 1, String(walked));
  });

  test("leaves another client's tickets to the walk", async () => {
    await stretchRead(() => false);
    await stretchRead((n) => n % 7 !== 3);
  });
});
