import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import crypto from "node:crypto";
import { test } from "node:test";
import zlib from "node:zlib";
import fc from "fast-check";
import {
  crc32,
  deflate,
  inflateQuickly,
  inflateWholeQuickly,
} from "../../src/platform/compress.ts";
import { createHash, hash, randomBytes } from "../../src/platform/hash.ts";

const bytes = fc.oneof(
  fc.uint8Array({ maxLength: 300 }),
  fc.nat({ max: 300_000 }).map((length) => Buffer.alloc(length, "tree 4b825d\n")),
);

test("streams are zlib's own, at every level and size", () => {
  fc.assert(fc.property(bytes, fc.constantFrom(1, 6, 9), (data, level) => {
    assert.deepEqual(zlib.inflateSync(deflate(data, level)), Buffer.from(data));
    assert.deepEqual(zlib.inflateSync(deflate(data)), Buffer.from(data));
  }));
});

test("what is inflated quickly is what zlib inflates; what doesn't inflate is left to zlib", () => {
  fc.assert(fc.property(bytes, fc.uint8Array({ minLength: 1, maxLength: 40 }), (data, more) => {
    const stream = zlib.deflateSync(data);
    const longer = Buffer.concat([stream, more]);
    for (
      const quick of [inflateQuickly(stream), inflateWholeQuickly(stream), inflateQuickly(longer)]
    ) {
      if (quick !== null) assert.deepEqual(quick, Buffer.from(data));
    }
    // Bytes after the stream are no part of it, unless they happen to end like it.
    if (!longer.subarray(-4).equals(stream.subarray(-4))) {
      assert.equal(inflateWholeQuickly(longer), null);
    }
    const cut = stream.subarray(0, stream.length - 1 - (more[0]! % (stream.length - 1)));
    assert.equal(inflateQuickly(cut), null);
    const damaged = Buffer.from(stream);
    damaged[damaged.length - 1]! ^= more[0]! | 1;
    assert.equal(inflateQuickly(damaged), null);
  }));
});

test("checksums and digests are node's, whole or in pieces", () => {
  fc.assert(fc.property(bytes, fc.nat(), fc.string({ unit: "binary" }), (data, at, text) => {
    const cut = at % (data.length + 1);
    assert.equal(crc32(data.subarray(cut), crc32(data.subarray(0, cut))), zlib.crc32(data));
    for (const algorithm of ["sha1", "sha256"] as const) {
      const expected = crypto.createHash(algorithm).update(data).digest("hex");
      assert.equal(hash(algorithm, data), expected);
      const pieces = createHash(algorithm).update(data.subarray(0, cut)).update(data.subarray(cut));
      assert.deepEqual(pieces.digest(), Buffer.from(expected, "hex"));
      const said = crypto.createHash(algorithm).update(text, "utf8").digest("hex");
      assert.equal(createHash(algorithm).update(text).digest("hex"), said);
    }
  }));
});

test("random bytes are as many as asked for, and others each time", () => {
  for (const count of [1, 16, 1024, 65_536]) assert.equal(randomBytes(count).length, count);
  assert.notDeepEqual(randomBytes(16), randomBytes(16));
});
