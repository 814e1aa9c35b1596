/** Under waits and workers that run, the database is removed and another one put in its place. */
import assert from "node:assert/strict";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { makeAgent, run, runJson, start } from "./harness/agent.ts";
import { makeOrigin } from "./harness/origin.ts";
import { scenario } from "./harness/scenario.ts";
import { tempDir } from "../helpers/git.ts";

const until = async (condition: () => Promise<boolean> | boolean) => {
  while (!await condition()) await new Promise((resolve) => setTimeout(resolve, 50));
};

scenario(
  "a database that is replaced ends waits and workers, and isn't called complete",
  async () => {
    const agent = makeAgent(makeOrigin());
    const dir = tempDir();
    const file = join(dir, "q.db");
    const at = ["--backend", `sqlite:${file}`];
    const queue = (...args: string[]) => run(agent, ["queue", ...args, ...at]);
    const fill = async () => {
      await queue("create", "jobs");
      await queue("create", "idle");
      await queue("enqueue", "jobs", "a");
    };
    await fill();
    const mark = join(dir, "mark");
    const program = ["sh", "-c", 'touch "$1"; cat', "sh", mark];
    await queue("enqueue", "idle", "first");
    const worker = start(agent, ["queue", "work", "idle", ...at, "--json", "--", ...program]);
    const waiting = start(agent, ["queue", "wait", "jobs", ...at, "--json"]);
    await until(() => existsSync(mark)); // The worker is there,
    await until(() => waiting.stderr().includes("1 pending")); // and so is the other one.
    for (const end of ["", "-wal", "-shm"]) rmSync(file + end, { force: true });
    await fill();
    for (const [name, running] of Object.entries({ worker, waiting })) {
      const ended = await running.done;
      assert.equal(ended.status, 2, `${name}: ${ended.stderr}`);
      assert.equal(ended.json.error.code, "identity-changed", name);
      assert.match(ended.json.error.message, /q\.db was (removed|replaced by another file) while/);
    }
    // The new one is whole.
    const status = await runJson(agent, ["queue", "status", "jobs", ...at]);
    assert.deepEqual([status.pending, status.complete], [1, false]);
  },
);

scenario("commands that look don't build anew what a database has lost", async () => {
  const agent = makeAgent(makeOrigin());
  const file = join(tempDir(), "q.db");
  const at = ["--backend", `sqlite:${file}`];
  await run(agent, ["queue", "create", "jobs", ...at]);
  await run(agent, ["queue", "enqueue", "jobs", "a", ...at]);
  const db = new DatabaseSync(file);
  db.exec("DROP TABLE queue_messages");
  db.close();
  for (const args of [["status", "jobs"], ["wait", "jobs"], ["ls"], ["create", "other"]]) {
    const { status, json } = await run(agent, ["queue", ...args, ...at, "--json"]);
    assert.equal(status, 2, args.join(" "));
    assert.equal(json.error.code, "backend-corrupt", args.join(" "));
  }
  writeFileSync(file, "");
  for (const end of ["-wal", "-shm"]) rmSync(file + end, { force: true });
  for (const args of [["status", "jobs"], ["dequeue", "jobs"]]) {
    const { json } = await run(agent, ["queue", ...args, ...at, "--json"]);
    assert.equal(json.error.code, "backend-missing", args.join(" "));
  }
});

scenario("a program that can't be run costs no message", async () => {
  const agent = makeAgent(makeOrigin());
  await run(agent, ["queue", "create", "jobs"]);
  await run(agent, ["queue", "enqueue", "jobs", "a"]);
  const script = join(tempDir(), "handle.sh");
  const work = () =>
    run(agent, ["queue", "work", "jobs", "--max-attempts", "1", "--json", "--", script]);
  writeFileSync(script, "#!/no/interp\n", { mode: 0o644 });
  const plain = (await work()).json.error;
  assert.equal(plain.code, "command-not-started");
  assert.match(plain.message, /can't be executed/);
  rmSync(script);
  writeFileSync(script, "#!/no/interp\n", { mode: 0o755 });
  const interpreter = (await work()).json.error;
  assert.equal(interpreter.code, "command-not-started");
  assert.match(interpreter.message, /no interpreter "\/no\/interp"/);
  const status = await runJson(agent, ["queue", "status", "jobs"]);
  assert.equal(status.pending, 1);
});
