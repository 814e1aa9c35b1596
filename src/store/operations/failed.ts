/** The failed index: listed, shown, retried, pruned. */
import { AgentqError } from "../../errors.ts";
import { makeClaim, makeReceipt } from "../claims.ts";
import { readPayload, readState } from "../inspect.ts";
import { type FailedRecord, getSlot, setFailed, setSlot, type StoreState } from "../state.ts";
import { readOrWhyNot, type StoreContext, transact, type Transaction } from "../transaction.ts";
import type { FailedEntry, Receipt, Reference, ShownFailed } from "../types.ts";

export async function listFailed(context: StoreContext): Promise<FailedEntry[]> {
  return [...readState(context).failed].map(([failedId, record]) => ({ failedId, ...record }));
}

/** Dead letters with their payloads, all from one state, oldest first. */
export async function readFailed(
  context: StoreContext,
  { queue, limit = Infinity }: { queue?: string; limit?: number } = {},
): Promise<ShownFailed[]> {
  return readPayload(context, (state, read) =>
    [...state.failed]
      .filter(([, record]) => queue === undefined || record.queue === queue)
      .slice(0, limit)
      .map(([failedId, record]) => shown(state, failedId, record, read(record.object))));
}

export async function showFailed(
  context: StoreContext,
  failedId: string,
): Promise<ShownFailed> {
  return readPayload(context, (state, read) => {
    const record = requireFailed(state, failedId);
    return shown(state, failedId, record, read(record.object));
  });
}

function shown(
  state: StoreState,
  failedId: string,
  record: FailedRecord,
  payload: Uint8Array | AgentqError,
): ShownFailed {
  const reference = toReference(record, state.revision);
  const { queue, id } = record;
  const receipt = makeReceipt(state.storeId, queue, id, reference, state.revision);
  return { entry: { failedId, ...record }, claim: makeClaim(receipt, reference, payload) };
}

/**
 * Failed → pending at the end of their queues in the order given, attempts from 0, all or none; the
 * generations stay. `admit` sees each under the lock, with its payload, and throws what refuses it.
 * @throws `already-exists` where a message of the id is pending or claimed (`details.state`)
 */
export async function retryFailed(
  context: StoreContext,
  failedIds: readonly string[],
  admit?: (letter: ShownFailed) => void,
): Promise<Receipt[]> {
  const chosen = [...new Set(failedIds)];
  if (chosen.length === 0) return [];
  return await transact(context, (transaction) => {
    const { state, revision } = transaction;
    if (admit !== undefined) {
      for (const failedId of chosen) {
        const record = requireFailed(state, failedId);
        admit(shown(state, failedId, record, readOrWhyNot(transaction, record.object)));
      }
    }
    return chosen.map((failedId, ordinal) => {
      const record = requireFailed(state, failedId);
      const { queue, id } = record;
      const slot = getSlot(state, queue, id);
      // Pending beside a claimed one it would count as newer, and what is given back is dropped for a newer one.
      const taken = slot.pending ? "pending" : slot.claimed ? "claimed" : null;
      if (taken !== null) {
        throw new AgentqError(
          "already-exists",
          `the dead letter ${failedId} can't be retried: a message ${queue}/${id} is ${taken}`,
          {
            hint: "Prune the dead letter, or wait until that message is done.",
            details: { failedId, state: taken },
          },
        );
      }
      const reference = {
        ...toReference(record, revision),
        ...(ordinal === 0 ? {} : { ordinal }),
      };
      transaction.change("bounded");
      setFailed(state, failedId, null);
      setSlot(state, queue, id, { pending: reference });
      return makeReceipt(state.storeId, queue, id, reference, revision);
    });
  });
}

/** Removes dead letters for good; an ID that isn't there is `not-found` and nothing is removed. */
export async function pruneFailed(
  context: StoreContext,
  failedIds?: readonly string[],
): Promise<number> {
  return await transact(context, (transaction) => {
    const chosen = [...new Set(failedIds ?? transaction.state.failed.keys())];
    chosen.forEach((failedId) => requireFailed(transaction.state, failedId));
    dropFailed(transaction, chosen);
    return chosen.length;
  });
}

/** Removes a queue's dead letters, or those of the named that are there; says how many. */
export async function pruneFailedOf(
  context: StoreContext,
  queue: string,
  failedIds?: readonly string[],
): Promise<number> {
  const named = failedIds === undefined ? null : new Set(failedIds);
  return await transact(context, (transaction) => {
    const chosen = failedOf(transaction.state, (of) => of === queue)
      .filter((failedId) => named === null || named.has(failedId));
    dropFailed(transaction, chosen);
    return chosen.length;
  });
}

/** The dead letters of some queues, oldest first. */
export function failedOf(state: StoreState, isOne: (queue: string) => boolean): string[] {
  return [...state.failed].filter(([, { queue }]) => isOne(queue)).map(([failedId]) => failedId);
}

/** Removes dead letters, which must be there, inside a transaction. */
export function dropFailed(transaction: Transaction, failedIds: readonly string[]): void {
  for (const failedId of failedIds) {
    transaction.change();
    transaction.releaseObject(requireFailed(transaction.state, failedId).object);
    setFailed(transaction.state, failedId, null);
  }
}

function requireFailed(state: StoreState, failedId: string): FailedRecord {
  const record = state.failed.get(failedId);
  if (record !== undefined) return record;
  throw new AgentqError("not-found", `there is no dead letter ${JSON.stringify(failedId)}`, {
    details: { failedId },
  });
}

function toReference(record: FailedRecord, seq: string): Reference {
  const { generation, object, encoding, deliveries } = record;
  return {
    generation,
    object,
    seq,
    attempts: 0,
    ...(encoding === undefined ? {} : { encoding }),
    ...(deliveries === undefined ? {} : { deliveries }),
  };
}
