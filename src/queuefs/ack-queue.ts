/**
 * Acks of messages that finish together are sent together: while one call is under way, those that
 * arrive wait for the next. At most one call at a time, and no ack waits longer than one call.
 */
import { isAgentqError } from "../errors.ts";
import { systemClock } from "../platform/clock.ts";
import type { LeaseReceipt, Receipt, Settlement } from "./contract.ts";

export interface AckQueue {
  /** Resolves with what became of it. Throws when it still failed after being tried again. */
  ack(receipt: LeaseReceipt): Promise<Settlement>;
  /** True while an ack of this lease may be under way: a stale renewal then says nothing. */
  isWaiting(lease: string): boolean;
}

interface Waiting {
  readonly receipt: LeaseReceipt;
  readonly resolve: (settlement: Settlement) => void;
  readonly reject: (error: unknown) => void;
}

const TRIES = 4;

/** `send` acks a batch. Failed batches are tried again within about `patienceMs`. */
export function createAckQueue(
  send: (receipts: readonly Receipt[]) => Promise<Settlement[]>,
  patienceMs: number,
): AckQueue {
  let waiting: Waiting[] = [];
  let sending = false;
  const leases = new Set<string>();

  const flush = async () => {
    sending = true;
    // What finishes in this turn of the event loop still joins.
    await Promise.resolve();
    while (waiting.length > 0) {
      const batch = waiting;
      waiting = [];
      try {
        const settlements = await persistently(() => send(batch.map(({ receipt }) => receipt)));
        batch.forEach(({ resolve }, i) => resolve(settlements[i]!));
      } catch (error) {
        batch.forEach(({ reject }) => reject(error));
      }
    }
    sending = false;
  };

  /** Acking again is safe: one that went through unheard makes the second stale, which then is success. */
  const persistently = async (call: () => Promise<Settlement[]>): Promise<Settlement[]> => {
    let unanswered = false;
    for (let tries = 1;; tries++) {
      try {
        const settlements = await call();
        return settlements.map((each) => unanswered && each === "stale" ? "done" : each);
      } catch (error) {
        if (tries === TRIES) throw error;
        unanswered ||= isAgentqError(error, "backend-outcome-unknown", "commit-uncertain");
        await systemClock.sleep(Math.min(1000, patienceMs / 8) * tries);
      }
    }
  };

  return {
    ack: (receipt) =>
      new Promise((resolve, reject) => {
        leases.add(receipt.lease);
        const ended = () => leases.delete(receipt.lease);
        waiting.push({
          receipt,
          resolve: (settlement) => (ended(), resolve(settlement)),
          reject: (error) => (ended(), reject(error)),
        });
        if (!sending) void flush();
      }),
    isWaiting: (lease) => leases.has(lease),
  };
}
