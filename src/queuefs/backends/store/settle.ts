/** Ending claims, and holding them for longer: each call is one commit for what is still held. */
import { isAgentqError } from "../../../errors.ts";
import type {
  Claim,
  ClaimEnding,
  ClaimOptions,
  Receipt as StoreReceipt,
  Store,
} from "../../../store/mod.ts";
import type { Ending, Receipt, Settlement } from "../../contract.ts";
import { checkQueueName } from "../../names.ts";
import { findClaims, type LeaseNote, noteOwner, stillHeld } from "./leases.ts";

/** `requireQueue` throws `queue-not-found` where there is no queue of a name. */
export function settling(store: Store, requireQueue: (queue: string) => Promise<string>) {
  /** Ends what is current, says `stale` of the rest, then claims: one commit. */
  const finish = async (
    queue: string,
    endings: readonly Ending[],
    claiming: Omit<ClaimOptions, "id" | "ids"> = { count: 0 },
  ): Promise<{ settlements: Settlement[]; claims: Claim[] }> => {
    checkQueueName(queue);
    const held = await findClaims(store, queue, endings.map(({ receipt }) => receipt));
    const { outcomes, claims } = await store.finishAndClaim(
      queue,
      endings.flatMap((ending, i) => held[i] ? [storeEnding(ending, held[i])] : []),
      claiming,
    );
    const settlements = held.map((receipt) => receipt === null ? "stale" : outcomes.shift()!);
    if (claims.length === 0 && settlements.every((each) => each === "stale")) {
      await requireQueue(queue);
    }
    return { settlements, claims };
  };

  /** Renews in one commit what is current; what turns out stale is dropped and the rest tried again. */
  const renew = async (
    queue: string,
    receipts: readonly Receipt[],
    note: (owner: string) => LeaseNote,
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
        await store.renew(current, (old) => note(noteOwner(old)));
        return held.map((receipt) => receipt === null ? "stale" : "done");
      } catch (error) {
        if (!isAgentqError(error, "stale-generation", "name-invalid")) throw error;
        if (isAgentqError(error, "name-invalid")) held = held.map(() => null);
        else held = await stillHeld(store, queue, held);
      }
    }
  };

  return { finish, renew };
}

function storeEnding(ending: Ending, receipt: StoreReceipt): ClaimEnding {
  return ending.how === "fail"
    ? { how: "quarantine", receipt, reason: ending.reason, untried: ending.untried ?? false }
    : { how: ending.how, receipt };
}
