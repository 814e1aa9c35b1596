/**
 * One queue in memory. Order is a sequence number given when a message becomes pending at the back. What
 * comes back to its old place goes into `returned`, which stays short; the rest is a queue that is only
 * appended to.
 */
import type { DeadLetter } from "../contract.ts";

export interface Entry {
  readonly id: string;
  readonly data: Uint8Array;
  seq: number;
  attempts: number;
  gone: boolean;
}

export interface Claim {
  readonly entry: Entry;
  readonly lease: string;
  readonly owner: string;
  grantedBoot: number;
  grantedWall: number;
  lengthMs: number;
}

export interface Queue {
  /** In order of `seq`; entries before `head` and entries that are `gone` are spent. */
  fresh: Entry[];
  head: number;
  returned: Entry[];
  readonly pending: Map<string, Entry>;
  readonly processing: Map<string, Claim>;
  readonly failed: Map<string, DeadLetter>;
}

let sequence = 0;

/** Higher than any before, in whatever queue. */
export function nextNumber(): number {
  return ++sequence;
}

export function newQueue(): Queue {
  return {
    fresh: [],
    head: 0,
    returned: [],
    pending: new Map(),
    processing: new Map(),
    failed: new Map(),
  };
}

/** Without its dead letters. */
export function empty(queue: Queue): void {
  queue.fresh = [];
  queue.head = 0;
  queue.returned = [];
  queue.pending.clear();
  queue.processing.clear();
}

/** Makes a message pending at the back; one of its id that is pending already is spent. */
export function append(queue: Queue, id: string, data: Uint8Array, attempts: number): void {
  const replaced = queue.pending.get(id);
  if (replaced) replaced.gone = true;
  const entry: Entry = { id, data, seq: nextNumber(), attempts, gone: false };
  queue.fresh.push(entry);
  queue.pending.set(id, entry);
}

/** To its old place, unless a newer one of its id is pending. */
export function giveBack(queue: Queue, entry: Entry): "pending" | "superseded" {
  if (queue.pending.has(entry.id)) return "superseded";
  // A copy: the taken entry may still stand in `fresh`, spent, behind one that is blocked.
  const back = { ...entry, gone: false };
  queue.pending.set(back.id, back);
  let at = queue.returned.length;
  while (at > 0 && queue.returned[at - 1]!.seq > back.seq) at--;
  queue.returned.splice(at, 0, back);
  return "pending";
}

/** A Buffer's own slice would be a view. */
export function copy(data: Uint8Array): Uint8Array {
  return new Uint8Array(data);
}

/** The oldest pending entries whose id isn't being processed, without taking them. */
export function nextPending(queue: Queue, count: number): Entry[] {
  const next: Entry[] = [];
  let [old, fresh] = [0, queue.head];
  while (next.length < count) {
    const a = queue.returned[old];
    const b = queue.fresh[fresh];
    const entry = a && (!b || a.seq < b.seq) ? a : b;
    if (entry === undefined) break;
    entry === a ? old++ : fresh++;
    if (!entry.gone && !queue.processing.has(entry.id)) next.push(entry);
  }
  return next;
}

/** Forgets spent entries, in constant time per entry over the queue's life. */
export function sweep(queue: Queue): void {
  queue.returned = queue.returned.filter((entry) => !entry.gone);
  while (queue.fresh[queue.head]?.gone) queue.head++;
  if (queue.head > 1024 && queue.head * 2 > queue.fresh.length) {
    queue.fresh = queue.fresh.slice(queue.head);
    queue.head = 0;
  }
}
