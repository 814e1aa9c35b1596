/** Names as words of a shell's command line. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import fc from "fast-check";
import { shellPath } from "../../src/git/path-quote.ts";

/** What a shell takes these words for, as byte strings. */
function words(shell: string, command: string): string[] {
  // A program's own arguments end in NUL where /proc shows them: no other byte can stand in one.
  const { stdout, status, stderr } = spawnSync(
    shell,
    ["-c", `exec cat /proc/self/cmdline - ${command} </dev/null 2>/dev/null`],
  );
  assert.ok(status !== null, String(stderr));
  return Buffer.from(stdout).toString("latin1").split("\0").slice(3, -1);
}

const byte = fc.oneof(
  fc.constantFrom("\n", "\t", "'", '"', "\\", "%", "$", "`", " ", "é", "\xff", "-", "*", "~", "7"),
  fc.integer({ min: 1, max: 255 }).map((code) => String.fromCharCode(code)),
);
const name = fc.array(byte, { minLength: 1, maxLength: 12 }).map((bytes) => bytes.join("")).filter(
  (text) => !text.includes("é") || /^[\x01-\xff]*$/.test(text),
);

test("any name is one word, for any shell", () => {
  fc.assert(
    fc.property(fc.array(name, { minLength: 1, maxLength: 20 }), (names) => {
      const paths = names.map((text) => `x/${text}`);
      const plain = paths.filter((path) => !path.endsWith("\n"));
      assert.deepEqual(words("sh", plain.map(shellPath).join(" ")), plain);
      assert.deepEqual(words("bash", paths.map(shellPath).join(" ")), paths);
    }),
    { numRuns: 60 },
  );
});

test("only a name that ends with a newline needs a shell that knows $'…'", () => {
  assert.equal(shellPath("a b"), "'a b'");
  assert.equal(shellPath("a\tb"), `"$(printf 'a\\tb')"`);
  assert.equal(shellPath("100%\x07"), `"$(printf '100%%\\a')"`);
  assert.equal(shellPath("a\n"), "$'a\\n'");
});
