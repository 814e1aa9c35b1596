import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { describe, test } from "node:test";
import fc from "fast-check";
import { isAgentqError } from "../../src/errors.ts";
import {
  commitMessage,
  parseCommit,
  parseCommitLinks,
  serializeCommit,
} from "../../src/git/commit.ts";
import { formatIdentity, identitySeconds, parseIdentity } from "../../src/git/identity.ts";
import { openObjectStore } from "../../src/git/odb.ts";
import { hashObject, isOid, oidAt, oidBytes } from "../../src/git/oid.ts";
import { openRepository } from "../../src/git/repository.ts";
import { parseTag, peel } from "../../src/git/tag.ts";
import {
  compareTreeEntries,
  MODE,
  parseTree,
  serializeTree,
  type TreeEntry,
} from "../../src/git/tree.ts";
import { commit, git, makeRepo, tryGit } from "../helpers/git.ts";

const corrupt = (error: unknown) => {
  assert.ok(isAgentqError(error, "repository-corrupt"), String(error));
  return true;
};
const bytes = (text: string) => Buffer.from(text, "latin1");
const TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
const A = "a".repeat(40);
const B = "b".repeat(40);

describe("object ids", () => {
  test("hashObject() is git hash-object for small and large content", () => {
    const dir = makeRepo();
    for (const size of [0, 1, 1000, 16_384, 16_385, 200_000]) {
      const data = Buffer.alloc(size, "content ");
      const run = tryGit(dir, ["hash-object", "--stdin"], { input: data });
      assert.equal(hashObject("blob", data), run.stdout.trim());
    }
    assert.equal(hashObject("tree", new Uint8Array()), TREE);
  });

  test("hex and bytes", () => {
    assert.equal(oidAt(Buffer.concat([bytes("xx"), oidBytes(A)]), 2), A);
    assert.ok(isOid(A));
    for (const text of [A.toUpperCase(), A.slice(1), A + "a", "g".repeat(40), A.slice(1) + "\n"]) {
      assert.equal(isOid(text), false);
    }
  });
});

describe("commits", () => {
  test("what git writes comes back byte for byte: encodings, signatures, merges, odd messages", () => {
    const dir = makeRepo();
    commit(dir, "one");
    const header = `tree ${TREE}\nparent ${git(dir, "rev-parse", "HEAD")}\n`;
    const who =
      "author Ünïcode <ü@example.com> 1700000000 +0530\ncommitter C <> 1700000001 -1200\n";
    const variants = [
      "\nmessage\n",
      "\n",
      "\nno final newline",
      "\n\n\nleading newlines\n\n",
      "encoding ISO-8859-1\n\n\xfcml\xe4ut\n",
      "gpgsig -----BEGIN PGP SIGNATURE-----\n \n iQEz\n =x\n -----END PGP SIGNATURE-----\n\nsigned\n",
      `mergetag object ${A}\n type commit\n tag v1\n \n text\nHG:extra source\n\nmessage\n`,
      "\nNUL \0 inside\n",
    ];
    for (const rest of variants) {
      const content = bytes(header + Buffer.from(who).toString("latin1") + rest);
      const parsed = parseCommit(content);
      assert.deepEqual(Buffer.from(serializeCommit(parsed)), content);
      assert.equal(parsed.tree, TREE);
      assert.deepEqual(parseCommitLinks(content), {
        tree: TREE,
        parents: parsed.parents,
        time: 1700000001,
      });
      assert.equal(parseIdentity(parsed.author).name, "Ünïcode");
    }
    assert.equal(commitMessage(parseCommit(bytes(header + who + variants[4]))), "ümläut\n");
  });

  test("serializeCommit() makes what git commit-tree makes", () => {
    const dir = makeRepo();
    const parent = commit(dir, "one", { file: "x" });
    const tree = git(dir, "rev-parse", "HEAD^{tree}");
    const env = { GIT_AUTHOR_DATE: "1700000000 +0200", GIT_COMMITTER_DATE: "1700000009 -0330" };
    const run = tryGit(dir, ["commit-tree", tree, "-p", parent, "-m", "ümläut"], { env });
    const author = formatIdentity({
      name: "A U Thor",
      email: "author@example.com",
      seconds: 1700000000,
      timezone: "+0200",
    });
    const committer = formatIdentity({
      name: "C O Mitter",
      email: "committer@example.com",
      seconds: 1700000009,
      timezone: "-0330",
    });
    const data = serializeCommit({
      tree,
      parents: [parent],
      author,
      committer,
      message: "ümläut\n",
    });
    assert.equal(openObjectStore(`${dir}/.git/objects`).write("commit", data), run.stdout.trim());
  });

  test("links are found behind a long line, and times outside of any sense are 0", () => {
    const long = bytes(
      `tree ${TREE}\nparent ${A}\nparent ${B}\nauthor ${
        "n".repeat(2000)
      } <> 1 +0000\ncommitter C <> 7 +0000\n\nx`,
    );
    assert.deepEqual(parseCommitLinks(long), { tree: TREE, parents: [A, B], time: 7 });
    for (
      const line of ["C <>", "C <> soon", "C <> -5 +0000", "C <> 99999999999999999999 +0000", ""]
    ) {
      assert.equal(identitySeconds(line), 0);
    }
    assert.equal(identitySeconds("a > b <c> 12 +0000"), 12);
  });

  test("malformed ones are refused, never half read", () => {
    const good = `tree ${TREE}\nparent ${A}\nauthor A <> 1 +0000\ncommitter C <> 1 +0000\n\nx`;
    for (
      const bad of [
        "",
        "tree",
        good.slice(1),
        good.replace("tree ", "Tree "),
        good.replace(TREE, TREE.slice(1)),
        good.replace(A, A + "a"),
        good.replace(A, A.toUpperCase()),
        `tree ${TREE}`,
      ]
    ) {
      assert.throws(() => parseCommit(bytes(bad)), corrupt);
      assert.throws(() => parseCommitLinks(bytes(bad)), corrupt);
    }
    for (
      const bad of [good.replace("committer", "comitter"), `tree ${TREE}\n`, `tree ${TREE}\n x\n\n`]
    ) {
      assert.throws(() => parseCommit(bytes(bad)), corrupt);
    }
  });
});

describe("identities", () => {
  test("are cleaned as git cleans them, so that they cannot break a commit", () => {
    const dir = makeRepo();
    for (
      const [name, email] of [
        ["Plain Name", "a@b"],
        ["  spaced  ", " a@b "],
        ["New\nLine <x>", "a<>\n@b"],
        ["'quoted.', ", "<a@b>"],
        ["Dr. Ü.", "ü@b"],
      ] as const
    ) {
      const env = {
        GIT_AUTHOR_NAME: name,
        GIT_AUTHOR_EMAIL: email,
        GIT_AUTHOR_DATE: "1700000000 +0000",
      };
      const wanted = tryGit(dir, ["var", "GIT_AUTHOR_IDENT"], { env }).stdout.trimEnd();
      const line = formatIdentity({ name, email, seconds: 1700000000, timezone: "+0000" });
      assert.equal(Buffer.from(line, "latin1").toString(), wanted);
    }
  });

  test("broken lines are read as far as they go", () => {
    assert.deepEqual(parseIdentity("N <m> 5 +0100"), {
      name: "N",
      email: "m",
      seconds: 5,
      timezone: "+0100",
    });
    assert.deepEqual(parseIdentity("just a name"), {
      name: "just a name",
      email: "",
      seconds: 0,
      timezone: "+0000",
    });
    assert.equal(parseIdentity("N <m> x").seconds, 0);
  });
});

describe("trees", () => {
  const name = fc.uint8Array({ minLength: 1, maxLength: 12 }).map((part) =>
    Buffer.from(part).toString("latin1")
  )
    .filter((path) =>
      !/[/\0]/.test(path) && path !== "." && path !== ".." && path.toLowerCase() !== ".git"
    );
  const entry: fc.Arbitrary<TreeEntry> = fc.record({
    mode: fc.constantFrom(MODE.file, MODE.executable, MODE.symlink, MODE.gitlink, MODE.tree),
    path: fc.oneof(name, fc.constantFrom("a", "a.b", "a-b", "a0", "ab", "A")),
    oid: fc.constantFrom(A, B, "00".repeat(20), "ff".repeat(20)),
  });

  test("any entries come out in git's order, with git's id, and parse back", () => {
    const dir = makeRepo();
    fc.assert(
      fc.property(
        fc.uniqueArray(entry, { selector: ({ path }) => path, maxLength: 20 }),
        (entries) => {
          const data = serializeTree(entries);
          const input = Buffer.concat(entries.map(({ mode, path, oid }) => {
            const type = mode === MODE.tree ? "tree" : mode === MODE.gitlink ? "commit" : "blob";
            return bytes(`${mode.toString(8).padStart(6, "0")} ${type} ${oid}\t${path}\0`);
          }));
          const run = tryGit(dir, ["mktree", "-z", "--missing"], { input });
          assert.equal(run.status, 0, run.stderr);
          assert.equal(hashObject("tree", data), run.stdout.trim());
          assert.deepEqual(
            parseTree(data),
            [...entries].sort(compareTreeEntries).map((entry) => ({ ...entry })),
          );
        },
      ),
      { numRuns: 100 },
    );
  });

  test("old modes are kept; malformed trees are refused", () => {
    const id = "\x11".repeat(20);
    const good = bytes(`100664 a\0${id}40000 b\0${id}`);
    assert.deepEqual(parseTree(good).map(({ mode }) => mode), [0o100664, 0o40000]);
    assert.deepEqual(Buffer.from(serializeTree(parseTree(good))), good);
    for (
      const bad of [
        `100644 a\0${id.slice(1)}`,
        "100644 a",
        "100644",
        `100644 \0${id}`,
        `10064x a\0${id}`,
        ` a\0${id}`,
        `100644 a/b\0${id}`,
        `777777777777 a\0${id}`,
      ]
    ) assert.throws(() => parseTree(bytes(bad)), corrupt);
  });

  test("impossible entries are never written", () => {
    const plain = { mode: MODE.file, path: "a", oid: A };
    for (
      const entries of [
        [plain, { ...plain, mode: MODE.tree }],
        [{ ...plain, path: "a/b" }],
        [{ ...plain, path: "" }],
        [{ ...plain, path: "ü\u0101" }],
        [{ ...plain, oid: "a" }],
      ]
    ) assert.throws(() => serializeTree(entries), (error) => isAgentqError(error, "internal"));
  });
});

describe("tags", () => {
  test("are parsed and peeled, through tags of tags", () => {
    const dir = makeRepo();
    const head = commit(dir, "one");
    git(dir, "tag", "-a", "-m", "message", "v1");
    git(dir, "tag", "-a", "-m", "of a tag", "v2", "v1");
    git(dir, "tag", "-a", "-m", "of a tree", "v3", "HEAD^{tree}");
    const { objects } = openRepository(dir);
    const read = (rev: string) => parseTag(objects.read(git(dir, "rev-parse", rev)).data);
    assert.equal(read("v1").object, head);
    assert.equal(read("v1").name, "v1");
    assert.match(read("v1").tagger ?? "", /^C O Mitter </);
    assert.equal(Buffer.from(read("v1").message).toString(), "message\n");
    assert.equal(read("v2").type, "tag");
    assert.deepEqual(peel(objects, git(dir, "rev-parse", "v2")), { oid: head, type: "commit" });
    assert.deepEqual(peel(objects, git(dir, "rev-parse", "v3")), {
      oid: git(dir, "rev-parse", "HEAD^{tree}"),
      type: "tree",
    });
  });

  test("an old tag without a tagger, one without a message, and malformed ones", () => {
    assert.equal(parseTag(bytes(`object ${A}\ntype commit\ntag v0\n\nold\n`)).tagger, null);
    assert.equal(
      parseTag(bytes(`object ${A}\ntype commit\ntag v0\ntagger T <> 1 +0000\n`)).message.length,
      0,
    );
    for (
      const bad of [
        "",
        `object ${A}\ntype thing\ntag v\n\n`,
        `object a\ntype commit\ntag v\n\n`,
        `type commit\nobject ${A}\n`,
      ]
    ) {
      assert.throws(() => parseTag(bytes(bad)), corrupt);
    }
  });
});
