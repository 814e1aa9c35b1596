/** Lines cut out of a merge's result, whoever wrote them: with a conflict elsewhere in the path and without. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { judge } from "../settled.ts";

const NAMES = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu".split(" ");
const fn = (name: string, call = "compute", more = ""): string =>
  `def ${name}(arg):\n    """Docs of ${name}."""\n    value = ${call}(arg)\n${more}    return value\n\n\n`;
/** A module of twelve functions: its mode, and what stands for some of them. */
const module = (mode: string, changes: Record<string, string> = {}): string =>
  `import os\n\nMODE = ${mode}\n\n\n` + NAMES.map((name) => changes[name] ?? fn(name)).join("");
const settled = "ada or ben";

const services = (name: string, hosts: Record<number, string> = {}, count = 12): string =>
  `{\n  "name": "${name}",\n` +
  Array.from(
    { length: count },
    (_, i) =>
      `  "service${i}": {\n    "host": "${hosts[i] ?? `h${i}`}",\n    "port": ${8000 + i}\n  }`,
  ).join(",\n") + "\n}\n";
const config = (one: string, five: string, three = "three = c\n"): string =>
  `one = ${one}\ntwo = b\n${three}four = d\nfive = ${five}\n`;

type Case = readonly [name: string, base: string, hers: string, his: string, result: string];
const conflict = (name: string, result: string, hers: Record<string, string> = {}): Case => [
  name,
  module("plain"),
  module("ada", hers),
  module("ben"),
  result,
];
const sloppy: readonly Case[] = [
  conflict("a function that neither side touched", module(settled, { theta: "" })),
  conflict(
    "a function in which one side edited a word",
    module(settled, { theta: "" }),
    { theta: fn("theta", "calculate") },
  ),
  conflict(
    "a function to which one side added a line",
    module(settled, { theta: "" }),
    { theta: fn("theta", "compute", "    audit(value)\n") },
  ),
  conflict(
    "a function in which one side changed no word",
    module(settled, { theta: "" }),
    { theta: fn("theta").replace("    return", "  return") },
  ),
  conflict("the end of the file", module(settled).slice(0, module(settled).indexOf("def zeta"))),
  conflict(
    "all that follows, for a remark",
    module(settled).slice(0, module(settled).indexOf("def gamma")) +
      "# ... rest of the file unchanged ...\n",
  ),
  conflict(
    "all but what was in conflict, for a remark",
    `import os\n\nMODE = ${settled}\n\n# ... rest of the file unchanged ...\n`,
  ),
  [
    "a few functions, for a remark",
    ...["plain", "ada", "ben"].map((mode) =>
      `import os\n\nMODE = ${mode}\n\ndef one():\n    return ready\n\ndef two(arg):\n    value = compute(arg)\n` +
      "    return value\n\ndef three():\n    return done\n"
    ) as [string, string, string],
    `import os\n\nMODE = ${settled}\n\n# ... rest of the file unchanged ...\n`,
  ],
  [
    "half of a configuration",
    services("old"),
    services("ada", { 3: "one" }),
    services("ben", { 3: "two" }),
    services("ada ben", { 3: "one two" }, 6),
  ],
  [
    "one line of a configuration, without a conflict",
    config("a", "e"),
    config("ada", "e"),
    config("a", "ben"),
    config("ada", "ben", ""),
  ],
  [
    "one line of a configuration, away from a conflict",
    config("a", "e"),
    config("ada", "e"),
    config("ben", "e"),
    config("ada ben", "e", ""),
  ],
  [
    "a function, without a conflict",
    module("plain"),
    module("plain", { theta: fn("theta", "calculate") }),
    module("ben"),
    module("ben", { theta: "" }),
  ],
];

const twice = 'import { a } from "./a";\n';
const honest: readonly Case[] = [
  conflict("everything there", module(settled)),
  conflict(
    "a function moved in the file",
    module(settled, { theta: "", mu: fn("mu") + fn("theta") }),
  ),
  conflict("a function written anew", module(settled, { theta: fn("theta", "quite_other") })),
  conflict(
    "a function's body for a call of another",
    module(settled, { theta: "def theta(arg):\n    return eta(arg)\n\n\n" }),
  ),
  conflict(
    "lines broken anew",
    module(settled).replaceAll("compute(arg)", "compute(\n        arg,\n    )"),
  ),
  conflict("blank lines gone", module(settled).replaceAll("\n\n\n", "\n\n")),
  [
    "an import that both added in different places, once",
    "x\n\nimport b\n\ny\n\nz\n\nend one\n",
    `${twice}x\n\nimport b\n\ny\n\nz\n\nend one\n`,
    `x\n\nimport b\n${twice}\ny\n\nz\n\nend two\n`,
    `x\n\nimport b\n${twice}\ny\n\nz\n\nend two\n`,
  ],
  [
    "a line beside a conflict that was adapted to how it was settled",
    "p = cut(file, 2)\nq = old()\nr = 1\ns = this.lazy.real.object(this.lazy.init, name, args)\nt = twice\nend()\n",
    "p = cut(file, 4)\nq = old()\nr = 1\ns = this.lazy.real.object(this.lazy.init, name, args)\nt = twice\nend()\n",
    "p = cut(file, 3)\nq = new()\nr = 1\ns = this.lazy.real.object(this.lazy.init, name, args)\nt = twice\nend()\n",
    "p = cut(file, 3)\nq = new()\nr = 1\ns = this.initialized(name, args)\nt = twice\nend()\n",
  ],
  [
    "the line beside a conflict, which settling it made needless",
    "a = 1\nif scheme is None:\n    scheme = get()\nrun()\nend()\n",
    "a = 1\nif scheme is None:\n    scheme = take()\nrun()\nend()\n",
    "a = 1\nif scheme is None:\n    scheme = fetch()\nrun()\nend()\n",
    "a = 1\nscheme = scheme or take() or fetch()\nrun()\nend()\n",
  ],
];

describe("a merge is refused without", () => {
  for (const [name, base, hers, his, result] of sloppy) {
    test(name, () => {
      for (const [one, other] of [[hers, his], [his, hers]] as const) {
        const verdict = judge([base, one, other, result]);
        assert.ok(!verdict.ok);
        assert.match(verdict.report, /^ {2}f: (lacks|shows next to nothing)/m);
      }
      assert.deepEqual(judge([base, hers, his, result], ["f"]), { ok: true });
    });
  }
});

describe("a merge passes with", () => {
  for (const [name, base, hers, his, result] of honest) {
    test(name, () => {
      assert.deepEqual(judge([base, hers, his, result]), { ok: true });
      assert.deepEqual(judge([base, his, hers, result]), { ok: true });
    });
  }
});

test("of lines cut out the report shows the first ones", () => {
  const verdict = judge([
    module("plain"),
    module("ada"),
    module("ben"),
    module(settled, { theta: "" }),
  ]);
  assert.ok(!verdict.ok);
  assert.match(verdict.report, /f: lacks lines that merging gives beside what was in conflict$/m);
  assert.match(verdict.report, /^ {4}> def theta\(arg\):$/m);
});

test("a file that neither side changed may be adapted, but not cut short by more than half", () => {
  const base = module("plain");
  const short = base.slice(0, base.indexOf("def delta"));
  const adapted = module("plain", { mu: "", lambda: fn("lambda", "other") });
  const verdict = judge([base, base, base, short]);
  assert.ok(!verdict.ok);
  assert.match(
    verdict.report,
    /f: was changed by neither side and has less than half of its words$/m,
  );
  assert.deepEqual(judge([base, base, base, short], ["f"]), { ok: true });
  assert.deepEqual(judge([base, base, base, adapted]), { ok: true });
});
