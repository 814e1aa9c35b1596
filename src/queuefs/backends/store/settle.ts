/** Ending claims: what receipts name and is still held, and moving one to the dead letters. */
import { isAgentqError } from "../../../errors.ts";
import type { Receipt as StoreReceipt, Store } from "../../../store/mod.ts";
import type { Receipt, Settlement } from "../../contract.ts";
import { checkQueueName } from "../../names.ts";
import { freeFailedId } from "../shared.ts";
import { findClaims, stillHeld } from "./leases.ts";

/** `requireQueue` throws `queue-not-found` where there is no queue of a name. */
export function settling(store: Store, requireQueue: (queue: string) => Promise<string>) {
  /** Settles in one commit what is current; what turns out stale is dropped and the rest tried again. */
  const settle = async (
    queue: string,
    receipts: readonly Receipt[],
    apply: (held: StoreReceipt[]) => Promise<Settlement[]>,
  ): Promise<Settlement[]> => {
    checkQueueName(queue);
    let held = await findClaims(store, queue, receipts);
    for (;;) {
      const current = held.filter((receipt) => receipt !== null);
      if (current.length === 0) {
        await requireQueue(queue);
        return held.map(() => "stale");
      }
      try {
        const outcomes = await apply(current);
        return held.map((receipt) => receipt === null ? "stale" : outcomes.shift()!);
      } catch (error) {
        if (!isAgentqError(error, "stale-generation", "name-invalid")) throw error;
        if (isAgentqError(error, "name-invalid")) held = held.map(() => null);
        else held = await stillHeld(store, queue, held);
      }
    }
  };

  const bury = async (receipt: StoreReceipt, reason: string): Promise<void> => {
    for (;;) {
      const taken = new Set((await store.failed.list()).map(({ failedId }) => failedId));
      const failedId = freeFailedId(receipt.id, (id) => taken.has(id));
      try {
        await store.quarantine(receipt, { failedId, reason });
        return;
      } catch (error) {
        if (!isAgentqError(error, "already-exists")) throw error;
      }
    }
  };

  return { settle, bury };
}
