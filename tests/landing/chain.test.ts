import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { describe, test } from "node:test";
import fc from "fast-check";
import { AgentqError, isAgentqError } from "../../src/errors.ts";
import { parseCommit } from "../../src/git/commit.ts";
import type { Oid, Origin } from "../../src/git/types.ts";
import { createChainReader, type TicketEntry } from "../../src/landing/chain.ts";
import { chainCommit, withCommits } from "../../src/landing/chain-commit.ts";
import { enqueue } from "../../src/landing/enqueue.ts";
import { boundedList, MAX_REPORT_BYTES, reportTail } from "../../src/landing/messages.ts";
import { assertNoCollision, queueNames } from "../../src/landing/names.ts";
import { type Lists, listsAfter } from "../../src/landing/lists.ts";
import { blockList, blockParts, jumpTowards, nextSkipList } from "../../src/landing/skip.ts";
import { readAhead } from "../../src/landing/read-ahead.ts";
import { openQueue, readSnapshot } from "../../src/landing/snapshot.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { createFakeOrigin, fakeCommit, type FakeOrigin } from "./fake-origin.ts";

const corrupt = (error: unknown) => isAgentqError(error, "corrupt-chain");

/**
 * The lists of one entry after the other, each given with the one before it; those that aren't ours have
 * none. What lists.ts does with a chain, without reading one.
 */
function listsInTurn() {
  let list: Lists["skip"];
  const kept = new Map<Oid, Lists["skip"]>();
  return (n: number, before: Oid | null, ours = true): Lists => {
    if ((n - 1) % 256 === 0 && before !== null) kept.set(before, list);
    const skip = before === null ? undefined : nextSkipList(n - 1, before, list);
    list = ours ? skip : undefined;
    if (!ours || !skip) return {};
    const parts = blockParts(n, skip);
    if (parts.length === 0) return { skip };
    return { skip, block: blockList(n, skip, parts.map((oid) => kept.get(oid))) };
  };
}

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
  const nextLists = listsInTurn();
  let before: Oid | null = null;
  for (let n = 0; n < count; n++) {
    const lists = nextLists(n, before, ours(n));
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
        agentq: { v: 1, submission: `sub-${n}`, submittedAt: n, ...lists },
      }),
    });
    before = head;
  }
  fake.refs.set("refs/weave/main/queue", head);
  return { candidate, head };
}

/** An origin that gives parents along, as servers do that filter; and what it was asked for. */
function withGenerations(fake: FakeOrigin) {
  const origin = fake.as("me");
  const asked: { oids: number; generations: number }[] = [];
  const readCommits: Origin["readCommits"] = (oids, _signal, generations = 1) => {
    asked.push({ oids: oids.length, generations });
    const found = new Map<Oid, Uint8Array>();
    for (let wanted = [...oids], left = generations; left > 0; left--) {
      const parents: Oid[] = [];
      for (const oid of wanted) {
        const object = fake.objects.get(oid);
        if (object?.type !== "commit") continue;
        found.set(oid, object.data);
        parents.push(...parseCommit(object.data, oid).parents);
      }
      wanted = parents;
    }
    return Promise.resolve(found);
  };
  return { origin: { ...origin, readCommits }, asked };
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
  /** Reads it takes from `head` to `wanted`, where the seven before what is read come with it. */
  const reads = (listsOf: (n: number) => Lists, head: number, wanted: number): number => {
    let at = head;
    for (let count = 0;; count++) {
      if (count > 0 && at - wanted < 8) return count;
      const { skip, block } = listsOf(at);
      const jump = jumpTowards([skip, block], at, wanted);
      assert.ok(
        jump !== null && jump.number >= wanted && jump.number < at && jump.oid === `${jump.number}`,
      );
      at = jump.number;
    }
  };

  test("lead from any entry to any older one in two reads, in three where nothing comes along", () => {
    const lists: Lists[] = [];
    const next = listsInTurn();
    for (let n = 0; n < 9000; n++) lists.push(next(n, n === 0 ? null : `${n - 1}`));
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 8999 }), fc.nat(), (head, pick) => {
        const wanted = pick % head;
        assert.ok(reads((n) => lists[n]!, head, wanted) <= 2);
        let steps = 0;
        for (let at = head; at > wanted; steps++) {
          at = jumpTowards([lists[at]!.skip, lists[at]!.block], at, wanted)!.number;
        }
        assert.ok(steps <= 3, `${steps} from ${head} to ${wanted}`);
      }),
      { numRuns: 2000 },
    );
  });

  test("are as long behind 131,072 entries as they may be, which are two reads away; behind more, three", () => {
    const lists = new Map<number, Lists>();
    const next = listsInTurn();
    const ends = [99_999, 131_071, 150_000];
    let [names, most] = [0, 0];
    for (let n = 0; n <= ends.at(-1)!; n++) {
      const one = next(n, n === 0 ? null : `${n - 1}`);
      if (n % 8 === 0 || ends.includes(n)) lists.set(n, one);
      if (n < 100_000 && n >= 90_000) names += one.skip!.length;
      most = Math.max(most, one.skip?.length ?? 0);
      assert.ok((one.block?.length ?? 0) <= 512);
    }
    assert.ok(names / 10_000 < 52, String(names / 10_000));
    assert.ok(most <= 91, String(most));
    for (const [i, head] of ends.entries()) {
      for (let wanted = 0; wanted < head; wanted += 97) {
        const count = reads((n) => lists.get(n)!, head, wanted);
        assert.ok(count <= (i < 2 ? 2 : 3), `${count} from ${head} to ${wanted}`);
      }
    }
  });

  test("a ticket is found in few reads behind 20,000, and by walking where others wrote", async () => {
    const fake = createFakeOrigin();
    const { head } = appendTickets(fake, 20_000, (n) => n < 9_000 || n >= 9_040);
    const count = counting(fake);
    const { chains, entry } = await headOf(fake, head);
    count.reads = 0;
    assert.equal((await chains.find("queue", entry, 19_995)).message.submitter, "s-19995");
    assert.equal(count.reads, 1);
    assert.equal((await chains.find("queue", entry, 9_900)).message.submitter, "s-9900");
    // Its multiple of 4096, of 8, and itself: nothing comes along here.
    assert.equal(count.reads, 1 + 3);
    // Over the forty that another client wrote, one by one.
    assert.equal((await chains.find("queue", entry, 17)).message.submitter, "s-17");
    assert.ok(count.reads <= 4 + 50, `${count.reads} reads`);
  });

  test("go on behind another client's entries, which are read together", async () => {
    for (const [others, rounds] of [[1, 0], [2, 1], [15, 1], [16, 1], [40, 1]] as const) {
      const fake = createFakeOrigin();
      const { head } = appendTickets(fake, 5000, (n) => n < 5000 - others);
      const { origin, asked } = withGenerations(fake);
      const chains = createChainReader(origin);
      const { queue } = await chains.readHeads({ queue: head });
      await chains.before("queue", queue!);
      asked.length = 0;
      const { skip, block } = await listsAfter(chains, "queue", queue);
      assert.equal(asked.length, rounds);
      assert.equal(block, undefined);
      const numbers = skip!.map(([number]) => number);
      assert.equal(numbers[0], 4999);
      assert.equal(numbers.includes(4096), others < 16, numbers.join());
      for (const [number, oid] of skip!) {
        const [named] = await chains.read("queue", [oid]);
        assert.equal(named!.message.ticket, number);
      }
    }
  });

  test("name a block where one ends, after one more request", async () => {
    const fake = createFakeOrigin();
    const { head } = appendTickets(fake, 8192, (n) => n < 5000 || n > 5003);
    const { origin, asked } = withGenerations(fake);
    const chains = createChainReader(origin);
    const { queue } = await chains.readHeads({ queue: head });
    asked.length = 0;
    const { skip, block } = await listsAfter(chains, "queue", queue);
    assert.equal(asked.length, 1);
    assert.ok(asked[0]!.oids <= 15);
    const names = [...skip!, ...block!];
    const missing = [];
    for (let n = 5008; n < 8192; n += 8) {
      if (!names.some(([number]) => number === n)) missing.push(n);
    }
    assert.deepEqual(missing, []);
    for (const [number, oid] of names) {
      const [named] = await chains.read("queue", [oid]);
      assert.equal(named!.message.ticket, number);
    }
    // Into the gap and behind it too.
    for (const wanted of [0, 4095, 4990, 5001, 5003, 5020, 8100]) {
      const found = await chains.find("queue", queue!, wanted);
      assert.equal(found.message.submitter, `s-${wanted}`);
    }
  });

  test("of another kind lead as far as they go, and are gone on with", () => {
    // The last eight multiples of each power of eight.
    const isOldName = (number: number, n: number) => {
      let power = 1;
      while (number > 0 && number % (power * 8) === 0) power *= 8;
      return number === 0 || Math.floor(n / power) - number / power < 8;
    };
    const lists: Lists[] = [{}];
    for (let n = 1; n < 24_000; n++) {
      if (n < 12_000) {
        const before = lists[n - 1]!.skip ?? [];
        const skip = before.filter(([number]) => isOldName(number, n - 1));
        lists.push({ skip: [[n - 1, `${n - 1}`], ...skip] });
      } else {
        const skip = nextSkipList(n - 1, `${n - 1}`, lists[n - 1]!.skip);
        const parts = blockParts(n, skip).map((oid) => lists[Number(oid)]!.skip);
        lists.push(parts.length > 0 ? { skip, block: blockList(n, skip, parts) } : { skip });
      }
    }
    const most = (head: number, from: number, to: number) => {
      let worst = 0;
      for (let wanted = from; wanted < to; wanted += 7) {
        worst = Math.max(worst, reads((n) => lists[n]!, head, wanted));
      }
      return worst;
    };
    assert.ok(most(11_999, 0, 11_999) <= 5);
    assert.ok(most(23_999, 0, 12_000) <= 5, String(most(23_999, 0, 12_000)));
    assert.ok(most(23_999, 12_288, 23_999) <= 2);
  });

  test("no list of a chain of another client's: it is walked, many entries at a time", async () => {
    const fake = createFakeOrigin();
    const { head } = appendTickets(fake, 400, () => false);
    const { origin, asked } = withGenerations(fake);
    const chains = createChainReader(origin);
    const { queue } = await chains.readHeads({ queue: head });
    asked.length = 0;
    assert.equal((await chains.find("queue", queue!, 3)).message.submitter, "s-3");
    assert.ok(asked.length <= 400 / 16, String(asked.length));
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

  for (const list of ["skip", "block"]) {
    test(`a ${list} that names the wrong commit is not believed`, async () => {
      const fake = createFakeOrigin();
      const { head, candidate } = appendTickets(fake, 10, () => true);
      const { oid, content } = chainCommit([head, candidate], {
        kind: "ticket",
        ticket: 10,
        candidate,
        submitter: "evil",
        agentq: { v: 1, submission: "x", submittedAt: 1, [list]: [[3, head]] },
      }, 1);
      fake.objects.set(oid, { type: "commit", data: content });
      const { chains, entry } = await headOf(fake, oid);
      await assert.rejects(chains.find("queue", entry, 3), corrupt);
    });
  }

  test("whatever a list says, a ticket is found or the chain is called corrupt", async () => {
    const fake = createFakeOrigin();
    const { head, candidate } = appendTickets(fake, 300, () => true);
    const { chains, entry } = await headOf(fake, head);
    const oids = [...fake.objects.keys()];
    const name = fc.tuple(fc.oneof(fc.nat(310), fc.nat()), fc.constantFrom(...oids));
    const lists = fc.record({ skip: fc.array(name), block: fc.array(name) }, { requiredKeys: [] });
    await fc.assert(
      fc.asyncProperty(lists, fc.nat(300), async (forged, wanted) => {
        const { oid, content } = chainCommit([entry.oid, candidate], {
          kind: "ticket",
          ticket: 300,
          candidate,
          submitter: "evil",
          agentq: { v: 1, submission: "x", submittedAt: 1, ...forged },
        }, 1);
        fake.objects.set(oid, { type: "commit", data: content });
        const [evil] = await chains.read("queue", [oid]);
        const found = await chains.find("queue", evil!, wanted).catch((error) => {
          assert.ok(corrupt(error));
          return null;
        });
        assert.ok(found === null || found.message.ticket === wanted);
        // What follows it is written all the same, within its bounds.
        const { skip, block } = await listsAfter(chains, "queue", evil!);
        assert.ok(skip!.length <= 128 && (block?.length ?? 0) <= 1024);
        assert.deepEqual(skip![0], [300, oid]);
        assert.ok(skip!.every(([number], i) => i === 0 || number < skip![i - 1]![0]));
      }),
      { numRuns: 300 },
    );
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
