/** Queues in Redis: every operation is one script, every script one transaction. Layout: `keys.ts`. */
import { randomUUID } from "node:crypto";
import { AgentqError } from "../../../errors.ts";
import type {
  Delivery,
  DequeueOptions,
  QueueBackend,
  Receipt,
  Settlement,
} from "../../contract.ts";
import { checkMessageId, checkQueueName, isQueueName, quoted } from "../../names.ts";
import { encodeEnvelope } from "../../payload.ts";
import { noQueue } from "../shared.ts";
import type { RedisAddress } from "./address.ts";
import { type Argument, type CallHead, callHead } from "./call.ts";
import { connectRedis, type Reply } from "./connection.ts";
import { redisDeadLetters } from "./dead-letters.ts";
import { basePrefix, redisKeys } from "./keys.ts";
import { redisReading } from "./reading.ts";
import { recoverQueue } from "./recover.ts";
import { remember } from "./remember.ts";
import { serverRole } from "./role.ts";
import { redisWarnings } from "./warnings.ts";
import { OUTCOMES, read, receiptArguments, text, type Unreadable } from "./replies.ts";
import * as life from "./scripts/messages.ts";
import type { Script } from "./scripts/prelude.ts";
import * as queues from "./scripts/queues.ts";

/** How long other programs are to leave an owner's deliveries alone, at least (their heartbeat's life). */
const ALIVE_MS = 30_000;

/** Connects to the queues under one prefix. Throws `backend-unreachable`, `backend-denied`. */
export async function redisBackend(address: RedisAddress): Promise<QueueBackend> {
  const connection = await connectRedis(address);
  const base = basePrefix(address.prefix);
  const names = `${base}names`;
  const keysOf = remember((queue) => {
    const keys = redisKeys(address.prefix, checkQueueName(queue));
    return { keys, of: new Map<Script, CallHead>() };
  });
  const run = (script: Script, queue: string, args: readonly Argument[]) => {
    const { keys, of } = keysOf(queue);
    let head = of.get(script);
    if (head === undefined) {
      of.set(script, head = callHead(script, script.keys.map((key) => keys[key]), [queue]));
    }
    return connection.run(head, queue, args);
  };
  const role = serverRole(address, connection);
  const reading = redisReading(address, connection, run, role);
  /** When something that is repeated from time to time was said last: of a queue, of an owner. */
  const touched = remember(() => ({ at: -Infinity }));
  const alive = remember(() => ({ at: -Infinity, leaseMs: 0 }));
  const settle = async (
    script: Script,
    queue: string,
    receipts: readonly Receipt[],
    args: readonly Argument[] = [],
  ): Promise<Settlement[]> => {
    const all = [...args, ...receipts.flatMap(receiptArguments)];
    return (await run(script, queue, all) as number[]).map((outcome) => OUTCOMES[outcome]!);
  };
  /** For how long to say now that an owner is alive (null: it was said lately), and that it was said. */
  const heartbeat = ({ owner, leaseMs }: DequeueOptions) => {
    // Said for twice as long as it is kept.
    const [last, clock, ms] = [alive(owner), performance.now(), Math.max(leaseMs, ALIVE_MS)];
    const due = last.leaseMs !== leaseMs || clock - last.at >= ms / 2;
    return {
      say: due ? ms * 2 : null,
      told: () => {
        if (due) [last.at, last.leaseMs] = [clock, leaseMs];
      },
    };
  };
  const bury = async (
    queue: string,
    unreadable: readonly Unreadable[],
    { onUnreadable }: DequeueOptions,
  ) => {
    for (const { receipt, problem } of unreadable) {
      const [outcome] = await settle(life.FAIL, queue, [receipt], [problem]);
      if (outcome === "done") onUnreadable?.(receipt.id, problem);
    }
  };
  const dequeue = async (queue: string, options: DequeueOptions): Promise<Delivery[]> => {
    const { owner, leaseMs, count = 1 } = options;
    const all: Delivery[] = [];
    while (all.length < count) {
      const want = count - all.length;
      const { say, told } = heartbeat(options);
      const taken = say === null
        ? await run(life.DEQUEUE, queue, [want, owner, leaseMs]) as Reply[]
        : await run(life.DEQUEUE_ALIVE, queue, [want, owner, leaseMs, say]) as Reply[];
      if (taken.length > 0) told();
      const { deliveries, unreadable } = read(taken, owner);
      for (const each of deliveries) all.push(each);
      await bury(queue, unreadable, options);
      if (deliveries.length + unreadable.length < want) break;
    }
    return all;
  };

  return {
    kind: "redis",
    label: address.label,
    identity: () => identityOf(address),
    create: async (queue) => {
      const { keys } = keysOf(queue);
      const made = await connection.run(
        callHead(queues.CREATE, [keys.names, keys.meta]),
        queue,
        [queue, seconds()],
      );
      return made === 1;
    },
    remove: async (queue) => {
      checkQueueName(queue);
      const removed = await connection.run(callHead(queues.REMOVE, [base, names]), queue, [
        queue,
      ]) as Reply[];
      if (removed.length === 0) {
        throw noQueue(queue);
      }
      return removed.map(text).sort();
    },
    enqueue: async (queue, messages) => {
      const now = Date.now();
      const rows = messages.map(({ id, data }) => {
        const name = id === undefined ? randomUUID() : checkMessageId(id);
        return { id: name, envelope: encodeEnvelope(name, data, now) };
      });
      const script = messages.every(({ id }) => id === undefined)
        ? life.ENQUEUE_NEW
        : life.ENQUEUE_GIVEN;
      const args = rows.flatMap(({ id, envelope }) => [id, envelope]);
      const [touch, clock] = [touched(queue), performance.now()];
      const at = clock - touch.at >= 1000 ? seconds() : "";
      const refused = await run(script, queue, [at, ...args]) as Reply[];
      if (at !== "" && refused.length === 0) touch.at = clock;
      if (refused.length > 0) {
        throw new AgentqError(
          "already-exists",
          `${refused.map((id) => quoted(text(id))).join(", ")} in ${
            quoted(queue)
          }: another program is processing it`,
          { hint: "Wait until it is done, or use another id." },
        );
      }
      return rows.map(({ id }) => id);
    },
    dequeue,
    settleAndDequeue: async (queue, endings, options) => {
      const { count = 1 } = options;
      const acks = endings.every(({ how }) => how === "ack");
      const script = acks ? life.ACK_DEQUEUE : life.SETTLE_DEQUEUE;
      const args = acks
        ? endings.flatMap(({ receipt }) => receiptArguments(receipt))
        : endings.flatMap((ending) => [
          ending.how === "fail" && ending.untried ? "untried" : ending.how,
          ending.how === "fail" ? ending.reason.toWellFormed() : "",
          ...receiptArguments(ending.receipt),
        ]);
      const { say, told } = heartbeat(options);
      const { owner, leaseMs } = options;
      const all = [count, owner, leaseMs, say ?? "", ...args];
      const [outcomes, taken] = await run(script, queue, all) as [number[], Reply[]];
      if (taken.length > 0) told();
      const settlements = outcomes.map((outcome) => OUTCOMES[outcome]!);
      const { deliveries, unreadable } = read(taken, owner);
      if (unreadable.length > 0) {
        // Calls of their own: should one fail, what was done and taken is still to be told. The rest
        // stays in processing until its lease runs out.
        try {
          await bury(queue, unreadable, options);
          const want = count - deliveries.length;
          if (deliveries.length + unreadable.length === count) {
            for (const each of await dequeue(queue, { ...options, count: want })) {
              deliveries.push(each);
            }
          }
        } catch {
          // The next call meets it again.
        }
      }
      return { settlements, deliveries };
    },
    ack: (queue, receipts) => settle(life.ACK, queue, receipts),
    requeue: (queue, receipts, { counted = true } = {}) =>
      settle(life.REQUEUE, queue, receipts, [counted ? "1" : "0"]),
    fail: (queue, receipts, reason) => settle(life.FAIL, queue, receipts, [reason.toWellFormed()]),
    renew: (queue, receipts, leaseMs) =>
      settle(life.RENEW, queue, receipts, [leaseMs, Math.max(leaseMs, ALIVE_MS) * 2]),
    ...reading,
    clear: async (queue) => Number(await run(queues.CLEAR, queue, [])),
    recover: async (queue, options = {}) => {
      const recovered = await Promise.all(
        (queue === null ? (await reading.list()).filter(isQueueName) : [queue]).map((each) =>
          recoverQueue((script, args) => run(script, each, args), role, each, options)
        ),
      );
      return recovered.flat();
    },
    failed: redisDeadLetters(run, role),
    warnings: () => redisWarnings(address, connection),
    close: () => connection.close(),
  };
}

/** Hosts, database and namespace. Options of the connection, and who asks, make no other queues. */
function identityOf({ hosts, mode, master, db, prefix }: RedisAddress): string {
  const named = hosts.map(({ host, port }) => `${host.toLowerCase()}:${port}`).sort().join(",");
  return `redis ${mode} ${named} ${master ?? ""} ${db} ${prefix}`;
}

function seconds(): number {
  return Math.floor(Date.now() / 1000);
}
