import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { lstatSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { STORE_DOCUMENTS } from "../../src/store/schemas.ts";
import { storePaths } from "../../src/store/layout.ts";
import { openStore } from "../../src/store/mod.ts";
import { tempDir } from "../helpers/git.ts";
import { runtimeArguments } from "./runtime.ts";

const MAIN = fileURLToPath(new URL("../../cli/main.ts", import.meta.url));

/** Runs `agentq store …` with --json: exit code and document. */
function agentq(root: string, ...args: string[]) {
  const run = spawnSync(process.execPath, [
    ...runtimeArguments(),
    MAIN,
    "store",
    ...args,
    "--store",
    root,
    "--json",
  ], { encoding: "utf8" });
  const document = JSON.parse(run.stdout);
  return { code: run.status, document };
}

describe("agentq store", () => {
  test("init makes a store once, check and gc answer by schema", async () => {
    const root = join(tempDir(), "store");
    const made = agentq(root, "init");
    assert.equal(made.code, 0);
    const again = agentq(root, "init");
    assert.deepEqual([again.code, again.document.error.code], [2, "store-exists"]);
    const { object } = await (await openStore(root)).enqueue("jobs", "a", 1);
    const checked = agentq(root, "check");
    assert.equal(checked.code, 0);
    assert.equal(checked.document.storeId, made.document.storeId);
    assert.equal(checked.document.slots, 1);
    assert.deepEqual(agentq(root, "gc").document.objects, 0);
    for (const { document } of [made, checked, agentq(root, "gc"), agentq(root, "unlock")]) {
      const { error } = STORE_DOCUMENTS[document.schema]!.safeParse(document);
      assert.equal(error, undefined);
    }
    writeFileSync(join(storePaths(root).objects, object, "payload.json"), "{");
    assert.equal(agentq(root, "check").code, 1, "an unsound store is exit 1");
  });

  test("a path that can be no store is named for what it is, by every command", () => {
    const place = tempDir();
    writeFileSync(join(place, "file"), "x");
    symlinkSync("nowhere", join(place, "link"));
    symlinkSync("loop", join(place, "loop"));
    const COMMANDS = ["init", "check", "unlock", "gc"];
    const cases: [string, readonly string[], string, RegExp, RegExp][] = [
      ["file", COMMANDS, "identity-changed", /file is a file, not a directory/, /Name a directory/],
      ["file/sub", ["init"], "io-error", /not a directory/, /part of that path is a file/],
      [
        "link",
        COMMANDS,
        "identity-changed",
        /link is a symbolic link to .*nowhere/,
        /nowhere itself/,
      ],
      ["link/sub", ["init"], "io-error", /link is a link to nowhere/, /Correct the link/],
      ["loop", ["init", "unlock"], "identity-changed", /a symbolic link/, /Name a directory/],
      ["loop", ["check", "gc"], "io-error", /too many symbolic links/, /in a circle/],
      ["x".repeat(300), COMMANDS, "io-error", /too long/, /shorter path/],
    ];
    for (const [name, commands, code, message, hint] of cases) {
      for (const command of commands) {
        const { code: exit, document } = agentq(join(place, name), command);
        const { error } = document;
        assert.deepEqual([exit, error.code], [2, code], `${command} ${name}: ${error.message}`);
        assert.match(error.message, message);
        assert.match(error.hint, hint);
      }
    }
    assert.deepEqual(readdirSync(place).sort(), ["file", "link", "loop"]);
  });

  test("unlock refuses what it can't prove, and takes an operator's word for one lock", () => {
    const root = join(tempDir(), "store");
    agentq(root, "init");
    const { lock } = storePaths(root);
    writeFileSync(lock, "", { mode: 0o600 });
    const refused = agentq(root, "unlock");
    assert.deepEqual([refused.code, refused.document.error.code], [2, "unlock-refused"]);
    const token = `unreadable-${lstatSync(lock, { bigint: true }).ino}`;
    assert.match(
      refused.document.error.hint,
      new RegExp(`--owner-token ${token} --i-have-checked`),
    );
    assert.equal(agentq(root, "unlock", "--owner-token", token).code, 64);
    const removed = agentq(root, "unlock", "--owner-token", token, "--i-have-checked");
    assert.deepEqual(removed.document.removed, [{ path: lock, ownerToken: token }]);
  });

  test("init moves the remains of an interrupted one aside only when told to", () => {
    const root = tempDir();
    mkdirSync(join(root, ".fs-safe-queue-v2"), { mode: 0o700 });
    assert.equal(agentq(root, "init").document.error.code, "init-incomplete");
    const { document } = agentq(root, "init", "--resume-after-inspection");
    assert.match(document.movedAside, /incomplete-/);
  });
});
