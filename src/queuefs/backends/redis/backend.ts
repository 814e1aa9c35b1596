/** Queues in Redis: every operation is one script, every script one transaction. Layout: `keys.ts`. */
import { Buffer } from "node:buffer";
import { randomUUID } from "node:crypto";
import * as z from "zod/mini";
import { AgentqError } from "../../../errors.ts";
import type {
  DeadLetter,
  Delivery,
  DequeueOptions,
  QueueBackend,
  QueueCounts,
  Receipt,
  Settlement,
  UnackedMessage,
} from "../../contract.ts";
import { checkMessageId, checkQueueName, isInTree, quoted } from "../../names.ts";
import { callerPrefix } from "../../owner.ts";
import { decodeEnvelope, encodeEnvelope, textOf } from "../../payload.ts";
import { noDeadLetter, pendingAlready, unreadable } from "../shared.ts";
import type { RedisAddress } from "./address.ts";
import { type Argument, type CallHead, callHead } from "./call.ts";
import { connectRedis, type Reply } from "./connection.ts";
import { emptyReplica } from "./faults.ts";
import { basePrefix, redisKeys } from "./keys.ts";
import { recoverQueue } from "./recover.ts";
import * as letters from "./scripts/dead-letters.ts";
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
  const run = (script: Script, queue: string, ...args: Argument[]) => {
    const { keys, of } = keysOf(queue);
    let head = of.get(script);
    if (head === undefined) {
      of.set(script, head = callHead(script, script.keys.map((key) => keys[key]), [queue]));
    }
    return connection.run(head, queue, args);
  };
  /** When something that is repeated from time to time was said last: of a queue, of an owner. */
  const touched = remember(() => ({ at: -Infinity }));
  const alive = remember(() => ({ at: -Infinity, leaseMs: 0 }));
  const list = async (prefix?: string) =>
    (await connection.members(names)).filter((name) =>
      prefix === undefined || isInTree(name, prefix)
    ).sort();
  const statuses = async (wanted: readonly string[]): Promise<Map<string, QueueCounts>> => {
    const reply = await connection.run(
      callHead(queues.STATUSES, [base, names]),
      "",
      wanted,
    ) as Reply[];
    return new Map(
      groups(reply, 3).map(([queue, pending, processing]) => [
        text(queue),
        { pending: Number(pending), processing: Number(processing) },
      ]),
    );
  };
  /** What reads as complete is the master's word. Users that may not ask which it is aren't told. */
  const assertMaster = async (): Promise<void> => {
    if (address.mode !== "single") return;
    const about = await connection.info("replication").catch(() => "");
    if (/^role:slave\b/m.test(about)) throw emptyReplica(address.label);
  };
  const settle = async (
    script: Script,
    queue: string,
    receipts: readonly Receipt[],
    ...args: Argument[]
  ): Promise<Settlement[]> =>
    (await run(script, queue, ...args, ...receipts.flatMap(receiptArguments)) as number[]).map(
      (outcome) => OUTCOMES[outcome]!,
    );
  const show = async (
    queue: string,
    failedId: string,
  ): Promise<DeadLetter & { bytes: Argument }> => {
    const reply = await run(letters.FAILED_SHOW, queue, failedId) as Reply[] | null;
    if (reply === null) throw noDeadLetter(queue, failedId);
    return { ...deadLetter(queue, reply), bytes: (reply[2] as Uint8Array | null) ?? "" };
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
  const bury = async (queue: string, unreadable: readonly Unreadable[]) => {
    for (const { receipt, problem } of unreadable) {
      await settle(life.FAIL, queue, [receipt], problem);
    }
  };
  const dequeue = async (queue: string, options: DequeueOptions): Promise<Delivery[]> => {
    const { owner, leaseMs, count = 1 } = options;
    const all: Delivery[] = [];
    while (all.length < count) {
      const want = count - all.length;
      const { say, told } = heartbeat(options);
      const taken = say === null
        ? await run(life.DEQUEUE, queue, want, owner, leaseMs) as Reply[]
        : await run(life.DEQUEUE_ALIVE, queue, want, owner, leaseMs, say) as Reply[];
      if (taken.length > 0) told();
      const { deliveries, unreadable } = read(taken, owner);
      all.push(...deliveries);
      await bury(queue, unreadable);
      if (deliveries.length + unreadable.length < want) break;
    }
    return all;
  };

  return {
    kind: "redis",
    label: address.label,
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
        throw new AgentqError("queue-not-found", `there is no queue ${quoted(queue)}`);
      }
      return removed.map(text).sort();
    },
    list,
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
      const refused = await run(script, queue, at, ...args) as Reply[];
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
          ending.how,
          ending.how === "fail" ? ending.reason.toWellFormed() : "",
          ...receiptArguments(ending.receipt),
        ]);
      const { say, told } = heartbeat(options);
      const { owner, leaseMs } = options;
      const [outcomes, taken] = await run(
        script,
        queue,
        count,
        owner,
        leaseMs,
        say ?? "",
        ...args,
      ) as [number[], Reply[]];
      if (taken.length > 0) told();
      const settlements = outcomes.map((outcome) => OUTCOMES[outcome]!);
      const { deliveries, unreadable } = read(taken, owner);
      if (unreadable.length > 0) {
        // Calls of their own: should one fail, what was done and taken is still to be told. The rest
        // stays in processing until its lease runs out.
        try {
          await bury(queue, unreadable);
          const want = count - deliveries.length;
          if (deliveries.length + unreadable.length === count) {
            deliveries.push(...await dequeue(queue, { ...options, count: want }));
          }
        } catch {
          // The next call meets it again.
        }
      }
      return { settlements, deliveries };
    },
    ack: (queue, receipts) => settle(life.ACK, queue, receipts),
    requeue: (queue, receipts, { counted = true } = {}) =>
      settle(life.REQUEUE, queue, receipts, counted ? "1" : "0"),
    fail: (queue, receipts, reason) => settle(life.FAIL, queue, receipts, reason.toWellFormed()),
    renew: (queue, receipts, leaseMs) =>
      settle(life.RENEW, queue, receipts, leaseMs, Math.max(leaseMs, ALIVE_MS) * 2),
    peek: async (queue) => {
      for (let place = 0;;) {
        const reply = await run(queues.PEEK, queue, place) as Reply[] | null;
        if (reply === null) return null;
        const decoded = decodeEnvelope(reply[2] as Uint8Array);
        if ("data" in decoded) return { id: text(reply[1]), data: decoded.data };
        place = Number(reply[0]) + 1;
      }
    },
    status: async (queue) => {
      const [pending, processing] = await run(queues.STATUS, queue) as number[];
      if (pending === 0 && processing === 0) await assertMaster();
      return { pending: pending!, processing: processing! };
    },
    statuses: async (wanted) => {
      wanted?.forEach(checkQueueName);
      return wanted?.length === 0 ? new Map() : await statuses(wanted ?? []);
    },
    complete: async (wanted) => {
      if (wanted.length === 0) return true;
      wanted.forEach(checkQueueName);
      const complete = [...(await statuses(wanted)).values()].every(
        ({ pending, processing }) => pending === 0 && processing === 0,
      );
      if (complete) await assertMaster();
      return complete;
    },
    messages: async (queue) => {
      const all = groups(await run(queues.MESSAGES, queue) as Reply[], 4).map(
        ([id, payload, order, state]) => {
          const decoded = decodeEnvelope(payload as Uint8Array | null);
          const message: UnackedMessage = {
            id: text(id),
            state: text(state) === "pending" ? "pending" : "processing",
            data: "data" in decoded ? decoded.data : null,
          };
          return { message, order: Number(text(order)) };
        },
      );
      // Those pending have order 0 and stand in order already; sorting is stable.
      const out = all.filter(({ message }) => message.state === "processing");
      const waiting = all.filter(({ message }) => message.state === "pending");
      return [...out.sort((a, b) => a.order - b.order), ...waiting].map(({ message }) => message);
    },
    clear: async (queue) => Number(await run(queues.CLEAR, queue)),
    recover: async (queue, options = {}) => {
      const recovered = await Promise.all(
        (queue === null ? await list() : [queue]).map((each) =>
          recoverQueue((script, ...args) => run(script, each, ...args), each, options)
        ),
      );
      return recovered.flat();
    },
    failed: {
      list: async (queue, limit = 0) =>
        groups(await run(letters.FAILED_LIST, queue, 0, limit - 1) as Reply[], 4).map((reply) =>
          deadLetter(queue, reply)
        ),
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
        const [problem, failedId] = await run(letters.FAILED_RETRY, queue, ...args) as Reply[];
        if (problem === undefined) return found.map(({ letter }) => letter.id);
        if (text(problem) === "gone") throw noDeadLetter(queue, text(failedId));
        throw pendingAlready(queue, text(failedId));
      },
      prune: async (queue, { failedIds, before } = {}) =>
        failedIds?.length === 0 ? 0 : Number(
          await run(
            letters.FAILED_PRUNE,
            queue,
            before === undefined ? "" : before * 1000,
            ...(failedIds ?? []),
          ),
        ),
    },
    warnings: async () => {
      // Users that may not ask aren't told.
      const memory = await connection.info("memory").catch(() => "");
      const limit = Number(/^maxmemory:(\d+)/m.exec(memory)?.[1] ?? 0);
      const policy = /^maxmemory_policy:(\S+)/m.exec(memory)?.[1] ?? "";
      if (limit === 0 || !policy.startsWith("allkeys-")) return [];
      return [
        `the server removes any key when memory is short (maxmemory-policy ${policy}): messages can ` +
        "vanish, and queues look complete; set it to noeviction",
      ];
    },
    close: () => connection.close(),
  };
}

interface Unreadable {
  readonly receipt: Receipt;
  readonly problem: string;
}

/** What a script has taken: four values a delivery. */
function read(
  taken: Reply[],
  owner: string,
): { deliveries: Delivery[]; unreadable: Unreadable[] } {
  const [deliveries, unreadable]: [Delivery[], Unreadable[]] = [[], []];
  for (const [idBytes, payload, number, attempts] of groups(taken, 4)) {
    const id = text(idBytes);
    const lease = `${text(number)}.${owner}`;
    const decoded = decodeEnvelope(payload as Uint8Array | null);
    if ("data" in decoded) {
      deliveries.push({ id, data: decoded.data, lease, attempts: Number(attempts) });
    } else unreadable.push({ receipt: { id, lease }, problem: decoded.problem });
  }
  return { deliveries, unreadable };
}

const OUTCOMES: readonly Settlement[] = ["stale", "done", "superseded"];

function receiptArguments(receipt: Receipt): Argument[] {
  return "lease" in receipt
    ? [receipt.id, "lease", receipt.lease]
    : [receipt.id, "owner", callerPrefix(receipt.owner)];
}

const factsSchema = z.object({ id: z.string(), reason: z.string(), attempts: z.number() });

function deadLetter(queue: string, [name, facts, payload, score]: Reply[]): DeadLetter {
  const failedId = text(name);
  const parsed = factsSchema.safeParse(parseJson(text(facts)));
  const known = parsed.success ? parsed.data : { id: failedId, reason: "not known", attempts: 0 };
  const raw = payload as Uint8Array | null;
  const decoded = decodeEnvelope(raw);
  const readable = "data" in decoded;
  return {
    failedId,
    queue,
    ...known,
    failedAt: score === null ? null : Math.floor(Number(text(score)) / 1000),
    data: readable ? decoded.data : null,
    raw: readable || raw === null ? null : textOf(raw) ?? new TextDecoder().decode(raw),
  };
}

function parseJson(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return null;
  }
}

function text(reply: Reply | undefined): string {
  if (!(reply instanceof Uint8Array)) return String(reply ?? "");
  return Buffer.from(reply.buffer, reply.byteOffset, reply.byteLength).toString("utf8");
}

/** Keeps what `make` made for a name, for a thousand of them. */
function remember<T>(make: (name: string) => T): (name: string) => T {
  const kept = new Map<string, T>();
  return (name) => {
    let value = kept.get(name);
    if (value === undefined) {
      value = make(name);
      if (kept.size >= 1000) kept.clear();
      kept.set(name, value);
    }
    return value;
  };
}

/** A flat answer as rows of `width`. */
function groups(reply: Reply[], width: number): Reply[][] {
  const rows: Reply[][] = [];
  for (let i = 0; i + width <= reply.length; i += width) rows.push(reply.slice(i, i + width));
  return rows;
}

function seconds(): number {
  return Math.floor(Date.now() / 1000);
}
