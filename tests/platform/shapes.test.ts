import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import * as z from "zod/mini";
import {
  exactly,
  isCount,
  isText,
  listOf,
  maybe,
  nullable,
  optional,
  shape,
  strictShape,
  textLike,
  whereWrong,
} from "../../src/platform/shapes.ts";

const fields = {
  v: exactly(1),
  token: textLike(/^[0-9a-f]{4}$/),
  count: optional(isCount),
  inner: nullable(strictShape({ a: isText, b: maybe(isCount) })),
  list: listOf(isText),
};
const count = z.int().check(z.gte(0));
const schemas = {
  v: z.literal(1),
  token: z.string().check(z.regex(/^[0-9a-f]{4}$/)),
  count: z.optional(count),
  inner: z.nullable(z.strictObject({ a: z.string(), b: z.optional(z.nullable(count)) })),
  list: z.array(z.string()),
};

/** Documents that are nearly right. */
const document = fc.record({
  v: fc.constantFrom<unknown>(1, 1, 1, 2, "1", null),
  token: fc.constantFrom<unknown>("00af", "00af", "00AF", "00af\n", 5),
  count: fc.constantFrom<unknown>(0, 7, -1, 1.5, 2 ** 53, null),
  inner: fc.oneof(
    fc.constantFrom<unknown>(null, {}, [], "x"),
    fc.record({
      a: fc.constantFrom<unknown>("", 1),
      b: fc.constantFrom<unknown>(0, null, "1"),
      __proto__: fc.constant(1),
    }, { requiredKeys: [] }),
  ),
  list: fc.constantFrom<unknown>([], ["a"], ["a", 1], {}),
  more: fc.constant(1),
}, { requiredKeys: ["v", "inner"] });

test("shapes accept what the same zod schemas accept, and say what they don't", () => {
  const pairs = [
    [shape(fields), z.looseObject(schemas)],
    [strictShape(fields), z.strictObject(schemas)],
  ] as const;
  fc.assert(
    fc.property(fc.oneof(document, fc.anything()), fc.constantFrom(...pairs), (made, pair) => {
      const value: unknown = JSON.parse(JSON.stringify(made) ?? "null");
      const [check, schema] = pair;
      const parsed = z.safeParse(schema, value);
      assert.equal(check(value), parsed.success);
      if (parsed.success || typeof value !== "object" || value === null) return;
      if (!Array.isArray(value)) assert.notDeepEqual(whereWrong(check, value), []);
    }),
    { numRuns: 5000 },
  );
});

test("the way to what is wrong leads to the field", () => {
  const good = { v: 1, token: "00af", inner: { a: "" }, list: [] };
  const check = strictShape(fields);
  assert.equal(check(good), true);
  assert.deepEqual(whereWrong(check, { ...good, inner: { a: 1 } }), ["inner", "a"]);
  assert.deepEqual(whereWrong(check, { ...good, inner: { a: "", c: 1 } }), ["inner", "c"]);
  assert.deepEqual(whereWrong(check, { ...good, count: -1 }), ["count"]);
  assert.deepEqual(whereWrong(check, { ...good, other: 1 }), ["other"]);
  assert.deepEqual(whereWrong(check, []), []);
});
