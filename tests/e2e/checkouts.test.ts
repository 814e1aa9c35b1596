/**
 * What is checked out for a verification, and what a refused merge leaves in the clone, where the files
 * of a work tree aren't simply the blobs: LFS, submodules, sparse checkouts, line ends.
 */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { git } from "../helpers/git.ts";
import { type Agent, agentCommit, makeAgent, run, runJson } from "./harness/agent.ts";
import { results } from "./harness/chains.ts";
import { checkLaws } from "./harness/laws.ts";
import {
  makeOrigin,
  pushOutside,
  SHARED_FILE,
  type TestOrigin,
  tipOf,
  verifyCommand,
} from "./harness/origin.ts";
import { scenario } from "./harness/scenario.ts";

const edited = (line: number, text: string) => SHARED_FILE.replace(`line ${line}\n`, `${text}\n`);

/** What Git LFS keeps in the repository for a file. */
const pointer = (digit: string) =>
  `version https://git-lfs.github.com/spec/v1\noid sha256:${digit.repeat(64)}\nsize ${digit}0\n`;

async function lands(agent: Agent, origin: TestOrigin, check: string): Promise<string> {
  const result = await run(agent, ["submit", "--verify-cmd", verifyCommand(origin, check)]);
  assert.equal(result.status, 0, result.stdout + result.stderr);
  return result.stderr;
}

scenario(
  "LFS: pointers are merged as pointers, and a verification is told what it sees",
  async () => {
    const origin = makeOrigin({
      files: {
        "shared.txt": SHARED_FILE,
        ".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n",
        "one.bin": pointer("1"),
        "two.bin": pointer("2"),
      },
    });
    const a = makeAgent(origin);
    agentCommit(a, { "one.bin": pointer("3") });
    const outside = pushOutside(origin, { "two.bin": pointer("4") });
    const said = await lands(a, origin, "grep -q ^oid one.bin && grep -q ^oid two.bin");
    assert.match(said, /2 files with a filter \(Git LFS and the like\) hold what the repository/);
    assert.equal(git(origin.dir, "show", "main:one.bin") + "\n", pointer("3"));
    assert.equal(git(origin.dir, "show", "main:two.bin") + "\n", pointer("4"));
    const b = makeAgent(origin);
    agentCommit(b, { "one.bin": pointer("5") });
    const theirs = pushOutside(origin, { "one.bin": pointer("6") });
    const refused = await runJson(b, ["submit"], 1);
    assert.deepEqual([refused.reason, refused.files], ["merge refused", ["one.bin"]]);
    checkLaws(origin, { outside: [outside, theirs] });
  },
);

scenario(
  "submodules: links are merged as links, and a verification is told they are empty",
  async () => {
    const origin = makeOrigin();
    const inner = makeOrigin();
    const move = (dir: string, path: string, oid: string) => {
      git(dir, "update-index", "--add", "--cacheinfo", `160000,${oid},${path}`);
      git(dir, "commit", "-q", "-m", `${path} at ${oid}`);
    };
    const first = makeAgent(origin);
    git(first.dir, "config", "-f", ".gitmodules", "submodule.one.path", "one");
    git(first.dir, "config", "-f", ".gitmodules", "submodule.one.url", inner.dir);
    git(first.dir, "add", ".gitmodules");
    move(first.dir, "one", inner.initial);
    await lands(first, origin, ":");
    const next = pushOutside(inner, { "next.txt": "next\n" });
    const a = makeAgent(origin);
    const b = makeAgent(origin);
    move(a.dir, "one", next);
    agentCommit(b, { "b.txt": "b\n" });
    await lands(b, origin, ":");
    const said = await lands(a, origin, "[ -d one ] && [ ! -e one/README ]");
    assert.match(said, /submodules are left empty: one/);
    assert.match(
      git(origin.dir, "ls-tree", "main", "one"),
      new RegExp(`^160000 commit ${next}\tone$`),
    );
    checkLaws(origin);
  },
);

for (
  const [kind, set] of [["cone", ["--cone", "dir/in"]], ["patterns", [
    "--no-cone",
    "/*.txt",
    "/dir/in/",
  ]]] as const
) {
  scenario(
    `a sparse checkout (${kind}) holds for verifications and for merges left in progress`,
    async () => {
      const origin = makeOrigin({
        files: {
          "shared.txt": SHARED_FILE,
          "dir/in/a": "a\n",
          "dir/out/b": SHARED_FILE,
          "far/c": "c\n",
        },
      });
      const a = makeAgent(origin);
      git(a.dir, "sparse-checkout", "set", ...set);
      agentCommit(a, { "shared.txt": edited(3, "mine") });
      const outside = pushOutside(origin, { "far/c": "changed\n", "dir/in/a": "changed\n" });
      const said = await lands(
        a,
        origin,
        "grep -q changed dir/in/a && [ ! -e far ] && [ ! -e dir/out ]",
      );
      assert.match(said, /sparse/);
      assert.equal(git(origin.dir, "show", "main:far/c"), "changed");
      // Lies outside for this clone, and is in conflict: that is shown, and nothing else of the outside.
      const b = makeAgent(origin);
      agentCommit(b, { "dir/out/b": edited(5, "mine") });
      git(b.dir, "sparse-checkout", "set", ...set);
      const theirs = pushOutside(origin, { "dir/out/b": edited(5, "theirs"), "far/c": "again\n" });
      const refused = await runJson(b, ["submit"], 1);
      assert.deepEqual(refused.files, ["dir/out/b"]);
      assert.match(readFileSync(join(b.dir, "dir/out/b"), "utf8"), /^<<<<<<< HEAD\nmine\n/m);
      assert.equal(existsSync(join(b.dir, "far/c")), false);
      assert.equal(git(b.dir, "rev-parse", "MERGE_HEAD"), tipOf(origin));
      assert.equal(git(b.dir, "status", "--porcelain"), "UU dir/out/b\nM  far/c");
      checkLaws(origin, { outside: [outside, theirs] });
    },
  );
}

const CRLF = /^(?:[^\r\n]*\r\n)+$/;
const EOLS: Record<string, { attributes: string; config: Record<string, string> }> = {
  "core.autocrlf": { attributes: "", config: { "core.autocrlf": "true" } },
  "core.eol with text=auto": { attributes: "* text=auto\n", config: { "core.eol": "crlf" } },
  "eol=crlf in .gitattributes": { attributes: "*.txt text eol=crlf\n", config: {} },
};
for (const [name, { attributes, config }] of Object.entries(EOLS)) {
  scenario(
    `line ends by ${name} hold for verifications and for merges left in progress`,
    async () => {
      const files = { "shared.txt": SHARED_FILE, "lf.bin": "a\0\n", ".gitattributes": attributes };
      const origin = makeOrigin({ files });
      Object.assign(origin.cloneConfig, config);
      // The clone is made before its settings: the files are written anew with them.
      const settled = () => {
        const agent = makeAgent(origin);
        git(agent.dir, "rm", "-q", "--cached", "-r", ".");
        git(agent.dir, "reset", "-q", "--hard");
        assert.match(readFileSync(join(agent.dir, "shared.txt"), "latin1"), CRLF);
        return agent;
      };
      const crlf = (text: string) => text.replaceAll("\n", "\r\n");
      const a = settled();
      agentCommit(a, { "shared.txt": crlf(edited(3, "mine")) });
      const outside = pushOutside(origin, { "shared.txt": edited(40, "theirs") });
      const merged = edited(3, "mine").replace("line 40\n", "theirs\n");
      const bytes = crlf(merged).length;
      await lands(
        a,
        origin,
        `[ "$(wc -c < shared.txt)" -eq ${bytes} ] && [ "$(wc -c < lf.bin)" -eq 3 ]`,
      );
      assert.equal(git(origin.dir, "show", "main:shared.txt") + "\n", merged, "stored with LF");
      const b = settled();
      agentCommit(b, { "shared.txt": crlf(merged.replace("line 9\n", "b\n")) });
      const theirs = pushOutside(origin, {
        "shared.txt": merged.replace("line 9\n", "other\n"),
        "new.txt": "new\n",
      });
      assert.equal((await runJson(b, ["submit"], 1)).reason, "merge refused");
      const left = readFileSync(join(b.dir, "shared.txt"), "latin1");
      assert.match(left, CRLF);
      assert.match(left, /<<<<<<< HEAD\r\nb\r\n=======\r\nother\r\n/);
      assert.equal(readFileSync(join(b.dir, "new.txt"), "latin1"), "new\r\n");
      assert.equal(git(b.dir, "status", "--porcelain"), "A  new.txt\nUU shared.txt");
      assert.equal(results(origin).length, 2);
      checkLaws(origin, { outside: [outside, theirs] });
    },
  );
}
