/** How many messages there are, and whether there are none left: each one question to the server. */
import type { QueueBackend, QueueCounts } from "../../contract.ts";
import { checkQueueName } from "../../names.ts";
import type { RedisAddress } from "./address.ts";
import { type Argument, callHead } from "./call.ts";
import type { RedisConnection, Reply } from "./connection.ts";
import { emptyReplica } from "./faults.ts";
import { basePrefix } from "./keys.ts";
import { groups, text } from "./replies.ts";
import { MASTER, REPLICA, type Script } from "./scripts/prelude.ts";
import * as queues from "./scripts/queues.ts";

type Run = (script: Script, queue: string, ...args: Argument[]) => Promise<Reply>;

export function redisCounts(
  { mode, prefix, label }: RedisAddress,
  connection: RedisConnection,
  run: Run,
): Pick<QueueBackend, "status" | "statuses" | "complete"> {
  const base = basePrefix(prefix);
  const keys = [base, `${base}names`];
  /** Clusters and sentinels see to it that masters are asked. */
  const asks = mode === "single" ? "1" : "0";
  /** What reads as complete is the master's word. Users that may not ask which it is aren't told. */
  const assertMaster = async (role: number): Promise<void> => {
    if (role === MASTER) return;
    // A server whose scripts may not ask may answer by itself.
    if (role !== REPLICA) {
      const about = await connection.info("replication").catch(() => "");
      if (!/^role:slave\b/m.test(about)) return;
    }
    throw emptyReplica(label);
  };

  return {
    status: async (queue) => {
      const [pending, processing, role] = await run(queues.STATUS, queue, asks) as number[];
      await assertMaster(role!);
      return { pending: pending!, processing: processing! };
    },
    statuses: async (wanted) => {
      wanted?.forEach(checkQueueName);
      if (wanted?.length === 0) return new Map();
      const head = callHead(queues.STATUSES, keys);
      const reply = await connection.run(head, "", wanted ?? []) as Reply[];
      return new Map<string, QueueCounts>(
        groups(reply, 3).map(([queue, pending, processing]) => [
          text(queue),
          { pending: Number(pending), processing: Number(processing) },
        ]),
      );
    },
    complete: async (wanted) => {
      if (wanted.length === 0) return true;
      wanted.forEach(checkQueueName);
      const head = callHead(queues.COMPLETE, keys);
      const [complete, role] = await connection.run(head, "", [asks, ...wanted]) as number[];
      if (complete === 1) await assertMaster(role!);
      return complete === 1;
    },
  };
}
