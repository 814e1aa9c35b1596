import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { randomBytes } from "node:crypto";
import { spawnSync } from "node:child_process";
import { copyFileSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import fc from "fast-check";
import { isAgentqError } from "../../../src/errors.ts";
import { applyDelta } from "../../../src/git/delta.ts";
import { makeDelta } from "../../../src/git/delta-make.ts";
import { enumerate } from "../../../src/git/enumerate.ts";
import { indexPack, readPackObjects } from "../../../src/git/index-pack.ts";
import { storePack } from "../../../src/git/pack-store.ts";
import { tidyPacks } from "../../../src/git/pack-tidy.ts";
import { packIndexBytes, writePack } from "../../../src/git/pack-write.ts";
import { openRepository } from "../../../src/git/repository.ts";
import { commit, git, gitEnv, makeRepo, tempDir } from "../../helpers/git.ts";

const objectsOf = (dir: string) => openRepository(dir).objects;

/** Raw bytes of a git command's output. */
function gitBytes(cwd: string, args: string[], input = ""): Buffer {
  const run = spawnSync("git", args, { cwd, env: gitEnv(), input, maxBuffer: 1 << 30 });
  assert.equal(run.status, 0, run.stderr.toString());
  return run.stdout;
}

async function* inChunks(data: Uint8Array, size = 1000): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < data.length; at += size) yield data.subarray(at, at + size);
}

/** A history with renames, merges, a tag, a submodule entry, an empty file, a mode change. */
function history(): { dir: string; commits: string[] } {
  const dir = makeRepo();
  const text = (n: number) => Array.from({ length: 400 }, (_, i) => `line ${i * n}`).join("\n");
  const commits = [commit(dir, "one", { "a/b/c.txt": text(1), "d.txt": text(2), "empty": "" })];
  commits.push(commit(dir, "two", { "a/b/c.txt": text(1) + "\nmore" }));
  git(dir, "checkout", "-q", "-b", "side", commits[0]!);
  commits.push(commit(dir, "three", { "side.bin": randomBytes(5000), "d.txt": text(2) + "x" }));
  git(dir, "checkout", "-q", "main");
  git(dir, "merge", "-q", "--no-edit", "side");
  git(dir, "mv", "a", "moved");
  git(dir, "update-index", "--add", "--cacheinfo", `160000,${"1".repeat(40)},module`);
  git(dir, "commit", "-q", "-m", "four");
  commits.push(git(dir, "rev-parse", "HEAD"));
  git(dir, "tag", "-a", "v1", "-m", "tag");
  return { dir, commits };
}

test("enumerate() lists what git rev-list lists, everything behind what it needs", () => {
  const { dir, commits } = history();
  const objects = objectsOf(dir);
  for (const haves of [[], [commits[0]!], [commits[1]!, commits[2]!]]) {
    const wants = [git(dir, "rev-parse", "v1")];
    const list = [...enumerate(objects, wants, haves)];
    const want = git(dir, "rev-list", "--objects", ...wants, "--not", ...haves)
      .split("\n").map((line) => line.slice(0, 40));
    // Ours compares by path, so what moved is sent again: never less than git, no object twice.
    const ours = list.map(({ oid }) => oid);
    assert.equal(new Set(ours).size, ours.length);
    for (const oid of want) assert.ok(ours.includes(oid), oid);
    if (haves.length === 0) assert.deepEqual([...ours].sort(), [...want].sort());
    // What the receiver has may be sent again behind it; without haves the order is strict.
    if (haves.length > 0) continue;
    const seen = new Set<string>();
    const inside = new Set(ours);
    for (const { oid, type } of list) {
      const refers = type === "tree"
        ? git(dir, "ls-tree", oid).split("\n").filter((line) => !line.startsWith("160000"))
          .map((line) => /[0-9a-f]{40}/.exec(line)?.[0] ?? "")
        : type === "commit"
        ? git(dir, "show", "-s", "--format=%T %P", oid).split(" ").filter(Boolean)
        : [];
      for (const one of refers) {
        assert.ok(!inside.has(one) || seen.has(one), `${oid} before ${one}`);
      }
      seen.add(oid);
    }
  }
});

test("enumerate() reads nothing below an unchanged directory", () => {
  const dir = makeRepo();
  const files = Object.fromEntries(
    Array.from({ length: 50 }, (_, i) => [`big/${i % 7}/${i}`, `${i}`]),
  );
  const first = commit(dir, "first", { ...files, "small/x": "1" });
  const second = commit(dir, "second", { "small/x": "2" });
  const { read, has, stat } = objectsOf(dir);
  const asked: string[] = [];
  const counting = { has, stat, read: (oid: string) => (asked.push(oid), read(oid)) };
  const list = [...enumerate(counting, [second], [first])];
  assert.equal(list.length, 4);
  assert.ok(!asked.includes(git(dir, "rev-parse", "HEAD:big")));
  // Two commits, two root trees, two small trees.
  assert.equal(new Set(asked).size, 6);
});

test("enumerate() copes with clocks that ran backwards: it may send more, never less", () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ parents: fc.array(fc.nat(), { maxLength: 2 }), time: fc.nat(1000) }), {
        minLength: 2,
        maxLength: 25,
      }),
      fc.nat(),
      fc.nat(),
      (shape, want, have) => {
        const names: string[] = [];
        const parentsOf: string[][] = [];
        const contents = new Map<string, Uint8Array>();
        shape.forEach(({ parents, time }, i) => {
          const oid = (i + 1).toString(16).padStart(40, "0");
          const own = i === 0 ? [] : [...new Set(parents.map((p) => names[p % i]!))];
          names.push(oid);
          parentsOf.push(own);
          contents.set(
            oid,
            Buffer.from(
              `tree ${"e".repeat(40)}\n${own.map((p) => `parent ${p}\n`).join("")}` +
                `author a <a@b> ${time} +0000\ncommitter a <a@b> ${time} +0000\n\n${i}`,
            ),
          );
        });
        const objects = {
          has: (oid: string) => contents.has(oid) || oid === "e".repeat(40),
          stat: () => ({ type: "commit" as const, size: 0 }),
          read: (oid: string) =>
            oid === "e".repeat(40)
              ? { type: "tree" as const, data: Buffer.alloc(0) }
              : { type: "commit" as const, data: contents.get(oid)! },
        };
        const reach = (from: number) => {
          const found = new Set<string>();
          const stack = [names[from]!];
          for (let oid = stack.pop(); oid; oid = stack.pop()) {
            if (found.has(oid)) continue;
            found.add(oid);
            stack.push(...parentsOf[names.indexOf(oid)]!);
          }
          return found;
        };
        const w = want % names.length;
        const h = have % names.length;
        const got = new Set(
          [...enumerate(objects, [names[w]!], [names[h]!])].filter(({ type }) => type === "commit")
            .map(({ oid }) => oid),
        );
        const having = reach(h);
        const wanted = reach(w);
        for (const oid of wanted) if (!having.has(oid)) assert.ok(got.has(oid));
        for (const oid of got) assert.ok(wanted.has(oid));
      },
    ),
    { numRuns: 300 },
  );
});

test("storePack() writes packs that git verifies, byte for byte the same objects", () => {
  const { dir } = history();
  const list = [...enumerate(objectsOf(dir), [git(dir, "rev-parse", "v1")], [])];
  const bare = tempDir();
  git(bare, "init", "-q", "--bare", ".");
  const path = storePack(join(bare, "objects/pack"), objectsOf(dir), list)!;
  git(bare, "verify-pack", path);
  git(bare, "update-ref", "refs/tags/v1", git(dir, "rev-parse", "v1"));
  assert.equal(git(bare, "fsck", "--full", "--strict", "--no-dangling"), "");
  // The index is what git itself would make of this pack.
  const copy = join(tempDir(), "x.pack");
  copyFileSync(path, copy);
  git(bare, "index-pack", copy);
  assert.ok(
    readFileSync(copy.replace(/pack$/, "idx")).equals(readFileSync(path.replace(/pack$/, "idx"))),
  );
});

test("thin packs of ours are completed by git's index-pack", () => {
  const dir = makeRepo();
  const lines = Array.from({ length: 3000 }, (_, i) => `line ${i}`);
  const first = commit(dir, "first", { "t.txt": lines.join("\n") });
  const clone = tempDir();
  git(clone, "clone", "-q", "--bare", dir, ".");
  lines.splice(1000, 10, "changed", "lines");
  lines.push("at the end");
  const second = commit(dir, "second", { "t.txt": lines.join("\n") });
  const list = [...enumerate(objectsOf(dir), [second], [first])];
  const pack = Buffer.concat([...writePack(objectsOf(dir), list, { thin: true })]);
  assert.ok(pack.length < 1500, `${pack.length} bytes`);
  const run = spawnSync("git", ["index-pack", "--stdin", "--fix-thin", "--strict"], {
    cwd: clone,
    env: gitEnv(),
    input: pack,
  });
  assert.equal(run.status, 0, run.stderr.toString());
  assert.equal(git(clone, "cat-file", "blob", `${second}:t.txt`), lines.join("\n"));
});

test("packIndexBytes() says offsets beyond 2 GiB in its second table", () => {
  const entries = [
    { oid: "01".repeat(20), offset: 12, crc: 1 },
    { oid: "ff".repeat(20), offset: 2 ** 33 + 5, crc: 0xffffffff },
    { oid: "80".repeat(20), offset: 2 ** 31, crc: 2 },
  ];
  const index = packIndexBytes(entries, Buffer.alloc(20));
  const run = spawnSync("git", ["show-index"], { cwd: makeRepo(), env: gitEnv(), input: index });
  assert.equal(
    run.stdout.toString(),
    `12 ${"01".repeat(20)} (00000001)\n${2 ** 31} ${"80".repeat(20)} (00000002)\n` +
      `${2 ** 33 + 5} ${"ff".repeat(20)} (ffffffff)\n`,
  );
});

test("makeDelta() makes deltas that make the target", () => {
  const piece = fc.oneof(
    fc.uint8Array({ maxLength: 80 }),
    fc.constant(Buffer.from("the same words again and again, long enough to be found. ".repeat(3))),
    fc.nat(3).map((n) => Buffer.alloc(70_000, n)),
  );
  const content = fc.array(piece, { maxLength: 6 }).map((parts) => Buffer.concat(parts));
  fc.assert(
    fc.property(content, content, (base, target) => {
      const delta = makeDelta(base, target, target.length * 1.02 + 100);
      if (delta) assert.ok(applyDelta(base, delta)?.equals(target));
      else assert.ok(base.length < 16 || target.length < 16);
      assert.equal(makeDelta(base, target, -1), null);
    }),
    { numRuns: 150 },
  );
});

test("indexPack() takes git's packs, with every kind of delta", async () => {
  const { dir, commits } = history();
  const tip = git(dir, "rev-parse", "v1");
  for (const extra of [[], ["--delta-base-offset"], ["--depth=50", "--window=50"]]) {
    const pack = gitBytes(dir, ["pack-objects", "--stdout", "--revs", "-q", ...extra], `${tip}\n`);
    const bare = tempDir();
    git(bare, "init", "-q", "--bare", ".");
    for (const size of [1, 7, 65536]) {
      const path = await indexPack(inChunks(pack, size), join(bare, "objects/pack"));
      git(bare, "verify-pack", path!);
    }
    git(bare, "update-ref", "refs/tags/v1", tip);
    assert.equal(git(bare, "fsck", "--full", "--strict", "--no-dangling"), "");
  }
  const thin = gitBytes(
    dir,
    ["pack-objects", "--stdout", "--revs", "--thin", "-q"],
    `${tip}\n^${commits[0]}\n`,
  );
  const bare = tempDir();
  git(bare, "init", "-q", "--bare", ".");
  git(dir, "push", "-q", bare, `${commits[0]}:refs/heads/old`);
  const bases = objectsOf(bare);
  const path = await indexPack(inChunks(thin), join(bare, "objects/pack"), { bases });
  git(bare, "verify-pack", path!);
  git(bare, "update-ref", "refs/tags/v1", tip);
  assert.equal(git(bare, "fsck", "--full", "--strict", "--no-dangling"), "");
  // Without the bases it is refused whole.
  const empty = tempDir();
  git(empty, "init", "-q", "--bare", ".");
  await assert.rejects(
    indexPack(inChunks(thin), join(empty, "objects/pack"), { bases: objectsOf(empty) }),
    (error) => isAgentqError(error, "protocol-error"),
  );
  assert.deepEqual(readdirSync(join(empty, "objects/pack")), []);
});

test("indexPack() hashes large blobs without holding them", async () => {
  const dir = makeRepo();
  const tip = commit(dir, "large", { "zeros": Buffer.alloc(40_000_000), "after": "x" });
  const pack = gitBytes(dir, ["pack-objects", "--stdout", "--revs", "-q"], `${tip}\n`);
  const bare = tempDir();
  git(bare, "init", "-q", "--bare", ".");
  const path = await indexPack(inChunks(pack, 4096), join(bare, "objects/pack"));
  git(bare, "verify-pack", path!);
});

test("any damage to a pack is noticed, and nothing is left behind", async () => {
  const { dir } = history();
  const good = gitBytes(dir, ["pack-objects", "--stdout", "--revs", "-q"], "main\n");
  const bare = tempDir();
  git(bare, "init", "-q", "--bare", ".");
  const directory = join(bare, "objects/pack");
  const refused = (data: Uint8Array) =>
    assert.rejects(
      indexPack(inChunks(data), directory),
      (error) => isAgentqError(error, "protocol-error"),
    );
  for (const length of [0, 3, 11, 12, 31, 200, good.length - 21, good.length - 1]) {
    await refused(good.subarray(0, length));
  }
  await refused(Buffer.concat([good, Buffer.from([0])]));
  const { createHash } = await import("node:crypto");
  for (let at = 0; at < good.length - 20; at += Math.ceil(good.length / 60)) {
    const bad = Buffer.from(good);
    bad[at]! ^= 0x41;
    await refused(bad);
    // Damage that its sender vouches for: the checksum fits, the content doesn't.
    createHash("sha1").update(bad.subarray(0, -20)).digest().copy(bad, bad.length - 20);
    const path = await indexPack(inChunks(bad), directory).catch((error) => {
      assert.ok(isAgentqError(error, "protocol-error"), String(error.stack));
      return null;
    });
    // Only the content of a whole object may differ: then it is another object, not a wrong one.
    if (path !== null) git(bare, "verify-pack", path);
  }
  const left = readdirSync(directory).filter((name) => name.startsWith("tmp_"));
  assert.deepEqual(left, []);
});

test("readPackObjects() gives contents, and stops at its limit", async () => {
  const { dir, commits } = history();
  const pack = gitBytes(dir, ["pack-objects", "--stdout", "--revs", "-q"], "main\n");
  const objects = await readPackObjects(inChunks(pack), 1 << 20);
  assert.equal(
    Buffer.from(objects.get(commits[0]!)!.data).toString(),
    gitBytes(dir, ["cat-file", "commit", commits[0]!]).toString(),
  );
  await assert.rejects(
    readPackObjects(inChunks(pack), 100),
    (error) => isAgentqError(error, "protocol-error"),
  );
});

test("tidyPacks() puts many small packs into one that git accepts, and leaves others alone", async () => {
  const dir = makeRepo();
  const bare = tempDir();
  git(bare, "init", "-q", "--bare", ".");
  const directory = join(bare, "objects/pack");
  let before: string[] = [];
  let tip = "";
  const base = Array.from({ length: 300 }, (_, i) => `line ${i}`);
  for (let i = 0; i < 40; i++) {
    base[i] = `changed ${i}`;
    tip = commit(dir, `commit ${i}`, { "f.txt": base.join("\n"), [`new/${i}`]: `${i}` });
    if (i % 2 === 0) {
      storePack(directory, objectsOf(dir), [...enumerate(objectsOf(dir), [tip], before)]);
    } else {
      // As it comes from a server: deltas by distance.
      const revs = [tip, ...before.map((oid) => `^${oid}`)].join("\n") + "\n";
      const args = ["pack-objects", "--stdout", "--revs", "-q", "--thin", "--delta-base-offset"];
      await indexPack(inChunks(gitBytes(dir, args, revs)), directory, { bases: objectsOf(bare) });
    }
    before = [tip];
  }
  const packs = () => readdirSync(directory).filter((name) => name.endsWith(".pack"));
  const kept = packs()[0]!.replace(/pack$/, "keep");
  writeFileSync(join(directory, kept), "");
  assert.equal(packs().length, 40);
  const reader = objectsOf(bare);
  assert.ok(reader.has(tip));
  assert.equal(tidyPacks(directory), 39);
  assert.equal(packs().length, 2);
  git(bare, "update-ref", "refs/heads/main", tip);
  assert.equal(git(bare, "fsck", "--full", "--strict", "--no-dangling"), "");
  // A reader that knew the old packs finds everything in the new one.
  for (const line of git(bare, "rev-list", "--objects", tip).split("\n")) {
    reader.read(line.slice(0, 40));
  }
  assert.equal(tidyPacks(directory), 0);
});

test("tidyPacks() puts a promisor's packs together by themselves", () => {
  const dir = makeRepo();
  const bare = tempDir();
  git(bare, "init", "-q", "--bare", ".");
  const directory = join(bare, "objects/pack");
  let before: string[] = [];
  for (let i = 0; i < 70; i++) {
    const tip = commit(dir, `${i}`, { f: `${i}` });
    const list = [...enumerate(objectsOf(dir), [tip], before)];
    storePack(directory, objectsOf(dir), list, { promisor: i % 2 === 0 });
    before = [tip];
  }
  assert.equal(tidyPacks(directory), 70);
  const names = readdirSync(directory).sort().map((name) => name.replace(/^pack-\w+/, ""));
  assert.deepEqual(names.sort(), [".idx", ".idx", ".pack", ".pack", ".promisor"]);
  const marked = readdirSync(directory).find((name) => name.endsWith(".promisor"))!;
  git(bare, "verify-pack", join(directory, marked.replace("promisor", "idx")));
  git(bare, "update-ref", "refs/heads/main", before[0]!);
  assert.equal(git(bare, "fsck", "--full", "--strict"), "");
});

test("tidyPacks() does nothing beside a multi-pack-index", () => {
  const dir = makeRepo();
  const tips: string[] = [];
  for (let i = 0; i < 33; i++) {
    tips.push(commit(dir, `${i}`, { f: `${i}` }));
    const list = [...enumerate(objectsOf(dir), [tips[i]!], tips.slice(-2, -1))];
    storePack(join(dir, ".git/objects/pack"), objectsOf(dir), list);
  }
  git(dir, "multi-pack-index", "write");
  assert.equal(tidyPacks(join(dir, ".git/objects/pack")), 0);
  assert.equal(git(dir, "fsck", "--full", "--strict"), "");
});
