/** A client's connection: whether it is ready, and what keeps it from being so. */
import type { Command } from "ioredis";
import { AgentqError } from "../../../errors.ts";
import { quoted } from "../../names.ts";
import type { RedisAddress } from "./address.ts";
import { connectFault, isFinal, NO_MASTER, SENTINELS_SAY } from "./faults.ts";

/** What of ioredis is used, of a single client and of a cluster alike. */
export interface Client {
  status: string;
  on(event: string, listener: (error: Error) => void): unknown;
  once(event: string, listener: () => void): unknown;
  off(event: string, listener: () => void): unknown;
  connect(): Promise<unknown>;
  quit(): Promise<unknown>;
  disconnect(reconnect?: boolean): void;
  sendCommand(command: Command): Promise<unknown>;
}

/** Follows a client's state: `ready` waits for it, and fails early where waiting can't help. */
export function watch(client: Client, { label, timeoutMs, master }: RedisAddress) {
  let last: Error | null = null;
  let unknown = false;
  let closed = false;
  const waiting = new Set<() => void>();
  const wake = () => waiting.forEach((waiter) => waiter());
  const fail = (error: Error) => {
    const noMaster = unknown && error.message.startsWith("All sentinels are unreachable");
    last = noMaster ? new Error(`${NO_MASTER}${quoted(master!)}`) : unwrap(error);
    unknown = false;
    wake();
  };
  client.on("error", fail);
  // What each of them answered, before all are given up.
  client.on("sentinelError", ({ message }) => {
    unknown ||= /No such master|invalid reply: null/.test(message);
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
  return { ready, closing, fail, isReady: () => !closed && client.status === "ready" };
}

/**
 * A cluster says "failed to refresh slots" and keeps the reason inside; of sentinels the last one's answer
 * stands at the end, which counts where no second attempt changes it.
 */
function unwrap(error: Error): Error {
  const { lastNodeError } = error as { lastNodeError?: unknown };
  if (lastNodeError instanceof Error) return lastNodeError;
  const [, last] = /^All sentinels are unreachable.* Last error: (.+)$/s.exec(error.message) ?? [];
  if (last === undefined) return error;
  const answer = new Error(last);
  if (!isFinal(answer)) return error;
  return /^(NOAUTH|WRONGPASS)/.test(last) ? new Error(`${last} (${SENTINELS_SAY})`) : answer;
}
