import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { describe, test } from "node:test";
import fc from "fast-check";
import * as z from "zod/mini";
import { AgentqError } from "../../src/errors.ts";
import {
  bytesOf,
  decodeEnvelope,
  encodeEnvelope,
  MAX_BINARY_BYTES,
  MAX_ENVELOPE_BYTES,
} from "../../src/queuefs/payload.ts";

/** What an envelope is, said once more: the check by hand must agree with it. */
const envelope = z.object({
  id: z.string(),
  data: z.union([
    z.string().check(z.refine((text) => text.isWellFormed())),
    z.array(z.int().check(z.gte(0), z.lte(255))),
  ]),
});

describe("envelopes", () => {
  test("hold any bytes and give them back", () => {
    fc.assert(fc.property(fc.string(), fc.uint8Array(), (id, data) => {
      const decoded = decodeEnvelope(encodeEnvelope(id, data, 1_700_000_000_999));
      assert.ok("data" in decoded);
      assert.deepEqual(Buffer.from(decoded.data), Buffer.from(data));
    }));
  });

  test("hold more bytes than a list of them has room for, up to a bound that is named", () => {
    const some = new Uint8Array(200_000).map((_, i) => i * 7);
    const decoded = decodeEnvelope(encodeEnvelope("m", some, 0));
    assert.ok("data" in decoded && Buffer.from(decoded.data).equals(Buffer.from(some)));
    const large = (data: Uint8Array) => {
      assert.throws(() => encodeEnvelope("m", data, 0), (error) => {
        assert.ok(error instanceof AgentqError, String(error));
        assert.equal(error.code, "limit-exceeded");
        assert.match(error.message, new RegExp(`message m are too large: ${data.length} bytes`));
        return true;
      });
    };
    large(new Uint8Array(MAX_BINARY_BYTES + 1).fill(0xff));
    large(new Uint8Array(MAX_ENVELOPE_BYTES + 1));
    // Text, but six characters for each.
    large(new Uint8Array(MAX_BINARY_BYTES));
  });

  test("are read exactly where the schema of an envelope fits", () => {
    const value = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.string({ unit: fc.nat({ max: 0xffff }).map((unit) => String.fromCharCode(unit)) }),
      fc.array(fc.oneof(fc.integer({ min: -1, max: 256 }), fc.nat({ max: 255 }), fc.double())),
      fc.jsonValue(),
    );
    const json = fc.oneof(
      fc.record({ id: value, data: value, timestamp: fc.jsonValue() }, { requiredKeys: [] }),
      fc.record({ id: fc.string(), data: value }),
      fc.jsonValue(),
    );
    fc.assert(
      fc.property(json, (json) => {
        const text = JSON.stringify(json);
        const parsed = envelope.safeParse(JSON.parse(text));
        const decoded = decodeEnvelope(text);
        assert.equal("data" in decoded, parsed.success, text);
        if (!("data" in decoded)) return;
        const { data } = parsed.data!;
        assert.deepEqual(
          [...decoded.data],
          typeof data === "string" ? [...Buffer.from(data, "utf8")] : data,
        );
      }),
      { numRuns: 500 },
    );
  });

  test("say what is wrong with what can't be read", () => {
    const problems: [Uint8Array | string | null, RegExp][] = [
      [null, /missing/],
      [new Uint8Array([0x22, 0xff, 0x22]), /not UTF-8/],
      ["{", /not JSON/],
      ["null", /lacks id or data/],
      ["[]", /lacks id or data/],
      ['{"id":1,"data":""}', /lacks id or data/],
      ['{"id":"a"}', /lacks id or data/],
      ['{"id":"a","data":{}}', /lacks id or data/],
      ['{"id":"a","data":"\\ud800"}', /lone surrogate/],
      ['{"id":"a","data":[1.5]}', /no array of bytes/],
      ['{"id":"a","data":[256]}', /no array of bytes/],
    ];
    for (const [raw, words] of problems) {
      const decoded = decodeEnvelope(raw);
      assert.ok("problem" in decoded && words.test(decoded.problem), String(raw));
    }
  });

  test("text with a lone surrogate is refused before anything is kept", () => {
    for (const text of ["\ud800", "a\udfff", "\udc00\ud800"]) {
      assert.throws(() => bytesOf(text), { code: "payload-invalid" });
    }
  });
});
