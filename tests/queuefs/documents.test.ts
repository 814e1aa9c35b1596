/** Every document that the queue commands print with `--json` is as its published schema says. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import process from "node:process";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { QUEUE_DOCUMENTS } from "../../cli/commands/queue/schemas.ts";
import { DOCUMENTS } from "../../cli/schemas.ts";
import { tempDir } from "../helpers/git.ts";

const main = fileURLToPath(new URL("../../cli/main.ts", import.meta.url));
const start = process.versions.deno === undefined ? [main] : ["run", "-A", "--no-check", main];

/** What the lines without a `schema` of their own are. */
const UNNAMED: Record<string, string> = {
  dequeue: "agentq.queue-message/1",
  peek: "agentq.queue-message/1",
  messages: "agentq.queue-unacked/1",
  "fs read": "agentq.queue-read/1",
};

test("queue documents fit their schemas", { timeout: 120_000 }, () => {
  const file = join(tempDir(), "q.db");
  const env = { ...process.env, AGENTQ_STATE: tempDir() };
  const seen = new Set<string>();
  const run = (line: string, input: string | Uint8Array = "") => {
    const [own, command] = line.split(" -- ");
    const args = ["queue", ...own!.split(" "), "--json", "--backend", `sqlite:${file}`];
    const more = command === undefined ? [] : ["--", ...command.split(" ")];
    const ran = spawnSync(process.execPath, [...start, ...args, ...more], {
      env,
      input,
      encoding: "utf8",
    });
    assert.equal(ran.status, 0, `${line}: ${ran.stderr}${ran.stdout}`);
    const lines = ran.stdout.split("\n").filter(Boolean).map((text) => JSON.parse(text));
    assert.ok(lines.length > 0, line);
    for (const document of lines) {
      const words = own!.split(" ");
      const name = document?.schema ?? UNNAMED[words[0]!] ?? UNNAMED[words.slice(0, 2).join(" ")];
      const schema = DOCUMENTS[name];
      assert.ok(schema, `${line}: ${JSON.stringify(document)} has no schema`);
      const { error } = schema.safeParse(document);
      assert.equal(error, undefined, `${line}: ${JSON.stringify(document)}`);
      seen.add(name);
    }
    return lines;
  };
  run("create jobs");
  run("create jobs");
  run("create tree/leaf");
  run("ls");
  run("peek jobs");
  run("enqueue jobs text");
  run("enqueue jobs - --id bytes", new Uint8Array([0xff, 0x00]));
  run("enqueue jobs - --lines", "a\nb\nc\n");
  run("peek jobs");
  run("size jobs");
  run("status jobs");
  run("status --all");
  const [text] = run("dequeue jobs");
  run(`ack jobs ${text.id}`);
  const [bytes] = run("dequeue jobs --receipt");
  assert.equal(bytes.data_base64, "/wA=");
  run("messages jobs");
  run(`requeue jobs bytes --lease ${bytes.lease}`);
  for (const path of ["dequeue", "peek", "size", "status", "messages"]) run(`fs read jobs/${path}`);
  run("fs read tree/leaf/dequeue");
  run("fs write jobs/enqueue data");
  run("fs write tree/leaf/clear");
  run("fs ls /");
  run("fs ls jobs");
  run("recover jobs --stale 0");
  for (let i = 0; i < 2; i++) {
    const [message] = run("dequeue jobs");
    run(`fail jobs ${message.id} --reason because`);
  }
  const db = new DatabaseSync(file);
  db.exec("UPDATE agentq_failed SET data = 'nonsense' WHERE id = 1");
  db.exec(
    "UPDATE queue_messages SET data = 'nonsense' WHERE id = (SELECT max(id) FROM queue_messages)",
  );
  db.close();
  run("messages jobs");
  const letters = run("failed ls");
  for (const { failed } of letters) run(`failed show jobs ${failed}`);
  run("failed retry jobs --all");
  run("failed prune jobs");
  run("work jobs --until-empty --max-attempts 1 -- true");
  run("wait jobs");
  run("metrics");
  run("clear jobs");
  run("rm tree");
  assert.deepEqual(Object.keys(QUEUE_DOCUMENTS).filter((name) => !seen.has(name)), []);
});
