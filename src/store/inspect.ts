/**
 * Reading without the lock: one `state.json` is one snapshot, since it only ever changes by rename.
 *
 * A state that this process hasn't seen yet is made to last before it is believed: what was read can
 * then not be undone by a power cut.
 */
import { type AgentqError, isAgentqError } from "../errors.ts";
import { eachMessage, makeClaim, makeReceipt } from "./claims.ts";
import { assertId, assertQueueName } from "./names.ts";
import { oldestPending } from "./operations/claim.ts";
import { isReadFault, readObject } from "./payload.ts";
import { compareReferences, getSlot, type StoreState } from "./state.ts";
import { admit } from "./admission.ts";
import type { StoreContext } from "./transaction.ts";
import type {
  Claim,
  MessageFilter,
  MessageInfo,
  QueueCounts,
  Reference,
  StoreSnapshot,
  Token,
} from "./types.ts";

/** A writer that renames between two of our calls makes the admission fail: look again, boundedly. */
const MAX_TRIES = 100;

/** The state as it is now. Callers must not change it, nor keep it across an `await`. */
export function readState(context: StoreContext): StoreState {
  for (let tries = 1;; tries++) {
    try {
      const { stateFile, bytes, state } = admit(context);
      context.trusted = { stateFile, bytes, state };
      return state;
    } catch (error) {
      if (!mayBeARename(error) || tries === MAX_TRIES) throw error;
    }
  }
}

function mayBeARename(error: unknown): boolean {
  return isAgentqError(error, "identity-changed");
}

type PayloadReader = (object: Token) => Uint8Array | AgentqError;

/**
 * Reads payloads that a state refers to; starts over when they were collected under our hands, keeping what
 * was read, since an object never changes.
 */
export function readPayload<T>(
  context: StoreContext,
  view: (state: StoreState, read: PayloadReader) => T,
): T {
  const { platform, paths, policy, limits } = context;
  const known = new Map<Token, Uint8Array>();
  for (let tries = 1;; tries++) {
    const state = readState(context);
    const { revision } = state;
    let unreadable = false;
    const result = view(state, (object) => {
      const before = known.get(object);
      if (before !== undefined) return before;
      try {
        const bytes = readObject(platform.files, paths, object, policy, limits.maxPayloadBytes);
        known.set(object, bytes);
        return bytes;
      } catch (error) {
        // Who only looks is told which one the disk can't read, and sees the rest.
        if (isReadFault(error)) return error as AgentqError;
        if (!isAgentqError(error, "payload-unreadable")) throw error;
        unreadable = true;
        return error;
      }
    });
    if (!unreadable || tries === MAX_TRIES) return result;
    if (readState(context).revision === revision) return result;
  }
}

/** Counts per queue, all from one state. */
export async function snapshot(context: StoreContext): Promise<StoreSnapshot> {
  const state = readState(context);
  const queues = new Map<string, QueueCounts>();
  for (const [name, { slots }] of state.queues) {
    let pending = 0;
    let processing = 0;
    for (const slot of slots.values()) {
      if (slot.pending !== null) pending++;
      if (slot.claimed !== null) processing++;
    }
    queues.set(name, { pending, processing, unacked: pending + processing });
  }
  return {
    storeId: state.storeId,
    revision: state.revision,
    queues,
    failed: state.failed.size,
  };
}

/** Unacknowledged messages in order, oldest first. */
export async function messages(
  context: StoreContext,
  filter: MessageFilter = {},
): Promise<MessageInfo[]> {
  return chosen(readState(context), filter);
}

/** The same with their payloads, all from one state. */
export async function readMessages(
  context: StoreContext,
  filter: MessageFilter = {},
): Promise<{ message: MessageInfo; claim: Claim }[]> {
  return readPayload(context, (state, read) =>
    chosen(state, filter).map((message) => {
      const { receipt, reference } = message;
      return { message, claim: makeClaim(receipt, reference, read(reference.object)) };
    }));
}

function chosen(state: StoreState, filter: MessageFilter): MessageInfo[] {
  const found = [...eachMessage(state, filter.queue)]
    .filter((message) => filter.state === undefined || message.state === filter.state)
    .sort((a, b) => compareReferences(a.reference, b.reference));
  return filter.limit === undefined ? found : found.slice(0, filter.limit);
}

/** The oldest pending messages, or those named, with their payloads; changes nothing. */
export async function peek(
  context: StoreContext,
  queue: string,
  options: { count?: number; id?: string; ids?: readonly string[] } = {},
): Promise<Claim[]> {
  assertQueueName(queue);
  const ids = options.ids ?? (options.id === undefined ? null : [options.id]);
  ids?.forEach(assertId);
  return readPayload(context, (state, read) => {
    const chosen: [string, Reference][] = ids === null
      ? oldestPending(state, queue, options.count ?? 1)
      : ids.flatMap((id) => {
        const slot = getSlot(state, queue, id);
        const reference = slot.claimed ?? slot.pending;
        return reference === null ? [] : [[id, reference]];
      });
    return chosen.map(([id, reference]) => {
      const receipt = makeReceipt(state.storeId, queue, id, reference, state.revision);
      return makeClaim(receipt, reference, read(reference.object));
    });
  });
}
