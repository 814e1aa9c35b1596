/** Who takes part in a queue: one id for each run, unique, and readable by people. */
import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import process from "node:process";

/** `<host>-<pid>-<nonce>` */
export function participantId(): string {
  const host = hostname().replace(/[^A-Za-z0-9.]+/g, "-").replace(/^[-.]+|[-.]+$/g, "") || "host";
  return `${host.slice(0, 64)}-${process.pid}-${randomBytes(6).toString("hex")}`;
}

/** A random id for one submission: what makes enqueueing it idempotent. */
export function submissionId(): string {
  return randomBytes(16).toString("hex");
}
