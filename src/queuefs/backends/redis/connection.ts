/**
 * One kept connection (to a server, a cluster, or whatever master the sentinels name) over which
 * scripts run.
 *
 * Nothing is ever sent twice unless it is known that the first was not executed: the client's own queue
 * for offline times and its resending are off, since both would execute a call after its caller was told
 * that it failed. Instead a call waits, within its time, until the connection is ready, and then is sent
 * once; again only where the server itself answered that it did nothing (NOSCRIPT, LOADING, READONLY
 * after a failover, …), or where the script only reads.
 */
import process from "node:process";
import { AgentqError } from "../../../errors.ts";
import type { RedisAddress } from "./address.ts";
import { callFault, connectFault, isFinal, isPassing } from "./faults.ts";
import type { Script } from "./scripts/prelude.ts";

/** An answer with bulk strings as bytes. */
export type Reply = Uint8Array | number | null | Reply[];

export interface RedisConnection {
  /** Runs a script; `queue` is for messages. */
  run(
    script: Script,
    queue: string,
    keys: readonly string[],
    args: readonly Argument[],
  ): Promise<Reply>;
  /** The members of a set. */
  members(key: string): Promise<string[]>;
  close(): Promise<void>;
}

export type Argument = string | number | Uint8Array;

/** What of ioredis is used, of a single client and of a cluster alike. */
interface Client {
  status: string;
  on(event: string, listener: (error: Error) => void): unknown;
  once(event: string, listener: () => void): unknown;
  off(event: string, listener: () => void): unknown;
  connect(): Promise<unknown>;
  quit(): Promise<unknown>;
  disconnect(reconnect?: boolean): void;
  smembers(key: string): Promise<string[]>;
  evalshaBuffer(sha: string, keys: number, ...rest: unknown[]): Promise<unknown>;
  evalBuffer(source: string, keys: number, ...rest: unknown[]): Promise<unknown>;
}

/** Connects and returns when the connection is ready. Throws `backend-unreachable`, `backend-denied`. */
export async function connectRedis(address: RedisAddress): Promise<RedisConnection> {
  const { label, timeoutMs } = address;
  const client = await makeClient(address);
  const link = watch(client, label, timeoutMs);
  client.connect().catch(() => {}); // Reported by the error event.
  try {
    await link.ready(performance.now() + timeoutMs, true);
  } catch (error) {
    client.disconnect();
    throw error;
  }

  const call = async <T>(
    name: string,
    queue: string,
    readOnly: boolean,
    send: () => Promise<T>,
  ): Promise<T> => {
    const deadline = performance.now() + timeoutMs;
    for (;;) {
      await link.ready(deadline, false);
      try {
        return await send();
      } catch (error) {
        const passing = isPassing(error) || (readOnly && !isAnswer(error));
        if (!passing || performance.now() + RETRY_MS >= deadline) {
          throw callFault(error, label, isAnswer(error) ? queue : name, readOnly);
        }
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  };

  return {
    run: (script, queue, keys, args) =>
      call(script.name, queue, script.readOnly, async () => {
        try {
          return await client.evalshaBuffer(script.sha, keys.length, ...keys, ...args) as Reply;
        } catch (error) {
          // A restarted server, another node, or SCRIPT FLUSH: the script goes along once.
          if (!(error instanceof Error) || !error.message.startsWith("NOSCRIPT")) throw error;
          return await client.evalBuffer(script.source, keys.length, ...keys, ...args) as Reply;
        }
      }),
    members: (key) => call("list", "", true, () => client.smembers(key)),
    close: async () => {
      link.closing();
      await Promise.race([
        client.quit().catch(() => {}),
        new Promise((resolve) => setTimeout(resolve, 500)),
      ]);
      client.disconnect();
    },
  };
}

const RETRY_MS = 50;

function isAnswer(error: unknown): boolean {
  return error instanceof Error && error.name === "ReplyError";
}

/** Follows a client's state: `ready` waits for it, and fails early where waiting can't help. */
function watch(client: Client, label: string, timeoutMs: number) {
  let last: Error | null = null;
  let closed = false;
  const waiting = new Set<() => void>();
  const wake = () => waiting.forEach((waiter) => waiter());
  client.on("error", (error) => {
    last = unwrap(error);
    wake();
  });
  client.on("ready", () => {
    last = null;
    wake();
  });
  client.on("end", () => wake());
  const ready = async (deadline: number, first: boolean): Promise<void> => {
    for (;;) {
      if (closed) throw new AgentqError("backend-unreachable", `${label} is closed`);
      if (client.status === "ready") return;
      if (last !== null && (first || isFinal(last))) throw connectFault(last, label, timeoutMs);
      const left = deadline - performance.now();
      if (left <= 0) throw connectFault(last, label, timeoutMs);
      await new Promise<void>((resolve) => {
        const done = () => {
          waiting.delete(done);
          clearTimeout(timer);
          resolve();
        };
        const timer = setTimeout(done, Math.min(left, 1000));
        waiting.add(done);
      });
    }
  };
  const closing = () => {
    closed = true;
    wake();
  };
  return { ready, closing };
}

/** A cluster says "failed to refresh slots" and keeps the reason inside. */
function unwrap(error: Error): Error {
  const { lastNodeError } = error as { lastNodeError?: unknown };
  return lastNodeError instanceof Error ? lastNodeError : error;
}

async function makeClient(address: RedisAddress): Promise<Client> {
  const { Redis, Cluster } = await import("ioredis");
  const shared = {
    ...(address.username === null ? {} : { username: address.username }),
    ...(address.password === null ? {} : { password: address.password }),
    ...(address.tls === null ? {} : { tls: address.tls }),
    protocol: 2 as const,
    connectTimeout: address.timeoutMs,
    commandTimeout: address.timeoutMs,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    disableClientInfo: true,
    connectionName: `agentq-${process.pid}`,
  };
  const again = (times: number) => Math.min(50 * 2 ** Math.min(times, 6), 2000);
  if (address.mode === "cluster") {
    return new Cluster([...address.hosts], {
      lazyConnect: true,
      enableOfflineQueue: false,
      clusterRetryStrategy: again,
      slotsRefreshTimeout: address.timeoutMs,
      redisOptions: shared,
    }) as unknown as Client;
  }
  const target = address.mode === "single" ? { ...address.hosts[0]! } : {
    sentinels: [...address.hosts],
    name: address.master!,
    sentinelRetryStrategy: again,
    failoverDetector: true,
    ...(address.sentinelPassword === null ? {} : { sentinelPassword: address.sentinelPassword }),
    ...(address.tls === null ? {} : { enableTLSForSentinelMode: true, sentinelTLS: address.tls }),
  };
  return new Redis({
    ...shared,
    ...target,
    db: address.db,
    lazyConnect: true,
    enableOfflineQueue: false,
    retryStrategy: again,
    // A demoted master answers READONLY: leave it and ask the sentinels again.
    reconnectOnError: (error: Error) => error.message.startsWith("READONLY"),
  }) as unknown as Client;
}
