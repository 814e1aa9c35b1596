import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { serializeTree } from "../../src/git/tree.ts";
import type { ObjectReader, Oid, RawObject } from "../../src/git/types.ts";
import { findUnsafePath } from "../../src/git/unsafe-tree.ts";

/** Objects in memory, and which of them were read. */
function memory() {
  const objects = new Map<Oid, RawObject>();
  const reads: Oid[] = [];
  const reader: ObjectReader = {
    read(oid) {
      reads.push(oid);
      return objects.get(oid)!;
    },
    has: (oid) => objects.has(oid),
    stat: (oid) => ({ type: objects.get(oid)!.type, size: objects.get(oid)!.data.length }),
  };
  const put = (type: "tree" | "blob", data: Uint8Array): Oid => {
    const oid = createHash("sha1").update(`${type} ${data.length}\0`).update(data).digest("hex");
    objects.set(oid, { type, data });
    return oid;
  };
  const blob = put("blob", Buffer.from("x"));
  const tree = (entries: Record<string, Oid | number>): Oid =>
    put(
      "tree",
      serializeTree(
        Object.entries(entries).map(([path, value]) =>
          typeof value === "number"
            ? { path, mode: value, oid: blob }
            : { path, mode: 0o40000, oid: value }
        ),
      ),
    );
  return { reader, reads, put, tree, blob };
}

const FILE = 0o100644;

test("names that no checkout may write are found wherever they are new", () => {
  const { reader, tree } = memory();
  const clean = tree({ a: FILE });
  for (const name of [".git", ".GIT", "git~1", "..", ".", ".git. ."]) {
    const bad = tree({ a: FILE, sub: tree({ [name]: FILE }) });
    assert.equal(findUnsafePath(reader, clean, bad)?.path, `sub/${name}`);
    assert.equal(findUnsafePath(reader, null, bad)?.path, `sub/${name}`);
    // On the branch already: nobody's fault but the branch's.
    assert.equal(findUnsafePath(reader, bad, bad), null);
  }
  assert.equal(
    findUnsafePath(reader, null, tree({ ".gitmodules": 0o120000 }))?.path,
    ".gitmodules",
  );
  assert.equal(findUnsafePath(reader, null, tree({ ".gitmodules": FILE, ".gitx": FILE })), null);
});

test("links that can't be made are found", () => {
  const { reader, put } = memory();
  const link = (target: string): Oid =>
    put(
      "tree",
      serializeTree([{ path: "l", mode: 0o120000, oid: put("blob", Buffer.from(target)) }]),
    );
  for (const target of ["", "a\0b", "x".repeat(4096)]) {
    const bad = link(target);
    assert.equal(findUnsafePath(reader, link("fine"), bad)?.path, "l", JSON.stringify(target));
    assert.match(findUnsafePath(reader, null, bad)!.reason, / link$/);
    assert.equal(findUnsafePath(reader, bad, bad), null);
  }
  assert.equal(findUnsafePath(reader, null, link("x".repeat(4095))), null);
  assert.equal(findUnsafePath(reader, null, link("../../etc/passwd")), null);
});

test("paths longer than any system call takes are found, however deep they go on", () => {
  const { reader, tree } = memory();
  const deep = (levels: number): Oid => {
    let at = tree({ f: FILE });
    for (let i = 0; i < levels; i++) at = tree({ d: at });
    return at;
  };
  assert.equal(findUnsafePath(reader, null, deep(2047)), null);
  for (const levels of [2048, 20_000]) {
    assert.match(findUnsafePath(reader, null, deep(levels))!.reason, /4095 bytes/);
  }
});

test("a name twice and entries out of order are found", () => {
  const { reader, put, blob } = memory();
  const raw = (...names: string[]) =>
    put(
      "tree",
      Buffer.concat(names.map((name) =>
        Buffer.concat([Buffer.from(`100644 ${name}\0`), Buffer.from(blob, "hex")])
      )),
    );
  assert.match(findUnsafePath(reader, null, raw("a", "a"))!.reason, /twice/);
  assert.match(findUnsafePath(reader, null, raw("b", "a"))!.reason, /out of order/);
  assert.match(
    findUnsafePath(reader, null, put("tree", Buffer.from("100644 a")))!.reason,
    /malformed/,
  );
  assert.match(findUnsafePath(reader, null, blob)!.reason, /malformed/);
});

test("directories that are the same on the branch are not read", () => {
  const { reader, reads, tree } = memory();
  const same = tree({ deep: tree({ x: FILE }) });
  const before = tree({ same, other: tree({ y: FILE }) });
  const after = tree({ same, other: tree({ y: FILE, z: FILE }) });
  assert.equal(findUnsafePath(reader, before, after), null);
  assert.equal(reads.includes(same), false);
  assert.equal(reads.length, 4);
});
