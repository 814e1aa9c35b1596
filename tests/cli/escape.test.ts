import { test } from "node:test";
import assert from "node:assert/strict";
import fc from "fast-check";
import { escapeLine, escapeTerminal } from "../../cli/output/escape.ts";

test("escapeTerminal() shows control characters and keeps newlines and other text", () => {
  assert.equal(
    escapeTerminal("a\x1b[31mb\r\n\tü 🐙\x9b\u202e"),
    "a\\x1b[31mb\\x0d\n\tü 🐙\\x9b\\u202e",
  );
  assert.equal(escapeTerminal("\ud800x"), "\\ud800x");
  assert.equal(escapeLine("a\nb\tc"), "a\\nb\\tc");
});

test("nothing that a terminal acts on gets through", () => {
  fc.assert(fc.property(fc.string({ unit: "binary", maxLength: 50 }), (text) => {
    const code = (char: string) => char.charCodeAt(0);
    for (const char of escapeTerminal(text)) {
      assert.ok(code(char) >= 0x20 || char === "\n" || char === "\t");
      assert.ok(code(char) < 0x7f || code(char) > 0x9f);
    }
  }));
});
