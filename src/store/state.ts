/**
 * A store's state in memory.
 *
 * A state may hold 10,000 slots and is written anew by every transaction, so its JSON is kept, in runs
 * of slots, until one of the run changes.
 */
import type { Reference, Revision, Slot } from "./types.ts";

/** Some of a queue's slots, with their JSON while that is current. */
export interface SlotRun {
  readonly ids: Set<string>;
  json: Uint8Array | null;
}

/** One slot in memory. */
export interface SlotEntry extends Slot {
  run: SlotRun;
}

/** One queue in memory. */
export interface QueueEntry {
  readonly slots: Map<string, SlotEntry>;
  runs: SlotRun[];
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
  failedJson: Uint8Array | null;
  /** Live slots over all queues. */
  slots: number;
}

export function emptyState(storeId: string): StoreState {
  return {
    storeId,
    revision: "0",
    queues: new Map(),
    failed: new Map(),
    failedJson: null,
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
  const { pending, claimed } = { ...EMPTY_SLOT, ...old, ...change };
  if (pending !== null || claimed !== null) {
    if (old === undefined) state.slots++;
    putSlot(entry, id, { pending, claimed }, old?.run);
  } else if (old !== undefined) {
    old.run.ids.delete(id);
    old.run.json = null;
    entry.slots.delete(id);
    state.slots--;
  }
}

/** Slots whose JSON is made together. */
const RUN_LENGTH = 64;

/** Puts a slot into its run, or a new one into the last that has room. */
export function putSlot(entry: QueueEntry, id: string, slot: Slot, into?: SlotRun): void {
  let run = into ?? entry.runs.at(-1);
  if (run === undefined || (into === undefined && run.ids.size >= RUN_LENGTH)) {
    run = { ids: new Set(), json: null };
    entry.runs.push(run);
  }
  run.ids.add(id);
  run.json = null;
  entry.slots.set(id, { pending: slot.pending, claimed: slot.claimed, run });
}

/** Forgets runs that have emptied, and makes the runs anew where most have become short. */
export function tidyRuns(entry: QueueEntry): void {
  entry.runs = entry.runs.filter(({ ids }) => ids.size > 0);
  if (entry.runs.length <= 8 + 4 * entry.slots.size / RUN_LENGTH) return;
  entry.runs = [];
  for (const [id, slot] of entry.slots) putSlot(entry, id, slot);
}

/** The queue's entry, made when it isn't there. */
export function registerQueue(state: StoreState, queue: string): QueueEntry {
  let entry = state.queues.get(queue);
  if (entry === undefined) {
    entry = { slots: new Map(), runs: [] };
    state.queues.set(queue, entry);
  }
  return entry;
}

export function setFailed(state: StoreState, failedId: string, record: FailedRecord | null): void {
  state.failedJson = null;
  if (record === null) state.failed.delete(failedId);
  else state.failed.set(failedId, record);
}
