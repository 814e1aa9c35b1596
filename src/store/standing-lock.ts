/** A lock that makes every transaction on a store fail, seen without waiting for it or taking it. */
import type { AgentqError } from "../errors.ts";
import { absolutePath } from "../platform/directory.ts";
import { lstatOrNull } from "./admit.ts";
import { storePaths } from "./layout.ts";
import { locked } from "./lock.ts";
import { holderLiveness, type ObservedLock, observeLock } from "./observed-lock.ts";
import { storePlatform } from "./platform.ts";
import { findLocks } from "./stale.ts";
import type { StoreOptions, StorePlatform } from "./types.ts";

/** Whoever works in the store has its lock for less than this, in milliseconds. */
const MOMENT_MS = 2_000;
const PAUSE_MS = 50;

/**
 * The error that a transaction would end with after its wait, where the lock's owner is neither known to
 * run nor proved gone; null otherwise, and where there is no store.
 * @throws `io-error`
 */
export async function standingLock(
  root: string,
  options: Pick<StoreOptions, "platform"> = {},
): Promise<AgentqError | null> {
  const platform = storePlatform(options);
  const { root: path, namespace, lock } = storePaths(absolutePath(root));
  const look = () =>
    lstatOrNull(platform.files, namespace) === null ? null : unproved(platform, namespace, lock);
  let found = look();
  for (let waited = 0; found !== null && waited < MOMENT_MS; waited += PAUSE_MS) {
    await platform.sleep(PAUSE_MS);
    const now = look();
    found = now?.token === found.token ? now : null;
  }
  return found && locked({ root: path, timeoutMs: MOMENT_MS }, found.path, found, "unknown");
}

/** The lock, or what stands in the way of recovering from it. */
function unproved(platform: StorePlatform, namespace: string, path: string): ObservedLock | null {
  const lock = observeLock(platform, path);
  if (lock === null) return null;
  const liveness = holderLiveness(platform, lock);
  if (liveness === "unknown") return lock;
  if (liveness === "alive") return null;
  return findLocks(platform, namespace).find((other) =>
    other.path !== path && holderLiveness(platform, other) === "unknown"
  ) ?? null;
}
