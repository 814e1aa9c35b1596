/** Conflicts of lines that both sides edited: what of either's edit may be missing, and what is an answer. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { describe, test } from "node:test";
import { importedNames } from "../../../src/merge/gate/imports.ts";
import { judge, within } from "../settled.ts";

type Case = readonly [name: string, base: string, hers: string, his: string, result: string];

/** In a file in which each side did something else too, and that is there. */
const among = (text: string, i: number): string =>
  (i % 2 === 1 ? "ada wrote this line up here\n" : "line of old\n") + within(text) +
  (i >= 2 ? "ben wrote that one down there\n" : "other line of old\n");

const sloppy: readonly Case[] = [
  [
    "a word that both brought, to one line each beside others of theirs",
    "a = load(x)\nb = save(y)\n",
    "a = await load(x, one)\nb = await save(y)\n",
    "a = await load(x, two)\nb = save(y, three)\n",
    "a = await load(x, two)\nb = save(y, three)\n",
  ],
  [
    "a word that both brought, each to the line that the other edited otherwise",
    "x = load(a)\ny = save(b)\n",
    "x = await load(a)\ny = save(b, 1)\n",
    "x = load(a, 2)\ny = await save(b)\n",
    "x = load(a, 2)\ny = await save(b, 1)\n",
  ],
  [
    "a word that both brought, in a line of its own making",
    "out(name)\n",
    "out(escape(name))\n",
    "print(escape(name), flush)\n",
    "print(name, flush)\n",
  ],
  [
    "two of three edits",
    "alpha = one\nbeta = two\ngamma = three\n",
    "alpha = uno\nbeta = dos\ngamma = tres\n",
    "alpha = eins\nbeta = zwei\ngamma = drei\n",
    "alpha = eins uno\nbeta = zwei\ngamma = drei\n",
  ],
  [
    "one of two edits",
    "alpha = one\nbeta = two\n",
    "alpha = one || fallback\nbeta = two || other\n",
    "alpha = one.value\nbeta = two.value\n",
    "alpha = one.value || fallback\nbeta = two.value\n",
  ],
  ["the order of arguments", "copy(a)\n", "copy(a, b)\n", "copy(b, a)\n", "copy(b, a)\n"],
  [
    "an order, under a word of the other's",
    "copy(a, b)\n",
    "copy(b, a)\n",
    "copy(a, b, flags)\n",
    "copy(a, b, flags)\n",
  ],
  [
    "an operator",
    "if (a < b) go()\n",
    "if (a <= b) go()\n",
    "if (a < b) goOn(now)\n",
    "if (a < b) goOn(now)\n",
  ],
  [
    "a word taken out",
    "run(a, unsafe)\n",
    "run(a)\n",
    "run(a, unsafe, quietly)\n",
    "run(a, unsafe, quietly)\n",
  ],
  [
    "a number, with the old one beside the other's word",
    "pool(10)\n",
    "pool(50)\n",
    "pool(10, quick)\n",
    "pool(10, quick)\n",
  ],
  [
    "an argument that the other uses in a line beside it",
    "mail = render(user)\nsend(mail)\n",
    "mail = render(user, token)\nsend(mail, now)\n",
    "mail = render(user)\naudit(token)\nsend(mail, later)\n",
    "mail = render(user)\naudit(token)\nsend(mail, now, later)\n",
  ],
  [
    "a number in a line that the other took out",
    "start(10)\nif (x < 5) send(token)\n",
    "start(10)\nif (x < 94) send(token)\n",
    "start()\n",
    "start()\n",
  ],
  [
    "a number in lines that the other moved",
    "f(10)\nstart()\nrun()\n",
    "f(20)\nstart()\nrun()\n",
    "start()\nrun(now)\nf(10)\n",
    "start()\nrun(now)\nf(10)\n",
  ],
];

const honest: readonly Case[] = [
  [
    "an order and a word",
    "copy(a, b)\n",
    "copy(b, a)\n",
    "copy(a, b, flags)\n",
    "copy(b, a, flags)\n",
  ],
  [
    "an operator and a word",
    "if (a < b) go()\n",
    "if (a <= b) go()\n",
    "if (a < b) goOn(now)\n",
    "if (a <= b) goOn(now)\n",
  ],
  [
    "an edit that the other made too, with another",
    'load("file:nonexistent")\nrun("file:other")\n',
    'load("file:nonexistent")\nrun("file:///other")\n',
    'load("file:///nonexistent")\nrun("file:///other")\n',
    'load("file:///nonexistent")\nrun("file:///other")\n',
  ],
  [
    "an item that both added, of which the other took another out",
    'python = ["3.7", "3.8", "3.11"]\n',
    'python = ["3.7", "3.8", "3.11", "3.12"]\n',
    'python = ["3.8", "3.11", "3.12"]\n',
    'python = ["3.8", "3.11", "3.12"]\n',
  ],
  [
    "an edit of both in other quotes",
    'each("name", list(commands))\n',
    'each("name", subcommands)\n',
    "each('name', subcommands)\n",
    'each("name", subcommands)\n',
  ],
  [
    "names in another order",
    "from x import a\n",
    "from x import a, b, c\n",
    "from x import c, a, b\n",
    "from x import a, b, c\n",
  ],
  [
    "a range of years for another",
    "# Copyright 2021-2023 Foo Inc.\n",
    "# Copyright 2021-2024 Foo Inc.\n",
    "# Copyright 2024 Foo Inc.\n",
    "# Copyright 2021-2024 Foo Inc.\n",
  ],
  [
    "a year for a range",
    "Copyright 2023\n",
    "Copyright 2023-2024\n",
    "Copyright 2024\n",
    "Copyright 2024\n",
  ],
  [
    "years in a row for a range",
    "# Copyright (c) 2021, 2023 Foo\n",
    "# Copyright (c) 2021, 2023, 2024 Foo\n",
    "# Copyright (c) 2021 - present Foo\n",
    "# Copyright (c) 2021 - present Foo\n",
  ],
  [
    "another number with a remark",
    "timeout = 10 # seconds\n",
    "timeout = 20 # seconds\n",
    "timeout = 30 # secs, as in the guide\n",
    "timeout = 30 # secs, as in the guide\n",
  ],
  [
    "a new name in what the other wrote",
    "let cnt = 0;\ncnt += 1;\n",
    "let count = 0;\ncount += 1;\n",
    "let cnt = 0;\ncnt += 2;\nlog(cnt);\n",
    "let count = 0;\ncount += 2;\nlog(count);\n",
  ],
  [
    "a parameter of one and a body of the other",
    "def f(a):\n    return a + 1\n",
    "def f(a, scale):\n    return a + 1\n",
    "def f(a):\n    log(a)\n    return a + 2\n",
    "def f(a, scale):\n    log(a)\n    return a + 2\n",
  ],
  [
    "conditions of both",
    "if (a && b) {\n",
    "if (a && b && c) {\n",
    "if (a && b || d) {\n",
    "if ((a && b && c) || d) {\n",
  ],
  [
    "a call laid out anew with the other's argument",
    "call(a, b)\n",
    "call(\n  a,\n  b,\n)\n",
    "call(a, b, c)\n",
    "call(\n  a,\n  b,\n  c,\n)\n",
  ],
  [
    "a call that was wrapped, with the other's argument",
    "do(x)\n",
    "try {\n  do(x)\n} catch (e) {\n  report(e)\n}\n",
    "do(x, retries)\n",
    "try {\n  do(x, retries)\n} catch (e) {\n  report(e)\n}\n",
  ],
  [
    "chained calls",
    "return x\n",
    "return x.trim()\n",
    "return x.toLowerCase()\n",
    "return x.trim().toLowerCase()\n",
  ],
  [
    "an import of the same name from elsewhere",
    "import logging\nimport re\n",
    "import logging\nfrom typing import Iterator\nimport re\n",
    "import logging\nfrom collections.abc import Iterator\nimport re\n",
    "import logging\nfrom collections.abc import Iterator\nimport re\n",
  ],
  [
    "a condition in two lines",
    "if self.by is not None:\n    s += at(self.by)\n",
    "if self.by is not None and self.by.place is not None:\n    s += show(self.by)\n",
    "if self.by is not None:\n    if self.by.place is not None:\n        s += find(self.by)\n",
    "if self.by is not None:\n    if self.by.place is not None:\n        s += show(find(self.by))\n",
  ],
  [
    "an argument in a line of its own",
    "call(\n    links=links,\n    urls=urls,\n)\n",
    "call(\n    links=links, urls=urls, lookup=lookup\n)\n",
    "call(\n    links=links,\n    urls=urls,\n    index=index,\n)\n",
    "call(\n    links=links,\n    urls=urls,\n    index=index,\n    lookup=lookup,\n)\n",
  ],
  [
    "numbers counted on",
    "#define A (1<<0)\n",
    "#define A (1<<0)\n#define B (1<<1)\n",
    "#define A (1<<0)\n#define C (1<<1)\n",
    "#define A (1<<0)\n#define B (1<<1)\n#define C (1<<2)\n",
  ],
];

const ways: readonly (readonly [string, (text: string, i: number) => string])[] = [
  ["alone", (text) => text],
  ["within", within],
  ["among other edits", among],
];

for (const [how, around] of ways) {
  const both = ([, ...texts]: Case): [string, string, string, string][] => {
    const of = (b: string, o: string, t: string, r: string): [string, string, string, string] =>
      [b, o, t, r].map(around) as [string, string, string, string];
    const [base, hers, his, result] = texts;
    return [of(base, hers, his, result), of(base, his, hers, result)];
  };

  describe(`of lines that both edited, ${how}, is refused without`, () => {
    for (const one of sloppy) {
      test(one[0], () => {
        for (const texts of both(one)) {
          assert.equal(judge(texts).ok, false);
          assert.deepEqual(judge(texts, ["f"]), { ok: true });
        }
      });
    }
  });

  describe(`of lines that both edited, ${how}, passes with`, () => {
    for (const one of honest) {
      test(one[0], () => {
        for (const texts of both(one)) assert.deepEqual(judge(texts), { ok: true });
      });
    }
  });
}

test("an import that one side alone added is answered by one of the same name", () => {
  const file = (head: string, tail = "end\n"): string =>
    `import logging\n${head}import re\n\n\nrun()\n${tail}`;
  const hers = file("from typing import Iterator\n");
  const his = file("", "end(now)\n");
  const of = (line: string) => judge([file(""), hers, his, file(line, "end(now)\n")]);
  assert.deepEqual(of("from collections.abc import Iterator\n"), { ok: true });
  assert.equal(of("").ok, false);
  // The old line brings it in, and the new one is what is missing.
  const old = "from typing import Iterator, List\n";
  const moved = "from collections.abc import Iterator\nfrom typing import List\n";
  assert.equal(
    judge([file(old), file(moved), file(old, "end(now)\n"), file(old, "end(now)\n")]).ok,
    false,
  );
  const both = file(`${old}from ada import more\n`);
  assert.equal(judge([file(old), file(moved), both, both]).ok, false);
});

test("the names that a line brings in", () => {
  const lines: readonly (readonly [string, readonly string[]])[] = [
    ["from typing import Iterator", ["Iterator"]],
    ["from x import (a, b as c)  # both", ["a", "c"]],
    ['import { a, b as c } from "x";', ["a", "c"]],
    ['import D, { type a } from "x"', ["D", "a"]],
    ["const { a, b: c } = require('x')", ["a", "c"]],
    ["use App\\Foo\\Bar;", ["Bar"]],
    ["use a::b::C as D;", ["D"]],
    ["import a.b.C;", ["C"]],
    ["from x import *", []],
    ["import * as x from './x'", ["x"]],
    ["import './side-effect'", []],
    ["x = load(a)", []],
  ];
  for (const [line, names] of lines) {
    assert.deepEqual(importedNames(Buffer.from(`${line}\n`)), names, line);
  }
});
