/** Deletions undone in a conflict, numbers that both raised, and changes of layout alone. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { judge } from "../settled.ts";

const secret = (a: string, b: string, password = ""): string =>
  `a = ${a}\n${password}b = ${b}\nc = 3\n`;
const kept = "password = hunter2\n";

describe("lines that one side deleted in a conflict", () => {
  const base = secret("1", "2", kept);
  const hers = secret("1", "env");
  const his = secret("11", "2", kept);

  test("may not be back", () => {
    const result = secret("11", "env", kept);
    for (const texts of [[base, hers, his, result], [base, his, hers, result]] as const) {
      const verdict = judge(texts);
      assert.ok(!verdict.ok);
      assert.match(verdict.report, /f: has lines back that were deleted there \[/);
      assert.match(verdict.report, /^ {4}> password = hunter2$/m);
      assert.deepEqual(judge(texts, ["f"]), { ok: true });
    }
  });

  test("stay away", () => {
    assert.deepEqual(judge([base, hers, his, secret("11", "env")]), { ok: true });
  });

  test("may stand elsewhere in the file if the side moved them, and be edited", () => {
    const moved = secret("1", "env") + kept;
    assert.deepEqual(judge([base, moved, his, secret("11", "env") + kept]), { ok: true });
    const edited = secret("1", "env", "password = get(hunter2)\n");
    const result = secret("11", "env", "password = get(hunter2)\n");
    assert.deepEqual(judge([base, edited, his, result]), { ok: true });
  });

  test("are one of two answers where the other side edited them, or uses more of them", () => {
    const rest = "def new():\n    fresh()\n";
    const other = "def new():\n    fresh(widget)\n";
    const old = (call: string): string => `def old():\n    legacy()\n    ${call}\n\n\n`;
    const whole = [old("call()") + rest, other, old("call(1)") + rest] as const;
    assert.deepEqual(judge([...whole, old("call(1)") + other]), { ok: true });

    const used = "import a\nimport util\nimport b\n\nrun(b)\n";
    const without = "import a\nimport bb\n\nrun(b)\n";
    const more = "import aa\nimport util\nimport b\n\nrun(b, util)\n";
    const result = "import aa\nimport util\nimport bb\n\nrun(b, util)\n";
    assert.deepEqual(judge([used, without, more, result]), { ok: true });
  });
});

describe("a number that both sides raised alike", () => {
  test("may be raised once more", () => {
    const texts = [
      ["1.2.0\n", "1.3.0\n", "1.4.0\n"],
      [
        "assert len(ROUTES) == 3\nend\n",
        "assert len(ROUTES) == 4\nend\n",
        "assert len(ROUTES) == 5\nend\n",
      ],
    ] as const;
    for (const [base, both, result] of texts) {
      assert.deepEqual(judge([base, both, both, result]), { ok: true });
    }
  });

  test("may not be the old one, nor come with other words", () => {
    assert.equal(judge(["1.2.0\n", "1.3.0\n", "1.3.0\n", "1.2.0\n"]).ok, false);
    const two = (a: number, b: number): string => `version 1.${a}\nx\nschema 7${b}\n`;
    assert.equal(judge([two(2, 2), two(3, 3), two(3, 3), two(2, 4)]).ok, false);
    assert.equal(judge(["v 1.2.0\n", "v 1.3.0\n", "v 1.3.0\n", "w other\n"]).ok, false);
  });
});

describe("a number that one side changed", () => {
  const file = (n: number, end = "end()\n"): string =>
    `start\nrun --concurrency ${n}\nfiller\nfiller\nfiller\n${end}`;

  test("may be another one in the merge, but not the old one", () => {
    const of = (n: number) =>
      judge([file(100), file(150), file(100, "end(1)\n"), file(n, "end(1)\n")]);
    for (const n of [150, 200]) assert.deepEqual(of(n), { ok: true });
    assert.equal(of(100).ok, false);
  });
});

describe("of layout alone", () => {
  const minor: readonly (readonly [name: string, base: string, hers: string, his: string])[] = [
    ["a blank line", "a()\nb()\n", "a()\n\nb()\n", "a()\nx()\nb()\n"],
    [
      "blanks at a line's end",
      "one\ntwo  \nthree\n",
      "one\ntwo\nthree\n",
      "one\ntwo more  \nthree\n",
    ],
    ["the end of the last line", "one\ntwo", "one\ntwo\n", "one\ntwo three"],
  ];
  for (const [name, base, hers, his] of minor) {
    test(`${name} is no loss in a conflict`, () => {
      assert.deepEqual(judge([base, hers, his, his]), { ok: true });
      assert.equal(judge([base, hers, his, hers]).ok, false, "the words of the other side are");
    });
  }

  test("an indentation is one, and the report says that it is no more", () => {
    const code = (run: string): string => `if (a) {\n  go(1);\n${run}\n}\n`;
    const verdict = judge([
      code("  run(2);"),
      code("run(2);"),
      code("  run(3, x);"),
      code("  run(3, x);"),
    ]);
    assert.ok(!verdict.ok);
    assert.match(verdict.report, /f: lacks that side's change, which is one of layout alone \[/);
  });

  test("blank lines are one without a conflict", () => {
    const [base, hers] = ["a()\nb()\nc()\nd()\n", "a()\n\nb()\nc()\nd()\n"];
    assert.equal(judge([base, hers, "a()\nb()\nc()\ne()\n", "a()\nb()\nc()\ne()\n"]).ok, false);
  });
});
