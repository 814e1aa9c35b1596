import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  statfsSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import type { AgentqError } from "../../src/errors.ts";
import { nodeFiles } from "../../src/platform/files.ts";
import { announcementPath } from "../../src/store/announcements.ts";
import { releaseOrKeep, tryExclusive } from "../../src/store/exclusive.ts";
import { storePaths } from "../../src/store/layout.ts";
import { initStore, openStore, type Store, unlockStore } from "../../src/store/mod.ts";
import { storePlatform } from "../../src/store/platform.ts";
import { tempDir } from "../helpers/git.ts";

const NAMESPACE = ".fs-safe-queue-v2";

describe("initStore()", () => {
  test("makes a private store, with the directories above it", async () => {
    const root = join(tempDir(), "deep", "er", "store");
    const report = await initStore(root);
    const namespace = join(root, NAMESPACE);
    assert.deepEqual(readdirSync(namespace).sort(), ["format.json", "objects", "state.json"]);
    assert.deepEqual(JSON.parse(readFileSync(join(namespace, "format.json"), "utf8")), {
      protocol: "fs-safe-json-queue",
      version: 2,
      storeId: report.storeId,
    });
    assert.deepEqual(JSON.parse(readFileSync(join(namespace, "state.json"), "utf8")), {
      protocol: "fs-safe-json-queue",
      version: 2,
      storeId: report.storeId,
      revision: "0",
      queues: {},
      failed: {},
    });
    assert.match(report.storeId, /^[0-9a-f]{32}$/);
    for (const path of [root, namespace, join(namespace, "objects")]) {
      assert.equal(statSync(path).mode & 0o777, 0o700, path);
    }
    for (const name of ["format.json", "state.json"]) {
      assert.equal(statSync(join(namespace, name)).mode & 0o777, 0o600, name);
    }
  });

  test("goes into a directory that is named by a link", async () => {
    const place = tempDir();
    mkdirSync(join(place, "real"));
    symlinkSync("real", join(place, "link"));
    const report = await initStore(join(place, "link", "store"));
    const store = await openStore(join(place, "real", "store"));
    assert.equal(store.storeId, report.storeId);
  });

  test("makes a root last that whoever made it may not have synced", async () => {
    const place = tempDir();
    mkdirSync(join(place, "store"), { mode: 0o700 });
    const synced: string[] = [];
    const files = {
      ...nodeFiles,
      syncDirectory(...[site, path]: Parameters<typeof nodeFiles.syncDirectory>) {
        synced.push(path);
        nodeFiles.syncDirectory(site, path);
      },
    };
    await initStore(join(place, "store"), { platform: { files } });
    assert.ok(synced.includes(place));
  });

  test("is exclusive: an existing store stays as it is", async () => {
    const root = tempDir();
    const { storeId } = await initStore(root);
    await assert.rejects(initStore(root), { code: "store-exists" });
    await assert.rejects(initStore(root, { resumeAfterInspection: true }), {
      code: "store-exists",
    });
    assert.equal((await openStore(root)).storeId, storeId);
  });

  test("lets exactly one of many callers make it", async () => {
    const root = join(tempDir(), "store");
    const results = await Promise.allSettled(Array.from({ length: 8 }, () => initStore(root)));
    const made = results.filter(({ status }) => status === "fulfilled");
    assert.equal(made.length, 1);
    await openStore(root);
  });

  /** `initStore` of one process while another, after the first has looked, gets as far as `begin`. */
  function overtaken(root: string, begin: () => void) {
    const mkdir: typeof nodeFiles.mkdir = (site, path, mode) => {
      if (site === "init.mkdir-namespace") begin();
      nodeFiles.mkdir(site, path, mode);
    };
    return initStore(root, { platform: { files: { ...nodeFiles, mkdir } }, lockTimeoutMs: 20_000 });
  }

  test("waits for another that is just making the store, and takes that one", async () => {
    const done = join(tempDir(), "store");
    await assert.rejects(overtaken(done, () => void initStore(done)), { code: "store-exists" });

    // Stopped between its steps for longer than anybody looks again without a reason.
    for (const step of ["its directory is there", "it has announced itself", "it has the lock"]) {
      const root = join(tempDir(), "store");
      const other = join(tempDir(), "other");
      const { storeId } = await initStore(other);
      const { namespace, lock } = storePaths(root);
      const platform = storePlatform({});
      const opened: Promise<Store>[] = [];
      const result = overtaken(root, () => {
        mkdirSync(namespace, { mode: 0o700 });
        const announced = announcementPath(lock, "0".repeat(32), platform.identity);
        if (step === "it has announced itself") writeFileSync(announced, "", { mode: 0o600 });
        const held = step === "it has the lock" ? tryExclusive(platform, lock) : null;
        opened.push(openStore(root));
        setTimeout(() => {
          rmSync(announced, { force: true });
          for (const name of ["objects", "state.json", "format.json"]) {
            renameSync(join(other, NAMESPACE, name), join(namespace, name));
          }
          if (held !== null) releaseOrKeep(platform, held);
        }, 250);
      });
      await assert.rejects(result, { code: "store-exists" }, step);
      assert.deepEqual((await Promise.all(opened)).map((store) => store.storeId), [storeId]);
    }
  });

  test("says that another still makes it when that takes longer than the wait for a lock", async () => {
    const root = join(tempDir(), "store");
    await initStore(root);
    const { format, lock } = storePaths(root);
    rmSync(format);
    const platform = storePlatform({});
    const held = tryExclusive(platform, lock)!;
    await assert.rejects(openStore(root, { lockTimeoutMs: 100 }), { code: "store-locked" });
    await assert.rejects(initStore(root, { lockTimeoutMs: 100 }), { code: "store-locked" });
    releaseOrKeep(platform, held);
    await assert.rejects(openStore(root, { lockTimeoutMs: 100 }), { code: "init-incomplete" });
  });

  test("makes an empty directory private, and refuses one in use that others can write to", async () => {
    const empty = join(tempDir(), "empty");
    mkdirSync(empty, { mode: 0o755 });
    await initStore(empty);
    assert.equal(statSync(empty).mode & 0o777, 0o700);

    const used = join(tempDir(), "used");
    mkdirSync(used);
    writeFileSync(join(used, "readme"), "x");
    nodeFiles.chmod("", used, 0o775);
    await assert.rejects(initStore(used), { code: "mode-unsupported" });
    assert.deepEqual(readdirSync(used), ["readme"]);
  });

  test("refuses a v1 directory, whatever marks it", async () => {
    const marks = ["a.json", "a.processing", "a.delivered", ".fs-safe-retirements"];
    for (const mark of [...marks, `.fs-safe-transfer-${"0".repeat(32)}.lock`]) {
      const root = tempDir();
      writeFileSync(join(root, mark), "{}");
      await assert.rejects(initStore(root), { code: "v1-directory" });
      await assert.rejects(openStore(root), { code: "v1-directory" });
      assert.deepEqual(readdirSync(root), [mark]);
    }
  });

  test("says that a store is missing, and never makes one by opening", async () => {
    const root = join(tempDir(), "nothing");
    await assert.rejects(openStore(root), { code: "store-missing" });
    assert.equal(existsSync(root), false);
  });
});

describe("an incomplete initialisation", () => {
  const remains: Record<string, (namespace: string) => void> = {
    "an empty namespace": () => {},
    "objects only": (namespace) => mkdirSync(join(namespace, "objects")),
    "a state without format": (namespace) => writeFileSync(join(namespace, "state.json"), "{}"),
    "empty files": (namespace) => {
      for (const name of ["format.json", "state.json"]) writeFileSync(join(namespace, name), "");
    },
    "a torn format": (namespace) => {
      writeFileSync(join(namespace, "format.json"), '{"protocol":"fs-sa');
      writeFileSync(join(namespace, "state.json"), "");
    },
    "objects and strange files": (namespace) => {
      mkdirSync(join(namespace, "objects", "x", "y"), { recursive: true });
      writeFileSync(join(namespace, "objects", "x", "y", "payload.json"), "precious");
      symlinkSync("/etc", join(namespace, "link"));
    },
  };
  for (const [what, make] of Object.entries(remains)) {
    test(`(${what}) is never adopted or removed, and moved aside when asked`, async () => {
      const root = tempDir();
      const namespace = join(root, NAMESPACE);
      mkdirSync(namespace, { mode: 0o700 });
      make(namespace);
      const before = listing(namespace);
      await assert.rejects(openStore(root), { code: "init-incomplete" });
      await assert.rejects(initStore(root), { code: "init-incomplete" });
      assert.deepEqual(listing(namespace), before);

      const { movedAside } = await initStore(root, { resumeAfterInspection: true });
      assert.ok(movedAside !== null);
      assert.deepEqual(listing(movedAside), before, "everything is still there");
      await (await openStore(root)).enqueue("jobs", "a", 1);
    });
  }

  /** A disk that has `pages` left once it is full of `fill`. */
  async function onSmallDisk(
    pages: number,
    work: (disk: string, fill: string) => Promise<void>,
    more = "",
  ): Promise<void> {
    const disk = join(tempDir(), "a small disk");
    mkdirSync(disk);
    const options = ["-t", "tmpfs", "-o", `size=64k,mode=700${more}`, "tmpfs", disk];
    const mounted = spawnSync("mount", options, { encoding: "utf8" });
    assert.equal(mounted.status, 0, `this test mounts a small disk: ${mounted.stderr}`);
    try {
      const fill = join(disk, "fill");
      const { bavail, bsize } = statfsSync(disk);
      writeFileSync(fill, new Uint8Array((bavail - pages) * bsize));
      await work(disk, fill);
    } finally {
      spawnSync("umount", [disk]);
    }
  }

  test("by a full disk says what it left and what helps, and that helps", async () => {
    for (const [pages, left] of [[0, []], [1, ["objects", "state.json"]]] as const) {
      await onSmallDisk(pages, async (disk, fill) => {
        const root = join(disk, "store");
        const { namespace } = storePaths(root);
        const errors: AgentqError[] = [];
        const keep = (error: AgentqError) => (errors.push(error), true);
        await assert.rejects(initStore(root), keep);
        assert.deepEqual(readdirSync(namespace).sort(), left);
        // Again before there is room, and opening it, say the same.
        for (const again of [initStore, openStore]) await assert.rejects(again(root), keep);
        assert.deepEqual(errors.map(({ code }) => code), [
          "io-error",
          "init-incomplete",
          "init-incomplete",
        ]);
        assert.ok(errors[0]!.message.includes(`${namespace} is left`), errors[0]!.message);
        assert.match(errors[0]!.hint, /^The disk is full: free some space, then /);
        assert.deepEqual(readdirSync(namespace).sort(), left, "nothing is taken away");

        rmSync(fill);
        for (const { hint } of errors) {
          if (left.length === 0) {
            // The command that the hint names, to the letter.
            const command = /run: (rmdir .*); then the command again\.$/i.exec(hint)?.[1];
            assert.ok(command, hint);
            assert.equal(spawnSync("sh", ["-c", command]).status, 0, command);
            mkdirSync(namespace, { mode: 0o700 });
          } else {
            assert.ok(hint.endsWith(`--resume-after-inspection --store '${root}'`), hint);
          }
        }
        if (left.length === 0) rmdirSync(namespace);
        await initStore(root, { resumeAfterInspection: left.length > 0 });
        await (await openStore(root)).enqueue("jobs", "a", 1);
      });
    }
  });

  test("by a disk that has room and no inodes says that these are short", async () => {
    // The disk's own directory, the file that takes room, and the store's directories: none is left for the lock.
    await onSmallDisk(4, async (disk) => {
      const hints: string[] = [];
      await assert.rejects(initStore(join(disk, "store")), (error: AgentqError) => {
        hints.push(error.hint);
        return error.details?.errno === "ENOSPC";
      });
      assert.match(
        hints[0]!,
        /^The file system holds as many files .* \(no inodes .*, then run: rm/,
      );
    }, ",nr_inodes=5");
  });

  test("that somebody else may still be making isn't moved aside", async () => {
    const root = tempDir();
    const namespace = join(root, NAMESPACE);
    mkdirSync(namespace, { mode: 0o700 });
    const lock = join(namespace, ".state-transfer.lock");
    writeFileSync(lock, "");
    await assert.rejects(initStore(root, { resumeAfterInspection: true }), {
      code: "store-locked",
    });
    const ownerToken = `unreadable-${lstatSync(lock, { bigint: true }).ino}`;
    await unlockStore(root, { ownerToken, iHaveChecked: true });
    await initStore(root, { resumeAfterInspection: true });
  });

  test("(a namespace that isn't a directory) is refused", async () => {
    const root = tempDir();
    writeFileSync(join(root, NAMESPACE), "x");
    await assert.rejects(openStore(root), { code: "identity-changed" });
    await assert.rejects(initStore(root, { resumeAfterInspection: true }), {
      code: "identity-changed",
    });
    rmSync(join(root, NAMESPACE));
    symlinkSync("/tmp", join(root, NAMESPACE));
    await assert.rejects(openStore(root), { code: "identity-changed" });
  });
});

describe("a file system that keeps no permissions", () => {
  /** Everything is 0777 there, whatever is asked for. */
  const files = {
    ...nodeFiles,
    lstat: (path: string) => {
      const stat = nodeFiles.lstat(path);
      return stat === null ? null : { ...stat, mode: 0o777 };
    },
    fstat: (fd: number) => ({ ...nodeFiles.fstat(fd), mode: 0o777 }),
    chmod: () => {
      throw Object.assign(new Error("EPERM"), { code: "EPERM" });
    },
  };

  test("needs --allow-open-modes, which the store remembers", async () => {
    const root = join(tempDir(), "store");
    mkdirSync(root);
    await assert.rejects(initStore(root, { platform: { files } }), (error) => {
      assert.ok(["mode-unsupported", "io-error"].includes((error as { code: string }).code));
      return true;
    });
    assert.deepEqual(readdirSync(root), []);
    await initStore(root, { platform: { files }, allowOpenModes: true });
    const format = readFileSync(join(root, NAMESPACE, "format.json"), "utf8");
    assert.equal(JSON.parse(format).openModes, true);
    const store = await openStore(root, { platform: { files } });
    await store.enqueue("jobs", "a", 1);
    assert.equal((await store.claim("jobs"))[0]!.json(), 1);

    const strict = join(tempDir(), "store");
    await initStore(strict);
    await assert.rejects(openStore(strict, { platform: { files } }), {
      code: "mode-unsupported",
    });
  });
});

function listing(directory: string): string[] {
  return readdirSync(directory, { recursive: true, encoding: "utf8" }).sort();
}
