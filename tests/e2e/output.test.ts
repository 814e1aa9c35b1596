/** Where the answer goes: a disk that is full, a reader that went away, lines that others can forge. */
import assert from "node:assert/strict";
import { readChain } from "./harness/chains.ts";
import { agentCommit, makeAgent, run, runJson, start } from "./harness/agent.ts";
import { chainRef, makeOrigin, type TestOrigin } from "./harness/origin.ts";
import { scenario } from "./harness/scenario.ts";
import { git } from "../helpers/git.ts";
import { chainCommit } from "./harness/weave.ts";

scenario("an answer that couldn't be written is no success", async () => {
  const origin = makeOrigin();
  const agent = makeAgent(origin);
  const full = ["sh", "-c", 'exec "$@" >/dev/full', "sh"];
  for (const args of [["--version"], ["status"], ["status", "--json"], ["log", "--help"]]) {
    const result = await run(agent, args, { wrapper: full });
    assert.equal(result.status, 2, args.join(" "));
    assert.match(result.stderr, /standard output can't be written: ENOSPC/);
  }
});

scenario("a lander whose reader goes away stops and lets the lock go", async () => {
  const origin = makeOrigin();
  const agent = makeAgent(origin);
  for (const name of ["a", "b", "c"]) {
    agentCommit(agent, { [`${name}.txt`]: name });
    await runJson(agent, ["submit", "--no-wait"]);
  }
  const lander = start(agent, ["land", "--watch"], {
    wrapper: ["sh", "-c", '{ "$@"; echo "exit $?" >&2; } | head -n 1', "sh"],
  });
  const { stderr } = await lander.done;
  assert.match(stderr, /exit 141/);
  const lock = readChain(origin, "lock").at(-1)!;
  assert.equal(lock.message.holder, null);
});

scenario("AGENTQ_JSON speaks JSON about its neighbours' mistakes too", async () => {
  const agent = makeAgent(makeOrigin());
  for (const [args, env] of [[["status"], { AGENTQ_LIMIT: "zz" }], [["nope"], {}]] as const) {
    const result = await run(agent, args, { env: { AGENTQ_JSON: "1", ...env } });
    assert.equal(result.status, 64);
    assert.equal(result.json.error.code, "usage");
  }
});

scenario("a stranger's newline begins no line", async () => {
  const origin = makeOrigin();
  const agent = makeAgent(origin);
  const forged = "x\n  9 landed by nobody";
  plant(origin, forged);
  for (const args of [["status"], ["log"], ["wait", "0"]]) {
    const { stdout, stderr } = await run(agent, args);
    assert.match(stdout, /landed by nobody/, stderr);
    assert.doesNotMatch(stdout, /^\s*9 landed/m, args.join(" "));
  }
});

/** Chains whose every text holds `text`: one ticket refused, one queued, and a pause. */
function plant(origin: TestOrigin, text: string): void {
  const { dir, initial } = origin;
  const ticket = (number: number) => ({
    kind: "ticket",
    ticket: number,
    candidate: initial,
    submitter: text,
    verify_cmd: null,
    verify_timeout: 1,
    check: null,
    checkers: null,
  });
  const genesis = (chain: string) => chainCommit(dir, [], { kind: "genesis", chain });
  const first = chainCommit(dir, [genesis("queue"), initial], ticket(0));
  const done = chainCommit(dir, [genesis("done")], {
    kind: "result",
    ticket: 0,
    candidate: initial,
    submitter: text,
    lander: text,
    tip: initial,
    landed: null,
    reason: text,
    files: [text],
    regions: [text],
    report: "",
  });
  const lock = chainCommit(dir, [], {
    kind: "lock",
    holder: text,
    by: text,
    at: 1,
    agentq: { v: 1, paused: { by: text, reason: text }, cancelled: [], acceptedTip: null },
  });
  const queue = chainCommit(dir, [first, initial], ticket(1));
  for (const [chain, oid] of [["queue", queue], ["done", done], ["lock", lock]] as const) {
    git(dir, "update-ref", chainRef(origin, chain), oid);
  }
}

scenario("a check's last line without an end is ended before ours begins", async () => {
  const agent = makeAgent(makeOrigin());
  agentCommit(agent, { "a.txt": "a" });
  const both = ["sh", "-c", 'exec "$@" 2>&1', "sh"];
  const { stdout } = await run(agent, ["submit", "--verify-cmd", "printf one; printf two"], {
    wrapper: both,
  });
  assert.match(stdout, /^onetwo\nticket 0: landed /m);
});
