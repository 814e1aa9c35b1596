/** Settings that can't be used are named, at once, and no secret with them; odd ones are as git takes them. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { spawn } from "node:child_process";
import net, { type AddressInfo } from "node:net";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { isAgentqError } from "../../../src/errors.ts";
import { redirected } from "../../../src/git/http/redirect.ts";
import { openOrigin } from "../../../src/git/origin.ts";
import { openRepository } from "../../../src/git/repository.ts";
import { commit, git, gitEnv, makeRepo, tempDir } from "../../helpers/git.ts";
import { type Front, serveFront, whole } from "./front.ts";
import { type GitServer, serveGit } from "./server.ts";

let server: GitServer;
let front: Front;
let first: string;
const bare = join(tempDir(), "repo.git");

before(async () => {
  const work = makeRepo();
  first = commit(work, "first");
  git(work, "clone", "-q", "--bare", work, bare);
  server = await serveGit(join(bare, ".."));
  front = await serveFront(server.url);
});
after(async () => {
  front.close();
  await server.close();
});

const SECRET = "hunter2";

/** The branch of the origin behind `url`, read with these settings. */
async function read(
  config: Record<string, string>,
  env: Record<string, string> = {},
  url = `${front.url}/repo.git`,
): Promise<string | undefined> {
  const dir = makeRepo();
  git(dir, "remote", "add", "origin", url);
  for (const [key, value] of Object.entries(config)) git(dir, "config", key, value);
  const repository = openRepository(dir);
  const origin = await openOrigin("origin", { repository, env });
  try {
    return (await origin.refs(["refs/heads/main"])).refs.get("refs/heads/main");
  } finally {
    origin.close();
    repository.close();
  }
}

async function refused(setting: string, reading: Promise<unknown>): Promise<void> {
  await assert.rejects(reading, (error) => {
    assert.ok(isAgentqError(error, "config-invalid"), String(error));
    assert.ok(error.message.includes(setting), error.message);
    assert.ok(!JSON.stringify(error).includes(SECRET) && !String(error.stack).includes(SECRET));
    return true;
  });
}

for (
  const value of [
    `X: a\r\nY: ${SECRET}`,
    `X: a\n${SECRET}: b`,
    `X: ${SECRET}\x1b[31m`,
    `\x7f: ${SECRET}`,
  ]
) {
  test(`http.extraHeader ${JSON.stringify(value)}`, () => {
    front.asked.length = 0;
    return refused("http.extraHeader", read({ "http.extraHeader": value })).then(() =>
      assert.equal(front.asked.length, 0)
    );
  });
}

for (const name of ["Content-Length", "transfer-encoding"]) {
  test(`http.extraHeader doesn't set ${name}`, () =>
    refused("http.extraHeader", read({ "http.extraHeader": `${name}: 3` })));
}

test("GIT_HTTP_USER_AGENT with a line break", () =>
  refused("GIT_HTTP_USER_AGENT", read({}, { GIT_HTTP_USER_AGENT: `x\r\nX: ${SECRET}` })));

test("a header's letters arrive as UTF-8: none of them is a line break", async () => {
  front.asked.length = 0;
  // Cut down to single bytes these would be CR and LF.
  const value = "a\u010d\u010aY: b";
  assert.equal(await read({ "http.extraHeader": `X-Odd: ${value}` }), first);
  const { headers } = front.asked[0]!;
  assert.equal(Buffer.from(headers.get("x-odd")!, "latin1").toString("utf8"), value);
  assert.ok(!headers.has("y"));
});

test("a configured Host stands in place of ours", async () => {
  front.asked.length = 0;
  assert.equal(await read({ "http.extraHeader": "Host: other.example" }), first);
  assert.equal(front.asked[0]!.headers.get("host"), "other.example");
});

const proxied = () => front.url.slice("http://".length);
/** What a proxy was told of who asks. */
const login = () => {
  const value = front.asked.at(-1)!.headers.get("proxy-authorization") ?? "";
  return Buffer.from(value.replace(/^Basic /, ""), "base64").toString("utf8");
};

for (const password of ["100%", "%zz", "%2", "a%25b", "%c3%a9"]) {
  test(`a proxy's password ${password} is read as git reads it`, async () => {
    // Git tells it when it is asked for it.
    front.behave = ({ headers }, given) => ({
      bytes: headers.has("proxy-authorization")
        ? whole(given)
        : Buffer.from("HTTP/1.1 407 x\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n"),
    });
    const target = `${server.url}/repo.git`;
    const proxy = `http://me:${password}@${proxied()}`;
    const args = ["-c", `http.proxy=${proxy}`, "ls-remote", target];
    const child = spawn("git", args, { env: gitEnv(), stdio: "ignore" });
    assert.equal(await new Promise((resolve) => child.on("close", resolve)), 0);
    const git = login();
    front.asked.length = 0;
    assert.equal(await read({ "http.proxy": proxy }, {}, target), first);
    assert.equal(login(), git);
    assert.equal(await read({}, { http_proxy: proxy }, target), first);
    assert.equal(login(), git);
    await assert.rejects(
      read({ "http.proxy": front.url }, {}, target),
      (error) => isAgentqError(error, "auth-required") && /proxy/.test(error.message),
    );
  });
}

for (
  const [what, value] of [
    ["escapes that are no UTF-8", `http://${SECRET}:%ff@127.0.0.1:1`],
    ["a port that is none", `http://me:${SECRET}@127.0.0.1:http`],
    ["a host that is none", `http://me:${SECRET}@[::1`],
    ["a kind that isn't known", `socks5://me:${SECRET}@127.0.0.1:1`],
  ] as const
) {
  test(`a proxy with ${what} is refused by the setting's name`, async () => {
    const http = "http://127.0.0.1:1/x.git";
    const https = "https://127.0.0.1:1/x.git";
    await refused("http.proxy", read({ "http.proxy": value }, {}, http));
    await refused("remote.origin.proxy", read({ "remote.origin.proxy": value }, {}, http));
    await refused("http_proxy", read({}, { http_proxy: value }, http));
    await refused("https_proxy", read({}, { https_proxy: value }, https));
    await refused("ALL_PROXY", read({}, { ALL_PROXY: value }, https));
  });
}

for (const status of [401, 407]) {
  test(`a proxy that answers a tunnel with ${status} wants a password`, async () => {
    const proxy = net.createServer((socket) => {
      socket.on("error", () => {});
      socket.once("data", () => socket.end(`HTTP/1.1 ${status} x\r\n\r\n`));
    });
    await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", () => resolve()));
    const { port } = proxy.address() as AddressInfo;
    const env = { https_proxy: `http://me:${SECRET}@127.0.0.1:${port}` };
    await assert.rejects(
      read({}, env, "https://127.0.0.1:1/x.git"),
      (error) => isAgentqError(error, "auth-required") && /proxy/.test(error.message),
    );
    proxy.close();
  });
}

test("a redirect's path that begins with two slashes names no host", () => {
  const suffix = "/info/refs?service=git-upload-pack";
  const base = new URL("http://a.example/x");
  for (
    const [path, wanted] of [["//b.example/y", "//b.example/y"], ["//", "//"], ["", "/"], [
      "/p?q=",
      "/p?q=",
    ]]
  ) {
    const next = redirected(
      {
        status: 302,
        headers: new Map([["location", `http://a.example${path}${suffix}`]]),
        body: (async function* () {})(),
      },
      { base, requested: new URL(base.href + suffix), suffix, mode: "initial", name: "x" },
    );
    assert.equal(next.href, `http://a.example${wanted}`);
  }
});
