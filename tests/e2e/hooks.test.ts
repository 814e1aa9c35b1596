/** Hooks that say no: final, in their own words, never tried in a loop. */
import assert from "node:assert/strict";
import { chmodSync, existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { git, tempDir } from "../helpers/git.ts";
import { agentCommit, makeAgent, run, runJson, start } from "./harness/agent.ts";
import { results } from "./harness/chains.ts";
import { onRef } from "./harness/faults.ts";
import { checkLaws } from "./harness/laws.ts";
import { allRefs, installHooks, logLines, makeOrigin, setHook, tipOf } from "./harness/origin.ts";
import { scenario, until } from "./harness/scenario.ts";
import { overBoth } from "./harness/transports.ts";

const WORDS = "not on a Friday: ask Maria (code 4711)";

overBoth("a hook that refuses the namespace: exit 2, its words, one try", async (make) => {
  const origin = make();
  const log = join(tempDir(), "tries");
  installHooks(
    origin,
    onRef("refs/weave/main/queue", `echo try >> ${log}; echo "${WORDS}" >&2; exit 1`),
  );
  const a = makeAgent(origin);
  agentCommit(a, { "a.txt": "a\n" });
  const before = allRefs(origin);
  const refused = await run(a, ["submit", "--json"]);
  assert.equal(refused.status, 2, refused.stdout);
  assert.equal(refused.json.schema, "agentq.error/1");
  assert.match(JSON.stringify(refused.json.error), /ask Maria \(code 4711\)/);
  assert.deepEqual(logLines(log), ["try"]);
  assert.equal(allRefs(origin), before);
  const people = await run(a, ["submit"]);
  assert.match(people.stderr, /ask Maria \(code 4711\)/);
  assert.equal(people.stdout, "");
});

for (
  const [hook, what] of [["pre-receive", "the branch"], ["update", "one ref of three"]] as const
) {
  overBoth(
    `${hook} refuses ${what} in a landing: final, its words, one try, nothing moved`,
    async (make) => {
      const origin = make();
      const log = join(tempDir(), "tries");
      const no = `echo try >> ${log}; echo "${WORDS}" >&2; exit 1`;
      if (hook === "pre-receive") installHooks(origin, onRef("refs/heads/main", no));
      else setHook(origin, "update", `if [ "$1" = refs/heads/main ]; then ${no}; fi\n`);
      const a = makeAgent(origin);
      agentCommit(a, { "a.txt": "a\n" });
      const result = await run(a, ["submit", "--json"]);
      assert.ok(result.status === 1 || result.status === 2, `exit ${result.status}`);
      assert.match(result.stdout + result.stderr, /ask Maria \(code 4711\)/);
      assert.deepEqual(logLines(log), ["try"]);
      assert.equal(tipOf(origin), origin.initial);
      checkLaws(origin, { done: results(origin).length });
      assert.ok(results(origin).every((r) => r.landed === null));
      // The queue isn't wedged: when the hook says yes again, the next one lands.
      installHooks(origin);
      setHook(origin, "update", "exit 0\n");
      const b = makeAgent(origin);
      agentCommit(b, { "b.txt": "b\n" });
      assert.equal((await runJson(b, ["submit"])).outcome, "landed");
      checkLaws(origin);
    },
  );
}

overBoth(
  "a freeze costs no ticket, however often landers come, and status says so",
  async (make) => {
    const origin = make();
    setHook(
      origin,
      "update",
      `case $1 in refs/heads/main) echo "code freeze until noon" >&2; exit 1;; esac\n`,
    );
    const a = makeAgent(origin);
    for (const name of ["a", "b", "c"]) {
      git(a.dir, "checkout", "-q", "-B", name, "origin/main");
      agentCommit(a, { [`${name}.txt`]: `${name}\n` });
      await runJson(a, ["submit", "--no-wait"]);
    }
    for (let i = 1; i <= 5; i++) {
      const { error } = await runJson(a, ["land"], 2);
      assert.equal(error.code, "push-refused");
      assert.match(error.message, /ticket 0 passed and could not be published.*code freeze/s);
      assert.match(error.hint, /stays queued, and 2 behind it wait.*agentq cancel 0 takes it out/);
      assert.deepEqual(error.details.refused, { ticket: 0, count: i, behind: 2 });
    }
    const { refused } = await runJson(a, ["status"]);
    assert.deepEqual([refused.ticket, refused.count], [0, 5]);
    assert.match(
      (await run(a, ["status"])).stdout,
      /could not be published, 5 times so far.*freeze/,
    );
    assert.equal(results(origin).length, 0);
    setHook(origin, "update", "exit 0\n");
    assert.equal((await run(a, ["land"])).status, 0);
    assert.deepEqual(results(origin).map(({ reason }) => reason), ["landed", "landed", "landed"]);
    assert.equal((await runJson(a, ["status"])).refused, null);
    checkLaws(origin);
  },
);

overBoth("a ticket whose files a hook refuses gives way to the next one", async (make) => {
  const origin = make();
  installHooks(
    origin,
    onRef(
      "refs/heads/main",
      `/usr/bin/git cat-file -e "$new:secret.txt" 2>/dev/null && { echo "no secrets here" >&2; exit 1; }`,
    ),
  );
  const bad = makeAgent(origin);
  agentCommit(bad, { "secret.txt": "s\n" });
  for (let i = 0; i < 3; i++) {
    const { error } = await runJson(bad, ["submit", "--wait-timeout", "20"], 2);
    assert.match(error.message, /^ticket 0 stays queued; .*no secrets here/s);
  }
  const good = makeAgent(origin);
  agentCommit(good, { "good.txt": "g\n" });
  assert.equal((await runJson(good, ["submit"])).outcome, "landed");
  const told = await runJson(bad, ["wait", "0"], 1);
  assert.equal(told.reason, "land failed");
  assert.match(told.report, /no secrets here[^]*Ticket 1, behind it, was let through/);
  checkLaws(origin);
});

overBoth("a hook that holds the refs' locks for long is waited for", async (make) => {
  const origin = make();
  setHook(origin, "reference-transaction", `[ "$1" = prepared ] && sleep 0.7\n:\n`);
  const agents = ["a", "b", "c", "d"].map((name) => {
    const agent = makeAgent(origin);
    agentCommit(agent, { [`${name}.txt`]: `${name}\n` });
    return agent;
  });
  const all = await Promise.all(agents.map((agent) => runJson(agent, ["submit", "--no-wait"])));
  assert.deepEqual(all.map(({ ticket }) => ticket).sort(), [0, 1, 2, 3]);
});

overBoth("the standard policy admits the queue and refuses another namespace", async (make) => {
  const origin = make();
  const a = makeAgent(origin);
  agentCommit(a, { "a.txt": "a\n" });
  const refused = await run(a, ["submit", "--namespace", "refs/elsewhere", "--json"]);
  assert.equal(refused.status, 2, refused.stdout);
  assert.match(
    JSON.stringify(refused.json.error),
    /policy: refs\/elsewhere\/main\/queue is not admitted here/,
  );
  assert.equal((await runJson(a, ["submit"])).outcome, "landed");
  checkLaws(origin);
});

scenario("a hook that can't be run refuses the push", async () => {
  const origin = makeOrigin();
  const path = join(origin.dir, "hooks/pre-receive");
  writeFileSync(path, "#!/nonexistent/interpreter\n");
  chmodSync(path, 0o755);
  const a = makeAgent(origin);
  agentCommit(a, { "a.txt": "a\n" });
  const before = allRefs(origin);
  const refused = await runJson(a, ["submit"], 2);
  assert.match(refused.error.message, /pre-receive/);
  assert.equal(allRefs(origin), before);
});

scenario("hooks on disk get git's stdin, environment and quarantine", async () => {
  const origin = makeOrigin();
  const log = join(tempDir(), "hook.log");
  setHook(
    origin,
    "pre-receive",
    `while read -r old new ref; do
  /usr/bin/git cat-file -e "$new^{commit}" || exit 1
  echo "pre $ref $(cd "$GIT_DIR" && pwd) \${GIT_QUARANTINE_PATH:+quarantine} $(pwd)" >> ${log}
done
`,
  );
  setHook(
    origin,
    "post-receive",
    `while read -r old new ref; do echo "post $ref \${GIT_QUARANTINE_PATH:-none}" >> ${log}; done\n`,
  );
  setHook(origin, "post-update", `for ref in "$@"; do echo "updated $ref" >> ${log}; done\n`);
  const a = makeAgent(origin);
  agentCommit(a, { "a.txt": "a\n" });
  await runJson(a, ["submit", "--no-wait"]);
  assert.deepEqual(logLines(log), [
    `pre refs/weave/main/queue ${origin.dir} quarantine ${origin.dir}`,
    "post refs/weave/main/queue none",
    "updated refs/weave/main/queue",
  ]);
});

scenario("what a kill in a hook leaves of a push, the next push takes away", async () => {
  const origin = makeOrigin();
  const begun = join(tempDir(), "begun");
  setHook(origin, "pre-receive", `[ -e ${begun} ] && exit 0; echo >${begun}; exec sleep 600\n`);
  const a = makeAgent(origin);
  agentCommit(a, { "a.txt": "a\n" });
  const killed = start(a, ["submit", "--no-wait"]);
  await until("the hook to have begun", () => existsSync(begun));
  const waiting = () =>
    readdirSync(join(origin.dir, "objects")).filter((name) => name.startsWith("tmp_objdir-"));
  assert.equal(waiting().length, 1);
  killed.kill("SIGKILL");
  await killed.done;
  agentCommit(a, { "b.txt": "b\n" });
  await runJson(a, ["submit", "--no-wait"]);
  assert.deepEqual(waiting(), []);
  assert.deepEqual(readdirSync(origin.dir).filter((name) => name.startsWith("agentq-life-")), []);
});

scenario("receive.denyCurrentBranch and append-only settings are honoured on disk", async () => {
  const origin = makeOrigin({
    config: { "core.bare": "false", "receive.denyCurrentBranch": "refuse" },
  });
  const a = makeAgent(origin);
  agentCommit(a, { "a.txt": "a\n" });
  const result = await run(a, ["submit", "--json"]);
  assert.notEqual(result.status, 0);
  assert.match(result.stdout + result.stderr, /denyCurrentBranch|checked out/i);
  assert.equal(tipOf(origin), origin.initial);
});
