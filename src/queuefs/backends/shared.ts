/** What every backend says in the same words. */
import { realpathSync } from "node:fs";
import { AgentqError } from "../../errors.ts";
import type { QueueBackend, Receipt, Settlement } from "../contract.ts";
import { quoted } from "../names.ts";

/** Where a path leads, as part of an identity; the path itself where it leads nowhere any more. */
export function realPlace(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

export function noQueue(name: string): AgentqError {
  return new AgentqError("queue-not-found", `there is no queue ${quoted(name)}`, {
    details: { queue: name },
  });
}

export function noDeadLetter(queue: string, failedId: string): AgentqError {
  return new AgentqError(
    "message-not-found",
    `${quoted(queue)} has no dead letter ${quoted(failedId)}`,
  );
}

export function unreadable(queue: string, failedId: string): AgentqError {
  return new AgentqError(
    "payload-unreadable",
    `the dead letter ${quoted(failedId)} of ${quoted(queue)} has no readable payload to retry`,
    { hint: "Look at it with `agentq queue failed show`, then prune it." },
  );
}

/**
 * Retrying would replace a message of that id that is pending; or be taken for newer than one that is being
 * processed, which then would be dropped as superseded once it is given back.
 */
export function idInUse(
  queue: string,
  failedId: string,
  state: "pending" | "processing",
): AgentqError {
  const where = state === "pending"
    ? `pending in ${quoted(queue)}, or would be by the same call`
    : `being processed in ${quoted(queue)}`;
  return new AgentqError(
    "already-exists",
    `the dead letter ${quoted(failedId)} can't be retried: a message of its id is ${where}`,
    {
      hint: state === "pending"
        ? "Retry one of an id and let it be processed first, or prune the dead letter."
        : "Retry it when that message has been acked or has failed, or prune the dead letter.",
      details: { queue, failedId, state },
    },
  );
}

/** A dead letter's id: the message's own, or with the first free number where that is taken. */
export function freeFailedId(id: string, taken: (failedId: string) => boolean): string {
  if (!taken(id)) return id;
  for (let n = 2;; n++) {
    const name = `${id.slice(0, 99 - String(n).length)}.${n}`; // As long as an id may be, at most.
    if (!taken(name)) return name;
  }
}

/** Throws `stale-delivery` when a settlement did nothing, naming every such message. */
export function refuseStale(
  queue: string,
  receipts: readonly Receipt[],
  settlements: readonly Settlement[],
): void {
  const stale = receipts.filter((_, i) => settlements[i] === "stale").map(({ id }) => id);
  if (stale.length === 0) return;
  const done = receipts.filter((_, i) => settlements[i] !== "stale").map(({ id }) => id);
  throw new AgentqError(
    "stale-delivery",
    `${stale.map(quoted).join(", ")} in ${quoted(queue)}: not in processing under that lease`,
    { details: { queue, stale, done } },
  );
}

/** Acks and throws `stale-delivery` unless every one was current. The current ones are acked anyway. */
export async function ackOrThrow(
  backend: QueueBackend,
  queue: string,
  receipts: readonly Receipt[],
): Promise<void> {
  refuseStale(queue, receipts, await backend.ack(queue, receipts));
}
