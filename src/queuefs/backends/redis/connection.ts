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
import { type AgentqError, isAgentqError } from "../../../errors.ts";
import type { RedisAddress } from "./address.ts";
import {
  type Argument,
  Call,
  type CallHead,
  callHead,
  callKnown,
  callSource,
  carefulHead,
} from "./call.ts";
import { callFault, foreignKey, isPassing, isWrongType, nothingOnReplica } from "./faults.ts";
import { makeClient } from "./client.ts";
import { basePrefix } from "./keys.ts";
import { type Client, watch } from "./link.ts";
import { saysReplica } from "./role.ts";
import { text } from "./replies.ts";
import type { Script } from "./scripts/prelude.ts";
import { WRONG_KEY } from "./scripts/queues.ts";
import { whenWithoutTls } from "./without-tls.ts";

/** An answer with bulk strings as bytes. */
export type Reply = Uint8Array | number | null | Reply[];

export interface RedisConnection {
  /** Runs a script; `queue` is for messages. */
  run(head: CallHead, queue: string, args: readonly Argument[]): Promise<Reply>;
  /** A section of what the server says about itself: `name:value` lines. */
  info(section: string): Promise<string>;
  /** Whether the server takes any password of the user for right; null where the user may not ask. */
  takesAnyPassword(user: string): Promise<boolean | null>;
  close(): Promise<void>;
}

/** Connects and returns when the connection is ready. Throws `backend-unreachable`, `backend-denied`. */
export async function connectRedis(address: RedisAddress): Promise<RedisConnection> {
  const { label, timeoutMs } = address;
  const client = makeClient(address);
  const link = watch(client, address);
  client.connect().catch(() => {}); // Reported by the error event.
  const stopLooking = address.tls === null ? () => {} : whenWithoutTls(address.hosts, link.fail);
  try {
    await link.ready(performance.now() + timeoutMs, true);
  } catch (error) {
    client.disconnect();
    throw error;
  } finally {
    stopLooking();
  }

  // Behind a connection over which nothing comes any more (its peer was cut off without a word) all calls would end so.
  const limits = timeLimits(timeoutMs, () => {
    if (link.isReady()) client.disconnect(true);
  });
  /** Sends what `make` makes until the server has answered it; `source` instead once a script isn't known. */
  const call = async (
    name: string,
    queue: string,
    readOnly: boolean,
    make: () => Call,
    source = make,
  ): Promise<unknown> => {
    const deadline = performance.now() + timeoutMs;
    for (;;) {
      if (!link.isReady()) await link.ready(deadline, false);
      const command = make();
      limits.start(command);
      try {
        return await client.sendCommand(command);
      } catch (error) {
        // A restarted server, another node, or SCRIPT FLUSH: the script goes along once.
        if (make !== source && isAnswer(error) && error.message.startsWith("NOSCRIPT")) {
          make = source;
          continue;
        }
        const passing = isPassing(error, address.mode === "single") ||
          (readOnly && !isAnswer(error));
        if (!passing || performance.now() + RETRY_MS >= deadline) {
          throw callFault(error, address, isAnswer(error) ? queue : name, readOnly, link.last());
        }
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      } finally {
        limits.end(command);
      }
    }
  };

  const info = (section: string) =>
    call(
      "info",
      "",
      true,
      () => new Call("info", [section], { replyEncoding: "utf8" }),
    ) as Promise<string>;
  const permitted = permissions(client);

  const base = basePrefix(address.prefix);
  const wrongKey = callHead(WRONG_KEY, [base, `${base}names`]);
  /** Which key it is that isn't of its type: of the queue, or else of any. Servers don't tell. */
  const named = async (error: AgentqError, queue: string): Promise<AgentqError> => {
    for (const queues of queue === "" ? [[]] : [[queue], []]) {
      const source = () => callSource(wrongKey, queues);
      const found = await call("wrong-key", queue, true, source).catch(() => []) as Reply[];
      if (found.length > 0) return foreignKey(label, found.map(text), error);
    }
    return error;
  };

  return {
    run: async (plain, queue, args) => {
      const { name, readOnly } = plain.script;
      const ask = permitted.isDue(plain.script);
      const head = ask ? carefulHead(plain) : plain;
      const known = () => callKnown(head, args);
      try {
        const reply = await call(name, queue, readOnly, known, () => callSource(head, args));
        if (ask) permitted.granted(plain.script);
        return reply as Reply;
      } catch (error) {
        permitted.withdrawn(error);
        if (isWrongType(error)) throw await named(error as AgentqError, queue);
        // A replica that is behind knows nothing of a newer queue.
        const missing = isAgentqError(error, "queue-not-found") && address.mode === "single";
        throw missing && await saysReplica({ info }) ? nothingOnReplica(label) : error;
      }
    },
    info,
    takesAnyPassword: async (user) => {
      const ask = () => new Call("acl", ["getuser", user], { replyEncoding: "utf8" });
      const reply = await call("acl", "", true, ask).catch(() => null);
      return Array.isArray(reply) ? reply.flat().includes("nopass") : null;
    },
    close: async () => {
      link.closing();
      limits.close();
      await Promise.race([
        client.quit().catch(() => {}),
        new Promise((resolve) => setTimeout(resolve, 500)),
      ]);
      client.disconnect();
    },
  };
}

const RETRY_MS = 50;
const ASK_AGAIN_MS = 1000;

/**
 * Which scripts the user may run whole, as far as is known: asked with the first call over a connection, and
 * from time to time, since permissions change under a connection too.
 */
function permissions(client: Client) {
  const granted = new Map<Script, number>();
  const forget = () => granted.clear();
  for (const event of ["ready", "close", "+node", "-node"]) client.on(event, forget);
  return {
    isDue: (script: Script) =>
      performance.now() - (granted.get(script) ?? -Infinity) >= ASK_AGAIN_MS,
    granted: (script: Script) => void granted.set(script, performance.now()),
    withdrawn: (error: unknown) => {
      if (isAgentqError(error, "backend-denied")) forget();
    },
  };
}

function isAnswer(error: unknown): error is Error {
  return error instanceof Error && error.name === "ReplyError";
}

/** One timer for all calls that are under way: the oldest is the first whose time is over. */
function timeLimits(timeoutMs: number, onSilence: () => void) {
  const calls = new Map<Call, number>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const look = () => {
    timer = undefined;
    const now = performance.now();
    let silent = false;
    for (const [call, until] of calls) {
      if (until > now) {
        timer = setTimeout(look, Math.ceil(until - now));
        break;
      }
      silent = true;
      calls.delete(call);
      call.reject(new Error(`no answer within ${timeoutMs} ms`));
    }
    if (silent) onSilence();
  };
  return {
    /** From now on the call is rejected when its time is over. */
    start: (call: Call) => {
      calls.set(call, performance.now() + timeoutMs);
      timer ??= setTimeout(look, timeoutMs);
    },
    end: (call: Call) => calls.delete(call),
    close: () => clearTimeout(timer),
  };
}
