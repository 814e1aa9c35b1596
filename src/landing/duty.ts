/**
 * Landing duty: whoever waits for the queue looks at one snapshot every now and then, and when the
 * lock is free, or its holder has been quiet for a ttl by our own clock, takes it and lands.
 *
 *     snapshot ─▶ something to land, not paused, lock free or stale? ──no──▶ sleep, read again
 *                     │ yes
 *                     ▼
 *                  acquire ──lost──▶ read again
 *                     │ won
 *                     ▼
 *                  land tickets (lander.ts) ─▶ release, whatever happened
 */
import { type Clock } from "../platform/clock.ts";
import { isAgentqError } from "../errors.ts";
import type { Oid } from "../git/types.ts";
import type { ResultEntry } from "./chain.ts";
import { readControl } from "./control.ts";
import { unfinishedPublication } from "./decide.ts";
import { landTickets } from "./lander.ts";
import type { Stop } from "./lander-options.ts";
import { type HeldLock, holderOf } from "./held-lock.ts";
import { acquireLock, createLockWatch, type LockWatch } from "./lock.ts";
import { isLocked, LOCKED_MS } from "./push.ts";
import type { Queue, Snapshot } from "./snapshot.ts";
import type { Workshop } from "./workshop.ts";

export interface DutyOptions {
  readonly clock: Clock;
  readonly me: string;
  /** Milliseconds. */
  readonly ttl: number;
  /** Milliseconds between two readings of the origin. */
  readonly poll: number;
  readonly attempts: number;
  /** Opened when there is something to land, not before. */
  readonly workshop: () => Promise<Workshop>;
  readonly signal: AbortSignal;
  readonly onProgress?: (text: string) => void;
  readonly onResult?: (entry: ResultEntry) => void;
}

/** How long a lock may take to be given back, in milliseconds: at a turn's end, and when this run is stopped. */
const RELEASE_MS = 20_000;
const STOPPED_RELEASE_MS = 5000;

interface Bounds {
  readonly until?: number;
  readonly max?: number;
}

/** What one look at the queue came to. */
export type Turn = Stop | { readonly why: "not-now"; readonly because: string };

export interface Watcher {
  /** Looks at `snapshot` and lands if it is our turn. */
  turn(snapshot: Snapshot, bounds: Bounds): Promise<Turn>;
}

export function createWatcher(queue: Queue, options: DutyOptions): Watcher {
  const { clock, signal } = options;
  const watch: LockWatch = createLockWatch(clock);
  /** Not before this time, after a turn that came to nothing: others get their chance. */
  let notBefore = -Infinity;
  /** What this lander left to others: it doesn't ask for the lock to find that out again. */
  let left: { stop: Stop; next: number; tip: Oid | null; until: number } | null = null;
  /** An entry that names us, while no turn is under way, is of a turn that couldn't give the lock back. */
  let asked = false;

  async function turn(snapshot: Snapshot, bounds: Bounds): Promise<Turn> {
    const holder = holderOf(snapshot.lock);
    const quiet = watch.unchangedFor(snapshot.lockHead);
    const control = await readControl(queue, snapshot.lock, signal);
    if (control.paused) {
      return { why: "paused", by: control.paused.by, reason: control.paused.reason };
    }
    const ours = asked && holder === options.me;
    if (holder !== null && !ours && quiet < options.ttl) {
      return { why: "not-now", because: `${holder} is landing` };
    }
    if (
      left !== null && left.next === snapshot.next && left.tip === snapshot.tip &&
      clock.monotonic() < left.until && !control.cancelled.includes(snapshot.next)
    ) return left.stop;
    if (clock.monotonic() < notBefore) {
      return { why: "not-now", because: "leaving the ticket to other landers for a moment" };
    }
    const workshop = await options.workshop();
    asked = true;
    const held = await acquire(snapshot);
    if (typeof held === "string") return { why: "not-now", because: held };
    if (holder !== null && !ours) {
      options.onProgress?.(`${holder} has been quiet for ${seconds(quiet)} s: taking over`);
    }
    try {
      const stop = await landTickets(queue, held, { ...options, ...bounds, workshop });
      if (stop.why === "failed" || stop.why === "left") {
        notBefore = clock.monotonic() + options.poll * (2 + clock.random() * 2);
      }
      const { next, tip } = snapshot;
      left = stop.why === "left" && stop.ticket === next
        ? { stop, next, tip, until: clock.monotonic() + options.ttl }
        : null;
      return stop;
    } finally {
      await held.release(AbortSignal.timeout(signal.aborted ? STOPPED_RELEASE_MS : RELEASE_MS));
    }
  }

  /** Since when the lock's ref is locked, with the same head all the time. */
  let locked: { head: Oid | null; since: number } | null = null;

  /** The queue's lock, or why it isn't ours now. @throws `ref-locked` when that has been why for a minute */
  async function acquire(snapshot: Snapshot): Promise<HeldLock | string> {
    const asked = clock.monotonic();
    try {
      const held = await acquireLock(queue, snapshot, options, signal);
      locked = null;
      return held ?? "another lander was faster";
    } catch (error) {
      if (!isAgentqError(error) || !isLocked(error)) throw error;
      const head = snapshot.lockHead;
      if (locked?.head !== head) locked = { head, since: asked };
      if (clock.monotonic() - locked!.since >= LOCKED_MS) throw error;
      return error.message;
    }
  }
  return { turn };
}

function seconds(ms: number): string {
  return (ms / 1000).toFixed(1).replace(/\.0$/, "");
}

/** True when reading again at once can show something new. */
export function isProgress(turn: Turn): boolean {
  return turn.why === "until" || turn.why === "idle" || turn.why === "max" || turn.why === "lost";
}

/** The newest result was recorded by a push that didn't get as far as the branch. */
export async function isUnfinished(
  queue: Queue,
  snapshot: Snapshot,
  signal: AbortSignal,
): Promise<boolean> {
  const landed = snapshot.done?.message.landed;
  if (!landed || landed === snapshot.tip) return false;
  const control = await readControl(queue, snapshot.lock, signal);
  return unfinishedPublication(snapshot, control) !== null;
}
