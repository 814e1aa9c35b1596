/** Who takes part in a queue: one id for each run, unique, and readable by people. */
import { Buffer } from "node:buffer";
import { hostname } from "node:os";

/** `<host>-<pid>-<nonce>` */
export function participantId(): string {
  const host = hostname().replace(/[^A-Za-z0-9.]+/g, "-").replace(/^[-.]+|[-.]+$/g, "") || "host";
  return `${host.slice(0, 64)}-${process.pid}-${randomHex(6)}`;
}

/** A random id for one submission: what makes enqueueing it idempotent. */
export function submissionId(): string {
  return randomHex(16);
}

/** The global generator: node:crypto costs a run milliseconds to load. */
function randomHex(bytes: number): string {
  return Buffer.from(crypto.getRandomValues(new Uint8Array(bytes))).toString("hex");
}
