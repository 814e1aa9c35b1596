/** A command that reads standard input ends at the first signal, though nothing comes and nothing closes it. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { commit, gitEnv, makeRepo, tempDir } from "../helpers/git.ts";

const main = fileURLToPath(new URL("../../cli/main.ts", import.meta.url));
const start = process.versions.deno === undefined ? [main] : ["run", "-A", "--no-check", main];

const repo = makeRepo();
const head = commit(repo, "base", { "a.txt": "a\n" });
const env = { ...process.env, ...gitEnv(), AGENTQ_STATE: tempDir() };

/** Runs it, sends a signal once it is seen to read, and gives exit code and output. */
async function signalled(args: readonly string[], signal: NodeJS.Signals, input: string) {
  const child = spawn(process.execPath, [...start, ...args], { cwd: repo, env });
  let out = "";
  const answered = new Promise<void>((resolve) => {
    child.stdout.on("data", (chunk) => {
      out += chunk;
      resolve();
    });
  });
  const ended = new Promise<[number | null, string | null]>((resolve) =>
    child.once("close", (code, by) => resolve([code, by]))
  );
  child.stdin.on("error", () => {});
  if (input !== "") {
    child.stdin.write(input);
    await answered;
  } else await new Promise((resolve) => setTimeout(resolve, 2000)); // Nothing tells that it reads.
  process.kill(child.pid!, signal);
  const [code, by] = await ended;
  return { code, by, out };
}

for (const [signal, expected] of [["SIGINT", 130], ["SIGTERM", 143]] as const) {
  test(
    `merge-tree --stdin ends at ${signal} while no line comes`,
    { timeout: 60_000 },
    async () => {
      const args = ["merge-tree", "--stdin", "--json"];
      const { code, by, out } = await signalled(args, signal, `${head} ${head}\n`);
      // Deno tells such a status as the signal.
      assert.ok(code === expected || by === signal, `${code} ${by}`);
      const [merged, stopped] = out.trimEnd().split("\n").map((line) => JSON.parse(line));
      assert.equal(merged.clean, true);
      assert.equal(stopped.error.code, "interrupted");
    },
  );

  test(`queue enqueue ends at ${signal} while nothing comes`, { timeout: 60_000 }, async () => {
    spawnSync(process.execPath, [...start, "queue", "create", "jobs"], { env });
    for (const args of [["queue", "enqueue", "jobs"], ["queue", "fs", "write", "jobs/enqueue"]]) {
      const { code, by } = await signalled(args, signal, "");
      assert.ok(code === expected || by === signal, `${code} ${by}`);
    }
    const size = spawnSync(process.execPath, [...start, "queue", "size", "jobs"], { env });
    assert.equal(String(size.stdout), "0\n");
  });
}
