/** What one side put in, adapted by the merge to what the other side renamed: the textbook semantic conflict. */
import { describe, test } from "node:test";
import { merged, passes, refuses } from "./repo.ts";

const handlers = (call: string): string =>
  Array.from(
    { length: 4 },
    (_, i) =>
      `def handler_${i}(ctx):\n    user = ${call}\n    return render("page${i}", user)\n\n\n`,
  ).join("");
const fresh = (call: string): string =>
  `def handler_9(ctx):\n    user = ${call}\n    return render("page9", user)\n`;
const [OLD, NEW] = ["fetch_user(ctx)", "load_user(ctx)"];
const put = (hers: string, his: string, result: string, base = handlers(OLD)): string =>
  merged({ "h.py": base }, { "h.py": hers }, { "h.py": his }, { "h.py": result });

describe("a call that one side adds, of what the other renames", () => {
  const his = handlers(OLD) + fresh(OLD);

  test("passes when the merge renames it too, whichever side is whose", () => {
    const both = handlers(NEW) + fresh(NEW);
    passes(put(handlers(NEW), his, both));
    passes(put(his, handlers(NEW), both));
    // With another argument, that the other side gave.
    const timed = "fetch_user(ctx, timeout)";
    passes(put(handlers(timed), his, handlers(timed) + fresh(timed)));
  });

  test("passes in a conflict", () => {
    const tail = "def tail():\n    return 1\n";
    passes(put(handlers(NEW) + tail, his, handlers(NEW) + tail + "\n\n" + fresh(NEW)));
    refuses(put(handlers(NEW) + tail, his, handlers(NEW) + tail), ["h.py"]);
  });

  test("is refused when it is gone, as it was elsewhere, or became another's", () => {
    const without = fresh(OLD).replace(/ +user = .*\n/, "");
    refuses(put(handlers(NEW), his, handlers(NEW) + without), ["h.py"], /user = fetch_user\(ctx\)/);
    refuses(
      put(handlers(NEW), his, handlers(NEW) + without),
      ["h.py"],
      /adapt in an\nordinary commit/,
    );
    refuses(put(handlers(NEW), his, handlers(NEW)), ["h.py"]);
    // The new name is there, but not all the calls that were renamed are any more.
    const undone = handlers(OLD).replace(OLD, NEW);
    refuses(put(handlers(NEW), his, undone + fresh(NEW)), ["h.py"]);
    // Nothing that it said is left but what all lines have.
    const line = "    user = fetch_user(ctx)\n    audit(user, weekly)\n";
    const audited = handlers(OLD) + fresh(OLD).replace("    user = fetch_user(ctx)\n", line);
    refuses(put(handlers(NEW), audited, handlers(NEW) + fresh(NEW)), ["h.py"], /audit/);
  });
});

test("words that the other side didn't bring make no adaption", () => {
  const base = Array.from({ length: 9 }, (_, i) => `set(key${i}, plain, ${i})`).join("\n") + "\n";
  const hers = base.replace("key1, plain", "key1, fancy");
  const his = base + "get(key3, plain)\nget(key4, plain)\n";
  passes(put(hers, his, hers + "get(key3, fancy)\nget(key4, fancy)\n", base));
  refuses(put(hers, his, hers + "get(key3, plain)\nset(key8, plain)\n", base), ["h.py"]);
});
