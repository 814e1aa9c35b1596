/** The lists that a new entry carries, from what the entries before it say; see skip.ts. */
import { isAgentqError } from "../errors.ts";
import { type ChainReader, type Entry, type NumberedChain, numberOf, STRETCH } from "./chain.ts";
import type { SkipList } from "./messages.ts";
import { blockList, blockParts, nextSkipList } from "./skip.ts";

/** As they stand in the message. */
export interface Lists {
  readonly skip?: SkipList;
  readonly block?: SkipList;
}

/**
 * The lists of the entry that follows `head`; none for the first. Nothing but `head` and the entry before
 * it is read, with two exceptions of one round trip each: behind several entries of another client, and
 * for one entry in 4096.
 */
export async function listsAfter<C extends NumberedChain>(
  chains: ChainReader,
  chain: C,
  head: Entry<C> | null,
  signal?: AbortSignal,
): Promise<Lists> {
  if (head === null) return {};
  const skip = await skipAfter(chains, chain, head, signal);
  const parts = blockParts(numberOf(head) + 1, skip);
  if (parts.length === 0) return { skip };
  try {
    const entries = await chains.read(chain, parts, signal);
    const lists = entries.map((entry) => entry?.message.agentq?.skip);
    const block = blockList(numberOf(head) + 1, skip, lists);
    return block.length > 0 ? { skip, block } : { skip };
  } catch (error) {
    // A list that leads nowhere: readers will go without the block.
    if (isAgentqError(error, "corrupt-chain")) return { skip };
    throw error;
  }
}

async function skipAfter<C extends NumberedChain>(
  chains: ChainReader,
  chain: C,
  head: Entry<C>,
  signal?: AbortSignal,
): Promise<SkipList> {
  const without = [head];
  try {
    for (let at = head; !at.message.agentq?.skip && without.length < STRETCH; without.push(at)) {
      const before = await chains.before(chain, at, signal, STRETCH - without.length);
      if (before === null) break;
      at = before;
    }
  } catch (error) {
    // What is wrong behind the head is for those to say who read it.
    if (!isAgentqError(error, "corrupt-chain")) throw error;
  }
  // As if those that have no list had theirs.
  let list: SkipList | undefined = without.at(-1)!.message.agentq?.skip;
  for (const entry of without.reverse()) list = nextSkipList(numberOf(entry), entry.oid, list);
  return list!;
}
