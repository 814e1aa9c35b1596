/** What is waited for is said once, beside whatever else goes on, and again once there is news. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { runtimeArguments } from "../store/runtime.ts";

const worker = fileURLToPath(new URL("./progress-worker.ts", import.meta.url));

function said(...args: string[]): string {
  const ran = spawnSync(process.execPath, [...runtimeArguments(), worker, ...args], {
    encoding: "utf8",
  });
  assert.equal(ran.status, 0, ran.stderr);
  return ran.stderr;
}

test("into a file each line stands once until there is another", () => {
  assert.deepEqual(said().trimEnd().split("\n"), [
    "jobs: 0 done",
    "waiting for one",
    "waiting for another",
    "jobs: away",
    "waiting for another",
    "jobs: 1 done",
  ]);
});

test("on a terminal waiting keeps the line until it is over", () => {
  const shown = said("tty").split("\r\x1b[K").filter((text) => text !== "");
  assert.deepEqual(shown, [
    "jobs: 0 done",
    "waiting for one",
    "waiting for another",
    "waiting for another",
    "jobs: 0 done",
    "jobs: away\n",
    "waiting for another",
    "jobs: 1 done",
  ]);
});
