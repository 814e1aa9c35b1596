/**
 * Queues in this process: for libraries and tests. Processing is a real collection, so the queue is
 * complete by the same rule as everywhere; nothing survives the process.
 */
import { randomUUID } from "node:crypto";
import { type LeaseClock, systemClock } from "../clock.ts";
import type {
  Delivery,
  DequeueOptions,
  Ending,
  NewMessage,
  QueueBackend,
  QueueCounts,
  Receipt,
  Recovered,
  RecoverOptions,
  RequeueOptions,
  Settlement,
  UnackedMessage,
} from "../contract.ts";
import { checkMessageId, checkQueueName, isInTree } from "../names.ts";
import { ownsLease } from "../owner.ts";
import { recoverWatching } from "../watch.ts";
import {
  append,
  type Claim,
  copy,
  empty,
  type Entry,
  giveBack,
  newQueue,
  nextNumber,
  nextPending,
  type Queue,
  sweep,
} from "./memory-queue.ts";
import { freeFailedId, idInUse, noDeadLetter, noQueue } from "./shared.ts";

/** A backend of its own, empty. `clock` is for tests. */
export function memoryBackend(options: { clock?: LeaseClock } = {}): QueueBackend {
  const clock = options.clock ?? systemClock;
  const queues = new Map<string, Queue>();

  const open = (name: string): Queue => {
    const queue = queues.get(checkQueueName(name));
    if (queue === undefined) throw noQueue(name);
    return queue;
  };

  const settleOne = (
    queue: Queue,
    receipt: Receipt,
    apply: (queue: Queue, claim: Claim) => Settlement,
  ): Settlement => {
    const claim = queue.processing.get(receipt.id);
    if (claim === undefined) return "stale";
    const current = "lease" in receipt
      ? claim.lease === receipt.lease
      : ownsLease(claim.owner, receipt.owner);
    return current ? apply(queue, claim) : "stale";
  };
  const settle = async (
    name: string,
    receipts: readonly Receipt[],
    apply: (queue: Queue, claim: Claim) => Settlement,
  ): Promise<Settlement[]> => {
    const queue = open(name);
    return receipts.map((receipt) => settleOne(queue, receipt, apply));
  };

  const acked = (queue: Queue, { entry }: Claim): Settlement => {
    queue.processing.delete(entry.id);
    return "done";
  };
  const requeued = (counted: boolean) => (queue: Queue, { entry }: Claim): Settlement => {
    queue.processing.delete(entry.id);
    if (queue.pending.has(entry.id)) return "superseded";
    if (counted) append(queue, entry.id, entry.data, entry.attempts + 1);
    else giveBack(queue, entry);
    return "done";
  };
  const failed =
    (name: string, reason: string, untried = false) =>
    (queue: Queue, { entry }: Claim): Settlement => {
      queue.processing.delete(entry.id);
      const failedId = freeFailedId(entry.id, (id) => queue.failed.has(id));
      queue.failed.set(failedId, {
        failedId,
        queue: name,
        id: entry.id,
        reason,
        attempts: entry.attempts + (untried ? 0 : 1),
        failedAt: clock().wall,
        data: entry.data,
        raw: null,
      });
      return "done";
    };
  const end = (name: string, ending: Ending) =>
    ending.how === "ack"
      ? acked
      : ending.how === "fail"
      ? failed(name, ending.reason, ending.untried)
      : requeued(ending.how === "requeue");

  const take = (queue: Queue, { owner, leaseMs, count = 1 }: DequeueOptions): Delivery[] => {
    const now = clock();
    const deliveries: Delivery[] = [];
    for (const entry of nextPending(queue, count)) {
      entry.gone = true;
      queue.pending.delete(entry.id);
      const lease = `${nextNumber()}.${owner}`;
      queue.processing.set(entry.id, {
        entry,
        lease,
        owner,
        grantedBoot: now.boot,
        grantedWall: now.wall,
        lengthMs: leaseMs,
      });
      const { id, data, attempts } = entry;
      deliveries.push({ id, data: copy(data), attempts, lease });
    }
    sweep(queue);
    return deliveries;
  };

  const counts = (queue: Queue): QueueCounts => ({
    pending: queue.pending.size,
    processing: queue.processing.size,
  });

  const identity = `memory ${randomUUID()}`;
  return {
    kind: "memory",
    label: "memory:",
    identity: () => identity,
    create: async (name) => {
      if (queues.has(checkQueueName(name))) return false;
      queues.set(name, newQueue());
      return true;
    },
    remove: async (name) => {
      checkQueueName(name);
      const names = [...queues.keys()].filter((queue) => isInTree(queue, name)).sort();
      if (names.length === 0) throw noQueue(name);
      for (const queue of names) queues.delete(queue);
      return names;
    },
    list: async (prefix) =>
      [...queues.keys()].filter((name) => prefix === undefined || isInTree(name, prefix)).sort(),
    enqueue: async (name: string, messages: readonly NewMessage[]) => {
      const queue = open(name);
      for (const { id } of messages) if (id !== undefined) checkMessageId(id);
      return messages.map(({ id = randomUUID(), data }) => {
        append(queue, id, copy(data), 0);
        return id;
      });
    },
    dequeue: async (name, options) => take(open(name), options),
    ack: (name, receipts) => settle(name, receipts, acked),
    requeue: (name, receipts, { counted = true }: RequeueOptions = {}) =>
      settle(name, receipts, requeued(counted)),
    fail: (name, receipts, reason) => settle(name, receipts, failed(name, reason)),
    settleAndDequeue: async (name, endings, options) => {
      const queue = open(name);
      const settlements = endings.map((ending) =>
        settleOne(queue, ending.receipt, end(name, ending))
      );
      return { settlements, deliveries: take(queue, options) };
    },
    renew: (name, receipts, leaseMs) => {
      const now = clock();
      return settle(name, receipts, (_, claim) => {
        Object.assign(claim, { grantedBoot: now.boot, grantedWall: now.wall, lengthMs: leaseMs });
        return "done";
      });
    },
    peek: async (name) => {
      const [entry] = nextPending(open(name), 1);
      return entry ? { id: entry.id, data: copy(entry.data) } : null;
    },
    status: async (name) => counts(open(name)),
    statuses: async (names) =>
      new Map((names ?? [...queues.keys()].sort()).map((name) => [name, counts(open(name))])),
    complete: async (names) =>
      names.map(open).every((queue) => queue.pending.size === 0 && queue.processing.size === 0),
    messages: async (name) => {
      const queue = open(name);
      const bySeq = (a: Entry, b: Entry) => a.seq - b.seq;
      const list = (entries: Entry[], state: UnackedMessage["state"]) =>
        entries.sort(bySeq).map(({ id, data }) => ({ id, state, data: copy(data) }));
      return [
        ...list([...queue.processing.values()].map(({ entry }) => entry), "processing"),
        ...list([...queue.pending.values()], "pending"),
      ];
    },
    clear: async (name) => {
      const queue = open(name);
      const removed = queue.pending.size + queue.processing.size;
      empty(queue);
      return removed;
    },
    recover: (name: string | null, options: RecoverOptions = {}) =>
      recoverWatching(options, (mayTake) => {
        const now = clock();
        const recovered: Recovered[] = [];
        for (const each of name === null ? [...queues.keys()] : [name]) {
          const queue = open(each);
          for (const claim of [...queue.processing.values()]) {
            const why = mayTake(claim.lease, claim, now);
            if (why === null) continue;
            queue.processing.delete(claim.entry.id);
            claim.entry.attempts++;
            const outcome = giveBack(queue, claim.entry);
            recovered.push({ queue: each, id: claim.entry.id, why, outcome });
          }
        }
        return recovered;
      }),
    failed: {
      list: async (name, limit = Infinity) => [...open(name).failed.values()].slice(0, limit),
      show: async (name, failedId) => {
        const letter = open(name).failed.get(failedId);
        if (letter === undefined) throw noDeadLetter(name, failedId);
        return letter;
      },
      retry: async (name, failedIds) => {
        const queue = open(name);
        const letters = [...new Set(failedIds)].map((failedId) => {
          const letter = queue.failed.get(failedId);
          if (letter === undefined) throw noDeadLetter(name, failedId);
          if (queue.pending.has(letter.id)) throw idInUse(name, failedId, "pending");
          if (queue.processing.has(letter.id)) throw idInUse(name, failedId, "processing");
          return letter;
        });
        const twice = letters.find(({ id }, i) => letters.findIndex((l) => l.id === id) < i);
        if (twice) throw idInUse(name, twice.failedId, "pending");
        for (const letter of letters) {
          queue.failed.delete(letter.failedId);
          append(queue, letter.id, letter.data!, 0);
        }
        return letters.map(({ id }) => id);
      },
      prune: async (name, { failedIds, before } = {}) => {
        const { failed } = open(name);
        let pruned = 0;
        for (const letter of [...failed.values()]) {
          if (failedIds && !failedIds.includes(letter.failedId)) continue;
          if (before !== undefined && !(letter.failedAt! < before)) continue;
          failed.delete(letter.failedId);
          pruned++;
        }
        return pruned;
      },
    },
    close: async () => {},
  };
}
