import assert from "node:assert/strict";
import { chmodSync, mkdirSync, renameSync, symlinkSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { type Input, readInputs } from "../../src/platform/inputs.ts";
import { tempDir } from "../helpers/git.ts";

/** Values before and after a change. */
function around(input: Input, change: () => void): [string, string] {
  const before = readInputs([input])[0]!;
  assert.equal(readInputs([input])[0], before);
  change();
  return [before, readInputs([input])[0]!];
}

function differs(input: Input, change: () => void): void {
  const [before, after] = around(input, change);
  assert.notEqual(after, before, input.join(" "));
}

function stays(input: Input, change: () => void): void {
  const [before, after] = around(input, change);
  assert.equal(after, before, input.join(" "));
}

test("each question sees what it asks for", () => {
  const dir = tempDir();
  const file = join(dir, "file");
  const link = join(dir, "link");
  differs(["text", file], () => writeFileSync(file, ""));
  differs(["text", file], () => writeFileSync(file, "!ENOENT"));
  differs(["text", file], () => writeFileSync(file, "\xff\0"));
  stays(["text", file], () => chmodSync(file, 0o600));
  differs(["place", file], () => chmodSync(file, 0o644));
  stays(["place", file], () => writeFileSync(file, "more"));
  differs(["file", file], () => writeFileSync(file, "still more"));
  differs(["there", link], () => symlinkSync("nothing", link));
  stays(["kind", link], () => {});
  differs(["kind", join(dir, "nothing")], () => writeFileSync(join(dir, "nothing"), ""));
  stays(["there", link], () => unlinkSync(join(dir, "nothing")));
  differs(["kind", file], () => {
    renameSync(file, join(dir, "other"));
    mkdirSync(file);
  });
  differs(["names", dir, "x"], () => writeFileSync(join(dir, "xy"), ""));
  stays(["names", dir, "x"], () => writeFileSync(join(dir, "y"), ""));
  assert.deepEqual(readInputs([["text", dir], ["names", join(dir, "y"), ""]]), [
    "!EISDIR",
    "!ENOTDIR",
  ]);
});

test("a long file is known by its beginning and by which file it is", () => {
  const file = join(tempDir(), "long");
  const text = "x".repeat(100_000);
  writeFileSync(file, text);
  differs(["text", file], () => writeFileSync(file, `${text}x`));
  differs(["text", file], () => writeFileSync(file, `y${text}`));
  differs(["text", file], () => {
    writeFileSync(`${file}.new`, `y${text}`);
    renameSync(`${file}.new`, file);
  });
  differs(["text", file], () => writeFileSync(file, text.slice(0, 16 * 1024)));
});
