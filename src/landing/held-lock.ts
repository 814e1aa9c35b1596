/** The lock as its holder has it: renewed, watched, and given back. */
import { type Clock, throwIfAborted } from "../platform/clock.ts";
import { AgentqError } from "../errors.ts";
import type { Oid } from "../git/types.ts";
import type { LockEntry } from "./chain.ts";
import type { NewCommit } from "./chain-commit.ts";
import { type Control, lockCommit, readControl } from "./control.ts";
import { pushOnce } from "./push.ts";
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

/** The holder as an entry names it; null when the lock is free. */
export function holderOf(lock: LockEntry | null): string | null {
  return lock?.message.holder ?? null;
}

/** Holds the lock whose head, an entry that names us, is `state.head`. */
export function hold(
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
