/** What a commit replaces or removes is kept from being freed until the new state lasts. */
import assert from "node:assert/strict";
import { basename, join } from "node:path";
import { describe, it } from "node:test";
import { type FileSystem, nodeFiles } from "../../src/platform/files.ts";
import { initStore, openStore } from "../../src/store/mod.ts";
import { tempDir } from "../helpers/git.ts";

/** The real file system, which notes what it is asked to rename, remove, sync, hold and let go of. */
function noting(calls: string[]): FileSystem {
  const held = new Map<number, string>();
  return {
    ...nodeFiles,
    hold(path, dev) {
      const fd = nodeFiles.hold(path, dev);
      if (fd === null) return null;
      held.set(fd, basename(path));
      calls.push(`hold ${basename(path)}`);
      return fd;
    },
    async letGo(fds) {
      for (const fd of fds) calls.push(`let go ${held.get(fd)}`);
      await nodeFiles.letGo(fds);
    },
    rename(site, from, to) {
      calls.push(site);
      nodeFiles.rename(site, from, to);
    },
    unlink(site, path) {
      calls.push(site);
      nodeFiles.unlink(site, path);
    },
    rmdir(site, path) {
      calls.push(site);
      nodeFiles.rmdir(site, path);
    },
    syncDirectory(site, path) {
      calls.push(site);
      nodeFiles.syncDirectory(site, path);
    },
  };
}

describe("a commit", () => {
  it("lets go of the old state after the sync, and of objects after their names", async () => {
    const root = join(tempDir(), "store");
    await initStore(root);
    const calls: string[] = [];
    const store = await openStore(root, {
      platform: { files: noting(calls) as FileSystem<never> },
    });
    await store.enqueue("jobs", "a", 1);
    const [claim] = await store.claim("jobs");
    calls.length = 0;
    await store.ack(claim!.receipt);
    const held = nodeFiles.hold(root, nodeFiles.lstat(root)!.dev);
    if (held !== null) await nodeFiles.letGo([held]);
    const expected = [
      "hold state.json",
      "state.rename",
      "state.sync-parent",
      "let go state.json",
      "hold payload.json",
      `hold ${claim!.receipt.object}`,
      "collect.unlink",
      "collect.rmdir",
      "let go payload.json",
      `let go ${claim!.receipt.object}`,
      "lock.release",
    ];
    assert.deepEqual(
      calls,
      held === null ? expected.filter((call) => !/^(hold|let go)/.test(call)) : expected,
    );
  });
});
