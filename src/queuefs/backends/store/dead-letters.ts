/** Dead letters: the store's failed index, one name space for all queues of the store. */
import { isAgentqError } from "../../../errors.ts";
import type { Claim, FailedEntry, Store } from "../../../store/mod.ts";
import type { DeadLetter, DeadLetters } from "../../contract.ts";
import { textOf } from "../../payload.ts";
import { noDeadLetter, pendingAlready, unreadable } from "../shared.ts";
import { fromClaim } from "./payload.ts";

export function storeDeadLetters(
  store: Store,
  requireQueue: (queue: string) => Promise<string>,
): DeadLetters {
  const show = async (queue: string, failedId: string): Promise<DeadLetter> => {
    try {
      const { entry, claim } = await store.failed.show(failedId);
      if (entry.queue === queue) return deadLetter(entry, claim);
    } catch (error) {
      if (!isAgentqError(error, "not-found", "name-invalid")) throw error;
    }
    throw noDeadLetter(queue, failedId);
  };
  const ofQueue = async (queue: string) =>
    (await store.failed.list()).filter((entry) => entry.queue === queue);

  return {
    list: async (queue, limit = Infinity) => {
      await requireQueue(queue);
      const letters: DeadLetter[] = [];
      for (const { failedId } of (await ofQueue(queue)).slice(0, limit)) {
        letters.push(await show(queue, failedId));
      }
      return letters;
    },
    show: async (queue, failedId) => await show(await requireQueue(queue), failedId),
    retry: async (queue, failedIds) => {
      await requireQueue(queue);
      const pending = new Set(
        (await store.messages({ queue, state: "pending" })).map(({ id }) => id),
      );
      const letters: DeadLetter[] = [];
      for (const failedId of new Set(failedIds)) {
        const letter = await show(queue, failedId);
        if (letter.data === null) throw unreadable(queue, failedId);
        if (pending.has(letter.id)) throw pendingAlready(queue, failedId);
        pending.add(letter.id);
        letters.push(letter);
      }
      // One commit each: what was retried stays retried should a later one fail.
      for (const { failedId } of letters) await store.failed.retry(failedId);
      return letters.map(({ id }) => id);
    },
    prune: async (queue, { failedIds, before } = {}) => {
      await requireQueue(queue);
      // The store keeps no time of failure, so none of its dead letters is known to be old.
      if (before !== undefined) return 0;
      const names = (await ofQueue(queue)).map(({ failedId }) => failedId)
        .filter((failedId) => failedIds === undefined || failedIds.includes(failedId));
      return names.length === 0 ? 0 : await store.failed.prune(names);
    },
  };
}

function deadLetter(entry: FailedEntry, claim: Claim): DeadLetter {
  const decoded = fromClaim(claim);
  const readable = "data" in decoded;
  return {
    failedId: entry.failedId,
    queue: entry.queue,
    id: entry.id,
    reason: entry.reason,
    attempts: (entry.attempts ?? 0) + 1,
    failedAt: null,
    data: readable ? decoded.data : null,
    raw: readable || claim.bytes === null
      ? null
      : textOf(claim.bytes) ?? new TextDecoder().decode(claim.bytes),
  };
}
