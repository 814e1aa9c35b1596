/** Texts merged by us and by `git merge-file`. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import fc from "fast-check";
import { mergeTexts, type TextMergeOptions } from "../../src/merge/text/merge3.ts";
import { gitEnv, tempDir } from "../helpers/git.ts";

const LABELS = { ours: "A", base: "O", theirs: "B" };
const bytes = (text: string): Buffer => Buffer.from(text, "latin1");

const line = fc.constantFrom(
  "a\n",
  "b\n",
  "c\n",
  "{\n",
  "}\n",
  "\n",
  "x y\r\n",
  "\t\n",
  "\xe9\n",
  "\r\n",
  "q\rz\n",
);
const text = fc.tuple(fc.array(line, { maxLength: 30 }), fc.constantFrom("", "", "", "end"))
  .map(([lines, end]) => lines.join("") + end);
const edits = fc.array(
  fc.record({ at: fc.nat(30), remove: fc.nat(4), add: fc.array(line, { maxLength: 3 }) }),
  { maxLength: 4 },
);

function edit(original: string, changes: { at: number; remove: number; add: string[] }[]): string {
  const lines = original.match(/[^\n]*\n|[^\n]+$/g) ?? [];
  for (const { at, remove, add } of changes) lines.splice(at, remove, ...add);
  return lines.join("");
}

describe("mergeTexts() gives what git merge-file gives", () => {
  const dir = tempDir();

  test("in every style, with every way to settle conflicts", () => {
    fc.assert(
      fc.property(
        text,
        edits,
        edits,
        fc.constantFrom("merge", "diff3", "zdiff3" as const),
        fc.constantFrom(undefined, undefined, "ours", "theirs", "both" as const),
        fc.constantFrom(7, 7, 3, 12),
        (base, oursEdits, theirsEdits, style, favor, markerSize) => {
          const [ours, theirs] = [edit(base, oursEdits), edit(base, theirsEdits)];
          for (const [name, content] of Object.entries({ base, ours, theirs })) {
            writeFileSync(join(dir, name), bytes(content));
          }
          const args = [
            "merge-file",
            "-p",
            "-q",
            "-L",
            "A",
            "-L",
            "O",
            "-L",
            "B",
            `--marker-size=${markerSize}`,
          ];
          if (style !== "merge") args.push(`--${style}`);
          if (favor) args.push(favor === "both" ? "--union" : `--${favor}`);
          const git = spawnSync("git", [...args, "ours", "base", "theirs"], {
            cwd: dir,
            env: gitEnv(),
          });
          const options = {
            labels: LABELS,
            style,
            favor,
            markerSize,
            algorithm: "myers",
            level: "alnum",
          };
          const own = mergeTexts(
            bytes(base),
            bytes(ours),
            bytes(theirs),
            options as TextMergeOptions,
          );
          assert.equal(Buffer.from(own.data).toString("latin1"), git.stdout.toString("latin1"));
          assert.equal(own.conflicts, git.status);
          assert.equal(own.regions.length, own.conflicts);
        },
      ),
      { numRuns: 400 },
    );
  });
});

describe("mergeTexts()", () => {
  const merge = (base: string, ours: string, theirs: string) => {
    const { data, ...rest } = mergeTexts(bytes(base), bytes(ours), bytes(theirs), {
      labels: LABELS,
    });
    return { text: Buffer.from(data).toString("latin1"), ...rest };
  };

  test("names each conflict's lines in the marked text, markers included", () => {
    const { text, regions } = merge(
      "1\n2\n3\n4\n5\n6\n7\n",
      "1\nA\n3\n4\n5\n6\nA\n",
      "1\nB\n3\n4\n5\n6\nB\n",
    );
    const lines = text.split("\n");
    assert.deepEqual(regions, ["2-6", "11-15"]);
    assert.equal(lines[1], "<<<<<<< A");
    assert.equal(lines[5], ">>>>>>> B");
    assert.equal(lines[10], "<<<<<<< A");
  });

  test("keeps lone CR, U+2028 and bytes that are no UTF-8 as they are", () => {
    const odd = "a\rb\n\xe2\x80\xa8\n\xff\xfe\n";
    assert.equal(
      merge(odd + "1\n2\n3\n", odd + "one\n2\n3\n", odd + "1\n2\nthree\n").text,
      odd + "one\n2\nthree\n",
    );
  });

  test("does not join a line without LF to the one that follows", () => {
    const { text, conflicts } = merge("a", "a\nours", "a\ntheirs");
    assert.equal(conflicts, 1);
    assert.equal(text, "a\n<<<<<<< A\nours\n=======\ntheirs\n>>>>>>> B\n");
  });

  test("writes markers with CR LF where the lines around end so", () => {
    assert.match(
      merge("1\r\n2\r\n", "1\r\nA\r\n", "1\r\nB\r\n").text,
      /^1\r\n<<<<<<< A\r\nA\r\n=======\r\n/,
    );
  });
});

describe("texts that are hard to compare", () => {
  const big = (n: number, make: (i: number) => string): string =>
    Array.from({ length: n }, (_, i) => make(i)).join("");

  test("200,000 equal lines", () => {
    const base = big(200_000, () => "same\n");
    const own = mergeTexts(bytes(base), bytes("first\n" + base), bytes(base + "last\n"), {
      labels: LABELS,
    });
    assert.equal(own.conflicts, 0);
    assert.equal(own.data.length, base.length + 11);
  });

  test("50 MB of text with an edit at either end", () => {
    const base = big(1_000_000, (i) => `line ${i} is about as long as lines are, more or less\n`);
    const ours = base.replace("line 10 ", "LINE 10 ");
    const theirs = base.replace("line 999990 ", "LINE 999990 ");
    const own = mergeTexts(bytes(base), bytes(ours), bytes(theirs), { labels: LABELS });
    assert.equal(own.conflicts, 0);
    assert.equal(
      Buffer.from(own.data).toString("latin1"),
      ours.replace("line 999990 ", "LINE 999990 "),
    );
  });

  test("3,000 lines back to front", () => {
    const base = big(3_000, (i) => `${i}\n`);
    const other = base.trimEnd().split("\n").reverse().join("\n") + "\n";
    const own = mergeTexts(bytes(base), bytes(other), bytes(base + "end\n"), { labels: LABELS });
    assert.equal(own.data.length > base.length, true);
  });
});
