/** Lines that one side put in, in a conflict, of which the file has more. */
import { describe, test } from "node:test";
import { passes, refused, type Texts, within } from "../settled.ts";

/** A kind of block, with the line in question or without. */
const KINDS: Readonly<Record<string, (name: string, line: boolean) => string>> = {
  "a decorator": (name, line) =>
    `${
      line ? "@login_required\n" : ""
    }def ${name}(request):\n    return render("${name}.html")\n\n\n`,
  "a dependency's scope": (name, line) =>
    `<dependency>\n  <groupId>org.${name}</groupId>\n  <artifactId>${name}</artifactId>\n` +
    `${line ? "  <scope>test</scope>\n" : ""}</dependency>\n`,
  "a guard": (name, line) =>
    `app.get("/${name}", (req, res) => {\n${line ? "  checkCsrf(req);\n" : ""}` +
    `  res.send(${name}());\n});\n\n`,
  "a flag": (name, line) =>
    `variable "${name}" {\n  type = string\n${line ? "  sensitive = true\n" : ""}}\n\n`,
};

describe("in a conflict, a line of a block that one side put in", () => {
  for (const [name, of] of Object.entries(KINDS)) {
    const base = of("home", false) + of("account", true);
    const texts: Texts = [base, base + of("billing", true), base + of("help", false)];
    test(`may not be gone though an equal line was there before: ${name}`, () => {
      refused(texts, base + of("help", false) + of("billing", false));
      refused(texts, base + of("billing", false) + of("help", false));
      const wide = texts.map(within) as unknown as Texts;
      refused(wide, within(base + of("help", false) + of("billing", false)));
      passes(texts, base + of("help", false) + of("billing", true));
      passes(texts, base + of("billing", true) + of("help", false) + "more\n");
    });
    test(`may not be gone though the other side put one in elsewhere: ${name}`, () => {
      const base = of("home", false) + "one\ntwo\n" + of("last", false);
      const texts: Texts = [
        base,
        base + of("billing", true),
        of("home", true) + "one\ntwo\n" + of("last", false) + of("help", false),
      ];
      const settled = (line: boolean): string => texts[2] + of("billing", line);
      refused(texts, settled(false));
      passes(texts, settled(true) + "more\n");
    });
  }

  const view = KINDS["a decorator"]!;
  const base = view("home", false) + view("account", true);
  const texts: Texts = [base, base + view("billing", true), base + view("help", false)];
  test("is quoted", () => {
    refused(texts, base + view("help", false) + view("billing", false), /> @login_required/);
  });
  test("may be adapted there", () => {
    const adapted = view("billing", true).replace("required", "required(role)");
    passes(texts, base + view("help", false) + adapted);
  });
  test("may have given way to another that the other side took out", () => {
    const both: Texts = [
      base,
      base + view("billing", true),
      view("home", false) +
      view("account", false) + view("help", false),
    ];
    passes(both, both[2] + view("billing", true));
  });
  test("counts once where both put it in alike", () => {
    const texts: Texts = [
      base,
      base + "setup(app)\nrun(one)\n",
      base + "setup(app)\nrun(two)\n",
    ];
    passes(texts, base + "setup(app)\nrun(one)\nrun(two)\n");
    passes(texts, base + "setup(app)\nrun(two)\nrun(one)\n# more\n");
  });
  test("may be one that many blocks have", () => {
    const of = (name: string, end = "    return None\n"): string =>
      `def ${name}(a):\n    if a.${name}:\n        go(a)\n${end}\n\n`;
    const base = of("one") + of("two");
    passes([base, base + of("three"), base + of("four")], base + of("four") + of("three", ""));
  });
});
