/** Lines that are as the base had them, and lines that close a block and are gone, whatever stands elsewhere. */
import { describe, test } from "node:test";
import { passes, refused, type Texts, within } from "../settled.ts";

describe("in a conflict, a line that only one side edited", () => {
  const list = (...kinds: string[]): string =>
    kinds.map((kind, i) => `${"abcd"[i]} = ${kind}(${i + 1})\n`).join("");
  const texts: Texts = [
    list("old", "old", "old", "old"),
    list("new", "new", "old", "old"),
    list("old", "old", "new", "new"),
  ];

  test("may not be back because the neighbours got the same word", () => {
    for (const back of [0, 1, 2, 3]) {
      const kinds = ["new", "new", "new", "new"].map((kind, i) => i === back ? "old" : kind);
      refused(texts, list(...kinds), new RegExp(`${"abcd"[back]} = new`));
      refused(texts.map(within) as unknown as Texts, within(list(...kinds)));
    }
    passes(texts, list("new", "new", "new", "new") + "e = 5\n");
  });

  const routes = (show: string, more = ""): string =>
    'const r = express.Router();\nr.get("/users", users.list);\n' +
    `r.get("/users/:id", ${show}users.show);\n${more}r.post("/users", auth, users.create);\n`;
  const posts = (auth = ""): string => `r.get("/users/:id/posts", ${auth}users.posts);\n`;
  const guarded: Texts = [routes(""), routes("auth, "), routes("", posts())];

  test("may not be back because what it got stands in the line that the other side put in", () => {
    refused(guarded, routes("", posts("auth, ")), /users\/:id", auth, users\.show/);
    passes(guarded, routes("auth, ", posts("auth, ")));
    passes(guarded, routes("auth, ", posts()) + "// more\n");
  });
  test("of several edited alike, neither", () => {
    const go = (x: string, y: string, more = ""): string =>
      `package y\n\nfunc X() {\n\tdo(${x}1)\n}\n\nfunc Y() {\n\tdo(${y}9)\n${more}}\n`;
    const texts: Texts = [go("", ""), go("ctx, ", "ctx, "), go("", "", "\tdo(10)\n")];
    refused(texts, go("ctx, ", "", "\tdo(ctx, 10)\n"), /do\(ctx, 9\)/);
    passes(texts, go("ctx, ", "ctx, ", "\tdo(ctx, 10)\n"));
  });
  test("may not be back where it was replaced by another word, or words changed places", () => {
    const list = (...names: string[]): string => names.map((name) => `- ${name}\n`).join("");
    const texts: Texts = [
      list("red", "green", "blue"),
      list("cyan", "green", "blue"),
      list("red", "green", "dark cyan"),
    ];
    refused(texts, list("red", "green", "dark cyan", "white"), /- cyan/);
    passes(texts, list("cyan", "green", "dark cyan", "white"));
    const map = (a: string, b: string, c: string): string => `a: ${a}\nb: ${b}\nc: ${c}\n`;
    const swapped: Texts = [map("x", "y", "z"), map("y", "x", "z"), map("x", "y", "w")];
    refused(swapped, map("x", "x", "w"), /a: y/);
    passes(swapped, map("y", "x", "w") + "d: v\n");
  });
  test("may stand again as a line that the other side put in", () => {
    const texts: Texts = [
      "begin\nsave(x)\nend\n",
      "begin\nsave(x, now)\nend\n",
      "begin\nsave(x)\nlog(x)\nsave(x)\nend\n",
    ];
    passes(texts, "begin\nsave(x, now)\nlog(x)\nsave(x)\nend\n");
    refused(texts, "begin\nsave(x)\nlog(x)\nsave(x)\nend\n# more\n");
  });
  test("may stand once where both sides made the same of it", () => {
    const changes = (top: string, day: string): string =>
      `Changelog\n\n${top}Version 1.0\n-----------\n\n${day}\n\n- A fix\n`;
    const [next, patch] = [
      "Version 1.1\n-----------\n\nunreleased\n\n",
      "Version 1.0.1\n-------------\n\nunreleased\n\n- Fix views\n\n",
    ];
    const day = "Released on April 26th 2018";
    passes(
      [changes("", "unreleased"), changes(next, day), changes(patch, day)],
      changes(next + patch, day),
    );
  });
});

describe("in a merge without a conflict, a line out of which one side took words", () => {
  const file = (line: string, other: string, last = ""): string =>
    `${line}\nstart()\n\n\n${other}\n\n# one${last}\n\n# two\n`;
  const REMOVALS = [
    ["verify(token, { skip: true })", "verify(token)", "log(token)", "log(token, { skip: true })"],
    ['cors(origin="*", creds=True)', "cors(creds=True)", "other(x)", 'other(x, origin="*")'],
    ["run(debug=True)", "run()", "x = make()", "x = make(debug=True)"],
    ["let v = parse(s).unwrap();", "let v = parse(s);", "w = read(s);", "w = read(s).unwrap();"],
    ["if not user.admin:", "if user.admin:", "if a:", "if not a:"],
    ["chmod 777 /data", "chmod /data", "cp a b", "cp a b\nchmod 777 b"],
  ] as const;
  for (const [old, now, before, after] of REMOVALS) {
    test(`may not have them again, though the other side uses them elsewhere: ${now}`, () => {
      const texts: Texts = [
        file(old, before),
        file(old, after),
        file(now, before, " plus something"),
      ];
      refused(texts, file(old, after, " plus something"));
      passes(texts, file(now, after, " plus something more"));
    });
  }
  test("may not be back where the other side put the same line in elsewhere", () => {
    const texts: Texts = [
      file("boot()\nlegacy_init()\nserve()", "k()"),
      file("boot()\nlegacy_init()\nserve()", "k()\nlegacy_init()"),
      file("boot()\nserve()", "k()", " more"),
    ];
    refused(texts, file("boot()\nlegacy_init()\nserve()", "k()\nlegacy_init()", " more"));
    passes(texts, file("boot()\nserve()", "k()\nlegacy_init()", " much more"));
  });
  test("may be adapted to what the other side did", () => {
    const texts: Texts = [
      file("user = fetch(id)", "x"),
      file("user = fetch(id)\nguest = fetch(0)", "x"),
      file("user = load(id)", "x", " more"),
    ];
    passes(texts, file("user = load(id)\nguest = load(0)", "x", " more"));
  });
});

describe("the line that closes a block which one side put in", () => {
  const file = (open: string, close: string, end: string, last: number): string =>
    `def f(a)\n${open}  g(a)\n  h(a)\n${close}${end}\n\ndef k\n  if x\n    y\n  ${end}\n${end}\n\nV = ${last}\n`;
  for (const [open, end] of [["if a.ok?", "end"], ["if (a.ok) {", "}"], ["with(a,", ");"]]) {
    test(`may not be gone: ${end}`, () => {
      const [first, last] = [`  ${open}\n`, `  ${end}\n`];
      const texts: Texts = [
        file("", "", end!, 1),
        file(first, last, end!, 1),
        file("", "", end!, 2),
      ];
      refused(texts, file(first, "", end!, 2));
      passes(texts, file(first, last, end!, 3));
    });
  }
  test("may not be gone before a block put in behind it", () => {
    const two = (middle: string): string =>
      `class A\n  def a\n    1\n  end\n${middle}\n  def z\n    2\n  end\nend\n`;
    const put = "\n  def m\n    3\n  end\n";
    const texts: Texts = [two(""), two(put), "# head\n" + two("")];
    refused(texts, "# head\n" + two(put).replace("    1\n  end\n", "    1\n"));
    refused(texts, "# head\n" + two(put).replace("    3\n  end\n", "    3\n"));
  });
  test("may be gone where each side closed what was open, in its way", () => {
    const open = (a: string, b: string): string =>
      `function f() {\n  if (x) {\n    y();\n${a}  z();\n  w();\n  v();\n${b}}\n`;
    passes(
      [open("", ""), open("  }\n", ""), open("", "  }\n")],
      open("  }\n", "") + "// more\n",
    );
  });
});

describe("a number that one side changed in a conflict", () => {
  const js = (a: string, b: string, more: string): string =>
    `function a(x){return x+${a}}\nfunction b(x){return x*${b}}\n` +
    `function c(x){return x-9}\nmodule.exports={a,b,c${more}}\n`;
  const formatted = (a: string, b: string, more: string): string =>
    ["a + " + a, "b * " + b, "c - 9"].map((one) =>
      `function ${one[0]}(x) {\n  return x${one.slice(1)};\n}\n`
    ).join("") + `module.exports = { a, b, c${more} };\n`;

  for (const [own, kind] of [["100", "number"], ["step", "word"]] as const) {
    test(`may not be the old one where the merge is also formatted (${kind})`, () => {
      const texts: Texts = [js("1", "2", ""), js(own, "2", ""), js("1", "3", ",VERSION:7")];
      refused(texts, formatted("1", "3", ", VERSION: 7"));
      refused(texts, formatted(own, "2", ", VERSION: 7"));
      passes(texts, formatted(own, "3", ", VERSION: 7"));
    });
  }
  test("may not be the old one in one of several lines, formatted", () => {
    const py = (a: string, b: string, c: string, is: string): string =>
      `TIMEOUT${is}${a}\nRETRIES${is}${b}\nLIMIT${is}${c}\n`;
    const texts: Texts = [
      py("30", "3", "9", "="),
      py("60", "3", "8", "="),
      py("30", "5", "9", "="),
    ];
    refused(texts, py("30", "5", "8", " = "), /TIMEOUT=60/);
    refused(texts, py("30", "5", "8", "  =  ") + "# more\n");
    passes(texts, py("60", "5", "8", " = "));
  });
});

describe("blanks that each side changed in lines of one conflict", () => {
  const yaml = (name: string, a: string, b: string): string =>
    `name: ${name}\nroot:\n${a}a: 1\n${b}b: 2\nend: 1\n`;
  test("are all there where every line stands as a side has it", () => {
    passes(
      [yaml("o", "  ", "  "), yaml("o", "  ", "    "), yaml("n", "    ", "  ")],
      yaml("n", "    ", "    "),
    );
    const py = (says: string, out: string, err: string): string =>
      `    assert out == "${says}"\ndef test_it():\n    assert out == "${out}"\n    assert err == "${err}"\n`;
    passes(
      [
        py("Go: away", "", "Prompt: "),
        py("Go: away", "", "Prompt:"),
        py("stopped", " ", "Prompt: "),
      ],
      py("stopped", " ", "Prompt:"),
    );
  });
  test("may not be lost", () => {
    const texts: Texts = [
      yaml("o", "  ", "  "),
      yaml("o", "  ", "    "),
      yaml("n", "    ", "  "),
    ];
    refused(texts, yaml("n", "    ", "  "), /layout alone/);
    refused(texts, yaml("n", "  ", "    "), /layout/);
    refused(texts, yaml("n", "  ", "  "));
  });
});
