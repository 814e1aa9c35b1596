/** What a v1 queue has given out comes back by no means of its own: its ids must reach somebody. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { renameSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { tempDir } from "../helpers/git.ts";

const main = fileURLToPath(new URL("../../cli/main.ts", import.meta.url));
const start = process.versions.deno === undefined ? [main] : ["run", "-A", "--no-check", main];
const LONG = { timeout: 120_000 };

function queueOf(...ids: string[]) {
  const root = join(tempDir(), "v1");
  const env = { ...process.env, AGENTQ_STATE: tempDir(), AGENTQ_BACKEND: `v1:${root}` };
  const queue = (words: string[], redirection = "") => {
    const shell = ["-c", `exec "$@" ${redirection}`, "sh", process.execPath, ...start, "queue"];
    const ran = spawnSync("sh", [...shell, ...words], { env, encoding: "utf8" });
    return { status: ran.status, out: ran.stdout, err: ran.stderr };
  };
  queue(["create", "jobs"]);
  for (const id of ids) queue(["enqueue", "jobs", `of ${id}`, "--id", id]);
  const messages = () => queue(["messages", "jobs"]).out.trim().split("\n");
  return { root, queue, messages };
}

test("an answer that can't be written names on stderr what was taken for it", LONG, () => {
  const { queue, messages } = queueOf("a", "b", "c");
  const two = queue(["dequeue", "jobs", "--count", "2"], ">/dev/full");
  assert.equal(two.status, 2);
  assert.match(two.err, /ENOSPC.*"jobs".*"a", "b"$/m);
  assert.match(two.err, /^hint: .*queue messages jobs.*enqueue --id/m);
  const one = queue(["fs", "read", "jobs/dequeue"], ">/dev/full");
  assert.equal(one.status, 2);
  assert.match(one.err, /: "c"$/m);
  assert.equal(messages().filter((line) => line.includes("processing")).length, 3);
  // Nothing was taken, so nothing is named.
  assert.doesNotMatch(queue(["dequeue", "jobs"], ">/dev/full").err, /taken/);
});

test("a reader that is gone is told the same, and the run ends as by SIGPIPE", LONG, () => {
  const { root, queue } = queueOf("a");
  const env = { ...process.env, AGENTQ_STATE: tempDir() };
  const gone = `mkfifo p; { exec 3<>p; exec 4>p; exec 3<&-; "$@" >&4; echo "exit $?" >&2; }`;
  const words = [...start, "queue", "dequeue", "jobs", "--backend", `v1:${root}`];
  const ran = spawnSync("sh", ["-c", gone, "sh", process.execPath, ...words], {
    env,
    cwd: tempDir(),
    encoding: "utf8",
  });
  assert.match(ran.stderr, /nobody reads it.*: "a"$/m);
  assert.match(ran.stderr, /exit 141/);
  assert.match(queue(["messages", "jobs"]).out, /"state":"processing"/);
});

test(
  "a claim whose consumer is gone is given out again in the ways that the docs name",
  LONG,
  () => {
    const { root, queue, messages } = queueOf("a", "b");
    queue(["dequeue", "jobs", "--count", "2"]);
    assert.equal(queue(["dequeue", "jobs"]).out.trim(), "{}");
    for (const refused of [["recover", "jobs"], ["requeue", "jobs", "a"]]) {
      assert.match(queue(refused).err, /^hint: To have it given out again enqueue/m);
    }
    const { id, data } = JSON.parse(messages().find((line) => line.includes('"id":"a"'))!);
    assert.equal(queue(["enqueue", "jobs", data, "--id", id]).status, 0);
    assert.equal(queue(["ack", "jobs", id, "--owner", "operator"]).status, 0);
    assert.deepEqual(JSON.parse(queue(["dequeue", "jobs"]).out), { id: "a", data: "of a" });
    renameSync(join(root, "jobs", "b.processing"), join(root, "jobs", "b.json"));
    assert.deepEqual(JSON.parse(queue(["dequeue", "jobs"]).out), { id: "b", data: "of b" });
    assert.equal(queue(["fail", "jobs", "b"]).status, 0);
    assert.match(queue(["failed", "ls"]).out, /^jobs\tb\t/);
  },
);
