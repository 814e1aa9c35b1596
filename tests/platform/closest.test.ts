import { test } from "node:test";
import assert from "node:assert/strict";
import { closest } from "../../src/platform/closest.ts";

test("closest() finds the command that was meant, and nothing for a stranger", () => {
  assert.equal(closest("sumbit", ["submit", "status"]), "submit");
  assert.equal(closest("frobnicate", ["submit", "status"]), undefined);
});
