/** What of two sides' work may be picked, and any lines they put in at one place, in any order. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { judge, within } from "../settled.ts";

describe("either of two answers to one question passes:", () => {
  const hash = (letter: string): string => `"integrity": "sha512-${letter.repeat(86)}=="\n`;
  const code = "if (a) {\n  go(1);\n  run(2);\n}\n";
  const picks = [
    ["durations", "timeout = 10s\n", "timeout = 20s\n", "timeout = 1h30m\n"],
    ["sizes", "limit: 10MB\n", "limit: 512KiB\n", "limit: 1GB\n"],
    ["prereleases", "v: 1.1.9\n", "v: 1.2.0-rc.1\n", "v: 1.3.0\n"],
    ["Python's prereleases", "x==1.0a1\n", "x==1.0b2\n", "x==1.0.dev3\n"],
    ["integrity", hash("a"), hash("b"), hash("c")],
    [
      "pseudo-versions",
      "a v0.0.0-20240102030405-0123456789ab\n",
      "a v0.0.0-20240202030405-1123456789ab\n",
      "a v0.1.0\n",
    ],
    [
      "checksums",
      `rev: ${"a1".repeat(20)}\n`,
      `rev: ${"b1".repeat(20)}\n`,
      `rev: ${"c1".repeat(20)}\n`,
    ],
    ["months", "end = '11/2025'\n", "end = '02/2029'\n", "end = '11/2027'\n"],
    [
      "Rails' schema",
      "(version: 2024_01_01_000000)\n",
      "(version: 2024_02_01_101010)\n",
      "(version: 2024_02_03_121212)\n",
    ],
    [
      "days in words",
      "Updated: May 30, 2023.\n",
      "Updated: February 7, 2024.\n",
      "Updated: Mar 1st, 2024.\n",
    ],
    ["days the other way", "on 7 January 2023\n", "on 17 Feb. 2024\n", "on 1st March 2024\n"],
    ["short names of commits", "pin = a1b2c3d\n", "pin = 0123abc\n", "pin = fedcba98765\n"],
    ["a limit both put in", "z\n", "z\nfoo: 30s\n", "z\nfoo: 45s\n"],
    ["a dependency both put in", "z\n", 'z\n"foo": "^1.2.0"\n', 'z\n"foo": "^1.3.0-rc.1"\n'],
  ] as const;
  for (const [name, base, hers, his] of picks) {
    test(name, () => {
      for (const [one, other] of [[hers, his], [his, hers]] as const) {
        for (const around of [(text: string): string => text, within]) {
          const [b, o, t] = [base, one, other].map(around) as [string, string, string];
          assert.deepEqual(judge([b, o, t, o]), { ok: true });
          assert.deepEqual(judge([b, o, t, t]), { ok: true });
        }
      }
    });
  }

  test("but not words that look like one", () => {
    for (
      const [base, hers, his] of [
        ["sort by may 30\n", "sort by june\n", "filter by may 30\n"],
        ["pin = acceded\n", "pin = defaced\n", "pin = effaced\n"],
        ["x_1 = a_1\n", "x_1 = b_1\n", "x_1 = c_1\n"],
      ] as const
    ) {
      const [b, o, t] = [base, hers, his].map(within) as [string, string, string];
      assert.equal(judge([b, o, t, o]).ok, false, base);
    }
  });

  test("tabs in a whole file, or what was edited in it", () => {
    const tabs = within(code).replaceAll("  ", "\t");
    const edited = within(code.replace("run(2)", "run(3, x)"));
    assert.deepEqual(judge([within(code), tabs, edited, edited]), { ok: true });
    assert.deepEqual(judge([within(code), edited, tabs, edited]), { ok: true });
    assert.equal(judge([within(code), tabs, edited, tabs]).ok, false, "the edit is no layout");
  });
});

describe("lines put in at one place by both sides", () => {
  /** Entries of words that no two of them share. */
  const entries = fc.tuple(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 5 }));
  const entry = (side: string, i: number): string =>
    `- ${side}${"abcdefgh"[i]} changes the thing\n`;
  const setting = fc.record({
    counts: entries,
    before: fc.array(fc.constantFrom("- start\n", "# Changes\n", "\n", "- the thing\n"), {
      maxLength: 6,
    }),
    after: fc.array(fc.constantFrom("end\n", "\n", "- changes\n"), { maxLength: 6 }),
    order: fc.infiniteStream(fc.nat(9)),
    sorted: fc.boolean(),
    gone: fc.nat(),
  });

  test("in any order lose nothing, and any one of them gone is a loss", () => {
    fc.assert(
      fc.property(setting, ({ counts, before, after, order, sorted, gone }) => {
        const [hers, his] = (["hers", "his"] as const).map((side, n) =>
          Array.from({ length: counts[n]! }, (_, i) => entry(side, i))
        ) as [string[], string[]];
        const all = [...hers, ...his];
        const keys = new Map(all.map((line) => [line, order.next().value!]));
        const settled = sorted ? all.sort() : all.sort((a, b) => keys.get(a)! - keys.get(b)!);
        const file = (put: readonly string[]): string => [...before, ...put, ...after].join("");
        const merged = (put: readonly string[]) =>
          [file([]), file(hers), file(his), file(put)] as const;
        assert.deepEqual(judge(merged(settled)), { ok: true });
        const less = settled.filter((_, i) => i !== gone % settled.length);
        assert.equal(judge(merged(less)).ok, false, `passes without one: ${less.join("")}`);
        assert.deepEqual(judge(merged(less), ["f"]), { ok: true });
      }),
      { numRuns: 100 },
    );
  });
});
