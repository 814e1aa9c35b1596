/**
 * What a look at a queue costs over a network: the same few requests whether ten tickets are in it or
 * nine thousand, by a machine that has never seen it. Against git's own server.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { mkdirSync } from "node:fs";
import { test } from "node:test";
import { makeLongQueue } from "../../bench/fixtures/long-queue.ts";
import { openOrigin } from "../../src/git/origin.ts";
import type { Origin } from "../../src/git/types.ts";
import { listsAfter } from "../../src/landing/lists.ts";
import { openQueue, type Queue, type Snapshot } from "../../src/landing/snapshot.ts";
import { statusOf } from "../../src/landing/status.ts";
import { git, tempDir } from "../helpers/git.ts";
import { serveGit } from "../git/transport-http/server.ts";

const SIZES = [10, 1000, 9000];
const WAITING = 5;

const root = tempDir();
for (const tickets of SIZES) {
  const dir = join(root, `${tickets}.git`);
  mkdirSync(dir);
  makeLongQueue(dir, tickets, tickets - WAITING);
}

interface Cost {
  readonly requests: number;
  readonly bytes: number;
}

/** What each size costs, opening the queue included. */
async function costs(
  filter: boolean,
  use: (queue: Queue, snapshot: Snapshot, tickets: number) => Promise<unknown>,
): Promise<Cost[]> {
  const server = await serveGit(root);
  const found: Cost[] = [];
  try {
    for (const tickets of SIZES) {
      git(join(root, `${tickets}.git`), "config", "uploadpack.allowFilter", String(filter));
      server.log.length = 0;
      const origin: Origin = await openOrigin(`${server.url}/${tickets}.git`, { env: {} });
      const { queue, snapshot } = await openQueue(origin, {
        namespace: "refs/weave",
        branch: "main",
      });
      await use(queue, snapshot, tickets);
      origin.close();
      const bytes = server.log.reduce((sum, { answered }) => sum + answered, 0);
      found.push({ requests: server.log.length, bytes });
    }
  } finally {
    await server.close();
  }
  return found;
}

/** The refs in two requests, and the heads with what is before them: in one where the server filters. */
const opened = (filter: boolean) => filter ? 3 : 4;
const requests = (found: readonly Cost[]) => found.map((cost) => cost.requests);

for (const filter of [true, false]) {
  test(`any ticket and its result, from a server that ${filter ? "filters" : "doesn't filter"}`, async () => {
    for (const share of [0, 0.3, 0.77]) {
      const found = await costs(filter, async ({ chains }, { queue, done }, tickets) => {
        const number = 2 + Math.floor(share * (tickets - 10));
        const both = await Promise.all([
          chains.find("queue", queue!, number),
          chains.find("done", done!, number),
        ]);
        for (const { message } of both) assert.equal(message.ticket, number);
      });
      const [few, some, many] = requests(found) as [number, number, number];
      // What is close comes along with a step, or takes one more.
      const most = opened(filter) + (filter ? 2 : 3);
      assert.ok(few <= most && some <= most && many <= most, requests(found).join());
      assert.ok(found[2]!.bytes < 100_000, `${found[2]!.bytes} bytes`);
    }
  });
}

test("the oldest tickets that wait, and what the next entry carries", async () => {
  const status = await costs(true, async (queue, snapshot) => {
    const options = { remote: "origin", limit: 100, submissions: [], contains: () => never() };
    const document = await statusOf(queue, snapshot, options);
    assert.equal(document.tickets.length, WAITING);
  });
  assert.ok(requests(status).every((count) => count <= opened(true) + 1), requests(status).join());
  const enqueue = await costs(true, async ({ chains }, { queue, done }) => {
    for (const [chain, head] of [["queue", queue], ["done", done]] as const) {
      assert.ok((await listsAfter(chains, chain, head)).skip);
    }
  });
  assert.deepEqual(requests(enqueue), SIZES.map(() => opened(true)));
});

function never(): never {
  throw new Error("the branch is where the queue left it");
}
