import { test } from "node:test";
import assert from "node:assert/strict";
import fc from "fast-check";
import { locate, parse } from "../../cli/parse.ts";
import { parseFully } from "../../cli/parse-fully.ts";
import { parsePlain } from "../../cli/parse-plain.ts";
import { GLOBAL_FLAGS } from "../../cli/spec.ts";
import { COMMANDS } from "../../cli/table.ts";
import { isAgentqError } from "../../src/errors.ts";

const run = async (...argv: string[]) => {
  const { spec, rest } = locate(argv, COMMANDS);
  return { name: spec.path.join(" "), ...await parse(spec, rest) };
};
const usage = async (...argv: string[]) => {
  try {
    await run(...argv);
  } catch (error) {
    if (isAgentqError(error, "usage")) return error;
    throw error;
  }
  throw new Error(`accepted: ${argv.join(" ")}`);
};

test("global flags stand before or after the command", async () => {
  const before = await run("--repo", "/r", "--json", "status");
  const after = await run("status", "--repo", "/r", "--json");
  assert.equal(before.name, "status");
  assert.deepEqual(before.given, { repo: "/r", json: true });
  assert.deepEqual(after.given, before.given);
});

test("a flag called --no-… is a flag of its own, not a negation", async () => {
  assert.deepEqual((await run("submit", "--no-wait")).given, { "no-wait": true });
});

test("values may begin with a dash, hold spaces and newlines, or be empty", async () => {
  assert.deepEqual((await run("submit", "--title", "-x y\nz")).given, { title: "-x y\nz" });
  assert.deepEqual((await run("submit", "--title=")).given, { title: "" });
});

test("--drop takes several paths", async () => {
  assert.deepEqual((await run("submit", "--drop", "a", "b", "--no-wait")).given, {
    drop: ["a", "b"],
    "no-wait": true,
  });
});

test("-n is short for --number", async () => {
  assert.deepEqual((await run("log", "-n", "5")).given, { number: "5" });
});

test("what is not understood is a usage error that names it", async () => {
  assert.match((await usage("submit", "--nope")).message, /--nope/);
  assert.match((await usage("wait")).message, /ticket/);
  assert.match((await usage("status", "extra")).message, /too many arguments/);
  assert.match((await usage("submit", "--title")).message, /argument missing/);
  assert.match((await usage("statsu")).hint, /status/);
  assert.equal((await usage("statsu")).exitCode, 64);
});

test("every command has an example, and each example parses as that command", async () => {
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
      assert.equal((await run(...argv)).name, spec.path.join(" "), example);
    }
  }
});

test("what is read without the parser library is read as the library reads it", () => {
  let plain = 0;
  fc.assert(
    fc.property(
      fc.constantFrom(...COMMANDS).chain((spec) => {
        const flags = [...(spec.flags ?? []), ...GLOBAL_FLAGS];
        const named = flags.flatMap(({ name, short }) => [
          `--${name}`,
          `--${name}=v`,
          `--${name}=`,
          ...(short ? [`-${short}`, `-${short}5`] : []),
        ]);
        const word = fc.oneof(
          { weight: 3, arbitrary: fc.constantFrom(...named) },
          { weight: 3, arbitrary: fc.constantFrom("1", "a b", "x=y", "help") },
          { weight: 1, arbitrary: fc.constantFrom("", "-", "--", "-x", "--nope", "--js", "-5") },
        );
        return fc.tuple(fc.constant(spec), fc.array(word, { maxLength: 6 }));
      }),
      ([spec, rest]) => {
        const quick = parsePlain(spec, rest);
        if (quick === null) return;
        plain++;
        const full = parseFully(spec, rest);
        assert.deepEqual(quick.args, [...full.args]);
        assert.deepEqual(quick.given, { ...full.given });
      },
    ),
    { numRuns: 3000 },
  );
  assert.ok(plain > 300, `only ${plain} of 3000 lines were plain`);
});
