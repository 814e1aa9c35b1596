/**
 * Lock files that keep everybody from moving refs of a repository on this machine's file system: for a
 * doctor, who names them and touches none.
 */
import { lstatSync } from "node:fs";
import { join } from "node:path";
import { type Clock, systemClock } from "../../platform/clock.ts";
import type { OriginLock } from "../types.ts";
import {
  adviseOnLock,
  breakStaleLock,
  describeOwner,
  type LockState,
  ownerLiveness,
  readLock,
} from "./ref-lock.ts";
import { resolveRef } from "./ref-transaction.ts";
import { refuseForeignOrigin } from "../ownership.ts";
import type { Repository } from "../repository.ts";
import { buryDead } from "./orphans.ts";

/** A push waits so long for a lock that somebody else holds: one that outlives that fails it. */
const PATIENCE_MS = 10_000;
/** One that is older than that already is looked at once more after this time. */
const MOMENT_MS = 500;
const PAUSE_MS = 50;

/** Removes what processes that are proved gone left in a repository that may be pushed to. Never throws. */
export function removeDeadLocks(repository: Repository, refs: readonly string[]): void {
  const { workTree, gitDir, commonDir, config, objects } = repository;
  try {
    refuseForeignOrigin({ workTree, gitDir, commonDir, config }, process.env);
    for (const name of new Set(refs.flatMap((ref) => resolveRef(commonDir, ref).chain))) {
      const lock = join(commonDir, `${name}.lock`);
      if (readLock(lock) !== "absent") breakStaleLock(lock, { lives: commonDir, life: null });
    }
    buryDead(commonDir, objects.packDirectory, null);
  } catch {
    // Not ours to tidy, or a disk that will say so to whoever needs it.
  }
}

interface Seen extends OriginLock {
  /** What tells this lock from the next one in its place. */
  readonly mark: string;
  readonly age: number;
}

/**
 * The locks of `refs` (and what they point to) that stay, held by nobody who is known to run. Those of
 * an agentq that is proved gone don't count: the next push removes them.
 */
export async function leftLocks(
  commonDir: string,
  refs: readonly string[],
  options: { readonly signal?: AbortSignal; readonly clock?: Clock } = {},
): Promise<OriginLock[]> {
  const { signal, clock = systemClock } = options;
  const names = new Set(refs.flatMap((ref) => resolveRef(commonDir, ref).chain));
  const look = () => [...names, null].flatMap((ref) => seen(commonDir, ref, clock));
  let left = look();
  const youngest = Math.min(...left.map(({ age }) => age));
  const until = clock.monotonic() + Math.max(MOMENT_MS, PATIENCE_MS - youngest);
  while (left.length > 0 && clock.monotonic() < until) {
    await clock.sleep(PAUSE_MS, signal);
    const now = new Set(look().map(({ mark }) => mark));
    left = left.filter(({ mark }) => now.has(mark));
  }
  return left.map(({ path, ref, owner, advice }) => ({ path, ref, owner, advice }));
}

function seen(commonDir: string, ref: string | null, clock: Clock): Seen[] {
  const path = join(commonDir, `${ref ?? "packed-refs"}.lock`);
  const state = readLock(path);
  if (state === "absent") return [];
  if (state !== "foreign" && ownerLiveness(state, commonDir) !== "unknown") return [];
  const stat = lstatSync(path, { throwIfNoEntry: false });
  if (!stat) return [];
  const age = clock.wall() - stat.mtimeMs;
  return [{
    path,
    ref,
    owner: describeOwner(state, commonDir),
    advice: adviseOnLock(state, path, commonDir),
    mark: `${path} ${stat.ino} ${stat.mtimeMs} ${nonceOf(state)}`,
    // A clock that differs from the file system's says nothing.
    age: age >= 0 ? age : 0,
  }];
}

const nonceOf = (state: LockState) => typeof state === "object" ? state.nonce : "";
