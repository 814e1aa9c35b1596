/** Landing over http(s): servers of protocol 0, and where a secret must never turn up. */
import assert from "node:assert/strict";
import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { git, tempDir } from "../helpers/git.ts";
import { agentCommit, makeAgent, run, runJson } from "./harness/agent.ts";
import { checkLaws } from "./harness/laws.ts";
import { makeOrigin, pushOutside, SHARED_FILE, verifyCommand } from "./harness/origin.ts";
import { scenario } from "./harness/scenario.ts";
import { webServer } from "./harness/transports.ts";
import { makeHttpsOrigin, PASSWORD, USER } from "./harness/webserver.ts";

const edited = (line: number, text: string) => SHARED_FILE.replace(`line ${line}\n`, `${text}\n`);

scenario("everything over a web server that speaks protocol 0 alone", async () => {
  const web = await webServer();
  const origin = makeOrigin();
  origin.url = web.serve(origin).old;
  const verify = ["--verify-cmd", verifyCommand(origin)];
  const [a, b, c] = [1, 2, 3].map(() => makeAgent(origin)) as [
    ReturnType<typeof makeAgent>,
    ReturnType<typeof makeAgent>,
    ReturnType<typeof makeAgent>,
  ];
  assert.equal((await runJson(a, ["doctor"])).ok, true);
  agentCommit(a, { "shared.txt": edited(1, "A") });
  assert.equal((await runJson(a, ["submit", ...verify])).outcome, "landed");
  agentCommit(b, { "shared.txt": edited(50, "B") });
  assert.equal((await runJson(b, ["submit", "--no-wait", ...verify])).ticket, 1);
  assert.equal((await runJson(c, ["status"])).unacked, 1);
  assert.equal((await run(c, ["land"])).status, 0);
  assert.equal((await runJson(b, ["wait", "1"])).outcome, "landed");
  // A commit that no ref of the server names any more, behind a newer one.
  const outside = pushOutside(origin, { "o.txt": "o\n" });
  agentCommit(c, { "shared.txt": edited(30, "C") });
  assert.equal((await runJson(c, ["submit", ...verify])).outcome, "landed");
  const shallow = makeAgent(origin, { clone: ["--depth", "1"] });
  agentCommit(shallow, { "s.txt": "s\n" });
  assert.equal((await runJson(shallow, ["submit", ...verify])).outcome, "landed");
  assert.match((await run(a, ["show", "1"])).stdout, /landed/);
  const log = await run(a, ["log", "-n", "9"]);
  assert.equal(log.stdout.match(/landed/g)?.length, 4, log.stdout);
  await runJson(a, ["pause", "--reason", "why"]);
  await runJson(a, ["resume"]);
  checkLaws(origin, { outside: [outside] });
});

/** Every file below a directory, as one text. */
function everything(dir: string): string {
  return readdirSync(dir, { recursive: true }).map(String).map((name) => join(dir, name))
    .filter((path) => statSync(path, { throwIfNoEntry: false })?.isFile())
    .map((path) => readFileSync(path, "latin1")).join("\n");
}

const WAYS = ["url", "AGENTQ_TOKEN", "GIT_ASKPASS", "credential.helper", "http.extraHeader"];
for (const way of WAYS) {
  scenario(
    `a secret from ${way} is in no output, state, error, object or process list`,
    async () => {
      const web = await webServer();
      const origin = makeHttpsOrigin(web);
      const withLogin = new URL(origin.url);
      const bare = new URL(origin.url);
      bare.username = bare.password = "";
      const asUser = new URL(bare);
      asUser.username = USER;
      const dir = tempDir();
      const program = (name: string, script: string) => {
        const path = join(dir, name);
        writeFileSync(path, `#!/bin/sh\n${script}\n`);
        chmodSync(path, 0o755);
        return path;
      };
      const basic = btoa(String.fromCharCode(...new TextEncoder().encode(`${USER}:${PASSWORD}`)));
      const secrets = [PASSWORD, encodeURIComponent(PASSWORD), withLogin.password, basic];
      const env: Record<string, string> = {};
      origin.url = (way === "url" ? withLogin : way === "AGENTQ_TOKEN" ? asUser : bare).href;
      if (way === "AGENTQ_TOKEN") env.AGENTQ_TOKEN = PASSWORD;
      const answer = `case "$1" in Username*) echo ${USER};; *) echo '${PASSWORD}';; esac`;
      if (way === "GIT_ASKPASS") env.GIT_ASKPASS = program("ask", answer);
      if (way === "credential.helper") {
        const says = `echo username=${USER}; echo 'password=${PASSWORD}'`;
        const helper = program("helper", `cat > /dev/null; [ "$1" = get ] && { ${says}; }; exit 0`);
        origin.cloneConfig["credential.helper"] = helper;
      }
      if (way === "http.extraHeader") {
        origin.cloneConfig["http.extraHeader"] = `Authorization: Basic ${basic}`;
      }
      const a = makeAgent(origin, { env });
      agentCommit(a, { "a.txt": "a\n" });
      const seen = join(dir, "processes");
      const look = `cat /proc/[0-9]*/cmdline > ${seen} 2>/dev/null || :; env > ${seen}.env`;
      const outputs: string[] = [];
      const keep = async (args: string[]) => {
        const { stdout, stderr } = await run(a, args);
        outputs.push(stdout, stderr);
        return stdout;
      };
      await keep(["submit", "--verbose", "--verify-cmd", verifyCommand(origin, look)]);
      assert.match(outputs[0]!, /landed/, outputs.join("\n"));
      for (const args of [["status", "--json"], ["status"], ["log"], ["show", "0"], ["doctor"]]) {
        await keep(args);
      }
      // Failures tell where, not with what.
      git(a.dir, "config", "remote.origin.url", origin.url.replace(/[^/]*$/, "none.git"));
      await keep(["status", "--json", "--verbose"]);
      assert.match(outputs.at(-2)!, /origin-not-found/);
      await keep(["status", "--verbose"]);
      const processes = readFileSync(seen, "latin1");
      assert.ok(processes.includes("submit"), "the list was seen");
      const environment = readFileSync(`${seen}.env`, "utf8");
      assert.ok(environment.includes("AGENTQ_TICKET"));
      for (const secret of secrets) {
        assert.ok(!outputs.join("\n").includes(secret), `output has ${secret}`);
        assert.ok(!processes.includes(secret), "the process list has it");
        assert.ok(!environment.includes(secret), "the verify command has it");
        assert.ok(!everything(a.state).includes(secret), "the state has it");
        assert.ok(!everything(a.env.HOME!).includes(secret), "the home has it");
      }
      const objects = git(origin.dir, "log", "--all", "--format=%B%an%ae%cn%ce");
      for (const secret of secrets) assert.ok(!objects.includes(secret), "the queue has it");
      checkLaws(origin);
    },
  );
}
