/** Settings of origins and remotes that can't be followed are said to whoever runs agentq. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, cpSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { git, tempDir } from "../helpers/git.ts";
import { agentCommit, makeAgent, run, runJson } from "./harness/agent.ts";
import { doctor } from "./harness/doctor.ts";
import { checkLaws } from "./harness/laws.ts";
import { allRefs, makeOrigin, setHook, tipOf } from "./harness/origin.ts";
import { scenario } from "./harness/scenario.ts";
import { webServer } from "./harness/transports.ts";
import { makeHttpsOrigin } from "./harness/webserver.ts";

scenario("a remote with two pushurls is refused by name until the origin is named", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  const mirror = join(tempDir(), "mirror.git");
  cpSync(origin.dir, mirror, { recursive: true });
  for (const url of [origin.url, mirror]) {
    git(a.dir, "config", "--add", "remote.origin.pushurl", url);
  }
  const commit = agentCommit(a, { "a.txt": "a\n" });
  const before = tipOf(origin);
  for (const args of [["submit"], ["submit", "--offline"], ["status"]]) {
    const { error } = await runJson(a, args, 2);
    assert.equal(error.code, "config-invalid", args.join(" "));
    assert.match(error.message, /remote\.origin\.pushurl/);
  }
  const found = await run(a, ["doctor"]);
  assert.equal(found.status, 1);
  assert.match(found.stdout, /FAIL +origin: .*remote\.origin\.pushurl/);
  assert.equal(tipOf(origin), before);

  git(a.dir, "config", "agentq.remote", origin.url);
  assert.equal((await runJson(a, ["submit"])).landed, commit);
  assert.equal(git(mirror, "rev-parse", "HEAD"), before);
  checkLaws(origin);
});

scenario("an origin's hook that isn't executable is ignored, as by git, and named", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  setHook(origin, "reference-transaction", "exit 1\n");
  const path = join(origin.dir, "hooks", "reference-transaction");
  agentCommit(a, { "a.txt": "a\n" });
  const refused = await runJson(a, ["submit"], 2);
  assert.equal(refused.error.code, "push-refused");
  chmodSync(path, 0o644);
  const landed = await run(a, ["submit", "--json"]);
  assert.equal(landed.status, 0, landed.stderr);
  assert.equal(landed.json.outcome, "landed");
  const told = landed.stderr.match(/not executable: reference-transaction/g) ?? [];
  assert.equal(told.length, 1, landed.stderr);
  assert.match((await run(a, ["doctor"])).stdout, /not executable: reference-transaction/);
  checkLaws(origin);
});

scenario("files for TLS that can't be used are settings to correct, for doctor too", async () => {
  const a = makeAgent(makeOrigin());
  const openssl = (...args: string[]) => {
    const made = spawnSync("openssl", args, { cwd: a.dir, encoding: "utf8" });
    assert.equal(made.status, 0, made.stderr);
  };
  for (const name of ["mine", "other"]) {
    openssl(
      ...["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=x"],
      ...["-keyout", `${name}.key`, "-out", `${name}.pem`],
    );
  }
  openssl("x509", "-in", "mine.pem", "-outform", "der", "-out", "ca.der");
  const at = (name: string) => join(a.dir, name);
  const url = "https://127.0.0.1:1/x.git";
  for (
    const [setting, env] of [
      ["GIT_SSL_CAINFO", { GIT_SSL_CAINFO: at("ca.der") }],
      ["GIT_SSL_KEY", { GIT_SSL_CERT: at("mine.pem"), GIT_SSL_KEY: at("other.key") }],
      ["GIT_SSL_CERT", { GIT_SSL_CERT: at("mine.pem") }],
    ] as [string, Record<string, string>][]
  ) {
    const { error } = await runJson(a, ["status", "--remote", url], 2, { env });
    assert.equal(error.code, "config-invalid", setting);
    assert.ok(error.message.startsWith(`${setting} names `), error.message);
    const found = await run(a, ["doctor", "--remote", url], { env });
    assert.match(found.stdout, new RegExp(`FAIL +origin: ${setting} names `));
  }
});

scenario(
  "what an origin that checks objects refuses isn't queued, unless its settings let it be",
  async () => {
    const origin = makeOrigin();
    const a = makeAgent(origin);
    git(origin.dir, "config", "receive.fsckObjects", "true");
    const sound = agentCommit(a, { "a.txt": "a\n" });
    const text = git(a.dir, "cat-file", "commit", sound);
    const path = join(tempDir(), "commit");
    writeFileSync(path, text.replace(/(author .*) [+-]\d+\n/, "$1 +00\n") + "\n");
    const bad = git(a.dir, "hash-object", "-t", "commit", "-w", "--literally", path);
    const submit = ["submit", "--candidate", bad];
    const { error } = await runJson(a, submit, 2);
    assert.equal(error.code, "push-refused");
    assert.ok(error.message.includes(`commit ${bad} has`), error.message);
    assert.match(error.message, /\(badTimezone\)/);
    git(origin.dir, "config", "receive.fsck.badTimezone", "sometimes");
    const unsound = await runJson(a, submit, 2);
    assert.equal(unsound.error.code, "config-invalid");
    assert.match(unsound.error.message, /receive\.fsck\.badtimezone is "sometimes"/);
    git(origin.dir, "config", "receive.fsck.badTimezone", "warn");
    assert.equal((await runJson(a, submit)).landed, bad);
  },
);

scenario("a setting that ends git's receive-pack is named by submit and doctor", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  const commit = agentCommit(a, { "a.txt": "a\n" });
  for (
    const [key, value, sound] of [
      ["receive.autogc", "perhaps", "false"],
      ["core.compression", "99", "9"],
    ] as const
  ) {
    git(origin.dir, "config", key, value);
    const { error } = await runJson(a, ["submit"], 2);
    assert.equal(error.code, "config-invalid");
    assert.ok(error.message.includes(`The origin's ${key} is "${value}"`), error.message);
    const { of } = await doctor(a);
    assert.deepEqual([of("push").status, of("push").message], ["fail", error.message]);
    git(origin.dir, "config", key, sound);
  }
  assert.equal((await runJson(a, ["submit"])).landed, commit);
});

scenario(
  "a queue that readers aren't shown is refused by name from the first push on",
  async () => {
    const origin = makeHttpsOrigin(await webServer());
    const a = makeAgent(origin);
    const before = allRefs(origin);
    git(origin.dir, "config", "uploadpack.hideRefs", "refs/weave");
    const found = await run(a, ["doctor"]);
    assert.equal(found.status, 1);
    assert.match(found.stdout, /FAIL +push: .*refs\/weave\/main\/lock: .*uploadpack\.hideRefs/);
    const commit = agentCommit(a, { "a.txt": "a\n" });
    const result = await run(a, ["submit", "--json"]);
    assert.equal(result.status, 2);
    assert.equal(result.json.error.code, "push-refused");
    assert.match(result.json.error.message, /refs\/weave\/main\/queue: .*uploadpack\.hideRefs/);
    assert.match(result.json.error.hint, /Nothing was changed\.$/);
    assert.equal(allRefs(origin), before);
    assert.doesNotMatch(result.stdout + result.stderr, /as ticket|put back/);

    git(origin.dir, "config", "--unset", "uploadpack.hideRefs");
    assert.equal((await runJson(a, ["submit"])).landed, commit);
    checkLaws(origin);
  },
);

scenario("GIT_NAMESPACE is refused by name where the origin is on disk", async () => {
  const origin = makeOrigin();
  const a = makeAgent(origin);
  const commit = agentCommit(a, { "a.txt": "a\n" });
  const before = allRefs(origin);
  a.env.GIT_NAMESPACE = "foo";
  for (const args of [["submit"], ["status"], ["land"]]) {
    const { error } = await runJson(a, args, 2);
    assert.equal(error.code, "config-invalid", args.join(" "));
    assert.match(error.message, /GIT_NAMESPACE/);
  }
  assert.match((await run(a, ["doctor"])).stdout, /FAIL +origin: GIT_NAMESPACE/);
  assert.equal(allRefs(origin), before);
  delete a.env.GIT_NAMESPACE;
  assert.equal((await runJson(a, ["submit"])).landed, commit);
  checkLaws(origin);
});
