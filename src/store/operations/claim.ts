import { AgentqError } from "../../errors.ts";
import { heldReference, makeClaim, makeReceipt } from "../claims.ts";
import { assertId, assertQueueName } from "../names.ts";
import { compareReferences, getSlot, setSlot, type StoreState } from "../state.ts";
import { readOrWhyNot, type StoreContext, transact, type Transaction } from "../transaction.ts";
import type { Claim, ClaimOptions, Json, Receipt, Reference } from "../types.ts";
import { isReadFault } from "../payload.ts";
import { buryHeld, freeFailedId } from "./finish.ts";

const MAX_OWNER_BYTES = 1024;

/** Oldest pending → claimed. A message that is named and claimed already is returned as it is. */
export async function claim(
  context: StoreContext,
  queue: string,
  options: ClaimOptions = {},
): Promise<Claim[]> {
  const { id, count = 1 } = options;
  const ids = id === undefined ? options.ids : [id];
  assertQueueName(queue);
  ids?.forEach(assertId);
  if (typeof options.owner !== "function") assertOwner(options.owner);
  return await transact(context, (transaction) => {
    if (ids === undefined) return takeOldest(transaction, queue, { ...options, count });
    return ids.flatMap((id) => {
      const { claimed, pending } = getSlot(transaction.state, queue, id);
      if (claimed !== null) return [handOut(transaction, queue, id, claimed)];
      return pending === null
        ? []
        : [take(transaction, queue, id, pending, noteNow(options.owner))];
    });
  }, options.signal);
}

/** Messages that a disk can't read just now and that are passed over, at most: each may take it seconds. */
const MAX_PASSED_OVER = 16;

/**
 * Claims the oldest pending messages inside a transaction; what is unfit goes to the dead letters in it.
 * What the disk can't read just now (EIO) stays as it is and holds up nothing: it is thrown only where
 * nothing else is there to take, and with `lenient` not even then.
 */
export function takeOldest(
  transaction: Transaction,
  queue: string,
  { count = 1, owner, unfit }: Omit<ClaimOptions, "id" | "ids">,
  lenient = false,
): Claim[] {
  const claims: Claim[] = [];
  const passedOver = new Map<string, unknown>();
  while (claims.length < count && passedOver.size <= MAX_PASSED_OVER) {
    const want = count - claims.length + passedOver.size;
    const oldest = oldestPending(transaction.state, queue, want);
    const note = oldest.length > passedOver.size ? noteNow(owner) : undefined;
    const known = new Set(passedOver.keys());
    for (const [id, reference] of oldest) {
      if (known.has(id)) continue;
      let claim: Claim;
      try {
        claim = take(transaction, queue, id, reference, note);
      } catch (error) {
        if (!isReadFault(error)) throw error;
        passedOver.set(id, error);
        continue;
      }
      const reason = unfit?.(claim) ?? null;
      if (reason === null) claims.push(claim);
      else bury(transaction, claim.receipt, reason);
    }
    if (oldest.length < want) break;
  }
  const [fault] = passedOver.values();
  if (fault !== undefined && claims.length === 0 && !lenient) throw fault;
  return claims;
}

function bury(transaction: Transaction, receipt: Receipt, reason: string): void {
  const { state } = transaction;
  const held = heldReference(state, receipt);
  buryHeld(transaction, receipt, held, freeFailedId(state, receipt.id), reason);
}

/**
 * Replaces the owner's note on claims that the receipts still hold. All or none. A function is asked for
 * each, with the note that it has.
 */
export async function renew(
  context: StoreContext,
  receipts: readonly Receipt[],
  owner: Json | ((note: Json | null) => Json),
): Promise<Receipt[]> {
  if (typeof owner !== "function") assertOwner(owner);
  if (receipts.length === 0) return [];
  return await transact(context, (transaction) => {
    const held = receipts.map((receipt) => heldReference(transaction.state, receipt));
    transaction.change();
    return receipts.map(({ queue, id }, index) => {
      const old = held[index]!.owner ?? null;
      const note = noteNow(typeof owner === "function" ? () => owner(old) : owner);
      const claimed = withOwner(held[index]!, note);
      setSlot(transaction.state, queue, id, { claimed });
      return makeReceipt(context.storeId, queue, id, claimed, transaction.revision);
    });
  });
}

/**
 * The oldest messages that can be claimed: pending ones whose id isn't claimed at the same time.
 * One pass for one message; sorting only for batches.
 */
export function oldestPending(
  state: StoreState,
  queue: string,
  count: number,
): [id: string, reference: Reference][] {
  const entry = state.queues.get(queue);
  if (entry === undefined || !(count >= 1)) return [];
  if (count === 1) {
    let oldest: [string, Reference] | null = null;
    for (const [id, { pending, claimed }] of entry.slots) {
      if (pending === null || claimed !== null) continue;
      if (oldest === null || compareReferences(pending, oldest[1]) < 0) oldest = [id, pending];
    }
    return oldest === null ? [] : [oldest];
  }
  const candidates: [string, Reference][] = [];
  for (const [id, { pending, claimed }] of entry.slots) {
    if (pending !== null && claimed === null) candidates.push([id, pending]);
  }
  return candidates.sort((a, b) => compareReferences(a[1], b[1])).slice(0, count);
}

function take(
  transaction: Transaction,
  queue: string,
  id: string,
  pending: Reference,
  owner: Json | undefined,
): Claim {
  const claimed = withOwner({ ...pending, deliveries: (pending.deliveries ?? 0) + 1 }, owner);
  // First, since a payload that can't be read just now leaves the message as it is.
  const claim = handOut(transaction, queue, id, claimed);
  transaction.change();
  setSlot(transaction.state, queue, id, { pending: null, claimed });
  return claim;
}

/** Reads the payload under the lock, so that nobody can collect it meanwhile. */
function handOut(transaction: Transaction, queue: string, id: string, claimed: Reference): Claim {
  const { context, revision } = transaction;
  const receipt = makeReceipt(context.storeId, queue, id, claimed, revision);
  return makeClaim(receipt, claimed, readOrWhyNot(transaction, claimed.object));
}

function withOwner(reference: Reference, owner: Json | undefined): Reference {
  const { owner: _previous, ...rest } = reference;
  return owner === undefined ? rest : { ...rest, owner };
}

/** A function is asked here, under the lock: what it says of the time is then not older than the claim. */
function noteNow(owner: ClaimOptions["owner"]): Json | undefined {
  const note = typeof owner === "function" ? owner() : owner;
  assertOwner(note);
  return note;
}

function assertOwner(owner: Json | undefined): void {
  if (owner === undefined) return;
  const bytes = new TextEncoder().encode(JSON.stringify(owner)).length;
  if (bytes <= MAX_OWNER_BYTES) return;
  throw new AgentqError(
    "limit-exceeded",
    `the owner's note has ${bytes} bytes; it may have ${MAX_OWNER_BYTES}`,
    { hint: "Give the owner a shorter note: it is written with every claim." },
  );
}
