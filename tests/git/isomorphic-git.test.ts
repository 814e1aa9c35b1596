/** A third implementation reads what we write: objects, packs, refs, the index. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import fs from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import * as isogit from "isomorphic-git";
import { checkoutTree } from "../../src/git/checkout.ts";
import { serializeCommit } from "../../src/git/commit.ts";
import { initRepository } from "../../src/git/init.ts";
import { updateRef } from "../../src/git/ref-update.ts";
import { openRepository } from "../../src/git/repository.ts";
import { MODE, serializeTree } from "../../src/git/tree.ts";
import type { Oid } from "../../src/git/types.ts";
import { tempDir } from "../helpers/git.ts";

const WHO = "A U Thor <author@example.com> 1700000000 +0000";

test("isomorphic-git reads our repository, history, files and index", async () => {
  const dir = tempDir();
  initRepository(dir, { bare: false, branch: "main" });
  const repository = openRepository(dir);
  const { objects } = repository;
  const commit = (content: string, parents: Oid[]) =>
    objects.batch(() => {
      const blob = objects.write("blob", Buffer.from(content));
      const inner = objects.write(
        "tree",
        serializeTree([{ mode: MODE.executable, path: "run.sh", oid: blob }]),
      );
      const tree = objects.write(
        "tree",
        serializeTree([
          { mode: MODE.tree, path: "dir", oid: inner },
          { mode: MODE.file, path: "a.txt", oid: blob },
        ]),
      );
      const data = serializeCommit({ tree, parents, author: WHO, committer: WHO, message: "m\n" });
      return { tree, oid: objects.write("commit", data) };
    });
  const first = commit("one\n", []);
  const second = commit("two\n", [first.oid]);
  updateRef(repository, { ref: "refs/heads/main", new: second.oid, old: null });
  await checkoutTree(repository, second.tree);
  repository.close();

  const log = await isogit.log({ fs, dir });
  assert.deepEqual(log.map(({ oid }) => oid), [second.oid, first.oid]);
  assert.deepEqual(await isogit.listFiles({ fs, dir }), ["a.txt", "dir/run.sh"]);
  // 1, 1, 1: in HEAD, and the same in the work tree and the index.
  assert.deepEqual(await isogit.statusMatrix({ fs, dir }), [
    ["a.txt", 1, 1, 1],
    ["dir/run.sh", 1, 1, 1],
  ]);
  assert.equal(fs.readFileSync(join(dir, "a.txt"), "utf8"), "two\n");
});
