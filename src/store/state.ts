/**
 * A store's state in memory.
 *
 * A state may hold 10,000 slots and is written anew by every transaction, so each slot and queue keeps
 * its JSON text until it changes.
 */
import type { Reference, Revision, Slot } from "./types.ts";

/** One slot in memory, with its JSON text while that is current. */
export interface SlotEntry extends Slot {
  text: string | null;
}

/** One queue in memory, with its JSON text while that is current. */
export interface QueueEntry {
  readonly slots: Map<string, SlotEntry>;
  text: string | null;
}

export interface FailedRecord {
  readonly queue: string;
  readonly id: string;
  readonly generation: string;
  readonly object: string;
  readonly reason: string;
  readonly attempts?: number;
  readonly encoding?: string;
  readonly deliveries?: number;
}

export interface StoreState {
  readonly storeId: string;
  revision: Revision;
  readonly queues: Map<string, QueueEntry>;
  readonly failed: Map<string, FailedRecord>;
  failedText: string | null;
  /** Live slots over all queues. */
  slots: number;
}

export function emptyState(storeId: string): StoreState {
  return {
    storeId,
    revision: "0",
    queues: new Map(),
    failed: new Map(),
    failedText: null,
    slots: 0,
  };
}

export function nextRevision(revision: Revision): Revision {
  return String(BigInt(revision) + 1n);
}

/** Orders references as they were published: by revision, then by place within the batch. */
export function compareReferences(a: Reference, b: Reference): number {
  if (a.seq !== b.seq) {
    return a.seq.length - b.seq.length || (a.seq < b.seq ? -1 : 1);
  }
  return (a.ordinal ?? 0) - (b.ordinal ?? 0);
}

/** The slot's references; both null when there is no such slot. */
export function getSlot(state: StoreState, queue: string, id: string): Slot {
  return state.queues.get(queue)?.slots.get(id) ?? EMPTY_SLOT;
}

const EMPTY_SLOT: Slot = { pending: null, claimed: null };

/** Changes part of a slot; a slot without references disappears, its queue stays. */
export function setSlot(
  state: StoreState,
  queue: string,
  id: string,
  change: Partial<Slot>,
): void {
  const entry = registerQueue(state, queue);
  const old = entry.slots.get(id);
  const slot = { ...EMPTY_SLOT, ...old, ...change, text: null };
  entry.text = null;
  if (slot.pending === null && slot.claimed === null) {
    if (entry.slots.delete(id)) state.slots--;
    return;
  }
  if (old === undefined) state.slots++;
  entry.slots.set(id, slot);
}

/** The queue's entry, made when it isn't there. */
export function registerQueue(state: StoreState, queue: string): QueueEntry {
  let entry = state.queues.get(queue);
  if (entry === undefined) {
    entry = { slots: new Map(), text: null };
    state.queues.set(queue, entry);
  }
  return entry;
}

export function setFailed(state: StoreState, failedId: string, record: FailedRecord | null): void {
  state.failedText = null;
  if (record === null) state.failed.delete(failedId);
  else state.failed.set(failedId, record);
}
