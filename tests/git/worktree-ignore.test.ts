import { describe, test } from "node:test";
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import fc from "fast-check";
import { ignoreLookup } from "../../src/git/ignore.ts";
import { compileSparse } from "../../src/git/sparse.ts";
import { commit, git, makeRepo, tryGit, write } from "../helpers/git.ts";

const runs = Number(process.env.AGENTQ_RUNS ?? 60);
const latin1 = (text: string) => Buffer.from(text, "latin1");

/** Whether git takes the path, or a directory above it, for ignored. */
function ignoredByUs(lookup: ReturnType<typeof ignoreLookup>, path: string): boolean {
  const isDirectory = path.endsWith("/");
  const names = path.replace(/\/$/, "").split("/");
  return names.some((_, i) =>
    lookup.ignores(names.slice(0, i + 1).join("/"), i < names.length - 1 || isDirectory)
  );
}

const piece = fc.constantFrom(
  "a",
  "b",
  "A",
  "/",
  "/",
  "*",
  "**",
  "?",
  "[ab]",
  "[!a]",
  "\\*",
  "\\",
  ".",
  "ab",
  "**/",
  "/**",
  "!",
  " ",
  "\\ ",
  "#",
  "\r",
  "[",
  "-",
);
const pattern = fc.array(piece, { minLength: 1, maxLength: 5 }).map((p) => p.join(""));
const name = fc.constantFrom("a", "b", "A", "ab", "aab", "a.b", "b ", "#a", "!a", "-");
const path = fc.array(name, { minLength: 1, maxLength: 4 }).map((p) => p.join("/"));

describe("ignoreLookup()", () => {
  const repo = makeRepo();

  test("agrees with git check-ignore on generated patterns", { timeout: 600_000 }, () => {
    fc.assert(
      fc.property(
        fc.array(pattern, { maxLength: 12 }),
        fc.array(pattern, { maxLength: 4 }),
        fc.array(pattern, { maxLength: 2 }),
        fc.array(path, { minLength: 20, maxLength: 40 }),
        fc.boolean(),
        fc.boolean(),
        (root, nested, info, generated, ignoreCase, finalNewline) => {
          const text = (lines: string[]) => lines.join("\n") + (finalNewline ? "\n" : "");
          write(repo, ".gitignore", text(root));
          write(repo, "a/.gitignore", text(nested));
          write(repo, ".git/info/exclude", text(info));
          // git takes what isn't there for a file, except what the path itself shows to be a directory.
          const paths = [...new Set(generated)].filter((p) => p !== "a");
          const run = tryGit(repo, [
            "-c",
            `core.ignorecase=${ignoreCase}`,
            "check-ignore",
            "--no-index",
            "-z",
            "--stdin",
          ], {
            input: paths.map((p) => p + "\0").join(""),
          });
          assert.ok(run.status <= 1, run.stderr);
          const expected = new Set(run.stdout.split("\0"));
          const lookup = ignoreLookup({
            files: (directory) =>
              directory === ""
                ? latin1(text(root))
                : directory === "a"
                ? latin1(text(nested))
                : null,
            info: latin1(text(info)),
            ignoreCase,
          });
          for (const p of paths) {
            assert.equal(
              ignoredByUs(lookup, p),
              expected.has(p),
              JSON.stringify({ p, root, nested, info }),
            );
          }
        },
      ),
      { numRuns: runs },
    );
  });

  test("knows directories from files", () => {
    const lookup = ignoreLookup({
      files: (directory) => directory === "" ? latin1("build/\n!keep/\nkeep/x\n") : null,
    });
    assert.equal(lookup.ignores("build", true), true);
    assert.equal(lookup.ignores("build", false), false);
    assert.equal(lookup.ignores("sub/build", true), true);
    assert.equal(lookup.ignores("keep", true), false);
    assert.equal(lookup.ignores("keep/x", false), true);
  });
});

describe("compileSparse()", () => {
  /** Paths that git leaves in the work tree with this sparse-checkout file. */
  function keptByGit(repo: string, content: string, cone: boolean): Set<string> {
    git(repo, "config", "core.sparseCheckout", "true");
    git(repo, "config", "core.sparseCheckoutCone", String(cone));
    write(repo, ".git/info/sparse-checkout", content);
    rmSync(join(repo, ".git/index"), { force: true });
    for (const file of files) rmSync(join(repo, file), { force: true });
    git(repo, "read-tree", "-mu", "HEAD");
    const kept = new Set<string>();
    for (const line of git(repo, "ls-files", "-t").split("\n")) {
      if (line.startsWith("H ")) kept.add(line.slice(2));
    }
    return kept;
  }
  const files = ["x", "y.txt", "a/x", "a/b/x", "a/b/c/x", "b/x", "b/a/x", "c/d/e/x", "c/x", "A/x"];

  function agree(repo: string, content: string, cone: boolean): void {
    const kept = keptByGit(repo, content, cone);
    const matches = compileSparse(latin1(content), false);
    for (const file of files) {
      assert.equal(matches(file), kept.has(file), JSON.stringify({ file, content, cone }));
    }
  }

  test("agrees with git on what cone mode writes", { timeout: 600_000 }, () => {
    const repo = makeRepo();
    commit(repo, "files", Object.fromEntries(files.map((file) => [file, file])));
    for (const set of [["a/b"], ["a", "c/d"], ["c/d/e", "b"], []]) {
      git(repo, "sparse-checkout", "set", "--cone", ...set);
      agree(repo, readFileSync(join(repo, ".git/info/sparse-checkout"), "latin1"), true);
    }
  });

  test("agrees with git on generated patterns without cone mode", { timeout: 600_000 }, () => {
    const repo = makeRepo();
    mkdirSync(join(repo, ".git/info"), { recursive: true });
    commit(repo, "files", Object.fromEntries(files.map((file) => [file, file])));
    fc.assert(
      fc.property(fc.array(pattern, { minLength: 1, maxLength: 6 }), (lines) => {
        fc.pre(!lines.some((line) => line.includes("\r")));
        agree(repo, lines.join("\n") + "\n", false);
      }),
      { numRuns: Math.ceil(runs / 2) },
    );
  });
});
