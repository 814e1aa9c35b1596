/** What this machine keeps or couldn't push: by whom it is delivered, as what, and what is said when it isn't. */
import assert from "node:assert/strict";
import { chmodSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { git, tempDir } from "../helpers/git.ts";
import { type Agent, agentCommit, makeAgent, run, runJson } from "./harness/agent.ts";
import { away } from "./harness/keeping.ts";
import { makeOrigin } from "./harness/origin.ts";
import { scenario } from "./harness/scenario.ts";

/** An origin that takes nothing until the function is called. */
function closed(origin: { dir: string }): () => void {
  const hook = join(origin.dir, "hooks", "pre-receive");
  writeFileSync(hook, "#!/bin/sh\necho maintenance >&2\nexit 1\n");
  chmodSync(hook, 0o755);
  return () => rmSync(hook);
}

const submissionsOf = async (agent: Agent) =>
  (await runJson(agent, ["status"])).submissions.map((
    one: Record<string, unknown>,
  ) => [one.ticket, one.state]);

scenario("a commit kept twice lands by the flags of the last time", async () => {
  const origin = makeOrigin();
  const agent = makeAgent(origin);
  agentCommit(agent, { "a.txt": "a\n" });
  const back = away(origin);
  const keep = ["submit", "--no-wait", "--offline"];
  assert.equal((await runJson(agent, keep)).reason, "offline");
  assert.equal((await runJson(agent, [...keep, "--verify-cmd", "false"])).reason, "offline");
  back();
  const { delivered } = await runJson(agent, ["flush"]);
  assert.equal(delivered.length, 1);
  const result = await runJson(agent, ["wait", "0"], 1);
  assert.equal(result.reason, "verify command failed");
});

scenario("--offline without --no-wait keeps it too, and says that it isn't landed", async () => {
  const origin = makeOrigin();
  const agent = makeAgent(origin);
  agentCommit(agent, { "a.txt": "a\n" });
  const back = away(origin);
  const { outcome, reason } = await runJson(agent, ["submit", "--offline"], 3);
  assert.deepEqual([outcome, reason], ["queued", "offline"]);
  back();
  assert.equal((await runJson(agent, ["submit"])).outcome, "landed");
});

scenario(
  "what queue dequeue took of it is delivered once it is given back, or its lease is over",
  async () => {
    const origin = makeOrigin();
    const agent = makeAgent(origin);
    const dequeue = async (...flags: string[]) => {
      const store = `store:${join(agent.state, "submissions")}`;
      const words = ["queue", "dequeue", "submissions", "--backend", store, ...flags];
      const { status, stdout, stderr } = await run(agent, words);
      assert.equal(status, 0, stderr);
      assert.notEqual(stdout, "{}\n", "it took one");
    };
    const keep = async (file: string) => {
      agentCommit(agent, { [file]: "a\n" });
      const back = away(origin);
      assert.equal((await runJson(agent, ["submit", "--no-wait", "--offline"])).reason, "offline");
      back();
    };
    await keep("a.txt");
    await dequeue();
    const { delivered, kept } = await runJson(agent, ["flush"], 2);
    assert.deepEqual(delivered, []);
    assert.equal(kept[0].error.code, "submission-busy");
    assert.match(kept[0].error.message, /queue dequeue/);
    const drop = await runJson(agent, ["flush", "--drop", kept[0].submission], 2);
    assert.equal(drop.error.hint, kept[0].error.hint);
    // Nobody waits for a lease that lasts longer than a submission waits.
    for (const flags of [[], ["--offline"]]) {
      const refused = await runJson(agent, ["submit", "--no-wait", ...flags], 2);
      assert.equal(refused.error.code, "submission-busy");
      assert.ok(refused.error.message.includes(kept[0].candidate), refused.error.message);
      assert.ok(refused.error.details.leaseLeftMs > 30_000);
    }
    // The command that it names, to the letter.
    const advised = /^Give it back: agentq (queue requeue .*); or try again in \d+ s/
      .exec(kept[0].error.hint)?.[1];
    assert.ok(advised, kept[0].error.hint);
    const words = advised.split(" ").map((word) => word.replaceAll("'", ""));
    assert.equal((await run(agent, words)).status, 0, advised);
    assert.equal((await runJson(agent, ["flush"])).delivered.length, 1);

    await keep("b.txt");
    await dequeue("--lease", "0.001");
    assert.equal((await runJson(agent, ["flush"])).delivered.length, 1);
  },
);

/** Takes the origin away while it is pushed to; gives the function that brings it back. */
function goesAwayInPush(origin: { dir: string }): () => void {
  const hook = join(origin.dir, "hooks", "pre-receive");
  const usual = readFileSync(hook);
  writeFileSync(hook, `#!/bin/sh\nmv '${origin.dir}' '${origin.dir}.away'\n`);
  return () => {
    renameSync(`${origin.dir}.away`, origin.dir);
    writeFileSync(hook, usual);
  };
}

for (
  const [flags, code] of [[["--no-wait"], 0], [[], 3], [["--no-wait", "--again"], 0]] as const
) {
  scenario(
    `an origin that goes away in the push is as one that was away: submit --offline ${
      flags.join(" ")
    }`,
    async () => {
      const origin = makeOrigin();
      const agent = makeAgent(origin);
      const candidate = agentCommit(agent, { "a.txt": "a\n" });
      const back = goesAwayInPush(origin);
      const { outcome, reason, ticket } = await runJson(
        agent,
        ["submit", "--offline", ...flags],
        code,
      );
      assert.deepEqual([outcome, reason, ticket], ["queued", "offline", null]);
      back();
      assert.deepEqual(await submissionsOf(agent), [[null, "offline"]]);
      const landed = await runJson(agent, ["land"]);
      assert.deepEqual([landed.ticket, landed.landed], [0, candidate]);
      assert.equal((await runJson(agent, ["submit"])).ticket, 0);
      assert.deepEqual(await submissionsOf(agent), []);
    },
  );
}

scenario(
  "without --offline an origin that goes away in the push leaves a record, and the error names it",
  async () => {
    const origin = makeOrigin();
    const agent = makeAgent(origin);
    const candidate = agentCommit(agent, { "a.txt": "a\n" });
    const back = goesAwayInPush(origin);
    const { error } = await runJson(agent, ["submit", "--no-wait"], 2);
    back();
    assert.equal(error.code, "origin-unreachable");
    const [recorded] = (await runJson(agent, ["status"])).submissions;
    assert.deepEqual([recorded.submission, recorded.state], [error.details.submission, "recorded"]);
    assert.match(error.hint, new RegExp(`${recorded.submission} is recorded .* agentq flush`));
    // Once more, as a run that finds it.
    const again = goesAwayInPush(origin);
    const second = await runJson(agent, ["submit", "--no-wait"], 2);
    assert.equal(second.error.details.submission, recorded.submission);
    // Found and asked for with --offline, it is kept from then on.
    assert.equal((await runJson(agent, ["submit", "--no-wait", "--offline"])).reason, "offline");
    again();
    const [delivered] = (await runJson(agent, ["flush"])).delivered;
    assert.deepEqual([delivered.ticket, delivered.candidate], [0, candidate]);
  },
);

scenario("a delivery that failed is said, and the next land makes it and lands it", async () => {
  const origin = makeOrigin();
  const agent = makeAgent(origin);
  const candidate = agentCommit(agent, { "a.txt": "a\n" });
  const back = away(origin);
  await runJson(agent, ["submit", "--no-wait", "--offline"]);
  back();
  const open = closed(origin);
  const failed = await run(agent, ["land"]);
  assert.equal(failed.status, 0);
  assert.match(failed.stderr, /warning: .* can't be delivered and stays: .*maintenance/);
  const { kept } = await runJson(agent, ["land"]);
  assert.deepEqual([kept[0].candidate, kept[0].error.code], [candidate, "push-refused"]);
  assert.deepEqual(await submissionsOf(agent), [[null, "offline"]]);
  open();
  const landed = await runJson(agent, ["land"]);
  assert.deepEqual([landed.ticket, landed.landed], [0, candidate]);
});

scenario("a ticket that stays as it is is told as a warning", async () => {
  const agent = makeAgent(makeOrigin());
  agentCommit(agent, { "a.txt": "a\n" });
  await runJson(agent, ["submit", "--no-wait"]);
  const again = await runJson(agent, ["submit", "--no-wait", "--verify-cmd", "false"]);
  assert.equal(again.warnings.length, 1);
  assert.match(again.warnings[0], /ticket 0 was submitted without this --verify-cmd/);
});

scenario("a kept submission is taken back by its id; one with a ticket isn't", async () => {
  const origin = makeOrigin();
  const agent = makeAgent(origin);
  agentCommit(agent, { "a.txt": "a\n" });
  const ids = async () =>
    (await runJson(agent, ["status"])).submissions.map((one: Record<string, unknown>) =>
      String(one.submission)
    );
  const back = away(origin);
  const keep = ["submit", "--no-wait", "--offline"];
  await runJson(agent, keep);
  back();
  const [kept] = await ids();
  assert.deepEqual((await runJson(agent, ["flush", "--drop", kept!])).dropped, [kept]);
  assert.deepEqual((await runJson(agent, ["flush"])).delivered, []);
  assert.equal((await runJson(agent, ["flush", "--drop", kept!], 64)).error.code, "usage");
  // One whose delivery was tried, and one that has a ticket.
  const again = away(origin);
  await runJson(agent, keep);
  again();
  const open = closed(origin);
  await run(agent, ["flush"]);
  open();
  const [tried] = await ids();
  assert.deepEqual((await runJson(agent, ["flush", "--drop", tried!])).dropped, [tried]);
  await runJson(agent, ["submit", "--no-wait"]);
  const [queued] = await ids();
  const { error } = await runJson(agent, ["flush", "--drop", queued!], 2);
  assert.equal(error.code, "submission-busy");
  assert.deepEqual(await submissionsOf(agent), [[0, "queued"]]);
});

scenario("what is kept for one branch goes to no other, each with its own flags", async () => {
  const origin = makeOrigin();
  const agent = makeAgent(origin);
  const candidate = agentCommit(agent, { "a.txt": "a\n" });
  git(origin.dir, "branch", "rel", "main");
  git(agent.dir, "fetch", "-q");
  const back = away(origin);
  const keep = ["submit", "--no-wait", "--offline"];
  await runJson(agent, [...keep, "--verify-cmd", "false"]);
  await runJson(agent, [...keep, "--branch", "rel", "--verify-cmd", "true"]);
  back();
  // Who works on the one delivers nothing of the other.
  await run(agent, ["land", "--branch", "rel"]);
  const rel = await runJson(agent, ["status", "--branch", "rel"]);
  assert.deepEqual(rel.tickets.map((one: { candidate: string }) => one.candidate), [candidate]);
  assert.equal((await runJson(agent, ["status"])).unacked, 0);
  assert.equal((await runJson(agent, ["flush"])).delivered.length, 1);
  assert.equal((await runJson(agent, ["wait", "0"], 1)).reason, "verify command failed");
});

scenario("a commit that has a ticket is not kept beside it", async () => {
  const origin = makeOrigin();
  const agent = makeAgent(origin);
  agentCommit(agent, { "a.txt": "a\n" });
  await runJson(agent, ["submit", "--no-wait"]);
  const back = away(origin);
  const known = await runJson(agent, ["submit", "--no-wait", "--offline"]);
  assert.deepEqual([known.ticket, known.outcome], [0, "queued"]);
  back();
  assert.deepEqual((await runJson(agent, ["flush"])).delivered, []);
  assert.equal((await runJson(agent, ["status"])).next, 0);
  assert.equal((await runJson(agent, ["status"])).unacked, 1);
});

for (const spelled of ["plain", "relative", "slash", "dot", "double", "file", "link"]) {
  scenario(`what is kept for a path is delivered however that is spelled: ${spelled}`, async () => {
    const origin = makeOrigin();
    const agent = makeAgent(origin);
    const path = origin.dir;
    const url = {
      plain: path,
      relative: relative(agent.dir, path),
      slash: `${path}/`,
      dot: join(path, "..").concat("/./", path.split("/").at(-1)!),
      file: `file://${path}`,
      link: join(tempDir(), "link.git"),
      double: path.replace(/\/([^/]*)$/, "//$1"),
    }[spelled]!;
    if (spelled === "link") symlinkSync(path, url);
    git(agent.dir, "remote", "set-url", "origin", url);
    agentCommit(agent, { "a.txt": "a\n" });
    const back = away(origin);
    await runJson(agent, ["submit", "--no-wait", "--offline"]);
    back();
    assert.equal((await runJson(agent, ["flush"])).delivered.length, 1);
    // By its other name it is the same queue, with the same ticket.
    git(agent.dir, "remote", "set-url", "origin", path);
    agentCommit(agent, { "b.txt": "b\n" });
    const once = away(origin);
    await runJson(agent, ["submit", "--no-wait", "--offline"]);
    once();
    git(agent.dir, "remote", "set-url", "origin", url);
    assert.equal((await runJson(agent, ["flush"])).delivered.length, 1);
    git(agent.dir, "checkout", "-q", "HEAD^");
    assert.equal((await runJson(agent, ["submit", "--no-wait"])).ticket, 0);
    assert.equal((await runJson(agent, ["status"])).unacked, 2);
  });
}

scenario("kept for the origin's HEAD, and submitted by the branch's name: one ticket", async () => {
  const origin = makeOrigin();
  const agent = makeAgent(origin);
  git(agent.dir, "remote", "set-head", "origin", "-d");
  const candidate = agentCommit(agent, { "a.txt": "a\n" });
  const back = away(origin);
  await runJson(agent, ["submit", "--no-wait", "--offline"]);
  back();
  const named = ["submit", "--branch", "main", "--verify-cmd", "false"];
  const result = await runJson(agent, named, 1);
  assert.deepEqual([result.ticket, result.reason], [0, "verify command failed"]);
  assert.deepEqual((await runJson(agent, ["flush"])).delivered, []);
  const { next, submissions } = await runJson(agent, ["status"]);
  assert.deepEqual([next, submissions], [1, []]);
  assert.notEqual(git(origin.dir, "rev-parse", "main"), candidate);
});

scenario(
  "kept for a repository, and submitted to the same without its .git: one ticket",
  async () => {
    const origin = makeOrigin();
    const agent = makeAgent(origin);
    const at = join(tempDir(), "o.git");
    renameSync(origin.dir, at);
    const moved = { dir: at };
    git(agent.dir, "config", "remote.origin.url", at);
    agentCommit(agent, { "a.txt": "a\n" });
    const back = away(moved);
    await runJson(agent, ["submit", "--no-wait", "--offline"]);
    back();
    const other = ["submit", "--remote", at.replace(/\.git$/, ""), "--verify-cmd", "false"];
    const result = await runJson(agent, other, 1);
    assert.deepEqual([result.ticket, result.reason], [0, "verify command failed"]);
    assert.equal((await runJson(agent, ["status"])).next, 1);
  },
);

for (const again of [[], ["--again"]]) {
  scenario(
    `what was kept lands by the flags of a submit that follows${again.join("")}`,
    async () => {
      const origin = makeOrigin();
      const agent = makeAgent(origin);
      agentCommit(agent, { "a.txt": "a\n" });
      const back = away(origin);
      await runJson(agent, ["submit", "--no-wait", "--offline"]);
      back();
      const result = await runJson(agent, ["submit", "--verify-cmd", "false", ...again], 1);
      assert.deepEqual([result.ticket, result.reason], [0, "verify command failed"]);
      assert.deepEqual((await runJson(agent, ["flush"])).delivered, []);
      assert.equal((await runJson(agent, ["status"])).next, 1);
    },
  );
}
