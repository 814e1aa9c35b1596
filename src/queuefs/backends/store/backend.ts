/**
 * Queues in the durable v2 store: the embedded default, link-free and provable, for up to thousands
 * of messages. One state file is the snapshot; the store's own receipts are the leases.
 */
import { randomUUID } from "node:crypto";
import { AgentqError, isAgentqError } from "../../../errors.ts";
import {
  type Claim,
  initStore,
  openStore,
  type Store,
  type StoreOptions,
} from "../../../store/mod.ts";
import { type LeaseClock, systemClock } from "../../clock.ts";
import type {
  Delivery,
  DequeueOptions,
  QueueBackend,
  QueueCounts,
  UnackedMessage,
} from "../../contract.ts";
import { checkMessageId, checkQueueName } from "../../names.ts";
import { noQueue, realPlace } from "../shared.ts";
import { storeDeadLetters } from "./dead-letters.ts";
import { leaseNote, leaseToken } from "./leases.ts";
import { fromClaim, toStorePayload } from "./payload.ts";
import { recoverStore } from "./recover.ts";
import { settling } from "./settle.ts";

export interface StoreBackendOptions extends StoreOptions {
  /** Initialise a store where there is none. Otherwise `backend-missing`. */
  create?: boolean;
  clock?: LeaseClock;
}

/** Opens the queues of the store in `root`. Throws the store's own errors too. */
export async function storeBackend(
  root: string,
  options: StoreBackendOptions = {},
): Promise<QueueBackend> {
  const { create, clock = systemClock, ...storeOptions } = options;
  const store = await openOrInit(root, create ?? false, storeOptions);

  const requireQueue = async (queue: string): Promise<string> => {
    checkQueueName(queue);
    if (!(await store.snapshot()).queues.has(queue)) throw noQueue(queue);
    return queue;
  };
  const count = async (queue: string): Promise<QueueCounts> => {
    const counts = (await store.snapshot()).queues.get(checkQueueName(queue));
    if (counts === undefined) throw noQueue(queue);
    return { pending: counts.pending, processing: counts.processing };
  };

  const { finish, renew } = settling(store, requireQueue);

  /** What the owner is to be told by a claim: since when, by the clock, as it is made. */
  const noteOf = ({ owner, leaseMs }: DequeueOptions) => () => leaseNote(owner, leaseMs, clock());

  return {
    kind: "store",
    label: `store:${root}`,
    identity: () => `store ${store.storeId} ${realPlace(store.root)}`,
    create: async (queue) => await store.createQueue(checkQueueName(queue)),
    remove: async (queue) => {
      const { queues } = await store.removeQueue(checkQueueName(queue), { tree: true });
      if (queues.length === 0) throw noQueue(queue);
      return queues;
    },
    list: (prefix) => store.listQueues(prefix),
    enqueue: async (queue, messages) => {
      checkQueueName(queue);
      const entries = messages.map(({ id, data }) => ({
        id: id === undefined ? randomUUID() : checkMessageId(id),
        ...toStorePayload(data),
      }));
      if (entries.length === 0) await requireQueue(queue);
      // Looked for in the same commit: a queue that was removed meanwhile isn't made anew.
      await store.enqueueMany(queue, entries, { existing: true });
      return entries.map(({ id }) => id);
    },
    dequeue: async (queue, options) => {
      checkQueueName(queue);
      const { count = 1 } = options;
      const { unfit, deliveries, tell } = reading();
      const claims = await store.claim(queue, {
        count,
        owner: noteOf(options),
        unfit,
        ...ending(options),
      });
      tell(options);
      if (claims.length === 0) await requireQueue(queue);
      return deliveries(claims);
    },
    settleAndDequeue: async (queue, endings, options) => {
      const { count = 1 } = options;
      const { unfit, deliveries, tell } = reading();
      const claiming = { count, owner: noteOf(options), unfit, ...ending(options) };
      const turn = await finish(queue, endings, claiming);
      tell(options);
      return { settlements: turn.settlements, deliveries: deliveries(turn.claims) };
    },
    ack: async (queue, receipts) =>
      (await finish(queue, receipts.map((receipt) => ({ how: "ack", receipt })))).settlements,
    requeue: async (queue, receipts, { counted = true } = {}) => {
      const how = counted ? "requeue" : "release";
      return (await finish(queue, receipts.map((receipt) => ({ how, receipt })))).settlements;
    },
    fail: async (queue, receipts, reason) =>
      (await finish(queue, receipts.map((receipt) => ({ how: "fail", receipt, reason }))))
        .settlements,
    // Whoever asks renews what was claimed in another's name too, and it stays in that.
    renew: (queue, receipts, leaseMs) =>
      renew(queue, receipts, (owner) => leaseNote(owner, leaseMs, clock())),
    peek: async (queue) => {
      checkQueueName(queue);
      for (let count = 1;; count *= 4) {
        const claims = await store.peek(queue, { count });
        for (const claim of claims) {
          const decoded = fromClaim(claim);
          if ("data" in decoded) return { id: claim.receipt.id, data: decoded.data };
        }
        if (claims.length < count) break;
      }
      await requireQueue(queue);
      return null;
    },
    status: count,
    statuses: async (queues) => {
      queues?.forEach(checkQueueName);
      const all = (await store.snapshot()).queues;
      const names = queues ?? [...all.keys()].sort();
      return new Map(names.map((name) => {
        const counts = all.get(name);
        if (counts === undefined) throw noQueue(name);
        return [name, { pending: counts.pending, processing: counts.processing }];
      }));
    },
    complete: async (queues) => {
      queues.forEach(checkQueueName);
      const all = (await store.snapshot()).queues;
      return queues.every((name) => {
        const counts = all.get(name);
        if (counts === undefined) throw noQueue(name);
        return counts.unacked === 0;
      });
    },
    messages: async (queue) => {
      await requireQueue(queue);
      const all = await store.read({ queue });
      const list = (state: "claimed" | "pending"): UnackedMessage[] =>
        all.filter(({ message }) => message.state === state).map(({ message, claim }) => {
          const decoded = fromClaim(claim);
          return {
            id: message.id,
            state: state === "claimed" ? "processing" : "pending",
            data: "data" in decoded ? decoded.data : null,
          };
        });
      return [...list("claimed"), ...list("pending")];
    },
    clear: async (queue) => {
      const cleared = await store.clear(checkQueueName(queue), { claimed: true });
      if (cleared === 0) await requireQueue(queue);
      return cleared;
    },
    recover: async (queue, options = {}) => {
      if (queue !== null) await requireQueue(queue);
      return await recoverStore(store, clock, queue, options);
    },
    failed: storeDeadLetters(store, requireQueue),
    close: async () => {},
  };
}

function ending({ signal }: DequeueOptions): { signal?: AbortSignal } {
  return signal === undefined ? {} : { signal };
}

/** Reads what is claimed once: what can't be used is named under the lock, the rest is handed out. */
function reading() {
  const data = new Map<string, Uint8Array>();
  const problems = new Map<string, [id: string, problem: string]>();
  return {
    unfit(claim: Claim): string | null {
      const decoded = fromClaim(claim);
      if ("problem" in decoded) {
        const { id, generation } = claim.receipt;
        problems.set(generation, [id, decoded.problem]);
        return decoded.problem;
      }
      data.set(claim.receipt.id, decoded.data);
      return null;
    },
    tell({ onUnreadable }: DequeueOptions): void {
      for (const [id, problem] of problems.values()) onUnreadable?.(id, problem);
    },
    deliveries: (claims: readonly Claim[]): Delivery[] =>
      claims.map(({ receipt, attempts }) => ({
        id: receipt.id,
        data: data.get(receipt.id)!,
        lease: leaseToken(receipt),
        attempts,
      })),
  };
}

async function openOrInit(root: string, create: boolean, options: StoreOptions): Promise<Store> {
  try {
    return await openStore(root, options);
  } catch (error) {
    if (!isAgentqError(error, "store-missing")) throw error;
    if (!create) {
      throw new AgentqError("backend-missing", `there is no store in ${root}`, {
        cause: error,
        details: { path: root },
      });
    }
  }
  try {
    await initStore(root, options);
  } catch (error) {
    // Somebody else was faster.
    if (!isAgentqError(error, "store-exists")) throw error;
  }
  return await openStore(root, options);
}
