/**
 * Reading a stretch of a chain in few round trips: each round asks at once for everything that the
 * entries read so far name, their parents and the targets of their skip lists, so that n entries take
 * about log n rounds instead of n. Only the reader's cache is filled: whoever walks the stretch checks
 * every step, and where another client wrote entries without lists, walks as before.
 */
import type { Oid } from "../git/types.ts";
import { isAgentqError } from "../errors.ts";
import { type ChainReader, type Entry, type NumberedChain, numberOf } from "./chain.ts";

/** Fills the cache with the entries from `top` down to number `lowest`, as far as they can be guessed. */
export async function readAhead<C extends NumberedChain>(
  chains: ChainReader,
  chain: C,
  top: Entry<C>,
  lowest: number,
  signal?: AbortSignal,
): Promise<void> {
  const asked = new Set<Oid>([top.oid]);
  // A list that lies may name anything; it gets no more than the stretch is long.
  let budget = 2 * (numberOf(top) - lowest) + 128;
  for (let known = [top]; known.length > 0;) {
    const wanted: Oid[] = [];
    for (const entry of known) {
      for (const oid of namedBy(entry, lowest)) {
        if (asked.has(oid) || budget-- <= 0) continue;
        asked.add(oid);
        wanted.push(oid);
      }
    }
    if (wanted.length === 0) return;
    try {
      const read = await chains.read(chain, wanted, signal);
      known = read.filter((entry): entry is Entry<C> => entry !== null);
    } catch (error) {
      // A wrong list: what is really wrong with the chain, the walk will say.
      if (isAgentqError(error, "corrupt-chain")) return;
      throw error;
    }
  }
}

function* namedBy(entry: Entry<NumberedChain>, lowest: number): Iterable<Oid> {
  const parent = entry.parents[0];
  if (parent !== undefined && numberOf(entry) > lowest) yield parent;
  for (const [number, oid] of entry.message.agentq?.skip ?? []) {
    if (number >= lowest && number < numberOf(entry)) yield oid;
  }
}
