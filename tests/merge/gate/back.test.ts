/** Lines that are as they were at one place, though equal lines, or other lines of the same change, stand elsewhere. */
import { describe, test } from "node:test";
import { passes, refused, type Texts } from "../settled.ts";

/** Four functions alike, but for the lines that each of them has. */
const functions = (line: (i: number) => string, end = ""): string =>
  ["users", "orders", "invoices", "audits"].map((name, i) =>
    `def purge_${name}(x):\n    prepare_${name}(x)\n${line(i)}    finish_${name}(x)\n\n\n`
  ).join("") + end;

const EQUAL_EDITS = {
  "commented out": ["    drop(x)\n", "    # drop(x)\n"],
  "made a call again": ["    # drop(x)\n", "    drop(x)\n"],
  "negated": ["    if (locked(x)) return\n", "    if (!locked(x)) return\n"],
  "with other arguments' order": ["    copy(x, y)\n", "    copy(y, x)\n"],
  "with a word taken out": ["    source venv/bin/activate\n", "    . venv/bin/activate\n"],
  "with a line deleted": ["    save(x)\n    drop(x)\n", "    save(x)\n"],
  "compared otherwise": ["    if x > 1: stop(x)\n", "    if x >= 1: stop(x)\n"],
  "edited in two lines": [
    "    copy(x, y)\n    if (a) b()\n",
    "    copy(y, x)\n    if (!a) b()\n",
  ],
} as const;

describe("a line that one side edited at several places, all alike", () => {
  for (const [name, [old, edited]] of Object.entries(EQUAL_EDITS)) {
    const among = (...those: number[]) => (i: number): string => those.includes(i) ? old : edited;
    test(`${name}, may not be back at one of them`, () => {
      const texts: Texts = [
        functions(() => old),
        functions(() => edited),
        functions(() => old, "# end\n"),
      ];
      for (const back of [[0], [1], [3], [0, 1], [1, 3]]) {
        refused(texts, functions(among(...back), "# end\n"));
      }
      passes(texts, functions(among(), "# end\n# more\n"));
    });
    test(`${name}, may not be back beside a conflict elsewhere`, () => {
      const texts: Texts = [
        functions(() => old, "limit = 1\n"),
        functions(() => edited, "limit = few\n"),
        functions(() => old, "limit = many\n"),
      ];
      refused(texts, functions(among(2), "limit = few or many\n"));
      passes(texts, functions(among(), "limit = few or many\n"));
    });
    test(`${name}, may not be back in a conflict`, () => {
      const logged = (line: string, i: number): string => (i === 1 ? "    log_it(x)\n" : "") + line;
      const texts: Texts = [
        functions(() => old),
        functions(() => edited),
        functions((i) => logged(old, i)),
      ];
      refused(texts, functions((i) => logged(among(1)(i), i)));
      passes(texts, functions((i) => logged(edited, i)));
    });
  }
});

test("a comma that one side put to a line, as equal lines have it, isn't missed in a conflict", () => {
  const hook = (type: string, comma: string): string =>
    `export type Hook = (\n  vnode: VNode,\n) => void\n\nexport type Ssr${type} = (\n` +
    `  binding: Binding${type},\n  vnode: VNode${comma}\n) => Data\n`;
  passes([hook("", ""), hook("<V>", ""), hook("", ",")], hook("<V>", "") + "// more\n");
});

describe("a line deleted in a conflict", () => {
  const file = (first: string, tried: string, last: string): string =>
    `export function call(fn, instance, args) {\n${first}  try {\n${tried}  } catch (err) {\n` +
    `    handleError(err, instance)\n  }\n${last}}\n\n` +
    "export function later() {\n  const res = call(a)\n  if (res) {\n    return res\n  }\n}\n";
  const [kept, atOnce] = [
    "    res = args ? fn(...args) : fn()\n",
    "    return args ? fn(...args) : fn()\n",
  ];
  const texts: Texts = [
    file("  let res\n", kept, "  return res\n"),
    file("", atOnce, ""),
    file("  let res\n", kept, "  stopTimer(instance)\n  return res\n"),
  ];
  test("may not be back because an equal one stands elsewhere", () => {
    refused(texts, file("", atOnce, "  stopTimer(instance)\n  return res\n"), /return res/);
    passes(texts, file("", atOnce, "  stopTimer(instance)\n"));
  });
  test("may not be back where it was, moved and doubled", () => {
    const list = (...names: string[]): string => names.map((name) => `${name} export\n`).join("");
    const texts: Texts = [
      list("tests", "phpunit", "attributes", "ignore", "emoji"),
      list("autoload", "emoji", "tests", "phpunit", "attributes", "ignore"),
      list("tests", "phpunit", "emoji", "git"),
    ];
    refused(texts, list("autoload", "emoji", "tests", "phpunit", "emoji", "git"), /emoji export/);
    passes(texts, list("autoload", "emoji", "tests", "phpunit", "git"));
  });
});

describe("an indentation that one side changed", () => {
  const file = (body: string, limit = "50"): string =>
    `def limit(n):\n    return n > ${limit}\n\n\ndef purge(order):\n    log(order)\n${body}    return True\n`;
  const flat = "    mark(order)\n    delete_everything(order)\n";
  const deep = "    if confirmed(order):\n        mark(order)\n        delete_everything(order)\n";
  const fallen = "    if confirmed(order):\n        mark(order)\n    delete_everything(order)\n";

  test("may not be the old one of a line in a block put under a condition", () => {
    refused([file(flat), file(deep), file(flat, "max")], file(fallen, "max"), /delete_everything/);
    const one = "    if confirmed(order):\n        mark(order)\n";
    refused(
      [file("    mark(order)\n"), file(one), file("    mark(order)\n", "max")],
      file(one.replace("        mark", "    mark"), "max"),
      /mark\(order\)/,
    );
  });
  test("nor of one that was taken out of a block", () => {
    const back = "    mark(order)\n        delete_everything(order)\n";
    refused([file(deep), file(flat), file(deep, "max")], file(back, "max"), /delete_everything/);
  });
  test("nor in a conflict with lines put in between", () => {
    const audited = (body: string, blanks: string): string =>
      body.replace(/ *delete/, (found) => `${blanks}audit(order)\n${found}`);
    const texts: Texts = [file(flat), file(deep), file(audited(flat, "    "))];
    refused(texts, file(audited(fallen, "        ")), /delete_everything/);
    passes(texts, file(audited(deep, "        ")));
  });
  test("nor of one key of several nested anew", () => {
    const pool = (name: string, nested: boolean): string =>
      `${name}:\n  pool:\n    min: 1\n${nested ? "    " : "  "}timeout: 5\n  ssl: true\n`;
    const yaml = (first: boolean, second: boolean, log: string): string =>
      `${pool("db", first)}${pool("cache", second)}log: ${log}\n`;
    const texts: Texts = [
      yaml(false, false, "x"),
      yaml(true, true, "x"),
      yaml(false, false, "y"),
    ];
    for (const first of [true, false]) refused(texts, yaml(first, !first, "y"), /timeout: 5/);
    passes(texts, yaml(true, true, "y") + "more: z\n");
  });
  test("may be a formatter's, or the old one where the condition is another", () => {
    const texts: Texts = [file(flat), file(deep), file(flat, "max")];
    passes(texts, file(deep, "max").replace(/^ +/gm, (blanks) => blanks.slice(blanks.length / 2)));
    passes(texts, file(`    if not confirmed(order):\n        return\n${flat}`, "max"));
  });
});

describe("a field that one side added, where the other took fields' lines away", () => {
  const base = "class S:\n    def __init__(self, host):\n        self.host = host\n" +
    "    def send(self, m):\n        c = connect(self.host)\n        c.write(m)\n";
  const ported = "class S:\n    def __init__(self, host, port=25):\n        self.host = host\n" +
    "        self.port = port\n    def send(self, m):\n        c = connect(self.host, self.port)\n" +
    "        c.write(m)\n";
  const data = (field: string, port: string): string =>
    `@dataclass\nclass S:\n    host: str\n${field}    def send(self, m):\n` +
    `        with connect(self.host${port}) as c:\n            c.write(m)\n`;
  const texts: Texts = [base, ported, data("", "")];
  test("may stand in a line of another make", () => {
    passes(texts, data("    port: int = 25\n", ", self.port"));
  });
  test("may not be missing", () => {
    refused(texts, data("", ", self.port"), /port/);
    refused(texts, data("", ""), /port/);
  });
});
