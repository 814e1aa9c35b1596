/** What merging trees reads and writes, whatever their size. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { describe, test } from "node:test";
import { AgentqError, isAgentqError } from "../../src/errors.ts";
import { serializeCommit } from "../../src/git/commit.ts";
import { serializeTree } from "../../src/git/tree.ts";
import type { ObjectDatabase, ObjectReader, Oid, RawObject } from "../../src/git/types.ts";
import { commitGraph, isAncestor, mergeBases } from "../../src/merge/graph.ts";
import { hashOrder } from "../../src/merge/hash-order.ts";
import { mergeCommits } from "../../src/merge/merge-commits.ts";
import { mergeTrees } from "../../src/merge/merge-trees.ts";
import { overlay } from "../../src/merge/overlay.ts";

/** A database with nothing below; `reads` lists what was read. */
function memory(): { db: ObjectDatabase; reads: Oid[] } {
  const missing = (oid: Oid): never => {
    throw new AgentqError("object-missing", `Object ${oid} is missing.`, { details: { oid } });
  };
  const below: ObjectReader = { read: missing, has: () => false, stat: missing };
  const inner = overlay(below);
  const reads: Oid[] = [];
  const db: ObjectDatabase = {
    has: inner.has,
    stat: inner.stat,
    write: inner.write,
    read(oid): RawObject {
      reads.push(oid);
      return inner.read(oid);
    },
  };
  return { db, reads };
}

function tree(db: ObjectDatabase, entries: Record<string, { mode: number; oid: Oid }>): Oid {
  return db.write(
    "tree",
    serializeTree(Object.entries(entries).map(([path, e]) => ({ path, ...e }))),
  );
}

const file = (oid: Oid) => ({ mode: 0o100644, oid });
const dir = (oid: Oid) => ({ mode: 0o40000, oid });
const text = (db: ObjectDatabase, content: string): Oid => db.write("blob", Buffer.from(content));

describe("mergeTrees()", () => {
  test("with 100,000 files of which 10 changed reads the changed directories only", () => {
    const { db, reads } = memory();
    const blob = text(db, "the same everywhere\n");
    const build = (changed: (d: number, f: number) => Oid | null): Oid => {
      const dirs: Record<string, { mode: number; oid: Oid }> = {};
      for (let d = 0; d < 1000; d++) {
        const files: Record<string, { mode: number; oid: Oid }> = {};
        for (let f = 0; f < 100; f++) files[`f${f}`] = file(changed(d, f) ?? blob);
        dirs[`d${d}`] = dir(tree(db, files));
      }
      return tree(db, dirs);
    };
    const ours = text(db, "ours\n");
    const theirs = text(db, "theirs\n");
    const base = build(() => null);
    const one = build((d, f) => d < 50 && d % 10 === 0 && f === 1 ? ours : null);
    const two = build((d, f) => d < 50 && d % 10 === 0 && f === 2 ? theirs : null);
    reads.length = 0;
    const merged = mergeTrees(db, base, one, two);
    assert.equal(merged.clean, true);
    assert.equal(reads.length, 3 + 5 * 3);
    assert.equal(
      merged.tree,
      build((d, f) => d < 50 && d % 10 === 0 ? (f === 1 ? ours : f === 2 ? theirs : null) : null),
    );
  });

  test("takes a directory that one side changed without looking into it", () => {
    const { db, reads } = memory();
    const at = (content: string): Oid => tree(db, { x: file(text(db, content)) });
    const base = tree(db, { a: dir(at("1")), b: dir(at("1")) });
    const one = tree(db, { a: dir(at("2")), b: dir(at("1")) });
    const two = tree(db, { a: dir(at("1")), b: dir(at("3")) });
    reads.length = 0;
    assert.equal(
      mergeTrees(db, base, one, two).tree,
      tree(db, { a: dir(at("2")), b: dir(at("3")) }),
    );
    assert.deepEqual(reads, [base, one, two]);
  });

  test("paths 2,000 directories deep", () => {
    const { db } = memory();
    const deep = (a: string, b: string): Oid => {
      let at = tree(db, { a: file(text(db, a)), b: file(text(db, b)) });
      for (let i = 0; i < 2000; i++) at = tree(db, { d: dir(at) });
      return at;
    };
    assert.equal(
      mergeTrees(db, deep("1", "1"), deep("2", "1"), deep("1", "2")).tree,
      deep("2", "2"),
    );
  });

  test("an object that is missing is named and thrown as it is", () => {
    const { db } = memory();
    const gone = "1".repeat(40);
    const base = tree(db, { f: file(text(db, "a\n")) });
    assert.throws(
      () =>
        mergeTrees(db, base, tree(db, { f: file(gone) }), tree(db, { f: file(text(db, "b\n")) })),
      (error) => isAgentqError(error, "object-missing") && error.details?.oid === gone,
    );
  });
});

describe("mergeCommits()", () => {
  const who = (time: number): string => `A <a@b> ${time} +0000`;
  const commit = (db: ObjectDatabase, tree: Oid, parents: Oid[], time: number): Oid =>
    db.write(
      "commit",
      serializeCommit({ tree, parents, author: who(time), committer: who(time), message: "" }),
    );

  test("refuses commits without a common ancestor, unless told not to", () => {
    const { db } = memory();
    const one = commit(db, tree(db, { a: file(text(db, "a")) }), [], 1);
    const two = commit(db, tree(db, { b: file(text(db, "b")) }), [], 2);
    assert.throws(
      () => mergeCommits(db, one, two),
      (error) => isAgentqError(error, "unrelated-histories"),
    );
    assert.equal(mergeCommits(db, one, two, { allowUnrelated: true }).clean, true);
  });

  test("takes the boundary of a shallow clone for the beginning", () => {
    const { db } = memory();
    const empty = tree(db, {});
    const base = commit(db, empty, ["1".repeat(40)], 1);
    const one = commit(db, tree(db, { a: file(text(db, "a")) }), [base], 2);
    const two = commit(db, tree(db, { b: file(text(db, "b")) }), [base], 3);
    const merged = mergeCommits(db, one, two, { shallow: new Set([base]) });
    assert.deepEqual(merged.bases, [base]);
  });

  test("finds all best common ancestors, newest first, whatever the clocks said", () => {
    const { db } = memory();
    const empty = tree(db, {});
    const root = commit(db, empty, [], 500);
    const a = commit(db, empty, [root], 100);
    const b = commit(db, empty, [root], 900);
    const x = commit(db, empty, [a, b], 50);
    const y = commit(db, empty, [b, a], 40);
    const graph = commitGraph(db);
    assert.deepEqual(mergeBases(graph, x, y), [b, a]);
    assert.deepEqual(mergeBases(graph, x, a), [a]);
    assert.equal(isAncestor(graph, root, y), true);
    assert.equal(isAncestor(graph, x, y), false);
  });
});

test("overlay() collects what is new and passes on the rest", () => {
  const { db } = memory();
  const old = text(db, "old");
  const top = overlay(db);
  assert.equal(text(top, "old"), old);
  const fresh = text(top, "fresh");
  assert.equal(text(top, "fresh"), fresh);
  assert.deepEqual(top.newObjects().map(({ oid }) => oid), [fresh]);
  assert.equal(Buffer.from(top.read(fresh).data).toString(), "fresh");
  assert.deepEqual(top.stat(old), { type: "blob", size: 3 });
  assert.equal(db.has(fresh), false);
});

test("hashOrder() keeps every key once, also when the table grows", () => {
  const keys = Array.from({ length: 500 }, (_, i) => `dir/${i}`);
  assert.deepEqual([...hashOrder(keys)].sort(), [...keys].sort());
});
