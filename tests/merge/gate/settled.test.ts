/** Conflicts settled by hand: lines that a side put in and that are gone, and resolutions that lose nothing. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { judge, within } from "../settled.ts";

const LOG = "# Changes\n- start\n";
const KINDS = "enum Kind {\n  Alpha,\n  Beta,\n";
const HOME = 'app.get("/", home);\n';
const FS = 'import { readFile } from "fs";\n';
const total = (more = ""): string =>
  "function widgetTotal(items) {\n  let total = 0;\n  for (const item of items) {\n" +
  `    total += item.price;\n  }\n${more}  return total;\n}\n`;
const title = 'function dialogTitle(kind) {\n  return kind === "warn" ? "Careful" : "Note";\n}\n';
const own = "function third(thing) {\n  return thing;\n}\n";
const check = (name: string): string => `test("${name}", () => {\n  eq(${name}(), 2);\n});\n`;

type Case = readonly [name: string, base: string, hers: string, his: string, result: string];
/** What each side put in at one place, and what was made of it. */
const put = (
  name: string,
  base: string,
  hers: string,
  his: string,
  result: string,
  end = "",
): Case => [
  name,
  within(base + end),
  within(base + hers + end),
  within(base + his + end),
  within(base + result + end),
];
/** What each side made of some lines. */
const made = (name: string, base: string, hers: string, his: string, result: string): Case => [
  name,
  within(base),
  within(hers),
  within(his),
  within(result),
];

const sloppy: readonly Case[] = [
  put(
    "a changelog: the first of hers gone",
    LOG,
    "- repair widget crash\n- big feature\n",
    "- dark theme\n",
    "- dark theme\n- big feature\n",
  ),
  put(
    "a changelog: the last of hers gone",
    LOG,
    "- repair widget crash\n- big feature\n",
    "- dark theme\n",
    "- repair widget crash\n- dark theme\n",
  ),
  put(
    "a changelog: the last of his gone",
    LOG,
    "- dark theme\n",
    "- repair widget crash\n- big feature\n",
    "- dark theme\n- repair widget crash\n",
  ),
  put(
    "a changelog: a remark instead",
    LOG,
    "- repair widget crash\n- big feature\n",
    "- dark theme\n",
    "- dark theme\n- big feature\n<!-- both -->\n",
  ),
  put(
    "a changelog: an entry of words that stand elsewhere",
    LOG + "- fix crash of parser\n- fix leak of printer\n",
    "- fix leak of parser\n- big feature\n",
    "- dark theme\n",
    "- dark theme\n- big feature\n",
  ),
  put(
    "imports: one of two gone",
    FS,
    'import { a } from "./alpha";\nimport { b } from "./beta";\n',
    'import { c } from "./gamma";\n',
    'import { c } from "./gamma";\nimport { b } from "./beta";\n',
  ),
  put(
    "imports: two joined, a third gone",
    FS,
    'import { b } from "./x";\nimport { c } from "./y";\n',
    'import { a } from "./x";\n',
    'import { a, b } from "./x";\n',
  ),
  put(
    "a route table",
    HOME,
    'app.get("/users", users);\napp.get("/posts", posts);\n',
    'app.get("/tags", tags);\n',
    'app.get("/tags", tags);\napp.get("/users", users);\n',
    "app.listen(port);\n",
  ),
  put(
    "an enumeration",
    KINDS,
    "  Gamma,\n  Delta,\n",
    "  Epsilon,\n",
    "  Gamma,\n  Epsilon,\n",
    "}\n",
  ),
  put(
    "tests: one of two gone",
    check("a"),
    check("widget") + check("dialog"),
    check("mine"),
    check("mine") + check("dialog"),
  ),
  put(
    "requirements",
    "flask==1.0\n",
    "redis==4.1\ncelery==5.2\n",
    "boto3==1.9\n",
    "boto3==1.9\ncelery==5.2\n",
  ),
  put("a function of two", "x = 1\n", total() + title, own, own + total()),
  put(
    "a function whose call is there",
    "x = 1\n",
    "widgetTotal(all);\n" + total(),
    "third();\n",
    "widgetTotal(all);\nthird();\n",
  ),
  put(
    "a line of a function",
    "x = 1\n",
    total("  audit(total);\n"),
    "third();\n",
    "third();\n" + total(),
  ),
  put(
    "the second line with a word",
    "x = 1\n",
    "const widget = load();\nwidget.start();\n",
    "other();\n",
    "other();\nconst widget = load();\n",
  ),
  made(
    "lines instead of another",
    "old line here\n",
    "fresh words here\nplus widget matter\nand dialog matter\n",
    "mine was other\n",
    "mine was other\nplus widget matter\n",
  ),
  made(
    "lines between those that his changed",
    "a one\nb two\n",
    "a one\nadded by ada\nand closing\nb two\n",
    "a uno\nb due\n",
    "a uno\nand closing\nb due\n",
  ),
  made(
    "his lines with a word more",
    "old line here\n",
    "ada repairs the hole\n",
    "ben writes about it\n",
    "ben writes about it now\n",
  ),
  [
    "a line that fits, beside a conflict",
    within("m\n"),
    within("ada\n") + "end one\nwidget new\ndialog new\n",
    within("ben\n"),
    within("ada\nben\n") + "end one\nwidget new\n",
  ],
  put(
    "entries that only numbers tell apart",
    "- Fix #40\n",
    "- Fix #41\n- big\n",
    "- Fix #42\n",
    "- Fix #42\n- big\n",
  ),
  put("two names with numbers", "z\n", "foo: 30s\n", "bar: 45s\n", "bar: 45s\n"),
  put("a name with a number, gone", "z\n", "foo: 30s\n", "foo: 45s\n", ""),
  made(
    "the old duration",
    "timeout = 10s\n",
    "timeout = 20s\n",
    "timeout = 1h30m\n",
    "timeout = 10s\n",
  ),
  made(
    "words behind numbers",
    "use 1-alpha\n",
    "use 1-fabric\n",
    "use 1-ribbon\n",
    "use 1-ribbon\n",
  ),
  made(
    "a line that went out of a block",
    "if (a) {\n  go(1);\n  run(2);\n}\n",
    "if (a) {\n  go(1);\nrun(2);\n}\n",
    "if (a) {\n  go(1);\n  run(3, x);\n}\n",
    "if (a) {\n  go(1);\n  run(3, x);\n}\n",
  ),
];

const two = "- repair widget crash\n- big feature\n";
const honest: readonly Case[] = [
  put("a changelog with all", LOG, two, "- dark theme\n", "- dark theme\n" + two),
  put(
    "an entry reworded",
    LOG,
    two,
    "- dark theme\n",
    "- dark theme\n- mend the crash of a widget\n- big feature\n",
  ),
  put(
    "an entry in words of its own",
    LOG,
    two,
    "- dark theme\n",
    "- dark theme\n- mended some gadget's failure\n- big feature\n",
  ),
  put("entries joined", LOG, two, "- dark theme\n", "- dark theme, big feature, widget repaired\n"),
  put(
    "what both have, once",
    LOG,
    two,
    "- repair widget crash\n- dark theme\n",
    "- big feature\n- dark theme\n- repair widget crash\n",
  ),
  put(
    "imports in one",
    FS,
    'import { a } from "./x";\n',
    'import { b } from "./x";\n',
    'import { a, b } from "./x";\n',
  ),
  put(
    "imports of one name in one",
    FS,
    'import { a, h } from "./x";\n',
    'import { h } from "./x";\n',
    'import { a, h } from "./x";\n',
  ),
  put(
    "imports in one, over lines",
    FS,
    'import { a, h } from "./x";\n',
    'import { h, k } from "./x";\n',
    'import {\n  a,\n  h,\n  k,\n} from "./x";\n',
  ),
  made(
    "an enumeration sorted",
    KINDS + "}\n",
    KINDS + "  Gamma,\n  Delta,\n}\n",
    KINDS + "  Epsilon,\n}\n",
    KINDS + "  Delta,\n  Epsilon,\n  Gamma,\n}\n",
  ),
  put(
    "a formatter's layout",
    "x = 1\n",
    total(),
    "third(a, b);\n",
    "third(\n  a,\n  b,\n)\n" +
      total().replaceAll("(", "( ").replaceAll(";", "").replaceAll("  ", "\t"),
  ),
  made(
    "a function that has another name by now",
    "x = makeThing()\n",
    "x = makeThing()\ny = makeThing(widget)\n",
    "x = createThing()\nz = dialog()\n",
    "x = createThing()\nz = dialog()\ny = createThing(widget)\n",
  ),
  put(
    "an argument that has another name by now",
    "x = 1\n",
    "open(path, HASH_CONTENTS, 0666);\n",
    "third();\n",
    "third();\nopen(path, hash_flags, 0666);\n",
  ),
  put(
    "a guard that both put in",
    "user = find()\n",
    "if (user === undefined) return null\nlog(user, widget)\n",
    "if (!user) return null\n",
    "if (!user) return null\nlog(user, widget)\n",
    "return null\nif (user.name === undefined) go()\n",
  ),
  put(
    "one version of a dependency both put in, and the next line",
    '"a": "1",\n',
    '"foo": "1.2.0",\n"widget": "3",\n',
    '"foo": "1.3.0",\n',
    '"foo": "1.3.0",\n"widget": "3",\n',
  ),
];

describe("a conflict settled by hand is refused without", () => {
  for (const [name, ...texts] of sloppy) {
    test(name, () => {
      assert.equal(judge(texts).ok, false);
      assert.deepEqual(judge(texts, ["f"]), { ok: true });
    });
  }
});

describe("a conflict settled by hand passes with", () => {
  for (const [name, ...texts] of honest) {
    test(name, () => assert.deepEqual(judge(texts), { ok: true }));
  }
});

test("the report shows the lines that are missing, with nothing in them that acts on a terminal", () => {
  const verdict = judge([
    within(LOG),
    within(LOG + "- repair \x1b[31mwidget\u202e crash\n- big feature\n"),
    within(LOG + "- dark theme\n"),
    within(LOG + "- dark theme\n- big feature\n"),
  ]);
  assert.ok(!verdict.ok);
  assert.match(verdict.report, /f: lacks what that side changed in line 11 of its version \[/);
  assert.match(verdict.report, /^ {4}> - repair \\u\{1b\}\[31mwidget\\u\{202e\} crash$/m);
  assert.match(verdict.report, /edit f so that .*; git show [0-9a-f]{12}\^2:f has it\.$/m);
  assert.doesNotMatch(verdict.report, /git checkout [0-9a-f]{12}\^2 -- f/);
});
