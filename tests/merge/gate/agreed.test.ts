/** What both sides did alike may not be undone, and what one took out may not stand beside what it put there. */
import { describe, test } from "node:test";
import { passes, refused, type Texts, within } from "../settled.ts";

describe("a fix that both sides have", () => {
  const DELETED = "export function legacyRefund(user) {\n  return db.query(inject(user));\n}\n\n";
  const file = (fixed: { check?: boolean; gone?: boolean } = {}, end = "end", start = "start") =>
    `log("${start}");\n` + within(
      `  if (${fixed.check ? "!" : ""}isAdmin(user)) throw new Forbidden();\n` +
        `  const account = await load(user);\n  return account;\n\n${fixed.gone ? "" : DELETED}`,
    ) + `log("${end}");\n`;
  const FIX = { check: true, gone: true };
  const texts: Texts = [file(), file(FIX, "hers"), file(FIX, "end", "his")];

  test("stays", () => passes(texts, file(FIX, "hers", "his")));
  test("may be carried on", () => {
    passes(texts, file(FIX, "hers", "his").replace("!isAdmin(user)", "!isAdmin(user, realm)"));
  });
  test("may not be undone", () => {
    refused(texts, file({}, "hers", "his"), /lacks .*, as the other side did too \[/);
  });
  test("may not be undone in part", () => {
    refused(texts, file({ gone: true }, "hers", "his"), /> {3}if \(!isAdmin/);
    refused(texts, file({ check: true }, "hers", "his"));
  });
  test("may not be undone beside a conflict elsewhere", () => {
    const all: Texts = [file(), file(FIX, "hers"), file(FIX, "his")];
    refused(all, file({}, "hers and his"));
    passes(all, file(FIX, "hers and his"));
  });
  test("may not be undone where a file's last line isn't ended", () => {
    const bare = (text: string): string => text.slice(0, -1);
    const all: Texts = [bare(texts[0]), bare(texts[1]), bare(texts[2])];
    refused(all, bare(file({}, "hers", "his")));
  });
});

describe("a line that one side took out, and put others in", () => {
  const body = (lines: string, end = "end"): string => within(lines) + `log("${end}");\n`;
  const OLD = "  await legacyCharge(account, amount);\n";
  const NEW = "  await stripe.charges.create({ account, amount });\n";
  const load = "  const account = await load(user);\n";
  const last = "  return account.balance;\n";

  test("may not stand beside what replaced it", () => {
    const texts: Texts = [
      body(load + OLD + last),
      body(load + NEW + last),
      body(load + OLD + last, "his"),
    ];
    for (const both of [OLD + NEW, NEW + OLD]) {
      refused(texts, body(load + both + last, "his"), /lines back .*\n {4}> {3}await legacyCharge/);
    }
    passes(texts, body(load + NEW + last, "his"));
  });
  test("may not be back, be it one of several", () => {
    const texts: Texts = [
      body(load + OLD + "  await audit(account);\n" + last),
      body(load + NEW + last),
      body(load + OLD + "  await audit(account);\n" + last, "his"),
    ];
    refused(texts, body(load + NEW + "  await audit(account);\n" + last, "his"), /await audit/);
  });
  test("and moved, may not be where it was too, whatever it left there", () => {
    for (const left of ["", "\n", "  //\n"]) {
      const texts: Texts = [
        body(load + OLD + "  check(account);\n  await save(account);\n" + last),
        body(load + left + "  check(account);\n  await save(account);\n" + OLD + last),
        body(load + OLD + "  check(account);\n  await save(account);\n" + last, "his"),
      ];
      refused(
        texts,
        body(load + OLD + "  check(account);\n  await save(account);\n" + OLD + last, "his"),
        /lines back .*\n {4}> {3}await legacyCharge/,
      );
      passes(texts, texts[1].replace('"end"', '"his"'));
    }
  });
  test("may be a name that is used again", () => {
    const file = (names: string, icon: string, end = "end"): string =>
      `import {\n${names}  Cross,\n} from "icons";\n` + within(`show(${icon}, "as");\n`) +
      `log("${end}");\n`;
    const texts: Texts = [
      file("  CheckCircle,\n", "pick(CheckCircle, Cross)"),
      file("  Check,\n", "Check"),
      file("  CheckCircle,\n", "pick(CheckCircle, done, Cross)", "his"),
    ];
    passes(texts, file("  CheckCircle,\n  Check,\n", "pick(done, CheckCircle, Check)", "his"));
    refused(texts, file("  CheckCircle,\n  Check,\n", "pick(done, Check)", "his"), /CheckCircle/);
  });
  test("may be needed by the other side", () => {
    const texts: Texts = [
      body("import audit\nimport old\n" + load + last),
      body("import fresh\n" + load + last),
      body("import audit\nimport old\n" + load + last, "his") + "audit(1)\naudit(2)\n",
    ];
    passes(
      texts,
      body("import audit\nimport fresh\n" + load + last, "his") + "audit(1)\naudit(2)\n",
    );
  });
});
