/** What the gate makes of conflict markers in a merge, and of what came of them later. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { markersStand, newMarkerSets } from "../../../src/merge/gate/markers.ts";
import { git, write } from "../../helpers/git.ts";
import { apart, merge, merged, passes, refuses, type Step, step } from "./repo.ts";

const FILE = (middle: string): string => `head\n${middle}\ntail\n`;
const HERS = "mid written by ALICE carefully";
const HIS = "mid hacked BOB quickly";
const BOTH = { f: FILE(`${HERS}\n${HIS}`) };

/** A merge with a conflict in `f`, committed as it is left by `settle`. */
const conflicted = (settle: Step = {}, more: Record<string, string> = {}): string =>
  merged(
    { f: FILE("mid original"), o: "other\n", ...more },
    { f: FILE(HERS) },
    { f: FILE(HIS) },
    settle,
  );

describe("markers that a later commit takes out", () => {
  const sloppy: Record<string, Step> = {
    "with one side whole": (dir) => void git(dir, "checkout", "HEAD^1", "--", "f"),
    "with the other": (dir) => void git(dir, "checkout", "HEAD^2", "--", "f"),
    "with the base": (dir) => void git(dir, "checkout", "HEAD^2^", "--", "f"),
    "with one side and more": { f: FILE(`${HIS}\nand bob goes on`) },
    "under another name": (dir) => {
      git(dir, "mv", "f", "g");
      write(dir, "g", FILE(HIS));
    },
  };
  for (const [how, later] of Object.entries(sloppy)) {
    test(`${how}, lose what the other side did`, () => {
      const dir = conflicted();
      step(dir, later);
      refuses(dir, ["f"], /now that its conflict markers are out/);
      step(dir, { o: "more\n" });
      refuses(dir, ["f"], /now that its conflict markers are out/);
      passes(dir, ["f"]);
    });
  }

  test("with one of several lines gone", () => {
    const list = (...items: string[]): string => FILE(["first", ...items].join("\n"));
    const hers = list("A-one added", "A-two supplied", "A-three given");
    const dir = merged({ f: list() }, { f: hers }, { f: list("B-one") }, {});
    step(dir, { f: list("A-one added", "A-three given", "B-one") });
    refuses(dir, ["f"], /A-two supplied/);
    step(dir, { f: list("A-one added", "A-two supplied", "A-three given", "B-one") });
    passes(dir);
  });

  test("with both sides' lines, in one step or two, in place or under another name, pass", () => {
    const dir = conflicted();
    step(dir, BOTH);
    passes(dir);
    // What stood there once may be changed.
    step(dir, { f: FILE(HIS) });
    passes(dir);
    const two = conflicted();
    step(two, { f: FILE(HIS) });
    step(two, BOTH);
    passes(two);
    const moved = conflicted();
    step(moved, (dir) => {
      git(dir, "mv", "f", "g");
      write(dir, "g", BOTH.f);
    });
    passes(moved);
  });

  test("with the whole file pass", () => {
    const dir = conflicted();
    step(dir, (dir) => void git(dir, "rm", "-q", "f"));
    passes(dir);
  });
});

describe("markers", () => {
  test("aren't published by a drop", () => {
    const dir = conflicted();
    for (const drops of [["f"], ["*"], []]) refuses(dir, ["f"], /has conflict markers/, drops);
    step(dir, { f: FILE(HIS) });
    passes(dir, ["f"]);
  });

  test("in a file that the merge puts in", () => {
    for (const name of ["f.orig", "deep/.backup/f"]) {
      const dir = conflicted((dir) => {
        write(dir, name, git(dir, "show", "AUTO_MERGE:f") + "\n");
        write(dir, "f", BOTH.f);
      });
      refuses(dir, [name], /has conflict markers/);
      step(dir, { o: "more\n" });
      refuses(dir, [name], /has conflict markers/);
      step(dir, (dir) => void git(dir, "mv", name, "kept"));
      refuses(dir, [name], /has conflict markers/);
      step(dir, (dir) => void git(dir, "rm", "-q", "kept"));
      passes(dir);
    }
  });

  test("indented, quoted or commented out", () => {
    for (const before of ["# ", "    ", "> ", "+", "// ", " * "]) {
      const signs =
        `${before}<<<<<<< HEAD\n${HIS}\n${before}=======\n${HERS}\n${before}>>>>>>> main`;
      const dir = conflicted({ f: FILE(signs) });
      refuses(dir, ["f"], /has conflict markers/);
      step(dir, { f: FILE(`${HIS}\n${HERS}\n${before}>>>>>>> main`) });
      refuses(dir, ["f"], /has conflict markers/);
      step(dir, BOTH);
      passes(dir);
    }
  });

  test("commented out in any language", () => {
    const styles: [before: string, after: string][] = [
      ["<!-- ", " -->"],
      ["<!--", "-->"],
      ["{# ", " #}"],
      ["{/* ", " */}"],
      ["/*", "*/"],
      ["(* ", " *)"],
      ["<%# ", " %>"],
      ["<%-- ", " --%>"],
      ["{- ", " -}"],
      ["REM ", ""],
      ["@rem ", ""],
      ["dnl ", ""],
      ['" ', ""],
      ["' ", ""],
      [".. ", ""],
      ["-- ", ""],
      ['    "', '",'],
    ];
    // All in one file, so that each is told from the others by the lines it is said to be in.
    const sets = styles.map(([before, after]) =>
      [`<<<<<<< HEAD`, HIS, "=======", HERS, ">>>>>>> main"]
        .map((line) => /^[<=>]{7}/.test(line) ? `${before}${line}${after}` : line).join("\n")
    );
    const size = sets[0]!.split("\n").length;
    for (const [i, set] of sets.entries()) {
      const found = newMarkerSets(Buffer.from(FILE(set)), () => [], 7);
      assert.deepEqual(found, [[2, size + 1]], styles[i]!.join("…"));
      assert.deepEqual(newMarkerSets(Buffer.from(FILE(set)), () => [Buffer.from(set)], 7), []);
      assert.equal(
        markersStand(Buffer.from(FILE(set)), [`2-${size + 1}`], Buffer.from(FILE(set))),
        true,
      );
    }
    refuses(conflicted({ f: FILE(sets.join("\n")) }), ["f"], /has conflict markers/);
    const dir = conflicted({ f: FILE(sets[0]!) });
    refuses(dir, ["f"], /has conflict markers/);
    step(dir, BOTH);
    passes(dir);
    // In an ordinary commit they are documentation.
    const own = conflicted(BOTH);
    step(own, { "doc.md": sets.join("\n\n") });
    passes(own);
  });

  test("are seen whatever size the candidate's attributes, or its clone's, gave them", () => {
    for (const size of [4, 6, 8, 11, 32]) {
      for (const file of [".gitattributes", ".git/info/attributes"]) {
        const dir = apart(
          { f: "1\n2\n3\n4\n5\n" },
          { f: "1\n2\nhers\n4\n5\n" },
          { f: "1\n2\nhis\n4\n5\n" },
        );
        write(dir, file, `f conflict-marker-size=${size}\n`);
        if (file === ".gitattributes") step(dir, {});
        merge(dir);
        assert.match(readFileSync(join(dir, "f"), "utf8"), new RegExp(`^<{${size}} HEAD$`, "m"));
        refuses(dir, ["f"], /conflict markers/);
        step(dir, { f: "1\n2\nhers and his\n4\n5\n" });
        passes(dir);
      }
    }
  });

  test("are no arrows, rules, headings, or streams in code", () => {
    for (
      const text of [
        "Title\n=======\n\nOther\n=======\n",
        "// <<<<<<<<<<<\n// ===========\n// >>>>>>>>>>>\n",
        "a <<<<<<< b\nc ======= d\ne >>>>>>> f\n",
        '"<<<<<<<x"\n"=======x"\n">>>>>>>x"\n',
        "<!-- ======= -->\n<!-- >>>>>>> -->\n<!-- <<<<<<< -->\n",
      ]
    ) assert.deepEqual(newMarkerSets(Buffer.from(text), () => [], 7), [], text);
  });

  test("that a parent has, here or in a file of another name, are text", () => {
    const doc = "A conflict:\n\n    <<<<<<< ours\n    a\n    =======\n    b\n    >>>>>>> theirs\n";
    const plain = doc.replaceAll("    ", "");
    for (const text of [doc, plain]) {
      const dir = conflicted(BOTH, { doc: text });
      passes(dir);
      const moved = conflicted((dir) => {
        write(dir, "f", BOTH.f);
        git(dir, "mv", "doc", "guide");
      }, { doc: text });
      passes(moved);
      const own = conflicted(BOTH);
      step(own, { doc: text });
      passes(own);
    }
  });

  test("that are headings, rules or arrows are none", () => {
    const dir = conflicted({
      ...BOTH,
      new: "Title\n=======\n\n<<<<<<< left\n>>>>>>> right\n\n>>>>>>> a\n=======\n<<<<<<< b\n",
    });
    passes(dir);
  });
});
