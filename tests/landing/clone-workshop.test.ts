/** The workshop on real repositories: what it merges, refuses, runs, and that two of them agree. */
import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Buffer } from "node:buffer";
import process from "node:process";
import { describe, test } from "node:test";
import { isAgentqError } from "../../src/errors.ts";
import { openOrigin } from "../../src/git/origin.ts";
import { openRepository } from "../../src/git/repository.ts";
import type { Oid } from "../../src/git/types.ts";
import type { TicketEntry } from "../../src/landing/chain.ts";
import {
  type CloneWorkshopOptions,
  createCloneWorkshop,
} from "../../src/landing/clone-workshop.ts";
import { landingRepository } from "../../src/landing/landing-repository.ts";
import type { Ticket } from "../../src/landing/messages.ts";
import { readPins } from "../../src/landing/pins.ts";
import type { Left, ReadyMerge, Refusal, Verified } from "../../src/landing/workshop.ts";
import { commit, git, makeRepo, tempDir, tryGit } from "../helpers/git.ts";

const signal = new AbortController().signal;
const FILE = Array.from({ length: 30 }, (_, i) => `line ${i}`).join("\n") + "\n";

/** A bare origin at `base`, a clone with `candidate` on top, and a tip that others moved on to. */
function setting(files: Record<string, string> = {}) {
  const seed = makeRepo();
  const base = commit(seed, "base", { "file.txt": FILE, ...files });
  const origin = join(tempDir(), "origin.git");
  git("/", "clone", "-q", "--bare", seed, origin);
  const clone = join(tempDir(), "clone");
  git("/", "clone", "-q", origin, clone);
  return { seed, base, origin, clone };
}

function ticketFor(candidate: Oid, change: Partial<Ticket> = {}, ours: object = {}): TicketEntry {
  return {
    oid: "a".repeat(40),
    parents: ["b".repeat(40), candidate],
    seconds: 1_700_000_000,
    message: {
      kind: "ticket",
      ticket: 7,
      candidate,
      submitter: "s",
      verify_cmd: null,
      verify_timeout: 60,
      check: null,
      ...change,
      agentq: { v: 1, submission: "x", submittedAt: 1, title: "a title", ...ours },
    },
  };
}

async function workshopIn(
  dir: string,
  origin: string,
  options: Partial<CloneWorkshopOptions> = {},
) {
  const repository = openRepository(dir);
  return createCloneWorkshop(await openOrigin(origin, { repository }), repository, {
    noTicketCommands: false,
    ...options,
  });
}

/** Commits `files` in a second clone and pushes; gives the commit. */
function push(origin: string, files: Record<string, string>, ref: string, parent?: Oid): Oid {
  const dir = join(tempDir(), "pusher");
  git("/", "clone", "-q", origin, dir);
  if (parent) git(dir, "reset", "-q", "--hard", parent);
  const oid = commit(dir, `push ${Object.keys(files)}`, files);
  git(dir, "push", "-q", "-f", "origin", `HEAD:${ref}`);
  return oid;
}

describe("merging", () => {
  test("two machines make the same commit, whatever their clones say, and git agrees on the tree", async () => {
    const { origin, base, clone } = setting();
    const candidate = push(
      origin,
      { "file.txt": FILE.replace("line 3\n", "c\n") },
      "refs/heads/x",
      base,
    );
    const tip = push(
      origin,
      { "file.txt": FILE.replace("line 20\n", "t\n") },
      "refs/heads/main",
      base,
    );
    const other = join(tempDir(), "other");
    git("/", "clone", "-q", origin, other);
    git(other, "config", "merge.renames", "false");
    git(other, "config", "user.name", "Somebody");
    const ticket = ticketFor(candidate, {}, { title: "first\nsecond \x1b[31m" });
    const made: ReadyMerge[] = [];
    for (const dir of [clone, other]) {
      const merge = await (await workshopIn(dir, origin)).merge(ticket, tip, signal);
      assert.equal(merge.verdict, "ready");
      made.push(merge as ReadyMerge);
    }
    assert.equal(made[0]!.commit, made[1]!.commit);
    const content = Buffer.from(made[0]!.objects.read(made[0]!.commit).data).toString();
    assert.match(content, new RegExp(`^tree .*\nparent ${tip}\nparent ${candidate}\n`));
    assert.match(content, /\nauthor agentq <agentq@localhost> 1700000000 \+0000\n/);
    assert.match(content, /\n\nfirst second  ?\[31m\n\nAgentq-Ticket: 7\n/);
    const tree = git(other, "merge-tree", "--write-tree", tip, candidate);
    assert.equal(made[0]!.tree, tree);
  });

  test("the subject is the candidate's where the ticket has no title", async () => {
    const { origin, base, clone } = setting();
    const candidate = push(origin, { "c.txt": "c\n" }, "refs/heads/x", base);
    const tip = push(origin, { "t.txt": "t\n" }, "refs/heads/main", base);
    const workshop = await workshopIn(clone, origin);
    const merge = await workshop.merge(ticketFor(candidate, {}, { title: null }), tip, signal);
    const ready = merge as ReadyMerge;
    assert.match(Buffer.from(ready.objects.read(ready.commit).data).toString(), /\n\npush c.txt\n/);
  });

  test("fast-forward, nothing to land, a beginning, a conflict, unrelated histories", async () => {
    const { origin, base, clone } = setting();
    const ahead = push(
      origin,
      { "file.txt": FILE.replace("line 3\n", "a\n") },
      "refs/heads/x",
      base,
    );
    const tip = push(
      origin,
      { "file.txt": FILE.replace("line 3\n", "b\n") },
      "refs/heads/main",
      base,
    );
    const stranger = makeRepo();
    const unrelated = commit(stranger, "unrelated", { "u.txt": "u\n" });
    git(stranger, "push", "-q", origin, "HEAD:refs/heads/u");
    const workshop = await workshopIn(clone, origin);
    const merge = async (candidate: Oid, onto: Oid | null) =>
      await workshop.merge(ticketFor(candidate), onto, signal);
    assert.equal((await merge(ahead, base) as ReadyMerge).commit, ahead);
    assert.equal((await merge(ahead, null) as ReadyMerge).commit, ahead);
    assert.equal((await merge(base, tip) as Refusal).reason, "nothing to land");
    const conflict = await merge(ahead, tip) as Refusal;
    assert.deepEqual([conflict.reason, conflict.files], ["merge refused", ["file.txt"]]);
    assert.match(conflict.regions[0]!, /^file\.txt:\d+-\d+$/);
    assert.equal((await merge(unrelated, tip) as Refusal).reason, "merge refused");
    assert.equal(await workshop.contains(tip, base, signal), true);
    assert.equal(await workshop.contains(tip, ahead, signal), false);
    assert.deepEqual(await workshop.parents(tip, signal), [base]);
  });

  test("an agentq.json that nobody could obey doesn't get onto the branch", async () => {
    const { origin, base, clone } = setting();
    const bad = push(origin, { "agentq.json": "{oops" }, "refs/heads/x", base);
    const workshop = await workshopIn(clone, origin);
    const refused = await workshop.merge(ticketFor(bad), base, signal) as Refusal;
    assert.deepEqual([refused.reason, refused.files], ["land failed", ["agentq.json"]]);
  });
});

describe("admission", () => {
  const admit = async (pins: string, ticket: Partial<Ticket>, options = {}) => {
    const { origin, base, clone } = setting({ "agentq.json": pins });
    const workshop = await workshopIn(clone, origin, options);
    return await workshop.admit(ticketFor(base, ticket), base, signal);
  };

  test("the branch may refuse tickets' own commands, but not its own ones", async () => {
    const pins = JSON.stringify({ verify: ["make check"], ticketCommands: "refuse" });
    const refused = await admit(pins, { verify_cmd: "rm -rf /" }) as Refusal;
    assert.equal(refused.reason, "ticket command not allowed");
    assert.equal(await admit(pins, { verify_cmd: "make check" }), null);
    assert.equal(await admit(pins, { verify_cmd: null }), null);
  });

  test("a lander without ticket commands leaves such tickets to others", async () => {
    const left = await admit("{}", { verify_cmd: "true" }, { noTicketCommands: true });
    assert.equal(left?.verdict, "left");
    assert.equal(await admit("{}", { verify_cmd: null }, { noTicketCommands: true }), null);
  });

  test("a machine without the branch's sandbox leaves what has checks to others", async () => {
    const pins = JSON.stringify({ sandbox: ["no-such-sandbox", "--flag"] });
    const left = await admit(pins, { verify_cmd: "true" });
    assert.equal(left?.verdict, "left");
    assert.match((left as Left).why, /there is no program no-such-sandbox here/);
    assert.equal(await admit(pins, { verify_cmd: null }), null);
    const here = JSON.stringify({ sandbox: ["env"] });
    assert.equal(await admit(here, { verify_cmd: "true" }), null);
  });

  test("checks that can't be made are never passed over", async () => {
    assert.equal((await admit("{}", { check: "sem" }) as Refusal).reason, "sem not installed");
    assert.equal((await admit("{}", { check: "other" }) as Refusal).reason, "land failed");
  });

  test("pins that can't be read stop everything, by name", async () => {
    for (const pins of ["[]", "{oops", '{"verify":[1]}', '{"sandbox":[]}', '{"verifyTimeout":0}']) {
      await assert.rejects(admit(pins, {}), (error) => isAgentqError(error, "pins-invalid"));
    }
    for (
      const [pins, said] of [
        ['{"verify":3}', '"verify" is 3, which is no command and no list of commands'],
        ['{"verifyTimeout":"5m"}', '"verifyTimeout" is "5m", which is not a number of seconds'],
        ['{"ticketCommands":"no"}', 'which is neither "run" nor "refuse"'],
        ['{"sandbox":"bwrap"}', '"sandbox" is "bwrap", which is not a list of words'],
        ['{"verfy":["false"]}', 'has no setting "verfy"; did you mean "verify"?'],
        ['{"verify_timeout":5}', 'has no setting "verify_timeout"; did you mean "verifyTimeout"?'],
      ] as const
    ) {
      await assert.rejects(admit(pins, {}), (error: Error) => error.message.includes(said));
    }
  });

  test("pins are read from a file only", () => {
    const dir = makeRepo();
    commit(dir, "directory", { "agentq.json/x": "{}" });
    const { objects } = openRepository(dir);
    assert.throws(
      () => readPins(objects, git(dir, "rev-parse", "HEAD^{tree}")),
      (error) => isAgentqError(error, "pins-invalid"),
    );
  });
});

describe("a report for the submitter", () => {
  async function reportOf(branch: Record<string, string>, work: Record<string, string>) {
    const { origin, base, clone } = setting({ "gone.txt": FILE, "blob.bin": "\0base" });
    const tip = push(origin, branch, "refs/heads/main");
    git(clone, "rm", "-q", "gone.txt");
    const candidate = commit(clone, "mine", work);
    git(clone, "push", "-q", "origin", `${candidate}:refs/heads/x`);
    const workshop = await workshopIn(clone, origin);
    const made = await workshop.merge(ticketFor(candidate), tip, signal);
    return { base, tip, candidate, refusal: made as Refusal };
  }

  test("speaks of the branch and the candidate, whatever kind of conflict it is", async () => {
    const { tip, candidate, refusal } = await reportOf({
      "file.txt": FILE.replace("line 3", "branch"),
      "gone.txt": FILE.replace("line 3", "still wanted"),
      "blob.bin": "\0branch",
      "place": "a file\n",
    }, {
      "file.txt": FILE.replace("line 3", "mine"),
      "blob.bin": "\0mine",
      "place/file": "in a directory\n",
    });
    assert.equal(refusal.reason, "merge refused");
    assert.deepEqual(refusal.files, ["blob.bin", "file.txt", "gone.txt", "place~branch"]);
    const { report } = refusal;
    assert.doesNotMatch(report, /\b(ours|theirs)\b/i);
    assert.match(report, /gone\.txt deleted in candidate and modified in branch/);
    assert.match(report, /blob\.bin \(branch vs\. candidate\)/);
    assert.match(
      report,
      new RegExp(`the candidate ${candidate.slice(0, 12)} into the branch, .* ${tip.slice(0, 12)}`),
    );
  });

  test("says which side an unrelated history is", async () => {
    const { origin, base, clone } = setting();
    git(clone, "checkout", "-q", "--orphan", "alone");
    const candidate = commit(clone, "alone", { "file.txt": "alone\n" });
    git(clone, "push", "-q", "origin", `${candidate}:refs/heads/x`);
    const workshop = await workshopIn(clone, origin);
    const made = await workshop.merge(ticketFor(candidate), base, signal) as Refusal;
    assert.equal(made.reason, "merge refused");
    assert.match(
      made.report,
      new RegExp(`^The branch, at ${base}, and the candidate ${candidate}`),
    );
  });
});

describe("verifying", () => {
  async function verify(pins: string, command: string | null, change: Partial<Ticket> = {}) {
    const { origin, base, clone } = setting({ "agentq.json": pins });
    const candidate = push(origin, { "c.txt": "c\n" }, "refs/heads/x", base);
    const workshop = await workshopIn(clone, origin);
    const ticket = ticketFor(candidate, { verify_cmd: command, ...change });
    const merge = await workshop.merge(ticket, base, signal) as ReadyMerge;
    let begun = 0;
    const result = await workshop.verify(ticket, base, merge, signal, () => begun++);
    return { clone, base, candidate, result, begun };
  }

  test("runs in a worktree of exactly the commit, told what it checks", async () => {
    const command = "cat c.txt; pwd; echo $AGENTQ_TICKET $AGENTQ_CANDIDATE $AGENTQ_TIP; " +
      "echo $WEAVE_QUEUE_TICKET $WEAVE_QUEUE_CANDIDATE $AGENTQ_REPO ${GIT_PREFIX-unset}; " +
      "git rev-parse HEAD; git status --porcelain";
    process.env.GIT_PREFIX = "elsewhere/";
    try {
      const { result, base, candidate, clone } = await verify("{}", command);
      assert.equal(result.verdict, "verified");
      const lines = result.report.split("\n");
      assert.deepEqual(lines.filter((_, i) => i !== 1), [
        "c",
        `7 ${candidate} ${base}`,
        `7 ${candidate} ${clone} unset`,
        candidate,
      ]);
      assert.notEqual(lines[1], clone);
    } finally {
      delete process.env.GIT_PREFIX;
    }
  });

  test("pinned checks come first, in the sandbox, and the ticket's can't replace them", async () => {
    const pins = JSON.stringify({
      verify: ["echo pinned-$BOX; test ! -e stop"],
      sandbox: ["env", "BOX=boxed"],
    });
    const log = join(tempDir(), "log");
    const ok = await verify(pins, `echo own-$BOX >${log}; echo own`);
    assert.deepEqual([ok.result.verdict, ok.begun], ["verified", 1]);
    assert.equal((ok.result as Verified).report, "pinned-boxed\nown");
    assert.equal(readFileSync(log, "utf8"), "own-boxed\n");
    const failing = JSON.stringify({ verify: "echo pinned; exit 4" });
    const refused = await verify(failing, `touch ${log}.not`);
    assert.equal((refused.result as Refusal).reason, "verify command failed");
    assert.match((refused.result as Refusal).report, /pinned[^]*exited 4/);
    assert.equal((refused.result as Refusal).verify?.exit, 4);
    assert.equal(existsSync(`${log}.not`), false);
  });

  test("a report has the last 200 lines of all checks, and what failed", async () => {
    const lines = (from: number, to: number) =>
      `i=${from}; while [ $i -lt ${to} ]; do echo $i; i=$((i+1)); done`;
    const pins = JSON.stringify({ verify: [lines(0, 150), lines(150, 250)] });
    const { result } = await verify(pins, `${lines(250, 300)}; exit 3`);
    const report = (result as Refusal).report.split("\n");
    assert.deepEqual(report.slice(0, -1), Array.from({ length: 200 }, (_, i) => `${100 + i}`));
    assert.match(report.at(-1)!, /^the verify command exited 3: /);
  });

  test("a timeout is a reason of its own", async () => {
    const { result } = await verify("{}", "echo begun; sleep 600", { verify_timeout: 0.2 });
    assert.equal((result as Refusal).reason, "verify timed out");
    assert.match((result as Refusal).report, /begun/);
  });

  test("a sandbox that isn't installed says nothing about the ticket", async () => {
    const pins = JSON.stringify({ verify: "true", sandbox: ["no-such-sandbox"] });
    const { result } = await verify(pins, null);
    assert.equal(result.verdict, "left");
    assert.match((result as Left).why, /sandbox .*no-such-sandbox/);
  });

  test("a sandbox that doesn't work is told apart from a check that fails", async () => {
    const broken = join(tempDir(), "broken");
    writeFileSync(broken, "#!/bin/sh\necho no namespaces here >&2; exit 1\n", { mode: 0o755 });
    await assert.rejects(
      verify(JSON.stringify({ sandbox: [broken] }), "true"),
      (e) => isAgentqError(e, "sandbox-failed") && /exits 1 .*no namespaces here/.test(e.message),
    );
    const works = await verify(JSON.stringify({ sandbox: ["env", "A=1"] }), "exit $((A + 2))");
    assert.equal((works.result as Refusal).verify?.exit, 3);
  });

  test("nothing to run is nothing to check out", async () => {
    const { result, begun, clone } = await verify("{}", null);
    assert.deepEqual(result, { verdict: "verified", report: "", verify: null });
    assert.equal(begun, 0);
    assert.equal(existsSync(join(clone, ".git/agentq")), false);
  });
});

describe("the repository to work in", () => {
  test("is the clone, unless its history is cut off; then one of our own, made once", async () => {
    const { origin, clone } = setting();
    assert.equal(
      landingRepository(openRepository(clone), "/nowhere").commonDir,
      join(clone, ".git"),
    );
    const shallow = join(tempDir(), "shallow");
    push(origin, { "n.txt": "n\n" }, "refs/heads/main");
    git("/", "clone", "-q", "--depth", "1", `file://${origin}`, shallow);
    const own = join(tempDir(), "below", "own.git");
    const first = landingRepository(openRepository(shallow), own);
    assert.equal(first.bare, true);
    assert.equal(tryGit(own, ["fsck"]).status, 0);
    assert.equal(landingRepository(null, own).gitDir, first.gitDir);
  });
});

describe("a tree that harms whoever checks it out", () => {
  test("is refused though nothing checks it; what the branch has already stops nobody", async () => {
    const { origin, base, clone } = setting();
    const dir = join(tempDir(), "evil");
    git("/", "clone", "-q", origin, dir);
    const blob = git(dir, "hash-object", "-w", "file.txt");
    const raw = (entries: string[]) => {
      const input = Buffer.concat(
        entries.map((name) =>
          Buffer.concat([Buffer.from(`100644 ${name}\0`), Buffer.from(blob, "hex")])
        ),
      );
      const made = tryGit(dir, ["hash-object", "-t", "tree", "-w", "--stdin", "--literally"], {
        input,
      });
      assert.equal(made.status, 0, made.stderr);
      return made.stdout.trim();
    };
    const commitTree = (tree: string, parent: string) =>
      git(dir, "commit-tree", "-p", parent, "-m", "x", tree);
    const evil = commitTree(raw([".git", "file.txt"]), base);
    git(dir, "push", "-q", "origin", `${evil}:refs/heads/evil`);
    const double = commitTree(raw(["file.txt", "file.txt"]), base);
    git(dir, "push", "-q", "origin", `${double}:refs/heads/double`);
    const after = commitTree(raw([".git", "file.txt", "more.txt"]), evil);
    git(dir, "push", "-q", "origin", `${after}:refs/heads/after`);
    const workshop = await workshopIn(clone, origin);
    const land = async (candidate: Oid, tip: Oid | null) =>
      await workshop.merge(ticketFor(candidate), tip, signal);
    for (const tip of [base, null]) {
      const refused = await land(evil, tip) as Refusal;
      assert.deepEqual([refused.reason, refused.files], ["land failed", [".git"]]);
    }
    assert.deepEqual((await land(double, base) as Refusal).files, ["file.txt"]);
    assert.equal((await land(after, evil)).verdict, "ready");
  });
});
