import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { readFileSync } from "node:fs";
import net, { type AddressInfo } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { isAgentqError } from "../../../src/errors.ts";
import { openConfig } from "../../../src/git/config.ts";
import { parseNetrc } from "../../../src/git/http/netrc.ts";
import { httpSettings, proxyFor } from "../../../src/git/http/settings.ts";
import { openOrigin, type OriginOptions } from "../../../src/git/origin.ts";
import { openRepository } from "../../../src/git/repository.ts";
import { commit, git, makeRepo, tempDir, write } from "../../helpers/git.ts";
import { certificates } from "./certificates.ts";
import { type GitServer, serveGit } from "./server.ts";

async function withTls(
  work: (server: GitServer, first: string, ca: string) => Promise<void>,
): Promise<void> {
  const { dir, key, cert } = certificates();
  const root = tempDir();
  const clone = makeRepo();
  const first = commit(clone, "first");
  git(root, "clone", "-q", "--bare", clone, "repo.git");
  const server = await serveGit(root, { tls: { key, cert } });
  try {
    await work(server, first, join(dir, "ca.pem"));
  } finally {
    await server.close();
  }
}

async function readMain(url: string, options: OriginOptions): Promise<string | undefined> {
  const origin = await openOrigin(url, options);
  try {
    return (await origin.refs(["refs/heads/"])).refs.get("refs/heads/main");
  } finally {
    origin.close();
  }
}

test("TLS: only a certificate that can be trusted, by whatever setting names the authority", () =>
  withTls(async (server, first, ca) => {
    const url = `${server.url}/repo.git`;
    const clone = makeRepo();
    const repository = openRepository(clone);
    await assert.rejects(
      readMain(url, { env: {} }),
      (error) => isAgentqError(error, "tls-error"),
    );
    assert.deepEqual(server.log, []);
    assert.equal(await readMain(url, { env: { GIT_SSL_CAINFO: ca } }), first);
    assert.equal(await readMain(url, { env: { GIT_SSL_NO_VERIFY: "1" } }), first);
    git(clone, "config", "http.sslCAInfo", ca);
    assert.equal(await readMain(url, { repository: openRepository(clone), env: {} }), first);
    git(clone, "config", "--unset", "http.sslCAInfo");
    // A directory of authorities, with others' certificates in it.
    const many = tempDir();
    write(many, "mine.pem", readFileSync(ca));
    git(clone, "config", "http.sslCAPath", many);
    assert.equal(await readMain(url, { repository: openRepository(clone), env: {} }), first);
    git(clone, "config", "http.sslCAPath", join(many, "none"));
    await assert.rejects(
      readMain(url, { repository: openRepository(clone), env: {} }),
      (error) => isAgentqError(error, "config-invalid"),
    );
    git(clone, "config", "--unset", "http.sslCAPath");
    git(clone, "config", "http.sslVerify", "false");
    assert.equal(await readMain(url, { repository: openRepository(clone), env: {} }), first);
    git(clone, "config", `http.${server.url}.sslVerify`, "true");
    await assert.rejects(
      readMain(url, { repository: openRepository(clone), env: {} }),
      (error) => isAgentqError(error, "tls-error"),
    );
    await assert.rejects(
      readMain(url, { env: { GIT_SSL_CAINFO: "/no/such/file" } }),
      (error) => isAgentqError(error, "config-invalid"),
    );
    // The right authority, another name.
    const named = url.replace("127.0.0.1", "localhost");
    await assert.rejects(
      readMain(named, { env: { GIT_SSL_CAINFO: ca } }),
      (error) => isAgentqError(error, "tls-error"),
    );
    repository.close();
  }));

/** A proxy: tunnels with CONNECT, forwards everything else; wants a password when given one. */
async function startProxy(password: string | null): Promise<{
  port: number;
  seen: string[];
  close(): void;
}> {
  const seen: string[] = [];
  const sockets = new Set<net.Socket>();
  const listener = net.createServer((client) => {
    sockets.add(client);
    client.on("error", () => {});
    client.once("data", (data: Buffer) => {
      const head = data.toString("latin1");
      seen.push(head.slice(0, head.indexOf("\r\n")));
      const wanted = `Proxy-Authorization: Basic ${Buffer.from(password ?? "").toString("base64")}`;
      if (password !== null && !head.includes(wanted)) {
        client.end("HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n");
        return;
      }
      const connect = /^CONNECT ([^:]+):(\d+) /.exec(head);
      const plain = /^\w+ http:\/\/([^:/]+):(\d+)/.exec(head);
      const [, host, port] = (connect ?? plain)!;
      const upstream = net.connect(Number(port), host === "origin.example" ? "127.0.0.1" : host);
      sockets.add(upstream);
      upstream.on("error", () => client.destroy());
      upstream.once("connect", () => {
        if (connect) client.write("HTTP/1.1 200 OK\r\n\r\n");
        // A request on a connection that is kept may come in one chunk or several.
        const forward = (chunk: Buffer) => {
          const text = chunk.toString("latin1").replace(/^(\w+) http:\/\/[^/]+/, "$1 ");
          upstream.write(Buffer.from(text, "latin1"));
        };
        if (connect) client.pipe(upstream);
        else {
          forward(data);
          client.on("data", forward);
        }
        upstream.pipe(client);
      });
    });
  });
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", () => resolve()));
  return {
    port: (listener.address() as AddressInfo).port,
    seen,
    close() {
      listener.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

test("proxies: tunnels for https, whole urls for http, passwords, exceptions", () =>
  withTls(async (server, first, ca) => {
    const proxy = await startProxy("me:secret");
    const https = { GIT_SSL_CAINFO: ca, https_proxy: `http://me:secret@127.0.0.1:${proxy.port}` };
    // A name that only the proxy knows.
    const named = `https://origin.example:${server.port}/repo.git`;
    assert.equal(await readMain(named, { env: https }), first);
    assert.deepEqual(proxy.seen, [`CONNECT origin.example:${server.port} HTTP/1.1`]);
    await assert.rejects(
      readMain(named, { env: { ...https, https_proxy: `http://127.0.0.1:${proxy.port}` } }),
      (error) => isAgentqError(error, "auth-required"),
    );
    const direct = `${server.url}/repo.git`;
    const before = proxy.seen.length;
    assert.equal(await readMain(direct, { env: { ...https, no_proxy: "x,127.0.0.1" } }), first);
    assert.equal(proxy.seen.length, before);
    proxy.close();
    await assert.rejects(
      readMain(named, { env: https }),
      (error) => isAgentqError(error, "origin-unreachable"),
    );

    const open = await startProxy(null);
    const root = tempDir();
    const clone = makeRepo();
    const other = commit(clone, "plain");
    git(root, "clone", "-q", "--bare", clone, "repo.git");
    const plain = await serveGit(root);
    const http = { http_proxy: `127.0.0.1:${open.port}` };
    assert.equal(await readMain(`${plain.url}/repo.git`, { env: http }), other);
    assert.match(
      open.seen[0]!,
      new RegExp(`^GET http://127.0.0.1:${plain.port}/repo.git/info/refs`),
    );
    open.close();
    await plain.close();
  }));

test("proxyFor() and httpSettings() choose as git does", () => {
  const clone = makeRepo();
  git(clone, "config", "http.proxy", "http://general:1");
  git(clone, "config", "http.https://host.example/.proxy", "http://host:2");
  git(clone, "config", "http.https://host.example/team/.proxy", "http://team:3");
  git(clone, "config", "http.https://*.wild.example/.proxy", "http://wild:4");
  const { config } = openRepository(clone);
  for (
    const url of [
      "https://elsewhere.example/x",
      "https://host.example/other/x",
      "https://host.example/team/x",
      "https://host.example/teams/x",
      "https://a.wild.example/x",
      "https://host.example:8443/x",
      "http://host.example/x",
    ]
  ) {
    const parsed = new URL(url);
    const ours = proxyFor(parsed, httpSettings(config, parsed), {})!.url.href.slice(0, -1);
    assert.equal(ours, git(clone, "config", "--get-urlmatch", "http.proxy", url), url);
  }
  const none = openConfig({ repository: null, env: { GIT_CONFIG_NOSYSTEM: "1" } });
  const via = (url: string, env: Record<string, string>) => {
    const parsed = new URL(url);
    return proxyFor(parsed, httpSettings(none, parsed), env)?.url.host ?? null;
  };
  assert.equal(via("http://h/", { HTTP_PROXY: "p:1" }), null, "set by any client of a CGI script");
  assert.equal(via("https://h/", { HTTPS_PROXY: "p:1" }), "p:1");
  assert.equal(via("http://h/", { ALL_PROXY: "p:1" }), "p:1");
  assert.equal(via("https://a.b/", { https_proxy: "p:1", no_proxy: ".b" }), null);
  assert.equal(via("https://ab/", { https_proxy: "p:1", no_proxy: "b" }), "p:1");
  assert.equal(via("https://a:444/", { https_proxy: "p:1", no_proxy: "a:443" }), "p:1");
  assert.equal(via("https://a/", { https_proxy: "p:1", no_proxy: "*" }), null);
  // Blocks of addresses, as curl has them since 7.86: of addresses that are written as such.
  for (
    const [host, no_proxy, direct] of [
      ["127.1.2.3", "127.0.0.0/8", true],
      ["128.0.0.1", "127.0.0.0/8", false],
      ["10.1.2.3", "x,10.1.2.0/24 y", true],
      ["10.1.3.3", "10.1.2.0/24", false],
      ["10.1.2.3", "10.1.2.3/32", true],
      ["10.1.2.3", "0.0.0.0/0", true],
      ["10.1.2.3", "10.1.2.0/33", false],
      ["10.1.2.3", "10.1.2/24", false],
      ["[fd00::1]", "fd00::/8", true],
      ["[fe80::1]", "fd00::/8", false],
      ["[::1]", "0.0.0.0/0", false],
      ["a", "0.0.0.0/0", false],
    ] as const
  ) {
    const found = via(`https://${host}/`, { https_proxy: "p:1", no_proxy });
    assert.equal(found === null, direct, `${host} ${no_proxy}`);
  }
});

test("parseNetrc() reads what curl reads", () => {
  const text = "machine a login x password 1\nmacdef init\nmachine a login evil password 0\n\n" +
    'machine b\n  login "y z"\n  password "q\\"r"\nmachine b login w password 3\n' +
    "# machine c login no password no\ndefault login d password 4\n";
  assert.deepEqual(parseNetrc(text, "a", ""), { username: "x", password: "1" });
  assert.deepEqual(parseNetrc(text, "B", ""), { username: "y z", password: 'q"r' });
  assert.deepEqual(parseNetrc(text, "b", "w"), { username: "w", password: "3" });
  assert.deepEqual(parseNetrc(text, "c", ""), { username: "d", password: "4" });
  assert.equal(parseNetrc("machine a login x", "a", ""), null);
});

test("parseNetrc() passes over macros whole, up to an empty line", () => {
  const body =
    "quote site machine a login bad password bad\nmachine a login worse password worse\n";
  const entry = "machine a login x password 1\n";
  const right = { username: "x", password: "1" };
  for (const end of ["\n", "  \t\n", "\r\n"]) {
    assert.deepEqual(parseNetrc(`macdef init\n${body}${end}${entry}`, "a", ""), right);
    const before = "machine b login b password b macdef init\n";
    assert.deepEqual(parseNetrc(`${before}${body}${end}${entry}`, "a", ""), right);
  }
  assert.equal(parseNetrc(`macdef init\n${body}`, "a", ""), null);
  const odd = "machine a login macdef password macdef\nmachine b login y password 2\n";
  assert.deepEqual(parseNetrc(odd, "a", ""), { username: "macdef", password: "macdef" });
  assert.deepEqual(parseNetrc(odd, "b", ""), { username: "y", password: "2" });
});

test("a stop is obeyed while a handshake or a proxy is waited for", async () => {
  const sockets = new Set<net.Socket>();
  let accepted: () => void = () => {};
  const silent = net.createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    // Whatever it says first, a hello or a CONNECT: it waits for the answer from here on.
    socket.once("data", () => accepted());
  });
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", () => resolve()));
  const at = `127.0.0.1:${(silent.address() as AddressInfo).port}`;
  try {
    for (
      const [url, env] of [
        [`https://${at}/repo.git`, {}],
        ["https://localhost:1/repo.git", { https_proxy: `http://${at}` }],
        ["https://localhost:1/repo.git", { https_proxy: `https://${at}` }],
        ["http://localhost:1/repo.git", { http_proxy: `https://${at}` }],
      ] as const
    ) {
      const stop = new AbortController();
      const reason = new Error("stopped");
      accepted = () => stop.abort(reason);
      const origin = await openOrigin(url, { env, timeouts: { connect: 10_000 } });
      await assert.rejects(origin.refs(["refs/"], stop.signal), (error) => error === reason);
      await assert.rejects(origin.refs(["refs/"], stop.signal), (error) => error === reason);
      origin.close();
    }
  } finally {
    for (const socket of sockets) socket.destroy();
    silent.close();
  }
});
