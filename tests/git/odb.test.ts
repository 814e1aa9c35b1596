import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { deflateSync } from "node:zlib";
import { isAgentqError } from "../../src/errors.ts";
import { type ObjectStore, openObjectStore } from "../../src/git/odb.ts";
import { hashObject } from "../../src/git/oid.ts";
import { EMPTY_TREE } from "../../src/git/types.ts";
import { commit, git, makeRepo, tempDir, tryGit } from "../helpers/git.ts";

const objectsOf = (dir: string) =>
  join(existsSync(join(dir, ".git")) ? join(dir, ".git") : dir, "objects");

/** Every object as git sees it, by id: type and size. */
function allObjects(dir: string): Map<string, { type: string; size: number }> {
  const text = git(dir, "cat-file", "--batch-all-objects", "--batch-check");
  return new Map(
    text.split("\n").map((line) => {
      const [oid, type, size] = line.split(" ");
      return [oid!, { type: type!, size: Number(size) }];
    }),
  );
}

/** Reads every object both ways and checks that content, type and size are git's. */
function assertReadsAll(store: ObjectStore, dir: string): void {
  const all = allObjects(dir);
  assert.ok(all.size > 3);
  for (const [oid, { type, size }] of all) {
    assert.deepEqual(store.stat(oid), { type, size });
    assert.ok(store.has(oid));
    const object = store.read(oid);
    assert.equal(object.type, type);
    assert.equal(hashObject(object.type, object.data), oid);
  }
}

/** A repository with some revisions of a long file, so that its pack has chains of deltas. */
function repoWithHistory(revisions = 30): string {
  const dir = makeRepo();
  const lines = Array.from({ length: 400 }, (_, i) => `line ${i} ${"x".repeat(i % 40)}`);
  for (let i = 0; i < revisions; i++) {
    lines[(i * 37) % 400] = `changed in ${i}`;
    commit(dir, `revision ${i}`, {
      "long.txt": lines.join("\n"),
      [`dir/${i % 7}/file`]: `content ${i}\n`,
      "empty": "",
    });
  }
  git(dir, "tag", "-a", "-m", "a tag", "v1");
  return dir;
}

const code = (wanted: string) => (error: unknown) => {
  assert.ok(isAgentqError(error), String(error));
  assert.equal(error.code, wanted, error.message);
  return true;
};

const packsIn = (dir: string) =>
  readdirSync(join(objectsOf(dir), "pack")).filter((name) => name.endsWith(".pack"))
    .map((name) => join(objectsOf(dir), "pack", name));

describe("reading objects", () => {
  test("loose objects", () => {
    const dir = repoWithHistory(5);
    assert.equal(packsIn(dir).length, 0);
    assertReadsAll(openObjectStore(objectsOf(dir)), dir);
  });

  test("packs with deltas against an offset", () => {
    const dir = repoWithHistory();
    git(dir, "gc", "-q", "--aggressive", "--prune=now");
    assert.match(git(dir, "verify-pack", "-v", packsIn(dir)[0]!), /chain length = [3-9]/);
    assertReadsAll(openObjectStore(objectsOf(dir)), dir);
  });

  test("packs with deltas against an id, and an index of version 1", () => {
    const dir = repoWithHistory();
    git(
      dir,
      "-c",
      "repack.useDeltaBaseOffset=false",
      "-c",
      "pack.indexVersion=1",
      "repack",
      "-adfq",
    );
    const index = readFileSync(packsIn(dir)[0]!.replace(/pack$/, "idx"));
    assert.notEqual(index.readUInt32BE(0), 0xff744f63);
    assertReadsAll(openObjectStore(objectsOf(dir)), dir);
  });

  test("64-bit offsets in the index", () => {
    const dir = repoWithHistory(8);
    git(dir, "repack", "-adq");
    const pack = packsIn(dir)[0]!;
    const idx = pack.replace(/pack$/, "idx");
    rmSync(idx);
    // Every offset above 512 goes to the table of large ones.
    git(dir, "index-pack", "--index-version=2,0x200", "-o", idx, pack);
    assertReadsAll(openObjectStore(objectsOf(dir)), dir);
  });

  test("an entry behind 4 GiB of a sparse pack", () => {
    const dir = repoWithHistory(3);
    git(dir, "repack", "-adq");
    const pack = packsIn(dir)[0]!;
    const idx = pack.replace(/pack$/, "idx");
    // Moves all entries 5 GiB up: a hole behind the header, and an index that says so.
    const content = readFileSync(pack);
    const shift = 5 * 2 ** 30;
    const index = readFileSync(idx);
    const count = index.readUInt32BE(8 + 255 * 4);
    const table = 8 + 1024 + count * 24;
    const large = Buffer.alloc(count * 8);
    for (let i = 0; i < count; i++) {
      large.writeBigUInt64BE(BigInt(index.readUInt32BE(table + i * 4) + shift), i * 8);
      index.writeUInt32BE(0x80000000 + i, table + i * 4);
    }
    chmodSync(pack, 0o644);
    rmSync(idx);
    writeFileSync(pack, content.subarray(0, 12));
    const fd = openSync(pack, "r+");
    writeSync(fd, content, 12, content.length - 12, shift + 12);
    closeSync(fd);
    const end = table + count * 4;
    writeFileSync(idx, Buffer.concat([index.subarray(0, end), large, index.subarray(end)]));
    const store = openObjectStore(objectsOf(dir));
    let seen = 0;
    for (let i = 0; i < count; i++) {
      const oid = index.toString("hex", 1032 + i * 20, 1052 + i * 20);
      const object = store.read(oid);
      assert.equal(hashObject(object.type, object.data), oid);
      seen++;
    }
    assert.ok(seen > 5);
    rmSync(pack);
  });

  test("several packs and loose objects beside them, and with small caches", () => {
    const dir = repoWithHistory(6);
    git(dir, "repack", "-adq");
    commit(dir, "more", { "second": "pack\n".repeat(1000) });
    git(dir, "repack", "-dq");
    commit(dir, "loose", { "third": "loose\n" });
    assert.equal(packsIn(dir).length, 2);
    assertReadsAll(openObjectStore(objectsOf(dir)), dir);
    assertReadsAll(openObjectStore(objectsOf(dir), { cacheBytes: 2048 }), dir);
  });

  test("large objects, incompressible ones and the empty one", () => {
    const dir = makeRepo();
    const noise = Buffer.alloc(3 * 1024 * 1024);
    for (let i = 0, state = 1; i < noise.length; i++) {
      state = (state * 1103515245 + 12345) & 0x7fffffff;
      noise[i] = state >> 16;
    }
    commit(dir, "large", { noise, zeros: Buffer.alloc(5_000_000), empty: "", small: "x" });
    assertReadsAll(openObjectStore(objectsOf(dir)), dir);
    git(dir, "repack", "-adq");
    git(dir, "prune-packed");
    assertReadsAll(openObjectStore(objectsOf(dir)), dir);
    git(dir, "-c", "core.compression=0", "repack", "-adfFq");
    assertReadsAll(openObjectStore(objectsOf(dir)), dir);
  });

  test("a missing object is object-missing and names it", () => {
    const dir = repoWithHistory(1);
    const store = openObjectStore(objectsOf(dir));
    const oid = "1".repeat(40);
    assert.equal(store.has(oid), false);
    for (const ask of [store.read, store.stat, store.commitInfo]) {
      assert.throws(() => ask(oid), (error) => {
        assert.ok(isAgentqError(error, "object-missing"));
        assert.equal(error.details?.oid, oid);
        return true;
      });
    }
  });

  test("ids are found by their first digits, in packs and loose, once each", () => {
    const dir = repoWithHistory(12);
    git(dir, "repack", "-adq");
    commit(dir, "loose", { "third": "loose\n" });
    const store = openObjectStore(objectsOf(dir));
    const all = [...allObjects(dir).keys()].sort();
    for (const oid of all) {
      for (const length of [4, 5, 7, 40]) {
        const prefix = oid.slice(0, length);
        assert.deepEqual(
          store.prefixed(prefix, 100),
          all.filter((other) => other.startsWith(prefix)),
        );
      }
    }
    assert.deepEqual(store.prefixed("ffffffff"), all.filter((oid) => oid.startsWith("ffffffff")));
  });
});

describe("alternates", () => {
  test("clone --shared, nested, relative, quoted, commented, in a circle", () => {
    const origin = repoWithHistory(4);
    const base = tempDir();
    git(base, "clone", "-q", "--shared", origin, "one");
    git(base, "clone", "-q", "--shared", "one", 'two #"quoted"');
    const two = join(base, 'two #"quoted"');
    commit(two, "own", { "own": "own\n" });
    const store = openObjectStore(objectsOf(two));
    assertReadsAll(store, two);
    assert.equal(store.directories().length, 3);
    const lines = ["# a comment", "", "../../../one/.git/objects", "/does/not/exist"].join("\n");
    writeFileSync(join(objectsOf(two), "info/alternates"), lines + "\n");
    assertReadsAll(openObjectStore(objectsOf(two)), two);
    // one borrows from two and two from one.
    const quoted = `"${join(base, 'two #\\"quoted\\"')}/.git/objects"\n`;
    writeFileSync(
      join(objectsOf(join(base, "one")), "info/alternates"),
      quoted + join(origin, ".git/objects") + "\n",
    );
    const circle = openObjectStore(objectsOf(two));
    assert.equal(circle.directories().length, 3);
    assertReadsAll(circle, two);
    const one = join(base, "one");
    assertReadsAll(openObjectStore(objectsOf(one)), one);
  });
});

test("with many packs, and more of them than descriptors", () => {
  const dir = repoWithHistory(3);
  for (let i = 0; i < 150; i++) {
    const oid = openObjectStore(objectsOf(dir)).write("blob", Buffer.from(`object ${i}`));
    const made = tryGit(dir, ["pack-objects", "-q", join(objectsOf(dir), "pack/pack")], {
      input: oid + "\n",
    });
    assert.equal(made.status, 0, made.stderr);
  }
  git(dir, "prune-packed");
  assert.equal(packsIn(dir).length, 150);
  const store = openObjectStore(objectsOf(dir), { cacheBytes: 4096 });
  assertReadsAll(store, dir);
  const open = () => readdirSync("/proc/self/fd").length;
  const before = open();
  store.close();
  assert.ok(before - open() <= 128, String(before - open()));
});

describe("another git works in the same repository", () => {
  test("gc moves every object into a new pack and deletes the old ones", () => {
    const dir = repoWithHistory(10);
    git(dir, "repack", "-adq");
    commit(dir, "more", { "more": "more\n" });
    const store = openObjectStore(objectsOf(dir), { cacheBytes: 0 });
    assertReadsAll(store, dir);
    git(dir, "gc", "-q", "--aggressive", "--prune=now");
    assertReadsAll(store, dir);
    store.close();
    git(dir, "repack", "-adfq", "--depth=3");
    assertReadsAll(store, dir);
  });

  test("an object that was missing appears: loose, packed, or in an alternate", () => {
    const dir = repoWithHistory(2);
    const store = openObjectStore(objectsOf(dir));
    const content = (n: number) => Buffer.from(`new ${n}\n`);
    for (const packed of [false, true]) {
      const oid = hashObject("blob", content(Number(packed)));
      assert.equal(store.has(oid), false);
      const other = tempDir();
      writeFileSync(join(other, "file"), content(Number(packed)));
      assert.equal(tryGit(dir, ["hash-object", "-w", join(other, "file")]).status, 0);
      if (packed) {
        const made = tryGit(dir, ["pack-objects", join(objectsOf(dir), "pack/pack")], {
          input: oid + "\n",
        });
        assert.equal(made.status, 0, made.stderr);
        git(dir, "prune-packed");
        assert.equal(existsSync(join(objectsOf(dir), oid.slice(0, 2), oid.slice(2))), false);
      }
      assert.equal(store.has(oid), true);
      assert.deepEqual(Buffer.from(store.read(oid).data), content(Number(packed)));
    }
  });

  test("a pack whose index is there but not the pack is passed over", () => {
    const dir = repoWithHistory(2);
    git(dir, "repack", "-adq");
    const head = git(dir, "rev-parse", "HEAD");
    const store = openObjectStore(objectsOf(dir));
    const pack = packsIn(dir)[0]!;
    renameSync(pack, pack + ".away");
    assert.throws(() => store.read(head), code("object-missing"));
    renameSync(pack + ".away", pack);
    assert.equal(store.read(head).type, "commit");
  });
});

describe("corruption is repository-corrupt, never a wrong answer", () => {
  function damaged(
    change: (data: Buffer) => Buffer | void,
    file: "pack" | "idx",
  ): { store: ObjectStore; oids: string[]; dir: string } {
    const dir = repoWithHistory(6);
    git(dir, "repack", "-adq");
    const oids = [...allObjects(dir).keys()];
    const path = packsIn(dir)[0]!.replace(/pack$/, file);
    const data = readFileSync(path);
    chmodSync(path, 0o644);
    writeFileSync(path, change(data) ?? data);
    return { store: openObjectStore(objectsOf(dir)), oids, dir };
  }

  test("each byte of a pack flipped in turn: the object's content or an error", () => {
    const dir = repoWithHistory(4);
    git(dir, "repack", "-adq");
    const oids = [...allObjects(dir).keys()];
    const path = packsIn(dir)[0]!;
    const data = readFileSync(path);
    chmodSync(path, 0o644);
    let errors = 0;
    for (let at = 12; at < data.length - 20; at += 7) {
      const copy = Buffer.from(data);
      copy[at]! ^= 1 << (at % 8);
      writeFileSync(path, copy);
      const store = openObjectStore(objectsOf(dir));
      for (const oid of oids) {
        try {
          const { type, data } = store.read(oid);
          assert.equal(hashObject(type, data), oid);
        } catch (error) {
          code("repository-corrupt")(error);
          errors++;
        }
      }
      store.close();
    }
    assert.ok(errors > 50);
  });

  test("a pack or an index cut off, replaced by text, or for another pack", () => {
    for (const file of ["pack", "idx"] as const) {
      for (
        const change of [
          (data: Buffer) => data.subarray(0, data.length >> 1),
          (data: Buffer) => data.subarray(0, 10),
          () => Buffer.alloc(0),
          (data: Buffer) => Buffer.alloc(data.length, "text\n"),
        ]
      ) {
        const { store, oids } = damaged(change, file);
        let errors = 0;
        for (const oid of oids) {
          try {
            const { type, data } = store.read(oid);
            assert.equal(hashObject(type, data), oid);
          } catch (error) {
            code("repository-corrupt")(error);
            errors++;
          }
        }
        assert.ok(errors > 0);
      }
    }
  });

  test("a damaged copy is passed over when there is a good one", () => {
    const dir = repoWithHistory(6);
    git(dir, "repack", "-adq");
    const origin = tempDir();
    git(origin, "clone", "-q", "--bare", "--no-hardlinks", dir, "copy.git");
    const path = packsIn(dir)[0]!;
    const data = readFileSync(path);
    chmodSync(path, 0o644);
    writeFileSync(path, data.fill(0x55, 12, data.length - 20));
    assert.throws(
      () =>
        openObjectStore(objectsOf(dir)).read(git(join(origin, "copy.git"), "rev-parse", "HEAD")),
      code("repository-corrupt"),
    );
    mkdirSync(join(objectsOf(dir), "info"), { recursive: true });
    writeFileSync(join(objectsOf(dir), "info/alternates"), join(origin, "copy.git/objects") + "\n");
    assertReadsAll(openObjectStore(objectsOf(dir)), join(origin, "copy.git"));
  });

  test("loose objects: empty, cut off, garbage behind, wrong size, not zlib", () => {
    const dir = repoWithHistory(1);
    const head = git(dir, "rev-parse", "HEAD");
    const path = join(objectsOf(dir), head.slice(0, 2), head.slice(2));
    const good = readFileSync(path);
    chmodSync(path, 0o644);
    const store = openObjectStore(objectsOf(dir));
    for (
      const bad of [
        Buffer.alloc(0),
        good.subarray(0, good.length - 6),
        Buffer.concat([good, Buffer.from("x")]),
        deflateSync(Buffer.from("commit 5\0four")),
        deflateSync(Buffer.from("commit -1\0")),
        deflateSync(Buffer.from("thing 4\0four")),
        Buffer.from("not zlib at all"),
      ]
    ) {
      writeFileSync(path, bad);
      assert.throws(() => store.read(head), code("repository-corrupt"));
    }
    writeFileSync(path, good);
    assert.equal(store.read(head).type, "commit");
  });
});

describe("writing objects", () => {
  test("git reads what was written; writing again writes nothing", () => {
    const dir = makeRepo();
    const store = openObjectStore(objectsOf(dir));
    for (const data of [Buffer.alloc(0), Buffer.from("text\n"), Buffer.alloc(2_000_000, "abc")]) {
      const oid = store.write("blob", data);
      assert.equal(oid, hashObject("blob", data));
      assert.equal(git(dir, "cat-file", "-s", oid), String(data.length));
      const path = join(objectsOf(dir), oid.slice(0, 2), oid.slice(2));
      const before = statSync(path);
      assert.equal(before.mode & 0o777, 0o444);
      store.write("blob", data);
      assert.equal(statSync(path).ino, before.ino);
    }
    assert.equal(tryGit(dir, ["fsck", "--strict"]).status, 0);
    assert.deepEqual(leftovers(dir), []);
  });

  test("a batch is readable within, durable after, and nothing of it stays when it throws", () => {
    const dir = makeRepo();
    const store = openObjectStore(objectsOf(dir));
    const contents = Array.from(
      { length: 300 },
      (_, i) => Buffer.from(`object ${i}\n`.repeat(1 + i % 5)),
    );
    const oids = store.batch(() =>
      contents.map((data) => {
        const oid = store.write("blob", data);
        assert.ok(store.has(oid));
        assert.deepEqual(store.read(oid), { type: "blob", data });
        assert.deepEqual(store.stat(oid), { type: "blob", size: data.length });
        return oid;
      })
    );
    oids.forEach((oid, i) => {
      assert.deepEqual(Buffer.from(openObjectStore(objectsOf(dir)).read(oid).data), contents[i]);
    });
    for (const oid of oids) assert.equal(git(dir, "cat-file", "-t", oid), "blob");
    let lost = "";
    assert.throws(() =>
      store.batch(() => {
        lost = store.write("blob", Buffer.from("never kept"));
        throw new Error("stop");
      }), /stop/);
    assert.equal(store.has(lost), false);
    assert.deepEqual(leftovers(dir), []);
  });

  test("a batch larger than what is held in memory, and batches within batches", () => {
    const dir = makeRepo();
    const store = openObjectStore(objectsOf(dir));
    const block = Buffer.alloc(3 * 1024 * 1024, "block ");
    const oids = store.batch(() =>
      Array.from({ length: 16 }, (_, i) => {
        block.writeUInt32BE(i);
        const oid = store.batch(() => store.write("blob", Buffer.from(block)));
        assert.equal(store.stat(oid).size, block.length);
        return oid;
      })
    );
    for (const oid of oids) assert.equal(git(dir, "cat-file", "-t", oid), "blob");
    assert.ok(packsIn(dir).length >= 2);
    assert.deepEqual(leftovers(dir), []);
  });

  test("many batches leave few packs", () => {
    const dir = makeRepo();
    const store = openObjectStore(objectsOf(dir));
    const oids: string[] = [];
    for (let i = 0; i < 100; i++) {
      store.batch(() => {
        for (const part of ["a", "b"]) oids.push(store.write("blob", Buffer.from(`${part} ${i}`)));
      });
    }
    assert.ok(packsIn(dir).length < 40, String(packsIn(dir).length));
    for (const oid of oids) assert.equal(store.read(oid).type, "blob");
    assert.equal(tryGit(dir, ["fsck", "--full"]).status, 0);
  });

  test("the empty tree can be read where it is not stored", () => {
    const store = openObjectStore(objectsOf(makeRepo()));
    assert.deepEqual(store.read(EMPTY_TREE), { type: "tree", data: new Uint8Array() });
    assert.deepEqual(store.stat(EMPTY_TREE), { type: "tree", size: 0 });
    assert.equal(store.has(EMPTY_TREE), false);
    assert.equal(store.write("tree", new Uint8Array()), EMPTY_TREE);
    assert.equal(store.has(EMPTY_TREE), true);
  });

  test("core.sharedRepository's permissions", () => {
    const dir = makeRepo();
    const store = openObjectStore(objectsOf(dir), { sharedMode: () => 0o660 });
    const oid = store.write("blob", Buffer.from("shared"));
    const path = join(objectsOf(dir), oid.slice(0, 2), oid.slice(2));
    assert.equal(statSync(path).mode & 0o7777, 0o440);
    assert.equal(statSync(join(path, "..")).mode & 0o7777, 0o2770);
  });
});

function leftovers(dir: string): string[] {
  return readdirSync(objectsOf(dir), { recursive: true }).map(String).filter((name) =>
    name.includes("tmp")
  );
}
