/**
 * Queues in the durable v2 store: the embedded default, link-free and provable, for up to thousands
 * of messages. One state file is the snapshot; the store's own receipts are the leases.
 */
import { randomUUID } from "node:crypto";
import { AgentqError, isAgentqError } from "../../../errors.ts";
import {
  type Claim,
  type ClaimEnding,
  initStore,
  openStore,
  type Receipt as StoreReceipt,
  type Store,
  type StoreOptions,
} from "../../../store/mod.ts";
import { type LeaseClock, systemClock } from "../../clock.ts";
import type {
  Delivery,
  DequeueOptions,
  Ending,
  QueueBackend,
  QueueCounts,
  Settlement,
  UnackedMessage,
} from "../../contract.ts";
import { checkMessageId, checkQueueName } from "../../names.ts";
import { noQueue } from "../shared.ts";
import { storeDeadLetters } from "./dead-letters.ts";
import { findClaims, leaseNote, leaseOf, leaseToken } from "./leases.ts";
import { readStored } from "./objects.ts";
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
  const known = new Set<string>();

  const requireQueue = async (queue: string): Promise<string> => {
    checkQueueName(queue);
    if (!(await store.snapshot()).queues.has(queue)) {
      known.delete(queue);
      throw noQueue(queue);
    }
    known.add(queue);
    return queue;
  };
  const count = async (queue: string): Promise<QueueCounts> => {
    const counts = (await store.snapshot()).queues.get(checkQueueName(queue));
    if (counts === undefined) throw noQueue(queue);
    return { pending: counts.pending, processing: counts.processing };
  };

  const { settle, bury } = settling(store, requireQueue);

  /** What the owner is to be told by a claim: since when, by the clock, as it is made. */
  const noteOf = ({ owner, leaseMs }: DequeueOptions) => () => leaseNote(owner, leaseMs, clock());

  /** Moves to the dead letters what of these claims can't be read. */
  const buryUnreadable = async (claims: readonly Claim[]): Promise<void> => {
    for (const claim of claims) {
      const decoded = fromClaim(claim);
      if ("problem" in decoded) await bury(claim.receipt, decoded.problem);
    }
  };

  const dequeue = async (queue: string, options: DequeueOptions): Promise<Delivery[]> => {
    checkQueueName(queue);
    const { count = 1 } = options;
    const deliveries: Delivery[] = [];
    while (deliveries.length < count) {
      const want = count - deliveries.length;
      const claims = await store.claim(queue, { count: want, owner: noteOf(options) });
      deliveries.push(...readable(claims));
      await buryUnreadable(claims);
      if (claims.length < want) break;
    }
    if (deliveries.length === 0) await requireQueue(queue);
    return deliveries;
  };

  return {
    kind: "store",
    label: `store:${root}`,
    create: async (queue) => await store.createQueue(checkQueueName(queue)),
    remove: async (queue) => {
      const names = await store.listQueues(checkQueueName(queue));
      if (names.length === 0) throw noQueue(queue);
      await store.removeQueue(queue, { tree: true });
      const letters = (await store.failed.list()).filter((letter) => names.includes(letter.queue));
      if (letters.length > 0) await store.failed.prune(letters.map(({ failedId }) => failedId));
      names.forEach((name) => known.delete(name));
      return names;
    },
    list: (prefix) => store.listQueues(prefix),
    enqueue: async (queue, messages) => {
      if (!known.has(checkQueueName(queue)) || messages.length === 0) await requireQueue(queue);
      const entries = messages.map(({ id, data }) => ({
        id: id === undefined ? randomUUID() : checkMessageId(id),
        ...toStorePayload(data),
      }));
      await store.enqueueMany(queue, entries);
      return entries.map(({ id }) => id);
    },
    dequeue,
    settleAndDequeue: async (queue, endings, options) => {
      checkQueueName(queue);
      const held = await findClaims(store, queue, endings.map(({ receipt }) => receipt));
      const { count = 1 } = options;
      const { outcomes, claims } = await store.finishAndClaim(
        queue,
        endings.flatMap((ending, i) => held[i] ? [storeEnding(ending, held[i])] : []),
        { count, owner: noteOf(options) },
      );
      const settlements = held.map((receipt) => receipt === null ? "stale" : outcomes.shift()!);
      const deliveries = readable(claims);
      if (deliveries.length < claims.length) {
        // Steps of their own: should one fail, what was done and taken is still to be told. The rest
        // stays in processing until its lease runs out.
        try {
          await buryUnreadable(claims);
          const want = claims.length < count ? 0 : count - deliveries.length;
          if (want > 0) deliveries.push(...await dequeue(queue, { ...options, count: want }));
        } catch {
          // The next call meets it again.
        }
      }
      if (claims.length === 0 && settlements.every((each) => each === "stale")) {
        await requireQueue(queue);
      }
      return { settlements, deliveries };
    },
    ack: (queue, receipts) =>
      settle(queue, receipts, async (held) => {
        await store.ack(...held);
        return held.map(() => "done");
      }),
    requeue: (queue, receipts, { counted = true } = {}) =>
      settle(queue, receipts, async (held) => {
        const returned = counted ? await store.requeue(...held) : await store.release(held);
        return returned.map(({ outcome }) => outcome === "superseded" ? "superseded" : "done");
      }),
    fail: async (queue, receipts, reason) => {
      const settlements: Settlement[] = [];
      for (const receipt of receipts) {
        settlements.push(
          ...await settle(queue, [receipt], async ([held]) => {
            await bury(held!, reason.toWellFormed());
            return ["done"];
          }),
        );
      }
      if (receipts.length === 0) await requireQueue(queue);
      return settlements;
    },
    renew: async (queue, receipts, leaseMs) => {
      const owners = await ownersOf(store, queue);
      const settlements = await settle(queue, receipts, async (held) => {
        // One commit for each owner among them: in practice one.
        for (const owner of new Set(held.map(({ id }) => owners.get(id) ?? ""))) {
          const theirs = held.filter(({ id }) => (owners.get(id) ?? "") === owner);
          await store.renew(theirs, noteOf({ owner, leaseMs }));
        }
        return held.map(() => "done");
      });
      return settlements;
    },
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
      const all = await store.messages({ queue });
      const list = (state: "claimed" | "pending"): UnackedMessage[] =>
        all.filter((each) => each.state === state).map(({ id, reference }) => ({
          id,
          state: state === "claimed" ? "processing" : "pending",
          data: readStored(store, reference),
        }));
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

function readable(claims: readonly Claim[]): Delivery[] {
  return claims.flatMap((claim) => {
    const decoded = fromClaim(claim);
    if ("problem" in decoded) return [];
    const { receipt, attempts } = claim;
    return [{ id: receipt.id, data: decoded.data, lease: leaseToken(receipt), attempts }];
  });
}

function storeEnding(ending: Ending, receipt: StoreReceipt): ClaimEnding {
  return ending.how === "fail"
    ? { how: "quarantine", receipt, reason: ending.reason }
    : { how: ending.how, receipt };
}

async function ownersOf(store: Store, queue: string): Promise<Map<string, string>> {
  checkQueueName(queue);
  const claimed = await store.messages({ queue, state: "claimed" });
  return new Map(claimed.map((message) => [message.id, leaseOf(message)?.owner ?? ""]));
}

async function openOrInit(root: string, create: boolean, options: StoreOptions): Promise<Store> {
  try {
    return await openStore(root, options);
  } catch (error) {
    if (!isAgentqError(error, "store-missing")) throw error;
    if (!create) {
      throw new AgentqError("backend-missing", `there is no store in ${root}`, {
        cause: error,
        hint: "Create a queue there with `agentq queue create NAME`, or correct --backend.",
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
