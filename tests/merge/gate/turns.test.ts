/** Long merges and gates: what they cost against their size, and that timers get their turn meanwhile. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { describe, test } from "node:test";
import { serializeCommit } from "../../../src/git/commit.ts";
import { pacer } from "../../../src/git/pacer.ts";
import { serializeTree } from "../../../src/git/tree.ts";
import type { Oid } from "../../../src/git/types.ts";
import { checkGate, type GateRequest, gateSteps } from "../../../src/merge/gate.ts";
import { mergeCommits, mergeSteps } from "../../../src/merge/merge-commits.ts";
import { type Overlay, overlay } from "../../../src/merge/overlay.ts";
import { inTurns } from "../../../src/merge/steps.ts";

const WHO = "A <a@b> 1700000000 +0000";

function memory(): Overlay {
  const missing = (oid: Oid): never => assert.fail(`${oid} is missing`);
  return overlay({ read: missing, has: () => false, stat: missing });
}

function commit(
  db: Overlay,
  files: Readonly<Record<string, string>>,
  parents: readonly Oid[],
): Oid {
  const entries = Object.entries(files).sort(([a], [b]) => a < b ? -1 : 1)
    .map(([path, text]) => ({ path, mode: 0o100644, oid: db.write("blob", Buffer.from(text)) }));
  const tree = db.write("tree", serializeTree(entries));
  const meta = { tree, parents: [...parents], author: WHO, committer: WHO, message: "x\n" };
  return db.write("commit", serializeCommit(meta));
}

const lines = (n: number, line: (i: number) => string): string =>
  Array.from({ length: n }, (_, i) => line(i)).join("");

/** Both sides changed every second line; the merge has both sides' lines. */
function union(n: number, what: (word: string, i: number) => string): [Overlay, GateRequest] {
  const db = memory();
  const text = (word: string) => lines(n, (i) => what(i % 2 === 0 ? word : "value", i));
  const root = commit(db, { f: text("value") }, []);
  const tip = commit(db, { f: text("left") }, [root]);
  const his = commit(db, { f: text("right") }, [root]);
  const both = lines(n, (i) => i % 2 === 0 ? what("left", i) + what("right", i) : what("value", i));
  return [db, { tip, candidate: commit(db, { f: both }, [his, tip]) }];
}

/** Of lines that are often the same, and of such as are all different. */
const KINDS = {
  "seven kinds of lines": (word: string, i: number) => `${word} ${i % 7}\n`,
  "lines all different": (word: string, i: number) => `${word} ${i}\n`,
};

function renamed(n: number): [Overlay, Oid, Oid] {
  const db = memory();
  const files = (name: string, end: string) =>
    Object.fromEntries(
      Array.from({ length: n }, (_, i) => [`${name}${i}`, lines(9, (j) => `${i} ${j}\n`) + end]),
    );
  const root = commit(db, files("old", ""), []);
  return [db, commit(db, files("new", "more\n"), [root]), commit(db, files("old", "x\n"), [root])];
}

describe("a gate that takes long", () => {
  for (const [name, line] of Object.entries(KINDS)) {
    // With a cost that grew with the square it would take minutes.
    test(`ends: ${name}, every second one changed by both`, () => {
      const [db, request] = union(60_000, line);
      assert.deepEqual(checkGate(db, request), { ok: true });
    });
  }
  test("is left off many times within one file", () => {
    const [db, request] = union(3000, KINDS["seven kinds of lines"]);
    const steps = gateSteps(db, request);
    let count = 0;
    for (;;) {
      const { done, value } = steps.next();
      if (done) return void assert.deepEqual([value, count > 3000], [{ ok: true }, true]);
      count++;
    }
  });
  test("lets timers have their turn", async () => {
    const [db, request] = union(20_000, KINDS["seven kinds of lines"]);
    let ticks = 0;
    const timer = setInterval(() => ticks++, 1);
    try {
      assert.deepEqual(await inTurns(gateSteps(db, request), pacer()), { ok: true });
    } finally {
      clearInterval(timer);
    }
    assert.ok(ticks >= 2, `${ticks} ticks`);
  });
  test("ends where its signal is aborted", async () => {
    const [db, request] = union(20_000, KINDS["seven kinds of lines"]);
    const stop = new AbortController();
    setTimeout(() => stop.abort(new Error("stopped")), 1);
    await assert.rejects(inTurns(gateSteps(db, request), pacer(stop.signal)), /stopped/);
  });
});

describe("a merge that takes long", () => {
  test("is left off between the pairs of files that it compares, and comes to the same", async () => {
    const [db, ours, theirs] = renamed(20);
    let count = 0;
    const merged = await inTurns(mergeSteps(db, ours, theirs), () => void count++);
    assert.equal(merged.tree, mergeCommits(db, ours, theirs).tree);
    assert.ok(count >= 400, `${count} steps`);
  });
  test("fails as it does at once", async () => {
    const [db, ours] = renamed(2);
    const theirs = commit(db, { f: "alone\n" }, []);
    const failure = { code: "unrelated-histories" };
    assert.throws(() => mergeCommits(db, ours, theirs), failure);
    await assert.rejects(inTurns(mergeSteps(db, ours, theirs), pacer()), failure);
  });
});
