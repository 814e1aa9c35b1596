/**
 * What a worker's handlers have ended and its backend doesn't know yet. The worker's loop takes all of it
 * along with the next step; what fails is tried again within about the length of a lease.
 *
 *   end() ─▶ due ── next() ─▶ under way ─▶ settled, or failed for the last time
 *             ▲                   │
 *             └──── failed() ─────┘
 */
import { isAgentqError } from "../errors.ts";
import type { Ending, Settlement } from "./contract.ts";

const TRIES = 4;

interface Waiting {
  readonly ending: Ending;
  readonly lease: string;
  readonly resolve: (settlement: Settlement) => void;
  readonly reject: (error: unknown) => void;
  tries: number;
  /** An attempt may have gone through unheard: a later `stale` then is success. */
  unanswered: boolean;
  /** To be tried by itself, since another's fault may have been why it failed. */
  alone: boolean;
}

/** One step's endings, and how to say what became of them. */
export interface Batch {
  readonly endings: readonly Ending[];
  settled(settlements: readonly Settlement[]): void;
  /**
   * What may be tried again is due again, by itself where the fault isn't one that passes: it may be
   * another's. Returns how many milliseconds to wait before the next step.
   */
  failed(error: unknown, passing: boolean): number;
}

export interface Endings {
  /** Resolves with what became of it. Throws when it still failed after being tried again. */
  end(ending: Ending, lease: string): Promise<Settlement>;
  /** True while the ending of this lease may be under way: a stale renewal then says nothing. */
  isWaiting(lease: string): boolean;
  readonly due: number;
  next(): Batch;
}

/** `patienceMs`: within about which what fails is tried again. */
export function createEndings(patienceMs: number): Endings {
  let due: Waiting[] = [];
  const leases = new Set<string>();

  const next = (): Batch => {
    // By themselves first those that must be.
    const lonely = due.findIndex(({ alone }) => alone);
    const batch = lonely < 0 ? due : due.splice(lonely, 1);
    if (lonely < 0) due = [];
    return {
      endings: batch.map(({ ending }) => ending),
      settled: (settlements) =>
        batch.forEach((one, i) => {
          const settlement = settlements[i]!;
          leases.delete(one.lease);
          one.resolve(one.unanswered && settlement === "stale" ? "done" : settlement);
        }),
      failed: (error, passing) => {
        const again: Waiting[] = [];
        for (const one of batch) {
          one.unanswered ||= isAgentqError(error, "backend-outcome-unknown", "commit-uncertain");
          one.alone = !passing;
          // Dead letters that can't be written hold up the worker no longer than that.
          const final = !passing && one.ending.how === "fail";
          const company = !passing && batch.length > 1;
          if (company || (!final && ++one.tries < TRIES)) again.push(one);
          else {
            leases.delete(one.lease);
            one.reject(error);
          }
        }
        due = [...again, ...due];
        return Math.min(1000, patienceMs / 8) * Math.max(0, ...again.map(({ tries }) => tries));
      },
    };
  };

  return {
    end: (ending, lease) =>
      new Promise((resolve, reject) => {
        leases.add(lease);
        due.push({ ending, lease, resolve, reject, tries: 0, unanswered: false, alone: false });
      }),
    isWaiting: (lease) => leases.has(lease),
    get due() {
      return due.length;
    },
    next,
  };
}
