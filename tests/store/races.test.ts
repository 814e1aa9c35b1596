import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import process from "node:process";
import { describe, test } from "node:test";
import { initStore, openStore } from "../../src/store/mod.ts";
import { tempDir } from "../helpers/git.ts";
import { runtimeArguments } from "./runtime.ts";

const KINDS = ["enqueue", "claim", "ack", "requeue", "migrate", "quarantine", "gc"] as const;
const WORKER = new URL("./race-worker.ts", import.meta.url).pathname;
const ROUNDS = 8;

async function run(root: string, kind: string, name: string): Promise<string[]> {
  const child = spawn(process.execPath, [
    ...runtimeArguments(),
    WORKER,
    root,
    kind,
    name,
    String(ROUNDS),
  ], { stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  let errors = "";
  child.stdout.on("data", (chunk) => output += chunk);
  child.stderr.on("data", (chunk) => errors += chunk);
  await once(child, "close");
  assert.equal(child.exitCode, 0, errors);
  return output.split("\n").filter((line) => line !== "");
}

describe("two processes racing", () => {
  for (const [index, first] of KINDS.entries()) {
    test(`with ${first} against every other operation lose and double nothing`, async () => {
      await Promise.all(
        KINDS.slice(index).map(async (second) => {
          const root = tempDir();
          await initStore(root);
          const store = await openStore(root);
          const entries = Array.from({ length: 8 }, (_, n) => ({ id: `seed-${n}`, payload: n }));
          const receipts = await store.enqueueMany("jobs", entries);
          await store.claim("jobs", { count: 4 });

          const lines = (await Promise.all([run(root, first, "one"), run(root, second, "two")]))
            .flat();
          const done = (kind: string) =>
            lines.filter((line) => line.startsWith(`${kind} `)).map((line) => line.split(" ")[1]!);
          const accepted = [...receipts.map(({ generation }) => generation), ...done("enqueue")];
          // Quarantining again with the same receipt finds it done, and is told so.
          const ended = [...done("ack"), ...new Set(done("quarantine"))];
          assert.equal(new Set(ended).size, ended.length, "each ends once");
          const left = (await store.messages()).map(({ receipt }) => receipt.generation);
          const failed = (await store.failed.list()).map(({ generation }) => generation);
          assert.deepEqual(failed.sort(), [...new Set(done("quarantine"))].sort());
          assert.deepEqual([...left, ...ended].sort(), accepted.sort(), `${first} and ${second}`);
          const report = await store.check();
          assert.deepEqual([report.findings, report.orphans], [[], 0]);
        }),
      );
    });
  }
});
