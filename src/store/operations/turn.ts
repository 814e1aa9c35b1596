/** A worker's turn: what it is done with ends and the next is claimed, in one commit. */
import { isAgentqError } from "../../errors.ts";
import { heldReference } from "../claims.ts";
import { assertQueueName } from "../names.ts";
import type { StoreState } from "../state.ts";
import { type StoreContext, transact, type Transaction } from "../transaction.ts";
import type {
  ClaimEnding,
  ClaimOptions,
  FinishedAndClaimed,
  Receipt,
  Reference,
} from "../types.ts";
import { takeOldest } from "./claim.ts";
import { buryHeld, dropHeld, freeFailedId, giveBack, sendBack } from "./finish.ts";

/** Ends each claim by itself: one that is stale changes nothing and holds up nothing. */
export async function finishAndClaim(
  context: StoreContext,
  queue: string,
  endings: readonly ClaimEnding[],
  options: Omit<ClaimOptions, "id"> = {},
): Promise<FinishedAndClaimed> {
  assertQueueName(queue);
  return await transact(context, (transaction) => {
    let sentBack = 0;
    const outcomes = endings.map((ending) => {
      const held = heldOrNull(transaction.state, ending.receipt);
      if (held === null) return "stale";
      return finish(transaction, ending, held, () => sentBack++);
    });
    const claims = takeOldest(transaction, queue, options, endings.length > 0);
    return { outcomes, claims };
  }, options.signal);
}

function finish(
  transaction: Transaction,
  ending: ClaimEnding,
  held: Reference,
  ordinal: () => number,
): "done" | "superseded" {
  const { receipt } = ending;
  switch (ending.how) {
    case "ack":
      dropHeld(transaction, receipt, held);
      return "done";
    case "quarantine":
      buryHeld(
        transaction,
        receipt,
        held,
        freeFailedId(transaction.state, receipt.id),
        ending.reason,
        ending.untried,
      );
      return "done";
    case "requeue":
    case "release": {
      const { outcome } = ending.how === "requeue"
        ? sendBack(transaction, receipt, held, ordinal())
        : giveBack(transaction, receipt.queue, receipt.id, held);
      return outcome === "superseded" ? "superseded" : "done";
    }
  }
}

function heldOrNull(state: StoreState, receipt: Receipt): Reference | null {
  try {
    return heldReference(state, receipt);
  } catch (error) {
    if (!isAgentqError(error, "stale-generation", "name-invalid")) throw error;
    return null;
  }
}
