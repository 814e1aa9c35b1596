/**
 * A ticket that the branch moves away from while its checks run, each time anew. Now and then that is somebody's push past
 * the queue; each time it is a check that itself pushes to the branch, or pushes that come faster than the checks
 * are done, and the tickets behind would wait for ever.
 */
import { AgentqError } from "../errors.ts";
import type { Oid } from "../git/types.ts";

/** So often it is checked again, at least… */
export const MAX_OVERTAKEN = 16;
/** …and for so long, in monotonic milliseconds: a burst of pushes is over by then. */
export const OVERTAKEN_FOR_MS = 600_000;

/** How often that was so, one time right after the other in one run. */
export interface Overtaken {
  readonly ticket: Oid;
  readonly times: number;
  /** The first time. */
  readonly since: number;
}

/** One time more. */
export function overtakenOnceMore(
  before: Overtaken | null,
  ticket: Oid,
  now: number,
): Overtaken {
  return before?.ticket === ticket
    ? { ...before, times: before.times + 1 }
    : { ticket, times: 1, since: now };
}

/** The end of it, where there was enough. */
export function overtakenTooOften({ times, since }: Overtaken, now: number): AgentqError | null {
  if (times < MAX_OVERTAKEN || now - since < OVERTAKEN_FOR_MS) return null;
  return new AgentqError("overtaken", `the branch moved ${times} times while the checks ran`);
}

/** What is said each time. */
export function movedMeanwhile({ times }: Overtaken): string {
  const moved = "the branch moved while it was checked";
  return times < 3
    ? `${moved}; once more on its new tip`
    : `${moved}, ${times} times by now: does a check push to it, or somebody past the queue?`;
}
