/** What a store runs on: the real platform unless a test says otherwise, limits, and waiting. */
import { randomBytes } from "node:crypto";
import process from "node:process";
import { nodeFiles } from "../platform/files.ts";
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
    token: given.token ?? (() => randomBytes(16).toString("hex")),
    sleep: given.sleep ?? ((ms) => new Promise((resolve) => setTimeout(resolve, ms))),
  };
}

export function storeWait(root: string, options: StoreOptions): LockWait {
  return {
    root,
    timeoutMs: options.lockTimeoutMs ?? DEFAULT_LOCK_TIMEOUT_MS,
    recoverStale: options.recoverStale ?? process.env.AGENTQ_RECOVER_STALE === "1",
  };
}
