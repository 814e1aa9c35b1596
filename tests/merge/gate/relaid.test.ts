/** Lines that one side put under a condition, and that fell out of it again. */
import { describe, test } from "node:test";
import { passes, refused, type Texts, within } from "../settled.ts";

const code = (...lines: string[]): string =>
  ["function f(u, d) {", ...lines, "  a();", "  b();", "  return done;", "}", ""].join("\n");
const [OPEN, CLOSE] = ["  if (u.allowed) {", "  }"];
const [ONE, TWO] = ["  prepare(u);", "  send(d);"];

describe("a call that one side put into a block", () => {
  const guarded = code(OPEN, `  ${ONE}`, `  ${TWO}`, CLOSE);
  const settled: Readonly<Record<string, readonly [his: string, out: string, whole: string]>> = {
    "without a conflict": [
      code(ONE, TWO).replace("done", "all"),
      code(OPEN, `  ${ONE}`, CLOSE, TWO).replace("done", "all"),
      guarded.replace("done", "all"),
    ],
    "where the other side puts a line behind it": [
      code(ONE, TWO, "  log(u);"),
      code(OPEN, `  ${ONE}`, CLOSE, TWO, "  log(u);"),
      code(OPEN, `  ${ONE}`, `  ${TWO}`, CLOSE, "  log(u);"),
    ],
    "where the other side puts a line between": [
      code(ONE, "  log(u);", TWO),
      code(OPEN, `  ${ONE}`, CLOSE, "  log(u);", TWO),
      code(OPEN, `  ${ONE}`, "    log(u);", `  ${TWO}`, CLOSE),
    ],
    "where the other side edits its neighbour": [
      code(ONE.replace("u", "u, 3"), TWO),
      code(OPEN, `  ${ONE.replace("u", "u, 3")}`, CLOSE, TWO),
      code(OPEN, `  ${ONE.replace("u", "u, 3")}`, `  ${TWO}`, CLOSE),
    ],
  };
  for (const [name, [his, out, whole]] of Object.entries(settled)) {
    test(`may not fall out of it: ${name}`, () => {
      for (const around of [(text: string) => text, within]) {
        const texts = [code(ONE, TWO), guarded, his].map(around) as unknown as Texts;
        refused(texts, around(out), /layout/);
        passes(texts, around(whole));
      }
    });
  }

  test("may not fall out of one without brackets, in a file of nothing else", () => {
    const texts: Texts = [
      "def f(u, d):\n    prepare(u)\n    send(d)\n",
      "def f(u, d):\n    with lock:\n        prepare(u)\n        send(d)\n",
      "def f(u, d):\n    prepare(u)\n    send(d)\n    log(u)\n",
    ];
    const whole = "def f(u, d):\n    with lock:\n        prepare(u)\n        send(d)\n    log(u)\n";
    refused(texts, whole.replace("        send", "    send"), /layout/);
    passes(texts, whole);
  });
});
