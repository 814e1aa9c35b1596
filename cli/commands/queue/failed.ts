/** `queue failed ls|show|retry|prune`: dead letters. */
import type { DeadLetter, QueueBackend } from "../../../src/queuefs/contract.ts";
import { messageDocument } from "../../../src/queuefs/payload.ts";
import { AgentqError, isAgentqError } from "../../../src/errors.ts";
import { isQueueName } from "../../../src/queuefs/names.ts";
import { shownName } from "../../output/escape.ts";
import type { CommandModule } from "../../spec.ts";
import { milliseconds, printLines, withBackend } from "./common.ts";

type Run = CommandModule["run"];

function document(letter: DeadLetter) {
  const { failedId, queue, id, reason, attempts, failedAt, data, raw } = letter;
  return {
    schema: "agentq.queue-failed/1",
    failed: failedId,
    queue,
    ...messageDocument({ id, data }),
    reason,
    attempts,
    failedAt,
    ...(data === null ? { raw } : {}),
  };
}

export const ls: Run = (context, [name], flags) =>
  withBackend(context, flags, async (backend) => {
    // Other programs' queues may have names that none of ours can have: nothing of ours is in those.
    const queues = name === undefined
      ? [...(await backend.list()).filter(isQueueName), ...await backend.failed.left?.() ?? []]
      : [name];
    for (const queue of queues) {
      const letters = await backend.failed.list(queue);
      if (context.json) printLines(context, letters.map(document));
      else if (letters.length > 0) {
        const line = (letter: DeadLetter) =>
          [
            ...[letter.queue, letter.failedId, `${letter.attempts}x`].map(shownName),
            oneLine(letter.reason),
          ].join("\t");
        context.print(null, () => letters.map(line).join("\n"));
      }
    }
    return 0;
  });

export const show: Run = (context, [name, failedId], flags) =>
  withBackend(context, flags, async (backend) => {
    const letter = await backend.failed.show(name!, failedId!);
    printLines(context, [document(letter)]);
    return 0;
  });

export const retry: Run = (context, [name, ...failedIds], flags) =>
  withBackend(context, flags, async (backend) => {
    if (failedIds.length === 0 && flags.all !== true) {
      throw new AgentqError("usage", "name the dead letters, or pass --all");
    }
    if (failedIds.length > 0 && flags.all === true) {
      throw new AgentqError("usage", "name the dead letters or pass --all, not both");
    }
    if (backend.kind === "v1") await backend.failed.retry(name!, failedIds); // It can't, were there none, too.
    const { retried, left } = flags.all === true
      ? await retryAll(backend, name!, context.signal)
      : { retried: await backend.failed.retry(name!, failedIds), left: [] };
    for (const { failed, reason } of left) context.progress.line(`${failed} stays: ${reason}`);
    context.print(
      { schema: "agentq.queue-retry/1", queue: name, retried, left },
      () => retried.map(shownName).join("\n"),
    );
    return 0;
  });

/**
 * Retries all that can be: of an id that failed more than once the oldest, since one would replace the
 * other, and nothing that can't be read or whose id is pending or in processing.
 */
async function retryAll(backend: QueueBackend, queue: string, signal: AbortSignal) {
  const left: { failed: string; reason: string }[] = [];
  const chosen: string[] = [];
  const ids = new Set<string>();
  for (const { failedId, id, data } of await backend.failed.list(queue)) {
    if (data === null) left.push({ failed: failedId, reason: "its payload can't be read" });
    else if (ids.has(id)) {
      left.push({ failed: failedId, reason: `an older one of ${id} goes first` });
    } else {
      ids.add(id);
      chosen.push(failedId);
    }
  }
  // All at once where that is possible; each by itself where one of them stands in the way.
  const together = await retryOr(backend, queue, chosen, () => null);
  if (together !== null) return { retried: together, left };
  const retried: string[] = [];
  for (const failedId of chosen) {
    if (signal.aborted && retried.length > 0) {
      left.push({ failed: failedId, reason: "stopped before it was its turn" });
      continue;
    }
    const one = await retryOr(backend, queue, [failedId], ({ message }) => {
      left.push({ failed: failedId, reason: message });
      return [];
    });
    retried.push(...one);
  }
  return { retried, left };
}

async function retryOr<T>(
  backend: QueueBackend,
  queue: string,
  failedIds: readonly string[],
  refused: (error: AgentqError) => T,
): Promise<string[] | T> {
  if (failedIds.length === 0) return [];
  try {
    return await backend.failed.retry(queue, failedIds);
  } catch (error) {
    if (isAgentqError(error) && PASSED_OVER.includes(error.code)) return refused(error);
    throw error;
  }
}

/** Pending or in processing by its id, unreadable by now, retried or pruned by somebody else meanwhile. */
const PASSED_OVER: readonly string[] = [
  "already-exists",
  "payload-unreadable",
  "message-not-found",
];

export const prune: Run = (context, [name, ...failedIds], flags) =>
  withBackend(context, flags, async (backend) => {
    const age = milliseconds(flags, "older-than");
    if (age !== undefined && (backend.kind === "store" || backend.kind === "v1")) {
      throw new AgentqError("backend-unsupported", `${backend.label} keeps no time of failure`, {
        hint: "Name the dead letters, or prune all of them.",
      });
    }
    if (backend.kind === "v1") await backend.failed.prune(name!, { failedIds });
    // All or none, as with retry: a name that is mistyped is not one that is gone.
    for (const failedId of new Set(failedIds)) await backend.failed.show(name!, failedId);
    const pruned = await backend.failed.prune(name!, {
      ...(failedIds.length > 0 ? { failedIds } : {}),
      ...(age === undefined ? {} : { before: Date.now() - age }),
    });
    context.print(
      { schema: "agentq.queue-prune/1", queue: name, pruned },
      () => String(pruned),
    );
    return 0;
  });

function oneLine(text: string): string {
  return text.replace(/[\n\t]/g, " ");
}
