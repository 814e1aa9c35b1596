/** Records of kept submissions that are torn, changed by hand or out of reach, and kept commits that are gone. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { git } from "../helpers/git.ts";
import { agentCommit, makeAgent, run, runJson } from "./harness/agent.ts";
import { keeping } from "./harness/keeping.ts";
import { setHook } from "./harness/origin.ts";
import { scenario } from "./harness/scenario.ts";

scenario("a torn record of this machine is named and stops nothing", async () => {
  const { agent } = await keeping();
  const objects = join(agent.state, "submissions", ".fs-safe-queue-v2", "objects");
  for (const name of readdirSync(objects)) truncateSync(join(objects, name, "payload.json"), 50);
  agentCommit(agent, { "b.txt": "b\n" });
  for (const args of [["status"], ["flush"]]) {
    const { warnings } = await runJson(agent, args);
    assert.match(warnings[0], /is passed over: .*isn't JSON/);
  }
  for (const args of [["submit", "--no-wait"], ["land"], ["wait", "0"]]) {
    const { status, stderr } = await run(agent, args);
    assert.equal(status, 0, stderr);
    assert.match(stderr, /warning: .* is passed over: .*isn't JSON/);
  }
});

scenario("a damaged submission is named until it is set aside, with its bytes", async () => {
  const { agent } = await keeping();
  const store = join(agent.state, "submissions");
  const objects = join(store, ".fs-safe-queue-v2", "objects");
  truncateSync(join(objects, readdirSync(objects)[0]!, "payload.json"), 50);
  const warnings = (await runJson(agent, ["flush"])).warnings as string[];
  const [, name] = /agentq flush --drop (\S+) sets it aside/.exec(warnings.join("\n"))!;
  assert.deepEqual((await runJson(agent, ["flush", "--drop", name!])).dropped, [name]);
  assert.equal((await runJson(agent, ["flush"])).warnings, undefined);
  const letters = await runJson(agent, [
    ...["queue", "failed", "ls", "submissions", "--backend", `store:${store}`],
  ]);
  assert.equal(letters.failed, name);
});

/** What a field of a record was made by hand, which no ticket may have. */
const DAMAGES: Readonly<Record<string, (text: string) => string>> = {
  "a negative time": (text) => text.replace(/"verifyTimeout":\d+/, '"verifyTimeout":-8'),
  "a title longer than any": (text) =>
    text.replace('"title":null', `"title":${JSON.stringify("x".repeat(3_000_000))}`),
  "another candidate": (text) => text.replace(/"candidate":"..../, '"candidate":"0000'),
};

for (const [name, damage] of Object.entries(DAMAGES)) {
  scenario(`a submission with ${name} is passed over, and the queue stays whole`, async () => {
    const { agent, origin } = await keeping();
    const objects = join(agent.state, "submissions", ".fs-safe-queue-v2", "objects");
    const path = join(objects, readdirSync(objects)[0]!, "payload.json");
    const text = readFileSync(path, "utf8");
    writeFileSync(path, damage(text));
    assert.notEqual(readFileSync(path, "utf8"), text);
    const { delivered, warnings } = await runJson(agent, ["flush"]);
    assert.deepEqual(delivered, []);
    assert.match(warnings.join("\n"), /is passed over: .*--drop \S+ sets it aside/s);
    assert.equal((await runJson(makeAgent(origin), ["status"])).next, 0);
    assert.equal((await runJson(agent, ["submit"])).outcome, "landed");
  });
}

scenario("a file in place of the submissions is told, and isn't taken for none", async () => {
  const { agent } = await keeping();
  const at = join(agent.state, "submissions");
  rmSync(at, { recursive: true });
  writeFileSync(at, "");
  assert.match((await runJson(agent, ["status"])).warnings[0], /submissions can't be read/);
  assert.equal((await runJson(agent, ["flush"], 2)).error.code, "state-unavailable");
});

scenario("a store of submissions that can't be read is told in status --json", async () => {
  const { agent } = await keeping();
  const state = join(agent.state, "submissions", ".fs-safe-queue-v2", "state.json");
  const whole = readFileSync(state);
  writeFileSync(state, "");
  for (let i = 0; i < 2; i++) {
    const { submissions, warnings } = await runJson(agent, ["status"]);
    assert.deepEqual(submissions, []);
    assert.match(warnings.join("\n"), /submissions can't be read/);
  }
  writeFileSync(state, whole);
  assert.equal((await runJson(agent, ["status"])).submissions.length, 1);
});

for (const pushed of [false, true]) {
  const name = pushed ? "that a push was tried of" : "that was kept";
  scenario(`a commit ${name} and that was pruned is told to be that, and taken back`, async () => {
    const { agent, origin, candidate } = await keeping();
    if (pushed) {
      setHook(origin, "pre-receive", "exit 1");
      await run(agent, ["submit", "--no-wait"]);
    }
    git(agent.dir, "reset", "-q", "--hard", "HEAD^");
    git(agent.dir, "reflog", "expire", "--expire=now", "--all");
    git(agent.dir, "gc", "-q", "--prune=now");
    const [kept] = (await runJson(agent, ["flush"], 2)).kept;
    assert.equal(kept.error.code, "object-missing");
    const said = `${candidate.slice(0, 12)} isn't in the clone .* any more: it was pruned`;
    assert.match(kept.error.message, new RegExp(said));
    const [, id] = /agentq flush --drop ([0-9a-f]{32})/.exec(kept.error.hint)!;
    assert.deepEqual((await runJson(agent, ["flush", "--drop", id!])).dropped, [id]);
    assert.deepEqual((await runJson(agent, ["flush"])).kept, []);
  });
}
