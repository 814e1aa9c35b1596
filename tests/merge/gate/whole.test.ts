/** What the gate makes of binaries, links and UTF-16, and of ordinary commits after a merge that lost work. */
import { Buffer } from "node:buffer";
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { git, write } from "../../helpers/git.ts";
import {
  merged as mergeOf,
  passes,
  refuses as refusesPaths,
  type Step,
  step as stepTo,
} from "./repo.ts";

/** Content of `f`: text, bytes, or a link to somewhere; null leaves it. */
type Content = string | Uint8Array | { link: string } | { commit: string } | null;

function put(dir: string, content: Content): void {
  if (content === null) return;
  const path = join(dir, "f");
  rmSync(path, { force: true, recursive: true });
  if (typeof content === "object" && "commit" in content) {
    mkdirSync(path);
    git(dir, "update-index", "--add", "--cacheinfo", `160000,${content.commit},f`);
  } else if (typeof content === "object" && "link" in content) symlinkSync(content.link, path);
  else writeFileSync(path, content);
}

const step = (dir: string, content: Content): void => stepTo(dir, (dir) => put(dir, content));

/** A merge of what she and he made of `f`, settled as `result`; null where one left it alone. */
function merged(base: Content, hers: Content, his: Content, result: Content): string {
  const of = (content: Content, more: string): Step => (dir) => {
    write(dir, more, `${more}\n`);
    put(dir, content);
  };
  return mergeOf(of(base, "o"), of(hers, "hers"), of(his, "his"), (dir) => put(dir, result));
}

const refuses = (dir: string, report: RegExp): void => refusesPaths(dir, ["f"], report);

const IMAGE = Buffer.from(Array.from({ length: 600 }, (_, i) => i % 256));
const image = (more: string): Buffer => Buffer.concat([IMAGE, Buffer.from(more)]);

describe("a binary", () => {
  test("that one side changed is that side's, or what a later commit or a drop says", () => {
    for (const result of [image("junk"), IMAGE, IMAGE.subarray(0, 300), "no longer binary\n"]) {
      for (const [hers, his] of [[image("ada"), null], [null, image("ben")]] as const) {
        const dir = merged(IMAGE, hers, his, result);
        refuses(dir, /has the old content|has other content than merging gives/);
        passes(dir, ["f"]);
        step(dir, image("made anew"));
        passes(dir);
      }
    }
    passes(merged(IMAGE, image("ada"), null, null));
    passes(merged(IMAGE, image("ada"), image("ada"), null));
  });

  test("that no side changed, or that one added, stays as it is", () => {
    refuses(merged(IMAGE, null, null, image("junk")), /by neither side and has other content/);
    refuses(merged(null, image("ada"), null, image("junk")), /other content than merging gives/);
    refuses(merged("text was here\n", null, null, image("junk")), /by neither side/);
    passes(merged(IMAGE, null, null, null));
  });

  test("that both changed is settled by a third, not by one of the two", () => {
    refuses(merged(IMAGE, image("ada"), image("ben"), image("ben")), /other side's content whole/);
    refuses(merged(IMAGE, image("ada"), image("ben"), IMAGE), /old content, which both sides/);
    passes(merged(IMAGE, image("ada"), image("ben"), image("ada and ben")));
  });
});

test("a submodule that both moved is at either side's commit, which may contain the other's", () => {
  const at = (digit: string): Content => ({ commit: digit.repeat(40) });
  for (const result of [at("2"), at("3"), at("4")]) {
    passes(merged(at("1"), at("2"), at("3"), result));
  }
  passes(merged(null, at("2"), at("3"), at("3")));
  refuses(merged(at("1"), at("2"), at("3"), at("1")), /the old commit, which both sides changed/);
  refuses(merged(at("1"), at("2"), null, at("1")), /old content/);
  refuses(merged(at("1"), null, at("3"), at("1")), /old content/);
  refuses(merged(at("1"), null, null, at("4")), /by neither side/);
});

test("a link that one side changed, or none, goes where merging says", () => {
  const to = (link: string): Content => ({ link });
  refuses(merged(to("p"), to("ada"), null, to("elsewhere")), /other content than merging gives/);
  refuses(merged(to("p"), null, null, to("elsewhere")), /by neither side/);
  refuses(merged(null, to("ada"), null, to("elsewhere")), /other content than merging gives/);
  passes(merged(to("p"), to("ada"), null, null));
  passes(merged(to("p"), to("ada"), to("ben"), to("both")));
});

test("UTF-16 is read as text", () => {
  const lines = Array.from({ length: 9 }, (_, i) => `line ${i} says thing${i}`);
  const little = (change: Record<number, string>): Buffer =>
    Buffer.from("\ufeff" + lines.map((l, i) => (change[i] ?? l) + "\r\n").join(""), "utf16le");
  const big = (change: Record<number, string>): Buffer => Buffer.from(little(change)).swap16();
  const [ada, ben] = ["ada wrote about this", "ben changed something else"];
  for (const wide of [little, big]) {
    const of = (result: Record<number, string>): string =>
      merged(wide({}), wide({ 1: ada }), wide({ 7: ben }), wide(result));
    refuses(of({ 7: ben }), /altogether/);
    refuses(of({ 4: "a third thing", 7: ben }), /lacks|next to nothing/);
    passes(of({ 1: ada, 7: ben }));
    passes(of({ 1: ada, 4: "a third thing", 7: ben }));
    refuses(
      merged(wide({}), wide({ 1: ada }), null, wide({ 4: "a third thing" })),
      /next to nothing|lacks/,
    );
  }
});

describe("a commit after a merge that lost a line", () => {
  const log = (...entries: string[]): string =>
    `# Changes\n\n## Unreleased\n${
      entries.map((entry) => `- ${entry}\n`).join("")
    }\n## 1.0\n- First\n`;
  const [ADA, BEN] = ["Ada added the login page", "Ben fixed a crash"];
  const lost = (): string => merged(log(), log(ADA), log(BEN), log(BEN));

  test("doesn't forgive by what it adds beside it", () => {
    for (
      const later of [
        log(BEN, "Ben sped up startup"),
        log("Ben sped up startup", BEN),
        log("One", BEN, "Two"),
        log(BEN).replace("Unreleased", "Unreleased\n\nNotes for all"),
        log(BEN) + "- Zeroth\n",
        log(BEN).replace("- Ben", "* Ben"),
      ]
    ) {
      const dir = lost();
      step(dir, later);
      refuses(dir, /Ada|altogether/);
    }
    const imports = (...names: string[]): string =>
      ["import os", ...names.map((name) => `import ${name}`), "", "os.run()"].join("\n") + "\n";
    const dir = merged(imports(), imports("adalib"), imports("benlib"), imports("benlib"));
    step(dir, imports("benlib", "third"));
    refuses(dir, /lacks/);
  });

  test("forgives when it changes or deletes what stands there, or brings the line back", () => {
    for (
      const later of [
        log("Ben fixed a crash on logout"),
        log("Again: Ben fixed a crash"),
        log(),
        log(BEN, "A login page, which Ada added"),
      ]
    ) {
      const dir = lost();
      step(dir, later);
      passes(dir);
    }
  });
});
