/** What a refused merge advises can be done as it says; and files that both added under one name can part. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { git, tryGit } from "../helpers/git.ts";
import { type Agent, agentCommit, makeAgent, runJson } from "./harness/agent.ts";
import { checkLaws } from "./harness/laws.ts";
import { makeOrigin, type TestOrigin } from "./harness/origin.ts";
import { scenario } from "./harness/scenario.ts";

/** Merges the branch, and commits what `settle` makes of it. */
function mergeBranch(origin: TestOrigin, b: Agent, settle: () => void): void {
  git(b.dir, "fetch", "-q", origin.dir, "main");
  tryGit(b.dir, ["merge", "-q", "--no-commit", "--no-ff", "FETCH_HEAD"]);
  settle();
  git(b.dir, "add", "-A");
  git(b.dir, "commit", "-q", "-m", "merge");
}

scenario("what brings lost files back is advised as a shell takes it", async () => {
  const origin = makeOrigin();
  const [a, b] = [makeAgent(origin), makeAgent(origin)];
  const names = [
    "a b.txt",
    "app/[id]/page.tsx",
    "app/(group)/p.tsx",
    "é.txt",
    "$x {y} %25",
    "it's~",
  ];
  agentCommit(a, Object.fromEntries(names.map((name) => [name, `of ${name}, some words\n`])));
  assert.equal((await runJson(a, ["submit"])).outcome, "landed");
  agentCommit(b, { "b.txt": "b\n" });
  mergeBranch(
    origin,
    b,
    () => void git(b.dir, "rm", "-qf", "--", ...names.map((n) => `:(literal)${n}`)),
  );
  const refused = await runJson(b, ["submit"], 1);
  assert.equal(refused.reason, "a merge on the branch was refused");
  assert.deepEqual([...refused.files].sort(), [...names].sort());
  const commands = [...refused.report.matchAll(/take it whole: (.*)$/mg)].map(([, one]) => one);
  assert.equal(commands.length, names.length);
  for (const command of commands) {
    const { status, stderr } = spawnSync("bash", ["-c", command], { cwd: b.dir, encoding: "utf8" });
    assert.equal(status, 0, `${command}: ${stderr}`);
  }
  git(b.dir, "commit", "-q", "-m", "as advised");
  assert.equal((await runJson(b, ["submit"])).outcome, "landed");
  checkLaws(origin);
});

scenario("of files added under one name one may get another; a leftover is none", async () => {
  const origin = makeOrigin();
  const [a, b] = [makeAgent(origin), makeAgent(origin)];
  const hers = 'def parse(s):\n    parts = s.split("-")\n    return [int(p) for p in parts]\n';
  const his =
    "class Mailer:\n    def send(self, to, body):\n        self.conn.sendmail(to, body)\n";
  agentCommit(a, { "0002_auto.py": hers });
  assert.equal((await runJson(a, ["submit"])).outcome, "landed");
  agentCommit(b, { "0002_auto.py": his });
  const before = git(b.dir, "rev-parse", "HEAD");
  for (const [name, status] of [["0002_auto_REMOTE_7.py", 1], ["0003_mailer.py", 0]] as const) {
    git(b.dir, "reset", "-q", "--hard", before);
    mergeBranch(origin, b, () => {
      writeFileSync(join(b.dir, "0002_auto.py"), hers);
      writeFileSync(join(b.dir, name), his);
    });
    const result = await runJson(b, ["submit"], status);
    assert.equal(result.outcome, status === 0 ? "landed" : "refused");
  }
  checkLaws(origin);
});
