/** Equal lines at several places, lines that were moved, and lines that are all there. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { judge } from "../settled.ts";

type Texts = readonly [base: string, hers: string, his: string];

/** Refused whichever side is whose. */
function refused([base, hers, his]: Texts, result: string, report = /./): void {
  for (const [a, b] of [[hers, his], [his, hers]] as const) {
    const verdict = judge([base, a, b, result]);
    assert.ok(!verdict.ok);
    assert.match(verdict.report, report);
  }
}

function passes([base, hers, his]: Texts, result: string): void {
  for (const [a, b] of [[hers, his], [his, hers]] as const) {
    assert.deepEqual(judge([base, a, b, result]), { ok: true });
  }
}

/** Functions, some of which have other lines. */
const functions = (line: (i: number) => string, page = "page"): string =>
  [0, 1, 2, 3].map((i) =>
    `def handler_${i}(ctx):\n${line(i)}    return render("${page}${i}", ctx)\n\n\n`
  ).join("");
const among = (...those: number[]) => (i: number): boolean => those.includes(i);

describe("an edit that both made at places of their own", () => {
  const of = (is: (i: number) => boolean, page?: string): string =>
    functions(
      (i) => is(i) ? "    user = load_user(ctx, cache=True)\n" : "    user = fetch_user(ctx)\n",
      page,
    );
  const texts: Texts = [of(among()), of(among(0)), of(among(2))];

  test("is lost with one side's version whole", () => {
    for (const result of [texts[1], texts[2]]) refused(texts, result, /> {5}user = load_user/);
  });
  test("is lost at one place of several", () => {
    refused([of(among()), of(among(), "PAGE"), of(among(2, 3))], of(among(3), "PAGE"));
    refused([of(among()), of(among(1)), of(among(2, 3))], of(among(1, 3)));
  });
  test("may be made everywhere, in other words, or at none of the places but more", () => {
    passes(texts, of(among(0, 2)));
    passes(texts, of(() => true));
    passes(texts, of(among(0, 2)).replaceAll("load_user", "load_cached_user"));
  });
});

describe("equal lines that both put in", () => {
  const guard = "    if not ctx.valid:\n        raise Denied(ctx)\n";
  const of = (is: (i: number) => boolean, page?: string): string =>
    functions((i) => is(i) ? guard : "", page);

  test("are lost at one place", () => {
    const texts: Texts = [of(among()), of(among(0)), of(among(2))];
    for (const result of [texts[1], texts[2]]) refused(texts, result, /raise Denied/);
    refused([of(among()), of(among(), "PAGE"), of(among(2, 3))], of(among(2), "PAGE"));
    refused([of(among()), of(among(0, 1)), of(among(2, 3))], of(among(0, 1, 3)));
  });
  test("may be made once, moved, or joined", () => {
    const texts: Texts = [of(among()), of(among(0)), of(among(2))];
    passes(texts, of(among(0, 2)).replaceAll("valid:\n        raise", "valid: raise"));
    passes([of(among()), of(among(), "PAGE"), of(among(2, 3))], of(among(0, 2), "PAGE"));
    const list = (...more: string[]): string => ["a", "b", "c", ...more].join("\n") + "\n";
    passes([list(), "new entry\n" + list(), list("new entry")], list("new entry") + "more\n");
  });
  test("are back at one place from which a side took them", () => {
    const all = of(() => true);
    const texts: Texts = [all, of(among(1, 2, 3)), of(among(0, 1, 3))];
    for (const result of [texts[1], texts[2]]) {
      refused(texts, result, /has lines back that were deleted/);
    }
    passes(texts, of(among(1, 3)) + "# more\n");
  });
});

describe("a number that one side raised", () => {
  const file = (a: string, b: string, c: string): string =>
    `head\n  "bitflags": "^${a}",\n  "rayon": "^1.10.2",\n  "libc": "^${b}",\n` +
    `  "regex": "^3.8.0",\n  "axum": "^0.11.1",\n  "anyhow": "^${c}",\ntail\n`;
  const texts: Texts = [
    file("2.7.0", "0.10.1", "2.11.2"),
    file("2.7.0", "0.10.1", "2.11.3"),
    file("3.0.0", "0.11.0", "2.11.2"),
  ];
  test("may not be the old one again beside another", () => {
    refused(texts, file("2.7.0", "0.11.0", "2.11.3"), /bitflags/);
  });
  test("may be raised further", () => {
    passes(texts, file("3.0.1", "0.11.0", "2.11.3"));
    passes(texts, file("3.0.0", "0.11.0", "2.11.3") + "more\n");
  });
});

describe("what one side moved within a file", () => {
  const head = "import os\n\n\ndef alpha(x):\n    return x + 1\n\n\n";
  const moved = "def compute_total(items):\n    total = 0\n    for item in items:\n" +
    "        total += item.price\n    return total\n";
  const omega = "def omega(y):\n    z = y * 2\n    return z\n\n\ndef last(z):\n    return z\n";
  const added = "def brand_new(k):\n    return sorted(k)\n";
  const texts: Texts = [
    `${head}${moved}\n\n${omega}`,
    `${head}${moved}\n\n${omega}\n\n${added}`,
    `${head}${omega}\n\n${moved}`,
  ];
  test("may not vanish in a conflict", () => {
    refused(texts, `${head}${omega}\n\n${added}`, /compute_total/);
  });
  test("may stand at either place, edited, or in other words", () => {
    passes(texts, `${head}${omega}\n\n${moved}\n\n${added}`);
    const renamed = moved.replaceAll("total", "price_sum").replaceAll("item", "line");
    passes(texts, `${head}${omega}\n\n${renamed}\n\n${added}`);
  });
});

describe("an entry that one side moved to another list", () => {
  const json = (list: string, dev: string): string =>
    `{\n  "engines": { "node": ">=18" },\n${list}  "devDependencies": {\n` +
    `    "@types/node": "^22.15.3",\n${dev}    "tsup": "^8.5.0"\n  }\n}\n`;
  const old = `  "dependencies": {\n    "fflate": "^0.8.2"\n  },\n`;
  const [moved, added] = [`    "fflate": "^0.8.2",\n`, `    "prettier": "^3.6.2",\n`];
  const texts: Texts = [json(old, ""), json(old, added), json("", moved)];
  test("may not vanish in a conflict, whatever signs it has", () => {
    refused(texts, json("", added), /fflate/);
  });
  test("may stand in either, and beside what the other side put in", () => {
    passes(texts, json("", moved + added));
    passes(texts, json("", added + moved));
    passes(texts, json("", added + moved.replace("0.8.2", "0.8.3")));
  });
});

describe("a list that one side sorted", () => {
  const list = (names: string): string =>
    `items:\n${names.split(" ").map((name) => `  - ${name}\n`).join("")}end: true\n`;
  const base = list("uuid log rayon tempfile syn futures");
  const sorted = list("futures log rayon syn tempfile uuid");
  const texts: Texts = [base, sorted, list("uuid hex log rayon tempfile syn futures")];
  test("may not lack an entry of both sides'", () => {
    for (const name of ["futures", "log", "rayon", "syn", "tempfile", "uuid", "hex"]) {
      const all = ["futures", "hex", "log", "rayon", "syn", "tempfile", "uuid"];
      refused(texts, list(all.filter((one) => one !== name).join(" ")), new RegExp(name));
    }
    passes(texts, list("futures hex log rayon syn tempfile uuid"));
  });
  test("may not have an entry back that the other side deleted in the conflict", () => {
    const [names, deleted] = ["nom tempfile rayon rand", "nom tempfile rayon"];
    const texts: Texts = [list(names), list(deleted), list("nom rand rayon tempfile")];
    refused(texts, list("nom rand rayon tempfile") + "more\n", /deleted there|rand/);
    passes(texts, list("nom rayon tempfile") + "more\n");
  });
  test("may lack what the other side deleted", () => {
    for (const name of ["log", "rayon", "syn", "futures", "uuid"]) {
      passes(
        [base, sorted, base.replace(`  - ${name}\n`, "")],
        sorted.replace(`  - ${name}\n`, ""),
      );
    }
  });
});

describe("a change of which every line stands", () => {
  test("is there, though few of its words are its own", () => {
    const ci = (a: string, b: string): string =>
      `include:\n  - go: ${a}\n  - go: ${b}\n  - go: tip\n`;
    const texts: Texts = [ci("1.9.4", "1.10.0"), ci("1.10.x", "1.10.0"), ci("1.9.4", "1.11.x")];
    passes(texts, ci("1.10.x", "1.11.x"));
    refused(texts, ci("1.10.x", "1.10.0"));
    refused(texts, ci("1.9.4", "1.11.x"));
  });
  test("and whose words the other side's lines have too", () => {
    const scss = (top: string, family: string): string =>
      `// normalize 2012\n${top}\nbutton,\ninput {\n    margin: 0;\n}\n\n` +
      `textarea {\n    font-family: ${family};\n}\n`;
    const own = "\n$base-font-family: sans-serif !default;\n";
    const note = "// The default font family. You should set $base-font-family in your partial.\n";
    const texts: Texts = [
      scss("", "sans-serif"),
      scss(own, "sans-serif"),
      scss(note, "$base-font-family"),
    ];
    passes(texts, scss(own + note, "$base-font-family"));
    refused(texts, scss(own, "$base-font-family"));
    refused(texts, scss(note, "$base-font-family"));
  });
});
