/** Files that one side renamed and edited, and the other left alone: merging has nothing to do there, losing has. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { git, write } from "../../helpers/git.ts";
import { apart, type Files, merge, merged, passes, refuses, step } from "./repo.ts";

const line = (i: number): string => `  step${i}(state, "of the ${i}th kind");\n`;
const lines = (from: number, to: number): string =>
  Array.from({ length: to - from }, (_, i) => line(from + i)).join("");
const OLD = `if (user.admin) {\n${lines(0, 30)}}\nfunction backdoor(token) {\n  return token;\n}\n`;

/** What she makes of the file while she moves it. */
const EDITS: Record<string, string> = {
  "a condition": OLD.replace("user.admin", "user.admin && !user.locked"),
  "a number": OLD.replace("17th", "71st"),
  "a function removed": OLD.slice(0, OLD.indexOf("function")),
  "a line put in": OLD.replace(line(9), `${line(9)}  audit(user);\n`),
  "several at once": OLD.replace("user.admin", "user.admin && !user.locked").replace(line(12), "")
    .slice(0, -30),
};

const moveTo = (to: string, content: string, from = "src/auth.js") => (dir: string): void => {
  rmSync(join(dir, from));
  write(dir, to, content);
};

describe("an edit that came with a move is lost with the old text under the new name:", () => {
  const base: Files = { "src/auth.js": OLD, "src/other.js": lines(40, 60), own: "0\n" };
  for (const [name, edited] of Object.entries(EDITS)) {
    test(name, () => {
      const to = "lib/auth.js";
      const hers = moveTo(to, edited);
      refuses(merged(base, hers, { own: "his\n" }, { [to]: OLD }), [to], /auth\.js/);
      // His, too: the candidate moved it, and the branch had nothing to do with it.
      refuses(merged(base, { own: "hers\n" }, moveTo(to, edited), { [to]: OLD }), [to]);
      passes(merged(base, hers, { own: "his\n" }, { [to]: edited }));
      passes(merged(base, hers, { own: "his\n" }, {}));
    });
  }

  test("of a directory that moved whole, and of a file that the merge moves once more", () => {
    const edited = EDITS["a condition"]!;
    const all = (dir: string): void => {
      moveTo("lib/auth.js", edited)(dir);
      git(dir, "mv", "src/other.js", "lib/other.js");
    };
    refuses(merged(base, all, { own: "his\n" }, { "lib/auth.js": OLD }), ["lib/auth.js"]);
    const again = moveTo("app/auth.js", OLD, "lib/auth.js");
    refuses(merged(base, all, { own: "his\n" }, again), ["lib/auth.js"]);
    passes(merged(base, all, { own: "his\n" }, moveTo("app/auth.js", edited, "lib/auth.js")));
  });

  test("and forgiven or dropped as any other", () => {
    const edited = EDITS["a condition"]!;
    const dir = apart(base, moveTo("lib/auth.js", edited), { own: "his\n" });
    merge(dir, [], { "lib/auth.js": OLD });
    refuses(dir, ["lib/auth.js"]);
    passes(dir, ["lib/auth.js"]);
    step(dir, { "lib/auth.js": edited });
    passes(dir);
  });
});

test("a new file that is like one left alone, or one deleted, is a new one", () => {
  const base: Files = { "src/auth.js": OLD, own: "0\n" };
  const copy = OLD.replaceAll("step", "walk").replaceAll("kind", "sort");
  // Beside the old one it is no rename, and adapting it loses nothing.
  const beside = merged(base, { "src/walk.js": copy }, { own: "his\n" }, {
    "src/walk.js": copy.replace("user.admin", "user.root"),
  });
  passes(beside);
  const apartFrom = merged(base, moveTo("lib/new.js", "quite\nother\nwords\n"), { own: "his\n" }, {
    "lib/new.js": "quite\nother\nwords\nadapted\n",
  });
  passes(apartFrom);
});

test("a file that is as it was lost what a side did to it, though its twin has that now", () => {
  const conf = `def view(request):\n${lines(0, 12)}    return render(request)\n`;
  const fixed = conf.replace(
    "def view(request):\n",
    "def view(request):\n    authorize(request)\n",
  );
  const base: Files = { "a/conf.py": conf, "b/conf.py": conf, own: "0\n" };
  const settle: Files = { "a/conf.py": conf, "b/conf.py": fixed };
  refuses(merged(base, { "a/conf.py": fixed }, { own: "his\n" }, settle), ["a/conf.py"]);
  passes(merged(base, { "a/conf.py": fixed }, { own: "his\n" }, { "b/conf.py": fixed }));
});

describe("an edit is lost where another file's text is laid over it:", () => {
  const legacy = "# legacy\nimport pickle\n\nclass Handler(object):\n" +
    "    def get(self, key):\n        return pickle.load(open(key))\n";
  const source = `import json\n${lines(0, 12)}def save(request, data):\n` +
    `    conn.execute("update users set data = ?", json.dumps(data))\n${lines(12, 24)}limit = 50\n`;
  const fixed = source.replace(
    / {4}conn\.execute.*\n/,
    "    ledger.append(AuditRecord(actor, payload=data))\n",
  );
  const longer = source.replace("limit = 50", "limit = 200 # rows shown");
  const base: Files = { "h.py": legacy, "h2.py": source, own: "0\n" };

  test("a copy of it, edited, by a newer one of the same", () => {
    const settle: Files = { "h.py": longer };
    refuses(merged(base, { "h2.py": longer }, { "h.py": fixed }, settle), ["h.py"]);
    refuses(merged(base, { "h.py": fixed }, { "h2.py": longer }, settle), ["h.py"]);
    const both = fixed.replace("limit = 50", "limit = 200 # rows shown");
    passes(merged(base, { "h2.py": longer }, { "h.py": fixed }, { "h.py": both }));
    passes(merged(base, { "h2.py": longer }, { "h.py": fixed }, {}));
  });

  test("what was moved over it, edited, by what the other side made of the old one", () => {
    const move = (dir: string): void => moveTo("h.py", fixed, "h2.py")(dir);
    const settle = (dir: string): void => moveTo("h.py", longer, "h2.py")(dir);
    refuses(merged(base, { "h2.py": longer }, move, settle), ["h.py"]);
  });
});

test("what is wrongly back in one file excuses nothing that is missing in another", () => {
  const [back, kept] = ["            return\n", "        io.RawIOBase.close(self)\n"];
  const one = "            return self\n";
  const his: Files = { "one.py": "  char *pw_name; /* Username. */\n        return renamed_43\n" };
  const lost: Files = { "one.py": "  char *pw_name; /* Username. */\n" };
  const base: Files = { "one.py": one, "two.py": back + kept };
  refuses(merged({ "one.py": one }, { own: "hers\n" }, his, lost), ["one.py"]);
  const dir = merged(base, { "two.py": kept }, his, { ...lost, "two.py": back + kept });
  refuses(dir, ["one.py", "two.py"]);
  refuses(dir, ["one.py"], /^/, ["two.py"]);
});
