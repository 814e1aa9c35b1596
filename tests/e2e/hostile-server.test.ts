/** Servers that stall, lie, refuse or vanish: a typed error within its timeout, exit 2, nothing changed. */
import assert from "node:assert/strict";
import { git } from "../helpers/git.ts";
import { type Agent, agentCommit, makeAgent, run, runJson } from "./harness/agent.ts";
import { checkLaws } from "./harness/laws.ts";
import { allRefs, makeOrigin, type TestOrigin } from "./harness/origin.ts";
import { type Fault, type FaultProxy, httpAnswer, startProxy } from "./harness/proxy.ts";
import { scenario } from "./harness/scenario.ts";
import { makeHttpsOrigin, PASSWORD } from "./harness/webserver.ts";
import { webServer } from "./harness/transports.ts";

async function behindProxy(): Promise<{ origin: TestOrigin; agent: Agent; proxy: FaultProxy }> {
  const web = await webServer();
  const origin = makeOrigin();
  const url = new URL(web.serve(origin).http);
  const proxy = await startProxy(web.httpPort);
  url.port = String(proxy.port);
  origin.url = url.href;
  const agent = makeAgent(origin);
  agentCommit(agent, { "a.txt": "a\n" });
  return { origin, agent, proxy };
}

/** Bounds the silence of a server, as git knows it. */
const IMPATIENT = { env: { GIT_HTTP_LOW_SPEED_TIME: "1" } };

const ADVERTISED = "application/x-git-receive-pack-advertisement";
const html = "<html><body><h1>Sign in</h1></body></html>";

const FAULTS: [string, Fault][] = [
  ["401", { answer: httpAnswer("401 Unauthorized", "", ['WWW-Authenticate: Basic realm="x"']) }],
  ["403", { answer: httpAnswer("403 Forbidden", "go away\x1b[31m") }],
  ["404", { answer: httpAnswer("404 Not Found", html) }],
  ["500", { answer: httpAnswer("500 Internal Server Error", "oops") }],
  ["503", { answer: httpAnswer("503 Service Unavailable", "") }],
  ["a login page with 200", { answer: httpAnswer("200 OK", html, ["Content-Type: text/html"]) }],
  ["no HTTP at all", { answer: "SSH-2.0-OpenSSH_9.2\r\n" }],
  ["garbage as advertisement", {
    answer: httpAnswer("200 OK", "zzzz\x00\x01\x02garbage", [`Content-Type: ${ADVERTISED}`]),
  }],
  ["a packet length past the end", {
    answer: httpAnswer("200 OK", "001f# service=git-receive-pack\n0000fff0abc", [
      `Content-Type: ${ADVERTISED}`,
    ]),
  }],
  ["an empty answer", { answer: httpAnswer("200 OK", "", [`Content-Type: ${ADVERTISED}`]) }],
  ["a redirect to itself", { answer: httpAnswer("302 Found", "", ["Location: /"]) }],
  ["a redirect to a file", {
    answer: httpAnswer("302 Found", "", ["Location: file:///etc/passwd"]),
  }],
  ["a cut connection", "cut-before"],
  ["a connection cut in the answer", "cut-half"],
  ["a stall", "stall"],
  ["a stall in the answer", "stall-half"],
];

for (const [name, fault] of FAULTS) {
  scenario(`a server that answers every request with ${name}`, async () => {
    const { origin, agent, proxy } = await behindProxy();
    proxy.decide = () => fault;
    const before = allRefs(origin);
    const cases = [["status"], ["submit", "--no-wait"], ["land"]];
    for (const args of name.includes("stall") ? cases.slice(1, 2) : cases) {
      const result = await runJson(agent, args, 2, IMPATIENT);
      assert.equal(result.schema, "agentq.error/1");
      assert.notEqual(result.error.code, "internal", `${args}: ${JSON.stringify(result)}`);
      assert.notEqual(result.error.hint, "");
      const said = JSON.stringify(result);
      assert.ok(
        !said.includes(PASSWORD) && !said.includes(encodeURIComponent(PASSWORD)),
        "the password",
      );
    }
    assert.equal(allRefs(origin), before);
    // Nothing sticks: with the server well again, the same clone submits.
    proxy.decide = () => "pass";
    assert.equal((await runJson(agent, ["submit"])).outcome, "landed");
    proxy.stop();
    checkLaws(origin);
  });
}

for (const [name, fault] of FAULTS) {
  scenario(`pushes answered with ${name}`, async () => {
    const { origin, agent, proxy } = await behindProxy();
    proxy.decide = (request) => request.service === "push" ? fault : "pass";
    const patience = name.includes("stall") ? IMPATIENT : {};
    const result = await run(agent, ["submit", "--no-wait", "--json"], patience);
    if (fault === "cut-half" || fault === "stall-half") {
      // The server did apply it, and reading the refs again tells.
      assert.deepEqual([result.status, result.json.outcome], [0, "queued"], result.stdout);
    } else {
      assert.equal(result.status, 2, result.stdout);
      assert.equal(result.json.schema, "agentq.error/1");
      assert.notEqual(result.json.error.code, "internal", result.stdout);
    }
    proxy.decide = () => "pass";
    const landed = await runJson(agent, ["submit"]);
    assert.deepEqual([landed.ticket, landed.outcome], [0, "landed"]);
    proxy.stop();
    checkLaws(origin);
  });
}

scenario("a server without atomic pushes is refused before anything is sent", async () => {
  const { origin, agent, proxy } = await behindProxy();
  git(origin.dir, "config", "receive.advertiseAtomic", "false");
  const refused = await runJson(agent, ["submit"], 2);
  assert.equal(refused.error.code, "atomic-unsupported");
  assert.equal(proxy.requests.filter((r) => r.service === "push").length, 0);
  proxy.stop();
});

scenario("a certificate of an unknown CA is refused, by name", async () => {
  const web = await webServer();
  const origin = makeHttpsOrigin(web);
  origin.cloneConfig = {};
  const agent = makeAgent(origin);
  agentCommit(agent, { "a.txt": "a\n" });
  const refused = await runJson(agent, ["submit"], 2);
  assert.notEqual(refused.error.code, "internal");
  assert.match(JSON.stringify(refused.error), /certificate|TLS|CA/i);
  // The three ways to make it known.
  for (const name of ["GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS"]) {
    const env = { [name]: web.caFile };
    assert.equal((await runJson(agent, ["status"], 0, { env })).unacked, 0);
  }
  git(agent.dir, "config", "http.sslCAInfo", web.caFile);
  assert.equal((await runJson(agent, ["submit"])).outcome, "landed");
  checkLaws(origin);
});

scenario("a wrong password is told as such and never shown; nothing is asked", async () => {
  const web = await webServer();
  const origin = makeHttpsOrigin(web);
  origin.url = origin.url.replace(encodeURIComponent(PASSWORD), "wr0ng-secret");
  const agent = makeAgent(origin);
  agentCommit(agent, { "a.txt": "a\n" });
  const refused = await run(agent, ["submit", "--json"]);
  assert.equal(refused.status, 2);
  assert.match(JSON.stringify(refused.json.error), /401|credential|password|auth/i);
  assert.doesNotMatch(refused.stdout + refused.stderr, /wr0ng-secret/);
});

scenario("nobody listens: a typed error at once", async () => {
  const { agent, proxy } = await behindProxy();
  proxy.stop();
  const refused = await runJson(agent, ["submit"], 2);
  assert.notEqual(refused.error.code, "internal");
});

scenario("credentials in urls are never printed", async () => {
  const web = await webServer();
  const origin = makeHttpsOrigin(web);
  const agent = makeAgent(origin);
  agentCommit(agent, { "a.txt": "a\n" });
  for (
    const args of [["submit"], ["status"], ["status", "--json"], ["log"], ["land", "--verbose"], [
      "doctor",
    ]]
  ) {
    const result = await run(agent, args);
    const said = result.stdout + result.stderr;
    assert.ok(
      !said.includes(PASSWORD) && !said.includes(encodeURIComponent(PASSWORD)),
      args.join(" "),
    );
  }
  const status = await runJson(agent, ["status"]);
  assert.match(status.url, /^https:\/\/127\.0\.0\.1:\d+\/git\//);
});
