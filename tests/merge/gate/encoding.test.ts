/** A file that one side brought to UTF-8 while the other edited it. */
import { Buffer } from "node:buffer";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { merged, passes, refuses, type Step } from "./repo.ts";

const lines = Array.from({ length: 9 }, (_, i) => `Zeile ${i}: größer, schöner und für ${i} Äpfel`);
const put = (data: Buffer): Step => (dir) => writeFileSync(join(dir, "f"), data);
const text = (edit: Record<number, string> = {}): string =>
  lines.map((line, i) => edit[i] ?? line).join("\n") + "\n";
const latin1 = (edit?: Record<number, string>): Step => put(Buffer.from(text(edit), "latin1"));
const utf8 = (edit?: Record<number, string>): Step => put(Buffer.from(text(edit)));
const [EDIT, MORE] = [{ 4: "Zeile 4: die Bürger wählen öfter" }, { 8: "noch völlig Übriges" }];

describe("a file that one side brought from Latin-1 to UTF-8", () => {
  test("has the other side's edit in UTF-8, whichever side is whose", () => {
    passes(merged(latin1(), utf8(), latin1(EDIT), utf8(EDIT)));
    passes(merged(latin1(), latin1(EDIT), utf8(), utf8(EDIT)));
    passes(merged(latin1(), utf8(), latin1({ ...EDIT, ...MORE }), utf8({ ...EDIT, ...MORE })));
  });

  test("may lack nothing of it, nor go back", () => {
    refuses(merged(latin1(), utf8(), latin1(EDIT), utf8()), ["f"]);
    refuses(merged(latin1(), latin1(EDIT), utf8(), utf8()), ["f"]);
    refuses(merged(latin1(), utf8(), latin1({ ...EDIT, ...MORE }), utf8(EDIT)), ["f"]);
    refuses(merged(latin1(), utf8(), latin1(EDIT), latin1(EDIT)), ["f"]);
    refuses(merged(latin1(), latin1(EDIT), utf8(), latin1(EDIT)), ["f"]);
  });
});
