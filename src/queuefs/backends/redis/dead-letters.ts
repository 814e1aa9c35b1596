/** Dead letters in Redis: listed, shown, taken back, removed. */
import type { DeadLetter, QueueBackend } from "../../contract.ts";
import { idInUse, noDeadLetter, unreadable } from "../shared.ts";
import type { Argument } from "./call.ts";
import type { Reply } from "./connection.ts";
import { deadLetter, groups, text } from "./replies.ts";
import type { Role } from "./role.ts";
import * as letters from "./scripts/dead-letters.ts";
import type { Script } from "./scripts/prelude.ts";

type Run = (script: Script, queue: string, args: readonly Argument[]) => Promise<Reply>;

export function redisDeadLetters(
  run: Run,
  { asks, assertMaster }: Role,
): QueueBackend["failed"] {
  const show = async (
    queue: string,
    failedId: string,
  ): Promise<DeadLetter & { bytes: Argument }> => {
    const reply = await run(letters.FAILED_SHOW, queue, [failedId, asks]) as Reply[];
    if (reply.length === 1) {
      await assertMaster(reply[0]);
      throw noDeadLetter(queue, failedId);
    }
    return { ...deadLetter(queue, reply), bytes: (reply[2] as Uint8Array | null) ?? "" };
  };

  return {
    list: async (queue, limit = 0) => {
      const args = [0, limit - 1, asks];
      const [role, ...reply] = await run(letters.FAILED_LIST, queue, args) as Reply[];
      await assertMaster(role);
      return groups(reply, 4).map((each) => deadLetter(queue, each));
    },
    show: async (queue, failedId) => {
      const { bytes: _, ...letter } = await show(queue, failedId);
      return letter;
    },
    retry: async (queue, failedIds) => {
      const found: { letter: DeadLetter; bytes: Argument }[] = [];
      for (const failedId of new Set(failedIds)) {
        const { bytes, ...letter } = await show(queue, failedId);
        if (letter.data === null) throw unreadable(queue, failedId);
        found.push({ letter, bytes });
      }
      const args = found.flatMap(({ letter, bytes }) => [letter.failedId, letter.id, bytes]);
      const [problem, failedId] = await run(letters.FAILED_RETRY, queue, args) as Reply[];
      if (problem === undefined) return found.map(({ letter }) => letter.id);
      if (text(problem) === "gone") throw noDeadLetter(queue, text(failedId));
      throw idInUse(
        queue,
        text(failedId),
        text(problem) === "processing" ? "processing" : "pending",
      );
    },
    prune: async (queue, { failedIds, before } = {}) =>
      failedIds?.length === 0 ? 0 : Number(
        await run(letters.FAILED_PRUNE, queue, [
          before === undefined ? "" : before * 1000,
          ...(failedIds ?? []),
        ]),
      ),
  };
}
