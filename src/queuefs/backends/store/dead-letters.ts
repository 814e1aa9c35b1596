/** Dead letters: the store's failed index, one name space for all queues of the store. */
import { isAgentqError } from "../../../errors.ts";
import type { ShownFailed, Store } from "../../../store/mod.ts";
import type { DeadLetter, DeadLetters } from "../../contract.ts";
import { checkQueueName } from "../../names.ts";
import { textOf } from "../../payload.ts";
import { idInUse, noDeadLetter, unreadable } from "../shared.ts";
import { fromClaim } from "./payload.ts";

export function storeDeadLetters(
  store: Store,
  requireQueue: (queue: string) => Promise<string>,
): DeadLetters {
  return {
    list: async (queue, limit = Infinity) => {
      const letters = await store.failed.read({ queue: checkQueueName(queue), limit });
      // What is left of a queue that was removed is to be seen too.
      if (letters.length === 0) await requireQueue(queue);
      return letters.map(deadLetter);
    },
    show: async (queue, failedId) => {
      checkQueueName(queue);
      try {
        const letter = await store.failed.show(failedId);
        if (letter.entry.queue === queue) return deadLetter(letter);
      } catch (error) {
        if (!isAgentqError(error, "not-found", "name-invalid")) throw error;
      }
      await requireQueue(queue);
      throw noDeadLetter(queue, failedId);
    },
    retry: async (queue, failedIds) => {
      await requireQueue(queue);
      const ids: string[] = [];
      try {
        await store.failed.retryMany(failedIds, ({ entry, claim }) => {
          const { failedId, id } = entry;
          if (entry.queue !== queue) throw noDeadLetter(queue, failedId);
          if ("problem" in fromClaim(claim)) throw unreadable(queue, failedId);
          ids.push(id);
        });
      } catch (error) {
        const { failedId, state } = isAgentqError(error) ? error.details ?? {} : {};
        if (isAgentqError(error, "not-found")) throw noDeadLetter(queue, String(failedId));
        if (isAgentqError(error, "already-exists")) {
          throw idInUse(queue, String(failedId), state === "claimed" ? "processing" : "pending");
        }
        throw error;
      }
      return ids;
    },
    prune: async (queue, { failedIds, before } = {}) => {
      checkQueueName(queue);
      // The store keeps no time of failure, so none of its dead letters is known to be old.
      const pruned = before === undefined ? await store.failed.pruneQueue(queue, failedIds) : 0;
      if (pruned === 0) await requireQueue(queue);
      return pruned;
    },
    left: async () => {
      const { queues } = await store.snapshot();
      const names = new Set((await store.failed.list()).map(({ queue }) => queue));
      return [...names].filter((name) => !queues.has(name)).sort();
    },
  };
}

function deadLetter({ entry, claim }: ShownFailed): DeadLetter {
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
