/** What is there and how much, and whether there is nothing left: each one question to the server. */
import { AgentqError } from "../../../errors.ts";
import type { QueueBackend, QueueCounts, UnackedMessage } from "../../contract.ts";
import { checkQueueName, isInTree, quoted } from "../../names.ts";
import { decodeEnvelope } from "../../payload.ts";
import type { RedisAddress } from "./address.ts";
import { type Argument, callHead } from "./call.ts";
import type { RedisConnection, Reply } from "./connection.ts";
import { foreignKey, isForeignKey } from "./faults.ts";
import { basePrefix } from "./keys.ts";
import { groups, text } from "./replies.ts";
import type { Role } from "./role.ts";
import { REPLICA } from "./scripts/library.ts";
import type { Script } from "./scripts/prelude.ts";
import * as queues from "./scripts/queues.ts";

/** The queue that is asked about, for messages; "" where it is several. */
const only = (queues: readonly string[] = []) => queues.length === 1 ? queues[0]! : "";

type Run = (script: Script, queue: string, args: readonly Argument[]) => Promise<Reply>;

export function redisReading(
  { prefix: namespace, label }: RedisAddress,
  connection: RedisConnection,
  run: Run,
  { asks, assertMaster }: Role,
): Pick<QueueBackend, "list" | "status" | "statuses" | "complete" | "peek" | "messages"> {
  const base = basePrefix(namespace);
  const keys = [base, `${base}names`];
  const whatIsWrong = async (queue: string): Promise<AgentqError> => {
    const found = await connection.run(callHead(queues.WRONG_KEY, keys), queue, [queue]);
    const parts = (found as Reply[]).map(text);
    if (parts.length > 0) return foreignKey(label, parts);
    return new AgentqError(
      "backend-error",
      `${label}: the queue ${quoted(queue)} couldn't be read`,
      {
        hint: "Try again: what was in the way is gone.",
        details: { queue },
      },
    );
  };

  return {
    list: async (prefix) => {
      const head = callHead(queues.LIST, [keys[1]!]);
      const [role, ...names] = await connection.run(head, "", [asks]) as Reply[];
      const listed = names.map(text).filter((name) =>
        prefix === undefined || isInTree(name, prefix)
      );
      if (listed.length === 0) await assertMaster(role);
      return listed.sort();
    },
    status: async (queue) => {
      const [pending, processing, role] = await run(queues.STATUS, queue, [asks]) as number[];
      if (pending === 0) await assertMaster(role);
      return { pending: pending!, processing: processing! };
    },
    statuses: async (wanted, unreadable) => {
      wanted?.forEach(checkQueueName);
      if (wanted?.length === 0) return new Map();
      const ask = async (script: Script) =>
        await connection.run(callHead(script, keys), only(wanted), [
          asks,
          ...wanted ?? [],
        ]) as Reply[];
      const [role, ...reply] = await ask(queues.STATUSES).catch((error) => {
        if (unreadable === undefined || wanted !== undefined || !isForeignKey(error)) throw error;
        return ask(queues.STATUSES_EACH);
      });
      await assertMaster(role);
      const counts = new Map<string, QueueCounts>();
      for (const [name, pending, processing] of groups(reply, 3)) {
        const queue = text(name);
        if (Number(pending) >= 0) {
          counts.set(queue, { pending: Number(pending), processing: Number(processing) });
        } else unreadable!(await whatIsWrong(queue));
      }
      return counts;
    },
    complete: async (wanted) => {
      if (wanted.length === 0) return true;
      wanted.forEach(checkQueueName);
      const head = callHead(queues.COMPLETE, keys);
      const [complete, role] = await connection.run(head, only(wanted), [
        asks,
        ...wanted,
      ]) as number[];
      // Nor would waiting there ever come to an end.
      if (complete === 1 || role === REPLICA) await assertMaster(role);
      return complete === 1;
    },
    peek: async (queue) => {
      for (let place = 0;;) {
        const reply = await run(queues.PEEK, queue, [place, asks]) as Reply[];
        if (reply.length === 1) {
          await assertMaster(reply[0]);
          return null;
        }
        const decoded = decodeEnvelope(reply[2] as Uint8Array);
        if ("data" in decoded) return { id: text(reply[1]), data: decoded.data };
        place = Number(reply[0]) + 1;
      }
    },
    messages: async (queue) => {
      const [role, ...reply] = await run(queues.MESSAGES, queue, [asks]) as Reply[];
      await assertMaster(role);
      const all = groups(reply, 4).map(([id, payload, order, state]) => {
        const decoded = decodeEnvelope(payload as Uint8Array | null);
        const message: UnackedMessage = {
          id: text(id),
          state: text(state) === "pending" ? "pending" : "processing",
          data: "data" in decoded ? decoded.data : null,
        };
        return { message, order: Number(text(order)) };
      });
      // Those pending have order 0 and stand in order already; sorting is stable.
      const out = all.filter(({ message }) => message.state === "processing");
      const waiting = all.filter(({ message }) => message.state === "pending");
      return [...out.sort((a, b) => a.order - b.order), ...waiting].map(({ message }) => message);
    },
  };
}
