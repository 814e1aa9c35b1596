/** What a worker waits out may last for ever unless somebody does something: it says what, once. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { storeBackend } from "../../src/queuefs/backends/store/backend.ts";
import { unlockStore } from "../../src/store/mod.ts";
import { tempDir } from "../helpers/git.ts";
import { bytes, until } from "./helpers/redis.ts";

const file = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const options = process.versions.deno === undefined ? [] : ["run", "-A", "--no-check"];

async function leaveLock(root: string) {
  const holder = spawn(process.execPath, [...options, file("../store/lock-holder.ts"), root], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await once(holder.stdout!, "data");
  holder.kill("SIGKILL");
  await once(holder, "exit");
}

test("the way out of a killed process's lock is told with the first outage", {
  timeout: 120_000,
}, async () => {
  const root = join(tempDir(), "store");
  const backend = await storeBackend(root, { create: true });
  await backend.create("jobs");
  await leaveLock(root);
  // A handler that ends when it is told to: its ack meets the second lock.
  const flag = join(tempDir(), "go");
  const handler = ["sh", "-c", `touch ${flag}.begun; until [ -e ${flag} ]; do sleep 0.05; done`];
  const words = ["queue", "work", "jobs", "--backend", `store:${root}`, "--", ...handler];
  const worker = spawn(process.execPath, [...options, file("../../cli/main.ts"), ...words], {
    env: { ...process.env, AGENTQ_STATE: tempDir() },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const ended = once(worker, "exit");
  let said = "";
  worker.stderr!.on("data", (chunk) => said += chunk);
  const times = (words: string) => said.split(words).length - 1;
  const outage = async (nth: number) => {
    await until(() => times("trying again until that is over") === nth);
    await until(() => times("hint: ") === 1);
    await unlockStore(root);
    await until(() => times("answers again") === nth);
  };
  await outage(1);
  await backend.enqueue("jobs", [{ data: bytes("x") }]);
  await until(() => existsSync(`${flag}.begun`));
  await leaveLock(root);
  writeFileSync(flag, "");
  await outage(2);
  worker.kill("SIGTERM");
  await ended;
  const [away, hint] = said.split("\n") as [string, string];
  assert.match(away, /has ended; trying again until that is over$/);
  assert.match(hint, /^hint: .*agentq store unlock --store .*--recover-stale/);
  assert.equal(times("hint: "), 1, said);
});
