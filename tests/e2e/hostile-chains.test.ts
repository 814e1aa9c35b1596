/** Chains are written by strangers: what isn't a chain stops the reader with a name for it, nothing else. */
import assert from "node:assert/strict";
import { git, tryGit } from "../helpers/git.ts";
import { type Agent, agentCommit, makeAgent, run, runJson } from "./harness/agent.ts";
import { allRefs, chainRef, makeOrigin, type TestOrigin } from "./harness/origin.ts";
import { scenario } from "./harness/scenario.ts";
import { chainCommit } from "./harness/weave.ts";

const OTHER = "1".repeat(40);

interface Broken {
  name: string;
  /** Makes the queue's head out of the lawful one. */
  head: (origin: TestOrigin, queue: string, candidate: string) => string;
}

const ticket = (candidate: string, change: Record<string, unknown> = {}) => ({
  kind: "ticket",
  ticket: 1,
  candidate,
  submitter: "evil-1-x",
  verify_cmd: null,
  verify_timeout: 1800,
  check: null,
  checkers: null,
  ...change,
});

const one = (name: string, message: (candidate: string) => unknown): Broken => ({
  name,
  head: (origin, queue, candidate) =>
    chainCommit(origin.dir, [queue, candidate], message(candidate)),
});

const BROKEN: Broken[] = [
  one("not JSON", () => "hello there\n"),
  one("an empty message", () => "\n"),
  one("JSON cut short", () => '{"kind":"ticket","ticket":1,'),
  one("a JSON array", () => "[1,2,3]"),
  one("null", () => "null"),
  one("another kind", (c) => ticket(c, { kind: "result" })),
  one("a ticket number of the wrong type", (c) => ticket(c, { ticket: "1" })),
  one("a negative ticket number", (c) => ticket(c, { ticket: -1 })),
  one("a ticket number that isn't whole", (c) => ticket(c, { ticket: 1.5 })),
  one("a ticket number past what a double holds", (c) => ticket(c, { ticket: 2 ** 60 })),
  one("a gap in the numbers", (c) => ticket(c, { ticket: 2 })),
  one("a repeated number", (c) => ticket(c, { ticket: 0 })),
  one("a candidate that is no object id", (c) => ticket(c, { candidate: "HEAD; rm -rf /" })),
  one("a candidate that isn't the second parent", (c) => ticket(c, { candidate: OTHER })),
  one("a verify command of the wrong type", (c) => ticket(c, { verify_cmd: ["rm", "-rf"] })),
  one("no fields at all", () => ({})),
  one("nesting 100,000 deep", () => "[".repeat(100_000) + "]".repeat(100_000)),
  one("a message of 50 MB", (c) => JSON.stringify(ticket(c, { padding: "x".repeat(50_000_000) }))),
  {
    name: "a ticket without its candidate as second parent",
    head: (origin, queue, candidate) => chainCommit(origin.dir, [queue], ticket(candidate)),
  },
  {
    name: "a commit of the branch in the queue's place",
    head: (origin) => origin.initial,
  },
  {
    name: "a chain without its genesis",
    head: (origin, _queue, candidate) =>
      chainCommit(origin.dir, [candidate], ticket(candidate, { ticket: 0 })),
  },
  {
    name: "a blob in the queue's place",
    head: (origin) =>
      tryGit(origin.dir, ["hash-object", "-w", "--stdin"], { input: "blob" }).stdout.trim(),
  },
];

async function oneTicket(): Promise<{ origin: TestOrigin; agent: Agent; candidate: string }> {
  const origin = makeOrigin();
  const agent = makeAgent(origin);
  const candidate = agentCommit(agent, { "a.txt": "a\n" });
  await runJson(agent, ["submit", "--no-wait"]);
  return { origin, agent, candidate };
}

for (const broken of BROKEN) {
  scenario(`queue head: ${broken.name}: corrupt-chain, exit 2, nothing changed`, async () => {
    const { origin, candidate } = await oneTicket();
    const ref = chainRef(origin, "queue");
    const head = broken.head(origin, git(origin.dir, "rev-parse", ref), candidate);
    rawRef(origin, ref, head);
    const before = allRefs(origin);
    const stranger = makeAgent(origin);
    agentCommit(stranger, { "b.txt": "b\n" });
    for (const args of [["status"], ["submit", "--no-wait"], ["land"]]) {
      const result = await run(stranger, [...args, "--json"]);
      assert.equal(
        result.status,
        2,
        `${args}: ${result.stdout.slice(0, 500)}${result.stderr.slice(0, 500)}`,
      );
      assert.equal(result.json.error.code, "corrupt-chain", args.join(" "));
      assert.match(result.json.error.message, new RegExp(head.slice(0, 7)), "names the commit");
      assert.ok(result.stdout.length < 20_000, "the message isn't echoed whole");
    }
    assert.equal(allRefs(origin), before);
  });
}

/** Sets a ref to any object, as only a broken origin would have it. */
function rawRef(origin: TestOrigin, ref: string, oid: string): void {
  const type = git(origin.dir, "cat-file", "-t", oid);
  assert.ok(["commit", "blob"].includes(type));
  git(origin.dir, "update-ref", ref, oid);
}

const DONE: [string, (candidate: string, tip: string) => unknown][] = [
  ["not JSON", () => "landed, trust me"],
  ["a result for a ticket that doesn't exist", (c, t) => result(c, t, { ticket: 9 })],
  [
    "a landed result without its commit",
    (c, t) => result(c, t, { landed: null, reason: "landed" }),
  ],
  ["a landed commit that isn't the second parent", (c, t) => result(c, t, { landed: OTHER })],
  ["wrong types", (c, t) => result(c, t, { files: "all", report: 7 })],
];

function result(candidate: string, tip: string, change: Record<string, unknown>): unknown {
  return {
    kind: "result",
    ticket: 0,
    candidate,
    submitter: "x",
    lander: "y",
    tip,
    landed: null,
    reason: "merge refused",
    files: [],
    regions: [],
    report: "",
    ...change,
  };
}

for (const [name, message] of DONE) {
  scenario(`done head: ${name}: corrupt-chain, exit 2, nothing changed`, async () => {
    const { origin, agent, candidate } = await oneTicket();
    const genesis = chainCommit(origin.dir, [], { kind: "genesis", chain: "done" });
    const head = chainCommit(origin.dir, [genesis], message(candidate, origin.initial));
    git(origin.dir, "update-ref", chainRef(origin, "done"), head);
    const before = allRefs(origin);
    for (const args of [["status"], ["land"], ["wait", "0"]]) {
      const refused = await runJson(agent, args, 2);
      assert.equal(refused.error.code, "corrupt-chain", args.join(" "));
    }
    assert.equal(allRefs(origin), before);
  });
}

scenario("lock head: garbage: corrupt-chain, nothing is taken", async () => {
  for (const message of ["free for all", '{"kind":"lock","holder":7,"by":"x","at":1}']) {
    const { origin, agent } = await oneTicket();
    git(origin.dir, "update-ref", chainRef(origin, "lock"), chainCommit(origin.dir, [], message));
    const before = allRefs(origin);
    assert.equal((await runJson(agent, ["land"], 2)).error.code, "corrupt-chain");
    assert.equal(allRefs(origin), before);
  }
});

scenario(
  "a broken ticket deep in the queue stops the lander there, after what came before",
  async () => {
    const { origin, agent, candidate } = await oneTicket();
    const ref = chainRef(origin, "queue");
    const bad = chainCommit(origin.dir, [git(origin.dir, "rev-parse", ref), candidate], "garbage");
    const good = chainCommit(origin.dir, [bad, candidate], ticket(candidate, { ticket: 2 }));
    git(origin.dir, "update-ref", ref, good);
    const stopped = await run(agent, ["land", "--json"]);
    assert.equal(stopped.status, 2, stopped.stdout + stopped.stderr);
    assert.match(stopped.stdout, /corrupt-chain/);
    // The lock was let go, so that a person can look.
    const lock = tryGit(origin.dir, ["cat-file", "commit", chainRef(origin, "lock")]);
    if (lock.status === 0) assert.match(lock.stdout, /"holder":\s*null/);
  },
);

scenario("terminal escapes in messages never reach the terminal", async () => {
  const origin = makeOrigin();
  const agent = makeAgent(origin);
  const candidate = agentCommit(agent, { "a.txt": "a\n" });
  const evil = "\x1b]0;owned\x07\x1b[2J\u009b31m\u202etxt.exe\u2066\r\nfake line\x00\x7f";
  const genesis = chainCommit(origin.dir, [], { kind: "genesis", chain: "queue" });
  git(origin.dir, "fetch", "-q", agent.dir, "HEAD");
  const head = chainCommit(
    origin.dir,
    [genesis, candidate],
    ticket(candidate, {
      ticket: 0,
      submitter: evil,
      verify_cmd: `printf '\\033[31mred\\033[0m\\007\\n'; exit 1`,
      agentq: { v: 1, submission: "s", submittedAt: 1, title: evil, strategy: null },
    }),
  );
  git(origin.dir, "update-ref", chainRef(origin, "queue"), head);
  const outputs: string[] = [];
  for (const args of [["status"], ["show", "0"], ["land"], ["log"], ["show", "0"], ["wait", "0"]]) {
    for (const json of [[], ["--json"]]) {
      const result = await run(agent, [...args, ...json]);
      outputs.push(result.stdout + result.stderr);
      // deno-lint-ignore no-control-regex -- control characters are the point
      const raw = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/.exec(
        result.stdout + (args[0] === "land" ? "" : result.stderr),
      );
      assert.equal(raw, null, `${args} ${json}: ${JSON.stringify(result.stdout)}`);
    }
  }
  assert.match(outputs.join(""), /owned/, "the text is shown, escaped");
  const done = JSON.parse(git(origin.dir, "log", "-1", "--format=%B", chainRef(origin, "done")));
  assert.equal(done.reason, "verify command failed");
});
