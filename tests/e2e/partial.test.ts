/**
 * Partial clones made by real git: what a merge, a checkout or a merge left in progress needs is fetched
 * from the origin, and the landing is the same as anywhere else.
 */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { git, tempDir, tryGit } from "../helpers/git.ts";
import { startSshd } from "../helpers/git-servers.ts";
import { type Agent, agentCommit, makeAgent, run, runJson } from "./harness/agent.ts";
import { results } from "./harness/chains.ts";
import { checkLaws } from "./harness/laws.ts";
import {
  makeOrigin,
  pushOutside,
  SHARED_FILE,
  type TestOrigin,
  tipOf,
  verifyCommand,
} from "./harness/origin.ts";
import { scenario } from "./harness/scenario.ts";
import { type MakeOrigin, overBoth } from "./harness/transports.ts";

/** Agents have no ssh on their PATH. */
const SSH = "/usr/bin/ssh";
/** Files that only a checkout needs. */
const MANY = 300;

function makeFilteringOrigin(make: MakeOrigin): TestOrigin {
  const files: Record<string, string> = { "shared.txt": SHARED_FILE, README: "hello\n" };
  for (let i = 0; i < MANY; i++) files[`many/${i % 7}/${i}`] = `${i}\n`;
  return make({
    files,
    config: { "uploadpack.allowFilter": "true", "uploadpack.allowAnySHA1InWant": "true" },
  });
}

const partial = (origin: TestOrigin, ...more: string[]) =>
  makeAgent(origin, { clone: ["--filter=blob:none", ...more] });

const edited = (line: number, text: string) => SHARED_FILE.replace(`line ${line}\n`, `${text}\n`);

/** Objects that the clone was promised and doesn't have, without fetching any. */
function missing(agent: Agent): string[] {
  return git(agent.dir, "rev-list", "--objects", "--all", "--missing=print").split("\n")
    .filter((line) => line.startsWith("?"));
}

overBoth("a partial clone lands a full clone's old work, with a check", async (make) => {
  const origin = makeFilteringOrigin(make);
  const old = makeAgent(origin);
  agentCommit(old, { "shared.txt": edited(3, "old") });
  const history = [10, 20, 30].map((line) =>
    pushOutside(origin, { "shared.txt": tipFile(origin).replace(`line ${line}\n`, `h${line}\n`) })
  );
  await runJson(old, ["submit", "--no-wait", "--verify-cmd", verifyCommand(origin)]);
  const lander = partial(origin, "--no-checkout");
  assert.ok(missing(lander).length > MANY);
  const before = packs(lander);
  assert.equal((await run(lander, ["land"])).status, 0);
  assert.equal(results(origin)[0]!.reason, "landed", results(origin)[0]!.report);
  const merged = edited(3, "old").replace("line 10\n", "h10\n").replace("line 20\n", "h20\n")
    .replace("line 30\n", "h30\n");
  assert.equal(git(origin.dir, "show", "main:shared.txt") + "\n", merged);
  // In a few requests, not one for each file.
  assert.ok(packs(lander) - before < 12, `${packs(lander) - before} packs`);
  assert.equal(tryGit(lander.dir, ["fsck", "--no-dangling"]).status, 0);
  checkLaws(origin, { outside: history });
});

overBoth("submit from a partial clone that the origin has left behind", async (make) => {
  const origin = makeFilteringOrigin(make);
  const early = pushOutside(origin, { "shared.txt": edited(40, "early") });
  const a = partial(origin);
  agentCommit(a, { "shared.txt": edited(40, "early").replace("line 5\n", "mine\n") });
  const outside = pushOutside(origin, {
    "shared.txt": edited(40, "early").replace("line 50\n", "theirs\n"),
    "many/0/0": "changed\n",
  });
  const before = missing(a);
  assert.ok(before.length > 0, "older blobs are missing");
  const result = await runJson(a, ["submit", "--verify-cmd", verifyCommand(origin)]);
  assert.equal(result.outcome, "landed", result.report);
  assert.deepEqual(missing(a).filter((oid) => !before.includes(oid)), []);
  checkLaws(origin, { outside: [early, outside] });
});

overBoth("a conflict is left in progress in a partial clone", async (make) => {
  const origin = makeFilteringOrigin(make);
  const a = partial(origin, "--sparse");
  agentCommit(a, { "shared.txt": edited(4, "mine") });
  // The base of the other file's merge isn't here, nor is what the origin has instead.
  const first = pushOutside(origin, { "many/0/7": "changed\n" });
  const second = pushOutside(origin, { "shared.txt": edited(4, "theirs") });
  const refused = await runJson(a, ["submit"], 1);
  assert.equal(refused.reason, "merge refused");
  assert.deepEqual(refused.files, ["shared.txt"]);
  assert.match(readFileSync(join(a.dir, "shared.txt"), "utf8"), /^<<<<<<< HEAD\nmine\n=======\n/m);
  assert.match(git(a.dir, "status", "--porcelain"), /^UU shared\.txt$/m);
  assert.equal(git(a.dir, "rev-parse", "MERGE_HEAD"), tipOf(origin));
  git(a.dir, "checkout", "-q", "--ours", "shared.txt");
  git(a.dir, "commit", "-q", "-am", "resolved");
  assert.equal((await runJson(a, ["submit", "--drop", "shared.txt"])).outcome, "landed");
  checkLaws(origin, { outside: [first, second] });
});

overBoth("merge-tree in a partial clone", async (make) => {
  const origin = makeFilteringOrigin(make);
  // Files of several lines that both sides will change, each in its own place.
  const both20 = (lines: (n: number) => string) =>
    Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`both/${n}`, lines(n)]));
  pushOutside(origin, both20((n) => `${n}\na\nb\nc\nd\ne\nf\n`));
  const left = pushOutside(origin, {
    "shared.txt": edited(7, "left"),
    ...both20((n) => `${n} left\na\nb\nc\nd\ne\nf\n`),
  });
  const a = partial(origin, "--no-checkout");
  const base = git(a.dir, "rev-parse", `${left}~1`);
  const side = git(
    a.dir,
    "commit-tree",
    git(a.dir, "rev-parse", `${base}^{tree}`),
    "-p",
    base,
    "-m",
    "nothing",
  );
  const merged = await runJson(a, ["merge-tree", left, side]);
  assert.equal(merged.tree, git(a.dir, "rev-parse", `${left}^{tree}`));
  const other = makeAgent(origin);
  git(other.dir, "checkout", "-q", "--detach", base);
  const right = agentCommit(other, {
    "shared.txt": edited(9, "right"),
    ...both20((n) => `${n}\na\nb\nc\nd\ne\nf right\n`),
  });
  git(other.dir, "push", "-q", origin.dir, `${right}:refs/heads/feat/right`);
  git(a.dir, "fetch", "-q", "--filter=blob:none", `file://${origin.dir}`, "feat/right");
  const before = packs(a);
  const both = await runJson(a, ["merge-tree", left, right]);
  assert.equal(both.clean, true);
  assert.ok(packs(a) - before <= 4, `${packs(a) - before} packs for 21 files`);
  const told = tryGit(a.dir, ["merge-tree", "--write-tree", left, right]);
  assert.equal(both.tree, told.stdout.trim());
});

function tipFile(origin: TestOrigin): string {
  return git(origin.dir, "show", "main:shared.txt") + "\n";
}

function packs(agent: Agent): number {
  return readdirSync(join(agent.dir, ".git/objects/pack")).filter((name) => name.endsWith(".pack"))
    .length;
}

/** What a filter leaves out of a clone, all of which a landing may need. */
const FILTERS = ["blob:none", "tree:0", "blob:limit=1k"];

for (const filter of FILTERS) {
  overBoth(`${filter}: submit, land others' work, leave a conflict`, async (make) => {
    const origin = makeFilteringOrigin(make);
    await landFrom(origin, filter);
  });
}

scenario("tree:0 over ssh", async () => {
  const sshd = await startSshd();
  try {
    const origin = makeFilteringOrigin(makeOrigin);
    origin.url = `ssh://${sshd.user}@127.0.0.1:${sshd.port}${origin.dir}`;
    const shared = `-o ControlMaster=auto -o ControlPath=${tempDir("aq-")}/c -o ControlPersist=30`;
    origin.cloneConfig["core.sshCommand"] = `${sshd.ssh} ${shared}`.replace(/^ssh/, SSH);
    await landFrom(origin, "tree:0");
  } finally {
    await sshd.stop();
  }
});

/** Real git checks out what a lazy clone has, without the url under test. */
function checkOut(agent: Agent, origin: TestOrigin, ...args: string[]): void {
  git(agent.dir, "config", "remote.origin.url", `file://${origin.dir}`);
  git(agent.dir, "checkout", "-q", ...args);
  git(agent.dir, "config", "remote.origin.url", origin.url);
}

/** One clone submits on top of others' work, lands an old ticket, and meets a conflict. */
async function landFrom(origin: TestOrigin, filter: string): Promise<void> {
  const verify = ["--verify-cmd", verifyCommand(origin)];
  const old = makeAgent(origin);
  agentCommit(old, { "shared.txt": edited(3, "old"), "many/1/1": "old\n" });
  const big = `${"large ".repeat(1000)}\n`;
  const outside = [
    pushOutside(origin, { "big/one": big, "many/2/2": "outside\n" }),
    pushOutside(origin, { "big/one": `${big}more\n`, "shared.txt": edited(40, "outside") }),
  ];
  const a = makeAgent(origin, { clone: [`--filter=${filter}`, "--no-checkout"] });
  assert.ok(missing(a).length > 0, "nothing is missing");
  checkOut(a, origin, "main");
  agentCommit(a, { "mine.txt": "mine\n" });
  await runJson(old, ["submit", "--no-wait", ...verify]);
  // Lands the old clone's work first: its base isn't in this clone.
  const result = await runJson(a, ["submit", ...verify]);
  assert.equal(result.outcome, "landed", result.report);
  assert.deepEqual(results(origin).map(({ reason }) => reason), ["landed", "landed"]);
  assert.equal(
    git(origin.dir, "show", "main:shared.txt") + "\n",
    edited(3, "old").replace("line 40\n", "outside\n"),
  );
  assert.equal(git(origin.dir, "show", "main:many/1/1"), "old");
  assert.equal(git(origin.dir, "show", "main:big/one") + "\n", `${big}more\n`);
  const check = tryGit(a.dir, ["fsck", "--no-dangling"]);
  assert.equal(check.status, 0, check.stdout + check.stderr);

  const theirs = pushOutside(origin, {
    "shared.txt": tipFile(origin).replace("line 20\n", "theirs\n"),
    "many/3/3": "theirs\n",
  });
  const b = makeAgent(origin, { clone: [`--filter=${filter}`, "--no-checkout"] });
  checkOut(b, origin, "--detach", `${theirs}~1`);
  agentCommit(b, {
    "shared.txt": git(b.dir, "show", "HEAD:shared.txt").replace("line 20\n", "b\n") + "\n",
  });
  const refused = await runJson(b, ["submit"], 1);
  assert.deepEqual([refused.reason, refused.files], ["merge refused", ["shared.txt"]]);
  assert.match(
    readFileSync(join(b.dir, "shared.txt"), "utf8"),
    /^<<<<<<< HEAD\nb\n=======\ntheirs\n/m,
  );
  assert.equal(readFileSync(join(b.dir, "many/3/3"), "utf8"), "theirs\n");
  assert.equal(git(b.dir, "rev-parse", "MERGE_HEAD"), theirs);
  checkLaws(origin, { outside: [...outside, theirs] });
}
