/** The ways a claim ends: acknowledged, given back, or among the dead letters. */
import { AgentqError } from "../../errors.ts";
import { eachMessage, heldReference, makeReceipt } from "../claims.ts";
import { assertId, assertQueueName } from "../names.ts";
import { getSlot, setFailed, setSlot, type StoreState } from "../state.ts";
import { type StoreContext, transact, type Transaction } from "../transaction.ts";
import type { FailedEntry, MessageInfo, Receipt, Reference, ReturnOutcome } from "../types.ts";

/** Claimed → gone, all or none. A newer pending generation of the same id is untouched. */
export async function ack(context: StoreContext, receipts: readonly Receipt[]): Promise<void> {
  const unique = distinct(receipts);
  if (unique.length === 0) return;
  await transact(context, (transaction) => {
    const held = unique.map((receipt) => heldReference(transaction.state, receipt));
    unique.forEach((receipt, index) => dropHeld(transaction, receipt, held[index]!));
  });
}

/** Acknowledges one claim inside a transaction. */
export function dropHeld(transaction: Transaction, receipt: Receipt, held: Reference): void {
  transaction.change();
  transaction.releaseObject(held.object);
  setSlot(transaction.state, receipt.queue, receipt.id, { claimed: null });
}

/** Claimed → pending at the end of the queue, attempts + 1, all or none. */
export async function requeue(
  context: StoreContext,
  receipts: readonly Receipt[],
): Promise<ReturnOutcome[]> {
  const unique = distinct(receipts);
  if (unique.length === 0) return [];
  return await transact(context, (transaction) => {
    const held = unique.map((receipt) => heldReference(transaction.state, receipt));
    return unique.map((receipt, index) => sendBack(transaction, receipt, held[index]!, index));
  });
}

/** Puts one claim at the end inside a transaction; `ordinal` is its place among those of this one. */
export function sendBack(
  transaction: Transaction,
  receipt: Receipt,
  held: Reference,
  ordinal: number,
): ReturnOutcome {
  const { ordinal: _place, ...rest } = held;
  const reference: Reference = {
    ...rest,
    seq: transaction.revision,
    attempts: rest.attempts + 1,
    ...(ordinal === 0 ? {} : { ordinal }),
  };
  return giveBack(transaction, receipt.queue, receipt.id, reference);
}

/** Claimed → pending at its old place in the order. */
export async function release(
  context: StoreContext,
  which: readonly Receipt[] | ((message: MessageInfo) => boolean),
  options: { countAttempt?: boolean; queue?: string; signal?: AbortSignal } = {},
): Promise<ReturnOutcome[]> {
  if (options.queue !== undefined) assertQueueName(options.queue);
  const more = options.countAttempt === true ? 1 : 0;
  return await transact(context, (transaction) => {
    const { state } = transaction;
    const chosen = typeof which === "function"
      ? [...eachMessage(state, options.queue)].filter((message) =>
        message.state === "claimed" && which(message)
      )
      : distinct(which).map((receipt) => ({
        queue: receipt.queue,
        id: receipt.id,
        reference: heldReference(state, receipt),
      }));
    return chosen.map(({ queue, id, reference }) =>
      giveBack(transaction, queue, id, { ...reference, attempts: reference.attempts + more })
    );
  }, options.signal);
}

/** Where a newer pending generation exists it wins, and the returned one is gone. */
export function giveBack(
  transaction: Transaction,
  queue: string,
  id: string,
  claimed: Reference,
): ReturnOutcome {
  const { state, context, revision } = transaction;
  transaction.change();
  const { owner: _owner, ...reference } = claimed;
  const receipt = makeReceipt(context.storeId, queue, id, reference, revision);
  if (getSlot(state, queue, id).pending !== null) {
    transaction.releaseObject(reference.object);
    setSlot(state, queue, id, { claimed: null });
    return { receipt, outcome: "superseded" };
  }
  setSlot(state, queue, id, { claimed: null, pending: reference });
  return { receipt, outcome: "pending" };
}

const MAX_REASON_LENGTH = 4096;

/**
 * Claimed → failed index, create-only across all queues. Doing it again with the same receipt, after
 * an answer that got lost, gives the entry that is there.
 */
export async function quarantine(
  context: StoreContext,
  receipt: Receipt,
  options: { failedId?: string; reason: string },
): Promise<FailedEntry> {
  const failedId = options.failedId ?? receipt.id;
  assertId(failedId);
  return await transact(context, (transaction) => {
    const { state } = transaction;
    const existing = state.failed.get(failedId);
    if (
      existing !== undefined && existing.generation === receipt.generation &&
      existing.queue === receipt.queue && existing.id === receipt.id &&
      receipt.storeId === state.storeId
    ) {
      return { failedId, ...existing };
    }
    const held = heldReference(state, receipt);
    if (existing !== undefined) {
      throw new AgentqError(
        "already-exists",
        `there is a dead letter ${failedId} already, from ${existing.queue}/${existing.id}`,
        { hint: "Give another failed ID, or retry or prune that one.", details: { failedId } },
      );
    }
    return buryHeld(transaction, receipt, held, failedId, options.reason);
  });
}

/** Moves one claim to the failed index inside a transaction; `failedId` must be free. `untried`: it was no attempt. */
export function buryHeld(
  transaction: Transaction,
  receipt: Receipt,
  held: Reference,
  failedId: string,
  reason: string,
  untried = false,
): FailedEntry {
  const record = {
    queue: receipt.queue,
    id: receipt.id,
    generation: held.generation,
    object: held.object,
    reason: shortened(reason),
    // The one that failed is counted by whoever reads it.
    attempts: Math.max(0, held.attempts - (untried ? 1 : 0)),
    ...(held.encoding === undefined ? {} : { encoding: held.encoding }),
    ...(held.deliveries === undefined ? {} : { deliveries: held.deliveries }),
  };
  transaction.change();
  setFailed(transaction.state, failedId, record);
  setSlot(transaction.state, receipt.queue, receipt.id, { claimed: null });
  return { failedId, ...record };
}

/** The ID itself, or with the first free number where that is taken: still an ID, so long ones are cut. */
export function freeFailedId(state: StoreState, id: string): string {
  if (!state.failed.has(id)) return id;
  for (let n = 2;; n++) {
    const name = `${id.slice(0, 99 - String(n).length)}.${n}`;
    if (!state.failed.has(name)) return name;
  }
}

/** Long reasons (a command's whole output) are cut: the state holds all of them. */
function shortened(reason: string): string {
  const text = reason.toWellFormed();
  return text.length <= MAX_REASON_LENGTH
    ? text
    : `${text.slice(0, MAX_REASON_LENGTH - 1).toWellFormed()}…`;
}

/** Two receipts for one claim are one. */
function distinct(receipts: readonly Receipt[]): Receipt[] {
  const seen = new Map<string, Receipt>();
  for (const receipt of receipts) {
    seen.set(JSON.stringify([receipt.queue, receipt.id, receipt.generation]), receipt);
  }
  return [...seen.values()];
}
