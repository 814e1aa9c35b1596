/** Lines of a conflict that both sides have, in one version or another, and the merge in none. */
import { describe, test } from "node:test";
import { passes, refused, type Texts, within } from "../settled.ts";

/** Lines that both sides edited: the base's, hers, his. */
const EDITS: Readonly<Record<string, readonly [string, string, string]>> = {
  "a version": ["pytest==9.0.1\n", "pytest==9.0.2\n", "pytest==9.1.0\n"],
  "a version of its first number alone": ["ruff==1\n", "ruff==2\n", "ruff==3\n"],
  "an action's commit": [
    "  - uses: actions/checkout@0c366fd6a839edf440554fa01a7085ccba70ac98 # v6.0.1\n",
    "  - uses: actions/checkout@df4cb1c069e1874edd31b4311f1884172cec0e10 # v6.0.3\n",
    "  - uses: actions/checkout@9c091bb21b7c1c1d1991bb908d89e4e9dddfe3e0 # v7.0.0\n",
  ],
  "arguments": [
    "  serve(port, routes);\n",
    "  serve(port, routes, limits);\n",
    "  serve(host, port, routes);\n",
  ],
  "one side's only": [
    "  ['_tests', 'src/_tests.c', []],\n",
    "  ['_tests', 'src/_tests.c', [], limited_api],\n",
    "  ['_tests', 'src/_tests.c', []],\n",
  ],
};

describe("a line of a conflict that both sides have", () => {
  for (const [name, [old, hers, his]] of Object.entries(EDITS)) {
    const more = (line: string, n: number): string =>
      `alpha: one\n${line}omega: ${n}\nlast: of these\n`;
    for (const around of [(text: string) => text, within]) {
      const texts = [more(old, 1), more(hers, 2), more(his, 3)].map(around) as unknown as Texts;
      test(`may not vanish: ${name}${around === within ? ", in a larger file" : ""}`, () => {
        refused(texts, around(more("", 2)));
        refused(texts, around(more("", 3)));
        refused(texts, around(more("", 4)));
        if (/version|commit|only/.test(name)) passes(texts, around(more(hers, 3)));
      });
    }
  }
  test("may not vanish though equal lines stand elsewhere", () => {
    const step = (tag: string): string =>
      `  - uses: actions/checkout@${tag}\n    with:\n      depth: 0\n`;
    const all = (...tags: string[]): string =>
      tags.map((tag, i) => `job${i}:\n${tag === "" ? "" : step(tag)}  - run: make job${i}\n`).join(
        "",
      );
    const texts: Texts = [all("v1", "v1", "v1"), all("v2", "v2", "v2"), all("v3", "v3", "v3")];
    passes(texts, all("v3", "v3", "v3"));
    passes(texts, all("v2", "v3", "v3"));
    passes(texts, all("v4", "v4", "v4"));
    const without = (n: number): string =>
      all("v3", "v3", "v3").replace(`job${n}:\n  - uses: actions/checkout@v3\n`, `job${n}:\n`);
    for (const n of [0, 1, 2]) refused(texts, without(n));
  });
});

describe("a line of a conflict that both sides have is there", () => {
  const texts: Texts = [
    "begin\nserve(port)\nend\n",
    "begin\nserve(port, limits)\nend\n",
    "begin\nserve(host, port)\nend\n",
  ];
  test("with both sides' edits", () => {
    passes(texts, "begin\nserve(host, port, limits)\nend\n");
  });
  test("in several lines", () => {
    passes(texts, "begin\nserve(\n  host,\n  port,\n  limits,\n)\nend\n");
  });
  test("at another place", () => {
    passes(texts, "begin\nend\nserve(host, port, limits)\n");
  });
  test("written anew", () => {
    passes(texts, "begin\nlisten({ host, port, limits, fallback, retries })\nend\n");
  });
  test("as either side has it, where only numbers differ", () => {
    passes(["v: 1\n", "v: 2\n", "v: 3\n"], "v: 3\n");
    passes(["v: 1\n", "v: 2\n", "v: 3\n"], "v: 4\n");
  });
});
