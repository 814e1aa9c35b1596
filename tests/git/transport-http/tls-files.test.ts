/** Files for TLS that can't be used are told by setting and file, and servers that want a client's certificate as that. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { isAgentqError } from "../../../src/errors.ts";
import { openOrigin } from "../../../src/git/origin.ts";
import { openRepository } from "../../../src/git/repository.ts";
import { git, makeRepo, tempDir, write } from "../../helpers/git.ts";
import { certificates, openssl } from "./certificates.ts";

const { dir, key, cert } = certificates();
const at = (name: string) => join(dir, name);
openssl(dir, "x509", "-in", "ca.pem", "-outform", "der", "-out", "ca.der");
openssl(dir, "pkey", "-in", "s.key", "-aes128", "-passout", "pass:hunter2", "-out", "pkcs8.key");
const classic = ["-traditional", "-aes128", "-passout", "pass:hunter2"];
openssl(dir, "rsa", "-in", "s.key", ...classic, "-out", "classic.key");
openssl(dir, "pkey", "-in", "s.key", "-outform", "der", "-out", "der.key");
const other = ["-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=other"];
openssl(dir, "req", "-x509", ...other, "-keyout", "other.key", "-out", "other.pem");
const pem = (kind: string) => `-----BEGIN ${kind}-----\nAA==\n-----END ${kind}-----\n`;
write(dir, "broken.pem", pem("CERTIFICATE"));
write(dir, "broken.key", pem("PRIVATE KEY"));
write(dir, "late.pem", `${readFileSync(at("ca.pem"), "utf8")}${pem("CERTIFICATE")}`);
write(dir, "both.pem", Buffer.concat([cert, key]));

type Settings = Record<string, string>;

async function read(url: string, config: Settings, env: Settings): Promise<void> {
  const clone = makeRepo();
  for (const [name, value] of Object.entries(config)) git(clone, "config", name, value);
  const repository = openRepository(clone);
  const origin = await openOrigin(url, { repository, env });
  try {
    await origin.refs(["refs/"]);
  } finally {
    origin.close();
    repository.close();
  }
}

const pair = (cert: string, key: string) => ({ "http.sslCert": at(cert), "http.sslKey": at(key) });
const UNUSABLE: readonly (readonly [string, Settings, Settings, RegExp])[] = [
  [
    "authorities in DER",
    { "http.sslCAInfo": at("ca.der") },
    {},
    /^http.sslCAInfo .*ca\.der, .*PEM/,
  ],
  ["the same by the environment", {}, { GIT_SSL_CAINFO: at("ca.der") }, /^GIT_SSL_CAINFO /],
  ["authorities that can't be read", {}, { SSL_CERT_FILE: at("broken.pem") }, /^SSL_CERT_FILE /],
  ["one of several that can't be", {}, { GIT_SSL_CAINFO: at("late.pem") }, /late\.pem, .*be read/],
  ["a key where authorities belong", {}, { GIT_SSL_CAINFO: at("ca.key") }, /no certificate in PEM/],
  ["an encrypted key", pair("s.pem", "pkcs8.key"), {}, /^http.sslKey .*pkcs8\.key, .*encrypted/],
  ["one as it was written once", pair("s.pem", "classic.key"), {}, /classic\.key, .*encrypted/],
  ["a key in DER", pair("s.pem", "der.key"), {}, /der\.key, which holds no private key in PEM/],
  ["a key that can't be read", pair("s.pem", "broken.key"), {}, /broken\.key, .*can't be read/],
  [
    "another's key",
    pair("s.pem", "ca.key"),
    {},
    /^http.sslKey .*ca\.key, .*s\.pem \(http.sslCert\)/,
  ],
  [
    "another's key by the environment",
    { "http.sslCert": at("s.pem") },
    { GIT_SSL_KEY: at("ca.key") },
    /^GIT_SSL_KEY .*\(http.sslCert\)/,
  ],
  ["a certificate alone", { "http.sslCert": at("s.pem") }, {}, /s\.pem, .*http.sslKey names none/],
  ["a certificate in DER", pair("ca.der", "ca.key"), {}, /^http.sslCert .*ca\.der, .*PEM/],
  ["a certificate that can't be read", pair("broken.pem", "s.key"), {}, /broken\.pem, .*be read/],
];

for (const [what, config, env, message] of UNUSABLE) {
  test(`${what}: told before anything is opened`, () =>
    assert.rejects(read("https://127.0.0.1:1/x.git", config, env), (error) => {
      assert.ok(isAgentqError(error, "config-invalid"), String(error));
      assert.match(error.message, message);
      assert.ok(!String(error.stack).includes("hunter2"));
      return true;
    }));
}

/** OpenSSL's own server: it asks for a certificate of our authority, and answers what is no git server. */
async function wantsCertificate(version: "tls1_2" | "tls1_3"): Promise<[string, () => void]> {
  const server = spawn("openssl", [
    ...["s_server", "-accept", "127.0.0.1:0", "-www", `-${version}`, "-cert", at("s.pem")],
    ...["-key", at("s.key"), "-CAfile", at("ca.pem"), "-Verify", "2", "-verify_return_error"],
  ], { stdio: ["ignore", "pipe", "ignore"] });
  let said = "";
  const port = await new Promise<string>((resolve, reject) => {
    server.stdout.on("data", (chunk) => {
      said += chunk;
      const found = /ACCEPT \S+:(\d+)/.exec(said)?.[1];
      if (found) resolve(found);
    });
    server.once("exit", () => reject(new Error(`s_server ended: ${said}`)));
  });
  return [`https://127.0.0.1:${port}/x.git`, () => void server.kill("SIGKILL")];
}

for (const version of ["tls1_2", "tls1_3"] as const) {
  test(`${version}: a server that wants a client's certificate, or another one`, async () => {
    const [url, stop] = await wantsCertificate(version);
    const env = { GIT_SSL_CAINFO: at("ca.pem") };
    const refused = (config: Settings, message: RegExp) =>
      assert.rejects(read(url, config, env), (error) => {
        // By TLS 1.3 the request is on its way by then: the server's words may be lost in the cut.
        const isCut = version === "tls1_3" && isAgentqError(error, "origin-unreachable");
        assert.ok(isCut || isAgentqError(error, "tls-error"), String(error));
        if (!isCut) assert.match(error.message, message);
        assert.match(error.hint, /http\.sslCert and http\.sslKey/);
        return true;
      });
    try {
      await refused({}, /wants? (of )?a client certificate/);
      // Of an authority that nobody there knows.
      await refused(pair("other.pem", "other.key"), /not accept the client's certificate/);
      for (const config of [pair("s.pem", "s.key"), { "http.sslCert": at("both.pem") }]) {
        await assert.rejects(read(url, config, env), (error) => {
          assert.ok(isAgentqError(error, "protocol-error"), String(error));
          return true;
        });
      }
    } finally {
      stop();
    }
  });
}

test("in a directory of authorities what is no certificate is passed over", async () => {
  const directory = tempDir();
  write(directory, "ca.pem", readFileSync(at("ca.pem")));
  for (const name of ["ca.der", "ca.key", "broken.pem"]) {
    write(directory, name, readFileSync(at(name)));
  }
  write(directory, "README", "words\n");
  const [url, stop] = await wantsCertificate("tls1_3");
  try {
    const config = { ...pair("s.pem", "s.key"), "http.sslCAPath": directory };
    await assert.rejects(read(url, config, {}), (error) => isAgentqError(error, "protocol-error"));
  } finally {
    stop();
  }
});
