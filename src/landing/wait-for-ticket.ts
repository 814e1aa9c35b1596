/** Waiting for one ticket's result, and landing what is before it. */
import { AgentqError } from "../errors.ts";
import type { Oid } from "../git/types.ts";
import { numberOf, type ResultEntry } from "./chain.ts";
import { readControl } from "./control.ts";
import { createWatcher, type DutyOptions, isProgress, isUnfinished } from "./duty.ts";
import { createPatience, createPoller, isOfConnection } from "./patience.ts";
import { type Queue, readSnapshot, type Snapshot, unknownTicket } from "./snapshot.ts";
import { createTeller } from "./teller.ts";

/** For so long, in milliseconds, a ticket must be missing from the queue to be lost. */
const MISSING_MS = 10_000;

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
    /** The queue's head when the number was last known to be this ticket's. */
    let seen = ticket <= numberOf(snapshot.queue) ? snapshot.queue : null;
    for (;;) {
      // Replicas and caches in front of a server may be behind for a while.
      if (ticket <= numberOf(snapshot.queue)) missingSince = null;
      else {
        missingSince ??= clock.monotonic();
        seen = null;
        const missing = clock.monotonic() - missingSince;
        const late = clock.monotonic() >= deadline;
        if (missing >= (late ? MISSING_MS / 2 : MISSING_MS)) {
          throw lostTicket(ticket, snapshot.queueHead === null);
        }
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
        // A queue that was put back, and has another's ticket of that number by now, doesn't come to this one.
        const head = snapshot.queue!;
        const isBack = seen === null || head.oid !== seen.oid && numberOf(head) <= numberOf(seen);
        if (candidate !== undefined && isBack) {
          const entry = await queue.chains.find("queue", head, ticket, options.signal);
          if (entry.message.candidate !== candidate) throw lostTicket(ticket);
        }
        seen = head;
        if (late) return null;
        candidate ??= (await queue.chains.find("queue", snapshot.queue!, ticket, options.signal))
          .message.candidate as Oid;
        const turn = await watcher.turn(snapshot, { until: ticket });
        const { cancelled } = await readControl(queue, snapshot.lock, signal);
        if (cancelled.includes(ticket)) {
          bounded.onProgress?.(`ticket ${ticket} is cancelled: it gets that result in its turn`);
        } else say(turn, snapshot, ticket);
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

/** Its number has become another's, or nobody's. `gone`: the origin shows no queue at all. */
function lostTicket(ticket: number, gone = false): AgentqError {
  const why = gone
    ? "the origin shows no queue: it was put back to what it was before it, or hides the queue's refs from readers"
    : "the origin was put back to what it was before it";
  return new AgentqError(
    "ticket-unknown",
    `ticket ${ticket} is not in the queue any more: ${why}`,
    { hint: "Submit the commit again.", details: { ticket, lost: true } },
  );
}

/** By this machine's record it was that of `candidate`, and its number has become another's: the origin was put back. */
export function anothersTicket(queue: Queue, ticket: number, candidate: Oid): AgentqError {
  const at = queue.options ?? "";
  return new AgentqError(
    "ticket-unknown",
    `ticket ${ticket} is another's: ${
      candidate.slice(0, 12)
    }, which this machine submitted under that number, ` +
      "is not in the queue any more",
    {
      hint:
        `Submit ${candidate} again (agentq submit --candidate ${candidate}${at}). agentq show ${ticket}${at} prints the other's.`,
      details: { ticket, candidate, lost: true },
    },
  );
}

class TimeUp extends Error {
  constructor() {
    super("the time to wait is over");
  }
}
