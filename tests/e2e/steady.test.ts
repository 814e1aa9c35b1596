/** A lander that goes on and on: what it holds and what it leaves on the disk doesn't grow with what it lands. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { git, tryGit } from "../helpers/git.ts";
import { type Agent, makeAgent, run, start } from "./harness/agent.ts";
import { checkLaws } from "./harness/laws.ts";
import { makeOrigin, verifyCommand } from "./harness/origin.ts";
import { scenario } from "./harness/scenario.ts";

const TICKETS = 60;
/** Open besides packs: streams, event loops, this run's locks and the verification's pipes. */
const OTHER_DESCRIPTORS = 40;

scenario(
  "sixty tickets by one lander leave no descriptor, child, worktree or temporary file",
  async () => {
    const origin = makeOrigin();
    const a = makeAgent(origin);
    for (const candidate of candidates(a)) {
      const args = [
        "submit",
        "--no-wait",
        "--candidate",
        candidate,
        "--verify-cmd",
        verifyCommand(origin),
      ];
      const submitted = await run(a, args);
      assert.equal(submitted.status, 0, submitted.stderr);
    }
    const running = start(a, ["land", "--json"]);
    const descriptors: number[] = [];
    const children: number[] = [];
    running.child.stdout!.on("data", (chunk) => {
      if (!String(chunk).includes('"outcome"')) return;
      try {
        const proc = `/proc/${running.pid}`;
        const open = readdirSync(`${proc}/fd`).length;
        const packs = [join(a.dir, ".git"), origin.dir].map((dir) =>
          readdirSync(join(dir, "objects/pack")).filter((name) => name.endsWith(".pack")).length
        );
        // Each pack has two files. Those put together into one are closed at the next look, so that now
        // and then there are more.
        descriptors.push(open - 2 * (packs[0]! + packs[1]!));
        const below = readFileSync(`${proc}/task/${running.pid}/children`, "utf8").trim();
        children.push(below === "" ? 0 : below.split(" ").length);
      } catch {
        // It was over before it could be looked at.
      }
    });
    const ended = await running.done;
    assert.equal(ended.status, 0, ended.stderr);
    assert.equal(ended.stdout.match(/"outcome":"landed"/g)?.length, TICKETS);
    assert.ok(descriptors.length >= TICKETS / 2, `looked ${descriptors.length} times`);
    // One held for each ticket would be twenty more in the last third than in the first.
    const [first, last] = [descriptors.slice(0, TICKETS / 3), descriptors.slice(-TICKETS / 3)];
    assert.ok(median(last) < median(first) + 10, String(descriptors));
    assert.ok(median(last) < OTHER_DESCRIPTORS, String(descriptors));
    assert.ok(Math.max(...children) <= 1, String(children));
    assert.deepEqual(strays(a, origin.dir), []);
    const worktrees = readdirSync(join(a.dir, ".git/agentq/worktrees"));
    assert.deepEqual(worktrees.filter((name) => !name.endsWith(".beat")), ["verify"]);
    checkLaws(origin);
  },
);

const median = (values: readonly number[]) =>
  [...values].sort((a, b) => a - b)[values.length >> 1]!;

/** Commits on one base, each with a file of its own. */
function candidates(agent: Agent): string[] {
  const base = git(agent.dir, "rev-parse", "HEAD");
  let stream = "";
  for (let i = 0; i < TICKETS; i++) {
    stream += `commit refs/heads/work/${i}\ncommitter A <a@b> 1700000000 +0000\ndata 4\nwork\n` +
      `from ${base}\nM 100644 inline new/${i}\ndata 5\nwork\n\n`;
  }
  const made = tryGit(agent.dir, ["fast-import", "--quiet"], { input: stream });
  assert.equal(made.status, 0, made.stderr);
  return Array.from({ length: TICKETS }, (_, i) => git(agent.dir, "rev-parse", `work/${i}`));
}

/** What a run makes in passing and must take away: in the clone, its state and the origin. */
function strays(agent: Agent, origin: string): string[] {
  return [agent.dir, agent.state, origin].flatMap((top) =>
    (readdirSync(top, { recursive: true }) as string[])
      .filter((name) => /(^|\/)(tmp_|\.part-)|\.(lock|keep|tmp)$|incoming-/.test(name))
      .map((name) => join(top, name))
  );
}
