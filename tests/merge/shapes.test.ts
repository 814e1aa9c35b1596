/** Inputs whose cost could grow out of proportion: each is of a size at which such a merge wouldn't end. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { join } from "node:path";
import { describe, test } from "node:test";
import fc from "fast-check";
import { serializeCommit } from "../../src/git/commit.ts";
import { openObjectStore } from "../../src/git/odb.ts";
import { serializeTree } from "../../src/git/tree.ts";
import type { ObjectDatabase, Oid } from "../../src/git/types.ts";
import { compareMerge } from "../../src/merge/gate/merge.ts";
import { commitGraph } from "../../src/merge/graph.ts";
import { mergeCommits } from "../../src/merge/merge-commits.ts";
import { type Overlay, overlay } from "../../src/merge/overlay.ts";
import { atOnce } from "../../src/merge/steps.ts";
import { mergeTexts } from "../../src/merge/text/merge3.ts";
import { treePaths } from "../../src/merge/tree-paths.ts";
import { makeRepo, tempDir } from "../helpers/git.ts";
import { gitAnswers, ownAnswer } from "./git-merge-tree.ts";

const labels = { ours: "A", base: "O", theirs: "B" };
const lines = (n: number, make: (i: number) => string): string =>
  Array.from({ length: n }, (_, i) => make(i)).join("");
const merge = (base: string, ours: string, theirs: string) =>
  mergeTexts(Buffer.from(base), Buffer.from(ours), Buffer.from(theirs), { labels });

function memory(): Overlay {
  const missing = (oid: Oid): never => assert.fail(`${oid} is missing`);
  return overlay({ read: missing, has: () => false, stat: missing });
}

const blob = (db: ObjectDatabase, text: string): Oid => db.write("blob", Buffer.from(text));
const tree = (db: ObjectDatabase, path: string, mode: number, oid: Oid): Oid =>
  db.write("tree", serializeTree([{ path, mode, oid }]));

function commit(db: ObjectDatabase, text: string, parents: readonly Oid[], time: number): Oid {
  const who = `A <a@b> ${1700000000 + time} +0000`;
  return db.write(
    "commit",
    serializeCommit({
      tree: tree(db, "f", 0o100644, blob(db, text)),
      parents: [...parents],
      author: who,
      committer: who,
      message: `${time}\n`,
    }),
  );
}

/** `width` branches, each of which merges all the others `levels` times. */
function braid(db: ObjectDatabase, levels: number, width: number): [Oid, Oid] {
  let time = 0;
  const text = (level: number, i: number): string => `${level}\n1\n2\n3\n4\n5\n${i}\n`;
  const root = commit(db, text(0, 0), [], time++);
  let heads = Array.from({ length: width }, (_, i) => commit(db, text(0, i), [root], time++));
  for (let level = 1; level <= levels; level++) {
    heads = heads.map((head, i) =>
      commit(db, text(level, i), [head, ...heads.filter((_, j) => j !== i)], time++)
    );
  }
  return [heads[0]!, heads[1]!];
}

describe("texts", () => {
  test("every second of 100,000 lines changed by both", () => {
    const side = (word: string): string => lines(100_000, (i) => `${i % 2 ? word : "line"} ${i}\n`);
    const own = merge(side("line"), side("ours"), side("theirs"));
    // One line between two conflicts joins them.
    assert.deepEqual([own.conflicts, own.regions], [1, ["2-200002"]]);
  });

  test("every eighth of 100,000 lines changed by both", () => {
    const side = (word: string): string => lines(100_000, (i) => `${i % 8 ? "line" : word} ${i}\n`);
    assert.equal(merge(side("line"), side("ours"), side("theirs")).conflicts, 12_500);
  });

  test("every eighth of 100,000 lines changed by one, another eighth by the other", () => {
    const side = (ours: number, theirs: number): string =>
      lines(100_000, (i) => `${i % 8 === ours ? "ours" : i % 8 === theirs ? "theirs" : ""} ${i}\n`);
    const own = merge(side(-1, -1), side(0, -1), side(-1, 4));
    assert.equal(own.conflicts, 0);
    assert.equal(Buffer.from(own.data).toString(), side(0, 4));
  });

  test("20,000 lines of two kinds, shuffled differently on each side", () => {
    const shuffled = (seed: number): string => {
      let state = seed;
      return lines(20_000, () => {
        state = (Math.imul(state, 1664525) + 1013904223) | 0;
        return (state >>> 16) & 1 ? "{\n" : "}\n";
      });
    };
    assert.ok(merge(shuffled(1), shuffled(2), shuffled(3)).data.length > 0);
  });
});

describe("histories", () => {
  test("forty criss-crosses of three branches", () => {
    const db = memory();
    const [ours, theirs] = braid(db, 40, 3);
    assert.equal(mergeCommits(db, ours, theirs).bases.length, 3);
  });

  test("a thousand criss-crosses of two", () => {
    const db = memory();
    const [ours, theirs] = braid(db, 1000, 2);
    assert.equal(mergeCommits(db, ours, theirs).bases.length, 2);
  });

  test("criss-crosses of two, three and four give what git gives", () => {
    const repo = makeRepo(tempDir());
    const store = openObjectStore(join(repo, ".git/objects"));
    const pairs = [[1, 2], [3, 2], [1, 3], [3, 3], [2, 4]].map(([levels, width]) =>
      braid(store, levels!, width!)
    );
    const expected = gitAnswers(repo, pairs);
    pairs.forEach(([ours, theirs], i) => {
      const own = mergeCommits(overlay(store), ours, theirs, { labels: { ours, theirs } });
      assert.deepEqual(ownAnswer(own), expected[i]);
    });
    store.close();
  });
});

describe("trees", () => {
  test("3,000 levels are compared by the gate too", () => {
    const db = memory();
    const deep = (text: string): Oid => {
      let at = tree(db, "f", 0o100644, blob(db, text));
      for (let i = 0; i < 3000; i++) at = tree(db, "d", 0o40000, at);
      return at;
    };
    const [one, two] = [deep("one\n"), deep("two\n")];
    assert.deepEqual(treePaths(db).differences(one, two).map(({ path }) => path), [
      "d/".repeat(3000) + "f",
    ]);
    const base = commit(db, "same\n", [], 1);
    const graph = commitGraph(db);
    const ours = graph.addVirtual(one, [base]);
    const theirs = graph.addVirtual(two, [base]);
    const merged = mergeCommits(db, ours, theirs, { graph });
    assert.equal(merged.clean, false);
    assert.equal(atOnce(compareMerge(db, graph, merged, two)).length, 1);
  });
});

test("lines that are all different: moved, copied and edited, as git merges them", () => {
  const numbers = fc.array(fc.nat(400), { minLength: 1, maxLength: 60 });
  const change = fc.record({ from: fc.nat(60), count: fc.nat(9), to: fc.nat(60), add: fc.nat(3) });
  const cases = fc.sample(
    fc.tuple(
      numbers,
      fc.array(change, { minLength: 1, maxLength: 5 }),
      fc.array(change, { minLength: 1, maxLength: 5 }),
    ),
    { seed: 11, numRuns: 400 },
  );
  const apply = (base: number[], changes: typeof cases[0][1]): string => {
    const list = [...base];
    for (const [i, { from, count, to, add }] of changes.entries()) {
      const block = list.splice(from, count);
      list.splice(to, 0, ...(add === 0 ? [] : block), ...(add === 1 ? [500 + i] : []));
    }
    return list.map((n) => `line ${n}\n`).join("");
  };
  const repo = makeRepo(tempDir());
  const store = openObjectStore(join(repo, ".git/objects"));
  let pairs: [Oid, Oid][] = [];
  store.batch(() => {
    pairs = cases.map(([base, ours, theirs], i) => {
      const root = commit(store, apply(base, []), [], i);
      return [
        commit(store, apply(base, ours), [root], i),
        commit(store, apply(base, theirs), [root], i),
      ];
    });
  });
  const expected = gitAnswers(repo, pairs);
  pairs.forEach(([ours, theirs], i) => {
    const own = mergeCommits(overlay(store), ours, theirs, { labels: { ours, theirs } });
    assert.deepEqual(ownAnswer(own), expected[i]);
  });
  store.close();
});
