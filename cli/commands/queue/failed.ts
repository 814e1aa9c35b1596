/** `queue failed ls|show|retry|prune`: dead letters. */
import type { DeadLetter } from "../../../src/queuefs/contract.ts";
import { messageDocument } from "../../../src/queuefs/payload.ts";
import { AgentqError } from "../../../src/errors.ts";
import type { CommandModule } from "../../spec.ts";
import { milliseconds, printLines, withBackend } from "./common.ts";

type Run = CommandModule["run"];

function letterDocument(letter: DeadLetter) {
  const { failedId, queue, id, reason, attempts, failedAt, data, raw } = letter;
  return {
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
    const queues = name === undefined ? await backend.list() : [name];
    for (const queue of queues) {
      const letters = await backend.failed.list(queue);
      if (context.json) printLines(context, letters.map(letterDocument));
      else if (letters.length > 0) {
        const line = (letter: DeadLetter) =>
          [letter.queue, letter.failedId, `${letter.attempts}x`, oneLine(letter.reason)].join("\t");
        context.print(null, () => letters.map(line).join("\n"));
      }
    }
    return 0;
  });

export const show: Run = (context, [name, failedId], flags) =>
  withBackend(context, flags, async (backend) => {
    const letter = await backend.failed.show(name!, failedId!);
    printLines(context, [{ schema: "agentq.queue-failed/1", ...letterDocument(letter) }]);
    return 0;
  });

export const retry: Run = (context, [name, ...failedIds], flags) =>
  withBackend(context, flags, async (backend) => {
    const chosen = flags.all === true
      ? (await backend.failed.list(name!)).map(({ failedId }) => failedId)
      : failedIds;
    if (chosen.length === 0 && flags.all !== true) {
      throw new AgentqError("usage", "name the dead letters, or pass --all");
    }
    const ids = chosen.length === 0 ? [] : await backend.failed.retry(name!, chosen);
    context.print(
      { schema: "agentq.queue-retry/1", queue: name, retried: ids },
      () => ids.join("\n"),
    );
    return 0;
  });

export const prune: Run = (context, [name, ...failedIds], flags) =>
  withBackend(context, flags, async (backend) => {
    const age = milliseconds(flags, "older-than");
    if (age !== undefined && (backend.kind === "store" || backend.kind === "v1")) {
      throw new AgentqError("backend-unsupported", `${backend.label} keeps no time of failure`, {
        hint: "Name the dead letters, or prune all of them.",
      });
    }
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
