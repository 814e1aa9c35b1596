/** Lines that the merge commented out. */
import { describe, test } from "node:test";
import { passes, refused, type Texts, within } from "../settled.ts";

const base = "start();\nload(settings);\nrun();\n";
const hers = "start();\nload(settings, cache);\nrun();\n";
const his = "start();\nload(settings);\nverify(token);\nrun();\n";

/** How a line is commented out in one language or another. */
const SIGNS: readonly ((line: string) => string)[] = [
  (line) => `// ${line}`,
  (line) => `//${line}`,
  (line) => `# ${line}`,
  (line) => `-- ${line}`,
  (line) => `; ${line}`,
  (line) => `/* ${line} */`,
  (line) => `<!-- ${line} -->`,
  (line) => `{/* ${line} */}`,
  (line) => `REM ${line}`,
];

describe("a line that the merge commented out is gone", () => {
  for (const out of SIGNS) {
    test(out("of a side's"), () => {
      for (const around of [(text: string) => text, within]) {
        const texts = [base, hers, his].map(around) as unknown as Texts;
        const settled = (one: string, two: string): string =>
          around(`start();\n${one}\n${two}\nrun();\n`);
        passes(texts, settled("load(settings, cache);", "verify(token);"));
        refused(texts, settled("load(settings, cache);", out("verify(token);")));
        refused(texts, settled(out("load(settings, cache);"), "verify(token);"));
        refused(texts, settled("load(settings, cache);", `  ${out("verify(token);")}`));
      }
    });
  }
  test("though no conflict was there", () => {
    const one = `import a\nimport b\n${"x = 1\ny = 2\nz = 3\n"}def f():\n    return a()\n`;
    const texts: Texts = [
      one,
      one.replace("import b\n", "import b\nimport c\n"),
      `${one}\n\n@guarded\ndef g():\n    return b()\n`,
    ];
    const both = texts[1] + texts[2].slice(one.length);
    refused(texts, both.replace("@guarded", "# @guarded"));
    refused(texts, both.replace("import c", "# import c"));
    refused(texts, both.replace("y = 2", "# y = 2").replace("z = 3", "# z = 3"));
    passes(texts, both.replace("@guarded", "# who may\n@guarded"));
  });
});

describe("a comment that a side has is a line like any other", () => {
  test("one that a side has", () => {
    const noted = `${base}// verify(token);\n`;
    passes([base, hers, noted], `${hers}// verify(token);\n`);
  });
  test("what the other made of a line that one side commented out", () => {
    passes([base, hers, base.replace("load", "// load")], hers.replace("load", "// load"));
  });
  test("a note of which a line is words", () => {
    passes([base, hers, his], `${hers.replace("run", "// load\nverify(token);\nrun")}`);
  });
});
