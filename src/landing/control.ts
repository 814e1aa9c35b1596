/**
 * Control: pauses, cancellations and accepted rewinds ride on the `lock` chain (operator.ts makes them).
 *
 * Every landing push is leased on the lock's head, so an entry appended here makes a landing that is
 * in flight fail as a whole; its lander rereads, is still the holder, adopts the new head and obeys.
 * Every entry of ours carries the whole control state forward, so that it is read from the head alone.
 */
import type { Oid } from "../git/types.ts";
import type { LockEntry } from "./chain.ts";
import { chainCommit, type NewCommit } from "./chain-commit.ts";
import type { Lock, Paused } from "./messages.ts";
import type { Queue } from "./snapshot.ts";

/** What the lock chain says besides who holds it. */
export interface Control {
  readonly paused: Paused | null;
  /** Tickets to be cancelled in their turn, ascending. */
  readonly cancelled: readonly number[];
  /** A tip the operator accepted although it lacks the last landed commit. */
  readonly acceptedTip: Oid | null;
  /** The newest ticket whose publication was seen whole. */
  readonly confirmed: number | null;
  /** What the last publishing push published. */
  readonly published:
    | { readonly ticket: number; readonly tip: Oid; readonly landed: Oid }
    | null;
  /** Where the holder last saw the branch (zeros: nowhere), before anything it published since. */
  readonly tip: Oid | null;
  /** How often the checks of a ticket could not be run. */
  readonly failures: { readonly ticket: number; readonly count: number } | null;
  /** How often the origin refused to have a ticket published, and its words the last time. */
  readonly refusals: Refusals | null;
  /** How many landers went quiet while this ticket was the next one. */
  readonly deaths: { readonly ticket: number; readonly count: number } | null;
}

export interface Refusals {
  readonly ticket: number;
  readonly count: number;
  /** Raw and bounded: escape before printing. */
  readonly why: string;
}

export const NO_CONTROL: Control = {
  paused: null,
  cancelled: [],
  acceptedTip: null,
  confirmed: null,
  published: null,
  tip: null,
  failures: null,
  refusals: null,
  deaths: null,
};

/** How far back the control state is looked for behind entries that another client wrote. */
const FOREIGN_ENTRIES = 256;

/** The control state at `head`: its own, or that of the newest entry of ours before it. */
export async function readControl(
  queue: Queue,
  head: LockEntry | null,
  signal?: AbortSignal,
): Promise<Control> {
  let at = head;
  for (let back = 0; at !== null && back < FOREIGN_ENTRIES; back++) {
    const ours = at.message.agentq;
    if (ours) {
      return {
        paused: ours.paused,
        cancelled: ours.cancelled,
        acceptedTip: ours.acceptedTip,
        confirmed: ours.confirmed ?? null,
        published: ours.published ?? null,
        tip: ours.tip ?? null,
        failures: ours.failures ?? null,
        refusals: ours.refusals ?? null,
        deaths: ours.deaths ?? null,
      };
    }
    at = await queue.chains.before("lock", at, signal);
  }
  return NO_CONTROL;
}

/** The commit of a lock entry after `head`. */
export function lockCommit(
  head: Oid | null,
  entry: { holder: string | null; by: string; at: number; control: Control },
): NewCommit {
  const message: Lock = {
    kind: "lock",
    holder: entry.holder,
    by: entry.by,
    at: Math.floor(entry.at),
    agentq: {
      v: 1,
      paused: entry.control.paused,
      cancelled: [...entry.control.cancelled],
      acceptedTip: entry.control.acceptedTip,
      confirmed: entry.control.confirmed,
      published: entry.control.published ? { ...entry.control.published } : null,
      tip: entry.control.tip,
      failures: entry.control.failures ? { ...entry.control.failures } : null,
      ...(entry.control.refusals && { refusals: { ...entry.control.refusals } }),
      deaths: entry.control.deaths ? { ...entry.control.deaths } : null,
    },
  };
  return chainCommit(head === null ? [] : [head], message, entry.at / 1000);
}

/** The control state once tickets up to `done` have results: they drop out of it. */
export function settled(control: Control, done: number): Control {
  return {
    ...control,
    cancelled: control.cancelled.filter((ticket) => ticket > done),
    failures: control.failures && control.failures.ticket > done ? control.failures : null,
    refusals: control.refusals && control.refusals.ticket > done ? control.refusals : null,
    deaths: control.deaths && control.deaths.ticket > done ? control.deaths : null,
  };
}
