/** Lines that both sides edited, next to lines of either's that have the same words for reasons of their own. */
import { describe, test } from "node:test";
import { passes, refused, type Texts, within } from "../settled.ts";

const file = (...lines: string[]): string => `head\n\n${lines.join("\n")}\n\ntail\n`;

/** A line that both edit, one that only the first does, as both found them, and as the first and the second made them. */
type Case = readonly [
  old: readonly [string, string],
  hers: readonly [string, string],
  his: string,
  both: string,
];
const ALIKE: Readonly<Record<string, Case>> = {
  "guards of routes": [
    ["r.get('/users', list)", "r.post('/users', create)"],
    ["r.get('/users', requireLogin, list)", "r.post('/users', requireLogin, create)"],
    "r.get('/users', cache(60), list)",
    "r.get('/users', requireLogin, cache(60), list)",
  ],
  "columns": [
    ["  email varchar(20),", "  name varchar(20),"],
    ["  email varchar(20) NOT NULL,", "  name varchar(20) NOT NULL,"],
    "  email varchar(80),",
    "  email varchar(80) NOT NULL,",
  ],
  "a function renamed": [
    ["v := fetchUser(db, id)", "w := fetchUser(db, other)"],
    ["v := loadUser(db, id)", "w := loadUser(db, other)"],
    "v := fetchUser(ctx, db, id)",
    "v := loadUser(ctx, db, id)",
  ],
  "a parameter of methods": [
    ["  open(ctx: Ctx, id: string): Doc", "  close(ctx: Ctx, id: string): void"],
    ["  open(ctx: Ctx, id: string, u: User): Doc", "  close(ctx: Ctx, id: string, u: User): void"],
    "  open(ctx: Ctx, id: string, mode: Mode): Doc",
    "  open(ctx: Ctx, id: string, u: User, mode: Mode): Doc",
  ],
  "limits": [
    ["web: run --port 80", "api: run --port 81"],
    ["web: run --port 80 --limit 512", "api: run --port 81 --limit 512"],
    "web: run --port 80 --workers 4",
    "web: run --port 80 --limit 512 --workers 4",
  ],
  "a call that computes": [
    ["a = wait(30)", "b = wait(30)"],
    ["a = wait(60)", "b = wait(60)"],
    "a = wait_for(30)",
    "a = wait_for(60)",
  ],
};

describe("in a conflict, what one side put into neighbouring lines alike", () => {
  for (const [name, [[old, next], [one, two], other, both]] of Object.entries(ALIKE)) {
    const texts: Texts = [file(old, next), file(one, two), file(other, next)];
    const turned: Texts = [file(next, old), file(two, one), file(next, other)];
    const wide = texts.map(within) as unknown as Texts;
    test(`may not go from the one that the other side edited too: ${name}`, () => {
      refused(texts, file(other, two));
      refused(turned, file(two, other));
      refused(wide, within(file(other, two)));
    });
    test(`is there with both edits in one line: ${name}`, () => {
      passes(texts, file(both, two));
      passes(turned, file(two, both));
      passes(wide, within(file(both, two)));
    });
  }

  const all = (login: string, cache: string): string[] =>
    ["get", "post", "put"].map((verb) => `r.${verb}('/u', ${login}${cache}${verb}User)`);
  test("may not go from one of three that both edited, with the others united", () => {
    const texts: Texts = [
      file(...all("", "")),
      file(...all("login, ", "")),
      file(...all("", "cache, ")),
    ];
    for (const i of [0, 1, 2]) {
      const lines = all("login, ", "cache, ");
      passes(texts, file(...lines, "// more"));
      lines[i] = all("", "cache, ")[i]!;
      refused(texts, file(...lines), new RegExp(`'/u', login, ${["get", "post", "put"][i]}User`));
    }
  });
  test("may not go from a line because lines that nobody edited have it", () => {
    const columns = (a: string, b: string): string => file(a, b, "c int NOT NULL,", "d int,");
    const texts: Texts = [
      columns("a int,", "b int,"),
      columns("a int NOT NULL,", "b int NOT NULL,"),
      columns("a int UNIQUE,", "b int,"),
    ];
    refused(texts, columns("a int UNIQUE,", "b int NOT NULL,"));
    passes(texts, columns("a int NOT NULL UNIQUE,", "b int NOT NULL,"));
  });
  test("may stand in one new line for all of them", () => {
    const texts: Texts = [
      file("r.get(list)", "r.post(make)"),
      file("r.get(login, list)", "r.post(login, make)"),
      file("r.get(cache, list)", "r.post(check, make)"),
    ];
    passes(texts, file("r.use(login)", "r.get(cache, list)", "r.post(check, make)"));
    refused(texts, file("r.get(cache, list)", "r.post(login, check, make)"));
    const deleted: Texts = [texts[0], texts[1], file("r.get(cache, list)")];
    passes(deleted, file("r.use(login)", "r.get(cache, list)"));
  });
  test("may not go where the merge is laid out anew", () => {
    const texts: Texts = [
      file("int id;", "int n;"),
      file("int id NOTNULL;", "int n NOTNULL;"),
      file("long id;", "int n;"),
    ];
    refused(texts, file("long   id;", "int    n   NOTNULL;"));
    passes(texts, file("long   id   NOTNULL;", "int    n    NOTNULL;"));
  });
  test("isn't missed in a line out of which the other side took the word that it replaces", () => {
    const texts: Texts = [
      file("run(cfg, one, on)", "stop(cfg)"),
      file("run(config, one, on)", "stop(config)"),
      file("run(one, on, now)", "stop(cfg)"),
    ];
    passes(texts, file("run(one, on, now)", "stop(config)"));
    refused(texts, file("run(one, on, now)", "stop(cfg)"));
  });
  test("isn't missed where both put the same in, and one more", () => {
    const texts: Texts = [
      file("expire(key, a)", "expire(other, a)"),
      file("expire(key, FIELDS 1, a)", "expire(other, FIELDS 1, a)"),
      file("expire(key, FIELDS 3, a)", "expire(other, FIELDS 3, a)"),
    ];
    passes(texts, file("expire(key, FIELDS 3, a)", "expire(other, FIELDS 1, a)"));
  });
  test("isn't missed where the merge put the other side's word in its place throughout", () => {
    const clock = (now: string, seen = "", more = ""): string =>
      file(
        `nack->time = ${now};`,
        "send(server);",
        ...(seen ? [`seen->time = ${seen};`] : []),
        more,
      );
    const texts: Texts = [
      clock("mstime()"),
      clock("server.mstime", "server.mstime", "count(server);"),
      clock("snapshot()"),
    ];
    passes(texts, clock("snapshot()", "snapshot()", "count(server);"));
    refused(texts, clock("snapshot()", "server.mstime", "count(server);"));
  });
});

/** What both found, what either adds to its declaration and below, both united; and the declaration of both. */
interface Declared {
  readonly base: readonly string[];
  readonly hers: readonly string[];
  readonly his: readonly string[];
  readonly both: readonly string[];
}
const DECLARED: Readonly<Record<string, Declared>> = {
  "a parameter in Python": {
    base: ["def go(self, url):", "    self.url = url"],
    hers: ["def go(self, url, timeout=10):", "    self.url = url", "    self.timeout = timeout"],
    his: ["def go(self, url, retries=3):", "    self.url = url", "    self.retries = retries"],
    both: [
      "def go(self, url, timeout=10, retries=3):",
      "    self.url = url",
      "    self.timeout = timeout",
      "    self.retries = retries",
    ],
  },
  "a parameter in Go": {
    base: ["func New(url string) *C {", "\treturn &C{url: url}"],
    hers: [
      "func New(url string, timeout int) *C {",
      "\treturn &C{url: url, timeout: timeout}",
    ],
    his: ["func New(url string, retries int) *C {", "\treturn &C{url: url, retries: retries}"],
    both: [
      "func New(url string, timeout int, retries int) *C {",
      "\treturn &C{url: url, timeout: timeout, retries: retries}",
    ],
  },
  "a parameter in Java": {
    base: ["A(Url url) {", "    this.url = url;"],
    hers: ["A(Url url, Duration timeout) {", "    this.url = url;", "    this.timeout = timeout;"],
    his: ["A(Url url, int retries) {", "    this.url = url;", "    this.retries = retries;"],
    both: [
      "A(Url url, Duration timeout, int retries) {",
      "    this.url = url;",
      "    this.timeout = timeout;",
      "    this.retries = retries;",
    ],
  },
  "an import": {
    base: ['import { a } from "x"', "a()"],
    hers: ['import { a, b } from "x"', "a()", "b()"],
    his: ['import { a, c } from "x"', "a()", "c()"],
    both: ['import { a, b, c } from "x"', "a()", "b()", "c()"],
  },
  "a prop": {
    base: ["const { a } = props", "use(a)"],
    hers: ["const { a, size } = props", "use(a)", "draw(size)"],
    his: ["const { a, color } = props", "use(a)", "paint(color)"],
    both: ["const { a, size, color } = props", "use(a)", "draw(size)", "paint(color)"],
  },
};

describe("in a conflict, a name that one side added to a line of names", () => {
  for (const [name, { base, hers, his, both }] of Object.entries(DECLARED)) {
    const texts: Texts = [file(...base), file(...hers), file(...his)];
    test(`may not go while its use below stands: ${name}`, () => {
      refused(texts, file(his[0]!, ...both.slice(1)));
      refused(texts, file(hers[0]!, ...both.slice(1)));
      refused(texts.map(within) as unknown as Texts, within(file(his[0]!, ...both.slice(1))));
    });
    test(`is there in the united line: ${name}`, () => {
      passes(texts, file(...both));
      passes(texts.map(within) as unknown as Texts, within(file(...both)));
    });
  }
  const prop = DECLARED["a prop"]!;
  const props: Texts = [file(...prop.base), file(...prop.hers), file(...prop.his)];
  test("may stand in a line of its own", () => {
    passes(props, file(prop.his[0]!, "const { size } = props", ...prop.both.slice(1)));
    const { base, hers, his, both } = DECLARED["an import"]!;
    const texts: Texts = [file(...base), file(...hers), file(...his)];
    passes(texts, file(his[0]!, 'import { b } from "y"', ...both.slice(1)));
  });
  test("may be in a line broken into several, by the other side or by the merge", () => {
    const broken = (...names: string[]): string[] => [
      "const {",
      ...names.map((name) => `  ${name},`),
      "} = props",
    ];
    passes(props, file(...broken("a", "size", "color"), ...prop.both.slice(1)));
    const his = file(...broken("a", "color"), "use(a)", "paint(color)");
    const texts: Texts = [props[0], props[1], his];
    passes(texts, file(...broken("a", "size", "color"), ...prop.both.slice(1)));
    refused(texts, file(...broken("a", "color"), ...prop.both.slice(1)));
  });
  test("may be reached in another way where it is used, through what the other side added", () => {
    const go = (names: string, use: string, ...more: string[]): string =>
      file(`function go(${names}) {`, ...more, `  open(${use})`, "}");
    const texts: Texts = [
      go("url", "url"),
      go("url, timeout", "url, timeout"),
      go("url, opts", "url"),
    ];
    passes(texts, go("url, opts", "url, opts.timeout"));
    passes(texts, go("url, opts", "url, timeout", "  const { timeout } = opts"));
    refused(texts, go("url, opts", "url, timeout"));
    const used: Texts = [texts[0], texts[1], go("url, opts", "url, opts")];
    refused(used, go("url, opts", "url, timeout, opts"));
  });
  test("may not go from what an effect depends on, nor from its body", () => {
    const effect = (body: string, needs: string): string =>
      file("effect(() => {", `  ${body}`, `}, [${needs}])`);
    const texts: Texts = [
      effect("load(a)", "a"),
      effect("load(a, size)", "a, size"),
      effect("load(a, color)", "a, color"),
    ];
    refused(texts, effect("load(a, size, color)", "a, color"));
    refused(texts, effect("load(a, color)", "a, size, color"));
    passes(texts, effect("load(a, size, color)", "a, size, color"));
  });
});
