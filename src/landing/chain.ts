/**
 * Reading the chains: entries by id, by ticket number, and backwards.
 *
 * A chain is a line of commits whose first parent is the entry before. Entries never change, so what
 * was read once is kept, within a bound. Every step checks what it can: the number counts down by one
 * along parents, a ticket's second parent is its candidate, a landed result's is what it landed.
 */
import { AgentqError, isAgentqError } from "../errors.ts";
import type { ObjectReader, Oid, Origin } from "../git/types.ts";
import { createAlong } from "./along.ts";
import type { NewCommit } from "./chain-commit.ts";
import {
  createMemoryCache,
  decodeEntry,
  type Entry,
  type LockEntry,
  MAX_COMMIT_BYTES,
  type ResultEntry,
  type TicketEntry,
} from "./chain-entry.ts";
import { commitRequests } from "./commit-requests.ts";
import type { EntryCache } from "./entry-cache.ts";
import { type ChainName, corruptChain } from "./messages.ts";
import { jumpTowards, NEAR } from "./skip.ts";

export type { Entry, LockEntry, ResultEntry, TicketEntry } from "./chain-entry.ts";

/** The numbered chains: `lock` entries have no numbers. */
export type NumberedChain = "queue" | "done";

export interface ChainReader {
  /** The entries at `oids`, read together; null for a genesis commit. */
  read<C extends ChainName>(chain: C, oids: readonly Oid[], signal?: AbortSignal): Promise<
    (Entry<C> | null)[]
  >;
  /** Heads of several chains in one round trip. */
  readHeads(heads: Partial<Record<ChainName, Oid>>, signal?: AbortSignal): Promise<Heads>;
  /** The entry before `entry`; null at the beginning. If it isn't known, `generations` come together. */
  before<C extends ChainName>(
    chain: C,
    entry: Entry<C>,
    signal?: AbortSignal,
    generations?: number,
  ): Promise<Entry<C> | null>;
  /** Entry `number`, at or below `head`; of `behind` entries before it a few come with it. */
  find<C extends NumberedChain>(
    chain: C,
    head: Entry<C>,
    number: number,
    signal?: AbortSignal,
    behind?: number,
  ): Promise<Entry<C>>;
  /** The commits of entries that were read lately: the origin has them, a clone need not. */
  readonly commits: { get(oid: Oid): Uint8Array | undefined };
  /** Puts an entry that this process wrote itself into the cache. */
  remember<C extends ChainName>(chain: C, commit: NewCommit): Promise<Entry<C>>;
}

export interface Heads {
  readonly queue: TicketEntry | null;
  readonly done: ResultEntry | null;
  readonly lock: LockEntry | null;
}

interface Wanted {
  readonly chain: ChainName;
  readonly oid: Oid;
}

/** Entries of another client that are read together, with as many generations of what they refer to. */
export const STRETCH = 16;
/** Bound of what is kept in memory, in bytes of commits. */
const CACHE_BYTES = 8 * 1024 * 1024;
/** What of it outlasts a look at the heads: a lander goes on for long, and needs the newest only. */
const LASTING_BYTES = 1024 * 1024;

/** A reader of the chains of one origin; what `kept` has is not asked for. */
export function createChainReader(origin: Origin, kept?: EntryCache): ChainReader {
  const cache = createMemoryCache(CACHE_BYTES);
  const along = createAlong(LASTING_BYTES);
  const request = commitRequests(origin);

  /**
   * Reads what the cache lacks, in one round trip; with more `generations` than one, entries before them
   * come along where the origin can say them at once. Anything the origin doesn't have is an error.
   */
  async function load(
    wanted: readonly Wanted[],
    signal?: AbortSignal,
    generations = 1,
  ): Promise<void> {
    // Copied: what was found may be a view of a whole pack.
    const keep = async ({ chain, oid }: Wanted, found: Uint8Array) => {
      const content = new Uint8Array(found);
      cache.set(key(chain, oid), await decodeEntry(chain, oid, content), content);
      kept?.put(oid, content);
    };
    const missing: Wanted[] = [];
    for (const one of wanted) {
      if (cache.touch(key(one.chain, one.oid))) continue;
      const content = along.take(one.oid) ?? kept?.get(one.oid);
      if (content) await keep(one, content);
      else missing.push(one);
    }
    if (missing.length === 0) return;
    const objects = origin.objects();
    const contents = objects
      ? contentsIn(objects, missing)
      : await request(missing.map(({ oid }) => oid), generations, signal);
    for (const one of missing) {
      const found = contents.get(one.oid);
      if (!found) throw corruptChain(one.chain, one.oid, "is missing in the origin");
      await keep(one, found);
      along.keepBefore(one.oid, contents, generations - 1);
    }
  }

  function entryAt<C extends ChainName>(chain: C, oid: Oid): Entry<C> | null {
    const entry = cache.get(key(chain, oid))?.entry;
    if (!entry) throw new AgentqError("internal", `entry ${oid} vanished from the cache`);
    return "genesis" in entry ? null : entry as unknown as Entry<C>;
  }

  const reader: ChainReader = {
    async read(chain, oids, signal) {
      await load(oids.map((oid) => ({ chain, oid })), signal);
      return oids.map((oid) => entryAt(chain, oid));
    },
    async readHeads(heads, signal) {
      const given = (Object.entries(heads) as [ChainName, Oid | undefined][])
        .filter((one): one is [ChainName, Oid] => one[1] !== undefined)
        .map(([chain, oid]) => ({ chain, oid }));
      cache.trim(LASTING_BYTES);
      // Each head is held against the entry before it.
      await load(given, signal, 2);
      return {
        queue: heads.queue ? entryAt("queue", heads.queue) : null,
        done: heads.done ? entryAt("done", heads.done) : null,
        lock: heads.lock ? entryAt("lock", heads.lock) : null,
      };
    },
    async before(chain, entry, signal, generations) {
      const parent = entry.parents[0];
      if (parent === undefined) {
        if (chain === "lock") return null;
        throw corruptChain(chain, entry.oid, "has no parent and is no genesis");
      }
      const found = await load([{ chain, oid: parent }], signal, generations).then(
        () => entryAt(chain, parent),
        (error) => {
          if (!isAgentqError(error, "corrupt-chain")) throw error;
          throw corruptChain(chain, entry.oid, `follows what is no entry of it: ${error.message}`);
        },
      );
      if (chain !== "lock") assertFollows(chain as NumberedChain, entry, found);
      return found;
    },
    async find(chain, head, number, signal, behind = 0) {
      const generations = (left: number) => left < NEAR ? left + 1 + Math.min(behind, NEAR) : 1;
      let at = head;
      if (number < 0 || number > numberOf(at)) {
        throw corruptChain(
          chain,
          head.oid,
          `is ticket ${numberOf(at)}: ticket ${number} isn't before it`,
        );
      }
      while (numberOf(at) > number) {
        const { skip, block } = at.message.agentq ?? {};
        const jump = jumpTowards([skip, block], numberOf(at), number);
        if (jump === null) {
          // Another client's entries are walked.
          const left = Math.min(numberOf(at) - 1 - number, STRETCH - 1);
          const previous = await reader.before(chain, at, signal, left + 1);
          if (!previous) {
            throw corruptChain(
              chain,
              at.oid,
              `begins the chain, and there is no ticket ${number} before it`,
            );
          }
          at = previous;
          continue;
        }
        await load([{ chain, oid: jump.oid }], signal, generations(jump.number - number));
        const landed = entryAt(chain, jump.oid);
        if (!landed || numberOf(landed) !== jump.number) {
          throw corruptChain(
            chain,
            at.oid,
            `says that ${jump.oid} is ticket ${jump.number}, which it isn't`,
          );
        }
        at = landed;
      }
      return at;
    },
    commits: {
      get: (oid) =>
        (cache.get(key("queue", oid)) ?? cache.get(key("done", oid)) ?? cache.get(key("lock", oid)))
          ?.content,
    },
    async remember(chain, { oid, content }) {
      const entry = await decodeEntry(chain, oid, content);
      cache.set(key(chain, oid), entry, content);
      return entry as unknown as Entry<typeof chain>;
    },
  };
  return reader;
}

/** Numbers count up by one along a chain, from the genesis. */
function assertFollows(chain: NumberedChain, entry: Entry<ChainName>, before: unknown): void {
  const actual = numberOf(before as Entry<NumberedChain> | null);
  const number = numberOf(entry as Entry<NumberedChain>);
  if (actual === number - 1) return;
  throw corruptChain(
    chain,
    entry.oid,
    `is ticket ${number} but follows ${actual < 0 ? "the genesis" : `ticket ${actual}`}`,
  );
}

/** The ticket number of an entry. */
export function numberOf(entry: Entry<NumberedChain> | null): number {
  return entry === null ? -1 : entry.message.ticket;
}

function key(chain: ChainName, oid: Oid): string {
  return `${chain} ${oid}`;
}

function statOrNull(objects: ObjectReader, oid: Oid) {
  try {
    return objects.stat(oid);
  } catch (error) {
    if (isAgentqError(error, "object-missing")) return null;
    throw error;
  }
}

/** Sizes are looked at first where objects can be read directly: a huge one is never loaded. */
function contentsIn(objects: ObjectReader, wanted: readonly Wanted[]): Map<Oid, Uint8Array> {
  const found = new Map<Oid, Uint8Array>();
  for (const { chain, oid } of wanted) {
    const stat = statOrNull(objects, oid);
    if (stat === null) continue;
    const { type, size } = stat;
    if (type !== "commit") throw corruptChain(chain, oid, `is a ${type}, not a commit`);
    if (size > MAX_COMMIT_BYTES) throw corruptChain(chain, oid, `has ${size} bytes`);
    found.set(oid, objects.read(oid).data);
  }
  return found;
}
