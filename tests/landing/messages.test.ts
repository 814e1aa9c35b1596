import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { problemOf } from "../../src/landing/message-schemas.ts";
import { isKnownShape } from "../../src/landing/message-shapes.ts";
import type { ChainName } from "../../src/landing/messages.ts";

const oid = "0123456789abcdef0123456789abcdef01234567";

const WHOLE: Record<ChainName, Record<string, unknown>> = {
  queue: {
    kind: "ticket",
    ticket: 3,
    candidate: oid,
    submitter: "s",
    verify_cmd: "true",
    verify_timeout: 1.5,
    check: null,
    checkers: { any: 1 },
    agentq: {
      v: 1,
      submission: "x",
      submittedAt: 1,
      title: null,
      strategy: null,
      drops: ["a"],
      skip: [[2, oid], [1, oid]],
      block: [[1, oid]],
      later: true,
    },
    later: [1],
  },
  done: {
    kind: "result",
    ticket: 3,
    candidate: oid,
    submitter: "s",
    lander: "l",
    tip: oid,
    landed: oid,
    reason: "landed",
    files: ["a"],
    regions: ["a:1-2"],
    report: "r",
    agentq: {
      v: 1,
      startedAt: 1,
      endedAt: 2,
      tree: oid,
      mergedFrom: null,
      verify: { cmd: "c", exit: null, ms: 3 },
      drops: [],
      lastLanded: oid,
      skip: [],
      block: [[2, oid]],
    },
  },
  lock: {
    kind: "lock",
    holder: "h",
    by: "h",
    at: 1,
    agentq: {
      v: 1,
      paused: { by: "p", reason: null },
      cancelled: [1, 2],
      acceptedTip: oid,
      confirmed: 3,
      published: { ticket: 3, tip: oid, landed: oid },
      tip: oid,
      failures: { ticket: 4, count: 1 },
      refusals: { ticket: 4, count: 2, why: "w" },
    },
  },
};

const CHAINS = Object.keys(WHOLE) as ChainName[];

/** Every path of a document. */
function paths(value: unknown, before: (string | number)[] = []): (string | number)[][] {
  if (typeof value !== "object" || value === null) return [before];
  const entries = Array.isArray(value) ? [...value.entries()] : Object.entries(value);
  return [before, ...entries.flatMap(([key, inner]) => paths(inner, [...before, key]))];
}

function changed(value: unknown, path: readonly (string | number)[], to: unknown): unknown {
  if (path.length === 0) return to;
  const [key, ...rest] = path as [string | number, ...(string | number)[]];
  const copy = structuredClone(value) as Record<string | number, unknown>;
  copy[key] = changed(copy[key], rest, to);
  if (copy[key] === undefined) delete copy[key];
  return copy;
}

const values = fc.oneof(
  fc.constantFrom<unknown>(
    undefined,
    null,
    "",
    oid,
    oid.toUpperCase(),
    `${oid}0`,
    "x",
    0,
    1,
    2,
    -1,
    1.5,
    2 ** 60,
    true,
    [],
    {},
    [oid],
    [[1, oid]],
    [[1, oid, 2]],
  ),
  fc.jsonValue(),
);

test("what is told at sight is what the schemas accept, and the whole messages are", () => {
  for (const chain of CHAINS) {
    assert.equal(problemOf(chain, WHOLE[chain]), null);
    assert.equal(isKnownShape(chain, WHOLE[chain]), true);
  }
  fc.assert(
    fc.property(fc.constantFrom(...CHAINS), fc.nat(), values, fc.nat(), values, (...drawn) => {
      const [chain, first, one, second, two] = drawn;
      const all = paths(WHOLE[chain]);
      const once = changed(WHOLE[chain], all[first % all.length]!, one);
      const places = paths(once);
      for (const value of [once, changed(once, places[second % places.length]!, two)]) {
        // What JSON can carry, as it comes out of a commit.
        const message = value === undefined ? null : JSON.parse(JSON.stringify(value));
        const accepted = problemOf(chain, message) === null;
        assert.equal(isKnownShape(chain, message), accepted, JSON.stringify(message));
      }
    }),
    { numRuns: 5000 },
  );
});

test("lists have a length beyond which they are none", () => {
  for (const [list, most] of [["skip", 128], ["block", 1024]] as const) {
    for (const chain of ["queue", "done"] as const) {
      for (const [length, valid] of [[most, true], [most + 1, false]] as const) {
        const names = Array.from({ length }, (_, i) => [i, oid]);
        const message = changed(WHOLE[chain], ["agentq", list], names);
        assert.equal(isKnownShape(chain, message), valid);
        assert.equal(problemOf(chain, message) === null, valid);
      }
    }
  }
});

test("a genesis belongs to numbered chains, and to its own", () => {
  const genesis = { kind: "genesis", chain: "queue" };
  assert.equal(isKnownShape("queue", genesis), true);
  assert.equal(problemOf("queue", genesis), null);
  assert.equal(isKnownShape("lock", genesis), false);
  assert.notEqual(problemOf("lock", genesis), null);
  assert.equal(isKnownShape("done", { kind: "genesis" }), false);
});
