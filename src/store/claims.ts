/** Receipts and claims: what callers hold, and whether they still hold it. */
import { AgentqError } from "../errors.ts";
import { isInteger, isText, optional, shape } from "../platform/shapes.ts";
import { assertId, assertQueueName } from "./names.ts";
import { getSlot, type StoreState } from "./state.ts";
import type { Claim, Json, MessageInfo, Receipt, Reference, Revision } from "./types.ts";

const isReceipt = shape({
  storeId: isText,
  queue: isText,
  id: isText,
  generation: isText,
  object: isText,
  revision: isText,
  delivery: optional(isInteger),
});

/** Reads a receipt that was kept outside. Throws `payload-invalid`. */
export function parseReceipt(value: unknown): Receipt {
  if (!isReceipt(value)) {
    throw new AgentqError("payload-invalid", "that isn't a receipt of a v2 store");
  }
  const { storeId, queue, id, generation, object, revision, delivery } = value as Receipt;
  const receipt = { storeId, queue, id, generation, object, revision };
  return delivery === undefined ? receipt : { ...receipt, delivery };
}

export function makeReceipt(
  storeId: string,
  queue: string,
  id: string,
  reference: Reference,
  revision: Revision,
): Receipt {
  const { generation, object, deliveries } = reference;
  const receipt = { storeId, queue, id, generation, object, revision };
  return deliveries === undefined ? receipt : { ...receipt, delivery: deliveries };
}

/**
 * The claimed reference that the receipt holds: same store, same generation, same delivery (when the
 * receipt says which). Throws `stale-generation` for anything else.
 */
export function heldReference(state: StoreState, receipt: Receipt): Reference {
  assertQueueName(receipt.queue);
  assertId(receipt.id);
  if (receipt.storeId !== state.storeId) {
    throw new AgentqError(
      "store-id-mismatch",
      `the receipt for ${receipt.queue}/${receipt.id} is another store's`,
      { hint: "Use it with the store that gave it out." },
    );
  }
  const { claimed } = getSlot(state, receipt.queue, receipt.id);
  if (claimed === null) throw stale(receipt, "it isn't claimed");
  if (claimed.generation !== receipt.generation) throw stale(receipt, "a newer one is claimed");
  if (receipt.delivery !== undefined && receipt.delivery !== (claimed.deliveries ?? 0)) {
    throw stale(receipt, "it was taken back and given to somebody else");
  }
  return claimed;
}

export function stale(receipt: Receipt, why: string): AgentqError {
  return new AgentqError("stale-generation", `${receipt.queue}/${receipt.id}: ${why}`, {
    details: { queue: receipt.queue, id: receipt.id, generation: receipt.generation },
  });
}

/** A claim as handed to the caller; `payload` is its bytes or why there are none. */
export function makeClaim(
  receipt: Receipt,
  reference: Reference,
  payload: Uint8Array | AgentqError,
): Claim {
  const bytes = payload instanceof AgentqError ? null : payload;
  const unreadable = payload instanceof AgentqError ? payload : null;
  const text = (): string => {
    if (bytes === null) throw unreadable;
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch (cause) {
      throw malformed(receipt, "isn't UTF-8", cause);
    }
  };
  return {
    receipt,
    attempts: reference.attempts,
    deliveries: reference.deliveries ?? 0,
    encoding: reference.encoding ?? null,
    owner: reference.owner ?? null,
    bytes,
    unreadable,
    text,
    json(): Json {
      const json = text();
      try {
        return JSON.parse(json);
      } catch (cause) {
        throw malformed(receipt, "isn't JSON", cause);
      }
    },
  };
}

function malformed(receipt: Receipt, what: string, cause: unknown): AgentqError {
  return new AgentqError(
    "payload-unreadable",
    `the payload of ${receipt.queue}/${receipt.id} ${what}`,
    {
      cause,
      details: { queue: receipt.queue, id: receipt.id, object: receipt.object },
    },
  );
}

/** Every message of a state, in no particular order. */
export function* eachMessage(state: StoreState, queue?: string): Generator<MessageInfo> {
  for (const [name, entry] of state.queues) {
    if (queue !== undefined && name !== queue) continue;
    for (const [id, slot] of entry.slots) {
      for (const where of ["claimed", "pending"] as const) {
        const reference = slot[where];
        if (reference === null) continue;
        const receipt = makeReceipt(state.storeId, name, id, reference, state.revision);
        yield { queue: name, id, state: where, reference, receipt };
      }
    }
  }
}
