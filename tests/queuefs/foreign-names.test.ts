/** Queues that other programs have named as they like: shown so that nothing acts on a terminal, in nobody's way. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import process from "node:process";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { parseRedisUrl } from "../../src/queuefs/backends/redis/address.ts";
import { redisBackend } from "../../src/queuefs/backends/redis/backend.ts";
import { prometheusText } from "../../src/queuefs/metrics.ts";
import { tempDir } from "../helpers/git.ts";
import { startRedis } from "./helpers/redis.ts";

const main = fileURLToPath(new URL("../../cli/main.ts", import.meta.url));
const start = process.versions.deno === undefined ? [main] : ["run", "-A", "--no-check", main];
const FOREIGN = ["", "my queue", "two\nlines", "x\u001b[31m", "jobs/a b", "\u202ex"];

function agentq(backend: string, ...args: string[]) {
  const words = [...start, "queue", ...args, "--backend", backend];
  const env = { ...process.env, AGENTQ_STATE: tempDir() };
  const { status, stdout, stderr } = spawnSync(process.execPath, words, { env, encoding: "utf8" });
  assert.equal(status, 0, `${args.join(" ")}: ${stderr}`);
  return stdout;
}

async function places(): Promise<[string, () => Promise<void>][]> {
  const file = join(tempDir(), "q.db");
  agentq(`sqlite:${file}`, "create", "jobs");
  const db = new DatabaseSync(file);
  const insert = db.prepare("INSERT INTO queue_metadata (queue_name) VALUES (?1)");
  for (const name of FOREIGN) insert.run(name);
  db.close();
  const server = await startRedis();
  const redis = `redis://127.0.0.1:${server.port}`;
  agentq(redis, "create", "jobs");
  for (const name of FOREIGN) server.cli("sadd", "{default}:ov:queue:names", name);
  const backend = await redisBackend(parseRedisUrl(redis, {}));
  assert.deepEqual(await backend.recover(null), []);
  await backend.close();
  return [[`sqlite:${file}`, async () => {}], [redis, () => server.kill()]];
}

test("a foreign name is escaped, and hides no dead letter", { timeout: 120_000 }, async () => {
  for (const [backend, close] of await places()) {
    agentq(backend, "enqueue", "jobs", "x", "--id", "x");
    agentq(backend, "dequeue", "jobs");
    agentq(backend, "fail", "jobs", "x", "--reason", "because");
    assert.equal(agentq(backend, "failed", "ls"), "jobs\tx\t1x\tbecause\n");
    assert.equal(JSON.parse(agentq(backend, "failed", "ls", "--json")).failed, "x");
    const lines = agentq(backend, "ls").trimEnd().split("\n").sort();
    const shown = ['""', "\\u202ex", "jobs", "jobs/a b", "my queue", "two\\nlines", "x\\x1b[31m"];
    assert.deepEqual(lines, shown);
    const listed = agentq(backend, "ls", "--json").trimEnd().split("\n");
    assert.deepEqual(
      listed.map((line) => JSON.parse(line).queue).sort(),
      [...FOREIGN, "jobs"].sort(),
    );
    const entries = agentq(backend, "fs", "ls").trimEnd().split("\n").sort();
    assert.deepEqual(entries, shown.filter((name) => name !== "jobs/a b").map((n) => `${n}/`));
    const below = agentq(backend, "status", "jobs", "--all").trimEnd().split("\n");
    assert.deepEqual(below.map((line) => JSON.parse(line).queue).sort(), ["jobs", "jobs/a b"]);
    for (const args of [["ls"], ["fs", "ls"], ["metrics", "--prometheus"], ["status", "--all"]]) {
      // deno-lint-ignore no-control-regex -- what must not come out
      assert.doesNotMatch(agentq(backend, ...args), /[\u0000-\u0009\u000b-\u001f\u202e]/);
    }
    await close();
  }
});

test("no two names have the same label, nor one that a terminal acts on", () => {
  const names = [
    ...["", "\u001b", "%1B", "%251B", "\\x1b", "\\\\x1b", "a\nb", "a\\nb", '"', "\u0085", "\u202e"],
    ...["\r", "\t", "\u007f", "\u2028"],
  ];
  const counts = { pending: 1, processing: 0 };
  const workers = {
    processed: 0,
    requeue_count: 0,
    error_count: 0,
    failed_count: 0,
    recovered_count: 0,
    stale_count: 0,
  };
  const text = prometheusText(names.map((queue) => ({ queue, counts, workers })));
  const lines = text.split("\n").filter((line) => line.startsWith("agentq_queue_pending{"));
  assert.equal(lines.length, names.length);
  assert.equal(new Set(lines).size, names.length);
  for (const line of lines) {
    assert.match(line, /^agentq_queue_pending\{queue="(?:[^"\\\n]|\\[\\"n])*"\} 1$/);
    assert.doesNotMatch(line, /[\p{Cc}\p{Cf}\u2028]/u);
  }
});
