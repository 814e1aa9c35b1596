/** Certificates for servers on loopback. */
import assert from "node:assert/strict";
import type { Buffer } from "node:buffer";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { tempDir, write } from "../../helpers/git.ts";

export function openssl(dir: string, ...args: string[]): void {
  const run = spawnSync("openssl", args, { cwd: dir });
  assert.equal(run.status, 0, run.stderr?.toString());
}

/** An authority of our own and a certificate of it for 127.0.0.1. */
export function certificates(): { dir: string; key: Buffer; cert: Buffer } {
  const dir = tempDir();
  const key = ["-newkey", "rsa:2048", "-nodes", "-days", "2"];
  openssl(dir, "req", "-x509", ...key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=test");
  openssl(dir, "req", ...key.slice(0, 3), "-keyout", "s.key", "-out", "s.csr", "-subj", "/CN=s");
  write(dir, "ext", "subjectAltName=IP:127.0.0.1,DNS:origin.example\n");
  const sign = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2"];
  openssl(dir, "x509", "-req", "-in", "s.csr", ...sign, "-extfile", "ext", "-out", "s.pem");
  return { dir, key: readFileSync(join(dir, "s.key")), cert: readFileSync(join(dir, "s.pem")) };
}
