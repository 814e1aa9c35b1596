/** What Redis and its client answer, as agentq's errors. */
import type { RedisAddress } from "./address.ts";
import { callWords, isUnsent } from "./client-words.ts";
import { NO_HOST } from "./places.ts";
import { AgentqError, type ErrorCode, isAgentqError } from "../../../errors.ts";
import { clientCertificateRefusal } from "../../../platform/tls-files.ts";
import { quoted } from "../../names.ts";
import { noQueue } from "../shared.ts";

/** Answers that say that nothing was executed and that waiting may help. */
const LATER = /^(LOADING|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|READONLY|MOVED|ASK|BUSY) ?/;
/** The last one is what a script hears that may not run one of its commands. */
const DENIED =
  /^(NOAUTH|WRONGPASS|NOPERM|DENIED |ERR invalid password|ERR AUTH|ERR Client sent AUTH|(ERR )?The user executing the script can't)/;
const BUSY = {
  words: /^BUSY /,
  hint:
    "A script runs on the server for long: wait for its end, or have it ended there (SCRIPT KILL).",
};
const CODES: readonly [RegExp, ErrorCode][] = [
  [/^(OOM|MISCONF) /, "backend-full"],
  [BUSY.words, "backend-busy"],
  [DENIED, "backend-denied"],
  [LATER, "backend-unreachable"],
  [/^NOREPLICAS /, "backend-unreachable"],
];
/** Where a code's own hint says something else. */
const HINTS: readonly [RegExp, string][] = [
  [
    /^NOPERM|The user executing the script can't/,
    "Give the user the commands and keys that docs/queues.md lists (ACL SETUSER), or name another user.",
  ],
  [BUSY.words, BUSY.hint],
  [
    /^NOREPLICAS/,
    "The server takes changes only with enough replicas (min-replicas-to-write): see to these.",
  ],
  [
    /^DENIED /,
    "Run it on the server's machine, or give the server a password (requirepass) or an address (bind).",
  ],
  [
    /^ERR max number of clients/,
    "Raise the server's maxclients, or end clients that do nothing (CLIENT LIST, CLIENT KILL, its timeout).",
  ],
  [/^LOADING/, "Wait until the server has read its data from disk (INFO persistence: loading)."],
  [/^MASTERDOWN/, "It is a replica without its master: see INFO replication, or name the master."],
  [
    /^CLUSTERDOWN/,
    "See CLUSTER INFO and CLUSTER NODES there: every slot needs a node, and most masters must be up.",
  ],
  [
    new RegExp(`^${NO_HOST}`),
    "Set cluster-announce-ip (or cluster-announce-hostname) on each node to what its clients reach it by.",
  ],
];
const TLS =
  /certificate|CERT_|self[- ]signed|SELF_SIGNED|ERR_TLS|ERR_SSL|alert|UnknownIssuer|NotValidForName/i;

/** In place of a client's words, where a server turned out to speak plainly. */
export const NO_TLS = "no TLS there";

/** In place of a client's words, where sentinels answered that they don't know a master of that name. */
export const NO_MASTER = "the sentinels know no master ";

/** After a client's words, where it is the sentinels that ask for a password. */
export const SENTINELS_SAY = "say the sentinels";

/** What no second attempt changes: the address asks for something that isn't there. */
const MISTAKEN: readonly { words: RegExp; what: string; hint: string }[] = [
  {
    // Besides ours those of the TLS libraries of Bun, Deno and Node for an answer that is none of TLS.
    words:
      /^no TLS there$|wrong.version.number|InvalidContentType|corrupt message|packet length too long|http request/i,
    what: "what answers there doesn't speak TLS",
    hint: "Use redis:// for a server without TLS, or name its port for TLS (tls-port).",
  },
  {
    words: /^ERR (DB index is out of range|invalid DB index|SELECT is not allowed)/,
    what: "the server has no database of that number",
    hint: "Name one below the server's setting databases (16 as a rule), or none.",
  },
  {
    words: /cluster support disabled|unknown command .cluster\b/i,
    what: "the server is no node of a cluster",
    hint: "Leave out cluster=1; for a sentinel add sentinel=MASTER.",
  },
  {
    words: /unknown command .evalsha\b/i,
    what: "the server runs no scripts: it is a sentinel, or no Redis that can keep queues",
    hint:
      "Add sentinel=MASTER for a sentinel (their port is 26379 as a rule), or name the server itself.",
  },
  {
    words: new RegExp(`^${NO_MASTER}`),
    what: "",
    hint: "Correct sentinel=MASTER: SENTINEL MASTERS tells which they watch.",
  },
  {
    words: /unknown command .sentinel\b/i,
    what: "the server is no sentinel",
    hint: "Name the sentinels (their port is 26379 as a rule), or leave out sentinel=MASTER.",
  },
  {
    words: /^MOVED /,
    what: "the server is a node of a cluster",
    hint: "Add cluster=1.",
  },
  {
    // The client's own words for an answer that it can't read.
    words: /Unknown RESP type|Protocol error, got|please report (this|it)/i,
    what: "what answers there doesn't speak the protocol of Redis",
    hint: "Check host and port: something else listens there.",
  },
];

/** Our own words for a call whose answer didn't come in time, and what helps. */
const LATE = /^no answer within \d+ ms$/;
const LATE_HINT = "Give the server longer (?timeout=MILLISECONDS), or do less in one call.";
const LATE_UNKNOWN = "Look before repeating: it may have been done. " +
  "Then give the server longer (?timeout=MILLISECONDS), or do less in one call (smaller batches).";

/**
 * True when nothing was executed, as the server said or since nothing was sent, and may be in a moment.
 * `alone`: there are no other nodes to ask, so a replica stays one and a slot stays where it is.
 */
export function isPassing(error: unknown, alone: boolean): boolean {
  if (!(error instanceof Error)) return false;
  if (alone && /^(READONLY|MOVED|ASK) /.test(error.message)) return false;
  return LATER.test(error.message) || isUnsent(error.message);
}

/** True when waiting will do, at a first attempt too: the server says that it is about to be ready. */
export function isSoon(error: Error): boolean {
  return /^(LOADING|CLUSTERDOWN)\b/.test(error.message);
}

/** True when another attempt to connect will end the same way: a wrong password, a wrong certificate. */
export function isFinal(error: Error): boolean {
  return isDenied(error) || isTls(error) || MISTAKEN.some(({ words }) => words.test(error.message));
}

function mistakeOf(error: Error, label: string): AgentqError | null {
  const found = MISTAKEN.find(({ words }) => words.test(error.message));
  if (found === undefined) return null;
  return new AgentqError("config-invalid", `${label}: ${found.what || firstLine(error)}`, {
    cause: error,
    hint: found.hint,
  });
}

function isDenied(error: Error): boolean {
  return DENIED.test(error.message);
}

function isTls(error: Error): boolean {
  return TLS.test(`${(error as { code?: unknown }).code ?? ""} ${error.message}`);
}

/** No connection could be made. */
export function connectFault(error: Error | null, label: string, timeoutMs: number): AgentqError {
  const mistake = error === null ? null : mistakeOf(error, label);
  if (mistake !== null) return mistake;
  const refusal = error === null ? null : clientCertificateRefusal(error);
  if (refusal !== null) {
    return new AgentqError("backend-denied", `${label}: no TLS with the server: ${refusal}`, {
      cause: error,
      hint: "Name the client's certificate and its key with ?cert=FILE&key=FILE.",
    });
  }
  if (error !== null && isTls(error)) {
    return new AgentqError(
      "backend-denied",
      `${label}: the TLS certificate was not accepted: ${error.message}`,
      {
        cause: error,
        hint: "Check the server's name and certificate, or name its authority with ?ca=FILE.",
      },
    );
  }
  if (error !== null && isDenied(error)) {
    return new AgentqError("backend-denied", `${label}: ${firstLine(error)}`, {
      cause: error,
      ...(error.message.includes(SENTINELS_SAY)
        ? {
          hint:
            "Give their password in AGENTQ_REDIS_SENTINEL_PASSWORD: they have one of their own.",
        }
        : hintOf(error)),
    });
  }
  if (error !== null && BUSY.words.test(error.message)) {
    return new AgentqError("backend-busy", `${label}: ${firstLine(error)}`, {
      cause: error,
      hint: BUSY.hint,
    });
  }
  const why = error === null ? `no connection within ${timeoutMs} ms` : firstLine(error);
  const cut = error !== null && /ECONNRESET|EPIPE|clos/i.test(why);
  return new AgentqError("backend-unreachable", `${label}: ${why}`, {
    cause: error ?? undefined,
    ...(cut
      ? {
        hint: label.startsWith("redis:")
          ? "Check the address, and whether the server takes TLS alone: then it is rediss://."
          : "Check the address, and whether the server has as many clients as it takes (maxclients): " +
            "over TLS it can't say so.",
      }
      : error === null
      ? {}
      : hintOf(error)),
  });
}

function hintOf({ message }: Error): { hint: string } | Record<string, never> {
  const hint = HINTS.find(([words]) => words.test(message))?.[1];
  return hint === undefined ? {} : { hint };
}

/**
 * A call failed. An answer of the server says what happened; everything else (the connection broke, no
 * answer in time) leaves open whether a call that changes something was executed. `last`: what the connection ended with.
 */
export function callFault(
  error: unknown,
  { label, timeoutMs }: Pick<RedisAddress, "label" | "timeoutMs">,
  call: string,
  readOnly: boolean,
  last: Error | null,
): AgentqError {
  if (!(error instanceof Error)) {
    return new AgentqError("backend-error", `${label}: ${String(error)}`);
  }
  const message = firstLine(error);
  const missing = /NOQUEUE(?: (\S+))?/.exec(error.message);
  if (missing) return noQueue(missing[1] ?? call);
  if (error.name === "ReplyError") {
    if (error.message.startsWith("READONLY ")) return readOnlyReplica(error, label);
    const mistake = mistakeOf(error, label);
    if (mistake !== null) return mistake;
    const code = CODES.find(([words]) => words.test(error.message))?.[1] ?? "backend-error";
    return new AgentqError(code, `${label}: ${message}`, { cause: error, ...hintOf(error) });
  }
  return new AgentqError(
    readOnly || isUnsent(message) ? "backend-unreachable" : "backend-outcome-unknown",
    `${label}: ${call}: ${callWords(error, last, timeoutMs)}`,
    { cause: error, ...(LATE.test(message) ? { hint: readOnly ? LATE_HINT : LATE_UNKNOWN } : {}) },
  );
}

/** Its clients may wait for a failover all the same, as workers do. */
function readOnlyReplica(cause: Error, label: string): AgentqError {
  return new AgentqError(
    "backend-denied",
    `${label}: it is a read-only replica: nothing was changed`,
    {
      cause,
      hint: "Name the master; where the address moves to it at a failover, try again.",
      retryable: true,
    },
  );
}

/** Nothing is there on a replica, which says nothing about the master: it may be behind, or cut off. */
export function nothingOnReplica(label: string): AgentqError {
  return new AgentqError(
    "backend-denied",
    `${label}: it is a replica and may be behind: that something isn't there, or is done, is its master's word`,
    {
      hint: "Name the master; where the address moves to it at a failover, try again.",
      retryable: true,
    },
  );
}

/** Servers put script sources and addresses after the first line. */
function firstLine(error: Error): string {
  const unreadable = MISTAKEN.at(-1)!;
  if (unreadable.words.test(error.message)) return unreadable.what;
  // It goes on with all that can be done about it.
  const denied = /^DENIED .*?loopback interface\./.exec(error.message);
  if (denied !== null) return denied[0];
  return (error.message.split("\n")[0] ?? "").slice(0, 300) || error.name;
}

/** True where a script met a key of another type than its own are. */
export function isWrongType(error: unknown): boolean {
  return isAgentqError(error, "backend-error") && /\bWRONGTYPE\b/.test(error.message);
}

/** What servers call types, in words. */
const TYPES: Readonly<Record<string, string>> = { zset: "sorted set" };

/** A key and its type in words; `is`: "" where that isn't known. */
export function ofOtherType(key: string, wanted: string, is: string): string {
  const type = TYPES[wanted] ?? wanted;
  const found = is === "" ? `is no ${type}` : `is a ${TYPES[is] ?? is}, not a ${type}`;
  return `the key ${quoted(key)} ${found}`;
}

/** Something else stands where a queue keeps its own. `queue`: "" where it is the list of all queues. */
export function foreignKey(
  label: string,
  [queue = "", key = "", wanted = "", is = ""]: readonly string[],
  cause?: unknown,
): AgentqError {
  const whose = queue === "" ? "the names of the queues" : `the queue ${quoted(queue)}`;
  return new AgentqError("backend-error", `${label}: ${whose}: ${ofOtherType(key, wanted, is)}`, {
    cause,
    hint:
      "Another program made it: move the key away (RENAME), or remove it where nobody needs it (DEL).",
    details: { queue, key },
  });
}

/** True for an error of {@link foreignKey}. */
export function isForeignKey(error: unknown): boolean {
  return isAgentqError(error, "backend-error") && typeof error.details?.key === "string";
}
