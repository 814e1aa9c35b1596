/** What a store runs on: the real platform unless a test says otherwise, limits, and waiting. */
import { Buffer } from "node:buffer";
import { nodeFiles } from "../platform/files.ts";
import { randomBytes } from "../platform/hash.ts";
import { hostProbe, processIdentity } from "../platform/host.ts";
import type { LockWait } from "./lock.ts";
import type { StoreLimits, StoreOptions, StorePlatform } from "./types.ts";

export const DEFAULT_LIMITS: StoreLimits = {
  maxPayloadBytes: 16 * 1024 * 1024,
  maxStateBytes: 8 * 1024 * 1024,
  maxSlots: 10_000,
};

const DEFAULT_LOCK_TIMEOUT_MS = 45_000;

export function storePlatform(options: StoreOptions): StorePlatform {
  const given = options.platform ?? {};
  return {
    files: given.files ?? nodeFiles,
    identity: given.identity ?? processIdentity(),
    probe: given.probe ?? hostProbe(),
    token: given.token ?? randomToken,
    sleep: given.sleep ?? ((ms) => new Promise((resolve) => setTimeout(resolve, ms))),
  };
}

const TOKEN_BYTES = 16;
let pool = new Uint8Array();

/** 128 random bits; a transaction needs several, so that they are drawn in bulk. */
function randomToken(): string {
  if (pool.length < TOKEN_BYTES) pool = randomBytes(TOKEN_BYTES * 64);
  const token = Buffer.from(pool.subarray(0, TOKEN_BYTES)).toString("hex");
  pool = pool.subarray(TOKEN_BYTES);
  return token;
}

export function storeWait(root: string, options: StoreOptions): LockWait {
  return {
    root,
    timeoutMs: options.lockTimeoutMs ?? DEFAULT_LOCK_TIMEOUT_MS,
    recoverStale: options.recoverStale ?? process.env.AGENTQ_RECOVER_STALE === "1",
    signal: options.signal,
  };
}
