import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import fc from "fast-check";
import { isAgentqError } from "../../../src/errors.ts";
import { openConfig } from "../../../src/git/config.ts";
import { FLUSH, pktLine, pktReader, pktText, sideband } from "../../../src/git/pkt-line.ts";
import { parseRemoteUrl, redactUrl, resolveRemote } from "../../../src/git/remote.ts";
import { openRepository } from "../../../src/git/repository.ts";
import { openOrigin } from "../../../src/git/origin.ts";
import { homeOfUser } from "../../../src/platform/users.ts";
import { commit, git, makeRepo, tempDir, tryGit } from "../../helpers/git.ts";

async function* chunksOf(data: Uint8Array, sizes: number[]): AsyncGenerator<Uint8Array> {
  for (let at = 0, i = 0; at < data.length; i++) {
    const size = Math.max(1, sizes[i % Math.max(1, sizes.length)] ?? 1);
    yield data.subarray(at, at + size);
    at += size;
  }
}

test("packets survive any chopping of the stream", async () => {
  const payloads = fc.array(fc.uint8Array({ minLength: 1, maxLength: 300 }), { maxLength: 8 });
  await fc.assert(
    fc.asyncProperty(payloads, fc.array(fc.integer({ min: 1, max: 50 })), async (list, sizes) => {
      const data = Buffer.concat([...list.map((one) => pktLine(one)), FLUSH, Buffer.from("rest")]);
      const reader = pktReader(chunksOf(data, sizes));
      for (const payload of list) {
        const packet = await reader.packet();
        assert.ok(packet?.kind === "data" && packet.payload.equals(payload));
      }
      assert.deepEqual(await reader.packet(), { kind: "flush" });
      const rest: Buffer[] = [];
      for await (const chunk of reader.rest()) rest.push(Buffer.from(chunk));
      assert.equal(Buffer.concat(rest).toString(), "rest");
    }),
    { numRuns: 100 },
  );
});

test("broken framing is a protocol error, a clean end is none", async () => {
  for (
    const text of ["0", "00", "000", "0003", "zzzz", "0008abc", "fff5" + "x".repeat(70000), "-001"]
  ) {
    const reader = pktReader(chunksOf(Buffer.from(text), [3]));
    await assert.rejects(reader.packet(), (error) => isAgentqError(error, "protocol-error"), text);
  }
  assert.equal(await pktReader(chunksOf(Buffer.alloc(0), [])).packet(), null);
  assert.equal(pktText({ kind: "data", payload: Buffer.from("a b\n") }), "a b");
});

test("side bands are told apart; band 3 and a missing end are errors", async () => {
  const band = (n: number, text: string) =>
    pktLine(Buffer.concat([Buffer.from([n]), Buffer.from(text)]));
  const read = async (...parts: Buffer[]) => {
    let said = "";
    let data = "";
    const reader = pktReader(chunksOf(Buffer.concat(parts), [5]));
    for await (const chunk of sideband(reader, (text) => said += text)) data += chunk.toString();
    return { said, data };
  };
  assert.deepEqual(await read(band(1, "da"), band(2, "hello\n"), band(1, "ta"), FLUSH), {
    said: "hello\n",
    data: "data",
  });
  await assert.rejects(
    read(band(1, "da"), band(3, "no")),
    (error) => isAgentqError(error, "server-error"),
  );
  await assert.rejects(read(band(1, "da")), (error) => isAgentqError(error, "protocol-error"));
});

test("urls are read as git reads them", () => {
  const kind = (url: string) => parseRemoteUrl(url, "/base");
  assert.deepEqual(kind("/srv/x.git"), { kind: "file", path: "/srv/x.git" });
  assert.deepEqual(kind("../x"), { kind: "file", path: "/x" });
  assert.deepEqual(kind("./a:b"), { kind: "file", path: "/base/a:b" });
  assert.deepEqual(kind("file:///srv/a%20b"), { kind: "file", path: "/srv/a b" });
  assert.equal(kind("https://h/x").kind, "http");
  assert.equal(kind("git://h/x").kind, "git");
  assert.deepEqual(kind("git@host:team/x.git"), {
    kind: "ssh",
    host: "host",
    user: "git",
    port: null,
    path: "team/x.git",
  });
  assert.deepEqual(kind("ssh://me@[::1]:2222/srv/x"), {
    kind: "ssh",
    host: "::1",
    user: "me",
    port: 2222,
    path: "/srv/x",
  });
  assert.deepEqual(kind("ssh://h/~me/x"), {
    kind: "ssh",
    host: "h",
    user: null,
    port: null,
    path: "~me/x",
  });
  assert.deepEqual(kind("[h:22]:x"), { kind: "ssh", host: "h", user: null, port: 22, path: "x" });
  for (
    const url of [
      "ext::sh -c x",
      "ssh://-oProxyCommand=x/y",
      "-x:y",
      "ftp://h/x",
      "a:-b",
      "https://",
      "x\ny",
    ]
  ) {
    assert.throws(() => kind(url), (error) => isAgentqError(error, "url-unsupported"), url);
  }
});

test("host, user and port of an address are those that git hands to ssh", () => {
  const dir = tempDir();
  const program = join(dir, "ssh");
  writeFileSync(program, `#!/bin/sh\nprintf '%s\\n' "$@" > ${dir}/said\nexit 1\n`, { mode: 0o755 });
  for (
    const url of [
      "h:x",
      "me@h:x",
      "[h]:x",
      "[h:22]:x",
      "[me@h:22]:x",
      "me@[h:22]:x",
      "[::1]:x",
      "me@[::1]:x",
      "[me@::1]:x",
      "[fe80::1%eth0]:x",
      "ssh://[::1]/x",
      "ssh://me@[::1]:22/x",
      "ssh://me@h:22/x",
    ]
  ) {
    tryGit(dir, ["ls-remote", url], { env: { GIT_SSH: program, GIT_SSH_VARIANT: "ssh" } });
    const said = readFileSync(join(dir, "said"), "utf8").split("\n");
    const port = said.includes("-p") ? Number(said[said.indexOf("-p") + 1]) : null;
    const at = said.at(-3)!;
    const found = parseRemoteUrl(url, "/base");
    assert.ok(found.kind === "ssh");
    const ours = found.user === null ? found.host : `${found.user}@${found.host}`;
    assert.deepEqual([ours, found.port], [at, port], url);
  }
  assert.throws(
    () => parseRemoteUrl("hg::https://h/x", "/base"),
    (error) => isAgentqError(error, "url-unsupported") && /remote helpers/.test(error.message),
  );
});

test("a tilde is a home directory, and no directory of that name", () => {
  const env = { HOME: "/home/me" };
  const path = (url: string) => parseRemoteUrl(url, "/base", env);
  assert.deepEqual(path("~/x.git"), { kind: "file", path: "/home/me/x.git" });
  assert.deepEqual(path("~"), { kind: "file", path: "/home/me" });
  assert.deepEqual(path("./~/x"), { kind: "file", path: "/base/~/x" });
  assert.deepEqual(path("file:///~/x"), { kind: "file", path: "/~/x" });
  assert.deepEqual(path("~root/x"), { kind: "file", path: join(homeOfUser("root")!, "x") });
  for (const [url, env] of [["~nobody-of-that-name/x", {}], ["~/x", {}]] as const) {
    const read = () => parseRemoteUrl(url, "/base", env);
    assert.throws(read, (error) => isAgentqError(error, "url-unsupported"));
  }

  // The same by git: relative to a directory that has one called `~`, too.
  const [home, base] = [tempDir(), tempDir()];
  const work = makeRepo();
  const first = commit(work, "first");
  for (const at of [join(home, "x.git"), join(base, "~", "x.git")]) {
    git("/", "clone", "-q", "--bare", work, at);
  }
  git(join(home, "x.git"), "branch", "-m", "main", "at-home");
  const listed = tryGit(base, ["ls-remote", "~/x.git", "refs/heads/*"], { env: { HOME: home } });
  assert.equal(listed.stdout, `${first}\trefs/heads/at-home\n`);
  const found = parseRemoteUrl("~/x.git", base, { HOME: home });
  assert.deepEqual(found, { kind: "file", path: join(home, "x.git") });
});

test("a remote that git pushes to several places is no origin for a queue", async () => {
  const dir = makeRepo();
  const bare = tempDir();
  git(bare, "init", "-q", "--bare", ".");
  for (const name of ["two", "urls", "same", "one"]) git(dir, "remote", "add", name, bare);
  git(dir, "config", "--add", "remote.two.pushurl", "https://me:SECRET@a.example/x");
  git(dir, "config", "--add", "remote.two.pushurl", bare);
  git(dir, "config", "--add", "remote.urls.url", "/elsewhere");
  git(dir, "config", "--add", "remote.same.url", "alias:x");
  git(dir, "config", `url.${bare}.insteadOf`, "alias:x");
  git(dir, "config", "--add", "remote.one.url", "/elsewhere");
  git(dir, "config", "remote.one.pushurl", bare);
  const repository = openRepository(dir);
  for (const [name, setting] of [["two", "remote.two.pushurl"], ["urls", "remote.urls.url"]]) {
    await assert.rejects(openOrigin(name!, { repository }), (error) => {
      assert.ok(isAgentqError(error, "config-invalid"), String(error));
      assert.ok(error.message.includes(`(${setting})`), error.message);
      assert.match(error.hint, /--remote URL/);
      assert.doesNotMatch(JSON.stringify(error.details), /SECRET/);
      return true;
    });
  }
  (await openOrigin("urls", { repository, reading: true })).close();
  for (const name of ["same", "one", bare]) (await openOrigin(name, { repository })).close();
  repository.close();
});

test("redactUrl() leaves no secret", () => {
  assert.equal(redactUrl("https://u:p@h:1/x?token=1#f"), "https://h:1/x?…");
  assert.equal(redactUrl("https://p@ss@h/x"), "https://h/x");
  assert.equal(redactUrl("ssh://me:p@h/x"), "ssh://me@h/x");
  assert.equal(redactUrl("git@h:x"), "git@h:x");
  assert.equal(redactUrl("/srv/a@b"), "/srv/a@b");
  for (const kept of ["h:p@q", "https://h:80/x@y", "https://[::1]:80/@x", "https://h/@scope/x"]) {
    assert.equal(redactUrl(kept), kept);
  }
  // A slip, or a sign in the password that ends the place it stands in.
  for (
    const slip of [
      "https://user:SECRET/x@h/r",
      "https://user:SECRET#x@h/r",
      "https://user:SECRET?x@h/r",
      "https://user:x/SECRET@x@h/r",
      "https://user:SECRET",
      "user:SECRET@h:r",
      "https:/user:SECRET@h/r",
      "https//user:SECRET@h/r",
      "ext::https://user:SECRET@h/r",
    ]
  ) assert.doesNotMatch(redactUrl(slip), /SECRET/);
});

test("resolveRemote() gives the urls that git gives", () => {
  const dir = makeRepo();
  git(dir, "remote", "add", "origin", "gh:team/x");
  git(dir, "remote", "add", "both", "https://read/x");
  git(dir, "config", "remote.both.pushurl", "gh:write");
  git(dir, "config", "url.https://github.example/.insteadOf", "gh:");
  git(dir, "config", "url.ssh://push.example/.pushInsteadOf", "https://read/");
  const { config } = openRepository(dir);
  for (const name of ["origin", "both"]) {
    const remote = resolveRemote(config, name);
    assert.equal(remote.fetchUrl, git(dir, "remote", "get-url", name));
    assert.equal(remote.pushUrl, git(dir, "remote", "get-url", "--push", name));
  }
  assert.equal(resolveRemote(config, "gh:y").fetchUrl, "https://github.example/y");
  assert.throws(
    () => resolveRemote(config, "nosuch"),
    (error) => isAgentqError(error, "remote-unknown") && /origin/.test(error.hint),
  );
  assert.equal(resolveRemote(openConfig({ repository: null, env: {} }), "/x").pushUrl, "/x");
});
