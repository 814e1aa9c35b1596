import assert from "node:assert/strict";
import { test } from "node:test";
import { AgentqError, ERROR_KINDS } from "../../src/errors.ts";

test("an error of the system has the hint for its errno, wherever it comes from", () => {
  const cause = Object.assign(new Error("no space"), { code: "ENOSPC" });
  for (const options of [{ details: { errno: "ENOSPC" } }, { cause }]) {
    assert.match(new AgentqError("io-error", "m", options).hint, /disk is full/);
  }
  assert.equal(new AgentqError("io-error", "m", { cause, hint: "own" }).hint, "own");
  assert.equal(new AgentqError("ref-moved", "m", { cause }).hint, ERROR_KINDS["ref-moved"].hint);
});
