/** Lines that one side put in and that the merge has without some of their words. */
import { describe, test } from "node:test";
import { passes, refused, type Texts, within } from "../settled.ts";

const APP = "const app = express();\n";
const app = (...routes: string[]): string => `${APP}${routes.join("")}\napp.listen(3000);\n`;
const LIST = `
app.get("/users", async (req, res) => {
  res.json(await db.users.list());
});
`;
const POST = `
app.post("/users", async (req, res) => {
  const user = await db.users.create(req.body);
  res.status(201).json(user);
});
`;
const DELETE = `
app.delete("/users/:id", async (req, res) => {
  await db.users.remove(req.params.id);
  res.status(204).end();
});
`;
const ROUTES: Texts = [app(LIST), app(LIST, POST), app(LIST, DELETE)];

describe("a line that one side put in, in a conflict", () => {
  for (
    const [name, [from, to]] of Object.entries({
      "a status": [".status(201)", ""],
      "an await": ["await db.users.remove", "db.users.remove"],
      "another await": ["await db.users.create", "db.users.create"],
      "an argument": ["(req.body)", "()"],
    })
  ) {
    for (const around of [(text: string) => text, within]) {
      const texts = ROUTES.map(around) as unknown as Texts;
      test(`may not lack ${name}${around === within ? ", in a larger file" : ""}`, () => {
        refused(texts, around(app(LIST, POST, DELETE).replace(from!, to!)), /lacks what that side/);
        refused(texts, around(app(LIST, DELETE, POST).replace(from!, to!)));
        passes(texts, around(app(LIST, POST, DELETE)));
        passes(texts, around(app(LIST, DELETE, POST)));
      });
    }
  }

  test("may be broken into several, or have a word of its own instead", () => {
    const both = app(LIST, POST, DELETE);
    passes(ROUTES, both.replace("  res.status(201).json", "  res\n    .status(201)\n    .json"));
    passes(ROUTES, both.replace("db.users.remove(req", "db.users.erase(req"));
    passes(ROUTES, both.replace(".status(201)", ".code(201)"));
  });

  test("may lack what the other side does away with", () => {
    const calls = (retry: string, ...more: string[]): string =>
      [`connect(a, retry=${retry})\n`, `connect(b, retry=${retry})\n`, ...more].join("");
    const without = (...more: string[]): string =>
      ["connect(a)\n", "connect(b)\n", ...more].join("");
    const texts: Texts = [calls("3"), calls("3", "connect(c, retry=3)\n"), without("close(a)\n")];
    passes(texts, without("connect(c)\n", "close(a)\n"));
  });
});
