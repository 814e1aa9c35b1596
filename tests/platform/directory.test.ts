import assert from "node:assert/strict";
import { mkdtempSync, rmdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { isAgentqError } from "../../src/errors.ts";
import {
  absolutePath,
  currentDirectory,
  currentDirectoryOrNull,
} from "../../src/platform/directory.ts";

test("a current directory that was deleted is said to be, and only where it is needed", () => {
  const before = process.cwd();
  const directory = mkdtempSync(join(tmpdir(), "agentq-gone-"));
  try {
    process.chdir(directory);
    rmdirSync(directory);
    assert.equal(currentDirectoryOrNull(), null);
    const gone = (error: unknown) => isAgentqError(error, "current-directory-gone");
    assert.throws(() => currentDirectory(), gone);
    assert.throws(() => absolutePath("a"), gone);
    assert.equal(absolutePath("/a/../b"), "/b");
  } finally {
    process.chdir(before);
  }
  assert.equal(absolutePath("a"), join(before, "a"));
});
