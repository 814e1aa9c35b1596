/** Conflicts of neighbouring lines (or numbers) that one side each edited. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { judge, passes, refused, type Texts, within } from "../settled.ts";

/** What stood there, what each side made of it, and what both together give. */
const EDITS: Record<string, readonly [string, string, string, string]> = {
  "calls wrapped alike": [
    "out(name)\nout(title)\n",
    "out(escape(name))\nout(title)\n",
    "out(name)\nout(escape(title))\n",
    "out(escape(name))\nout(escape(title))\n",
  ],
  "flags turned on": [
    '{\n  "newLogin": false,\n  "darkMode": false\n}\n',
    '{\n  "newLogin": true,\n  "darkMode": false\n}\n',
    '{\n  "newLogin": false,\n  "darkMode": true\n}\n',
    '{\n  "newLogin": true,\n  "darkMode": true\n}\n',
  ],
  "calls awaited": [
    "x = load()\ny = save()\n",
    "x = await load()\ny = save()\n",
    "x = load()\ny = await save()\n",
    "x = await load()\ny = await save()\n",
  ],
  "items ticked": [
    "- [ ] write docs\n- [ ] write tests\n",
    "- [x] write docs\n- [ ] write tests\n",
    "- [ ] write docs\n- [x] write tests\n",
    "- [x] write docs\n- [x] write tests\n",
  ],
  "neighbours' versions": [
    '    "react": "^17.0.0",\n    "vue": "^2.0.0"\n',
    '    "react": "^18.2.0",\n    "vue": "^2.0.0"\n',
    '    "react": "^17.0.0",\n    "vue": "^3.1.0"\n',
    '    "react": "^18.2.0",\n    "vue": "^3.1.0"\n',
  ],
  "two numbers of one line": [
    "pool({ max: 10, timeout: 30 })\n",
    "pool({ max: 50, timeout: 30 })\n",
    "pool({ max: 10, timeout: 90 })\n",
    "pool({ max: 50, timeout: 90 })\n",
  ],
};

describe("in a conflict, what one side each edited", () => {
  for (const [name, [base, hers, his, both]] of Object.entries(EDITS)) {
    for (const around of [(text: string) => text, within]) {
      const of = (result: string) =>
        [around(base), around(hers), around(his), around(result)] as const;
      const where = around === within ? " in a larger file" : "";

      test(`${name}${where}: neither side's may go`, () => {
        for (const result of [hers, his, base]) {
          const verdict = judge(of(result));
          assert.ok(!verdict.ok, result);
          assert.match(verdict.report, /^ *f: /m);
          assert.deepEqual(judge(of(result), ["f"]), { ok: true });
        }
      });

      test(`${name}${where}: both are taken`, () => {
        assert.deepEqual(judge(of(both)), { ok: true });
      });
    }
  }

  test("is a pick where both changed the same number", () => {
    const [base, hers, his] = ["limit = 10\nend\n", "limit = 20\nend\n", "limit = 30\nend\n"];
    for (const result of [hers, his]) {
      assert.deepEqual(judge([base, hers, his, result]), { ok: true });
    }
  });

  test("may be edited further", () => {
    const [base, hers, his] = EDITS["calls wrapped alike"]!;
    const result = "out(html(name))\nout(escape(title))\n";
    assert.deepEqual(judge([base, hers, his, result]), { ok: true });
  });
});

describe("a line that one side edited in signs alone, beside one that it put in or took out", () => {
  const KINDS: Readonly<Record<string, readonly [string, string, string]>> = {
    "a condition": [
      "  if (u.admin) return true;",
      "  if (!u.admin) return true;",
      "  if (u.banned) return false;",
    ],
    "a type": ["  me: User", "  me: User!", "  count: Int"],
    "a comparison": ["if a < b:", "if a <= b:", "    mark(c)"],
    "a range": ['  "one": "^1.0.0",', '  "one": "1.0.0",', '  "two": "2.0.0",'],
  };
  for (const [name, [old, now, more]] of Object.entries(KINDS)) {
    const text = (...all: string[]): string => `begin\n${all.join("\n")}\nend\n`;
    const [next, his] = ["  return u.id === d.owner;", "  return u.id === d.owner || d.shared;"];
    test(`may not be as it was: ${name}`, () => {
      for (const around of [(one: string) => one, within]) {
        const of = (...all: string[]): string => around(text(...all));
        const texts: Texts = [of(old, next), of(now, more, next), of(old, his)];
        refused(texts, of(old, more, his), /lacks what that side changed in line/);
        passes(texts, of(now, more, his));
      }
    });
  }
});
