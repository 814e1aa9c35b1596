import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { AgentqError, isAgentqError } from "../../src/errors.ts";
import { nodeFiles } from "../../src/platform/files.ts";
import { initStore, openStore, type Store, unlockStore } from "../../src/store/mod.ts";
import { tempDir } from "../helpers/git.ts";

const NAMESPACE = ".fs-safe-queue-v2";

async function newStore(): Promise<{ store: Store; root: string; namespace: string }> {
  const root = tempDir();
  await initStore(root);
  return { root, namespace: join(root, NAMESPACE), store: await openStore(root) };
}

/** A store whose file system does `action` once, just before the first change at `site`. */
async function meddled(root: string, site: string, action: () => void): Promise<Store> {
  let done = false;
  const files = { ...nodeFiles };
  for (const call of ["create", "write", "mkdir", "rename", "unlink", "sync"] as const) {
    const original = nodeFiles[call] as (...args: unknown[]) => never;
    Object.assign(files, {
      [call]: (...args: unknown[]) => {
        if (args[0] === site && !done) {
          done = true;
          action();
        }
        return original(...args);
      },
    });
  }
  files.syncAll = (requests) => {
    if (requests.some((request) => request.site === site) && !done) {
      done = true;
      action();
    }
    return nodeFiles.syncAll(requests);
  };
  return await openStore(root, { platform: { files } });
}

describe("files changed under a running transaction", () => {
  const changes: Record<string, (namespace: string) => void> = {
    "state.json swapped for an equal copy": (namespace) => {
      const state = join(namespace, "state.json");
      copyFileSync(state, `${state}.copy`);
      chmodSync(`${state}.copy`, 0o600);
      renameSync(`${state}.copy`, state);
    },
    "state.json hardlinked": (namespace) => {
      linkSync(join(namespace, "state.json"), join(namespace, "other.json"));
    },
    "state.json replaced by a symlink to itself": (namespace) => {
      const state = join(namespace, "state.json");
      renameSync(state, `${state}.real`);
      symlinkSync("state.json.real", state);
    },
    "state.json chmodded": (namespace) => chmodSync(join(namespace, "state.json"), 0o644),
    "state.json removed": (namespace) => rmSync(join(namespace, "state.json")),
    "state.json written over in place": (namespace) => {
      const state = join(namespace, "state.json");
      writeFileSync(state, readFileSync(state));
    },
    "the namespace swapped": (namespace) => {
      renameSync(namespace, `${namespace}.old`);
      mkdirSync(namespace, { mode: 0o700 });
      for (const name of readdirSync(`${namespace}.old`)) {
        renameSync(join(`${namespace}.old`, name), join(namespace, name));
      }
    },
    "the namespace chmodded": (namespace) => chmodSync(namespace, 0o755),
  };
  for (const [what, change] of Object.entries(changes)) {
    test(`(${what}) stop it before its commit`, async () => {
      const { root, namespace } = await newStore();
      const before = readFileSync(join(namespace, "state.json"), "utf8");
      const store = await meddled(root, "state.sync-temp", () => change(namespace));
      await assert.rejects(store.enqueue("jobs", "a", 1), { code: "identity-changed" });
      if (!what.includes("removed")) {
        assert.equal(readFileSync(join(namespace, "state.json"), "utf8"), before);
      }
    });
  }

  test("(the lock taken away) stop it before its commit", async () => {
    const { root, namespace } = await newStore();
    const lock = join(namespace, ".state-transfer.lock");
    const store = await meddled(root, "state.sync-temp", () => {
      rmSync(lock);
      writeFileSync(lock, "somebody else's", { mode: 0o600 });
    });
    await assert.rejects(store.enqueue("jobs", "a", 1), { code: "lock-lost" });
    assert.equal(readFileSync(lock, "utf8"), "somebody else's", "and it isn't removed");
  });

  /** A store whose commit renames by `rename`, on a file system of this kernel's or another. */
  async function renaming(
    root: string,
    isLocal: boolean,
    rename: (from: string, to: string) => void,
  ): Promise<Store> {
    const files = { ...nodeFiles };
    files.hold = (path) => isLocal ? openSync(path, "r") : null;
    files.rename = (site, from, to) => {
      if (site === "state.rename") rename(from, to);
      else nodeFiles.rename(site, from, to);
    };
    return await openStore(root, { platform: { files } });
  }
  const fails = (code: string) => {
    throw Object.assign(new Error(`${code}: it failed, rename`), { code, syscall: "rename" });
  };
  /** What `store unlock --i-have-checked` does; then another's transaction. */
  const unlock = (namespace: string) => {
    for (const name of readdirSync(namespace)) {
      if (name.startsWith(".state-transfer.lock")) rmSync(join(namespace, name));
    }
  };

  for (const another of [false, true]) {
    const what = another ? "and another's commit in between" : "by an operator";
    test(`(the lock taken away at the rename, ${what}) leaves nothing of the change`, async () => {
      const { root, namespace } = await newStore();
      const file = join(namespace, "state.json");
      const store = await renaming(root, true, (from, to) => {
        unlock(namespace);
        if (another) {
          writeFileSync(`${file}.x`, readFileSync(file), { mode: 0o600 });
          renameSync(`${file}.x`, file);
        }
        renameSync(from, to);
      });
      const before = readFileSync(file, "utf8");
      await assert.rejects(store.enqueue("jobs", "a", 1), { code: "lock-lost" });
      assert.equal(readFileSync(file, "utf8"), before);
      assert.deepEqual(readdirSync(join(namespace, "objects")), []);
    });
  }

  test("(the lock taken away at the rename, over a network) is looked at", async () => {
    const { root, namespace } = await newStore();
    const store = await renaming(root, false, (from, to) => {
      unlock(namespace);
      renameSync(from, to);
    });
    await assert.rejects(store.enqueue("jobs", "a", 1), { code: "lock-lost" });
    // The answer of the first try was lost, and the second finds nothing to rename.
    const again = await renaming(root, false, (from, to) => {
      renameSync(from, to);
      renameSync(from, to);
    });
    await assert.rejects(
      again.enqueue("jobs", "b", 1),
      { code: "commit-uncertain", message: /is in place but may not last: .*ENOENT/ },
    );
    assert.equal((await (await openStore(root)).claim("jobs"))[0]!.receipt.id, "b");
  });

  for (const isLocal of [true, false]) {
    test(`(a disk that fails after the rename, local: ${isLocal}) is uncertain`, async () => {
      const { root, namespace } = await newStore();
      const file = join(namespace, "state.json");
      const store = await renaming(root, isLocal, (from, to) => {
        renameSync(from, to);
        fails("EIO");
      });
      await assert.rejects(
        store.enqueue("jobs", "a", 1),
        { code: "commit-uncertain", message: /is in place but may not last/ },
      );
      const lost = await renaming(root, isLocal, (from) => {
        rmSync(from);
        writeFileSync(`${file}.x`, readFileSync(file), { mode: 0o600 });
        renameSync(`${file}.x`, file);
        fails("EIO");
      });
      await assert.rejects(
        lost.enqueue("jobs", "b", 1),
        { code: "commit-uncertain", message: /may be in place or not/ },
      );
      assert.equal((await (await openStore(root)).claim("jobs"))[0]!.json(), 1);
    });
  }

  test("(state.json swapped after the rename) is uncertain", async () => {
    const { root, namespace } = await newStore();
    const files = { ...nodeFiles };
    files.syncDirectory = (site, path) => {
      nodeFiles.syncDirectory(site, path);
      if (site !== "state.sync-parent") return;
      const state = join(namespace, "state.json");
      writeFileSync(`${state}.x`, readFileSync(state), { mode: 0o600 });
      renameSync(`${state}.x`, state);
    };
    const store = await openStore(root, { platform: { files } });
    await assert.rejects(
      store.enqueue("jobs", "a", 1),
      { code: "commit-uncertain", message: /was put in place, where another stands now/ },
    );
    // Every object that either state refers to is there: nothing was undone.
    assert.equal((await (await openStore(root)).claim("jobs"))[0]!.json(), 1);
  });
});

describe("files that aren't what they must be", () => {
  const problems: Record<string, [code: string, damage: (namespace: string) => void]> = {
    "hardlinked state": ["identity-changed", (namespace) => {
      linkSync(join(namespace, "state.json"), join(namespace, "second"));
    }],
    "symlinked format": ["identity-changed", (namespace) => {
      renameSync(join(namespace, "format.json"), join(namespace, "real"));
      symlinkSync("real", join(namespace, "format.json"));
    }],
    "a directory for a state": ["identity-changed", (namespace) => {
      rmSync(join(namespace, "state.json"));
      mkdirSync(join(namespace, "state.json"), { mode: 0o600 });
    }],
    "state readable by others": ["mode-unsupported", (namespace) => {
      chmodSync(join(namespace, "state.json"), 0o644);
    }],
    "namespace open to others": ["mode-unsupported", (namespace) => chmodSync(namespace, 0o755)],
    "state of another version": ["version-unsupported", (namespace) => {
      rewrite(join(namespace, "state.json"), (state) => ({ ...state, version: 3 }));
    }],
    "format of another version": ["version-unsupported", (namespace) => {
      rewrite(join(namespace, "format.json"), (format) => ({ ...format, version: "2" }));
    }],
    "state with an unknown field": ["store-invalid", (namespace) => {
      rewrite(join(namespace, "state.json"), (state) => ({ ...state, more: 1 }));
    }],
    "state with an encoding that nobody can read": ["store-invalid", (namespace) => {
      rewrite(join(namespace, "state.json"), (state) => ({
        ...state,
        queues: { jobs: { a: { pending: reference("rot13"), claimed: null } } },
      }));
    }],
    "state with a name twice": ["store-invalid", (namespace) => {
      const slot = (n: number) => `"a":${JSON.stringify({ pending: reference(n), claimed: null })}`;
      const state = join(namespace, "state.json");
      const text = readFileSync(state, "utf8");
      writeFileSync(state, text.replace('"queues":{', `"queues":{"jobs":{${slot(1)},${slot(2)}}`));
    }],
    "revision that isn't one": ["store-invalid", (namespace) => {
      rewrite(join(namespace, "state.json"), (state) => ({ ...state, revision: "01" }));
    }],
    "huge state": ["store-invalid", (namespace) => {
      truncateSync(join(namespace, "state.json"), 9 * 1024 * 1024);
    }],
    "huge format": ["store-invalid", (namespace) => {
      truncateSync(join(namespace, "format.json"), 1024 * 1024);
    }],
    "truncated state": ["init-incomplete", (namespace) => {
      truncateSync(join(namespace, "state.json"), 50);
    }],
    "empty state": ["init-incomplete", (namespace) => {
      truncateSync(join(namespace, "state.json"), 0);
    }],
    "state that isn't UTF-8": ["init-incomplete", (namespace) => {
      writeFileSync(join(namespace, "state.json"), new Uint8Array([0xff, 0xfe]));
    }],
    "another program's JSON": ["init-incomplete", (namespace) => {
      writeFileSync(join(namespace, "format.json"), '{"version":2}');
    }],
    "missing format": ["init-incomplete", (namespace) => rmSync(join(namespace, "format.json"))],
    "missing state": ["init-incomplete", (namespace) => rmSync(join(namespace, "state.json"))],
  };
  for (const [what, [code, damage]] of Object.entries(problems)) {
    test(`(${what}) are ${code}, at opening and under an open store, and nothing is touched`, async () => {
      const { root, namespace, store } = await newStore();
      damage(namespace);
      const before = readdirSync(namespace).sort();
      await assert.rejects(openStore(root), { code });
      await assert.rejects(store.enqueue("jobs", "a", 1), (error) => {
        assert.ok(error instanceof AgentqError);
        assert.ok(error.code === code || error.details?.errno === "ENOENT", error.message);
        return true;
      });
      await assert.rejects(initStore(root), { code });
      assert.deepEqual(readdirSync(namespace).sort(), before);
    });
  }

  test("are half made where there is no payload, and damaged where there is", async () => {
    for (const [what, [code, damage]] of Object.entries(problems)) {
      if (code !== "init-incomplete") continue;
      const { root, namespace, store } = await newStore();
      await store.enqueue("jobs", "kept", { n: 1 });
      await store.enqueue("jobs", "too", { n: 2 });
      damage(namespace);
      const listing = () => readdirSync(namespace, { recursive: true }).sort();
      const before = listing();
      const isDamage = (error: unknown) => {
        assert.ok(isAgentqError(error, "store-invalid"), `${what}: ${error}`);
        assert.match(error.message, /(state|format)\.json .*damaged.*2 payloads/);
        assert.match(error.hint ?? "", /agentq store check --store/);
        return true;
      };
      await assert.rejects(openStore(root), isDamage);
      // Not even the explicit way out of an interrupted initialisation moves payloads aside.
      await assert.rejects(initStore(root, { resumeAfterInspection: true }), isDamage);
      if (!what.includes("missing")) await assert.rejects(store.claim("jobs"), isDamage);
      assert.deepEqual(listing(), before);
    }
  });

  test("(a state of another store) are store-id-mismatch", async () => {
    const { root, namespace, store } = await newStore();
    const other = await newStore();
    await other.store.enqueue("jobs", "theirs", 1);
    writeFileSync(
      join(namespace, "state.json"),
      readFileSync(join(other.namespace, "state.json")),
    );
    const twoStores = { code: "store-id-mismatch", hint: /come from two stores/ };
    await assert.rejects(openStore(root), twoStores);
    await assert.rejects(store.claim("jobs"), twoStores);
  });

  test("(a store in the place of the one that was opened) say so, and not that its files don't belong together", async () => {
    for (const how of ["made anew", "another's files"]) {
      const { root, namespace, store } = await newStore();
      await store.enqueue("jobs", "mine", 1);
      const opened = store.storeId;
      if (how === "made anew") {
        rmSync(root, { recursive: true });
        await initStore(root);
      } else {
        const other = await newStore();
        for (const name of ["format.json", "state.json"]) {
          writeFileSync(join(namespace, name), readFileSync(join(other.namespace, name)));
        }
      }
      const { storeId } = await openStore(root);
      for (const call of [() => store.claim("jobs"), () => store.enqueue("jobs", "more", 2)]) {
        await assert.rejects(call, {
          code: "store-id-mismatch",
          message: new RegExp(`lies the store ${storeId} by now, not ${opened}`),
          hint: /start the command again/,
        });
      }
      assert.deepEqual(await (await openStore(root)).messages(), []);
    }
  });

  test("(two references sharing an object or generation) are store-invalid", async () => {
    for (const field of ["object", "generation"]) {
      const { root, namespace, store } = await newStore();
      await store.enqueueMany("jobs", [{ id: "a", payload: 1 }, { id: "b", payload: 2 }]);
      rewrite(join(namespace, "state.json"), (state) => {
        const { a, b } = state.queues.jobs;
        b.pending[field] = a.pending[field];
        return state;
      });
      await assert.rejects(openStore(root), { code: "store-invalid" });
    }
  });

  test("(a root that others can write to) are mode-unsupported", async () => {
    const { root, store } = await newStore();
    chmodSync(root, 0o777);
    await assert.rejects(store.enqueue("jobs", "a", 1), { code: "mode-unsupported" });
  });

  test("(a root that is a symlink) are identity-changed", async () => {
    const { root } = await newStore();
    const link = join(tempDir(), "link");
    symlinkSync(root, link);
    await assert.rejects(openStore(link), { code: "identity-changed" });
    await assert.rejects(initStore(link), { code: "identity-changed" });
  });

  test("(a root that is a symlink) say where it leads, which is the name to use", async () => {
    const { root } = await newStore();
    const place = tempDir();
    const targets: [string, string][] = [
      [root, root],
      ["not\nthere\x1b[31m", JSON.stringify(join(place, "not\nthere\x1b[31m"))],
    ];
    for (const [target, shown] of targets) {
      const link = join(place, `link-${shown.length}`);
      symlinkSync(target, link);
      for (const open of [openStore, initStore, unlockStore]) {
        await assert.rejects(open(link), (error) => {
          assert.ok(isAgentqError(error, "identity-changed"), String(error));
          const words = `${link} is a symbolic link to ${shown}, not a directory`;
          assert.equal(error.message, words);
          assert.ok(error.hint.startsWith(`Name ${shown} itself`), error.hint);
          return true;
        });
      }
      assert.deepEqual(readdirSync(place).filter((name) => !name.startsWith("link")), []);
    }
  });

  test("(files with another name, as cp -al gives them) say what helps, and that helps", async () => {
    const { root, namespace, store } = await newStore();
    const { object } = await store.enqueue("jobs", "a", { n: 1 });
    const copy = join(tempDir(), "snapshot");
    assert.equal(spawnSync("cp", ["-al", root, copy]).status, 0);
    const before = readFileSync(join(namespace, "state.json"), "utf8");
    const refused = { code: "identity-changed", hint: /cp -al.*docs\/store\.md/ };
    for (const place of [root, copy]) await assert.rejects(openStore(place), refused);
    await assert.rejects(store.enqueue("jobs", "b", 2), refused);
    await assert.rejects(store.claim("jobs"), refused);
    assert.equal(readFileSync(join(namespace, "state.json"), "utf8"), before);
    // As docs/store.md says it, which leaves the other copy as it is.
    const docs = readFileSync(new URL("../../docs/store.md", import.meta.url), "utf8");
    const command = /^find DIR[^]*?\n(?=```)/m.exec(docs)![0].replace("DIR", root);
    assert.equal(spawnSync("sh", ["-c", command]).status, 0, command);
    assert.equal((await store.check()).sound, true);
    assert.deepEqual((await store.claim("jobs"))[0]!.json(), { n: 1 });
    assert.equal((await (await openStore(copy)).check()).sound, true, "the copy is a store too");
    assert.equal(lstatSync(join(copy, ".fs-safe-queue-v2/objects", object)).isDirectory(), true);
  });
});

describe("a payload that can't be read", () => {
  const damages: Record<string, (directory: string) => void> = {
    missing: (directory) => rmSync(directory, { recursive: true }),
    "hardlinked": (directory) => {
      linkSync(join(directory, "payload.json"), join(directory, "twice.json"));
    },
    "symlinked": (directory) => {
      rmSync(join(directory, "payload.json"));
      symlinkSync("/etc/hostname", join(directory, "payload.json"));
    },
    "too large": (directory) => truncateSync(join(directory, "payload.json"), 17 * 1024 * 1024),
  };
  for (const [what, damage] of Object.entries(damages)) {
    test(`(${what}) is handed out as such, blocks nobody, and can be quarantined`, async () => {
      const { namespace, store } = await newStore();
      const bad = await store.enqueue("jobs", "bad", 1);
      await store.enqueue("jobs", "good", 2);
      damage(join(namespace, "objects", bad.object));
      const claims = await store.claim("jobs", { count: 2 });
      assert.equal(claims[0]!.unreadable?.code, "payload-unreadable");
      assert.throws(() => claims[0]!.json(), { code: "payload-unreadable" });
      assert.equal(claims[1]!.json(), 2);
      assert.equal((await store.check()).sound, false);
      await store.quarantine(claims[0]!.receipt, { reason: "unreadable" });
      await store.ack(claims[1]!.receipt);
      assert.equal((await store.failed.show("bad")).claim.unreadable?.code, "payload-unreadable");
    });
  }

  const elsewhere = ["outside the store", "of another message"] as const;
  const endings: Record<string, (store: Store, id: string) => Promise<unknown>> = {
    "the acknowledged": async (store, id) => {
      const [claim] = await store.claim("jobs", { ids: [id] });
      await store.ack(claim!.receipt);
    },
    "the replaced": (store, id) => store.enqueue("jobs", id, "newer"),
    "the pruned": async (store, id) => {
      const [claim] = await store.claim("jobs", { ids: [id] });
      await store.quarantine(claim!.receipt, { reason: "unreadable" });
      await store.failed.prune([id]);
    },
    "the cleared": (store) => store.clear("jobs"),
  };
  for (const place of elsewhere) {
    for (const [whose, end] of Object.entries(endings)) {
      test(`(a link to a directory ${place}) is left alone with what it leads to: ${whose}`, async () => {
        const { namespace, store } = await newStore();
        const objects = join(namespace, "objects");
        const { object } = await store.enqueue("jobs", "one", 1);
        const other = (await store.enqueue("others", "two", 2)).object;
        const outside = tempDir();
        writeFileSync(join(outside, "payload.json"), "precious");
        const target = place === "outside the store" ? outside : other;
        rmSync(join(objects, object), { recursive: true });
        symlinkSync(target, join(objects, object));
        await end(store, "one");
        assert.equal(readFileSync(join(outside, "payload.json"), "utf8"), "precious");
        assert.equal((await store.claim("others"))[0]!.json(), 2);
        assert.ok(lstatSync(join(objects, object)).isSymbolicLink());
        // What isn't the store's is an orphan that check counts and gc refuses.
        assert.equal((await store.check()).orphans, 1);
        assert.equal((await store.gc()).left.length, 1);
      });
    }
  }

  const faults: Record<string, (objects: string, one: string) => void> = {
    "one payload chmodded": (_, one) => chmodSync(join(one, "payload.json"), 0o640),
    "one payload without any permission": (_, one) => chmodSync(join(one, "payload.json"), 0),
    "one payload's directory chmodded": (_, one) => chmodSync(one, 0o755),
    "objects/ chmodded": (objects) => chmodSync(objects, 0o755),
    "objects/ a symlink": (objects) => {
      renameSync(objects, `${objects}.real`);
      symlinkSync("objects.real", objects);
    },
    "objects/ gone": (objects) => renameSync(objects, `${objects}.real`),
  };
  for (const [what, fault] of Object.entries(faults)) {
    test(`(${what}: a fault around it) is refused with nothing changed, and is found by check`, async () => {
      const { namespace, store } = await newStore();
      const held = await store.enqueue("jobs", "held", 0);
      const [claim] = await store.claim("jobs");
      const { object } = await store.enqueue("jobs", "first", 1);
      await store.enqueue("jobs", "second", 2);
      const state = readFileSync(join(namespace, "state.json"), "utf8");
      const objects = join(namespace, "objects");
      fault(objects, join(objects, object));
      const refused = what.includes("chmodded") || what.includes("permission")
        ? "mode-unsupported"
        : what.includes("symlink")
        ? "identity-changed"
        : "store-invalid";
      await assert.rejects(store.claim("jobs", { count: 2 }), { code: refused });
      const ending = { how: "ack", receipt: claim!.receipt } as const;
      await assert.rejects(store.finishAndClaim("jobs", [ending]), { code: refused });
      await assert.rejects(store.peek("jobs"), { code: refused });
      if (what.includes("objects/")) {
        await assert.rejects(store.ack(held), { code: refused });
        await assert.rejects(store.enqueue("jobs", "third", 3), { code: refused });
        await assert.rejects(store.check(), { code: refused });
      } else {
        const { sound, findings } = await store.check();
        assert.deepEqual([sound, findings.map(({ level }) => level)], [false, ["error"]]);
      }
      assert.equal(readFileSync(join(namespace, "state.json"), "utf8"), state);
      assert.equal((await store.failed.list().catch(() => [])).length, 0);
    });
  }

  test("(not JSON) is claimed, and says so when it is parsed", async () => {
    const { namespace, store } = await newStore();
    const { object } = await store.enqueue("jobs", "bad", 1);
    writeFileSync(join(namespace, "objects", object, "payload.json"), "{");
    const [claim] = await store.claim("jobs");
    assert.throws(() => claim!.json(), { code: "payload-unreadable" });
    assert.equal((await store.check()).sound, false);
  });
});

describe("names that state.json has twice", () => {
  for (const name of ["object", "attempts"]) {
    test(`(${name} of a reference) are found by check, and gc removes nothing`, async () => {
      const { namespace, store, root } = await newStore();
      const { object } = await store.enqueue("jobs", "a", 1);
      const { object: kept } = await store.enqueue("jobs", "b", 2);
      const state = join(namespace, "state.json");
      const twice = name === "object" ? `"object":"${"0".repeat(32)}",` : '"attempts":7,';
      writeFileSync(state, readFileSync(state, "utf8").replace('"object":', `${twice}"object":`));
      const report = await (await openStore(root)).check();
      assert.equal(report.sound, false);
      assert.match(
        report.findings.map(({ message }) => message).join(),
        new RegExp(`"${name}" twice`),
      );
      await assert.rejects((await openStore(root)).gc(), { code: "store-invalid" });
      assert.deepEqual(readdirSync(join(namespace, "objects")).sort(), [object, kept].sort());
    });
  }

  test("are no duplicates in an owner's note, in other objects or spelt in strings", async () => {
    const { store, root } = await newStore();
    await store.enqueueMany("generation", [
      { id: "generation", payload: 1 },
      { id: "object", payload: 2 },
    ]);
    const owner = { generation: "x", also: [{ generation: "y" }, 'a "generation":"z" \\'] };
    await store.claim("generation", { count: 2, owner });
    const again = await openStore(root);
    assert.deepEqual((await again.messages()).map(({ reference }) => reference.owner), [
      owner,
      owner,
    ]);
    assert.equal((await again.check()).sound, true);
    assert.deepEqual((await again.gc()).objects, 0);
  });
});

test("an encoding that its payload hasn't is found by check", async () => {
  for (const encoding of ["text", "base64"]) {
    const { namespace, store, root } = await newStore();
    await store.enqueue("jobs", "a", { n: 1 });
    await store.enqueue("jobs", "b", "not base64");
    rewrite(join(namespace, "state.json"), (state) => {
      for (const id of ["a", "b"]) state.queues.jobs[id].pending.encoding = encoding;
      return state;
    });
    const { sound, findings } = await (await openStore(root)).check();
    assert.equal(sound, false);
    assert.deepEqual(
      findings.map(({ path }) => path),
      encoding === "text" ? ["jobs/a (pending)"] : ["jobs/a (pending)", "jobs/b (pending)"],
    );
  }
});

/** A reference as it stands in a state; `what` is an encoding, or a number to tell it by. */
function reference(what: string | number): Record<string, unknown> {
  const token = String(what === "rot13" ? 3 : what).padStart(32, "0");
  const more = typeof what === "string" ? { encoding: what } : {};
  return { generation: token, object: token, seq: "0", attempts: 0, ...more };
}

// deno-lint-ignore no-explicit-any
function rewrite(path: string, change: (document: any) => unknown): void {
  writeFileSync(path, JSON.stringify(change(JSON.parse(readFileSync(path, "utf8")))));
}
