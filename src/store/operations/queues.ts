/** Queues as such: registered, listed, emptied, removed. */
import { AgentqError } from "../../errors.ts";
import { assertQueueName } from "../names.ts";
import { registerQueue, setSlot, type StoreState } from "../state.ts";
import { readState } from "../inspect.ts";
import { type StoreContext, transact, type Transaction } from "../transaction.ts";
import type { RemovedQueues } from "../types.ts";
import { dropFailed, failedOf } from "./failed.ts";

/** Registers a queue; true when it wasn't there. */
export async function createQueue(context: StoreContext, queue: string): Promise<boolean> {
  assertQueueName(queue);
  return await transact(context, (transaction) => {
    if (transaction.state.queues.has(queue)) return false;
    transaction.change("bounded");
    registerQueue(transaction.state, queue);
    return true;
  });
}

/** Names of all queues, or of those at and below `prefix`, sorted. */
export async function listQueues(context: StoreContext, prefix?: string): Promise<string[]> {
  const names = [...readState(context).queues.keys()];
  return names.filter((name) => prefix === undefined || isAtOrBelow(name, prefix)).sort();
}

/**
 * Removes a queue (with `tree`, also those below it) and all that is of it, dead letters too, in one
 * commit. Dead letters of a queue that is gone count as one: what an older version left goes so.
 */
export async function removeQueue(
  context: StoreContext,
  queue: string,
  options: { tree?: boolean } = {},
): Promise<RemovedQueues> {
  assertQueueName(queue);
  const isOne = (name: string) =>
    name === queue || (options.tree === true && isAtOrBelow(name, queue));
  return await transact(context, (transaction) => {
    const { state } = transaction;
    const names = new Set<string>();
    let messages = 0;
    for (const name of [...state.queues.keys()].filter(isOne)) {
      transaction.change();
      messages += drop(transaction, name, true);
      state.queues.delete(name);
      names.add(name);
    }
    const letters = failedOf(state, isOne);
    for (const failedId of letters) names.add(state.failed.get(failedId)!.queue);
    dropFailed(transaction, letters);
    return { queues: [...names].sort(), messages, failed: letters.length };
  });
}

/** Throws `queue-not-found`. */
export function assertRegistered(state: StoreState, queue: string): void {
  if (state.queues.has(queue)) return;
  throw new AgentqError("queue-not-found", `there is no queue ${JSON.stringify(queue)}`, {
    details: { queue },
  });
}

/** Drops a queue's pending messages, and its claims too when asked; says how many. */
export async function clearQueue(
  context: StoreContext,
  queue: string,
  options: { claimed?: boolean } = {},
): Promise<number> {
  assertQueueName(queue);
  return await transact(
    context,
    (transaction) => drop(transaction, queue, options.claimed === true),
  );
}

function drop(transaction: Transaction, queue: string, claimedToo: boolean): number {
  let dropped = 0;
  for (const [id, slot] of [...transaction.state.queues.get(queue)?.slots ?? []]) {
    for (const where of ["pending", "claimed"] as const) {
      const reference = slot[where];
      if (reference === null || (where === "claimed" && !claimedToo)) continue;
      transaction.change();
      transaction.releaseObject(reference.object);
      setSlot(transaction.state, queue, id, { [where]: null });
      dropped++;
    }
  }
  return dropped;
}

function isAtOrBelow(name: string, prefix: string): boolean {
  return name === prefix || name.startsWith(`${prefix}/`);
}
