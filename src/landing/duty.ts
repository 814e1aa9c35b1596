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
import { type Clock, throwIfAborted } from "../platform/clock.ts";
import { AgentqError, isAgentqError } from "../errors.ts";
import { wantedPause } from "../git/protocol/again.ts";
import type { Oid } from "../git/types.ts";
import { numberOf, type ResultEntry } from "./chain.ts";
import { readControl, unknownTicket } from "./control.ts";
import { unfinishedPublication } from "./decide.ts";
import { landTickets } from "./lander.ts";
import type { Stop } from "./lander-options.ts";
import { acquireLock, createLockWatch, type HeldLock, holderOf, type LockWatch } from "./lock.ts";
import { isLocked, LOCKED_MS } from "./push.ts";
import { type Queue, readSnapshot, type Snapshot } from "./snapshot.ts";
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

/** How long a lock may take to be given back when this run is stopped. */
const RELEASE_MS = 5000;
/** How long the origin may be out of reach while waiting, before that is an error. */
const UNREACHABLE_MS = 60_000;
/** How long a server that says when to come back is left alone at most, in milliseconds. */
const MAX_WANTED_MS = 60_000;

interface Bounds {
  readonly until?: number;
  readonly max?: number;
}

/** For so long, in milliseconds, a ticket must be missing from the queue to be lost. */
const MISSING_MS = 10_000;

/** What one look at the queue came to. */
type Turn = Stop | { readonly why: "not-now"; readonly because: string };

interface Watcher {
  /** Looks at `snapshot` and lands if it is our turn. */
  turn(snapshot: Snapshot, bounds: Bounds): Promise<Turn>;
}

function createWatcher(queue: Queue, options: DutyOptions): Watcher {
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
      await held.release(AbortSignal.timeout(RELEASE_MS));
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

/** Bears errors that may be over in a moment, for a while. */
function createPatience(
  { clock, signal, onProgress }: DutyOptions,
  bearable: (error: unknown) => error is AgentqError,
) {
  let failingSince: number | null = null;
  return {
    /** An answer was had: what comes next begins anew. */
    good() {
      failingSince = null;
    },
    /**
     * Milliseconds that the server wants to be left alone.
     * @throws the error, unless trying again can help and it hasn't been tried for long
     */
    bear(error: unknown): number {
      throwIfAborted(signal);
      if (!bearable(error)) throw error;
      failingSince ??= clock.monotonic();
      if (clock.monotonic() - failingSince > UNREACHABLE_MS) throw error;
      const said = error.message.replace(/\.$/, "");
      // Who answers with a status was reached.
      const what = typeof error.details?.status === "number" ? "" : "the origin can't be reached: ";
      onProgress?.(`${what}${said}; trying again`);
      return Math.min(wantedPause(error) ?? 0, MAX_WANTED_MS);
    },
  };
}

const isRetryable = (error: unknown): error is AgentqError =>
  isAgentqError(error) && error.retryable;

/** What a server or the way to it may have failed with, and no longer does in a moment. */
function isOfConnection(error: unknown): error is AgentqError {
  const codes = ["origin-unreachable", "origin-timeout", "server-error", "protocol-error"] as const;
  return isRetryable(error) && isAgentqError(error, ...codes);
}

/** Reads the queue again after about `poll`; bears an origin that is out of reach for a while. */
function createPoller(queue: Queue, options: DutyOptions) {
  const { clock, signal } = options;
  const reading = createPatience(options, isRetryable);
  return async function next(limit = Infinity, atLeast = 0, now = false): Promise<Snapshot> {
    for (let pause = atLeast, first = now;; first = false) {
      // Jitter: many waiters must not ask in step.
      const usual = options.poll * (0.8 + clock.random() * 0.4);
      if (!first) await clock.sleep(Math.min(limit, Math.max(usual, pause)), signal);
      try {
        const snapshot = await readSnapshot(queue, signal);
        reading.good();
        return snapshot;
      } catch (error) {
        pause = reading.bear(error);
      }
    }
  };
}

/**
 * Waits for the result of `ticket`, landing meanwhile. Null when `timeout` (milliseconds) is over:
 * the ticket stays queued. Without a snapshot it begins by reading one, as patiently as later.
 * @throws `ticket-unknown`, also where it is another's or nobody's by now; what stops a lander: `branch-rewound`, `push-refused`, …
 */
export async function waitForTicket(
  queue: Queue,
  begin: Snapshot | null,
  ticket: number,
  options: DutyOptions & {
    readonly timeout: number;
    /** What the ticket is for, where the caller knows; else it is read. */
    readonly candidate?: Oid;
    /** Told what the ticket waits for, or what is being done, as often as that changes. */
    readonly onWaiting?: (text: string) => void;
  },
): Promise<ResultEntry | null> {
  const { clock } = options;
  const deadline = clock.monotonic() + options.timeout;
  const timeUp = new AbortController();
  const ended = new AbortController();
  const signal = AbortSignal.any([options.signal, timeUp.signal]);
  const bounded: DutyOptions = {
    ...options,
    signal,
    onProgress: (text) => {
      options.onProgress?.(text);
      options.onWaiting?.(text);
    },
  };
  const watcher = createWatcher(queue, bounded);
  const next = createPoller(queue, bounded);
  const landing = createPatience(bounded, isOfConnection);
  const say = createTeller(bounded);
  void clock.sleep(options.timeout, ended.signal).then(() => timeUp.abort(new TimeUp()), () => {});
  try {
    let snapshot = begin ?? await next(options.timeout, 0, true);
    if (ticket > numberOf(snapshot.queue) && options.candidate === undefined) {
      throw unknownTicket(ticket, snapshot);
    }
    let candidate = options.candidate;
    let missingSince: number | null = null;
    for (;;) {
      // Replicas and caches in front of a server may be behind for a while.
      if (ticket <= numberOf(snapshot.queue)) missingSince = null;
      else {
        missingSince ??= clock.monotonic();
        const missing = clock.monotonic() - missingSince;
        const late = clock.monotonic() >= deadline;
        if (missing >= (late ? MISSING_MS / 2 : MISSING_MS)) throw lostTicket(ticket);
        if (late) return null;
        snapshot = await next(Math.max(0, deadline - clock.monotonic()), 0);
        continue;
      }
      let fresh: Snapshot | null = null;
      let pause = 0;
      try {
        const late = clock.monotonic() >= deadline;
        if (
          numberOf(snapshot.done) > ticket ||
          (numberOf(snapshot.done) === ticket &&
            (late || !await isUnfinished(queue, snapshot, options.signal)))
        ) {
          const result = await queue.chains.find("done", snapshot.done!, ticket, options.signal);
          if (candidate !== undefined && result.message.candidate !== candidate) {
            throw lostTicket(ticket);
          }
          return result;
        }
        if (late) return null;
        candidate ??= (await queue.chains.find("queue", snapshot.queue!, ticket, options.signal))
          .message.candidate as Oid;
        const turn = await watcher.turn(snapshot, { until: ticket });
        say(turn, snapshot, ticket);
        if (isProgress(turn)) fresh = await readSnapshot(queue, signal);
        landing.good();
      } catch (error) {
        pause = landing.bear(error);
      }
      snapshot = fresh ?? await next(Math.max(0, deadline - clock.monotonic()), pause);
    }
  } catch (error) {
    if (!timeUp.signal.aborted || options.signal.aborted) throw error;
    return null;
  } finally {
    ended.abort();
  }
}

/** Its number has become another's, or nobody's. */
function lostTicket(ticket: number): AgentqError {
  return new AgentqError(
    "ticket-unknown",
    `ticket ${ticket} is not in the queue any more: the origin was put back to what it was before it`,
    { hint: "Submit the commit again.", details: { ticket, lost: true } },
  );
}

class TimeUp extends Error {
  constructor() {
    super("the time to wait is over");
  }
}

/** True when reading again at once can show something new. */
function isProgress(turn: Turn): boolean {
  return turn.why === "until" || turn.why === "idle" || turn.why === "max" || turn.why === "lost";
}

/** Tells what is being waited for, each thing once. */
function createTeller(options: DutyOptions) {
  let last = "";
  return (turn: Turn, snapshot: Snapshot, ticket: number | null) => {
    const text = tell(turn, snapshot, ticket);
    if (text !== null && text !== last) options.onProgress?.(text);
    last = text ?? last;
  };
}

function tell(turn: Turn, snapshot: Snapshot, ticket: number | null): string | null {
  const ahead = ticket === null ? snapshot.unacked : ticket - snapshot.next;
  const waiting = ticket === null
    ? `${ahead} queued`
    : `ticket ${ticket}: ${ahead > 0 ? `${ahead} ahead` : "next"}`;
  switch (turn.why) {
    case "paused":
      return `${waiting}; landing is paused by ${turn.by}${turn.reason ? `: ${turn.reason}` : ""}`;
    case "not-now":
      return `${waiting}; ${turn.because}`;
    case "left":
      return `ticket ${turn.ticket} is left to another lander: ${turn.because}`;
    case "failed": {
      const error = turn.error as Error;
      return `ticket ${turn.ticket}: its checks could not be run here (${error?.message}); ` +
        `leaving it to another lander for a moment`;
    }
    case "lost":
      return `stopped landing: ${turn.because}`;
    default:
      return null;
  }
}

/** Why `landQueue` came back. */
export type LandEnd =
  | { readonly why: "idle" | "max" }
  | { readonly why: "paused"; readonly by: string; readonly reason: string | null }
  | { readonly why: "left"; readonly ticket: number; readonly because: string };

/**
 * Lands what is queued. Comes back when nothing is left, when landing is paused or the next ticket is
 * not for this lander, or after `max` results; with `watch` only after `max`, or when aborted.
 */
export async function landQueue(
  queue: Queue,
  snapshot: Snapshot,
  options: DutyOptions & { readonly watch: boolean; readonly max?: number },
): Promise<LandEnd> {
  let count = 0;
  const counting: DutyOptions = {
    ...options,
    onResult: (entry) => {
      count++;
      options.onResult?.(entry);
    },
  };
  const watcher = createWatcher(queue, counting);
  const next = createPoller(queue, counting);
  const landing = createPatience(counting, isOfConnection);
  const say = createTeller(options);
  for (;;) {
    const left = options.max === undefined ? undefined : options.max - count;
    if (left !== undefined && left <= 0) return { why: "max" };
    let fresh: Snapshot | null = null;
    let pause = 0;
    try {
      const nothing = snapshot.unacked === 0 &&
        !await isUnfinished(queue, snapshot, options.signal);
      // Who finds nothing to land would leave the dead one's locks to the next push.
      if (nothing && holderOf(snapshot.lock) !== null) await queue.origin.tidy?.(refsOf(queue));
      const turn: Turn = nothing
        ? { why: "idle" }
        : await watcher.turn(snapshot, left === undefined ? {} : { max: left });
      if (!options.watch) {
        if (turn.why === "paused" || turn.why === "left") return turn;
        if (turn.why === "idle") return { why: "idle" };
      }
      say(turn, snapshot, null);
      throwIfAborted(options.signal);
      if (isProgress(turn) && !nothing) fresh = await readSnapshot(queue, options.signal);
      landing.good();
    } catch (error) {
      pause = landing.bear(error);
    }
    snapshot = fresh ?? await next(Infinity, pause);
  }
}

const refsOf = ({ names }: Queue): string[] => [names.branch, names.queue, names.done, names.lock];

/** The newest result was recorded by a push that didn't get as far as the branch. */
async function isUnfinished(
  queue: Queue,
  snapshot: Snapshot,
  signal: AbortSignal,
): Promise<boolean> {
  const landed = snapshot.done?.message.landed;
  if (!landed || landed === snapshot.tip) return false;
  const control = await readControl(queue, snapshot.lock, signal);
  return unfinishedPublication(snapshot, control) !== null;
}
