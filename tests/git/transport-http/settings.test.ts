/** What git's http.* settings do to requests, on the wire; where git can be asked, it is. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import http from "node:http";
import net, { type AddressInfo } from "node:net";
import { join } from "node:path";
import process from "node:process";
import { after, before, test } from "node:test";
import { gunzipSync, gzipSync } from "node:zlib";
import { type ErrorCode, isAgentqError } from "../../../src/errors.ts";
import { openOrigin, type OriginOptions } from "../../../src/git/origin.ts";
import { openRepository } from "../../../src/git/repository.ts";
import type { Origin } from "../../../src/git/types.ts";
import { commit, git, makeRepo, tempDir } from "../../helpers/git.ts";
import { type GitServer, serveGit } from "./server.ts";

const root = tempDir();
const bare = join(root, "repo.git");
let server: GitServer;
let first: string;

before(async () => {
  const clone = makeRepo();
  first = commit(clone, "first", { "a.txt": "a\n" });
  git(root, "clone", "-q", "--bare", clone, "repo.git");
  git(bare, "config", "http.receivepack", "true");
  server = await serveGit(root);
});
after(() => server.close());

function clone(config: readonly (readonly [string, string])[] = []): string {
  const dir = tempDir();
  git(dir, "clone", "-q", bare, ".");
  git(dir, "remote", "set-url", "origin", `${server.url}/repo.git`);
  for (const [key, value] of config) git(dir, "config", "--add", key, value);
  return dir;
}

async function withOrigin<T>(
  dir: string,
  work: (origin: Origin) => Promise<T>,
  options: OriginOptions = {},
): Promise<T> {
  const origin = await openOrigin("origin", {
    repository: openRepository(dir),
    env: {},
    ...options,
  });
  try {
    return await work(origin);
  } finally {
    origin.close();
  }
}

const mainOf = (dir: string, options: OriginOptions = {}) =>
  withOrigin(
    dir,
    async (origin) => (await origin.refs(["refs/heads/"])).refs.get("refs/heads/main"),
    options,
  );

const failsWith = (work: Promise<unknown>, code: ErrorCode, words = /./) =>
  assert.rejects(work, (error) => {
    assert.ok(isAgentqError(error, code), String(error));
    assert.match(`${error.message} ${error.hint}`, words);
    return true;
  });

test("http.extraHeader: those that git sends, in its order", async () => {
  const seen: string[][] = [];
  const recorder = http.createServer((request, response) => {
    const { rawHeaders } = request;
    seen.push(rawHeaders.filter((_, i) => /^x-/i.test(rawHeaders[i - (i % 2)]!)));
    response.writeHead(404);
    response.end();
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => recorder.once("listening", resolve));
  const place = `http://127.0.0.1:${(recorder.address() as AddressInfo).port}`;
  const general = "http.extraHeader";
  const host = `http.${place}/.extraHeader`;
  const path = `http.${place}/a.extraHeader`;
  for (
    const lines of [
      [[host, "X-A: host"], [general, "X-A: general"]],
      [[general, "X-A: general"], [host, "X-A: host"], [path, "X-B: path"]],
      [[general, "X-A: general"], [path, ""], [path, "X-A: path"], [host, "X-B: host"]],
      [[general, "X-A: 1"], [general, "X-A: 2"], [general, "x-a:3"], [general, "X-None:"]],
      [["http.https://127.0.0.1/.extraHeader", "X-A: other"], [general, "X-A: general"]],
    ] as [string, string][][]
  ) {
    const dir = clone(lines);
    git(dir, "remote", "set-url", "origin", `${place}/a/repo.git`);
    const child = spawn("git", ["ls-remote", "origin"], {
      cwd: dir,
      env: {
        PATH: process.env.PATH ?? "",
        GIT_CONFIG_GLOBAL: "/dev/null",
        GIT_CONFIG_NOSYSTEM: "1",
      },
      stdio: "ignore",
    });
    await new Promise((resolve) => child.once("close", resolve));
    await failsWith(mainOf(dir), "origin-not-found");
    assert.equal(seen.length, 2);
    assert.deepEqual(seen[1], seen[0], JSON.stringify(lines));
    seen.length = 0;
  }
  recorder.close();
  recorder.closeAllConnections();
});

test("answers may be compressed, requests are where that is worth it", async () => {
  server.tamper = (_exchange, body) => ({
    body: gzipSync(body),
    headers: { "Content-Encoding": "gzip" },
  });
  const dir = clone();
  assert.equal(await mainOf(dir), first);
  assert.match(String(server.log.at(-1)!.headers["accept-encoding"]), /gzip/);
  const empty = makeRepo();
  git(empty, "remote", "add", "origin", `${server.url}/repo.git`);
  await withOrigin(empty, (origin) => origin.fetch([first], openRepository(empty).objects));
  assert.equal(git(empty, "cat-file", "-p", `${first}:a.txt`), "a");
  server.tamper = null;

  // Many refs of our own are told to the server.
  for (let i = 0; i < 40; i++) commit(dir, `c${i}`);
  git(dir, "branch", "-q", "far");
  for (let i = 1; i < 40; i++) git(dir, "branch", "-q", `b${i}`, `HEAD~${i}`);
  const next = git(bare, "commit-tree", `${first}^{tree}`, "-p", first, "-m", "next");
  git(bare, "update-ref", "refs/heads/next", next);
  const at = server.log.length;
  await withOrigin(dir, (origin) => origin.fetch([next], openRepository(dir).objects));
  const posts = server.log.slice(at).filter(({ method }) => method === "POST");
  const [post] = posts.filter(({ headers }) => headers["content-encoding"] === "gzip");
  assert.ok(post, "no compressed request");
  assert.equal(Number(post.headers["content-length"]), post.body.length);
  assert.match(gunzipSync(post.body).toString("latin1"), /command=fetch/);
  assert.equal(git(dir, "rev-parse", `${next}^`), first);
});

test("http.postBuffer sends a large push in one piece; a server that needs that is told so", async () => {
  const dir = clone();
  const next = commit(dir, "large", { "big.bin": randomBytes(3_000_000) });
  server.intercept = ({ method, headers }, response) => {
    if (method !== "POST" || headers["content-length"] !== undefined) return false;
    response.writeHead(411);
    response.end();
    return true;
  };
  const push = () =>
    withOrigin(dir, (origin) =>
      origin.push(
        [{ ref: "refs/heads/large", old: null, new: next }],
        openRepository(dir).objects,
        { remoteHas: [first] },
      ));
  try {
    await failsWith(push(), "server-error", /http\.postBuffer/);
    assert.equal(git(bare, "for-each-ref", "refs/heads/large"), "");
    git(dir, "config", "http.postBuffer", "8m");
    assert.deepEqual(await push(), { status: "won" });
  } finally {
    server.intercept = null;
  }
});

test("http.lowSpeedLimit and lowSpeedTime end a trickle, not a slow start", async () => {
  const dir = clone([["http.lowSpeedTime", "1"]]);
  const trickle = http.createServer((_request, response) => {
    response.writeHead(200, { "Content-Type": "application/x-git-upload-pack-advertisement" });
    response.flushHeaders();
    const body = Buffer.from("001e# service=git-upload-pack\n0000000eversion 2\n0000");
    let sent = 0;
    const timer = setInterval(() => {
      if (sent === body.length) {
        clearInterval(timer);
        return void response.end();
      }
      response.write(body.subarray(sent, ++sent));
    }, 60);
    response.on("close", () => clearInterval(timer));
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => trickle.once("listening", resolve));
  const { port } = trickle.address() as AddressInfo;
  git(dir, "remote", "set-url", "origin", `http://127.0.0.1:${port}/x`);
  // Not silent: with no limit it goes on to the end, and then there is no list.
  await failsWith(mainOf(dir), "protocol-error");
  git(dir, "config", "http.lowSpeedLimit", "1000");
  await failsWith(mainOf(dir), "origin-timeout", /lowSpeedLimit/);
  const env = { GIT_HTTP_LOW_SPEED_LIMIT: "1" };
  await failsWith(mainOf(dir, { env }), "protocol-error");
  trickle.close();
  trickle.closeAllConnections();
});

test("http.followRedirects: never, for the first request, always", async () => {
  const dir = clone();
  const type = "application/x-git-upload-pack-advertisement";
  git(dir, "remote", "set-url", "origin", `${server.url}/old/repo.git`);
  server.intercept = ({ url: path }, response) => {
    if (!path.startsWith("/old/")) return false;
    response.writeHead(307, { Location: path.replace("/old/", "/") });
    response.end();
    return true;
  };
  try {
    assert.equal(await mainOf(dir), first);
    git(dir, "config", "http.followRedirects", "false");
    await failsWith(mainOf(dir), "protocol-error", /followRedirects/);
    // The second request is sent elsewhere: on the first day, and for good.
    git(dir, "remote", "set-url", "origin", `${server.url}/old/repo.git`);
    server.intercept = ({ method, url: path }, response) => {
      if (!path.startsWith("/old/")) return false;
      const location = path.replace("/old/", "/");
      if (method === "GET") {
        response.writeHead(200, { "Content-Type": type });
        response.end(
          "001e# service=git-upload-pack\n0000000eversion 2\n000afetch\n000cls-refs\n0000",
        );
      } else {
        response.writeHead(308, { Location: location });
        response.end();
      }
      return true;
    };
    git(dir, "config", "http.followRedirects", "initial");
    await failsWith(mainOf(dir), "server-error", /308/);
    git(dir, "config", "http.followRedirects", "true");
    assert.equal(await mainOf(dir), first);
  } finally {
    server.intercept = null;
  }
});

test("remote.<name>.proxy comes before http.proxy, and is asked for in vain only where it is down", async () => {
  const seen: string[] = [];
  const proxy = net.createServer((client) => {
    client.once("data", (data: Buffer) => {
      seen.push(data.toString("latin1").split("\r\n")[0]!);
      client.end("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    });
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => proxy.once("listening", resolve));
  const { port } = proxy.address() as AddressInfo;
  const dir = clone([
    ["http.proxy", "http://127.0.0.1:1"],
    ["remote.origin.proxy", `http://127.0.0.1:${port}`],
  ]);
  await failsWith(mainOf(dir), "origin-not-found");
  assert.match(seen[0]!, /^GET http:\/\/127\.0\.0\.1:\d+\/repo\.git\/info\/refs/);
  git(dir, "config", "remote.origin.proxy", "");
  assert.equal(await mainOf(dir), first, "an empty one means none");
  proxy.close();
});
