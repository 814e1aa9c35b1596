/** What stands in other files: work that moved there, and what is merely left over from settling a merge. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { git, write } from "../../helpers/git.ts";
import { merged, passes, refuses, step } from "./repo.ts";

const FILE = (middle: string): string => `head\n${middle}\ntail\n`;
const HERS = FILE("mid written by ALICE carefully");
const HIS = FILE("mid hacked BOB quickly");
const marked = (dir: string): string =>
  git(dir, "show", "AUTO_MERGE:f").replace(/^[<=>]{7}.*\n/gm, "") + "\n";

describe("one side's version whole isn't excused by", () => {
  const conflict = (settle: (dir: string) => void): string =>
    merged({ f: FILE("mid original"), "o.txt": "other\n" }, { f: HERS }, { f: HIS }, (dir) => {
      settle(dir);
      write(dir, "f", HIS);
    });
  const left: Record<string, (dir: string) => void> = {
    "a copy without its markers": (dir) => write(dir, "f.orig", marked(dir)),
    "a copy in a directory": (dir) => write(dir, ".backup/f", marked(dir)),
    "the other side's version": (dir) => write(dir, "f.theirs", HERS),
    "that of a merge tool": (dir) => write(dir, "f_REMOTE_1234.txt", HERS),
    "a patch": (dir) => write(dir, "theirs.patch", git(dir, "diff", "HEAD...MERGE_HEAD") + "\n"),
    "a swap file": (dir) => write(dir, ".f.swp", `b0VIM\0\0${HERS}`),
    "a note": (dir) =>
      write(dir, "MERGE_NOTES.md", "Merge note: dropped: mid written by ALICE carefully\n"),
    "a word in another file": (dir) => write(dir, "o.txt", "other\nwritten\n"),
    "a remark in another file": (dir) =>
      write(dir, "o.txt", "other\nsee what was written of ALICE when we met in the house\n"),
  };
  for (const [what, settle] of Object.entries(left)) {
    test(what, () => {
      const dir = conflict(settle);
      refuses(dir, ["f"]);
      step(dir, (dir) => {
        git(dir, "rm", "-rq", "--ignore-unmatch", "f.orig", ".backup", "f.theirs", ".f.swp");
        git(dir, "rm", "-q", "--ignore-unmatch", "f_REMOTE_1234.txt", "MERGE_NOTES.md");
      });
      refuses(dir, ["f"]);
      step(dir, { f: FILE("mid written by ALICE carefully, hacked by BOB quickly") });
      passes(dir);
    });
  }
});

test("nor are single lines that are gone, in a longer file, with something more", () => {
  const list = (...more: string[]): string =>
    ["item alpha", "item beta", ...more, "item gamma", "item delta", "item eps"].join("\n") + "\n";
  const hers = list("alice one", "alice two more");
  for (const name of ["l.txt.orig", "old/l.txt"]) {
    const dir = merged({ "l.txt": list() }, { "l.txt": hers }, { "l.txt": list("bob three") }, {
      "l.txt": list("alice one", "bob three"),
      [name]: hers,
    });
    refuses(dir, ["l.txt"]);
  }
});

const USERS = "const getUser = (id) => db.find(id);\n\n";
const PAGE = "function page(id) {\n  const u = getUser(id);\n  return render(u);\n}\n\n";
const API = "function api(id) {\n  return getUser(id);\n}\n";
const WIDE = PAGE.replace("render(u)", 'render(u, { layout: "wide" })');

describe("code that moved", () => {
  const edited = { "a.js": USERS + WIDE + API };

  test("to a file of the other side's passes with the edit in it, and not without", () => {
    const his = { "a.js": USERS + API, "page.js": PAGE };
    const base = { "a.js": USERS + PAGE + API };
    passes(merged(base, edited, his, { "a.js": USERS + API, "page.js": WIDE }));
    // Laid out anew.
    const apart = WIDE.replace("{ layout", "{\n    layout").replace("wide", "wide,\n");
    passes(merged(base, edited, his, { "a.js": USERS + API, "page.js": apart }));
    refuses(merged(base, edited, his, { "a.js": USERS + API, "page.js": PAGE }), ["a.js"]);
  });

  test("by the merge itself, to a new file or one there was, passes while it stands there", () => {
    const log = "const log = (what) => console.log(what);\n\n";
    const base = { "a.js": USERS + PAGE + API, "b.js": log };
    const his = { "a.js": USERS + PAGE.replace("page(id)", "page(id, req)") + API };
    const both = WIDE.replace("page(id)", "page(id, req)");
    for (const name of ["page.js", "b.js"]) {
      const dir = merged(base, edited, his, {
        "a.js": `import { page } from "./${name}";\n${USERS}${API}`,
        [name]: (name === "b.js" ? log : "") + `export ${both}`,
      });
      passes(dir);
      step(dir, { o: "more\n" });
      passes(dir);
      step(dir, (dir) => void git(dir, "mv", name, "moved.js"));
      passes(dir);
      step(dir, (dir) => rmSync(join(dir, "moved.js")));
      refuses(dir, ["a.js"]);
    }
  });

  test("of one side's new lines passes too", () => {
    const fresh = "function fresh(order) {\n  const sum = order.total();\n  return pay(sum);\n}\n";
    const base = { "a.js": USERS + API, "b.js": "start();\n" };
    const his = { "a.js": USERS + API.replace("getUser(id)", "getUser(id) || null") };
    const hers = { "a.js": USERS + API + "\n" + fresh };
    passes(merged(base, hers, his, { ...his, "b.js": "start();\n" + fresh }));
    refuses(merged(base, hers, his, { ...his, "b.js": "start();\nstart(order);\n" }), ["a.js"]);
  });
});

test("a copy of one parent's version excuses nothing, though the path was settled by hand", () => {
  const list = (...more: string[]): string =>
    [...more, ...Array.from({ length: 4 }, (_, i) => `old item ${i} of all`)].join("\n") + "\n";
  const hers = list("alice writes first", "alice paints another");
  const bob = Array.from({ length: 12 }, (_, i) => `bob does ${i}`);
  for (const left of [hers, hers.replaceAll("\n", "\r\n")]) {
    const dir = merged({ f: list() }, { f: hers }, { f: list(...bob) }, {
      f: list(...bob, "bob does 13"),
      "kept/copy": left,
    });
    refuses(dir, ["f"]);
  }
});

describe("two files that were added under one name", () => {
  const migration = (id: string, what: string): string =>
    `revision = "${id}"\n\ndef upgrade():\n    op.add_column("${what}", "${what}_total")\n` +
    `    op.create_index("${what}_index")\n\n\ndef down():\n    op.drop("${what}")\n`;
  const [hers, his] = [migration("0005", "orders"), migration("0005", "users")];
  const put = (files: Record<string, string>): string =>
    merged({ "m/0004.py": migration("0004", "first") }, { "m/0005.py": hers }, {
      "m/0005.py": his,
    }, files);

  test("pass when one of them got another name, whichever, as it is or with another number", () => {
    for (const [kept, moved] of [[hers, his], [his, hers]] as const) {
      passes(put({ "m/0005.py": kept, "m/0006.py": moved }));
      passes(put({ "m/0005.py": kept, "m/0006.py": moved.replace("0005", "0006") }));
      passes(put({ "m/0005.py": kept, "other/0005.py": moved }));
    }
  });

  test("are refused when one is gone, lacks something, or is merely left over", () => {
    for (const [kept, moved] of [[hers, his], [his, hers]] as const) {
      refuses(put({ "m/0005.py": kept }), ["m/0005.py"]);
      const less = moved.replace(/ +op.create_index.*\n/, "");
      refuses(put({ "m/0005.py": kept, "m/0006.py": less }), ["m/0005.py"]);
      for (const name of ["m/0005.py.orig", "m/0005_REMOTE_12.py", "m/.old/0005.py", "bak/x.py"]) {
        refuses(put({ "m/0005.py": kept, [name]: moved }), ["m/0005.py"]);
      }
    }
  });

  test("are refused when one stands twice, however alike they are", () => {
    const long = (id: string, what: string, of: string): string =>
      `"""${what}"""\nfrom alembic import op\nimport sqlalchemy as sa\n\nrevision = "${id}"\n` +
      `down_revision = "aaa"\n\n\ndef upgrade():\n    op.add_column("orders", sa.Column("${what}"))\n` +
      `    ${of}\n\n\ndef downgrade():\n    op.drop_column("orders", "${what}")\n`;
    const [one, two] = [
      long("bbb", "paid", "op.execute('update orders set paid = total <= 0')"),
      long("ccc", "note", 'op.create_index("ix_note", "orders", ["note"])'),
    ];
    const settled = (first: string, second: string): string =>
      merged({ o: "o\n" }, { "m/2.py": one }, { "m/2.py": two }, {
        "m/2.py": first,
        "m/3.py": second.replace("aaa", "bbb"),
      });
    for (const [kept, moved] of [[one, two], [two, one]] as const) {
      passes(settled(kept, moved));
      refuses(settled(kept, kept), ["m/2.py"]);
    }
  });

  test("pass when both got another name", () => {
    const gone = (files: Record<string, string>) => (dir: string) => {
      git(dir, "rm", "-qf", "m/0005.py");
      for (const [path, data] of Object.entries(files)) write(dir, path, data);
    };
    const apart = (settle: (dir: string) => void): string =>
      merged({ o: "o\n" }, { "m/0005.py": hers }, { "m/0005.py": his }, settle);
    passes(apart(gone({ "m/0006.py": hers, "m/0007.py": his })));
    refuses(apart(gone({ "m/0006.py": hers })), ["m/0005.py"]);
    refuses(apart(gone({ "m/0006.py": hers, "m/0005.py.orig": his })), ["m/0005.py"]);
  });

  test("pass when one got a name of its own, within the file too, if no leftover has it", () => {
    const code = (name: string, what: string) =>
      `class ${name} {\n  ${what}(values) {\n    return values.${what}(this.${what});\n  }\n}\n`;
    const [one, two] = [code("Foo", "sum"), code("Foo", "sort")];
    const put = (name: string) =>
      merged({ o: "o\n" }, { "Foo.js": one }, { "Foo.js": two }, {
        "Foo.js": one,
        [name]: two.replace("Foo", "Bar"),
      });
    for (const name of ["Bar.js", "base.js", "remote/Bar.js"]) passes(put(name));
    for (const name of ["Foo.js~", "Foo_BASE_1.js", "remote/Foo.js", "theirs.js"]) {
      refuses(put(name), ["Foo.js"]);
    }
  });
});
