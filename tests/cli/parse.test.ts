import { test } from "node:test";
import assert from "node:assert/strict";
import { locate, parse } from "../../cli/parse.ts";
import { COMMANDS } from "../../cli/table.ts";
import { isAgentqError } from "../../src/errors.ts";

const run = (...argv: string[]) => {
  const { spec, rest } = locate(argv, COMMANDS);
  return { name: spec.path.join(" "), ...parse(spec, rest) };
};
const usage = (...argv: string[]) => {
  try {
    run(...argv);
  } catch (error) {
    if (isAgentqError(error, "usage")) return error;
    throw error;
  }
  throw new Error(`accepted: ${argv.join(" ")}`);
};

test("global flags stand before or after the command", () => {
  const before = run("--repo", "/r", "--json", "status");
  const after = run("status", "--repo", "/r", "--json");
  assert.equal(before.name, "status");
  assert.deepEqual(before.given, { repo: "/r", json: true });
  assert.deepEqual(after.given, before.given);
});

test("a flag called --no-… is a flag of its own, not a negation", () => {
  assert.deepEqual(run("submit", "--no-wait").given, { "no-wait": true });
});

test("values may begin with a dash, hold spaces and newlines, or be empty", () => {
  assert.deepEqual(run("submit", "--title", "-x y\nz").given, { title: "-x y\nz" });
  assert.deepEqual(run("submit", "--title=").given, { title: "" });
});

test("--drop takes several paths", () => {
  assert.deepEqual(run("submit", "--drop", "a", "b", "--no-wait").given, {
    drop: ["a", "b"],
    "no-wait": true,
  });
});

test("-n is short for --number", () => {
  assert.deepEqual(run("log", "-n", "5").given, { number: "5" });
});

test("what is not understood is a usage error that names it", () => {
  assert.match(usage("submit", "--nope").message, /--nope/);
  assert.match(usage("wait").message, /ticket/);
  assert.match(usage("status", "extra").message, /too many arguments/);
  assert.match(usage("submit", "--title").message, /argument missing/);
  assert.match(usage("statsu").hint, /status/);
  assert.equal(usage("statsu").exitCode, 64);
});

test("every command has an example, and each example parses as that command", () => {
  for (const spec of COMMANDS) {
    assert.ok(spec.examples.length > 0, spec.path.join(" "));
    for (const example of spec.examples) {
      const line = example.split(" | ").find((part) => part.startsWith("agentq "));
      assert.ok(line, example);
      const words = [...line.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map((m) =>
        m[1] ?? m[2] ?? m[3]!
      );
      const argv = words.slice(1).filter((_, i, all) =>
        !all.slice(0, i + 1).some((w) => w === ">" || w === "<")
      );
      assert.equal(run(...argv).name, spec.path.join(" "), example);
    }
  }
});
