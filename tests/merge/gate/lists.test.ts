/** Conflicts settled by hand in lists and rows of calls, whose lines are mostly the same words. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { judge, within } from "../settled.ts";

type Case = readonly [name: string, base: string, hers: string, his: string, result: string];

/** A list whose elements but for the last one end in a separator. */
const list = (
  name: string,
  [open, close, separator]: readonly [string, string, string],
  ...[base, hers, his, result]: readonly (readonly string[])[]
): Case => {
  const text = (items: readonly string[]): string =>
    open + items.map((item) => `  ${item}`).join(`${separator}\n`) + `\n${close}`;
  return [name, text(base!), text(hers!), text(his!), text(result!)];
};
const JSON_OBJECT = ["{\n", "}\n", ","] as const;
const SQL = ["create table item (\n", ");\n", ","] as const;

const strict = '"strict": true';
const express = '"express": "^4.0.0"';
const flags = { any: '"noImplicitAny": true', locals: '"noUnusedLocals": true' };
const id = "id bigint not null";
const ports = (...numbers: number[]): string =>
  "ports:\n" + numbers.map((n) => `  - containerPort: ${n}\n    protocol: TCP\n`).join("");

/** A handler, and what each side calls in it: words that all stand in it already. */
const checks = (...names: string[]): string =>
  "role = user.role\ntoken = req.token\nquota = user.quota\n" +
  names.map((name) => `check(${name})\n`).join("") + "return process(req)\n";
const app = (names: readonly string[], port = 3000): string =>
  'import express, { cors, helmet, session } from "./mw";\nconst app = express();\napp.use(logger);\n' +
  names.map((name) => `app.use(${name});\n`).join("") + `app.listen(${port});\n`;
const exported = (...names: string[]): string =>
  "function parse() {}\nfunction format() {}\nfunction validate() {}\nmodule.exports.x = 1;\n" +
  names.map((name) => `module.exports.${name} = ${name};\n`).join("");
const registry = (...names: string[]): string =>
  "from .x import Foo, Bar, Baz\nREG = []\nREG.append(0)\n" +
  names.map((name) => `REG.append(${name})\n`).join("");
const indexed = (...names: string[]): string =>
  "create table t (id int, name text, mail text, age int);\n" +
  names.map((name) => `create index on t (${name});\n`).join("");
const docker = (...names: string[]): string =>
  "FROM node\nCOPY src lib test docs /app\nRUN npm ci\n" +
  names.map((name) => `RUN npm ${name}\n`).join("");
const closed = (...names: string[]): string =>
  "self.flush = 1\nself.db = open()\nself.cache = 2\n" +
  names.map((name) => `self.${name}.close()\n`).join("");

const sloppy: readonly Case[] = [
  list(
    "one of two flags",
    JSON_OBJECT,
    [strict],
    [strict, flags.any, flags.locals],
    [strict, '"sourceMap": true'],
    [strict, flags.any, '"sourceMap": true'],
  ),
  list(
    "one of two dependencies",
    JSON_OBJECT,
    [express],
    [express, '"lodash": "^4.17.0"', '"zod": "^3.0.0"'],
    [express, '"axios": "^1.2.0"'],
    ['"axios": "^1.2.0"', express, '"lodash": "^4.17.0"'],
  ),
  list(
    "a dependency beside one that was raised",
    JSON_OBJECT,
    [express],
    ['"express": "^4.18.0"', '"zod": "^3.0.0"'],
    [express, '"axios": "^1.2.0"'],
    ['"express": "^4.18.0"', '"axios": "^1.2.0"'],
  ),
  list(
    "a column",
    SQL,
    [id],
    [id, "owner bigint not null", "price bigint not null"],
    [id, "stock bigint not null"],
    [id, "owner bigint not null", "stock bigint not null"],
  ),
  list(
    "an element of an array",
    ["[\n", "]\n", ","],
    ['{ "kind": "user", "name": "ada" }'],
    ['{ "kind": "user", "name": "ada" }', '{ "kind": "user", "name": "eve" }'],
    ['{ "kind": "user", "name": "ada" }', '{ "kind": "user", "name": "ben" }'],
    ['{ "kind": "user", "name": "ada" }', '{ "kind": "user", "name": "ben" }'],
  ),
  ["a port", ports(80), ports(80, 9090, 9091), ports(80, 7070), ports(80, 9090, 7070)],
  [
    "a check of known words",
    checks(),
    checks("token", "role"),
    checks("quota"),
    checks("role", "quota"),
  ],
  [
    "two checks of known words",
    checks(),
    checks("token", "role"),
    checks("quota"),
    checks("quota"),
  ],
  [
    "a layer",
    app([]),
    app(["cors", "session"]),
    app(["helmet"]),
    app(["session", "helmet"]),
  ],
  [
    "a layer beside a line that was edited",
    app([]),
    app(["cors"], 3001),
    app(["helmet"]),
    app(["helmet"], 3001),
  ],
  [
    "an export",
    exported(),
    exported("parse", "format"),
    exported("validate"),
    exported("format", "validate"),
  ],
  [
    "an entry of a registry",
    registry(),
    registry("Foo", "Bar"),
    registry("Baz"),
    registry("Bar", "Baz"),
  ],
  [
    "an index",
    indexed(),
    indexed("name", "mail"),
    indexed("age"),
    indexed("mail", "age"),
  ],
  ["a step", docker(), docker("test", "docs"), docker("src"), docker("docs", "src")],
  ["a close", closed(), closed("db", "cache"), closed("flush"), closed("cache", "flush")],
];

const honest: readonly Case[] = [
  list(
    "flags of both, sorted",
    JSON_OBJECT,
    [strict],
    [strict, flags.any, flags.locals],
    [strict, '"sourceMap": true'],
    [flags.any, flags.locals, '"sourceMap": true', strict],
  ),
  list(
    "the last line raised by one, and one more by the other",
    JSON_OBJECT,
    [express],
    ['"express": "^4.18.0"'],
    [express, '"zod": "^3.0.0"'],
    ['"express": "^4.18.0"', '"zod": "^3.0.0"'],
  ),
  list(
    "the last line edited by both, in other words than either's",
    SQL,
    [id],
    ["id bigint not null primary key"],
    ["id bigint not null unique"],
    ["id bigint not null primary key unique"],
  ),
  [
    "a statement broken into lines and one word more",
    "call(alpha, beta, gamma)\n",
    "call(\n  alpha,\n  beta,\n  gamma,\n)\n",
    "call(alpha, beta, gamma, delta)\n",
    "call(\n  alpha,\n  beta,\n  gamma,\n  delta,\n)\n",
  ],
  [
    "checks of both",
    checks(),
    checks("token", "role"),
    checks("quota"),
    checks("quota", "role", "token"),
  ],
  [
    "a check that both have",
    checks(),
    checks("token", "role"),
    checks("token", "quota"),
    checks("token", "quota", "role"),
  ],
  [
    "a heading with another day",
    "# v\n\n## [2.0.0] - 2026-01-01\n",
    "# v\n\n## [2.1.0] - 2026-02-01\n- ada's\n\n## [2.0.0] - 2026-01-01\n",
    "# v\n\n## [2.1.0] - 2026-02-03\n- ben's\n\n## [2.0.0] - 2026-01-01\n",
    "# v\n\n## [2.1.0] - 2026-02-03\n- ada's\n- ben's\n\n## [2.0.0] - 2026-01-01\n",
  ],
  [
    "a guard that the other has with a word more",
    "b = find()\nreturn 0 + b\n",
    "b = find()\nif (!b) return 0\nreturn 0 + b\n",
    "b = find()\nif (b === undefined) return 0\nreturn 0 + b\n",
    "b = find()\nif (b === undefined) return 0\nreturn 0 + b\n",
  ],
];

for (const [title, around] of [["alone", (text: string) => text], ["within", within]] as const) {
  describe(`of a list, ${title}, is refused without`, () => {
    for (const [name, base, hers, his, result] of sloppy) {
      test(name, () => {
        const [b, o, t, r] = [base, hers, his, result].map(around) as [
          string,
          string,
          string,
          string,
        ];
        assert.equal(judge([b, o, t, r]).ok, false);
        assert.equal(judge([b, t, o, r]).ok, false);
        assert.deepEqual(judge([b, o, t, r], ["f"]), { ok: true });
      });
    }
  });

  describe(`of a list, ${title}, passes with`, () => {
    for (const [name, base, hers, his, result] of honest) {
      test(name, () => {
        const [b, o, t, r] = [base, hers, his, result].map(around) as [
          string,
          string,
          string,
          string,
        ];
        assert.deepEqual(judge([b, o, t, r]), { ok: true });
        assert.deepEqual(judge([b, t, o, r]), { ok: true });
      });
    }
  });
}
