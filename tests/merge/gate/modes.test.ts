/** Modes and types that a merge changes though no side did, and deleted files that it brings back. */
import { chmodSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { git, write } from "../../helpers/git.ts";
import { merged, passes, refuses, type Step } from "./repo.ts";

const link = (dir: string, to: string): void => {
  rmSync(join(dir, "l"), { force: true });
  symlinkSync(to, join(dir, "l"));
};
const base: Step = (dir) => {
  write(dir, "run.sh", "#!/bin/sh\necho one\n");
  write(dir, "same.sh", "#!/bin/sh\necho same\n");
  write(dir, "f", "some text of a file\n");
  chmodSync(join(dir, "run.sh"), 0o755);
  chmodSync(join(dir, "same.sh"), 0o755);
  link(dir, "a");
};
const hers: Step = (dir) => {
  write(dir, "run.sh", "#!/bin/sh\necho two\n");
  write(dir, "f", "other text of a file\n");
  link(dir, "b");
};
const put = (settle: Step): string => merged(base, hers, { o: "his\n" }, settle);

describe("a mode or type that no side changed", () => {
  test("is kept, whoever changed the content", () => {
    for (const name of ["run.sh", "same.sh"]) {
      refuses(
        put((dir) => chmodSync(join(dir, name), 0o644)),
        [name],
        /has the mode 100644 instead of 100755, which neither side made/,
      );
    }
    refuses(
      put((dir) => {
        rmSync(join(dir, "l"));
        write(dir, "l", "b");
      }),
      ["l"],
      /is of another type/,
    );
    refuses(
      put((dir) => {
        rmSync(join(dir, "f"));
        symlinkSync("run.sh", join(dir, "f"));
      }),
      ["f"],
      /is of another type/,
    );
    passes(put({ "f": "other text of a file, adapted\n" }));
  });

  test("follows the only side that changed it", () => {
    const his: Step = (dir) => chmodSync(join(dir, "run.sh"), 0o644);
    passes(merged(base, hers, his, {}));
    passes(merged(base, hers, his, { "run.sh": "#!/bin/sh\necho two # adapted\n" }));
    refuses(merged(base, hers, his, (dir) => chmodSync(join(dir, "run.sh"), 0o755)), ["run.sh"]);
  });
});

test("a file that one side deleted is back though laid out anew or changed a little", () => {
  const keep = Array.from({ length: 9 }, (_, i) => `keep me ${i}`).join("\n") + "\n";
  const put = (result: string): string =>
    merged(
      { "k.txt": keep, o: "o\n" },
      (dir) => void git(dir, "rm", "-q", "k.txt"),
      { o: "his\n" },
      {
        "k.txt": result,
      },
    );
  for (
    const result of [
      keep,
      keep.replaceAll("\n", "\r\n"),
      keep.replaceAll(" ", "  "),
      keep + "# note\n",
      keep.replace("keep me 4\n", ""),
    ]
  ) refuses(put(result), ["k.txt"], /was deleted there and is back/);
  passes(put("something else stands here now\n"));
  passes(
    put(
      "keep in mind: this is a new file,\nwith words of its own and a line of the old\nkeep me 4\n",
    ),
  );
});
