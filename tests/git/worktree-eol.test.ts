import { describe, test } from "node:test";
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import fc from "fast-check";
import { attributeLookup } from "../../src/git/attributes.ts";
import { conversionFor, type EolSettings, toRepository, toWorkTree } from "../../src/git/eol.ts";
import { hashObject } from "../../src/git/oid.ts";
import { gitEnv, makeRepo, write } from "../helpers/git.ts";

interface Case {
  attributes: string;
  config: string[];
  settings: EolSettings;
  content: Uint8Array;
}

function rawGit(repo: string, args: string[], input?: Uint8Array): Buffer {
  const run = spawnSync("git", args, { cwd: repo, env: gitEnv(), input });
  assert.equal(run.status, 0, run.error?.message ?? run.stderr.toString());
  return run.stdout;
}

const repo = makeRepo();

function conversionOf(attributes: string, settings: EolSettings) {
  write(repo, ".gitattributes", `f ${attributes}\n`);
  const lookup = attributeLookup({
    files: (directory) => directory === "" ? readFileSync(join(repo, ".gitattributes")) : null,
  });
  return conversionFor(lookup.of("f"), settings);
}

function agreeOut({ attributes, config, settings, content }: Case): void {
  const conversion = conversionOf(attributes, settings);
  const oid = rawGit(repo, ["hash-object", "-w", "--stdin"], content).toString().trim();
  const expected = rawGit(repo, [...config, "cat-file", "--filters", "--path=f", oid]);
  const actual = Buffer.from(toWorkTree(content, conversion, oid));
  assert.equal(actual.toString("latin1"), expected.toString("latin1"), attributes);
}

function agreeIn({ attributes, config, settings, content }: Case): void {
  const conversion = conversionOf(attributes, settings);
  const args = [...config, "hash-object", "-w", "--path=f", "--stdin"];
  const run = spawnSync("git", args, { cwd: repo, env: gitEnv(), input: content });
  const blob = toRepository(content, conversion, () => null);
  if (run.status !== 0) assert.equal(blob, null, run.stderr.toString());
  else {
    assert.notEqual(blob, null, attributes);
    assert.equal(hashObject("blob", blob!), run.stdout.toString().trim(), attributes);
  }
}

const settingsArbitrary = fc.record({
  autocrlf: fc.constantFrom<boolean | "input">(true, false, "input"),
  eol: fc.constantFrom<"lf" | "crlf">("lf", "crlf"),
}).map((settings) => ({
  settings,
  config: ["-c", `core.autocrlf=${settings.autocrlf}`, "-c", `core.eol=${settings.eol}`],
}));

const attributesArbitrary = fc.tuple(
  fc.constantFrom(
    "",
    "text",
    "-text",
    "text=auto",
    "text=input",
    "text=else",
    "crlf",
    "-crlf",
    "crlf=input",
    "!text",
  ),
  fc.constantFrom("", "eol=lf", "eol=crlf", "-eol", "eol=x"),
  fc.constantFrom("", "", "ident", "-ident"),
).map((words) => words.join(" "));

const contentArbitrary = fc.array(
  fc.constantFrom(
    "a",
    "text",
    "\n",
    "\r\n",
    "\r",
    "\0",
    "\x01",
    "\x1a",
    "$Id$",
    "$Id: x $",
    "$Id: x y $",
    "$Id:",
    "$",
    "$Id:$",
    "$Id:  $",
    "é",
    "x".repeat(200),
  ),
  { maxLength: 12 },
).map((parts) => Buffer.from(parts.join("")));

const runs = Number(process.env.AGENTQ_RUNS ?? 150);

describe("toWorkTree() and toRepository()", () => {
  const cases = fc.record({
    base: settingsArbitrary,
    attributes: attributesArbitrary,
    content: contentArbitrary,
  })
    .map(({ base, attributes, content }): Case => ({ ...base, attributes, content }));

  test("convert line ends and ident as git cat-file --filters does", { timeout: 600_000 }, () => {
    // git itself reads out of bounds, and may crash, at an id that is just "$Id:$".
    const safe = cases.filter(({ content }) => !Buffer.from(content).includes("$Id:$"));
    fc.assert(fc.property(safe, agreeOut), { numRuns: runs });
  });

  test("convert back as git hash-object --path does", { timeout: 600_000 }, () => {
    fc.assert(fc.property(cases, agreeIn), { numRuns: runs });
  });

  const encodings = [
    "UTF-16",
    "utf-16le",
    "UTF-16BE",
    "UTF-16LE-BOM",
    "UTF-16BE-BOM",
    "UTF-32",
    "UTF-32LE",
    "UTF-32BE",
    "UTF-8",
    "ISO-8859-1",
    "ISO-8859-15",
    "WINDOWS-1252",
    "KOI8-R",
    "EUC-JP",
    "GBK",
    "BIG5",
    "EUC-KR",
    "CP866",
    "no-such-encoding",
    "US-ASCII",
  ];
  const texts = [
    "plain\n",
    "é\n",
    "日本語\r\n漢字\n",
    "привет\n",
    "한국어\n",
    "𝒳 😀\n",
    "€\n",
    "",
    "\ufeffmark\n",
  ];

  test("write each encoding as git does", { timeout: 600_000 }, () => {
    for (const encoding of encodings) {
      for (const text of [...texts.map((t) => Buffer.from(t)), Buffer.from([0xff, 0xfe, 0x41])]) {
        agreeOut({
          attributes: `text eol=crlf working-tree-encoding=${encoding}`,
          config: [],
          settings: { autocrlf: false, eol: "lf" },
          content: text,
        });
      }
    }
  });

  test("read each encoding back to the blob that was written out", () => {
    for (const encoding of encodings) {
      const conversion = conversionOf(`text eol=crlf working-tree-encoding=${encoding}`, {
        autocrlf: false,
        eol: "lf",
      });
      for (const text of ["plain\n", "é日\n", "привет\nx\n", "😀\n"]) {
        const blob = Buffer.from(text);
        const file = toWorkTree(blob, conversion, "0".repeat(40));
        const back = toRepository(file, conversion, () => null);
        // What can't be said in an encoding was left as UTF-8, and need not read back.
        if (back !== null && Buffer.from(file).toString() !== text.replaceAll("\n", "\r\n")) {
          assert.equal(Buffer.from(back).toString(), text, encoding);
        }
      }
    }
  });

  test("refuse to read what git add refuses", { timeout: 600_000 }, () => {
    const samples = [
      Buffer.from("a\0b\0", "latin1"),
      Buffer.from("\xff\xfea\0", "latin1"),
      Buffer.from("\xfe\xff\0a", "latin1"),
      Buffer.from("\xff\xfe\0\xd8", "latin1"),
      Buffer.from("abc", "latin1"),
      Buffer.from("\xff\xfe\0\0a\0\0\0", "latin1"),
      Buffer.from("\xe9", "latin1"),
    ];
    for (
      const encoding of encodings.filter((name) => !["UTF-8", "no-such-encoding"].includes(name))
    ) {
      for (const content of samples) {
        agreeIn({
          attributes: `text working-tree-encoding=${encoding}`,
          config: [],
          settings: { autocrlf: false, eol: "lf" },
          content,
        });
      }
    }
  });

  test("leave a file that was committed with CRLF alone when conversion is automatic", () => {
    const conversion = conversionOf("text=auto", { autocrlf: true, eol: "lf" });
    const crlf = Buffer.from("a\r\nb\r\n");
    assert.deepEqual(toRepository(crlf, conversion, () => crlf), crlf);
    assert.equal(
      Buffer.from(toRepository(crlf, conversion, () => Buffer.from("a\nb\n"))!).toString(),
      "a\nb\n",
    );
  });
});
