/** A state directory that is moved while a run uses it isn't made anew where it was. */
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { isAgentqError } from "../../src/errors.ts";
import { hashObject } from "../../src/git/oid.ts";
import { openEntryCache } from "../../src/landing/entry-cache.ts";
import { ticketNotes } from "../../src/landing/ticket-notes.ts";
import { tempDir } from "../helpers/git.ts";

test("tickets are noted in a state directory that is there, and make none", () => {
  const state = join(tempDir(), "state");
  mkdirSync(state);
  const notes = ticketNotes(state);
  notes.write("one", 1);
  assert.deepEqual([...notes.read()], [["one", 1]]);
  renameSync(state, `${state}.away`);
  assert.throws(() => notes.write("two", 2), (error) => isAgentqError(error, "io-error"));
  notes.tell("two", true);
  assert.equal(existsSync(state), false);
});

test("entries are kept where there was no state directory yet, and not where one was moved away", () => {
  const state = join(tempDir(), "state");
  const file = join(state, "entries", "one");
  const content = new TextEncoder().encode("content");
  const save = (cache: ReturnType<typeof openEntryCache>) => {
    cache.put(hashObject("commit", content), content);
    cache.save();
  };
  const first = openEntryCache(file);
  save(first);
  assert.deepEqual(readdirSync(join(state, "entries")), ["one"]);
  const second = openEntryCache(file);
  renameSync(state, `${state}.away`);
  save(second);
  assert.equal(existsSync(state), false);
  mkdirSync(state);
  const third = openEntryCache(file);
  save(third);
  assert.deepEqual(readdirSync(join(state, "entries")), ["one"]);
});
