/** The transfer lock: every transaction runs alone, in this process and on this store. */
import { AgentqError, isAgentqError } from "../errors.ts";
import { throwIfAborted } from "../platform/clock.ts";
import { startWaiting, type Waiting } from "../platform/waiting.ts";
import { type ExclusiveFile, tryExclusive } from "./exclusive.ts";
import { holderLiveness, type ObservedLock, observeLock } from "./observed-lock.ts";
import { shellWord } from "./shell-word.ts";
import { describeOwner, removeStaleLock } from "./stale.ts";
import type { StorePlatform } from "./types.ts";

export interface LockWait {
  readonly timeoutMs: number;
  readonly recoverStale: boolean;
  /** For the command that the error names. */
  readonly root: string;
  /** Ends waiting, with its reason; a lock that is free is taken all the same. */
  readonly signal?: AbortSignal | undefined;
}

const SHORTEST_PAUSE_MS = 1;
const LONGEST_PAUSE_MS = 50;
/** A waiter asks about the same owner again only so often: it may have died meanwhile. */
const PROOF_INTERVAL_MS = 250;

/**
 * Waits for the lock, bounded, with jitter. Never breaks it by age: `store-locked` names the owner and
 * the command that would recover it, at once when the owner is proved gone.
 */
export async function acquireLock(
  platform: StorePlatform,
  path: string,
  wait: LockWait,
): Promise<ExclusiveFile> {
  const waiting = startWaiting();
  try {
    return await waitForLock(platform, path, wait, waiting);
  } finally {
    waiting.over();
  }
}

async function waitForLock(
  platform: StorePlatform,
  path: string,
  wait: LockWait,
  waiting: Waiting,
): Promise<ExclusiveFile> {
  const started = performance.now();
  let pause = SHORTEST_PAUSE_MS;
  let provedAt = -Infinity;
  let provedToken: string | null = null;
  let observed: ObservedLock | null = null;
  while (true) {
    // Trying costs files; while somebody visibly holds the lock, looking is enough.
    if (observed === null) {
      const held = tryExclusive(platform, path);
      if (held !== null) return held;
    }
    observed = observeLock(platform, path);
    const now = performance.now();
    const expired = now - started >= wait.timeoutMs;
    if (observed === null) {
      if (expired) throw locked(wait, path, null, "unknown");
      continue;
    }
    if (observed.token !== provedToken || now - provedAt >= PROOF_INTERVAL_MS || expired) {
      provedToken = observed.token;
      provedAt = now;
      const liveness = holderLiveness(platform, observed);
      if (liveness === "gone") {
        if (!wait.recoverStale) throw locked(wait, path, observed, liveness);
        if (recover(platform, observed)) {
          observed = null;
          continue;
        }
      }
      if (expired) throw locked(wait, path, observed, liveness);
    }
    throwIfAborted(wait.signal);
    const holder = observed;
    waiting.still(() => `waiting for the store's lock, held by ${describeOwner(holder)}`);
    await platform.sleep(pause * (0.5 + Math.random()));
    pause = Math.min(pause * 1.5, LONGEST_PAUSE_MS);
  }
}

/** Where another's dead recovery stands in the way and can't be proved dead, waiting goes on. */
function recover(platform: StorePlatform, observed: ObservedLock): boolean {
  try {
    return removeStaleLock(platform, observed, "proved");
  } catch (error) {
    if (isAgentqError(error, "unlock-refused")) return false;
    throw error;
  }
}

/** The error of a lock that was waited for; `lock` null where nobody was seen to hold it at the end. */
export function locked(
  wait: Pick<LockWait, "root" | "timeoutMs">,
  path: string,
  lock: ObservedLock | null,
  liveness: string,
): AgentqError {
  if (lock === null) {
    return new AgentqError("store-locked", `${path} was never free for ${wait.timeoutMs} ms`);
  }
  const store = `--store ${shellWord(wait.root)}`;
  const gone = liveness === "gone";
  return new AgentqError(
    "store-locked",
    `${path} is held by ${describeOwner(lock)}` + (gone ? ", which has ended" : ""),
    {
      hint: gone
        ? `Its owner is gone: agentq store unlock ${store}, or run with --recover-stale.`
        : liveness === "alive"
        ? "Its owner is running: wait and try again."
        : `Try: agentq store unlock ${store}. If that can't prove anything and you have made sure ` +
          `that no process uses the store: agentq store unlock ${store} --owner-token ` +
          `${lock.token} --i-have-checked`,
      details: { path, ownerToken: lock.token, owner: lock.owner, liveness },
    },
  );
}
