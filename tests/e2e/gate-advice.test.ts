/** What a refused merge advises can be done as it says; and files that both added under one name can part. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { git, tryGit } from "../helpers/git.ts";
import { type Agent, agentCommit, makeAgent, runJson } from "./harness/agent.ts";
import { follow } from "../merge/gate/follow.ts";
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
    const { status, stderr } = spawnSync("sh", ["-c", command], { cwd: b.dir, encoding: "utf8" });
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

const plan = (change: Record<number, string> = {}): string =>
  Array.from({ length: 30 }, (_, i) => `${change[i] ?? `step ${i} of the plan`}\n`).join("");
const [HERS, HIS] = [{ 5: "check permissions first" }, { 25: "audit everything afterwards" }];
const BOTH = plan({ ...HERS, ...HIS });

/** Lands hers, merges it losing something, follows what is advised, and submits again. */
async function lands(
  { base, hers, his, lose, more, result }: {
    base: Record<string, string>;
    hers: (dir: string) => void;
    his: (dir: string) => void;
    lose: (dir: string) => void;
    /** What lands, and is merged honestly, after the merge that loses. */
    more?: Record<string, string>;
    result: Record<string, string>;
  },
): Promise<void> {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  agentCommit(a, base);
  assert.equal((await runJson(a, ["submit"])).outcome, "landed");
  git(a.dir, "pull", "-q", origin.dir, "main");
  const b = makeAgent(origin);
  hers(a.dir);
  agentCommit(a, {});
  assert.equal((await runJson(a, ["submit"])).outcome, "landed");
  his(b.dir);
  agentCommit(b, {});
  mergeBranch(origin, b, () => lose(b.dir));
  if (more) {
    git(a.dir, "pull", "-q", origin.dir, "main");
    agentCommit(a, more);
    assert.equal((await runJson(a, ["submit"])).outcome, "landed");
    mergeBranch(origin, b, () => {});
  }
  const { reason, report } = await runJson(b, ["submit"], 1);
  assert.equal(reason, "a merge on the branch was refused");
  follow(b.dir, report);
  assert.equal((await runJson(b, ["submit"])).outcome, "landed");
  const now = git(origin.dir, "ls-tree", "-r", "--name-only", "main").split("\n")
    .filter((path) =>
      Object.keys({ ...base, ...result }).includes(path) || /^(?:src|app|shop)/.test(path)
    );
  for (const [path, data] of Object.entries(result)) {
    assert.equal(git(origin.dir, "show", `main:${path}`) + "\n", data, path);
  }
  assert.deepEqual(now, Object.keys(result).sort());
  checkLaws(origin);
}
const puts = (dir: string, path: string, data: string): void =>
  writeFileSync(join(dir, path), data);

scenario("an undone rename is made again: both sides' work lands under the new name", () =>
  lands({
    base: { "old.txt": plan(), o: "o\n" },
    hers: (dir) => {
      git(dir, "mv", "old.txt", "new.txt");
      puts(dir, "new.txt", plan(HERS));
    },
    his: (dir) => puts(dir, "old.txt", plan(HIS)),
    lose: (dir) => {
      git(dir, "rm", "-qf", "new.txt");
      puts(dir, "old.txt", plan(HIS));
    },
    result: { "new.txt": BOTH, o: "o\n" },
  }));

scenario("what landed after a losing merge isn't reverted by its advice", () =>
  lands({
    base: { f: plan() },
    hers: (dir) => puts(dir, "f", plan(HERS)),
    his: (dir) => puts(dir, "k", "k\n"),
    lose: (dir) => puts(dir, "f", plan()),
    more: { f: BOTH },
    result: { f: BOTH },
  }));

scenario("a file added in a directory that the candidate renamed comes back there", () =>
  lands({
    base: { "app/1": plan(), "app/2": BOTH, "app/3": plan(HIS) },
    hers: (dir) => puts(dir, "app/invoice.py", "def invoice(): return total\n"),
    his: (dir) => void git(dir, "mv", "app", "shop"),
    lose: (dir) => void git(dir, "rm", "-qf", "shop/invoice.py"),
    result: {
      "shop/1": plan(),
      "shop/2": BOTH,
      "shop/3": plan(HIS),
      "shop/invoice.py": "def invoice(): return total\n",
    },
  }));
