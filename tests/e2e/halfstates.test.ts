/**
 * Git's files backend commits a multi-ref update by one rename after another. An origin that died in
 * between shows some refs moved and others not: every such state is rolled forward or redone.
 */
import assert from "node:assert/strict";
import { git } from "../helpers/git.ts";
import { agentCommit, makeAgent, run, runJson } from "./harness/agent.ts";
import { readChain, results } from "./harness/chains.ts";
import { checkLaws } from "./harness/laws.ts";
import {
  chainRef,
  makeOrigin,
  refOf,
  type TestOrigin,
  tipOf,
  verifyCommand,
} from "./harness/origin.ts";
import { scenario } from "./harness/scenario.ts";
import { type MakeOrigin, overBoth } from "./harness/transports.ts";

const SHORT = { AGENTQ_LEASE_TTL: "0.5" };

/** What a ref was before and after the landing push. */
interface Move {
  ref: string;
  before: string | null;
  after: string;
}

/** A queue whose last landing push can be half undone. */
async function landed(make: MakeOrigin, kind: "merge" | "fast-forward", first: boolean): Promise<{
  origin: TestOrigin;
  moves: Move[];
  ticket: number;
}> {
  const origin = make();
  const agents = [makeAgent(origin), makeAgent(origin)];
  agentCommit(agents[1]!, { "b.txt": "b\n" });
  if (!first) {
    agentCommit(agents[0]!, { "a.txt": "a\n" });
    assert.equal((await runJson(agents[0]!, ["submit"])).outcome, "landed");
  }
  if (!first && kind === "fast-forward") {
    git(agents[1]!.dir, "fetch", "-q", origin.dir, "main");
    git(agents[1]!.dir, "rebase", "-q", "FETCH_HEAD");
  }
  const refs = ["refs/heads/main", chainRef(origin, "done")];
  const before = refs.map((ref) => refOf(origin, ref));
  const { ticket } = await runJson(agents[1]!, [
    "submit",
    "--no-wait",
    "--verify-cmd",
    verifyCommand(origin),
  ]);
  assert.equal((await run(agents[1]!, ["land"])).status, 0);
  const moves = refs.map((ref, i) => ({ ref, before: before[i]!, after: refOf(origin, ref)! }));
  // The lock's entries of this landing: …, acquire, renewal with the landing, release.
  const lock = readChain(origin, "lock");
  const release = lock.at(-1)!;
  assert.equal(release.message.holder, null);
  moves.push({ ref: chainRef(origin, "lock"), before: lock.at(-3)!.oid, after: lock.at(-2)!.oid });
  return { origin, moves, ticket };
}

/** The states between "nothing moved" and "all moved", by which refs moved. */
const STATES = [0b001, 0b010, 0b011, 0b100, 0b101, 0b110, 0b111, 0b000];
const NAMES = ["branch", "done", "lock"];

function setRef(origin: TestOrigin, ref: string, value: string | null): void {
  if (value === null) git(origin.dir, "update-ref", "-d", ref);
  else git(origin.dir, "update-ref", ref, value);
}

const KINDS = [
  ["merge", false, overBoth],
  ["fast-forward", false, onDisk],
  ["fast-forward", true, onDisk],
] as const;

function onDisk(name: string, body: (make: MakeOrigin) => Promise<void>): void {
  scenario(`${name} [disk]`, () => body(makeOrigin));
}

for (const [kind, first, over] of KINDS) {
  over(`half-committed landing of a ${kind}${first ? " on a fresh queue" : ""}`, async (make) => {
    const { origin, moves, ticket } = await landed(make, kind, first);
    const complete = [...moves.map((m) => m.after)];
    const landedCommit = moves[0]!.after;
    for (const state of STATES) {
      const moved = NAMES.filter((_, i) => state & (1 << i)).join("+") || "nothing";
      moves.forEach((move, i) =>
        setRef(origin, move.ref, state & (1 << i) ? complete[i]! : move.before)
      );
      const rescuer = makeAgent(origin, { env: SHORT });
      const lander = await run(rescuer, ["land"]);
      assert.equal(lander.status, 0, `moved: ${moved}: ${lander.stderr}`);
      const result = await runJson(rescuer, ["wait", String(ticket)]);
      assert.deepEqual(
        [result.outcome, result.landed],
        ["landed", landedCommit],
        `moved: ${moved}`,
      );
      assert.equal(tipOf(origin), landedCommit, `moved: ${moved}`);
      assert.equal(results(origin).length, ticket + 1, `moved: ${moved}`);
      if (state & 0b010) {
        assert.equal(refOf(origin, moves[1]!.ref), complete[1], "the recorded result stands");
      }
      const next = makeAgent(origin, { env: SHORT });
      agentCommit(next, { [`after-${state}.txt`]: "x\n" });
      const after = await runJson(next, ["submit", "--verify-cmd", verifyCommand(origin)]);
      assert.equal(after.outcome, "landed", `moved: ${moved}`);
      assert.equal(git(origin.dir, "show", "main:b.txt"), "b", `moved: ${moved}`);
      checkHalf(origin);
      // Back to one ticket more than before: forget what came after.
      const queue = readChain(origin, "queue");
      setRef(origin, chainRef(origin, "queue"), queue[ticket + 1]!.oid);
    }
  });
}

/** The laws, without the log of moves: the refs were rewritten behind the hooks' back. */
function checkHalf(origin: TestOrigin): void {
  const twin = { ...origin, movesLog: `${origin.movesLog}.none` };
  checkLaws(twin, { killed: true });
}

for (
  const lock of ["no lock", "a lock that was given back", "a lock of another program that is gone"]
) {
  overBoth(
    `a branch at the ticket's fast-forward, made by hand, behind ${lock}: it has landed`,
    async (make) => {
      const origin = make();
      const agent = makeAgent(origin);
      if (lock !== "no lock") {
        agentCommit(agent, { "a.txt": "a\n" });
        assert.equal((await runJson(agent, ["submit"])).outcome, "landed");
      }
      const before = tipOf(origin);
      const candidate = agentCommit(agent, { "b.txt": "b\n" });
      const { ticket } = await runJson(agent, ["submit", "--no-wait", "--verify-cmd", "false"]);
      if (lock.endsWith("gone")) {
        const ref = chainRef(origin, "lock");
        const tree = git(origin.dir, "mktree", "--missing");
        const message = JSON.stringify({ kind: "lock", holder: "w-1-x", by: "w-1-x", at: 1 });
        const entry = git(
          origin.dir,
          "commit-tree",
          tree,
          "-p",
          refOf(origin, ref)!,
          "-m",
          message,
        );
        git(origin.dir, "update-ref", ref, entry);
      }
      git(origin.dir, "update-ref", "refs/heads/main", candidate, before);
      assert.equal((await run(agent, ["land"], { env: SHORT })).status, 0);
      const result = results(origin).at(-1)!;
      assert.deepEqual(
        [result.ticket, result.reason, result.landed, result.tip],
        [ticket, "landed", candidate, before],
      );
    },
  );
}

overBoth(
  "a ticket that was cancelled before its branch was moved by hand stays so",
  async (make) => {
    const origin = make();
    const agent = makeAgent(origin);
    const candidate = agentCommit(agent, { "b.txt": "b\n" });
    const { ticket } = await runJson(agent, ["submit", "--no-wait"]);
    await runJson(agent, ["cancel", String(ticket)]);
    git(origin.dir, "update-ref", "refs/heads/main", candidate);
    await run(agent, ["land"]);
    assert.deepEqual(results(origin).map(({ reason }) => reason), ["cancelled"]);
  },
);
