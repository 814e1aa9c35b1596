import { afterEach, test } from "node:test";
import assert from "node:assert/strict";
import process from "node:process";
import { resolveFlags, sourceOf } from "../../cli/settings.ts";
import type { FlagSpec } from "../../cli/spec.ts";
import { isAgentqError } from "../../src/errors.ts";

const poll: FlagSpec = {
  name: "poll",
  kind: "seconds",
  value: "S",
  default: "1",
  min: 0.01,
  description: "",
};
const json: FlagSpec = { name: "json", kind: "boolean", description: "" };
const none = () => [];

afterEach(() => {
  delete process.env.AGENTQ_POLL;
  delete process.env.AGENTQ_JSON;
  delete process.env.AGENTQ_DROP;
});

test("flag beats environment beats config beats default", () => {
  const config = () => ["5", "4"];
  assert.equal(resolveFlags([poll], {}, none).poll, 1);
  assert.equal(resolveFlags([poll], {}, config).poll, 4);
  process.env.AGENTQ_POLL = "3";
  assert.equal(resolveFlags([poll], {}, config).poll, 3);
  assert.equal(resolveFlags([poll], { poll: "2.5" }, config).poll, 2.5);
});

test("where a setting was found is told, but for the command line and the default", () => {
  const config = () => ["5"];
  const from = (given: Record<string, unknown>, found: () => string[]) =>
    sourceOf(resolveFlags([poll], given, found), "poll");
  assert.equal(from({}, none), null);
  assert.equal(from({}, config), "git config agentq.poll");
  process.env.AGENTQ_POLL = "3";
  assert.equal(from({}, config), "AGENTQ_POLL");
  assert.equal(from({ poll: "2.5" }, config), null);
});

test("a flag of several values has them one a line in its variable, and one a value in config", () => {
  const drop: FlagSpec = {
    name: "drop",
    kind: "text",
    value: "PATH…",
    multiple: true,
    description: "",
  };
  const config = () => ["c d", "e"];
  const dropped = (given: Record<string, unknown>, from = config) =>
    resolveFlags([drop], given, from).drop;
  assert.deepEqual(dropped({}), ["c d", "e"]);
  process.env.AGENTQ_DROP = "a b\n\nx\n";
  assert.deepEqual(dropped({}), ["a b", "x"]);
  assert.deepEqual(dropped({ drop: ["y"] }), ["y"]);
  for (const empty of ["", "\n"]) {
    process.env.AGENTQ_DROP = empty;
    assert.deepEqual(dropped({}), ["c d", "e"]);
    assert.equal(dropped({}, none), undefined);
  }
  assert.throws(
    () => dropped({}, () => ["x", ""]),
    (error) => isAgentqError(error, "usage") && /^git config agentq\.drop: /.test(error.message),
  );
});

test("booleans are read from words", () => {
  process.env.AGENTQ_JSON = "yes";
  assert.equal(resolveFlags([json], {}, none).json, true);
  process.env.AGENTQ_JSON = "off";
  assert.equal(resolveFlags([json], {}, none).json, false);
});

test("a value that is not of its kind is refused and its source named", () => {
  const refused = (given: Record<string, unknown>, pattern: RegExp) =>
    assert.throws(
      () => resolveFlags([poll, json], given, none),
      (error) => isAgentqError(error, "usage") && pattern.test(error.message),
    );
  for (const bad of ["x", "-1", "1e3", "", "0x10", "NaN", "0", "1 2"]) {
    refused({ poll: bad }, /^--poll: /);
  }
  process.env.AGENTQ_JSON = "perhaps";
  refused({}, /^AGENTQ_JSON: /);
});
