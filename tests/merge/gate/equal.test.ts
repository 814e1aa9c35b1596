/** Equal lines at several places, each of which both sides edited in their own way. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { judge, merged } from "./repo.ts";

const text = (one: string, two: string) =>
  [one, two].map((call, i) =>
    `function h${i}(id) {\n  const u = ${call};\n  return show${i}(u);\n}\n\n`
  ).join("");
const both = (call: string) => ({ "q.ts": text(call, call) });
const base = both("getUser(id)");
const renamed = both("fetchUser(id)");
const argued = both("getUser(id, {cache: true})");
const good = "fetchUser(id, {cache: true})";
for (const [n, hers, his] of [["r/a", renamed, argued], ["a/r", argued, renamed]] as const) {
  for (const lost of ["fetchUser(id)", "getUser(id, {cache: true})"]) {
    test(`an edit of equal lines is lost at one place (${n}, ${lost})`, () => {
      assert.equal(judge(merged(base, hers, his, { "q.ts": text(good, lost) })).ok, false);
    });
  }
  test(`edits of equal lines are kept at both (${n})`, () =>
    assert.equal(judge(merged(base, hers, his, { "q.ts": text(good, good) })).ok, true));
}
