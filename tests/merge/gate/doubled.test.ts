/** Both sides' blocks one after the other: lines that one side replaced stand beside what it replaced them by. */
import { describe, test } from "node:test";
import { passes, refused, type Texts, within } from "../settled.ts";

/** Two neighbouring lines: as both found them, and as one and the other side made one of them. */
const KINDS: Readonly<Record<string, readonly [string, string, string, string]>> = {
  words: ["retries = 3", 'host = "a"', 'retries = env("RETRIES")', 'host = "b"'],
  numbers: ["timeout: 30", "retries: 3", "timeout: 60", "retries: 5"],
  code: ["  if (a == b) {", "    run(a)", "  if (a != b) {", "    run(a, b)"],
  "nothing in common": ["first entry", "second entry", "alpha", "beta"],
  imports: ["from a import x", "from b import y", "from a import x, z", "from b import y, w"],
};
const file = (...lines: string[]): string => `import os\n\n${lines.join("\n")}\n\nrun()\n`;

describe("in a conflict of neighbouring lines, what one side replaced", () => {
  for (const [name, [one, two, hers, his]] of Object.entries(KINDS)) {
    const texts: Texts = [file(one, two), file(hers, two), file(one, his)];
    test(`may not stand beside what it was replaced by: ${name}`, () => {
      const settled = [
        [hers, two, one, his],
        [one, his, hers, two],
        [hers, one, his],
        [one, hers, his],
        [hers, his, one],
        [hers, his, two],
        [hers, two, his],
      ];
      for (const lines of settled) {
        refused(texts, file(...lines), /lines back that were deleted/);
        refused(texts.map(within) as unknown as Texts, within(file(...lines)));
      }
      passes(texts, file(hers, his, "more()"));
      passes(texts, file(hers, "more()", his));
    });
    test(`may stand again where the other side put it in itself: ${name}`, () => {
      passes([texts[0], texts[1], file(one, his, one)], file(hers, his, one));
      passes([texts[0], texts[1], file(one, his, one)], file(hers, his, one, "more()"));
    });
  }
  test("may not be back where each side edited one more line, which both did", () => {
    const texts: Texts = [
      file("a = 1", "b = 1", "c = 1"),
      file("a = 2", "b = 2", "c = 1"),
      file("a = 1", "b = 3", "c = 3"),
    ];
    refused(texts, file("a = 2", "b = 2", "c = 1", "a = 1", "b = 3", "c = 3"), /a = 1|c = 1/);
    refused(texts, file("a = 2", "a = 1", "b = 3", "c = 3"), /a = 1/);
    passes(texts, file("a = 2", "b = 3", "c = 3", "d = 4"));
  });
  test("may not be back, of signs alone", () => {
    const texts: Texts = [
      file("go(a < b)", "go(c)"),
      file("go(a <= b)", "go(c)"),
      file("go(a < b)", "go(d)"),
    ];
    refused(texts, file("go(a <= b)", "go(c)", "go(a < b)", "go(d)"), /go\(/);
    refused(texts, file("go(a <= b)", "go(a < b)", "go(d)"), /go\(a < b\)/);
    passes(texts, file("go(a <= b)", "go(d)", "go(e)"));
  });
  test("may stand as often as it did besides", () => {
    const texts: Texts = [
      file("save(x)", "save(x)", "log(x)"),
      file("save(x)", "save(x, now)", "log(x)"),
      file("save(x)", "save(x)", "log(y)"),
    ];
    passes(texts, file("save(x)", "save(x, now)", "log(y)", "more()"));
    refused(texts, file("save(x)", "save(x, now)", "save(x)", "log(y)"), /save\(x\)/);
  });
  test("may stand as an import whose name the other side uses more", () => {
    const texts: Texts = [
      "from app import old\nfrom app import one\n\nold()\n",
      "from app import new\nfrom app import one\n\nnew()\n",
      "from app import old\nfrom app import two\n\nold()\n\ndef more():\n    two(old())\n",
    ];
    passes(
      texts,
      "from app import new\nfrom app import old\nfrom app import two\n\nnew()\n\ndef more():\n    two(old())\n",
    );
  });
  test("is missing nowhere where nothing was replaced, and both lists are kept", () => {
    const texts: Texts = [file("a", "b"), file("a", "b", "c one"), file("a", "b", "d two")];
    passes(texts, file("a", "b", "c one", "d two", "e"));
    passes(texts, file("a", "b", "d two", "c one"));
  });
});
