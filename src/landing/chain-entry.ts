/** One entry of a chain: what its commit must hold, and the ones kept in memory. */
import type { Oid } from "../git/types.ts";
import { commitTime, parseChainCommit } from "./chain-commit.ts";
import {
  type ChainName,
  corruptChain,
  decodeMessage,
  type Genesis,
  MAX_MESSAGE_BYTES,
  type MessageOf,
} from "./messages.ts";

/** One entry of a chain. */
export interface Entry<C extends ChainName> {
  readonly oid: Oid;
  readonly parents: readonly Oid[];
  /** Committer time, in seconds: the clock of whoever wrote it. */
  readonly seconds: number;
  readonly message: MessageOf[C];
}

export type TicketEntry = Entry<"queue">;
export type ResultEntry = Entry<"done">;
export type LockEntry = Entry<"lock">;

/** The parentless first commit of a chain. */
export interface GenesisEntry {
  readonly oid: Oid;
  readonly genesis: true;
}

/** Commit headers around a message of the largest size. */
export const MAX_COMMIT_BYTES = MAX_MESSAGE_BYTES + 4096;

/** Reads the commit of an entry, everything in it validated. @throws `corrupt-chain` */
export async function decodeEntry(
  chain: ChainName,
  oid: Oid,
  content: Uint8Array,
): Promise<Entry<ChainName> | GenesisEntry> {
  if (content.length > MAX_COMMIT_BYTES) {
    throw corruptChain(chain, oid, `has ${content.length} bytes, more than any client writes`);
  }
  const commit = parseChainCommit(chain, oid, content);
  const message = await decodeMessage(chain, oid, commit.message);
  if (isGenesis(message)) {
    if (commit.parents.length > 0) throw corruptChain(chain, oid, "is a genesis with parents");
    return { oid, genesis: true };
  }
  const second = commit.parents[1];
  if (message.kind === "ticket" && second !== message.candidate) {
    const parent = second === undefined ? "no second parent" : `the second parent ${second}`;
    throw corruptChain(chain, oid, `names the candidate ${message.candidate} and has ${parent}`);
  }
  if (message.kind === "result" && (message.landed ?? undefined) !== second) {
    const landed = message.landed ? `says that ${message.landed}` : "says that nothing";
    const parent = second === undefined ? "no second parent" : `the second parent ${second}`;
    throw corruptChain(chain, oid, `${landed} was landed and has ${parent}`);
  }
  if (message.kind === "result" && (message.reason === "landed") !== (second !== undefined)) {
    throw corruptChain(
      chain,
      oid,
      `gives the reason ${JSON.stringify(message.reason)} and landed ${second ?? "nothing"}`,
    );
  }

  return { oid, parents: commit.parents, seconds: commitTime(commit), message };
}

function isGenesis(message: Genesis | MessageOf[ChainName]): message is Genesis {
  return message.kind === "genesis";
}

export interface KeptEntry {
  readonly entry: Entry<ChainName> | GenesisEntry;
  readonly content: Uint8Array;
}

/** The entries of a reader. */
export interface MemoryCache {
  /** Whether it is there; if so, it is the newest from now on. */
  touch(key: string): boolean;
  get(key: string): KeptEntry | undefined;
  set(key: string, entry: KeptEntry["entry"], content: Uint8Array): void;
  /** Drops the oldest beyond so many bytes. */
  trim(limit: number): void;
}

/** Keeps the most recently used entries within `limit` bytes, and always the last few. */
export function createMemoryCache(limit: number): MemoryCache {
  const entries = new Map<string, KeptEntry>();
  let total = 0;
  const trim = (limit: number) => {
    for (const [oldest, kept] of entries) {
      if (total <= limit || entries.size <= 256) break;
      entries.delete(oldest);
      total -= kept.content.length;
    }
  };
  return {
    trim,
    touch(key) {
      const known = entries.get(key);
      if (known === undefined) return false;
      entries.delete(key);
      entries.set(key, known);
      return true;
    },
    get: (key) => entries.get(key),
    set(key, entry, content) {
      total += content.length - (entries.get(key)?.content.length ?? 0);
      entries.delete(key);
      entries.set(key, { entry, content });
      trim(limit);
    },
  };
}
