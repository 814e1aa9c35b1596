/** A client's connection: whether it is ready, and what keeps it from being so. */
import type { Command } from "ioredis";
import { AgentqError } from "../../../errors.ts";
import { quoted } from "../../names.ts";
import type { RedisAddress } from "./address.ts";
import { CLOSED, plainly } from "./client-words.ts";
import { connectFault, isFinal, isSoon, NO_MASTER, SENTINELS_SAY } from "./faults.ts";
import { isCutOff, type Place, saidUnasked } from "./unasked.ts";

/** What of ioredis is used, of a single client and of a cluster alike. */
export interface Client {
  status: string;
  /** Of a single one, once it has one. */
  readonly stream?: { readonly remoteAddress?: string; readonly remotePort?: number };
  on(event: string, listener: (error: Error) => void): unknown;
  once(event: string, listener: () => void): unknown;
  off(event: string, listener: () => void): unknown;
  connect(): Promise<unknown>;
  quit(): Promise<unknown>;
  disconnect(reconnect?: boolean): void;
  sendCommand(command: Command): Promise<unknown>;
}

/** Follows a client's state: `ready` waits for it, and fails early where waiting can't help. */
export function watch(client: Client, address: RedisAddress) {
  const { label, timeoutMs, master, mode, hosts, tls } = address;
  let last: Error | null = null;
  let unknown = false;
  let closed = false;
  /** What the server says is heard once more. */
  let asking = 0;
  /** An attempt, or a connection, has ended with a reason. */
  let told = false;
  let remote: Place | null = null;
  const waiting = new Set<() => void>();
  const wake = () => waiting.forEach((waiter) => waiter());
  const ask = async (error: Error) => {
    asking++;
    const said = await saidUnasked(remote === null ? hosts : [...hosts, remote]);
    asking--;
    if (said !== null && last === error) last = new Error(said);
    wake();
  };
  const fail = (error: Error) => {
    told = true;
    const noMaster = unknown && error.message.startsWith("All sentinels are unreachable");
    last = noMaster ? new Error(`${NO_MASTER}${quoted(master!)}`) : unwrap(error, timeoutMs);
    unknown = false;
    if (tls === null && !closed && client.status !== "ready" && isCutOff(last)) void ask(last);
    wake();
  };
  client.on("error", fail);
  // What each of them answered, before all are given up.
  client.on("sentinelError", ({ message }) => {
    unknown ||= /No such master|invalid reply: null/.test(message);
  });
  client.on("connect", () => {
    const { remoteAddress: host, remotePort: port } = client.stream ?? {};
    remote = host && port ? { host, port } : null;
  });
  client.on("ready", () => {
    last = null;
    told = false;
    wake();
  });
  client.on("close", () => {
    // A cluster, and whoever follows sentinels, close by themselves to begin anew.
    if (!told && !closed && mode === "single") fail(new Error(CLOSED));
    told = false;
  });
  client.on("end", () => wake());
  const ready = async (deadline: number, first: boolean): Promise<void> => {
    for (;;) {
      if (closed) throw new AgentqError("backend-unreachable", `${label} is closed`);
      if (client.status === "ready") return;
      const final = last !== null && asking === 0 && (isFinal(last) || (first && !isSoon(last)));
      if (final) throw connectFault(last, label, timeoutMs);
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
  return {
    ready,
    closing,
    fail,
    last: () => last,
    isReady: () => !closed && client.status === "ready",
  };
}

/**
 * A cluster says "failed to refresh slots" and keeps the reason inside; of sentinels the last one's answer
 * stands at the end, which counts where no second attempt changes it.
 */
function unwrap(error: Error, timeoutMs: number): Error {
  const { lastNodeError } = error as { lastNodeError?: unknown };
  if (lastNodeError instanceof Error) return plainly(lastNodeError, timeoutMs);
  const [, last] = /^All sentinels are unreachable.* Last error: (.+)$/s.exec(error.message) ?? [];
  const answer = new Error(last);
  if (last === undefined || !isFinal(answer)) return plainly(error, timeoutMs);
  return /^(NOAUTH|WRONGPASS)/.test(last) ? new Error(`${last} (${SENTINELS_SAY})`) : answer;
}
