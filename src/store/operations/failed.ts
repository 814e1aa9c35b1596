/** The failed index: listed, shown, retried, pruned. */
import { AgentqError } from "../../errors.ts";
import { makeClaim, makeReceipt } from "../claims.ts";
import { readPayload, readState } from "../inspect.ts";
import { type FailedRecord, getSlot, setFailed, setSlot, type StoreState } from "../state.ts";
import { type StoreContext, transact } from "../transaction.ts";
import type { Claim, FailedEntry, Receipt, Reference } from "../types.ts";

export async function listFailed(context: StoreContext): Promise<FailedEntry[]> {
  return [...readState(context).failed].map(([failedId, record]) => ({ failedId, ...record }));
}

export async function showFailed(
  context: StoreContext,
  failedId: string,
): Promise<{ entry: FailedEntry; claim: Claim }> {
  return readPayload(context, (state, read) => {
    const record = requireFailed(state, failedId);
    const reference = toReference(record, state.revision);
    const { queue, id } = record;
    const receipt = makeReceipt(state.storeId, queue, id, reference, state.revision);
    const claim = makeClaim(receipt, reference, read(record.object));
    return { entry: { failedId, ...record }, claim };
  });
}

/** Failed → pending at the end of its queue, attempts from 0; the generation stays. */
export async function retryFailed(context: StoreContext, failedId: string): Promise<Receipt> {
  return await transact(context, (transaction) => {
    const { state, revision } = transaction;
    const record = requireFailed(state, failedId);
    const { queue, id } = record;
    if (getSlot(state, queue, id).pending !== null) {
      throw new AgentqError(
        "already-exists",
        `${queue}/${id} is pending again, with a newer payload than the dead letter ${failedId}`,
        { hint: "Prune the dead letter, or wait until the newer one is done." },
      );
    }
    const reference = toReference(record, revision);
    transaction.change("bounded");
    setFailed(state, failedId, null);
    setSlot(state, queue, id, { pending: reference });
    return makeReceipt(state.storeId, queue, id, reference, revision);
  });
}

/** Removes dead letters for good; an ID that isn't there is `not-found` and nothing is removed. */
export async function pruneFailed(
  context: StoreContext,
  failedIds?: readonly string[],
): Promise<number> {
  return await transact(context, (transaction) => {
    const { state } = transaction;
    const chosen = [...new Set(failedIds ?? state.failed.keys())];
    const records = chosen.map((failedId) => requireFailed(state, failedId));
    if (chosen.length === 0) return 0;
    transaction.change();
    chosen.forEach((failedId, index) => {
      transaction.releaseObject(records[index]!.object);
      setFailed(state, failedId, null);
    });
    return chosen.length;
  });
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
