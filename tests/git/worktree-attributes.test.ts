import { describe, test } from "node:test";
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import fc from "fast-check";
import { attributeLookup, type Attributes } from "../../src/git/attributes.ts";
import { makeRepo, tryGit, write } from "../helpers/git.ts";

/** What `git check-attr -z -a` says about each path, in the shape of our answer. */
function checkAttr(repo: string, paths: readonly string[], ...config: string[]): Attributes[] {
  const run = tryGit(repo, [...config, "check-attr", "-z", "-a", "--stdin"], {
    input: Buffer.from(paths.map((path) => path + "\0").join(""), "latin1"),
  });
  assert.equal(run.status, 0, run.stderr);
  const byPath = new Map<string, Map<string, string | boolean>>();
  const words = run.stdout.split("\0");
  for (let i = 0; i + 2 < words.length; i += 3) {
    const of = byPath.get(words[i]!) ?? new Map();
    byPath.set(words[i]!, of);
    const value = words[i + 2]!;
    of.set(words[i + 1]!, value === "set" ? true : value === "unset" ? false : value);
  }
  return paths.map((path) => byPath.get(Buffer.from(path, "latin1").toString()) ?? new Map());
}

const sorted = (attributes: Attributes) => [...attributes].sort((a, b) => a[0] < b[0] ? -1 : 1);

function fileReader(repo: string) {
  return (directory: string) => {
    try {
      return readFileSync(join(repo, directory, ".gitattributes"));
    } catch {
      return null;
    }
  };
}

function agree(files: Record<string, string>, paths: readonly string[], ignoreCase = false): void {
  const repo = makeRepo();
  for (const [path, content] of Object.entries(files)) {
    write(repo, path, Buffer.from(content, "latin1"));
  }
  const info = files[".git/info/attributes"];
  const global = files["global"];
  const config = ["-c", `core.ignorecase=${ignoreCase}`];
  if (global !== undefined) config.push("-c", `core.attributesFile=${join(repo, "global")}`);
  const expected = checkAttr(repo, paths, ...config);
  const lookup = attributeLookup({
    files: fileReader(repo),
    info: info === undefined ? null : Buffer.from(info, "latin1"),
    global: global === undefined ? null : Buffer.from(global, "latin1"),
    ignoreCase,
  });
  paths.forEach((path, i) => {
    assert.deepEqual(
      sorted(lookup.of(path)),
      sorted(expected[i]!),
      `${JSON.stringify(path)} in ${JSON.stringify(files)}`,
    );
  });
}

describe("attributes()", () => {
  test("answers as git check-attr does where the files are well-formed", () => {
    agree({
      ".gitattributes": [
        "# comment",
        "*.txt text eol=lf",
        "*.bin binary",
        '"with space.c" diff=cpp',
        "docs/** linguist-documentation",
        "/top.md -text !eol",
        "a/**/z.txt eol=crlf -diff",
        "[attr]generated -diff linguist-generated=true",
        "*.gen generated",
        "dir/ dironly",
        "\tindented.txt   foo=bar\t baz\r",
      ].join("\n"),
      "a/.gitattributes": "*.txt !text\nb/*.txt eol=crlf\n[attr]no -x\n",
      "a/b/.gitattributes": "z.txt merge=union\n*.bin -binary\n",
      ".git/info/attributes": "top.md merge=ours\n*.gen !diff\n",
      "global": "*.txt whitespace=trailing-space text=auto\n[attr]binary -text everything\n",
    }, [
      "x.txt",
      "with space.c",
      "docs/a/b",
      "top.md",
      "sub/top.md",
      "a/z.txt",
      "a/q/r/z.txt",
      "a/b/z.txt",
      "a/b/q.bin",
      "y.gen",
      "dir/x",
      "indented.txt",
      "a/no",
      "x.bin",
      "docs",
    ]);
  });

  test("passes over what git passes over", () => {
    agree({
      ".gitattributes": "\xef\xbb\xbf*.a bom\n" + "*.b " + "x".repeat(3000) +
        "\n*.c ok -\n*.d ok =v\n*.e -=\n" +
        '!*.f neg\n"*.g quoted\n"\\x*.h" bad\n[attr]-bad x\n[attr] *.i spaced\n*.j a=b=c e=\n*.k\n*.l ok\\n\n' +
        '"\\052.m" octal\n*.n foo#bar\n*.o x !x x=1 -x\n*.p \xe9\n[attr]self self other\n*.q self\n*.r -self\n*.s self=1\n',
    }, [
      "x.a",
      "x.b",
      "x.c",
      "x.d",
      "x.e",
      "x.f",
      "x.g",
      '"x.g',
      "x.h",
      "a *.i",
      "*.i",
      "x.j",
      "x.k",
      "x.l",
      "x.m",
      "*.m",
      "x.n",
      "x.o",
      "x.p",
      "x.q",
      "x.r",
      "x.s",
      "[attr]",
      "a",
    ]);
  });

  test("answers as git check-attr does for generated patterns", { timeout: 600_000 }, () => {
    const piece = fc.constantFrom(
      "a",
      "b",
      "A",
      "/",
      "*",
      "**",
      "?",
      "[ab]",
      "[!a]",
      "[^/]",
      "[[:alpha:]]",
      "[[:upper:]x]",
      "[a-",
      "[]a]",
      "[A-C]",
      "[B]",
      "[\\]a]",
      "\\*",
      "\\",
      ".",
      "ab",
      "**/",
      "/**",
      "!",
      "[!]a]",
      "[a-]",
      "[[:nope:]]",
      "[[:]",
      "-",
      "]",
      "\xe9",
    );
    const pattern = fc.array(piece, { minLength: 1, maxLength: 6 }).map((p) => p.join(""));
    const name = fc.constantFrom(
      "a",
      "b",
      "A",
      "ab",
      "aab",
      "a.b",
      "*",
      "]",
      "-",
      "B",
      "\xc3\xa9",
      "x",
      "\\",
    );
    const path = fc.array(name, { minLength: 1, maxLength: 4 }).map((p) => p.join("/"));
    fc.assert(
      fc.property(
        fc.array(pattern, { minLength: 5, maxLength: 60 }),
        fc.array(pattern, { minLength: 1, maxLength: 10 }),
        fc.array(path, { minLength: 20, maxLength: 60 }),
        fc.boolean(),
        (root, nested, paths, ignoreCase) => {
          const lines = (list: string[], mark: string) =>
            list.map((p, i) => `${p} ${mark}${i}\n`).join("");
          agree({ ".gitattributes": lines(root, "r"), "a/.gitattributes": lines(nested, "n") }, [
            ...new Set(paths),
          ], ignoreCase);
        },
      ),
      { numRuns: Number(process.env.AGENTQ_RUNS ?? 80) },
    );
  });

  test("takes time in proportion to the text for a pattern made to blow up", () => {
    const lookup = attributeLookup({
      files: (directory) =>
        directory === ""
          ? Buffer.from(
            "*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*ab[c] x\n**/a/**/a/**/a/**/a/**/a/**/b[c] x",
          )
          : null,
    });
    assert.equal(lookup.of("a".repeat(2000)).size, 0);
    assert.equal(lookup.of("a/".repeat(1000) + "b").size, 0);
  });
});
