import { test } from "node:test";
import assert from "node:assert/strict";
import { commit, makeRepo } from "./git.ts";
import { AgentqError, isAgentqError } from "../../src/errors.ts";

test("commit() makes a commit that real git knows", () => {
  assert.match(commit(makeRepo(), "one", { "a.txt": "a\n" }), /^[0-9a-f]{40}$/);
});

test("AgentqError carries its code's hint and exit code", () => {
  const error = new AgentqError("usage", "no such flag");
  assert.equal(error.exitCode, 64);
  assert.ok(error.hint.length > 0);
  assert.ok(isAgentqError(error, "usage"));
});
