/**
 * The lock: who lands.
 *
 *     free ──acquire──▶ held ──renew every ttl/3──▶ held
 *      ▲                 │ │  entry by someone else, holder unchanged: control, adopted
 *      │                 │ └─ (looked at every 5 s) head is not ours any more: LOST, everything stops at once
 *      └────release──────┘
 *     held, head unchanged for ttl by a waiter's own monotonic clock ──takeover──▶ held by the waiter
 *
 * Every push is leased on the head last seen, so a holder that was paused, cut off or declared dead
 * can publish nothing: its lease is stale. The abort signal here only makes it stop early.
 */
import type { Clock } from "../platform/clock.ts";
import { type Control, lockCommit, readControl } from "./control.ts";
import { type HeldLock, hold, holderOf, type LockOptions } from "./held-lock.ts";
import { NO_TIP } from "./messages.ts";
import type { Oid } from "../git/types.ts";
import { faultOf, isLocked, isTurnedDown, pushOnce, turnedDown } from "./push.ts";
import { type Queue, readSnapshot, type Snapshot } from "./snapshot.ts";

/** How long a lock head has been the same, by our own monotonic clock. */
export interface LockWatch {
  /** Milliseconds since `head` was first seen without any other in between. */
  unchangedFor(head: Oid | null): number;
}

export function createLockWatch(clock: Clock): LockWatch {
  let seen: { head: Oid | null; since: number } | undefined;
  return {
    unchangedFor(head) {
      const now = clock.monotonic();
      if (!seen || seen.head !== head) seen = { head, since: now };
      return now - seen.since;
    },
  };
}

/**
 * Appends an entry that names us on the lock head in `snapshot`, whether that is free or given up for
 * dead. Null when someone else was faster.
 * @throws `ref-locked` where somebody's lock of that ref is in the way; what a server turned it down with
 */
export async function acquireLock(
  queue: Queue,
  snapshot: Snapshot,
  options: LockOptions,
  signal?: AbortSignal,
): Promise<HeldLock | null> {
  const { clock, me } = options;
  const found = await readControl(queue, snapshot.lock, signal);
  // Where a holder that went quiet saw the branch is kept until its half-done work is dealt with.
  const kept = holderOf(snapshot.lock) === null || found.tip === null
    ? { ...found, tip: snapshot.tip ?? NO_TIP }
    : found;
  // Our own entry is of a turn that couldn't give the lock back: nobody died of the ticket.
  const own = holderOf(snapshot.lock) === me;
  const control = own ? kept : { ...kept, deaths: deathsAfter(kept, snapshot) };
  const started = clock.monotonic();
  const made = lockCommit(snapshot.lockHead, {
    holder: me,
    by: me,
    at: clock.wall(),
    control,
  });
  const pushed = await pushOnce(queue, {
    updates: [{ ref: queue.names.lock, old: snapshot.lockHead, new: made.oid }],
    commits: [made],
  });
  if (pushed.status === "lost") return null;
  const fault = faultOf(pushed);
  await queue.chains.remember("lock", made);
  const held = hold(queue, options, {
    head: made.oid,
    control,
    started,
    interrupted: holderOf(snapshot.lock) === null ? null : found.tip,
  });
  if (pushed.status === "unknown") {
    // Our id is this run's alone: an entry that names us can only stem from this push.
    try {
      const now = await readSnapshot(queue, signal);
      if (!await held.exclusive(() => held.observe(now))) {
        // Nobody was faster where the push was turned down and the lock is where it was.
        if (fault && now.lockHead === snapshot.lockHead) {
          if (isLocked(fault)) throw fault;
          if (isTurnedDown(fault)) throw turnedDown(fault);
        }
        return null;
      }
    } catch (error) {
      await held.release(AbortSignal.abort());
      throw error;
    }
  }
  return held;
}

/** Counts a holder that went quiet against the ticket that was its to land. */
function deathsAfter({ deaths }: Control, snapshot: Snapshot): Control["deaths"] {
  if (holderOf(snapshot.lock) === null || snapshot.unacked === 0) return deaths;
  const before = deaths?.ticket === snapshot.next ? deaths.count : 0;
  return { ticket: snapshot.next, count: before + 1 };
}
