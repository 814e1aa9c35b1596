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
import { type Clock, throwIfAborted } from "../platform/clock.ts";
import { AgentqError } from "../errors.ts";
import type { Oid } from "../git/types.ts";
import type { LockEntry } from "./chain.ts";
import { type Control, lockCommit, readControl } from "./control.ts";
import type { NewCommit } from "./chain-commit.ts";
import { NO_TIP } from "./messages.ts";
import { faultOf, isLocked, isTurnedDown, pushOnce, turnedDown } from "./push.ts";
import { type Queue, readSnapshot, type Snapshot } from "./snapshot.ts";

/** So often, in milliseconds, a holder looks at the lock between renewals: a takeover, a cancellation or a pause may have come. */
const LOOK_MS = 5000;

/** How often a lock is tried to be given back, after what pauses, in milliseconds, each longer than the last. */
const RELEASES = 20;
const RELEASE_AGAIN_MS = 100;

export interface LockOptions {
  readonly clock: Clock;
  /** This run's participant id, unique to it. */
  readonly me: string;
  /** Milliseconds; renewals come every third of it. */
  readonly ttl: number;
}

export interface HeldLock {
  /** Aborted, with `lease-lost` or the push's error as reason, when the lock is no longer ours. */
  readonly signal: AbortSignal;
  /**
   * Where the branch was when a holder that went quiet last saw it; null unless the lock was taken from
   * one and nothing was published since.
   */
  interrupted(): Oid | null;
  /**
   * A publication was tried and nobody knows what became of it: every entry from now on says so, for
   * whoever finds the branch moved and no result.
   */
  attempted(publication: NonNullable<Control["published"]>): void;
  /** A result was published: what was left behind before it is dealt with. */
  settle(): void;
  /** The lock's head, an entry that names us. */
  head(): Oid;
  control(): Control;
  /** Replaces the control state that the next entry carries (the origin learns it then). */
  setControl(control: Control): void;
  /** Called when someone else's control entry was adopted. */
  onControl(listener: ((control: Control) => void) | null): void;
  /** Runs `work` while no renewal is under way: everything that moves or reads the head. */
  exclusive<T>(work: () => Promise<T>): Promise<T>;
  /** Takes note of the lock as a snapshot shows it; false when it is lost. Inside `exclusive` only. */
  observe(snapshot: Snapshot): Promise<boolean>;
  /** The next entry, still naming us; to be pushed with a lease on `head()`. */
  renewal(control: Control): NewCommit;
  /** Says that `renewal`'s entry is now the head. */
  renewed(entry: NewCommit, control: Control): Promise<void>;
  /** Gives it back; never throws: a lock that can't be released goes stale. */
  release(signal?: AbortSignal): Promise<void>;
}

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

/** The holder as an entry names it; null when the lock is free. */
export function holderOf(lock: LockEntry | null): string | null {
  return lock?.message.holder ?? null;
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

function hold(
  queue: Queue,
  options: LockOptions,
  state: { head: Oid; control: Control; started: number; interrupted: Oid | null },
): HeldLock {
  const { clock, me, ttl } = options;
  const lost = new AbortController();
  const stop = new AbortController();
  let { head, control, interrupted } = state;
  let attempt: Control["published"] = null;
  let renewedAt = state.started;
  let listener: ((control: Control) => void) | null = null;
  let turn: Promise<unknown> = Promise.resolve();

  function lose(reason: AgentqError): void {
    if (!lost.signal.aborted) lost.abort(reason);
    stop.abort();
  }

  const lock: HeldLock = {
    signal: lost.signal,
    interrupted: () => interrupted,
    attempted(publication) {
      attempt = publication;
      control = { ...control, published: attempt };
    },
    settle() {
      interrupted = null;
      attempt = null;
    },
    head: () => head,
    control: () => control,
    setControl(next) {
      control = next;
    },
    onControl(next) {
      listener = next;
    },
    exclusive(work) {
      const mine = turn.then(work);
      turn = mine.catch(() => {});
      return mine;
    },
    async observe(snapshot) {
      if (lost.signal.aborted) return false;
      if (snapshot.lockHead === head) return true;
      if (holderOf(snapshot.lock) !== me) {
        lose(
          new AgentqError(
            "lease-lost",
            holderOf(snapshot.lock) === null
              ? "the lock was released by somebody else; nothing was published"
              : `the lock was taken over by ${holderOf(snapshot.lock)}; nothing was published`,
            { details: { holder: holderOf(snapshot.lock) } },
          ),
        );
        return false;
      }
      // Someone appended a control entry that keeps us as the holder (or our own push, whose answer
      // was lost, is there): go on from it.
      head = snapshot.lock!.oid;
      renewedAt = clock.monotonic();
      const adopted = await readControl(queue, snapshot.lock);
      control = attempt === null ? adopted : { ...adopted, published: attempt };
      listener?.(control);
      return true;
    },
    renewal: (next) => lockCommit(head, { holder: me, by: me, at: clock.wall(), control: next }),
    async renewed(entry, next) {
      head = entry.oid;
      control = next;
      renewedAt = clock.monotonic();
      await queue.chains.remember("lock", entry);
    },
    async release(signal) {
      stop.abort();
      listener = null;
      await lock.exclusive(() => giveBack(signal)).catch(() => {});
      if (!lost.signal.aborted) {
        lost.abort(new AgentqError("lease-lost", "the lock was released"));
      }
    },
  };

  /** Again and again, as an origin may be away for a moment: what isn't given back is in everybody's way for a ttl. */
  async function giveBack(signal?: AbortSignal): Promise<void> {
    for (let attempt = 0; attempt < RELEASES && !lost.signal.aborted; attempt++) {
      if (attempt > 0) await clock.sleep(RELEASE_AGAIN_MS * attempt, signal);
      throwIfAborted(signal);
      try {
        const made = lockCommit(head, { holder: null, by: me, at: clock.wall(), control });
        const pushed = await pushOnce(queue, {
          updates: [{ ref: queue.names.lock, old: head, new: made.oid }],
          commits: [made],
          ...(signal && { signal }),
        });
        if (pushed.status === "won") return;
        if (!await lock.observe(await readSnapshot(queue, signal))) return;
      } catch (error) {
        if (!(error instanceof AgentqError) || !error.retryable) throw error;
      }
    }
  }

  /** One renewal; says how long to wait for the next. */
  async function renew(): Promise<number> {
    const soon = Math.min(ttl / 10, 1000);
    try {
      const entry = lock.renewal(control);
      const asked = clock.monotonic();
      const pushed = await pushOnce(queue, {
        updates: [{ ref: queue.names.lock, old: head, new: entry.oid }],
        commits: [entry],
      });
      if (pushed.status === "won") {
        await lock.renewed(entry, control);
        renewedAt = asked;
        return ttl / 3;
      }
      await lock.observe(await readSnapshot(queue));
      return soon;
    } catch (error) {
      const reason = error instanceof AgentqError ? error : new AgentqError(
        (error as { syscall?: unknown } | null)?.syscall ? "io-error" : "internal",
        `the lock could not be renewed: ${(error as Error)?.message ?? error}`,
        { cause: error },
      );
      if (!reason.retryable) lose(reason);
      else if (clock.monotonic() - renewedAt > ttl) {
        lose(
          new AgentqError(
            "lease-lost",
            `the lock could not be renewed for ${Math.round(ttl / 1000)} s: ${reason.message}`,
            { cause: reason },
          ),
        );
      }
      return soon;
    }
  }

  /** Whether it is ours still, and what it asks for. A renewal tells what is wrong with the origin. */
  async function look(): Promise<void> {
    try {
      await lock.observe(await readSnapshot(queue));
    } catch {
      // The next renewal finds the same.
    }
  }

  void (async () => {
    let due = clock.monotonic() + ttl / 3;
    while (!stop.signal.aborted) {
      await clock.sleep(Math.max(0, Math.min(LOOK_MS, due - clock.monotonic())), stop.signal);
      await lock.exclusive(async () => {
        if (stop.signal.aborted) return;
        if (clock.monotonic() < due) await look();
        else due = clock.monotonic() + await renew();
      });
    }
  })().catch(() => {/* stopped */});

  return lock;
}
