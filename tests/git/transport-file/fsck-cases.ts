/** One way to make each fault that git's fsck knows of, for the origin that checks what it is sent. */
import { Buffer } from "node:buffer";
import type { ObjectDatabase, ObjectType, Oid } from "../../../src/git/types.ts";

/** Writes objects as broken as they are wanted. `salt` makes each one new to every origin. */
export class Maker {
  /** All that was written, for a skip list. */
  readonly made: Oid[] = [];

  constructor(
    readonly objects: ObjectDatabase,
    readonly parent: Oid,
    readonly salt: string,
  ) {}

  write(type: ObjectType, content: string | Buffer): Oid {
    const data = typeof content === "string" ? Buffer.from(content, "latin1") : content;
    const oid = this.objects.write(type, data);
    this.made.push(oid);
    return oid;
  }

  blob(text: string): Oid {
    return this.write("blob", text);
  }

  entry(mode: string, name: string, oid: Oid = this.blob(this.salt)): Buffer {
    return Buffer.concat([Buffer.from(`${mode} ${name}\0`, "latin1"), Buffer.from(oid, "hex")]);
  }

  tree(...entries: Buffer[]): Oid {
    return this.write("tree", Buffer.concat(entries));
  }

  /** A tree of these with an entry more that is new. */
  newTree(...entries: Buffer[]): Oid {
    return this.tree(...entries, this.entry("100644", `z${this.salt}`));
  }

  commit(
    change: Partial<Record<"tree" | "parent" | "author" | "committer" | "rest", string>> = {},
  ) {
    const { tree, parent, author, committer, rest } = {
      tree: `tree ${this.newTree()}\n`,
      parent: `parent ${this.parent}\n`,
      author: "author t <t@t> 1700000000 +0000\n",
      committer: "committer t <t@t> 1700000000 +0000\n",
      rest: `\n${this.salt}\n`,
      ...change,
    };
    return this.write("commit", tree + parent + author + committer + rest);
  }

  withTree(...entries: Buffer[]): Oid {
    return this.commit({ tree: `tree ${this.newTree(...entries)}\n` });
  }

  withFile(name: string, content: string, mode = "100644"): Oid {
    return this.withTree(this.entry(mode, name, this.blob(content)));
  }

  gitmodules(body: string): Oid {
    return this.withFile(".gitmodules", `# ${this.salt}\n${body}`);
  }

  author(identity: string): Oid {
    return this.commit({ author: `author ${identity}\n` });
  }

  tag(change: Partial<Record<"object" | "type" | "tag" | "tagger" | "rest", string>> = {}): Oid {
    const { object, type, tag, tagger, rest } = {
      object: `object ${this.parent}\n`,
      type: "type commit\n",
      tag: "tag v1\n",
      tagger: "tagger t <t@t> 1700000000 +0000\n",
      rest: `\n${this.salt}\n`,
      ...change,
    };
    return this.write("tag", object + type + tag + tagger + rest);
  }
}

export type Make = (m: Maker) => Oid;

const D = "1700000000 +0000";
const sub = (line: string, name = "x") => (m: Maker) =>
  m.gitmodules(`[submodule "${name}"]\n\t${line}\n`);

/** By git's message id. */
export const FAULTS: Readonly<Record<string, Make>> = {
  nulInHeader: (m) => m.author(`t\0 <t@t> ${D}`),
  unterminatedHeader: (m) => m.commit({ committer: `committer t <t@t> ${D}`, rest: "" }),
  badDate: (m) => m.author("t <t@t> now +0000"),
  badDateOverflow: (m) => m.author("t <t@t> 99999999999999999999 +0000"),
  badEmail: (m) => m.author(`t <t@<t> ${D}`),
  badName: (m) => m.author(`t> <t@t> ${D}`),
  badObjectSha1: (m) => m.tag({ object: "object 1234\n" }),
  badParentSha1: (m) => m.commit({ parent: "parent 1234\n" }),
  badTimezone: (m) => m.author("t <t@t> 1700000000 +00"),
  badTree: (m) =>
    m.commit({ tree: `tree ${m.tree(m.entry("100644", m.salt), Buffer.from("100644 a"))}\n` }),
  badTreeSha1: (m) => m.commit({ tree: "tree 1234\n" }),
  badType: (m) => m.tag({ type: "type thing\n" }),
  duplicateEntries: (m) => m.withTree(m.entry("100644", "a"), m.entry("100644", "a")),
  gitattributesBlob: (m) => m.withTree(m.entry("40000", ".gitattributes", m.newTree())),
  gitattributesLineLength: (m) => m.withFile(".gitattributes", `${m.salt}\n${"a".repeat(2048)}\n`),
  gitattributesMissing: (m) =>
    m.withTree(
      m.entry("160000", ".gitattributes", m.parent.replace(/.$/, (end) => end === "0" ? "1" : "0")),
    ),
  gitmodulesBlob: (m) => m.withTree(m.entry("40000", ".gitmodules", m.newTree())),
  gitmodulesMissing: (m) =>
    m.withTree(
      m.entry("160000", ".gitmodules", m.parent.replace(/.$/, (end) => end === "0" ? "1" : "0")),
    ),
  gitmodulesName: sub("path = x", "../../x"),
  gitmodulesPath: sub("path = -x"),
  gitmodulesSymlink: (m) => m.withFile(".gitmodules", "f", "120000"),
  gitmodulesUpdate: sub("update = !rm"),
  gitmodulesUrl: sub("url = -u./payload"),
  missingAuthor: (m) => m.commit({ author: "" }),
  missingCommitter: (m) => m.commit({ committer: "" }),
  missingEmail: (m) => m.author(`t t ${D}`),
  missingNameBeforeEmail: (m) => m.author(`<t@t> ${D}`),
  missingObject: (m) => m.tag({ object: "" }),
  missingSpaceBeforeDate: (m) => m.author(`t <t@t>${D}`),
  missingSpaceBeforeEmail: (m) => m.author(`t<t@t> ${D}`),
  missingTag: (m) => m.tag({ tag: "tag v1", tagger: "", rest: "" }),
  missingTagEntry: (m) => m.tag({ tag: "" }),
  missingTree: (m) => m.commit({ tree: "" }),
  missingType: (m) => m.tag({ type: "type commit", tag: "", tagger: "", rest: "" }),
  missingTypeEntry: (m) => m.tag({ type: "" }),
  multipleAuthors: (m) => m.author(`t <t@t> ${D}\nauthor u <u@u> ${D}`),
  treeNotSorted: (m) => m.withTree(m.entry("100644", "b"), m.entry("100644", "a")),
  zeroPaddedDate: (m) => m.author("t <t@t> 01700000000 +0000"),
  emptyName: (m) => m.withTree(m.entry("100644", "")),
  fullPathname: (m) => m.withTree(m.entry("100644", "a/b")),
  hasDot: (m) => m.withTree(m.entry("100644", ".")),
  hasDotdot: (m) => m.withTree(m.entry("100644", "..")),
  hasDotgit: (m) => m.withTree(m.entry("100644", ".GIT")),
  nullSha1: (m) => m.withTree(m.entry("160000", "a", "0".repeat(40))),
  nulInCommit: (m) => m.commit({ rest: `\n${m.salt}\0\n` }),
  zeroPaddedFilemode: (m) => m.withTree(m.entry("0100644", "a")),
  badFilemode: (m) => m.withTree(m.entry("100664", "a")),
  badTagName: (m) => m.tag({ tag: "tag a..b\n" }),
  gitattributesSymlink: (m) => m.withFile(".gitattributes", "f", "120000"),
  gitignoreSymlink: (m) => m.withFile(".gitignore", "f", "120000"),
  gitmodulesParse: sub("= ="),
  mailmapSymlink: (m) => m.withFile(".mailmap", "f", "120000"),
  missingTaggerEntry: (m) => m.tag({ tagger: "" }),
  extraHeaderEntry: (m) => m.tag({ rest: `more\n\n${m.salt}` }),
};

const dotgit = (name: string): Make => (m) => m.withTree(m.entry("100644", name));
const url = (text: string): Make => sub(`url = "${text}"`);
const modulesAs = (name: string): Make => (m) =>
  m.withFile(name, `# ${m.salt}\n[submodule "x"]\n\turl = -x\n`);
const utf8 = (text: string) => Buffer.from(text).toString("latin1");

/** Refused by git since 2.45, which takes a url apart in another way; those before take them. */
export const NEWER: readonly (readonly [string, Make])[] = [
  ...[
    "https://h:99999/x",
    "http://h/../x",
    "http://h%41/x",
    "http://h/%zz",
    "http://h:0/",
    "http://h x/",
    "http://h/%2e%2e/x",
  ].map((text) => [`the url ${JSON.stringify(text)}`, url(text)] as const),
  ["a name of 4097 bytes", dotgit("a".repeat(4097))],
];

/** More spellings of the same and their neighbours that git lets pass. */
export const VARIANTS: readonly (readonly [string, Make])[] = [
  ...[
    ".git ",
    ".git. .",
    ".git::$INDEX_ALLOCATION",
    "git~1",
    "GIT~1 .",
    "git~2",
    ".gitx",
    "a\\.git\\b",
    "a\\git~1",
    "a\\.gitx",
    utf8(".g\u200cit"),
    utf8(".git\ufeff"),
    ".git\xff",
    ".gi\xfft",
    utf8(".gi\u0165"),
    ".git\x01",
    "...",
    ".git\\x",
    "git~1:x",
    ".git . .",
    utf8("\u200e.GIT"),
    " .git",
    "git",
    ".github",
    "x.git",
    utf8("\u00fc"),
  ].map((name) => [`the name ${JSON.stringify(name)}`, dotgit(name)] as const),
  ...[
    ".GitModules",
    ".gitmodules ",
    ".gitmodules:x",
    "gitmod~1",
    "GITMOD~4",
    "gitmod~5",
    "gi7eba~1",
    "GI7EBA~9",
    "gi7eba~10",
    "gi7eb~10",
    "gi~12345",
    "~1000000",
    "g~123456",
    "gi7eba~0",
    "gi7ebb~1",
    "a\\.gitmodules",
    utf8(".gitmod\u200dules"),
    ".gitmodulesx",
    "gitmodules",
    ".gitmodules\\x",
  ].map((name) => [`modules as ${JSON.stringify(name)}`, modulesAs(name)] as const),
  ...[
    "http://h/x",
    "http://h/%0ax",
    "https://h:443/x",
    "http://h/a/../x",
    "http://",
    "http:///x",
    "http://a%0ab@h/x",
    "http::http://h/x",
    "http::h/x",
    "https::h/%0a",
    "../x",
    "../:x",
    "..//x",
    "./../:x",
    "./x",
    "./:x",
    ".//x",
    "../a%0ab",
    "../%00",
    "git://h/%0a",
    "git://h/x",
    "ssh://h/%0a",
    "h:x",
    "ftp://h/%0A",
    "HTTP://h/%0a",
    "http://h:/",
    "http://h:080/",
    "http://[::1]:80/x",
    "http://h?a%0ab",
    "file:///%0a",
    "-x",
    " -x",
    "--",
    "",
  ].map((text) => [`the url ${JSON.stringify(text)}`, url(text)] as const),
  ["modules without a name", (m) => m.gitmodules(`[submodule ""]\n\tpath = x\n`)],
  ["a name with a backslash", sub("path = x", "a\\\\..\\\\b")],
  ["a name with dots", sub("path = x", "..a/b..")],
  ["another section", (m) => m.gitmodules(`[other "../x"]\n\turl = -x\n`)],
  ["a section without a name", (m) => m.gitmodules(`[submodule]\n\turl = -x\n`)],
  ["an old subsection", (m) => m.gitmodules(`[submodule.x]\n\turl = -x\n`)],
  ["keys in capitals", (m) => m.gitmodules(`[SUBMODULE "x"]\n\tURL = -x\n`)],
  ["a key without a value", (m) => m.gitmodules(`[submodule "x"]\n\turl\n`)],
  ["a fault before a syntax error", (m) => m.gitmodules(`[submodule "x"]\n\turl = -x\n[[\n`)],
  ["a fault behind a syntax error", (m) => m.gitmodules(`[[\n[submodule "x"]\n\turl = -x\n`)],
  ["an update by merge", sub("update = merge")],
  [
    "attributes of a line just short enough",
    (m) => m.withFile(".gitattributes", `${m.salt}\n${"a".repeat(2047)}\n`),
  ],
  [
    "a long line behind a NUL",
    (m) => m.withFile(".gitattributes", `${m.salt}\n\0${"a".repeat(3000)}\n`),
  ],
  ["attributes in a short name", (m) => m.withFile("gi7d29~1", `${m.salt}\n${"a".repeat(3000)}\n`)],
  [
    "a blob that the origin has as modules",
    (m) => m.withFile(".gitmodules", `[submodule "x"]\n\turl = -old\n`),
  ],
  ["a directory before its double", (m) =>
    m.withTree(
      m.entry("100644", "a"),
      m.entry("100644", "a.b"),
      m.entry("40000", "a", m.newTree()),
    )],
  [
    "a directory out of order",
    (m) => m.withTree(m.entry("40000", "a", m.newTree()), m.entry("100644", "a.b")),
  ],
  ["a file as directory", (m) => m.withTree(m.entry("40000", "a"))],
  ["a directory as file", (m) => m.withTree(m.entry("100644", "a", m.newTree()))],
  ["a null object", (m) => m.withTree(m.entry("100644", "a", "0".repeat(40)))],
  ["a directory with a mode of its own", (m) => m.withTree(m.entry("40755", "a", m.newTree()))],
  ["a link with a mode of its own", (m) => m.withTree(m.entry("120777", "a"))],
  ["an unheard of mode", (m) => m.withTree(m.entry("150000", "a"))],
  ["date zero", (m) => m.author("t <t@t> 0 +0000")],
  ["two spaces before the date", (m) => m.author(`t <t@t>  ${D}`)],
  ["the last date", (m) => m.author("t <t@t> 9223372036854775807 +0000")],
  ["the date after", (m) => m.author("t <t@t> 9223372036854775808 +0000")],
  ["no zone", (m) => m.author("t <t@t> 1700000000")],
  ["a committer without a date", (m) => m.commit({ committer: "committer t <t@t>\n" })],
  [
    "two committers",
    (m) => m.commit({ committer: `committer t <t@t> ${D}\ncommitter t <t@t> ${D}\n` }),
  ],
  ["more headers", (m) => m.commit({ rest: `encoding x\nmore\n\n${m.salt}` })],
  ["no text", (m) => m.commit({ rest: `x-salt ${m.salt}\n` })],
  ["no blank line", (m) => m.commit({ rest: `x-salt ${m.salt}` })],
  [
    "a parent in the wrong place",
    (m) => m.commit({ parent: "", committer: `parent ${m.parent}\ncommitter t <t@t> ${D}\n` }),
  ],
  ["a tree as parent", (m) => m.commit({ parent: `parent ${m.newTree()}\n` })],
  ["a commit as tree", (m) => m.commit({ tree: `tree ${m.parent}\n` })],
  ["a tag with a bad tagger", (m) => m.tag({ tagger: "tagger t <t@t> now\n" })],
  [
    "a bad tagger and a header more",
    (m) => m.tag({ tagger: "tagger t <t@t> now\n", rest: `more\n\n${m.salt}` }),
  ],
  ["a tag of the wrong type", (m) => m.tag({ type: "type tree\n" })],
  ["a tag without a text", (m) => m.tag({ tag: `tag v${m.salt}\n`, rest: "" })],
  ["a tag without a name", (m) => m.tag({ tag: "tag \n" })],
];
