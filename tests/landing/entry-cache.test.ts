import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import fc from "fast-check";
import { hashObject } from "../../src/git/oid.ts";
import type { Oid } from "../../src/git/types.ts";
import { chainCommit } from "../../src/landing/chain-commit.ts";
import { openEntryCache } from "../../src/landing/entry-cache.ts";
import { openQueue } from "../../src/landing/snapshot.ts";
import { createFakeOrigin, fakeCommit } from "./fake-origin.ts";

const root = mkdtempSync(join(tmpdir(), "agentq-entries-"));
after(() => rmSync(root, { recursive: true, force: true }));
let files = 0;
const newFile = () => join(root, String(++files), "entries");

const contents = fc.uniqueArray(fc.uint8Array({ maxLength: 300 }), {
  maxLength: 20,
  selector: (bytes) => Buffer.from(bytes).toString("hex"),
});
const oidOf = (content: Uint8Array) => hashObject("commit", content);

function fill(file: string, list: readonly Uint8Array[]): void {
  const cache = openEntryCache(file);
  for (const content of list) cache.put(oidOf(content), content);
  cache.save();
}

describe("entries kept between runs", () => {
  test("what was put comes back, byte for byte, and nothing else", () =>
    fc.assert(
      fc.property(contents, fc.uint8Array({ minLength: 301, maxLength: 310 }), (list, other) => {
        const file = newFile();
        fill(file, list);
        const cache = openEntryCache(file);
        for (const content of list) {
          assert.deepEqual(Buffer.from(cache.get(oidOf(content))!), Buffer.from(content));
        }
        assert.equal(cache.get(oidOf(other)), undefined);
      }),
    ));

  test("a torn, cut or forged file gives the right content or none", () =>
    fc.assert(
      fc.property(contents, fc.nat(), fc.nat({ max: 255 }), fc.boolean(), (list, at, byte, cut) => {
        const file = newFile();
        fill(file, [Buffer.from("one at least"), ...list]);
        const data = readFileSync(file);
        const where = at % data.length;
        if (!cut) data[where] = byte;
        writeFileSync(file, cut ? data.subarray(0, where) : data);
        const cache = openEntryCache(file);
        for (const content of list) {
          const found = cache.get(oidOf(content));
          if (found) assert.deepEqual(Buffer.from(found), Buffer.from(content));
        }
      }),
    ));

  test("what was used last stays, within a bound", () => {
    const file = newFile();
    const list = Array.from(
      { length: 600 },
      (_, i) => Buffer.from(`entry ${i} ${"x".repeat(1000)}`),
    );
    fill(file, list.slice(0, 400));
    fill(file, list.slice(400));
    assert.ok(statSync(file).size <= 1024 * 1024);
    const cache = openEntryCache(file);
    for (const content of list.slice(400)) assert.ok(cache.get(oidOf(content)));
    assert.equal(list.filter((content) => cache.get(oidOf(content))).length, 512);
    const large = Buffer.alloc(1024 * 1024);
    fill(file, [large]);
    assert.equal(openEntryCache(file).get(oidOf(large)), undefined);
  });

  test("a file that can't be written or read is no failure, and leaves nothing behind", () => {
    const blocked = join(root, "blocked");
    writeFileSync(blocked, "");
    fill(join(blocked, "entries"), [Buffer.from("a")]);
    const directory = newFile();
    fill(join(directory, "entries"), [Buffer.from("a")]);
    fill(directory, [Buffer.from("b")]);
    assert.deepEqual(readdirSync(directory), ["entries"]);
    assert.equal(openEntryCache(directory).get(oidOf(Buffer.from("b"))), undefined);
    assert.ok(!existsSync(join(blocked, "entries")));
  });

  test("only what is new is read from the origin", async () => {
    const file = newFile();
    const fake = createFakeOrigin();
    let reads: Oid[] = [];
    const origin = fake.as("reader");
    const counted = {
      ...origin,
      readCommits: (oids: readonly Oid[]) => {
        reads.push(...oids);
        return origin.readCommits(oids);
      },
    };
    const candidate = fakeCommit(fake, [], "candidate");
    const put = (parents: readonly Oid[], message: Parameters<typeof chainCommit>[1]) => {
      const { oid, content } = chainCommit(parents, message, 1000);
      fake.objects.set(oid, { type: "commit", data: content });
      fake.refs.set("refs/weave/main/queue", oid);
      return oid;
    };
    const ticket = (parent: Oid, number: number) =>
      put([parent, candidate], {
        kind: "ticket",
        ticket: number,
        candidate,
        submitter: "s",
        verify_cmd: null,
        verify_timeout: 1,
        check: null,
        checkers: null,
      });
    const look = async () => {
      reads = [];
      const kept = openEntryCache(file);
      const { snapshot } = await openQueue(counted, {
        namespace: "refs/weave",
        branch: "main",
        kept,
      });
      kept.save();
      return snapshot.unacked;
    };
    const first = ticket(put([], { kind: "genesis", chain: "queue" }), 0);
    assert.equal(await look(), 1);
    assert.equal(reads.length, 2);
    assert.equal(await look(), 1);
    assert.deepEqual(reads, []);
    const second = ticket(first, 1);
    assert.equal(await look(), 2);
    assert.deepEqual(reads, [second]);
  });
});
