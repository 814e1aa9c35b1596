import { makeReceipt } from "../claims.ts";
import { assertEncoding } from "../encoding.ts";
import { assertId, assertQueueName } from "../names.ts";
import { payloadBytes } from "../payload.ts";
import { getSlot, setSlot } from "../state.ts";
import { type StoreContext, transact } from "../transaction.ts";
import type { EnqueueEntry, Receipt, Reference } from "../types.ts";
import { assertRegistered } from "./queues.ts";

/**
 * New pending generations of one queue, in one commit, in the order given. With `existing` a queue that isn't
 * there is `queue-not-found`; otherwise it is made.
 */
export async function enqueueMany(
  context: StoreContext,
  queue: string,
  entries: readonly EnqueueEntry[],
  options: { existing?: boolean } = {},
): Promise<Receipt[]> {
  assertQueueName(queue);
  const prepared = entries.map(({ id, payload, encoding }) => {
    assertId(id);
    assertEncoding(encoding);
    return { id, encoding, bytes: payloadBytes(payload, context.limits.maxPayloadBytes) };
  });
  if (prepared.length === 0) return [];
  return await transact(context, (transaction) => {
    if (options.existing === true) assertRegistered(transaction.state, queue);
    transaction.change("bounded");
    return prepared.map(({ id, encoding, bytes }, index) => {
      const { pending } = getSlot(transaction.state, queue, id);
      if (pending !== null) transaction.releaseObject(pending.object);
      const reference: Reference = {
        generation: transaction.token(),
        object: transaction.addObject(bytes),
        seq: transaction.revision,
        attempts: 0,
        ...(index === 0 ? {} : { ordinal: index }),
        ...(encoding === undefined ? {} : { encoding }),
      };
      setSlot(transaction.state, queue, id, { pending: reference });
      return makeReceipt(context.storeId, queue, id, reference, transaction.revision);
    });
  });
}
